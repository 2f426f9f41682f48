"""Equations as MathML, which browsers draw themselves: no script and no network."""

from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.errors import ExtensionError

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
# operators whose limits stand above and below in an equation of its own
WIDE = {"∑", "∏", "min", "max", "inf", "sup", "lim"}
UNDER = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
BOLD_ONE = "𝟏"  # browsers do not make digits bold by an attribute


def to_mathml(latex, display):
    """Return the MathML of an equation."""
    try:
        root = ElementTree.fromstring(convert(latex, display=display))
    except Exception as error:
        raise ExtensionError(f"an equation cannot be drawn: {latex!r}: {error}") from None
    for element in root.iter():
        element.tag = element.tag.replace(f"{{{NAMESPACE}}}", "")
        if element.get("mathvariant") == "bold" and element.text == "1":
            element.text = BOLD_ONE
            del element.attrib["mathvariant"]
    if display == "block":
        for element in root.iter():
            if element.tag in UNDER and "".join(element[0].itertext()).strip() in WIDE:
                element.tag = UNDER[element.tag]
    root.set("xmlns", NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")


def inline(self, node):
    """Visit an equation within a line."""
    self.body.append(to_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(self, node):
    """Visit an equation of its own; a wide one scrolls by itself."""
    self.body.append(f'<div class="equation">{to_mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Make the renderer known to Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
