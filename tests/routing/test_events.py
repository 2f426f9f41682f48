"""Runs that jump from comparison to comparison count what the plain loop counts, to the bit."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rig.pace import pace
from tests.routing.laws import random_law

from weakfeedback import simulate
from weakfeedback.routing import DoubleThompson, PayToCompare, RoutingProblem, instances
from weakfeedback.routing.events import added

OPTIONS = [
    {},
    {"memory": 300},
    {"memory": 2000, "horizon": 900},
    {"horizon": 2000},
    {"overspend": 0.0, "allowance": 3},  # the bound on the money binds, and hangs on the last bit of a sum
    {"kappa": 0.1, "least": 10},
]


def problem_of(seed):
    outcomes, probabilities, prices = random_law(seed)
    if seed % 3 == 0:
        rows = np.random.default_rng(seed).choice(len(outcomes), size=37, p=probabilities)
        return RoutingProblem.from_predictions(outcomes[rows, 0], outcomes[rows, 1:], prices)
    return RoutingProblem(outcomes, probabilities, prices)


@pytest.mark.parametrize("seed", range(4))
def test_the_counts_are_those_of_every_round(seed):
    problem = problem_of(seed)  # a data set, two laws, and a data set
    options = OPTIONS[seed // 2 :: 2]
    policies = {str(k): PayToCompare(problem.prices, **chosen) for k, chosen in enumerate(options)}
    plain, jumped = (
        simulate(problem, policies, horizon=2200, replications=1, seed=seed, marks=15, method=method)
        for method in ("rounds", "events")
    )
    assert plain.frame.equals(jumped.frame)


def test_what_the_policy_knows_afterwards_is_the_same_to_the_bit():
    """Round by round it says how many quiet ones come, and they come."""
    problem, rng = instances.load("prices-1-20-150"), np.random.default_rng(0)
    for options in OPTIONS:
        policy, world = PayToCompare(problem.prices, **options), problem.world()
        promised = 0
        for left in range(300, 0, -1):
            quiet = policy.quiet(left)
            assert quiet >= promised
            call = policy.select(rng)
            assert (call.sum() == 1) or quiet == 0
            if quiet:
                twin = PayToCompare(problem.prices, **options)
                vars(twin).update({name: np.copy(value) for name, value in vars(policy).items()})
                twin.rest(1)
            policy.start(call, rng)
            policy.update(call, world.rows[world.draw(rng)][1:][call], rng)
            if quiet:
                assert twin.spent == policy.spent
                assert twin.t == policy.t
            promised = max(quiet - 1, 0)


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(st.just(0.0), st.floats(1e-9, 1e17)),
    st.one_of(st.floats(1e-12, 1e3), st.integers(1, 7).map(lambda k: k * 2.0**-20)),
    st.integers(0, 3000),
)
def test_sums_are_rounded_as_one_addition_after_the_other(total, amount, times):
    expected = total
    for _ in range(times):
        expected += amount
    assert added(total, amount, times) == expected


def test_a_billion_rounds_take_seconds():
    problem = instances.load("prices-1-20-150")
    start = time.process_time()
    results = simulate(
        problem,
        {"pay": PayToCompare(problem.prices)},
        horizon=10**9,
        replications=2,
        marks=1,
        method="events",
    )
    assert time.process_time() - start < 20.0 * pace()
    assert results.final("answers_1")["mean"]["pay"] > 0.999e9


def test_policies_whose_rounds_cannot_be_skipped_are_refused():
    problem = instances.load("prices-1-3")
    with pytest.raises(ValueError, match=r"is none of PayToCompare"):
        simulate(problem, {"double": DoubleThompson(problem.prices)}, horizon=10, method="events")
