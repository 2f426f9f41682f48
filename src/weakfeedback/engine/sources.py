"""The source of the code that made results, read at that time, so that a report need not import the code."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

LONGEST = 200_000  # maximum number of characters of one text
MOST = 50  # maximum number of modules of results, and of classes of a module
NAME = re.compile(r"[\w.]{1,200}\Z")
OWN = "weakfeedback."


def sources_of(policies: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return, by module, the docstrings of its classes and its code.

    For a module of this package all of it; for a user's module only the policy's class, as the rest may be private.
    """
    found: dict[str, dict[str, Any]] = {}
    for cls in dict.fromkeys(type(policy) for policy in policies):
        name = cls.__module__
        if name.startswith(OWN):
            found.setdefault(name, source_of_module(sys.modules.get(name)) or {})
        else:
            kept = found.setdefault(name, {"title": "", "classes": [], "code": ""})
            kept["classes"].append(_words_of(cls))
            kept["code"] = "\n\n".join(filter(None, [kept["code"], _code(cls)]))[:LONGEST]
    return {name: kept for name, kept in found.items() if kept and NAME.match(name)}


def source_of_module(module: ModuleType | None) -> dict[str, Any] | None:
    """Return the same for a loaded module; None if it has no source."""
    code = _code(module)
    if module is None or not code:
        return None
    classes = [
        _words_of(thing)
        for name, thing in vars(module).items()
        if isinstance(thing, type)
        and thing.__module__ == module.__name__
        and thing.__doc__
        and name[0] != "_"
    ]
    title = (module.__doc__ or "").strip().split("\n")[0]
    return {"title": title, "classes": classes[:MOST], "code": code}


def stored_sources(about: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the code recorded in a file, as plain text of bounded length; anything else is left out."""
    kept = about.get("sources")
    if not isinstance(kept, dict):
        return {}
    found = {}
    for name, source in list(kept.items())[:MOST]:
        if not (NAME.match(name) and isinstance(source, dict) and _is_text(source.get("code"))):
            continue
        classes = source.get("classes")
        pairs = [pair for pair in classes if _is_pair(pair)] if isinstance(classes, list) else []
        title = source.get("title")
        title = title if _is_text(title) else ""
        found[name] = {"title": title, "classes": pairs[:MOST], "code": source["code"]}
    return found


def _words_of(cls: type) -> list[str]:
    return [cls.__name__, inspect.cleandoc(cls.__doc__ or "")[:LONGEST]]


def _code(thing: Any) -> str:
    try:
        return inspect.getsource(thing)[:LONGEST]
    except (OSError, TypeError, SyntaxError, IndexError):  # a notebook's, or edited since
        return ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_text, value))
