"""Writing files so that a reader never meets half of one."""

import glob
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in its place at once and for good."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        os.close(
            os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        )  # as readable as any file of its owner
        write(part)
        with open(part, "rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_leftovers(path: Path, age: float = 60.0) -> None:
    """Remove the temporary files of writers of ``path`` that were killed: those untouched for ``age`` seconds."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"):
        with suppress(OSError):  # another process may do the same
            if time.time() - part.stat().st_mtime > age:
                part.unlink()


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
