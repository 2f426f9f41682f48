"""A policy that writes to what it is lent is told so: its name, the method, the argument."""

import numpy as np
import pytest

from weakfeedback import Allocator, Cascade, ContextualCascade
from weakfeedback.contextual import QuadraticFeatures


def spoil(array):
    array += 1


class Staged:
    """Writes to what ``victim`` names."""

    delay_safe = True
    victim = "nothing"

    def __init__(self):
        self.seen = 0

    def select(self, rng):
        return 1

    def update_pairs(self, arm, differ, rng):
        self.seen += 1
        if self.victim == "differ":
            differ[0, 1] = True


class InContext(Staged):
    def select(self, phi, rng):
        if self.victim == "phi, chosen":
            phi[:] = 7.0
        return 1

    def update_pairs(self, phi, arm, differ, rng):
        self.seen += 1
        if self.victim == "phi":
            spoil(phi)
        if self.victim == "differ":
            differ[0, 1] = True


class Divides(Staged):
    def select(self, rng):
        return np.array([0.5, 0.5])

    def update(self, allocation, observed, rng):
        self.seen += 1
        if self.victim == "allocation":
            allocation *= 2
        if self.victim == "observed":
            observed.sort()


def staged(policy):
    cascade = Cascade(2, [1, 2], error_cost=9, policy=policy, seed=0)
    return cascade, lambda: cascade.feedback(cascade.decide().id, [0, 1])


def warm(policy):
    cascade = Cascade(2, [1, 2], error_cost=9, policy=policy, seed=0)
    return cascade, lambda: cascade.warm_start([[0, 1]])


def in_context(policy):
    cascade = ContextualCascade(
        2, [1, 2], error_cost=9, policy=policy, features=QuadraticFeatures(1.0), seed=0
    )
    return cascade, lambda: cascade.feedback(cascade.decide([0.1]).id, [0, 1])


def divides(policy):
    allocator = Allocator(2, 1.0, policy=policy, seed=0)
    return allocator, lambda: allocator.feedback(allocator.decide().id, [1, 0])


@pytest.mark.parametrize(
    ("make", "kind", "victim", "method"),
    [
        (staged, Staged, "differ", "update_pairs"),
        (warm, Staged, "differ", "update_pairs"),
        (in_context, InContext, "phi, chosen", "select"),
        (in_context, InContext, "phi", "update_pairs"),
        (in_context, InContext, "differ", "update_pairs"),
        (divides, Divides, "allocation", "update"),
        (divides, Divides, "observed", "update"),
    ],
)
def test_who_writes_to_what_is_lent_is_told_so(make, kind, victim, method):
    policy = type("Spoils", (kind,), {"victim": victim})()
    thing, use = make(policy)
    argument = victim.split(",")[0]
    words = rf"^Spoils.{method}\(\) line \d+ writes to its argument '{argument}', which is lent read-only$"
    with pytest.raises(ValueError, match=words):
        use()
    assert (thing.policy.seen, thing.rounds) == (0, 0)  # nothing was learned
    policy.victim = "nothing"
    thing, use = make(type("Spares", (kind,), {})())
    use()


def test_who_writes_to_a_read_only_array_of_his_own_is_not_told_so():
    class Fails(Staged):
        def update_pairs(self, arm, differ, rng):
            table = np.zeros(2)
            table.flags.writeable = False
            table[0] = 1.0

    _, use = staged(Fails())
    with pytest.raises(ValueError, match="assignment destination is read-only"):
        use()


class Compiles:
    """Writes to what it is lent, and could be compiled otherwise."""

    delay_safe = True

    def __init__(self, costs):
        self.C = np.array(costs)
        self.K = 2
        self.seen = 0

    def select(self, rng):
        return 1

    def update_pairs(self, arm, differ, rng):
        differ[0, 1] = True
        self.seen += 1


def test_the_compiler_refuses_such_a_policy_at_once():
    words = r"compiled must be False for Compiles, .*update_pairs\(\) line \d+: writes to an array"
    with pytest.raises(ValueError, match=words):
        Cascade(2, [1, 2], policy=Compiles([1.0, 3.0]), seed=0, compiled=True)
