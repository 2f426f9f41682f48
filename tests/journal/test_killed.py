"""A process killed at any moment loses nothing that it was told is stored."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.rig.processes import PATIENCE

from weakfeedback.journal import SqliteStore


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("trials", [25, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_at_any_moment_nothing_acknowledged_is_lost(trials, tmp_path):
    command = [sys.executable, "-m", "tests.journal.killed", str(tmp_path), str(trials), str(trials)]
    subprocess.run(command, check=True, timeout=PATIENCE, cwd=Path(__file__).parents[2])
    assert [path.read_text() for path in tmp_path.glob("*.failed")] == []
    acknowledged = 0
    with SqliteStore.open(tmp_path / "runs.db", create=False) as store:
        assert store.integrity() == []
        floors = {one.id: store.floor(one.id).seq for one in store.learners()}
        events = {
            id: {event.seq: event for event in store.events(id, floor - 1)} for id, floor in floors.items()
        }
        for told in tmp_path.glob("*.told"):
            for line in told.read_text().splitlines():
                learner, seq, number = map(int, line.split())
                acknowledged += 1
                if seq >= floors[learner]:
                    body = events[learner][seq].body
                    assert (body["trial"], body["by"]) == (int(told.stem), number)
    assert acknowledged > 10 * trials  # or the children were killed before they did anything
    assert sorted(path.name for path in tmp_path.glob("runs.db*")) == ["runs.db", "runs.db.lock"]
