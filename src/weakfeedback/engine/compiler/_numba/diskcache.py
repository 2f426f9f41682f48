"""Numba's disk cache, in a folder of our choice, with a checksum that is verified before anything is loaded.

Numba stores pickles and machine code. A damaged file could cause any error or a crash, so every file begins with a
digest of its name and contents; a file that does not match is removed, and its function compiled again.

Before it loads anything, Numba fills its tables of everything that can be compiled, a third of a second in every new
process. Machine code needs none of them but the addresses of the functions that it calls: they are stored with it by
name, and the tables are filled only if one of them is unknown.
"""

import contextlib
import functools
import hashlib
import pickle
import sys
import time
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba.core import caching
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from weakfeedback.engine.compiler._numba.parts import UNRESOLVED
from weakfeedback.engine.compiler.cache import lost

DIGEST = hashlib.sha256().digest_size
OLD = 3600.0  # seconds after which a half-written file is removed


def attach(dispatcher: Any, function: Any, place: Path, stamp: str) -> None:
    """Make a dispatcher cache its code in a folder."""
    dispatcher._cache = Kept(function, place, stamp)


class _Locator(caching._CacheLocator):
    """Locates the cache files of a function."""

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

    def check_cachable(self, data: Any) -> bool:
        """Whether code can be loaded again: not with calls that are resolved in this process only."""
        resolved = not any(name.startswith(UNRESOLVED) for name in _names_needed(data.library))
        return resolved and bool(super().check_cachable(data))

    def reduce(self, data: Any) -> tuple[list[str], Any]:
        """Return what is stored of compiled code: the names that it needs, and the code."""
        return _names_needed(data.library), super().reduce(data)

    def rebuild(self, target_context: Any, payload: tuple[list[str], Any]) -> Any:
        """Return the compiled code that was stored."""
        names, code = payload
        rtsys.initialize(target_context)
        if not all(map(binding.address_of_symbol, names)):
            target_context.refresh()
        return super().rebuild(target_context, code)


def _names_needed(library: Any) -> list[str]:
    """The names of functions and variables outside a library that its code needs."""
    module = library._final_module
    parts = [*module.functions, *module.global_variables]
    return [part.name for part in parts if part.is_declaration and not part.name.startswith("llvm.")]


class _Files(caching.IndexDataCacheFile):
    """The index and the code of one function, each behind a digest."""

    def _load_index(self) -> dict[Any, Any]:
        try:
            stamp, overloads = self._load_data(self._index_name)
        except FileNotFoundError:
            return {}
        return overloads if stamp == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, Any]) -> None:
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
    """The cache of one function; on any error the function is compiled instead."""

    def __init__(self, function: Any, place: Path, stamp: str) -> None:
        locator = _Locator(function, place, stamp)
        self._name = repr(function)
        self._py_func = function
        self._impl = _Contents(function, locator)
        self._cache_path = str(place)
        self._cache_file: Any = _Files(self._cache_path, self._impl.filename_base, stamp)
        self.enable()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature, or None."""
        try:
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except Exception:  # a pickle of something that no longer exists, or a damaged file
            self._cache_file.remove()
            return None

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Whether there is code for a signature."""
        with contextlib.suppress(Exception):  # a damaged file holds nothing
            return self._index_key(sig, target_context.codegen()) in self._cache_file._load_index()
        return False

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code for a signature, if the disk allows it."""
        _sweep(Path(self._cache_path))
        try:
            try:
                super().save_overload(sig, data)
            except (ValueError, pickle.UnpicklingError):  # a damaged index
                self._cache_file.remove()
                super().save_overload(sig, data)
        except Warning:
            raise
        except Exception as reason:  # disk full, or no permission
            lost.append(str(reason))
            self.disable()


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


@functools.lru_cache(maxsize=64)
def _sweep(place: Path) -> None:
    """Remove files left by killed writers, once per process."""
    with contextlib.suppress(OSError):
        for part in place.glob("*.tmp.*"):
            if time.time() - part.stat().st_mtime > OLD:
                part.unlink()
