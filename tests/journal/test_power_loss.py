"""A loss of power at any moment loses nothing that anybody was told, on disks made from what strace saw."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.journal.powerless import Disk, calls, images, strace, why_not

from weakfeedback.journal import SqliteStore
from weakfeedback.live import Cascade

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def watch():
    """Returns the system calls of a run, if they can be watched."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)

    def run(folder, rounds, every):
        folder.mkdir()
        trace = folder.parent / f"{folder.name}.trace"
        command = [*strace(trace), sys.executable, "-m", "tests.journal.powerless", str(folder)]
        command += [str(rounds), str(every)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT, timeout=600)
        return calls(trace, folder, lambda file, data: int(data.split()[1]) if file == 1 else None)

    return run


def lost(image, folder, told):
    """How many events that somebody was told of are not on this disk; what is there must be sound."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for path, content in image.items():
        if not path.endswith((".lock", "-shm")):
            (folder / Path(path).name).write_bytes(content)
    if not (folder / "runs.db").exists():
        return told + 1
    with SqliteStore.open(folder / "runs.db") as store:
        assert store.integrity() == []
        last = store.last(1)[0] if store.learners() else -1
        return max(0, told - last)


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_nothing_that_was_told_is_lost(watch, tmp_path, count):
    found = watch(tmp_path / "run", 100 if count == 20 else 400, 1)
    assert sum(call.kind == "sync" and call.path.endswith("-wal") for call in found) >= 100
    # the log was carried over
    assert any(call.kind == "sync" and call.path.endswith(".db") for call in found)
    most = 0
    for told, image in images(found, tmp_path / "run", count, seed=count):
        assert lost(image, tmp_path / "disk", told) == 0
        most = max(most, told)
    assert most > 100
    with Cascade.open(
        tmp_path / "disk" / "runs.db", 3
    ) as cascade:  # the last one also decides again as before
        assert cascade.rounds > 40


def test_a_journal_that_waits_for_no_disk_loses_what_was_told(watch, tmp_path):
    """The control: what the test above shows is not shown by a journal that is safe from kills only."""
    found = watch(tmp_path / "run", 60, 1000)
    results = [
        lost(image, tmp_path / "disk", told) for told, image in images(found, tmp_path / "run", 20, seed=1)
    ]
    assert sum(result > 0 for result in results) > 5
    assert 0 in results  # it is the disk that was not waited for: with luck nothing was lost


def test_a_disk_keeps_what_was_synchronised_and_any_part_of_the_rest():
    from random import Random

    from tests.journal.powerless import Call

    disk = Disk()
    for call in (
        Call("make", "/f/a"),
        Call("sync", "/f"),
        Call("write", "/f/a", 0, b"x" * 1024),
        Call("sync", "/f/a"),
        Call("write", "/f/a", 512, b"y" * 1024),
        Call("make", "/f/b"),
    ):
        disk.apply(call, "/f")
    seen = {tuple(sorted(disk.image(Random(seed)).items())) for seed in range(300)}
    contents = {dict(image)["/f/a"] for image in seen}
    x, y, nothing = (c * 512 for c in (b"x", b"y", b"\0"))
    assert contents == {x + x, x + y, x + y + y, x + x + y}
    assert nothing not in contents
    assert {"/f/b" in dict(image) for image in seen} == {True, False}
