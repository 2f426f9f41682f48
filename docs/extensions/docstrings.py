"""Docstrings as reStructuredText: they are written for people, and made safe for Sphinx here.

Headings with a line of dashes become rubrics, lists of parameters become definition lists, indented formulae become
literal blocks, and every character that reStructuredText would take for markup is escaped outside ``literals``. A
docstring that still does not parse is shown as it is, so that no docstring can break the build.
"""

import functools
import inspect
import re

from docutils import nodes
from docutils.core import Publisher, publish_doctree
from docutils.utils import Reporter

LISTS = {"Parameters", "Attributes", "Arguments", "Returns", "Raises", "Yields", "Other Parameters"}
LITERAL = re.compile(r"(``.+?``)")
STRONG = re.compile(r"(\*\*[^*\s][^*]*\*\*|(?<![\w*])\*[^*\s][^*]*\*(?![\w*]))")
BULLET = re.compile(r"(\s*(?:[*-]|\d+\.|[a-z]\.) )(.*)", re.DOTALL)
INITIAL = re.compile(r"[A-Z]\. ")
# what a reader of the reference needs of a policy; its other methods are explained in its file
PROTOCOL = {"select", "update", "update_pairs", "choose", "observe", "wants_label", "learn_label"}


def to_rst(lines):
    """Return the lines of a docstring as reStructuredText."""
    out, section, k = [], "", 0
    while k < len(lines):
        line = lines[k]
        if k + 1 < len(lines) and line.strip() and re.fullmatch(r"-{3,}", lines[k + 1].strip()):
            section = line.strip()
            out += ["", f".. rubric:: {section}", ""]
            k += 2
        elif section in LISTS:
            k = definitions(lines, k, out)
            section = ""
        elif section == "References" and line.strip():
            start = "* \\" if INITIAL.match(line) else "  "
            out.append(start + escape(line))
            k += 1
        elif line.lstrip().startswith(">>>"):
            k = copy_until_blank(lines, k, out)
        elif indented(line) and is_formula(lines, k):
            k = literal(lines, k, out)
        else:
            out.append(escape(line))
            k += 1
    return [*out, ""]


def indented(line):
    """Whether a line is indented by four or more columns."""
    return line.startswith("    ") and bool(line.strip())


def is_formula(lines, k):
    """Whether an indented block is a formula: it follows a blank line and what comes before is no list."""
    before = [line for line in lines[:k] if line.strip()]
    return (not before or not lines[k - 1].strip()) and not (
        before and (BULLET.fullmatch(before[-1]) or indented(before[-1]))
    )


def literal(lines, k, out):
    """Copy an indented block unchanged."""
    out += ["", "::", ""]
    while k < len(lines) and (indented(lines[k]) or not lines[k].strip()):
        out.append(lines[k])
        k += 1
    out.append("")
    return k


def copy_until_blank(lines, k, out):
    """Copy an example."""
    out.append("")
    while k < len(lines) and lines[k].strip():
        out.append(lines[k])
        k += 1
    out.append("")
    return k


def definitions(lines, k, out):
    """Turn ``name : kind`` and what is indented below into a definition list, up to the next heading."""
    while k < len(lines):
        heading = k + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[k + 1].strip()) and lines[k].strip()
        if heading:
            return k
        line = lines[k]
        if not line.strip():
            out.append("")
        elif indented(line):
            out.append("    " + escape(line.strip()))
        elif k + 1 < len(lines) and not lines[k + 1].strip() and " : " not in line and "," not in line:
            out.append(escape(line))  # a sentence after the list
        else:
            name, _, kind = line.partition(" : ")
            out += ["", f"**{escape(name.strip())}**" + (f" : {escape(kind.strip())}" if kind else "")]
            nothing = k + 1 >= len(lines) or not indented(lines[k + 1])
            if nothing:
                out.append("")
        k += 1
    return k


def escape(line):
    """Escape markup outside literals; keep *words*, **words**, and the marks of lists."""
    mark, rest = "", line
    found = BULLET.fullmatch(line)
    if found:
        mark, rest = found.groups()
    parts = LITERAL.split(rest)
    return mark + "".join(part if part.startswith("``") else escape_text(part) for part in parts)


def escape_text(text):
    """Escape what is not emphasis; single backquotes become literals."""
    pieces = STRONG.split(text)
    return "".join(piece if STRONG.fullmatch(piece) else plain(piece) for piece in pieces)


def plain(text):
    """Escape every character of markup."""
    text = re.sub(r"`([^`]+)`", lambda found: f"\0{found.group(1)}\0", text)
    text = re.sub(r"([\\*|_`])", r"\\\1", text)
    return re.sub("\0(.*?)\0", lambda found: f"``{found.group(1)}``".replace("\\", ""), text)


@functools.cache
def quiet():
    """Settings of docutils with which it complains of nothing, made once: they take as long as a docstring."""
    publisher = Publisher(reader="standalone", parser="rst", writer="null")
    above = Reporter.SEVERE_LEVEL + 1
    overrides = {"report_level": above, "halt_level": above, "_disable_config": True}
    publisher.process_programmatic_settings(None, overrides, None)
    return publisher.settings


def parses(text):
    """Whether docutils reports no problem."""
    try:
        document = publish_doctree(text, settings=quiet().copy())
    except Exception:  # a directive that only Sphinx understands
        return False
    return not any(
        message["level"] >= Reporter.WARNING_LEVEL
        for message in (*document.parse_messages, *document.findall(nodes.system_message))
    )


def rewrite(*context):
    """Replace the lines of a docstring, the last argument of autodoc's hook."""
    lines = context[-1]
    rst = to_rst([line.expandtabs() for line in lines])
    if not parses("\n".join(rst)):
        rst = ["::", "", *("    " + line for line in lines), ""]
    lines[:] = rst


def skip(app, what, name, obj, skipped, options):  # noqa: ARG001
    """Leave out the inner methods of policies, and what other libraries put in (the hook of autodoc)."""
    if not str(getattr(obj, "__module__", None) or "weakfeedback").startswith("weakfeedback"):
        return True
    owner = getattr(obj, "__qualname__", "").rpartition(".")[0]
    home = inspect.getmodule(obj)
    cls = getattr(home, owner, None) if owner else None
    is_policy = hasattr(cls, "delay_safe")
    return True if is_policy and name not in PROTOCOL else None


def setup(app):
    """Connect to autodoc."""
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
