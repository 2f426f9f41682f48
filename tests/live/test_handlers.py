"""Signal handlers that use an object in the middle of one of its calls, in the thread that makes the call."""

import signal

import numpy as np
import pytest

from weakfeedback import Cascade

COSTS = {"stage_costs": [1.0, 4.0, 9.0], "error_cost": 30.0}
OUTPUTS = [0, 1, 1]


class Interrupted:
    """A policy during whose methods a signal comes."""

    delay_safe = True

    def __init__(self):
        self.seen = np.zeros(3)

    def select(self, rng):
        signal.raise_signal(signal.SIGUSR1)
        return int(rng.random() * 3)

    def update_pairs(self, arm, differ, rng):
        self.seen[arm] += 1.0
        signal.raise_signal(signal.SIGUSR1)
        self.seen[arm] += rng.random()


@pytest.fixture
def handler():
    """Let a function handle the signal; what it raises is kept."""
    raised = []

    def install(function):
        def handle(number, frame):
            try:
                function()
            except RuntimeError as error:
                raised.append(str(error))

        signal.signal(signal.SIGUSR1, handle)
        return raised

    before = signal.getsignal(signal.SIGUSR1)
    yield install
    signal.signal(signal.SIGUSR1, before)


USES = {
    "state": lambda cascade: cascade.state(),
    "report": lambda cascade: cascade.report(),
    "decide": lambda cascade: cascade.decide(),
    "close": lambda cascade: cascade.close(),
}


@pytest.mark.parametrize("use", USES)
def test_a_handler_does_not_end_the_change_that_it_interrupts(tmp_path, handler, use):
    path = tmp_path / "journal.db"
    with Cascade.open(path, 3, **COSTS, policy=Interrupted(), seed=0) as cascade:
        raised = handler(lambda: USES[use](cascade))
        for _ in range(10):
            decision = cascade.decide()
            assert cascade.feedback(decision.id, OUTPUTS[: decision.arm + 1]) == "accepted"
        assert len(raised) == 20
        assert all("signal handler" in words for words in raised)
        handler(lambda: None)
        read = Cascade.load(path, 3, policy=Interrupted())  # makes every decision again
        assert read.state() == cascade.state()


def test_a_handler_may_use_an_object_between_its_changes(handler):
    cascade = Cascade(3, **COSTS, seed=0)
    raised = handler(cascade.decide)
    signal.raise_signal(signal.SIGUSR1)
    assert (raised, cascade.pending) == ([], [1])
