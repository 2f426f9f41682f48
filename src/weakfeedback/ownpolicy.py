"""Finding a user's own policy: MODULE:FACTORY, where MODULE may be a file."""

from __future__ import annotations

import _thread
import contextlib
import difflib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from weakfeedback.plaintext import one_line
from weakfeedback.terminal import FAILED, Stop, say


def load_factory(words: str, problem: Any) -> Callable[[Any], Any]:
    """Return the factory that ``MODULE:FACTORY`` names, once it has made a policy for ``problem``."""
    place, colon, name = words.rpartition(":")
    if not (place and colon and name):
        raise Stop(f"MODULE:FACTORY must be a module, a colon and a name in it, got {words!r}")
    sys.path.insert(0, os.getcwd())
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (Exception, SystemExit) as error:
        raise Stop(f"{place} cannot be imported: {type(error).__name__}: {_line(error)}") from None
    factory = getattr(module, name, None)
    if not callable(factory):
        raise Stop(f"{place} has no function {name!r}{_near(module, name)}")
    try:
        factory(problem)
    except (Exception, SystemExit) as error:
        raise Stop(
            f"{words} must take a problem and return a policy; called with a {type(problem).__name__} it raised "
            f"{type(error).__name__}: {_line(error)}"
        ) from None
    return factory


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
