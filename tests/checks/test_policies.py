"""Every public policy passes the conformance checks; a policy with one fault fails the check made for it."""

import numpy as np
import pytest

from weakfeedback.allocation import AllocationProblem, CsbSu
from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.checks import CHECKS, PolicyCheckError, check_policy
from weakfeedback.checks.case import are_same, frozen
from weakfeedback.settings.catalog import POLICIES, SETTINGS

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])
ROUNDS = 300
# What takes long in the interpreter plays fewer rounds, which reach the same lines of the policies; in the contextual
# setting they are enough for the tables to grow.
FEWER = {
    "contextual": 70,
    "adaptive": 150,
    "USS-A": 100,
    "USS-next": 100,
    "Promise": 60,
    "allocation": 150,
    "CSB-ISO": 60,
    "CSB-TS-drift": 60,
    "NUM-MK": ROUNDS,
}


def fewer(setting, name):
    return FEWER.get(name, FEWER.get(setting, ROUNDS))


PUBLIC = [
    pytest.param(
        setting,
        name,
        rounds,
        id=f"{setting}-{name}-{rounds}",
        marks=[pytest.mark.slow] * (rounds > fewer(setting, name)),
    )
    for setting in SETTINGS
    for name in POLICIES[setting]
    for rounds in sorted({fewer(setting, name), ROUNDS})
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
    report = check_policy(lambda p: CsbSu(p.arms, p.budget), problem, compiled=False)
    assert "late feedback does not ruin it" in report.passed
    with pytest.raises(PolicyCheckError, match="FAILED  late feedback does not ruin it"):
        check_policy(lambda p: LowersByOne(p.arms, p.budget), problem, compiled=False)


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
        check_policy(lambda p: cls(p.costs), PROBLEM, rounds=100, compiled=check == "compiled as interpreted")


SAME = [
    (1, 1),
    (1, 1.0),
    (True, 1),
    (np.zeros(2), np.zeros(2)),
    (np.zeros(2), np.zeros(2, dtype=int)),
    ("a", "a"),
]
OTHER = [
    (1, 2),
    (0.5, 0.25),
    (np.nan, np.nan),
    (np.zeros(2), np.zeros(3)),
    (np.zeros(2), np.array([0.0, 1e-300])),
]
OTHER += [
    (np.array([np.nan]), np.array([np.nan])),
    (np.zeros(2), 0),
    ("a", "b"),
    (np.zeros(1), np.ones(1, dtype=int)),
]


@pytest.mark.parametrize(("one", "other", "same"), [(*p, True) for p in SAME] + [(*p, False) for p in OTHER])
def test_values_are_compared_exactly(one, other, same):
    assert are_same(one, other) is same
    assert are_same(other, one) is same


def test_what_is_frozen_shares_nothing_with_the_state():
    state = {"number": 3, "array": np.zeros(2), "objects": np.array([[1], [2]], dtype=object), "list": [[0]]}
    state["objects"][0, 0] = [0]
    copied = frozen(state)
    state["array"][0] = 1.0
    state["objects"][0, 0][0] = 1
    state["list"][0][0] = 1
    assert copied["number"] == 3
    assert copied["array"].tolist() == [0.0, 0.0]
    assert copied["objects"][0, 0] == [0]
    assert copied["list"] == [[0]]


def test_history_may_grow_when_the_class_says_so():
    class Historian(Grows):
        keeps_history = True

    report = check_policy(lambda p: Historian(p.costs), PROBLEM, rounds=60, compiled=False)
    assert "memory is bounded" in report.passed


def test_a_policy_that_cannot_be_compiled_can_still_be_checked():
    class Interpreted(UssTs):
        def select(self, rng):
            return int(format(0, "d"))

    with pytest.raises(PolicyCheckError, match="compiled as interpreted: cannot be compiled: select"):
        check_policy(lambda p: Interpreted(p.costs), PROBLEM, rounds=40)
    assert check_policy(lambda p: Interpreted(p.costs), PROBLEM, rounds=40, compiled=False).failed == []
