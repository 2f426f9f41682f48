"""Strange values that once broke something, found by fuzzing: each is refused in one line, or handled."""

import numpy as np
import pytest
from tests.rig.refusals import refusals

from weakfeedback import Cascade, Player
from weakfeedback.allocation import AllocationProblem, CsbTs, KnownThresholds, knapsack
from weakfeedback.cascade import CascadeProblem
from weakfeedback.contextual import ContextualProblem, QuadraticFeatures, RealizableProblem, UssPd, UssPdRidge
from weakfeedback.multiplayer import DlcLix
from weakfeedback.validate import brief

TABLE = np.zeros((3, 2))
TINY = 5e-324  # the smallest number above 0


class Shy:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value",
    [TABLE, Shy(), 10**5000, {"a": TABLE}, "x\ny" * 99],
    ids=["array", "shy", "long", "dict", "lines"],
)
def test_any_value_is_shown_on_one_short_line(value):
    assert "\n" not in brief(value)
    assert 0 < len(brief(value)) <= 120


test_refused_in_one_line = refusals(
    lambda refused: refused(),
    (lambda: KnownThresholds(1, 1.0, [0.5], setting=TABLE), "setting must be 'loss' or 'reward'"),
    (lambda: CsbTs(2, 1.0, setting=TABLE), "setting must be 'loss' or 'reward'"),
    (lambda: Cascade([len], [1], policy=TABLE), "policy must be a name or a policy object"),
    (lambda: UssPdRidge([0.1, 0.2], 2, bonus=TABLE), "bonus must be 'alpha' or 'beta'"),
    (lambda: UssPdRidge([0.1, 0.2], 4, ridge=1e-300), "ridge must be a finite number >= 1e-12"),
    (lambda: UssPd([0.1, 0.2], 4, ridge=1e-300), "ridge must be a finite number >= 1e-12"),
    (lambda: DlcLix(2**63 - 1, 0.1, 0.1), "arms must be at most 1000000, got 9223372036854775807"),
    (lambda: Player(2**63 - 1), "arms must be at most 1000000, got 9223372036854775807"),
    (lambda: knapsack([1.0], [1.0], {}), "values, weights and capacity must be numbers"),
    (lambda: knapsack(["a"], [1.0], 1.0), "values, weights and capacity must be numbers"),
    (lambda: CascadeProblem({"a": TABLE}, [1.0], [0.1]), "outcomes must be integer labels"),
    (lambda: CascadeProblem.bsc([TINY, 0.2], [0.1, 0.2]), r"errors\[1\] must be from slip"),
    (lambda: QuadraticFeatures(1.0)([[1j, 0.0]]), "contexts must be numbers of shape"),
    (lambda: QuadraticFeatures(1.0)([["0.5"]]), "contexts must be numbers of shape"),
    (lambda: QuadraticFeatures(1e200), r"bound must be at most 1e\+100"),
    (
        lambda: ContextualProblem([[1e308], [0.1]], [0, 1], [[1.0]], [0.1]),
        r"contexts must be at most 1e\+100 in size",
    ),
    (
        lambda: RealizableProblem([[0.1], [0.2]], {0: [1.0], "a": [1.0]}, [0.1, 0.2]),
        "pair_parameters must have one vector for each of",
    ),
)


def test_numbers_next_to_nothing_do_not_overflow():
    problem = AllocationProblem([0.4, 0.1], [TINY, 0.6], budget=1.0)
    assert problem.optimal_set.all()
    # An overflow would be a warning, which is an error here.
    rare = CascadeProblem([[0, 0, 0], [0, 0, 1]], [1.0, TINY], costs=[0.1, 0.2])
    assert (rare.optimal_arm, rare.rho) == (0, np.inf)


def test_labels_of_numpy_and_integers_beyond_them_are_compared():
    cascade = Cascade([len, len, len], [0, 0, 0], policy="Fixed", arm=2)
    for outputs in ([10**30, np.True_, np.int8(1)], [np.float32(0.5), 39, 1e84 + 2j]):
        assert cascade.feedback(cascade.decide().id, outputs) == "accepted"
    report = cascade.report()
    assert [report.disagreement[i, j] for i, j in ((0, 1), (0, 2), (1, 2))] == [1.0, 1.0, 0.5]
