"""A long run can be interrupted: players look up every two million rounds."""

import threading
import time

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, UssUcb
from weakfeedback.engine import replication
from weakfeedback.engine.plan import Plan
from weakfeedback.engine.simulate import play

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])


def test_stretches_do_not_matter(monkeypatch):
    whole = simulate(PROBLEM, {"a": UssUcb(PROBLEM.costs)}, horizon=5000, replications=2, seed=1)
    monkeypatch.setattr(replication, "STRETCH", 300)
    assert len(replication._stretches(np.arange(25, 5001, 25))) > 10
    parts = simulate(PROBLEM, {"a": UssUcb(PROBLEM.costs)}, horizon=5000, replications=2, seed=1)
    assert whole.frame.equals(parts.frame)


@pytest.mark.parametrize("marks", [[1], [5, 10], [100, 350, 351, 900], list(range(1, 1001))])
def test_stretches_cover_all_marks(marks, monkeypatch):
    monkeypatch.setattr(replication, "STRETCH", 100)
    stretches = replication._stretches(np.array(marks))
    assert [k for first, last in stretches for k in range(first, last)] == list(range(len(marks)))


def test_a_stopped_run_ends_soon():
    """A million million rounds would take hours."""
    plan = Plan(PROBLEM, {"a": UssUcb(PROBLEM.costs)}, horizon=10**12, replications=1, marks=10_000)
    plan.prepare()
    timer = threading.Timer(0.5, plan.stop)
    timer.start()
    before = time.monotonic()
    with pytest.raises(replication.Stopped):
        play(plan)
    timer.join()
    assert time.monotonic() - before < 60


@pytest.mark.parametrize(
    ("store", "words"), [(None, "was stopped$"), ("kept", "the same call goes on from its store$")]
)
def test_an_interruption_ends_at_the_line_of_the_caller(store, words, monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("weakfeedback.engine.simulate.play", interrupted)
    where = None if store is None else tmp_path / store
    with pytest.raises(KeyboardInterrupt, match=words) as caught:
        simulate(PROBLEM, {"a": UssUcb(PROBLEM.costs)}, horizon=10, replications=1, store=where)
    assert len(caught.traceback) == 2  # this line, and one of the package
    assert caught.value.__suppress_context__
