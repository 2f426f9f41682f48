"""Temporary files: those of the dead are removed, those of the living stay."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from weakfeedback import files, simulate
from weakfeedback.cascade import CascadeProblem, UssTs


@pytest.fixture(autouse=True)
def unswept():
    files._sweep_once.cache_clear()


KILLED = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from weakfeedback.files import write_atomically

    def slowly(part):
        part.write_text("half")
        print("begun", flush=True)
        time.sleep(600)

    write_atomically(Path(sys.argv[1]) / "x.parquet", slowly)
    """
)


def begun(folder):
    """A process in the middle of writing, and its temporary file."""
    command = [sys.executable, "-c", KILLED, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    (part,) = folder.glob("*.part")
    return process, part


def test_what_a_killed_writer_left_is_removed_and_a_living_ones_stays(tmp_path):
    process, part = begun(tmp_path)
    try:
        os.utime(part, (1e9, 1e9))  # however old
        files.remove_old_parts(tmp_path)
        assert part.exists()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    files.write_atomically(tmp_path / "other", lambda part: part.write_text("x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other"]


def test_a_store_is_swept_when_it_is_opened(tmp_path):
    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    go = {"horizon": 20, "replications": 1, "compiled": False, "store": tmp_path}
    simulate(problem, {"p": UssTs(problem.costs)}, **go)
    process, part = begun(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert part.exists()
    simulate(problem, {"p": UssTs(problem.costs)}, **go)  # finds everything, so writes nothing
    assert not part.exists()


def test_those_of_other_machines_stay_for_an_hour(tmp_path):
    place = "0000" if files._place() != "0000" else "1111"
    parts = [tmp_path / f".x.{place}000000{k:02d}abcd.part" for k in range(2)]
    for part in parts:
        part.write_text("half")
    os.utime(parts[0], (time.time() - 4000, time.time() - 4000))
    mine = tmp_path / ".notes.part"
    mine.write_text("not ours")
    os.utime(mine, (1e9, 1e9))
    files.remove_old_parts(tmp_path)
    assert not parts[0].exists()
    assert parts[1].exists()
    assert mine.exists()
