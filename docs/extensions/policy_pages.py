"""Pages and lists of policies, made from the catalogue.

A policy without a page in ``algorithms/`` gets one, made from its class, in ``algorithms/made/`` (not kept in the
repository). The directive ``policies`` lists those of a setting, one line each:

    ```{policies} cascade
    ```
"""

import re
import shutil
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

from weakfeedback.settings.catalog import SETTINGS

MADE = "made"
PAGE = """---
orphan: true
---
# {name}

{words}

```{{eval-rst}}
.. autoclass:: {module}.{cls}
   :members:
   :no-index:
```
"""


def pages(folder):
    """Return, by class, as "cascade.UssTs", the first page that mentions it."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        for rank, name in enumerate(re.findall(r"\{py:class\}`weakfeedback\.(\w+\.\w+)`", path.read_text())):
            if name not in found or rank < found[name][0]:
                found[name] = (rank, path.stem)
    return {name: page for name, (_, page) in found.items()}


def make_pages(folder):
    """Write the pages that are missing; return the page of every policy, by setting and name."""
    known, made = pages(folder), folder / MADE
    shutil.rmtree(made, ignore_errors=True)
    found = {}
    for setting in SETTINGS.values():
        for name, cls in setting.policies.items():
            page = known.get(f"{setting.name}.{cls.__name__}")
            if page is None:
                page = f"{MADE}/{setting.name}-{name.lower()}"
                made.mkdir(exist_ok=True)
                words = {"words": setting.words_of(name), "module": cls.__module__, "cls": cls.__name__}
                (folder / f"{page}.md").write_text(PAGE.format(name=name, **words))
            found[setting.name, name] = page
    return found


class Policies(SphinxDirective):
    """The policies of a setting with their words, one line each."""

    required_arguments = 1

    def run(self):
        """Return the list."""
        setting, places = SETTINGS[self.arguments[0]], self.config.policy_places
        lines = [
            f"- [{name}]({places[f'{setting.name} {name}']}.md): {setting.words_of(name)}"
            for name in setting.policies
        ]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app):
    """Make the pages before any is read."""
    app.add_config_value("policy_places", {}, "env", (dict,))
    app.add_directive("policies", Policies)

    def prepare(_app, config):
        found = make_pages(Path(app.srcdir) / "algorithms")
        config.policy_places = {f"{setting} {name}": page for (setting, name), page in found.items()}

    app.connect("config-inited", prepare)
    return {"parallel_read_safe": True}
