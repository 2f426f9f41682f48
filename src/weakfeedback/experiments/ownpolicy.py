"""Finding a user's own policy: MODULE:FACTORY, where MODULE may be a file."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from weakfeedback.plaintext import one_line
from weakfeedback.validate import brief


class NotAPolicy(ValueError):
    """The name given does not lead to a policy; the message is one line."""


def load_factory(words: str, problem: Any) -> Callable[[Any], Any]:
    """Return the factory that ``MODULE:FACTORY`` names, once it has made a policy for ``problem``."""
    factory = _find(words)
    _call(factory, words, problem, {})
    return factory


class OwnPolicy:
    """A class or function called ``MODULE:NAME`` that makes a policy of a problem and options."""

    def __init__(self, words: str) -> None:
        self.words = words
        self._factory = _find(words)

    def option_names(self) -> list[str]:
        """Return the names of its arguments after the problem."""
        try:
            parameters = list(inspect.signature(self._factory).parameters.values())[1:]
        except (TypeError, ValueError):
            return []
        return [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]

    def make(self, problem: Any, options: Mapping[str, Any]) -> Any:
        """Return a new policy; raise a one-line ValueError if that fails."""
        policy = _call(self._factory, self.words, problem, options)
        if isinstance(policy, type) or not callable(getattr(policy, "select", None)):
            raise ValueError(
                f"{self.words} must return a policy, an object with a method select(), got {brief(policy)}"
            )
        return policy


def _find(words: str) -> Callable[..., Any]:
    place, colon, name = words.rpartition(":")
    if not (place and colon and name):
        raise NotAPolicy(f"MODULE:FACTORY must be a module, a colon and a name in it, got {words!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (Exception, SystemExit) as error:
        raise NotAPolicy(
            f"{place} cannot be imported: {type(error).__name__}: {one_line(str(error))}"
        ) from None
    factory: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(factory):
        raise NotAPolicy(f"{place} has no function {name!r}{_near(module, name)}")
    return factory


def _call(factory: Callable[..., Any], words: str, problem: Any, options: Mapping[str, Any]) -> Any:
    try:
        return factory(problem, **options)
    except (Exception, SystemExit) as error:
        kind = type(problem).__name__
        given = f" and {', '.join(options)}" if options else ""
        raise NotAPolicy(
            f"{words} must take a problem and return a policy; called with a {kind}{given} it raised "
            f"{type(error).__name__}: {one_line(str(error))}"
        ) from None


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError("no such file")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _near(module: ModuleType, name: str) -> str:
    known = [word for word, value in vars(module).items() if callable(value) and not word.startswith("_")]
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
