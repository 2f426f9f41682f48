"""An index out of range in a policy of one's own is an error, not a crash; nothing else changes."""

import os
import textwrap

import numpy as np
import pytest
from tests.rig.processes import printed

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.engine import trial

PROBLEM = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])

PROGRAM = textwrap.dedent(
    """
    import numpy as np
    from weakfeedback import Cascade, simulate
    from weakfeedback.cascade import CascadeProblem


    class Careless:
        delay_safe = True

        def __init__(self, arms, begin, past):
            self.K = arms
            self.t = 0
            self.begin = begin
            self.past = past
            self.seen = np.zeros(arms)

        def select(self, rng):
            return 0

        def update(self, arm, outputs, rng):
            self.t += 1
            if self.t >= self.begin:
                self.seen[self.K + self.past] += 1.0


    def far(numbers, place):
        return numbers[place]


    class Helped(Careless):
        def update(self, arm, outputs, rng):
            self.t += 1
            if self.t >= self.begin:
                self.seen[0] = far(self.seen, self.K)


    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    cases = [
        (Careless, 1, 0),
        (Careless, 1, 10**12),
        (Careless, 1000, 10**12),
        (Careless, 4900, 0),
        (Helped, 4900, 0),
    ]
    for kind, begin, past in cases:
        try:
            simulate(problem, {"careless": kind(2, begin, past)}, horizon=5000, replications=2)
        except IndexError as error:
            print("caught", error, *error.__notes__)

    Helped.update_pairs = lambda self, arm, differ, rng: self.update(arm, differ, rng)
    cascade = Cascade(2, [0.1, 0.1], policy=Helped(2, 3, 0), seed=0, compiled=True)
    for n in range(5):
        try:
            cascade.feedback(cascade.decide().id, [1])
        except IndexError as error:
            print(n, error)
            break
    """
)


@pytest.fixture(scope="module")
def told():
    """What a process tells about policies that index out of range, one line each."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_BOUNDSCHECK"}
    return printed("-W", "error", "-c", PROGRAM, env=environment).splitlines()


def test_an_index_out_of_range_is_an_error(told):
    """Soon or later, just past the end or where no memory is."""
    for line in told[:3]:
        assert line.startswith("caught index")
        assert "'careless' played its first rounds" in line


def test_rounds_after_the_first_are_checked_in_compiled_code(told):
    """An index one past the end does no harm in most runs: unless it is checked nobody would notice."""
    assert told[3] == "caught index is out of bounds while 'careless' played replication 0"


def test_helpers_and_live_policies_of_ones_own_are_checked(told):
    assert told[4] == "caught index is out of bounds while 'careless' played replication 0"
    assert told[5:] == ["2 index is out of bounds"]


class Mine:
    delay_safe = True

    def __init__(self, costs):
        self.K = len(costs)
        self.seen = np.zeros(self.K)
        self.share = 0.0

    def select(self, rng):
        return int(self.K * rng.random())

    def update(self, arm, outputs, rng):
        self.seen[arm] += 1.0
        self.share = self.seen[0] / self.seen.sum()


class Zero(Mine):
    def update(self, arm, outputs, rng):
        self.share = 1.0 / self.seen[0]  # infinite when compiled, an error in the interpreter


SELECTED = []


class Slow(Mine):
    def select(self, rng):
        SELECTED.append(1)
        total = 0
        for k in range(5_000_000):
            total += k
        return total % self.K


@pytest.fixture
def untried(monkeypatch):
    """Nothing has been tried in this process; the rounds of each trial."""
    played = []
    original = trial._play

    def noting(problem, label, policy, rounds, seed):
        played.append((label, rounds))
        original(problem, label, policy, rounds, seed)

    monkeypatch.setattr(trial, "_tried", {})
    monkeypatch.setattr(trial, "_play", noting)
    return played


def go(policy, **options):
    return simulate(PROBLEM, {"p": policy}, **{"horizon": 300, "replications": 3, **options})


def test_results_are_the_same_with_and_without(untried, monkeypatch):
    tried = go(Mine(PROBLEM.costs))
    assert untried == [("p", 300)]
    monkeypatch.setattr(trial, "ROUNDS", 0)
    assert go(Mine(PROBLEM.costs)).frame.equals(tried.frame)
    assert tried.compiled == {"p": True}


def test_it_is_done_once_for_the_same_code_and_shapes(untried):
    for horizon in (100, 50, 100, 5000, 9000):
        go(Mine(PROBLEM.costs), horizon=horizon)
    assert untried == [("p", 100), ("p", 4096)]
    go(Zero(PROBLEM.costs))
    assert len(untried) == 3


def test_policies_of_the_package_play_none(untried):
    go(UssTs(PROBLEM.costs))
    assert untried == []


def test_what_is_interpreted_or_stored_is_not_tried(untried, tmp_path):
    go(Mine(PROBLEM.costs), compiled=False)
    assert untried == []
    go(Mine(PROBLEM.costs), store=tmp_path)
    untried.clear()
    trial._tried.clear()
    go(Mine(PROBLEM.costs), store=tmp_path)
    assert untried == []


def test_other_errors_of_the_interpreter_do_not_matter(untried):
    assert go(Zero(PROBLEM.costs)).compiled == {"p": True}
    assert untried == [("p", 300)]


def test_a_slow_policy_is_tried_for_a_short_time(untried, monkeypatch):
    monkeypatch.setattr(trial, "SECONDS", 0.05)
    SELECTED.clear()
    trial._play(PROBLEM, "p", Slow(PROBLEM.costs), 4096, 0)
    assert 1 <= len(SELECTED) <= 2
