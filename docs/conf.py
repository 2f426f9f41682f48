"""Sphinx configuration. Nothing here or on the pages needs a network."""

import sys
from pathlib import Path

from weakfeedback import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "weakfeedback"
author = "The weakfeedback developers"
copyright = "the weakfeedback developers, MIT licence"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docstrings",
    "mathml",
    "numbers_directive",
    "policy_pages",
    "sidebar",
]
# figures and repository files are linked from the pages, but are no pages themselves
exclude_patterns = ["extensions", "printed", "static", "drawings", "images"]
nitpicky = True
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
add_module_names = False
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True

results_folder = str(HERE.parent / "out" / "docs-results")

html_theme = "furo"
html_title = "weakfeedback"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_search_scorer = str(HERE / "search.js")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5fa5", "color-brand-content": "#0b5fa5"},
    "dark_css_variables": {"color-brand-primary": "#7fbdf0", "color-brand-content": "#7fbdf0"},
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
