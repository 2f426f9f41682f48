"""Every public policy passes the conformance checks; a policy with one fault fails the check made for it."""

import numpy as np
import pytest

from weakfeedback.allocation import AllocationProblem, CsbSu
from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.catalog import POLICIES, SETTINGS
from weakfeedback.checks import CHECKS, PolicyCheckError, check_policy

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])
ROUNDS = 300
FEWER = {"contextual": 100, "adaptive": 150}  # a regression in the interpreter takes long
PUBLIC = [
    pytest.param(
        setting,
        name,
        rounds,
        id=f"{setting}-{name}-{rounds}",
        marks=[pytest.mark.slow] * (rounds == ROUNDS and setting in FEWER),
    )
    for setting in SETTINGS
    for name in POLICIES[setting]
    for rounds in sorted({FEWER.get(setting, ROUNDS), ROUNDS})
]


@pytest.mark.parametrize(("setting", "name", "rounds"), PUBLIC)
def test_every_public_policy_passes(setting, name, rounds):
    rooms = SETTINGS[setting]
    report = check_policy(
        lambda p: rooms.make(name, p, getattr(rooms.policy_class(name), "sample_options", {})),
        rooms.default_problem(),
        rounds=rounds,
    )
    assert len(report.passed) == len(CHECKS)


def test_every_setting_is_in_the_catalogue():
    assert set(POLICIES) == set(SETTINGS)


class HasList(UssTs):
    def __init__(self, costs):
        super().__init__(costs)
        self.names = ["a"]


class UsesGlobalRandomness(UssTs):
    def select(self, rng):
        return int(self.K * np.random.random())


SHARED = np.zeros(1)


class SharesState(UssTs):
    def update(self, arm, outputs, rng):
        SHARED[0] += 1.0
        self.S[0, 1] = SHARED[0]


class TiesDiffer(UssTs):
    """Sorts with ties: NumPy and the compiler order equal values in different ways."""

    def select(self, rng):
        values = np.zeros(40)
        for k in range(40):
            values[k] = int(3 * rng.random())
        return int(np.argsort(values)[20]) % self.K


class LearnsInSelect(UssTs):
    def select(self, rng):
        self.S[0, 1] += 1.0
        return 0


class KeepsFeedback(UssTs):
    def __init__(self, costs):
        super().__init__(costs)
        self.last = np.zeros(1, dtype=np.int64)

    def update(self, arm, outputs, rng):
        self.last = outputs


class HidesState(UssTs):
    """Keeps a count outside of its fields."""

    def update(self, arm, outputs, rng):
        HIDDEN[id(self)] = HIDDEN.get(id(self), 0) + 1
        self.S[0, 1] = HIDDEN[id(self)]


HIDDEN: dict[int, int] = {}


class Grows(UssTs):
    def __init__(self, costs):
        super().__init__(costs)
        self.log = np.zeros(1)

    def update(self, arm, outputs, rng):
        self.log = np.zeros(self.log.size + 1)

    def update_pairs(self, arm, differ, rng):
        self.log = np.zeros(self.log.size + 1)


class RemembersItsDecision(UssTs):
    """Learns for the decision it made last instead of the one the feedback belongs to."""

    def __init__(self, costs):
        super().__init__(costs)
        self.decided = 0

    def select(self, rng):
        self.decided = int(self.K * rng.random())
        return self.decided

    def update(self, arm, outputs, rng):
        self.S[0, 1] += self.decided


class SaysNothingOfDelays(UssTs):
    delay_safe = None


class Cheats(UssTs):
    """Reaches for the hidden rows through the frames of the interpreter."""

    def update(self, arm, outputs, rng):
        import sys

        played = sys._getframe(1).f_locals
        if "world" in played:
            self.S[0, 1] += played["world"].rows[played["row"], -1]


class LowersByOne(CsbSu):
    """CSB-SU coded as "a loss lowers L by one": every late loss of one allocation lowers it again."""

    def update(self, allocation, observed, rng):
        lost = False
        for i in range(self.K):
            if allocation[i] > 0.0 and observed[i] > 0.0:
                lost = True
        if lost:
            self.L = max(1, self.L - 1)


def test_a_policy_ruined_by_delays_is_found():
    problem = AllocationProblem([0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55], [0.5] * 8, budget=3.1)
    assert "late feedback does not ruin it" in check_policy(lambda p: CsbSu(p.arms, p.budget), problem).passed
    with pytest.raises(PolicyCheckError, match="FAILED  late feedback does not ruin it"):
        check_policy(lambda p: LowersByOne(p.arms, p.budget), problem)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("cls", "check"),
    [
        (HasList, "fields are numbers and arrays"),
        (UsesGlobalRandomness, "same seed same run"),
        (SharesState, "copies are independent"),
        (TiesDiffer, "compiled as interpreted"),
        (LearnsInSelect, "select learns nothing"),
        (KeepsFeedback, "feedback is not kept"),
        (HidesState, "save and restore midway"),
        (Grows, "memory is bounded"),
        (RemembersItsDecision, "late feedback is learned right"),
        (SaysNothingOfDelays, "late feedback is learned right"),
        (Cheats, "hidden is unreachable"),
    ],
)
def test_each_fault_is_found(cls, check):
    with pytest.raises(PolicyCheckError, match=f"FAILED  {check}"):
        check_policy(lambda p: cls(p.costs), PROBLEM, rounds=100)


def test_history_may_grow_when_the_class_says_so():
    class Historian(Grows):
        keeps_history = True

    report = check_policy(lambda p: Historian(p.costs), PROBLEM, rounds=60)
    assert "memory is bounded" in report.passed


def test_a_policy_that_cannot_be_compiled_can_still_be_checked():
    class Interpreted(UssTs):
        def select(self, rng):
            return int(format(0, "d"))

    with pytest.raises(PolicyCheckError, match="compiled as interpreted: cannot be compiled: select"):
        check_policy(lambda p: Interpreted(p.costs), PROBLEM, rounds=40)
    assert check_policy(lambda p: Interpreted(p.costs), PROBLEM, rounds=40, compiled=False).failed == []
