"""The disk cache of compiled code, in a folder owned by the user.

A user who can write into the folder can run code in every process that reads it: the digests in its files detect
accidents only. No failure of the cache is an error.
"""

import contextlib
import functools
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

VARIABLE = "WEAKFEEDBACK_CACHE"
NAME = f"numba-{importlib.metadata.version('numba')}-numpy-{importlib.metadata.version('numpy')}"
lost: list[str] = []  # why compiled code of this process could not be cached
_only: ContextVar[bool] = ContextVar("only", default=False)


@contextlib.contextmanager
def loading_only() -> Iterator[None]:
    """Load compiled code in this block, and compile nothing: what is not on disk counts as what cannot be compiled."""
    before = _only.set(True)
    try:
        yield
    finally:
        _only.reset(before)


def is_loading_only() -> bool:
    """Whether nothing may be compiled now."""
    return _only.get()


def keep(dispatcher: Any, function: Any, stamp: str) -> None:
    """Make a function's dispatcher cache its code on disk; ``stamp`` holds what the function's name does not."""
    place = folder()
    if place is None:
        return
    try:
        from weakfeedback.engine.compiler._numba import diskcache

        diskcache.attach(dispatcher, function, place, stamp)
    except (
        ImportError,
        AttributeError,
        TypeError,
    ) as reason:  # a Numba version whose cache works differently
        lost.append(str(reason))


def folder() -> Path | None:
    """Return the folder of compiled code; None if there is none."""
    given = os.environ.get(VARIABLE) or os.environ.get("NUMBA_CACHE_DIR")
    return _make(Path(given) / f"weakfeedback-{NAME}", None) if given else _own_folder()


def user_folder() -> Path | None:
    """Return the user's cache folder on this platform."""
    try:
        if sys.platform == "win32":
            local = os.environ.get("LOCALAPPDATA", "")
            return (Path(local) if local else Path.home() / "AppData" / "Local") / "weakfeedback" / "cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "weakfeedback"
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))
        return (given if given.is_absolute() else Path.home() / ".cache") / "weakfeedback"
    except RuntimeError:  # there is no home folder
        return None


def _own_folder() -> Path | None:
    home = user_folder()
    return None if home is None else _make(home / NAME, home)


@functools.lru_cache(maxsize=64)
def _make(place: Path, private: Path | None) -> Path | None:
    """Create the folder unless it exists; return None if that fails, or if other users could write into ``private``."""
    try:
        for part in (private, place):
            if part is not None:
                part.parent.mkdir(parents=True, exist_ok=True)
                part.mkdir(mode=0o700, exist_ok=True)
        return place if private is None or _is_private(private) else None
    except OSError:
        return place if place.is_dir() else None  # readable, even if not writeable


def _is_private(place: Path) -> bool:
    if os.name == "nt":
        return True
    found = place.stat()
    if found.st_uid != os.geteuid():
        return False
    if found.st_mode & 0o077:
        place.chmod(0o700)
    return True
