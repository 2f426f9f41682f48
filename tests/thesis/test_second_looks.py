"""The part on second looks in "Beyond": its problems, its table, and that losses are shown beside gains."""

import numpy as np
import pytest

from weakfeedback.experiments.model import Run
from weakfeedback.routing.prices import yield_table
from weakfeedback.thesis import beyond
from weakfeedback.thesis.beyond import second_looks
from weakfeedback.thesis.beyond.second_looks import (
    EXPERIMENTS,
    GROUPS,
    LABELLED,
    LOOKS,
    PRICES,
    ROUTER,
    TITLES,
    answers,
    problem,
    yields_of,
)


def test_every_problem_has_its_price_and_its_groups():
    assert len(EXPERIMENTS) == len(TITLES) * len(PRICES)
    assert EXPERIMENTS.items() <= beyond.EXPERIMENTS.items()
    for name in TITLES:
        found = problem(name, 0.3)
        assert found.prices[-1] == pytest.approx(0.3)
        assert found.features == 1
        assert found.errors.size == len(answers(name).prices)
    mixed = answers("mixed")
    assert np.unique(mixed.groups, return_counts=True)[1].tolist() == [1319, 1319]
    rates = [
        (mixed.outputs[mixed.groups == g] == mixed.truth[mixed.groups == g, None]).mean() for g in (0, 1)
    ]
    assert rates[0] > 0.85 > 0.6 > rates[1]


def test_yields_are_cautious_and_valid():
    for name in ("blocked", "mixed", "gsm8k-claude"):
        found = yields_of(name)
        size = len(found)
        assert (yield_table(found, size)[np.triu_indices(size, 1)] < 1.0).all()
        assert (found[np.tril_indices(size)] == 1.0).all()


class Stored:
    """Results with given regrets."""

    def __init__(self, regrets):
        self.regrets, self.policies = regrets, tuple(regrets)
        self.about = {"facts": {"best": 0.1}, "horizon": 1000}

    def values(self, label):
        return np.array([[0.0, one] for one in self.regrets[label]])


def test_the_table_compares_money_plus_errors_and_names_the_worst():
    one, other = list(EXPERIMENTS)[:2]
    regrets = {ROUTER: [100.0, 100.0], LOOKS: [0.0, 100.0], GROUPS: [0.0, 0.0], LABELLED: [300.0, 300.0]}
    same = {label: [0.0, 0.0] for label in regrets}
    found = second_looks.TABLE.rows(Run({one: Stored(regrets), other: Stored(same)}))
    assert found[0][1:] == pytest.approx([2.0, 0.75, 0.5, 2.0])
    assert found[1][1:] == pytest.approx([1.0, 1.0, 1.0, 1.0])
    assert found[2][2:] == pytest.approx([0.75**0.5, 0.5**0.5, 2**0.5])
    assert found[3][2:] == pytest.approx([1.0, 1.0, 2.0])
    assert second_looks.TABLE.rows(Run({})) == []
