"""Policies and worlds that a compiled loop borrows: the same numbers, nothing leaks, what replaces arrays is owned."""

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, FixedArm, UssTs
from weakfeedback.contextual import UssPd
from weakfeedback.engine.compiler._numba.borrowed import Loan
from weakfeedback.engine.compiler.lowering import Blueprint

PROBLEM = CascadeProblem.bsc([0.4, 0.3, 0.1], [0.05, 0.25, 0.5])


class Keeper(FixedArm):
    """Hands an array of its own on, and keeps what comes back."""

    def __init__(self, costs):
        super().__init__(costs, 0)
        self.seen = np.zeros(self.K)

    def select(self, rng):
        """Any arm until it has seen enough, then the one that was seen least."""
        total = 0.0
        for value in self.counted():
            total += value
        return int(self.K * rng.random()) if total < 10.0 else int(np.argmin(self.counted()))

    def counted(self):
        """The field itself."""
        return self.seen

    def update(self, arm, outputs, rng):
        """Add what was seen."""
        self.seen[arm] += 1.0 + outputs[arm]


class Swapper(Keeper):
    """Puts another array in the place of its own in every round."""

    def __init__(self, costs):
        super().__init__(costs)
        self.other = np.zeros(self.K)

    def update(self, arm, outputs, rng):
        """Add to one of two arrays that change places, and sometimes to a new one."""
        self.seen, self.other = self.other, self.seen
        self.seen[arm] += 1.0 + outputs[arm]
        if self.seen[arm] % 7.0 == 0.0:
            fresh = np.zeros(self.K)
            for k in range(self.K):
                fresh[k] = self.seen[k]
            self.other = fresh


@pytest.mark.parametrize("kind", [UssTs, Keeper, Swapper])
def test_the_same_counts_as_interpreted(kind):
    policies = {"a": kind(PROBLEM.costs)}
    runs = [simulate(PROBLEM, policies, 400, 3, compiled=how).values("a", "regret") for how in (True, False)]
    np.testing.assert_array_equal(*runs)


def test_what_replaces_an_array_is_not_borrowed():
    entry = ("select", "update")
    for kind, borrowed in ((UssTs, True), (Keeper, True), (Swapper, False)):
        policy = kind(PROBLEM.costs)
        blueprint = Blueprint(policy, entry)
        assert isinstance(blueprint.twin(policy), Loan) == borrowed
    growing = UssPd([0.1, 0.3], 3)  # its history grows
    blueprint = Blueprint(growing, entry)
    assert not isinstance(blueprint.twin(growing), Loan)


@pytest.mark.parametrize("kind", [Keeper, Swapper])
def test_nothing_leaks(kind, balance):
    policies = {"a": kind(PROBLEM.costs)}
    simulate(PROBLEM, policies, 100, 2)
    before = balance()
    for _ in range(3):
        simulate(PROBLEM, policies, 2000, 2)
    assert balance() == before
