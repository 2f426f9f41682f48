"""Writing files so that a reader never meets half of one."""

import os
import secrets
from collections.abc import Callable
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


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
