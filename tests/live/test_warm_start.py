"""Learning from logs in which all stages ran."""

import numpy as np
import pytest

from weakfeedback.live import Cascade, ContextualCascade, majority


def nothing(x):
    return None


def test_a_warm_start_teaches_every_pair_of_every_row():
    logs = [["a", "a", "a"], ["a", "b", "b"], ["a", "b", "a"]]
    cascade = Cascade([nothing] * 3, [1, 4, 25], error_cost=100, policy="USS-TS")
    assert cascade.warm_start(logs) == 3
    # S - 1 disagreements: rows 2 and 3; row 2; row 3. Three comparisons each.
    assert [cascade.policy.S[pair] - 1 for pair in ((0, 1), (0, 2), (1, 2))] == [2, 1, 1]
    assert [cascade.policy.F[pair] - 1 for pair in ((0, 1), (0, 2), (1, 2))] == [1, 2, 2]
    report = cascade.report()
    assert (report.comparisons[0, 2], report.disagreement[0, 1]) == (3, 2 / 3)
    assert (cascade.rounds, report.spent, report.saved) == (0, 0, 0)


def test_a_warm_start_from_an_array_compares_combined_answers():
    cascade = Cascade([nothing] * 3, [1, 4, 25], error_cost=100, combine=majority)
    cascade.warm_start(np.array([[0, 1, 0]]))
    # The answers are 0, then 1 (a tie goes to the later), then 0.
    assert [cascade.report().disagreement[pair] for pair in ((0, 1), (0, 2), (1, 2))] == [1, 0, 1]


@pytest.mark.parametrize(
    "logs", [[["a", "b", "c"], ["a", "b"]], ["abc"], 3, [["a", "b", float("nan")]], [None]]
)
def test_a_wrong_row_in_the_logs_teaches_nothing_at_all(logs):
    cascade = Cascade([nothing] * 3, [1, 4, 25], error_cost=100, policy="USS-TS")
    before = cascade.state()
    with pytest.raises(ValueError):
        cascade.warm_start(logs)
    assert cascade.state() == before


def test_a_refused_warm_start_does_not_fix_the_number_of_features():
    cascade = ContextualCascade(2, [1, 2], 10, seed=0)
    with pytest.raises(ValueError, match=r"outputs\[0\] must be 2 labels"):
        cascade.warm_start([[0.1, 0.2, 0.3]], [[0]])
    assert cascade.policy is None
    assert cascade.decide([0.1, 0.2]).id == 1
