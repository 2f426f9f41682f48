"""The exact knapsack against brute force, OR-Tools and HiGHS, and on degenerate input."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ortools.algorithms.python import knapsack_solver
from scipy.optimize import LinearConstraint, milp
from tests.rig.refusals import refusals

from weakfeedback.allocation import AllocationProblem, knapsack
from weakfeedback.allocation.compiled import compiled
from weakfeedback.kernels.knapsack import (
    branch_and_bound,
    clearly_best,
    fill_levels,
    pack,
    pack_again,
    pack_levels,
    pack_lightest,
    runner_up,
)

SCALE = 10**6  # OR-Tools takes integers; the cases below have six decimals at most


def brute(values, weights, capacity):
    """The largest value of a set that fits, with the same tolerance of the capacity."""
    best = 0.0
    for flags in itertools.product((False, True), repeat=len(values)):
        chosen = np.array(flags, dtype=bool)
        if weights[chosen].sum() <= capacity * (1 + 1e-9):
            best = max(best, values[chosen].sum())
    return best


def with_ortools(values, weights, capacity):
    kind = knapsack_solver.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    solver = knapsack_solver.KnapsackSolver(kind, "check")
    whole = [np.rint(np.asarray(x) * SCALE).astype(int) for x in (values, weights, capacity)]
    solver.init(whole[0].tolist(), [whole[1].tolist()], [int(whole[2])])
    return solver.solve() / SCALE


def with_highs(values, weights, capacity):
    fits = LinearConstraint(weights[None, :], -math.inf, capacity * (1 + 1e-9))
    n = len(values)
    answer = milp(
        -values, constraints=fits, integrality=np.ones(n), bounds=(0, 1), options={"mip_rel_gap": 0.0}
    )
    assert answer.status == 0
    return -answer.fun


def cases(kind, n, seed):
    """A case with six decimals: values, weights, capacity."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.05, 1.0, n).round(6)
    values = rng.uniform(0.0, 1.0, n).round(6)
    capacity = round(0.3 * weights.sum(), 6)
    if kind == "correlated":
        values = (weights + 0.1 * rng.uniform(size=n)).round(6)
    if kind == "inverse":
        values = (1.2 - weights).round(6)
    if kind == "equal weights":
        weights[:] = 0.7
        capacity = 0.7 * max(1, n // 3)
    if kind == "equal weights, rest":
        weights[:] = 0.7
        capacity = 0.7 * max(1, n // 3) + 0.4
    if kind == "two weights":
        weights = np.where(rng.uniform(size=n) < 0.5, 0.3, 0.55)
        capacity = round(0.4 * weights.sum(), 6)
    return values, weights, capacity


KINDS = ("random", "correlated", "inverse", "equal weights", "equal weights, rest", "two weights")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 5, 12, 30, 50])
def test_the_value_is_that_of_ortools_and_highs(kind, n):
    for seed in range(4):
        values, weights, capacity = cases(kind, n, seed)
        chosen = knapsack(values, weights, capacity)
        assert weights[chosen].sum() <= capacity * (1 + 1e-9)
        value = values[chosen].sum()
        if not (kind == "equal weights, rest" and n > 30):  # OR-Tools needs minutes for it
            assert value == pytest.approx(with_ortools(values, weights, capacity), abs=1e-5 * n)
        assert value == pytest.approx(with_highs(values, weights, capacity), abs=1e-7)


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_small_cases_by_brute_force(seed, n, digits):
    # few digits: ties of values, weights and totals are common
    rng = np.random.default_rng(seed)
    values = rng.uniform(-0.2, 1.0, n).round(digits)
    weights = rng.uniform(0.0, 1.0, n).round(digits)
    capacity = round(float(rng.uniform(0.0, 2.5)), digits)
    chosen = knapsack(values, weights, capacity)
    assert weights[chosen].sum() <= capacity * (1 + 1e-9)
    assert values[chosen].sum() == pytest.approx(brute(values, weights, capacity), abs=1e-12)
    assert (values[chosen] > 0.0).all()
    np.testing.assert_array_equal(chosen, pack(values, weights, capacity))  # compiled as interpreted


def test_the_tolerance_of_the_capacity():
    # in doubles .7 added six times is 4.2 - 4e-16 or more than 4.2, by order; and 1.2 / 3 < .4
    assert knapsack([1.0] * 7, [0.7] * 7, 4.2).sum() == 6
    assert knapsack([1.0] * 4, [0.4] * 4, 1.2).sum() == 3
    assert knapsack([1.0], [1.0 + 1e-8], 1.0).sum() == 0


def test_degenerate_cases():
    assert knapsack([], [], 1.0).tolist() == []
    assert knapsack([0.0, 0.0], [0.5, 0.0], 1.0).tolist() == [False, False]  # worth nothing
    assert knapsack([1.0, 2.0], [0.0, 0.0], 0.0).tolist() == [True, True]  # weigh nothing
    assert knapsack([1.0, 2.0], [3.0, 2.0], 1.0).tolist() == [False, False]  # nothing fits
    assert knapsack([1.0, 2.0], [3.0, 2.0], 9.0).tolist() == [True, True]  # everything fits
    assert knapsack([-1.0, 2.0], [0.0, 2.0], 9.0).tolist() == [False, True]


def best_and_lightest(values, weights, capacity):
    """The largest value of a set that fits and the smallest weight of such a set, in whole thousandths."""
    v, w = ([round(1000 * x) for x in one] for one in (values, weights))
    sets = [(0, 0)]
    for i in range(len(v)):
        sets += [(value + v[i], weight + w[i]) for value, weight in sets]
    value, weight = max((value, -weight) for value, weight in sets if weight <= round(1000 * capacity))
    return value / 1000, -weight / 1000


def test_the_lightest_of_equally_good_sets():
    # {0, ..., 5} is worth 2.8 too, but weighs 1.426
    values = np.array([0.8, 0.7, 0.4, 0.5, 0.3, 0.1, 0.7])
    weights = np.array([0.401, 0.204, 0.306, 0.103, 0.305, 0.107, 0.605])
    assert np.flatnonzero(pack_lightest(values, weights, 1.5)).tolist() == [0, 1, 3, 5, 6]
    problem = AllocationProblem(values, weights, 1.5)
    assert problem.residual == pytest.approx(0.08, abs=1e-12)
    assert problem.gamma == pytest.approx(0.08 / 7, abs=1e-12)


@pytest.mark.parametrize("lightest", [pack_lightest, compiled(pack_lightest)], ids=["plain", "compiled"])
def test_the_lightest_by_enumeration(lightest):
    tied = 0
    for seed in range(800):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(6, 13))
        values = rng.integers(0, 4, n) / 10  # few values, so many sets are equally good
        # nearly in proportion: the order by value per weight says little
        weights = rng.integers(0, 700, n) / 1000 if seed % 2 else values + rng.integers(0, 30, n) / 1000
        capacity = int(rng.integers(1, 2500)) / 1000
        chosen = lightest(values, weights, capacity)
        value, expected = best_and_lightest(values, weights, capacity)
        assert math.fsum(values[chosen]) == pytest.approx(value, abs=1e-9)
        assert math.fsum(weights[chosen]) == pytest.approx(expected, abs=1e-9)
        tied += math.fsum(weights[pack(values, weights, capacity)]) > expected + 1e-9
    assert tied > 20  # so the weights had to be compared


def searched(monkeypatch, solve, *arguments):
    """What the search answers, without the short cut for equal weights."""
    with monkeypatch.context() as patch:
        patch.setitem(solve.__globals__, "alike", lambda weights: False)
        return solve(*arguments)


VALUES = st.lists(
    st.one_of(
        st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, -1.0]),  # ties
        st.floats(-0.1, 1.0),
        # what rounding errors of sums and ratios could confuse
        st.integers(-3, 3).map(lambda steps: 0.7 + steps * 2.0**-53),
        st.sampled_from([0.3, 0.3 + 1e-12, 0.3 - 1e-11, 0.3 + 1e-10, 1e-11]),
    ),
    min_size=1,
    max_size=12,
)


@given(
    VALUES, st.sampled_from([0.0, 0.1, 0.7, 1.0, 3.0]), st.integers(0, 15), st.sampled_from([0.0, 1e-10, 0.4])
)
@example([0.5, 0.5, 0.9], 0.7, 2, 0.0)
@example([1.0, 0.75, 0.75 + 2.0**-53], 0.74, 2, 0.0)  # the last two have the same value per weight
@example([0.5, 0.6, 0.7], 1.0, 2, 0.0)
@settings(max_examples=300, deadline=None)
def test_equal_weights_are_solved_as_if_they_were_not(values, weight, fit, rest):
    values, weights = np.array(values), np.full(len(values), weight)
    capacity = weight * (fit + rest) or 1.0
    with pytest.MonkeyPatch.context() as monkeypatch:
        for solve in (pack, pack_lightest):
            expected = searched(monkeypatch, solve, values, weights, capacity)
            np.testing.assert_array_equal(solve(values, weights, capacity), expected)
        for floor in (0.0, 0.9 * values[expected].sum()):
            # without the tolerance, which lets the search find what is better by one bit
            arguments = values, weights, capacity, 10**6, floor
            expected, _ = searched(monkeypatch, branch_and_bound, *arguments)
            chosen, done = branch_and_bound(*arguments)
            assert done
            np.testing.assert_array_equal(chosen, expected)


@pytest.mark.parametrize("seed", range(5))
def test_many_equal_weights(seed):
    rng = np.random.default_rng(seed)
    values, weights = rng.uniform(-0.2, 1.0, 1000), np.full(1000, 0.7)
    fit = int(rng.integers(1, 900))
    taken = np.sort(np.argsort(-values)[:fit])
    taken = taken[values[taken] > 0.0]
    for capacity in (0.7 * fit, 0.7 * fit + 0.4):
        assert np.flatnonzero(knapsack(values, weights, capacity)).tolist() == taken.tolist()


def second_best(values, weights, capacity, best):
    """The largest value of a set that fits and is another than the best."""
    found = 0.0
    for flags in itertools.product((False, True), repeat=len(values)):
        chosen = np.array(flags, dtype=bool)
        if weights[chosen].sum() <= capacity * (1 + 1e-9) and (chosen != best).any():
            found = max(found, math.fsum(values[chosen]))
    return found


WEIGHTS = st.one_of(st.sampled_from([0.0, 0.1, 0.5, 0.7, 2.0, 1.4]), st.floats(1e-9, 1.5))


@given(st.data(), VALUES, st.integers(1, 30))
@settings(max_examples=300, deadline=None)
def test_no_guess_changes_the_answer(data, values, tenths):
    values, n = np.array(values), len(values)
    weights = np.array(data.draw(st.lists(WEIGHTS, min_size=n, max_size=n)))
    # often so that a set fills it exactly
    capacity = data.draw(st.sampled_from([tenths / 10, float(weights[: tenths % n + 1].sum()) or 1.0]))
    best = pack(values, weights, capacity)
    one = best.copy()
    one[data.draw(st.integers(0, n - 1))] ^= True
    some = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    for guess in (best, one, some, np.zeros(n, dtype=bool), np.ones(n, dtype=bool)):
        before = guess.copy()
        np.testing.assert_array_equal(pack_again(values, weights, capacity, guess), best)
        np.testing.assert_array_equal(guess, before)


def test_only_the_best_set_is_clearly_best():
    shown = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 9))
        values, weights = rng.uniform(0.1, 1.0, n), rng.uniform(0.1, 1.0, n)
        if seed % 2:  # few totals, so that sets are equally good, or fill the capacity exactly
            values, weights = values.round(1), weights.round(1)
        capacity = round(float(rng.uniform(0.5, 3.0)), 1)
        best = pack(values, weights, capacity)
        room, value = capacity * (1 + 1e-9), math.fsum(values[best])
        clear = second_best(values, weights, capacity, best) < value - 1e-9
        for flags in itertools.product((False, True), repeat=n):
            guess = np.array(flags)
            told = clearly_best(values, weights, room, guess)
            assert not told or (clear and (guess == best).all())
            shown += told
        assert clearly_best(values, weights, room, best) == (clear and value > 0.0)
    assert shown > 30


def test_a_guess_that_just_does_not_fit_is_not_taken():
    values, weights = np.array([0.9, 0.8]), np.array([0.6, 0.5])
    both = np.array([True, True])
    assert pack_again(values, weights, 1.1, both).all()
    assert pack_again(values, weights, 1.1 * (1 - 1e-8), both).tolist() == [True, False]


def test_compiled_guesses_are_checked_as_interpreted():
    again = compiled(pack_again)
    for seed in range(50):
        values, weights, capacity = cases(KINDS[seed % len(KINDS)], 6 + seed, seed)
        best = compiled(pack)(values, weights, capacity)
        other = compiled(pack)(values[::-1].copy(), weights, capacity)
        for guess in (best, other):
            np.testing.assert_array_equal(again(values, weights, capacity, guess), best)
            np.testing.assert_array_equal(pack_again(values, weights, capacity, guess), best)


def test_ties_go_to_the_smaller_index():
    assert knapsack([0.5, 0.5, 0.5], [1.0, 1.0, 1.0], 2.0).tolist() == [True, True, False]


test_bad_input_is_told = refusals(
    lambda arguments: knapsack(*arguments),
    (([1.0], [1.0, 2.0], 1.0), "values and weights must be two sequences of equal length"),
    (([[1.0]], [[1.0]], 1.0), "values and weights must be two sequences of equal length"),
    (([1.0], [-1.0], 1.0), "weights must be finite numbers >= 0, got -1.0"),
    (([math.nan], [1.0], 1.0), "values must be finite numbers, got"),
    (([1.0], [math.inf], 1.0), "weights must be finite numbers >= 0, got inf"),
    (([1.0], [1.0], -1.0), "capacity must be a finite number >= 0, got -1.0"),
    (([1.0], [1.0], math.nan), "capacity must be a finite number >= 0, got nan"),
)


def hard_case(n):
    """Strongly correlated real weights: a subset-sum in disguise, no bound helps."""
    weights = np.random.default_rng(1).uniform(0.1, 1.0, n)
    return weights + 0.1, weights, 0.3 * weights.sum()


def test_real_weights_are_given_up_with_a_clear_error():
    with pytest.raises(ValueError, match="the knapsack was given up"):
        knapsack(*hard_case(200))
    with pytest.raises(ValueError, match="given up after 1000000 nodes"):
        compiled(pack)(*hard_case(200))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_thousand_items_of_few_weights(seed):
    rng = np.random.default_rng(seed)
    weights, values = rng.integers(3, 8, 1000), rng.uniform(0.3, 0.95, 1000).round(3)
    best = compiled(fill_levels)(values, weights.astype(float), 2501)
    chosen = compiled(pack)(values, weights / 10, 250.05)
    assert math.fsum(values[chosen]) == pytest.approx(math.fsum(values[best]), abs=1e-9)


def test_integer_levels_fall_back_to_dynamic_programming():
    weights = np.random.default_rng(1).integers(100, 1000, 60).astype(float)
    values = weights + 100.0
    capacity = 0.3 * weights.sum()
    assert not branch_and_bound(values, weights, capacity, 1000, 0.0)[1]  # so the case is one
    chosen = pack_levels(values, weights, capacity, 1000)
    assert weights[chosen].sum() <= capacity
    assert values[chosen].sum() == pytest.approx(with_highs(values, weights, capacity), abs=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 10))
@settings(max_examples=60, deadline=None)
def test_dynamic_programming_by_brute_force(seed, n):
    rng = np.random.default_rng(seed)
    values, weights = rng.uniform(-0.2, 1.0, n), rng.integers(0, 6, n).astype(float)
    capacity = int(rng.integers(0, 15))
    chosen = fill_levels(values, weights, capacity + 1)
    assert weights[chosen].sum() <= capacity
    assert values[chosen].sum() == pytest.approx(brute(values, weights, capacity), abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_the_second_best_by_brute_force(seed, n):
    rng = np.random.default_rng(seed)
    values, weights = rng.uniform(0.1, 1.0, n).round(1), rng.uniform(0.1, 1.0, n).round(1)
    capacity = round(float(rng.uniform(0.2, 3.0)), 1)
    ceiling = brute(values, weights, capacity) - 1e-9
    sums = []
    for flags in itertools.product((False, True), repeat=n):
        chosen = np.array(flags, dtype=bool)
        if weights[chosen].sum() <= capacity * (1 + 1e-9) and values[chosen].sum() < ceiling:
            sums.append(values[chosen].sum())
    assert runner_up(values, weights, capacity, ceiling) == pytest.approx(max(sums, default=-1.0), abs=1e-12)
