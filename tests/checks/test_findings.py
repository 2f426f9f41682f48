"""Policies that try to fool the conformance checks, and what is said of them: method, line and cause, once each."""

import inspect
import re

import numpy as np
import pytest

from weakfeedback.allocation import CsbSu
from weakfeedback.cascade import CascadeProblem, QUss, UssTs
from weakfeedback.checks import CHECKS, PolicyCheckError, check_policy
from weakfeedback.contextual import UssPd
from weakfeedback.kernels.loops import disagreements
from weakfeedback.settings.catalog import SETTINGS

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])
CONTEXTUAL = SETTINGS["contextual"].default_problem()
ALLOCATION = SETTINGS["allocation"].default_problem()
PLAYERS = SETTINGS["multiplayer"].default_problem()


def failures(make, problem=PROBLEM, rounds=60):
    """The lines of the failed checks."""
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(make, problem, rounds=rounds, compiled=False)
    return [line.strip() for line in str(caught.value).splitlines() if line.startswith("  FAILED")]


def marked(source):
    """The line of this file that is marked."""
    lines, first = inspect.getsourcelines(source)
    return next(first + k for k, line in enumerate(lines) if line.rstrip().endswith("# here"))


# -- pairs


class NoPairs:
    """Counts disagreements of outputs, and knows nothing of pairs."""

    delay_safe = True

    def __init__(self, costs):
        self.K = len(costs)
        self.n = 0

    def select(self, rng):
        return self.K - 1

    def update(self, arm, outputs, rng):
        self.n += 1


class WithRoom(NoPairs):
    """Keeps room for the disagreements of a round, as the guide does."""

    def __init__(self, costs):
        super().__init__(costs)
        self.D = np.zeros((self.K, self.K))
        self.differ = np.zeros((self.K, self.K), dtype=np.bool_)

    def update(self, arm, outputs, rng):
        disagreements(outputs, arm, self.differ)
        self.update_pairs(arm, self.differ, rng)

    def update_pairs(self, arm, differ, rng):
        self.n += 1
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                if differ[i, j]:
                    self.D[i, j] += 1.0


class UsesItsRoom(WithRoom):
    """Decides by what stands in the room, where pairs are never written."""

    def select(self, rng):
        return self.K - 1 if self.differ[0, 1] else self.K - 2


class CountsTwice(WithRoom):
    def update_pairs(self, arm, differ, rng):
        self.n += 1
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                if differ[i, j]:
                    self.D[i, j] += 1.0  # here

    def update(self, arm, outputs, rng):
        disagreements(outputs, arm, self.differ)
        self.update_pairs(arm, self.differ, rng)
        if arm == self.K - 1 and outputs[0] != outputs[1]:
            self.n -= 0
            self.D[0, 1] *= 2.0


class OtherSign(UssTs):
    """Adds in another order: only the last bit differs."""

    def update_pairs(self, arm, differ, rng):
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                self.count(i, j, differ[i, j])
                self.S[i, j] = self.S[i, j] * 3.1 / 3.1


class DrawsInUpdate(WithRoom):
    def update(self, arm, outputs, rng):
        rng.random()
        disagreements(outputs, arm, self.differ)
        self.update_pairs(arm, self.differ, rng)


class ReadsAllPairs(WithRoom):
    """Reads pairs that nobody has seen: live objects have no such rows."""

    def update_pairs(self, arm, differ, rng):
        self.n += differ[self.K - 2, self.K - 1]

    def select(self, rng):
        return 0


class WantsNoPairs(QUss):
    def wants_label_pairs(self, arm, differ, rng):
        return False


class LearnsLabelsWrong(QUss):
    def learn_label(self, arm, outputs, truth):
        self.labels += 1


class ForgetsPairs(UssPd):
    def update_pairs(self, phi, arm, differ, rng):
        pass

    def update(self, phi, arm, outputs, rng):
        self.t += 1


def test_methods_for_pairs_must_exist():
    (failure,) = failures(lambda p: NoPairs(p.costs))
    assert failure.startswith("FAILED  pairs teach as outputs: NoPairs has no update_pairs(): ")


def test_room_for_a_comparison_is_no_state():
    report = check_policy(lambda p: WithRoom(p.costs), PROBLEM, rounds=60, compiled=False)
    assert "pairs teach as outputs" in report.passed


@pytest.mark.parametrize(
    ("make", "problem", "words"),
    [
        (
            lambda p: UsesItsRoom(p.costs),
            PROBLEM,
            r"taught by outputs it decides \d in round \d+, taught by pairs",
        ),
        (
            lambda p: CountsTwice(p.costs),
            PROBLEM,
            r"update\(\) and update_pairs\(\) differ .* 'D' .* line \d+\)",
        ),
        (lambda p: OtherSign(p.costs), PROBLEM, "field 'S' is"),
        (lambda p: DrawsInUpdate(p.costs), PROBLEM, "draw different numbers from rng in round 1"),
        (lambda p: ReadsAllPairs(p.costs), PROBLEM, r"update_pairs\(\) line \d+ raised IndexError"),
        (
            lambda p: WantsNoPairs(p.costs, 0.01),
            PROBLEM,
            r"wants_label\(\) and wants_label_pairs\(\) differ in",
        ),
        (
            lambda p: LearnsLabelsWrong(p.costs, 0.01),
            PROBLEM,
            "learn_label_pairs.* differ in round .*field '[ABE]'",
        ),
        (
            lambda p: ForgetsPairs(p.costs, p.dimension, forced=30),
            CONTEXTUAL,
            r"update\(\) and update_pairs\(\) differ in round 1: field 't' is 1 by outputs and 0 by pairs",
        ),
    ],
    ids=["room", "twice", "bits", "draws", "rows", "wants", "labels", "contextual"],
)
def test_pairs_that_teach_something_else_are_found(make, problem, words):
    found = failures(make, problem)
    assert any(re.search(f"FAILED  pairs teach as outputs: .*{words}", line) for line in found), found


# -- loans


def flip(values):
    values[0] = 1 - values[0]


class WritesOutputs(UssTs):
    def update(self, arm, outputs, rng):
        outputs[0] = 0  # here
        super().update(arm, outputs, rng)


class WritesInHelper(UssTs):
    def update(self, arm, outputs, rng):
        flip(outputs)  # here


class WritesInMethod(UssTs):
    def update(self, arm, outputs, rng):
        self.learn(outputs)

    def learn(self, given):
        given += 1  # here


class SortsOutputs(UssTs):
    def update(self, arm, outputs, rng):
        outputs.sort()  # here


class WritesDiffer(UssTs):
    def update_pairs(self, arm, differ, rng):
        differ[0, 0] = True  # here


class UnlocksOutputs(UssTs):
    """Makes the array behind the one that it was lent writeable."""

    def update(self, arm, outputs, rng):
        if outputs.base is not None and outputs.base.size == outputs.size:
            outputs.base.flags.writeable = True
            outputs.base[0] += 1


class WritesContext(UssPd):
    def update(self, phi, arm, outputs, rng):
        phi[0] = 0.0  # here


class WritesContextInSelect(UssPd):
    def select(self, phi, rng):
        phi *= 2.0  # here
        return 0


class WritesAllocation(CsbSu):
    def update(self, allocation, observed, rng):
        allocation[0] = 0.0  # here


class WritesObserved(CsbSu):
    def update(self, allocation, observed, rng):
        observed[allocation > 0.0] = 0.0  # here


CASCADE_WRITERS = [
    (WritesOutputs, "update", "outputs"),
    (WritesInHelper, "update", "outputs"),
    (WritesInMethod, "learn", "given"),
    (SortsOutputs, "update", "outputs"),
    (WritesDiffer, "update_pairs", "differ"),
]
OTHER_WRITERS = [
    (lambda p: WritesContext(p.costs, p.dimension, forced=30), CONTEXTUAL, WritesContext, "update", "phi"),
    (
        lambda p: WritesContextInSelect(p.costs, p.dimension, forced=30),
        CONTEXTUAL,
        WritesContextInSelect,
        "select",
        "phi",
    ),
    (lambda p: WritesAllocation(p.arms, p.budget), ALLOCATION, WritesAllocation, "update", "allocation"),
    (lambda p: WritesObserved(p.arms, p.budget), ALLOCATION, WritesObserved, "update", "observed"),
]
WRITERS = [
    *((lambda p, cls=cls: cls(p.costs), PROBLEM, cls, method, word) for cls, method, word in CASCADE_WRITERS),
    *OTHER_WRITERS,
]


@pytest.mark.parametrize(
    ("make", "problem", "cls", "method", "argument"), WRITERS, ids=[row[2].__name__ for row in WRITERS]
)
def test_a_write_is_told_with_class_method_argument_and_line(make, problem, cls, method, argument):
    found = failures(make, problem, rounds=30)
    expected = (
        f"FAILED  lent arrays are not written: {cls.__name__}.{method}() line {marked(cls)} writes to its argument "
        f"{argument!r}, which is lent read-only"
    )
    assert found.count(expected) == 1, found


def test_a_lock_that_was_opened_is_told():
    found = failures(lambda p: UnlocksOutputs(p.costs), rounds=30)
    words = "UnlocksOutputs.update() changes its argument 'outputs', which is lent read-only"
    assert f"FAILED  lent arrays are not written: {words}" in found


# -- decisions


class Returns(UssTs):
    value = None

    def select(self, rng):  # here
        return type(self).value


@pytest.mark.parametrize("value", [7, -1, 1.0, None, "0", [0]])
def test_an_impossible_decision_is_told_once(value):
    class Wrong(Returns):
        pass

    Wrong.value = value
    (failure,) = failures(lambda p: Wrong(p.costs), rounds=30)
    words = f"impossible decision: it must be an arm from 0 to 2, got {value!r} from Wrong.select()"
    assert failure == f"FAILED  decisions are allowed: {words}, which is defined in line {marked(Returns)}"


class WrongLate(UssTs):
    """Is wrong only after the rounds in which decisions alone are looked at."""

    def select(self, rng):
        return 0 if self.S.sum() + self.F.sum() < 2 * self.K**2 + 60 else self.K

    def update(self, arm, outputs, rng):
        self.F[0, 0] += 1.0

    def update_pairs(self, arm, differ, rng):
        self.F[0, 0] += 1.0


def test_a_late_impossible_decision_has_the_same_name():
    (failure,) = failures(lambda p: WrongLate(p.costs), rounds=100)
    assert failure.startswith(
        "FAILED  decisions are allowed: impossible decision: it must be an arm from 0 to 2, got 3"
    )


# -- players


class Settles:
    """Takes the arm of its first free slot and stays."""

    delay_safe = False

    def __init__(self, arms):
        self.K = arms
        self.arm = -1
        self.settled = False
        self.slots = 0

    def choose(self, rng):
        return self.arm if self.settled else int(self.K * rng.random())

    def observe(self, arm, reward, collided, rng):
        self.slots += 1
        if not self.settled:
            self.arm = arm
            self.settled = not collided


class Leaves(Settles):
    """Says that it is settled, and leaves after a while."""

    def choose(self, rng):
        if self.settled and self.slots > 250:
            return (self.arm + 1) % self.K
        return self.arm if self.settled else int(self.K * rng.random())


class Rotates(Settles):
    """Says that it is settled, and takes the next arm in every slot."""

    def observe(self, arm, reward, collided, rng):
        if not self.settled:
            self.arm = arm
            self.settled = not collided
        else:
            self.arm = (self.arm + 1) % self.K  # here


class ChangesHerMind(Settles):
    def observe(self, arm, reward, collided, rng):
        self.slots += 1
        self.arm = arm
        self.settled = not collided and self.slots % 50 > 0


def test_who_settles_stays():
    assert "settled players stay" in check_policy(lambda p: Settles(p.arms), PLAYERS, compiled=False).passed


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (Leaves, r"Leaves was settled on arm \d and chose \d in round 2\d\d"),
        (
            Rotates,
            r"Rotates was settled on arm \d, after round \d+ its fields are settled = True and arm = \d",
        ),
        (
            ChangesHerMind,
            r"ChangesHerMind was settled on arm \d, after round \d+ its fields are settled = False",
        ),
    ],
)
def test_who_calls_herself_settled_must_stay(cls, words):
    found = failures(lambda p: cls(p.arms), PLAYERS, rounds=300)
    assert any(re.search(f"FAILED  settled players stay: {words}", line) for line in found), found


# -- the report


class ManyFaults(UssTs):
    def __init__(self, costs):
        super().__init__(costs)
        self.rounds = 0

    def select(self, rng):
        self.rounds += 1  # here
        return 0

    def update(self, arm, outputs, rng):
        outputs[0] = 1


class Raises(UssTs):
    def update(self, arm, outputs, rng):
        self.S[self.K, 0] += 1.0  # here


def test_failures_come_first_and_passes_are_one_line():
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(lambda p: ManyFaults(p.costs), PROBLEM, rounds=30, compiled=False)
    lines = str(caught.value).splitlines()
    kinds = [line.split()[0] for line in lines[1:]]
    assert kinds == ["FAILED"] * (len(kinds) - 1) + ["passed"]
    assert any(
        "select learns nothing" in line and f"select() line {marked(ManyFaults)}" in line for line in lines
    )
    assert sum("writes to its argument" in line for line in lines) == 1
    assert "select learns nothing" not in lines[-1]
    assert "lent arrays are not written" not in lines[-1]
    assert "fields are numbers and arrays" in lines[-1]


def test_an_error_that_every_check_meets_is_told_once_with_its_line():
    found = failures(lambda p: Raises(p.costs), rounds=30)
    assert len(found) == 1
    assert f"Raises.update() line {marked(Raises)} raised IndexError" in found[0]


def test_every_check_says_in_its_first_line_what_it_demands():
    assert all(check.__doc__ and check.__doc__.splitlines()[0].endswith(".") for check in CHECKS)
