"""The code behind a page: what was stored with the results, and the modules that this package itself names.

Nothing is ever imported here. A file of results names the code that made it; that text is shown, never run.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from weakfeedback.engine.sources import source_of_module, stored_sources


class Sources:
    """The modules that a page links to. The page is standalone, so it includes their text."""

    def __init__(self) -> None:
        self._views: dict[str, dict[str, Any]] = {}

    def stored(self, about: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return anchor and path of each module whose text is stored with results."""
        kept = stored_sources(dict(about))
        for module, source in kept.items():
            self._views.setdefault(module, _view(module, source))
        return self._links(kept)

    def loaded(self, modules: Iterable[str]) -> list[tuple[str, str]]:
        """Return the same for loaded modules that this package names, without repetitions."""
        names = list(dict.fromkeys(modules))
        for module in names:
            if module not in self._views and (source := source_of_module(sys.modules.get(module))):
                self._views[module] = _view(module, source)
        return self._links(names)

    def _links(self, modules: Iterable[str]) -> list[tuple[str, str]]:
        views = [self._views[module] for module in modules if module in self._views]
        return [(view["key"], view["path"]) for view in views]

    def views(self) -> list[dict[str, Any]]:
        """Return what the template shows of all linked modules, by path."""
        return sorted(self._views.values(), key=lambda view: view["path"])


def module_of(function: Any) -> str:
    """Return the module of a function; for a partial, that of the wrapped function.

    >>> module_of(functools.partial(module_of, 1))
    'weakfeedback.report.sources'
    """
    while isinstance(function, functools.partial):
        function = function.func
    found: str = function.__module__
    return found


def _view(module: str, source: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": "code-" + module.replace(".", "-").replace("_", "-"),
        "path": module.replace(".", "/") + ".py",
        "title": source["title"],
        "classes": [{"name": name, "words": words} for name, words in source["classes"]],
        "code": source["code"],
    }
