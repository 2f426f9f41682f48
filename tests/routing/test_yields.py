"""Yields of disagreements: counts, the interval's coverage, and what is refused."""

import numpy as np
import pytest
from tests.rig.refusals import refusals

from weakfeedback.routing.yields import Yields, yields


def test_only_disagreements_are_counted_and_at_most_so_many_of_a_pair():
    outputs = np.array([[0, 0, 1], [0, 1, 1], [1, 1, 1], [2, 1, 0], [0, 1, 2]])
    truth = np.array([1, 1, 0, 0, 0])
    found = yields(outputs, truth, labels=3)
    expected = {(0, 1): (3, 1, 1), (0, 2): (3, 3, 0), (1, 2): (3, 2, 0)}
    for (i, j), counts in expected.items():
        assert (found.labels[i, j], found.better[i, j], found.worse[i, j]) == counts
    assert found.estimate[0, 1] == 0.0
    assert yields(outputs, truth, labels=1).labels.sum() == 3
    assert np.isnan(found.estimate[1, 0])


def test_the_truth_of_agreements_does_not_matter():
    rng = np.random.default_rng(0)
    outputs, truth = rng.integers(0, 3, size=(200, 3)), rng.integers(0, 3, size=200)
    same = (outputs == outputs[:, :1]).all(axis=1)
    other = np.where(same, 99, truth)
    assert str(yields(outputs, truth)) == str(yields(outputs, other))


@pytest.mark.parametrize(("better", "worse"), [(0.45, 0.2), (0.05, 0.02), (0.85, 0.1)])
def test_the_interval_covers_and_one_deviation_is_one(better, worse):
    """Of 600 samples of 100 labels, about 5 % miss the truth; 9.4 % would be five deviations more."""
    rng = np.random.default_rng(4)
    missed = above = 0
    for _ in range(600):
        plus, minus, _ = rng.multinomial(100, [better, worse, 1 - better - worse])
        found = Yields.of([[0, 100], [0, 0]], [[0, plus], [0, 0]], [[0, minus], [0, 0]])
        missed += not found.low[0, 1] <= better - worse <= found.high[0, 1]
        above += found.cautious[0, 1] >= better - worse
    assert missed <= 0.094 * 600
    assert 0.75 * 600 <= above <= 0.95 * 600


def test_without_labels_the_worst_is_assumed():
    found = yields([[1, 1]], [0])
    assert found.cautious.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert str(found) == "models 0 and 1: no disagreement was labelled, a yield of 1 is assumed"


test_wrong_arguments_are_refused = refusals(
    lambda arguments: yields(*arguments),
    (([1, 2], [1, 2]), "outputs and truth must have shapes"),
    (([[1, 2]], [1, 2]), "outputs and truth must have shapes"),
    (([[1, 2]], [1], 0), "labels must be"),
    (([[1, 2]], [1], 10, 2.0), "alpha must be"),
)
