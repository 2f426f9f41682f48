"""Finding a user's own policy: MODULE:FACTORY, where MODULE may be a file."""

from __future__ import annotations

import _thread
import contextlib
import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from weakfeedback.plaintext import one_line
from weakfeedback.terminal import FAILED, Stop, say
from weakfeedback.validate import brief


def load_factory(words: str, problem: Any) -> Callable[[Any], Any]:
    """Return the factory that ``MODULE:FACTORY`` names, once it has made a policy for ``problem``."""
    factory = _find(words)
    _call(factory, words, problem, {})
    return factory


class OwnPolicy:
    """A class or function called ``MODULE:NAME`` that makes a policy of a problem and options."""

    def __init__(self, words: str) -> None:
        self.words = words
        try:
            self._factory = _find(words)
        except Stop as error:
            raise ValueError(str(error)) from None

    def option_names(self) -> list[str]:
        """What it takes by name after the problem."""
        try:
            parameters = list(inspect.signature(self._factory).parameters.values())[1:]
        except (TypeError, ValueError):
            return []
        return [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]

    def make(self, problem: Any, options: Mapping[str, Any]) -> Any:
        """Return a fresh policy; ValueError of one line if there comes none."""
        try:
            policy = _call(self._factory, self.words, problem, options)
        except Stop as error:
            raise ValueError(str(error)) from None
        if isinstance(policy, type) or not callable(getattr(policy, "select", None)):
            raise ValueError(
                f"{self.words} must return a policy, an object with a method select(), got {brief(policy)}"
            )
        return policy


def _find(words: str) -> Callable[..., Any]:
    place, colon, name = words.rpartition(":")
    if not (place and colon and name):
        raise Stop(f"MODULE:FACTORY must be a module, a colon and a name in it, got {words!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (Exception, SystemExit) as error:
        raise Stop(f"{place} cannot be imported: {type(error).__name__}: {_line(error)}") from None
    factory = getattr(module, name, None)
    if not callable(factory):
        raise Stop(f"{place} has no function {name!r}{_near(module, name)}")
    return factory


def _call(factory: Callable[..., Any], words: str, problem: Any, options: Mapping[str, Any]) -> Any:
    try:
        return factory(problem, **options)
    except (Exception, SystemExit) as error:
        kind = type(problem).__name__
        given = f" and {', '.join(options)}" if options else ""
        raise Stop(
            f"{words} must take a problem and return a policy; called with a {kind}{given} it raised "
            f"{type(error).__name__}: {_line(error)}"
        ) from None


@contextlib.contextmanager
def time_limit(words: str, seconds: float, grace: float = 10.0) -> Iterator[None]:
    """End what runs inside after so many seconds: by an interrupt, and if that is not heard by leaving the process."""
    told = f"{words}: not done after {seconds:g} s; --max-seconds gives it longer"
    over, done = threading.Event(), threading.Event()

    def watch() -> None:
        if done.wait(seconds):
            return
        over.set()
        _thread.interrupt_main()
        if not done.wait(grace):  # compiled code does not listen, and some code catches everything
            say(f"weakfeedback: {told}", error=True)
            os._exit(FAILED)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        if over.is_set():
            raise Stop(told, FAILED) from None
        raise
    finally:
        done.set()


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


def _line(error: BaseException) -> str:
    return one_line(str(error))
