"""The contents at the side, faster: Sphinx copies the whole contents of the site for every page.

The theme shows the titles of pages alone there. So the copies are made of contents that have nothing else, and the
lists of all public names stay where they are shown, on their own pages.
"""

from sphinx import addnodes


def titles(contents):
    """Return a copy of the contents of a page without its sections and names; what it includes stays."""
    short = contents.deepcopy()
    for entry in short.children:
        if len(entry) > 1:
            included = list(entry.findall(addnodes.toctree))
            if included:
                entry[1][:] = included
            else:
                entry.pop(1)
    return short


def shorten(app, pagename, templatename, context, doctree):  # noqa: ARG001
    """Let the theme's function see the titles only."""
    make = context.get("toctree")
    if make is None:
        return
    if not hasattr(app, "short_contents"):
        app.short_contents = {page: titles(contents) for page, contents in app.env.tocs.items()}

    def toctree(**options):
        if not options.get("titles_only"):
            return make(**options)
        whole, app.env.tocs = app.env.tocs, app.short_contents
        try:
            return make(**options)
        finally:
            app.env.tocs = whole

    context["toctree"] = toctree


def setup(app):
    """Come before the theme."""
    app.connect("html-page-context", shorten, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
