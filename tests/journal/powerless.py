"""A live object with a journal, whose system calls are watched, and the disks that a loss of power could leave.

``python -m tests.journal.powerless FOLDER ROUNDS EVERY`` plays rounds and, whenever a call has returned, writes the
number of the last event to standard output. `calls` reads what strace saw of it, or of any other program, and `images`
makes disks of that: the content of a file is certain up to its last synchronisation; of the later writes any subset may
have reached the disk, torn at sectors of 512 bytes. A file that was made is certain to be there after the
synchronisation of its folder.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.rig.processes import PATIENCE

SECTOR = 512
CALLS = "openat,open,close,pwrite64,write,lseek,fdatasync,fsync,ftruncate,unlink,unlinkat,rename"
SENDS = "writev,sendto,sendmsg"  # what a server does with sockets beside writing
# may have happened as soon as they have begun
BEGUN = ("write(", "pwrite64(", "writev(", "sendto(", "sendmsg(")
# what was told by writing this to a file of this number, if anything was
Told = Callable[[int, bytes], int | None]


def strace(trace: Path, *options: str, calls: str = CALLS) -> list[str]:
    """The beginning of a command whose system calls go to a file."""
    return ["strace", "-y", "-xx", "-s", "10000000", "-e", f"trace={calls}", "-o", str(trace), *options]


def why_not() -> str | None:
    """Why system calls cannot be watched here, if they cannot."""
    if shutil.which("strace") is None:
        return "strace is needed: install Debian's strace"
    try:
        tried = subprocess.run(
            ["strace", "-e", "trace=none", "true"], capture_output=True, text=True, timeout=PATIENCE
        )
    except OSError as problem:
        return f"strace cannot be run: {problem}"
    if tried.returncode != 0:
        return f"strace may not watch processes here: {tried.stderr.strip()[-200:]}"
    return None


def main(folder: str, rounds: int, every: int) -> None:
    from tests.live import inside

    from weakfeedback.live import Cascade

    cascade = Cascade.open(f"{folder}/runs.db", 3, [1, 2, 3], 10, seed=1, every=every)
    # the log is carried over in the middle, too
    inside.journal(cascade).store._all("PRAGMA wal_autocheckpoint=25")
    for i in range(rounds):
        made = cascade.decide()
        os.write(1, f"told {inside.last_seq(cascade)}\n".encode())
        cascade.feedback(made.id, [i % 2] * (made.arm + 1))
        os.write(1, f"told {inside.last_seq(cascade)}\n".encode())
        if i % 20 == 19:
            inside.snapshot(cascade)
    os._exit(0)


@dataclass
class Call:
    """One system call: what it did to which file."""

    kind: str  # write, cut, sync, make, remove, told
    path: str = ""
    offset: int = 0
    data: bytes = b""
    told: int = -1


def lines_of(trace: Path) -> Iterator[str]:
    """The calls of all threads, whole, in the order in which they count: writes as they begin, others as they end."""
    found: list[str] = []
    begun: dict[str, tuple[int, str]] = {}
    for line in trace.read_text().splitlines():
        thread, _, call = line.partition(" ") if line[:1].isdigit() else ("", "", line)
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[thread] = len(found), call.removesuffix("<unfinished ...>").rstrip()
            found.append("")
        elif call.startswith("<... "):
            place, start = begun.pop(thread)
            whole = start + call.partition("resumed>")[2]
            if whole.startswith(BEGUN):
                found[place] = whole
            else:
                found.append(whole)
        else:
            found.append(call)
    return iter(found)


def calls(trace: Path, folder: Path, told: Told) -> list[Call]:
    """The calls that matter, in order."""
    found: list[Call] = []
    places: dict[int, int] = {}  # where a file is written next
    known: set[str] = set()
    for line in lines_of(trace):
        match = re.match(r"(\w+)\((.*)\) += (\d+)", line)
        if match is None:
            continue
        name, arguments, result = match[1], match[2], int(match[3])
        file = re.match(r"(\d+)<([^>]*)>", arguments)
        if name in ("openat", "open"):
            opened = re.search(r"= \d+<([^>]*)>", line)
            path = _unhex(opened[1]).decode() if opened else ""
            places[result] = 0
            if "O_CREAT" in arguments and path.startswith(str(folder)) and path not in known:
                known.add(path)
                found.append(Call("make", path))
            continue
        if name in ("unlink", "unlinkat"):
            path = _unhex(re.search(r'"([^"]*)"', arguments)[1]).decode()
            known.discard(path)
            found.append(Call("remove", path))
            continue
        if file is None:
            continue
        number, path = int(file[1]), _unhex(file[2]).decode()
        if not path.startswith(str(folder)):
            if f"{name}(" in BEGUN:
                said = told(number, b"".join(_unhex(text) for text in re.findall(r'"([^"]*)"', arguments)))
                if said is not None:
                    found.append(Call("told", told=said))
            continue
        if name in ("write", "pwrite64"):
            data = _unhex(re.search(r'"([^"]*)"', arguments)[1])[:result]
            offset = int(arguments.rpartition(",")[2]) if name == "pwrite64" else places.get(number, 0)
            if name == "write":
                places[number] = offset + result
            found.append(Call("write", path, offset, data))
        elif name == "lseek":
            places[number] = result
        elif name == "ftruncate":
            found.append(Call("cut", path, int(arguments.rpartition(",")[2])))
        elif name in ("fsync", "fdatasync"):
            found.append(Call("sync", path))
    return found


def _unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if "\\x" in text else text.encode()


@dataclass
class Disk:
    """What is certainly on the disk, and what may be."""

    sure: dict[str, bytearray] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)  # names that certainly exist
    # made and removed since the folder was synchronised
    names: list[tuple[str, bool]] = field(default_factory=list)
    later: dict[str, list[Call]] = field(default_factory=dict)

    def apply(self, call: Call, folder: str) -> None:
        if call.kind in ("write", "cut"):
            self.later.setdefault(call.path, []).append(call)
        elif call.kind in ("make", "remove"):
            self.names.append((call.path, call.kind == "make"))
        elif call.kind == "sync" and call.path == folder:
            for path, made in self.names:
                (self.there.add if made else self.there.discard)(path)
            self.names.clear()
        elif call.kind == "sync":
            content = self.sure.setdefault(call.path, bytearray())
            for one in self.later.pop(call.path, []):
                _do(content, one)

    def image(self, chance: random.Random) -> dict[str, bytes]:
        """The files after a loss of power now."""
        there = set(self.there)
        for path, made in self.names:
            if chance.random() < 0.5:
                (there.add if made else there.discard)(path)
        share = chance.choice((0.0, 0.3, 0.7, 1.0))
        found = {}
        for path in there:
            content = bytearray(self.sure.get(path, b""))
            for one in self.later.get(path, []):
                if one.kind == "cut":
                    if chance.random() < share:
                        _do(content, one)
                    continue
                first = -(one.offset % SECTOR)  # writes need not begin with a sector
                for start in range(first, len(one.data), SECTOR):
                    if chance.random() < share:
                        begin = max(start, 0)
                        part = one.data[begin : start + SECTOR]
                        _do(content, Call("write", path, one.offset + begin, part))
            found[path] = bytes(content)
        return found


def _do(content: bytearray, call: Call) -> None:
    if call.kind == "cut":
        del content[call.offset :]
        content.extend(bytes(call.offset - len(content)))
        return
    content.extend(bytes(max(0, call.offset - len(content))))
    content[call.offset : call.offset + len(call.data)] = call.data


def images(found: list[Call], folder: Path, count: int, seed: int) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Disks after losses of power, each with the number of the last event that somebody was told of before.

    Half of the moments are those just after somebody was told.
    """
    chance = random.Random(seed)
    told = [n for n, call in enumerate(found) if call.kind == "told"]
    moments = sorted(chance.choice(told) if n % 2 else chance.randrange(len(found)) for n in range(count))
    disk, last = Disk(), -1
    for n, call in enumerate(found):
        disk.apply(call, str(folder))
        last = max(last, call.told)
        while moments and moments[0] == n:
            moments.pop(0)
            yield last, disk.image(chance)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
