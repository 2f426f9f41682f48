"""One owner per store: an advisory lock beside it, held until the owner exits.

The kernel releases the lock when its process ends, however it ends, so a store is free again at once after a
crash. The lock file itself stays: removing it would let two processes hold two locks, one on the removed file
and one on its successor. The first line of the file names the owner. The second line is the mark: what the owner
has stored, outside of the store itself, so that a store that has lost something is noticed.

A forked child shares the parent's lock. Closing the descriptor in the child does not release the lock, which
belongs to the open file that the parent still has. The child must close it, or the store would stay locked
after the parent's death.
"""

import os
import sys
import time
import weakref
from contextlib import suppress
from pathlib import Path

from weakfeedback.journal.events import OwnedElsewhere, StoreUnavailable

_LINE = 128  # bytes
_FAR = 2**30  # Windows hides locked bytes from other readers: lock one beyond the text


def check_process(pid: int) -> None:
    """Raise RuntimeError unless this is process ``pid``."""
    if os.getpid() != pid:
        raise RuntimeError(
            f"this object belongs to process {pid}; a forked child must open a store of its own"
        )


class Owner:
    """Exclusive ownership of the store at ``path``; OwnedElsewhere if another process has it.

    The message names that process: "runs.db is in use by process 1234 since 2026-11-15 22:31:05".
    """

    def __init__(self, path: Path):
        self._descriptor = -1
        self.pid = os.getpid()
        file = path.with_name(path.name + ".lock")
        try:
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            free = _lock(self._descriptor)
        except OSError as problem:
            self.release()
            raise StoreUnavailable(
                problem.errno, f"{path} cannot be locked: {file.name}: {problem.strerror}"
            ) from None
        if not free:
            words = _line(self._descriptor, 0)
            self.release()
            who = words if words.startswith("process ") else "another process"
            raise OwnedElsewhere(f"{path} is in use by {who}: close it there first")
        # who owned it before; "" if nobody has, or the power failed
        self.previous = _line(self._descriptor, 0)
        self.mark = _line(self._descriptor, 1)  # of the previous owner
        _write(self._descriptor, 0, f"process {self.pid} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        _owners.add(self)

    def note(self, mark: str) -> None:
        """Write the mark; it survives the end of the process."""
        if self._descriptor >= 0:
            _write(self._descriptor, 1, mark)

    def release(self) -> None:
        """Release the store; in a forked child the parent's lock is not affected."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.release()


def _line(descriptor: int, number: int) -> str:
    with suppress(OSError):
        os.lseek(descriptor, number * _LINE, os.SEEK_SET)
        text = os.read(descriptor, _LINE).decode("ascii", "replace").partition("\n")[0].strip()
        if text.isprintable():
            return text
    return ""


def _write(descriptor: int, number: int, text: str) -> None:
    line = text.ljust(_LINE - 1)[: _LINE - 1] + "\n"
    with suppress(OSError):  # disk full: the lock works without
        os.lseek(descriptor, number * _LINE, os.SEEK_SET)
        os.write(descriptor, line.encode("ascii", "replace"))


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_owners: "weakref.WeakSet[Owner]" = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    for owner in list(_owners):
        owner.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)
