"""Write files so that a reader never sees a half-written one."""

import functools
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from weakfeedback.canonical import hashed

OLD = 3600.0  # seconds


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file next to ``path``, then replace ``path`` by it, atomically and durably."""
    _sweep_once(path.parent)
    part = path.with_name(f".{path.name}.{_token()}.part")
    try:
        # the permissions of any other file of its owner
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        write(part)
        with open(part, "rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_old_parts(folder: Path) -> None:
    """Remove temporary files whose writers are dead, or ran elsewhere and have not touched them for an hour."""
    with suppress(OSError):
        for part in list(folder.glob(f".*.{'[0-9a-f]' * 16}.part")):
            with suppress(OSError):  # another process may do the same
                if _is_abandoned(part):
                    part.unlink()


@functools.lru_cache(maxsize=256)
def _sweep_once(folder: Path) -> None:
    remove_old_parts(folder)


def _is_abandoned(part: Path) -> bool:
    token = part.name.split(".")[-2]
    if token.startswith(_place()):
        return not _is_alive(int(token[4:12], 16))
    return time.time() - part.stat().st_mtime > OLD


def _is_alive(pid: int) -> bool:
    if os.name == "nt":  # on this platform a signal would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _token() -> str:
    """Return sixteen digits that no other writer has: the place, the process and a random number."""
    return f"{_place()}{os.getpid() & 0xFFFFFFFF:08x}{secrets.token_hex(2)}"


@functools.cache
def _place() -> str:
    """Return four digits shared by all processes that can see each other: a booted machine, or a container."""
    import socket  # here alone: a program that writes no file need not load it

    words = [socket.gethostname()]
    with suppress(OSError):
        words.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        words.append(os.readlink("/proc/self/ns/pid"))
    return hashed(*words)[:4]


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened on this platform
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
