"""The chunk store: resumes after a kill, never serves other numbers, refuses another configuration."""

import json
import os
import signal
import sys
import textwrap

import numpy as np
import pytest
from tests.rig.processes import started, wait_until

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, FixedArm, UssTs, UssUcb
from weakfeedback.engine import simulate as engine
from weakfeedback.engine.plan import DamagedWarning
from weakfeedback.engine.store import StoreMismatch

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])


@pytest.fixture
def ran(monkeypatch):
    """The tasks really played."""
    tasks = []
    original = engine.run

    def noting(task):
        tasks.append(task)
        return original(task)

    monkeypatch.setattr(engine, "run", noting)
    return tasks


def go(store, policy=None, **options):
    policy = policy or UssTs(PROBLEM.costs)
    return simulate(
        PROBLEM, {"p": policy}, **{"horizon": 100_000, "replications": 6, "store": store, **options}
    )


def test_a_second_run_plays_nothing(tmp_path, ran):
    first = go(tmp_path)
    assert len(ran) == 3  # two replications of 100,000 rounds to a chunk
    second = go(tmp_path)
    assert len(ran) == 3
    assert first.frame.equals(second.frame)
    assert not list(tmp_path.glob("*.part"))


def test_more_replications_play_only_the_new_ones(tmp_path, ran):
    go(tmp_path, replications=4)
    longer = go(tmp_path, replications=6)
    assert [(task.first, task.last) for task in ran] == [(0, 2), (2, 4), (4, 6)]
    assert longer.frame.equals(go(None).frame)


class Edited(FixedArm):
    def select(self, rng):
        return self.K - 1


def test_other_code_or_parameters_are_never_served(tmp_path, ran):
    go(tmp_path)
    go(tmp_path, UssUcb(PROBLEM.costs, alpha=0.5))
    go(tmp_path, UssUcb(PROBLEM.costs, alpha=0.6))
    before = go(tmp_path, Edited(PROBLEM.costs, 0)).final().loc["p", "mean"]
    assert len(ran) == 12
    original = Edited.select
    try:
        Edited.select = lambda self, rng: 0  # the same name, other code
        after = go(tmp_path, Edited(PROBLEM.costs, 0)).final().loc["p", "mean"]
    finally:
        Edited.select = original
    assert len(ran) == 15
    assert before != after


@pytest.mark.parametrize(
    ("options", "name"),
    [({"horizon": 90_000}, "horizon"), ({"seed": 1}, "seed"), ({"marks": 10}, "marks")],
)
def test_another_configuration_is_refused(tmp_path, options, name):
    go(tmp_path, replications=1)
    with pytest.raises(StoreMismatch, match=f"belongs to another configuration: its {name} is") as caught:
        go(tmp_path, replications=1, **options)
    assert "\n" not in str(caught.value)


def test_another_problem_is_refused(tmp_path):
    go(tmp_path, replications=1)
    other = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.41])
    with pytest.raises(StoreMismatch, match=r"its problem is another one; give another folder$"):
        simulate(other, {"p": UssTs(other.costs)}, horizon=100_000, replications=1, store=tmp_path)


def test_damaged_chunks_are_made_again(tmp_path, ran):
    first = go(tmp_path)
    chunks = sorted(tmp_path.glob("*.parquet"))
    chunks[0].write_bytes(b"")
    chunks[1].write_bytes(chunks[1].read_bytes()[:100])
    with pytest.warns(DamagedWarning, match=f"{chunks[0].name}, {chunks[1].name} are damaged") as caught:
        again = go(tmp_path)
    assert len(caught) == 1
    assert len(ran) == 5
    assert first.frame.equals(again.frame)


def test_a_strange_folder_is_refused(tmp_path):
    (tmp_path / "store.json").write_text("{")
    with pytest.raises(StoreMismatch, match=r"unreadable store\.json"):
        go(tmp_path, replications=1)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="cannot be used"):
        go(tmp_path / "file", replications=1)
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.parquet").write_text("x")
    with pytest.raises(StoreMismatch, match=r"has chunks but no store\.json"):
        go(other, replications=1)


def test_kill_9_loses_at_most_what_was_running(tmp_path, ran):
    program = textwrap.dedent(
        """
        import sys
        from weakfeedback import simulate
        from weakfeedback.cascade import CascadeProblem, UssTs
        problem = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])
        simulate(problem, {"p": UssTs(problem.costs)}, horizon=100_000, replications=2000, store=sys.argv[1])
        """
    )
    with started([sys.executable, "-c", program, str(tmp_path)]) as process:
        wait_until(lambda: len(list(tmp_path.glob("*.parquet"))) >= 3, process)
        os.kill(process.pid, signal.SIGKILL)
    done = len(list(tmp_path.glob("*.parquet")))
    assert done >= 3
    resumed = go(tmp_path, replications=40)
    finished = {(task.first, task.last) for task in ran}
    assert len(finished) <= 20 - min(done, 17)  # what was on disk is not played again
    assert resumed.frame.equals(go(None, replications=40).frame)
    manifest = json.loads((tmp_path / "store.json").read_text())
    assert manifest["horizon"] == 100_000


def test_the_counts_in_a_chunk_are_plain_rows(tmp_path):
    import pandas as pd

    go(tmp_path, replications=1, marks=[10])
    rows = pd.read_parquet(next(tmp_path.glob("*.parquet")))
    assert list(rows.columns) == ["replication", "round", "pulls_0", "pulls_1", "pulls_2"]
    assert rows["round"].tolist() == [10, 100_000]
    assert np.array_equal(rows[["pulls_0", "pulls_1", "pulls_2"]].sum(axis=1), rows["round"])
