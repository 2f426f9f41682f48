"""The code behind a page: each module it speaks of is shown on it, with what its classes say of themselves."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterable
from typing import Any


class Sources:
    """The modules a page links to. The page stands alone, so their text is part of it."""

    def __init__(self) -> None:
        self._views: dict[str, dict[str, Any]] = {}

    def links(self, modules: Iterable[str]) -> list[tuple[str, str]]:
        """Anchor and path of each module whose source can be read, in the order given, without repetitions."""
        found = []
        for module in dict.fromkeys(modules):
            if module not in self._views and (view := _view(module)):
                self._views[module] = view
            if module in self._views:
                found.append((self._views[module]["key"], self._views[module]["path"]))
        return found

    def views(self) -> list[dict[str, Any]]:
        """What the template shows of all modules that were linked to, by path."""
        return sorted(self._views.values(), key=lambda view: view["path"])


def module_of(function: Any) -> str:
    """The module in which a function stands; of a partial call, that of the function called.

    >>> module_of(functools.partial(module_of, 1))
    'weakfeedback.report.sources'
    """
    while isinstance(function, functools.partial):
        function = function.func
    return function.__module__


def _view(module: str) -> dict[str, Any] | None:
    try:
        loaded = importlib.import_module(module)
        code = inspect.getsource(loaded)
    except (ImportError, OSError, TypeError, ValueError):
        return None
    classes = [
        {"name": name, "words": inspect.cleandoc(thing.__doc__)}
        for name, thing in vars(loaded).items()
        if isinstance(thing, type) and thing.__module__ == module and thing.__doc__ and name[0] != "_"
    ]
    return {
        "key": "code-" + module.replace(".", "-").replace("_", "-"),
        "path": module.replace(".", "/") + ".py",
        "title": (loaded.__doc__ or "").strip().split("\n")[0],
        "classes": classes,
        "code": code,
    }
