"""The compiler's cache on disk: in a folder of the user's own, and with a checksum before anything is loaded.

Numba keeps pickles and machine code. A damaged one would end in any error or in a crash, so every file begins with a
digest of its name and contents; what does not match is removed and compiled again. The digest finds accidents only:
whoever can write into the folder can run code in every process that reads it. No failure of the cache is an error.
"""

import contextlib
import functools
import hashlib
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.core import caching, config
from numba.core.serialize import dumps

VARIABLE = "WEAKFEEDBACK_CACHE"
NAME = f"numba-{numba.__version__}-numpy-{np.__version__}"
DIGEST = hashlib.sha256().digest_size
OLD = 3600.0  # seconds after which a half-written file is nobody's
lost: list[str] = []  # why compiled code of this process could not be kept


def kept(function: Any, stamp: str, **options: Any) -> Any:
    """``function`` compiled when it is called, and kept on disk; ``stamp`` says what its name does not."""
    dispatcher = njit(**options)(function)
    place = folder()
    if place is not None:
        with contextlib.suppress(
            AttributeError, TypeError
        ):  # of another Numba, whose cache is made otherwise
            dispatcher._cache = Kept(function, place, stamp)
    return dispatcher


def folder() -> Path | None:
    """Where compiled code is kept; None if there is no such place."""
    given = os.environ.get(VARIABLE) or getattr(config, "CACHE_DIR", "")
    return _made(Path(given) / f"weakfeedback-{NAME}", None) if given else _own()


def user_folder() -> Path | None:
    """The user's folder for what can be made again, as the platform has it."""
    try:
        if sys.platform == "win32":
            local = os.environ.get("LOCALAPPDATA", "")
            return (Path(local) if local else Path.home() / "AppData" / "Local") / "weakfeedback" / "cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "weakfeedback"
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))
        return (given if given.is_absolute() else Path.home() / ".cache") / "weakfeedback"
    except RuntimeError:  # nobody's home
        return None


def _own() -> Path | None:
    home = user_folder()
    return None if home is None else _made(home / NAME, home)


@functools.lru_cache(maxsize=64)
def _made(place: Path, private: Path | None) -> Path | None:
    """The folder, made if need be; None if it cannot be, or if others could write into ``private``."""
    try:
        for part in (private, place):
            if part is not None:
                part.parent.mkdir(parents=True, exist_ok=True)
                part.mkdir(mode=0o700, exist_ok=True)
        return place if private is None or _is_private(private) else None
    except OSError:
        return place if place.is_dir() else None  # it can be read, if not written


def _is_private(place: Path) -> bool:
    if os.name == "nt":
        return True
    found = place.stat()
    if found.st_uid != os.geteuid():
        return False
    if found.st_mode & 0o077:
        place.chmod(0o700)
    return True


class _Locator(caching._CacheLocator):
    """Says where a function is kept."""

    def __init__(self, function: Any, place: Path, stamp: str) -> None:
        self._py_file = function.__code__.co_filename
        self._place, self._stamp = place, stamp

    def get_cache_path(self) -> str:
        return str(self._place)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return "0"


class _Contents(caching.CompileResultCacheImpl):
    def __init__(self, function: Any, locator: _Locator) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = locator
        name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(name, getattr(sys, "abiflags", ""))


class _Files(caching.IndexDataCacheFile):
    """The index and the code of one function, each behind a digest."""

    def _load_index(self) -> dict:
        try:
            stamp, overloads = self._load_data(self._index_name)
        except FileNotFoundError:
            return {}
        return overloads if stamp == self._source_stamp else {}

    def _save_index(self, overloads: dict) -> None:
        self._save_data(self._index_name, (self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if content[:DIGEST] != _digest(name, content[DIGEST:]):
            raise ValueError(f"{name} is damaged")
        return pickle.loads(content[DIGEST:])

    def _save_data(self, name: str, data: Any) -> None:
        content = dumps(data)
        with self._open_for_write(self._data_path(name)) as stream:
            stream.write(_digest(name, content) + content)

    def remove(self) -> None:
        """Remove all files of the function."""
        place = Path(self._cache_path)
        base = self._index_name.removesuffix(".nbi")
        for path in (place / self._index_name, *place.glob(f"{base}.*.nbc")):
            with contextlib.suppress(OSError):
                path.unlink()


class Kept(caching.FunctionCache):
    """The cache of one function; whatever is wrong with it, the function is compiled."""

    def __init__(self, function: Any, place: Path, stamp: str) -> None:
        locator = _Locator(function, place, stamp)
        self._name = repr(function)
        self._py_func = function
        self._impl = _Contents(function, locator)
        self._cache_path = str(place)
        self._cache_file: Any = _Files(self._cache_path, self._impl.filename_base, stamp)
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for some types, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a pickle of what is no longer there, or a damaged file
            self._cache_file.remove()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for some types, if the disk lets us."""
        _sweep(Path(self._cache_path))
        try:
            try:
                super().save_overload(sig, data)
            except (ValueError, pickle.UnpicklingError):  # a damaged index
                self._cache_file.remove()
                super().save_overload(sig, data)
        except Warning:
            raise
        except Exception as reason:  # a full or forbidden disk
            lost.append(str(reason))
            self.disable()


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


@functools.lru_cache(maxsize=64)
def _sweep(place: Path) -> None:
    """Remove what killed writers left, once in a process."""
    with contextlib.suppress(OSError):
        for part in place.glob("*.tmp.*"):
            if time.time() - part.stat().st_mtime > OLD:
                part.unlink()
