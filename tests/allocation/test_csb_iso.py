"""CSB-ISO and problems with response curves: the slow twin, enumeration, mutants, what must always hold, regret."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.reference.csb_iso import SlowCsbIso
from tests.rig.mutants import mutate, survives
from tests.rig.refusals import refusals

from weakfeedback import simulate
from weakfeedback.allocation import AllocationProblem, CsbIso, CsbTs
from weakfeedback.allocation.policies import csb_iso
from weakfeedback.allocation.problem import best_levels
from weakfeedback.checks import check_policy
from weakfeedback.kernels import separable
from weakfeedback.kernels.separable import split_levels
from weakfeedback.live import storage
from weakfeedback.settings.catalog import SETTINGS

BOTH = ("loss", "reward")


def random_curves(rng, K, C, setting="loss"):
    """Steps, floors and slopes."""
    l = np.arange(C + 1) / C * K  # noqa: E741
    kinds = [
        lambda mu: mu * (l < rng.uniform(0.4, 3)),
        lambda mu: mu * np.exp(-l / rng.uniform(0.4, 3)),
        lambda mu: mu / (1 + np.exp((l - 1.5) / rng.uniform(0.1, 0.4))),
        lambda mu: mu * np.where(l < rng.uniform(0.4, 3), 1.0, rng.uniform(0.1, 0.5)),
    ]
    falling = np.array([kinds[i % 4](rng.uniform(0.3, 0.95)) for i in range(K)])
    return falling if setting == "loss" else 1.0 - falling


# ---- the twin


def lockstep(kind, seed, setting, rounds=60, fractions=False, split=None):
    """Policy and twin in the same world, with the same draws; gaps, late and real-valued outcomes too."""
    rng = np.random.default_rng(seed)
    K, C = int(rng.integers(1, 5)), int(rng.choice([1, 2, 7, 20]))
    problem = AllocationProblem(curves=random_curves(rng, K, 20, setting), budget=1.7, setting=setting)
    one, twin = kind(K, 1.7, C, setting), SlowCsbIso(K, 1.7, C, setting)
    rngs = np.random.default_rng(5), np.random.default_rng(5)
    world, hidden, seen, waiting = problem.world(), np.empty(K), np.empty(K), []
    for t in range(rounds):
        fast, slow = one.select(rngs[0]), twin.select(rngs[1])
        np.testing.assert_allclose(fast, slow, atol=1e-12, err_msg=f"round {t}")
        assert fast.sum() <= 1.7 * (1 + 1e-9)
        world.draw(hidden, rng)
        world.show(fast, hidden, seen)
        told = seen * rng.uniform(0.3, 1.0, K) if fractions else seen.copy()
        told[rng.random(K) < 0.05] = np.nan
        waiting.append((fast, told))
        if len(waiting) > 3:
            lesson = waiting.pop(int(rng.integers(4)))
            one.update(*lesson, rngs[0])
            twin.update(*lesson, rngs[1])
    counted = [[twin.counts(i, k) for k in range(C + 1)] for i in range(K)]
    assert np.stack((one.n1, one.n0), axis=-1).tolist() == [[list(n) for n in row] for row in counted]
    assert rngs[0].random() == rngs[1].random()  # as many draws


@pytest.mark.parametrize("setting", BOTH)
@pytest.mark.parametrize("fractions", [False, True])
def test_csb_iso_agrees_with_its_twin(setting, fractions):
    for seed in range(12):
        lockstep(CsbIso, seed, setting, fractions=fractions)


EDITS = [
    ("FALL = 5e-4", "FALL = 0.3"),
    ("PRIOR = 0.5", "PRIOR = 1.0"),
    ("rng.random() < 0.5:", "rng.random() < 0.4:"),
    ("if k == 0 or self.n1[i, k]", "if self.n1[i, k]"),
    ("weight[j] = 2.0 * self.prior + ones + zeros", "weight[j] = 1.0"),
    (
        "y[j] = rng.beta(self.prior + ones, self.prior + zeros)",
        "y[j] = rng.beta(self.prior + zeros, self.prior + ones)",
    ),
    ("if weight[j] > 0.0 else 1.0", "if weight[j] > 0.0 else 0.0"),
    ("weight[b] = 2.0 * self.prior + ones + zeros", "weight[b] = 2.0"),
    ("                    zeros += self.n0[i, places[j]]\n", ""),
    ("(1 if gap == 1 else 1 + int(rng.random() * gap))", "1"),
    ("y[blocks - 1] * rng.random()", "rng.random()"),
    ("last + 1 + int(rng.random() * (C - last))", "last + int(rng.random() * (C - last))"),
    ("if fallen > last + FALL:", "if fallen > FALL:"),
    ("remaining -= gain[chosen[i]]", "pass"),
    ("(got + left) * self.step", "left * self.step"),
    ("/ self.step + 0.5), self.levels)", "/ self.step + 0.5), self.levels - 1)"),
    ("(coin(observed[i], rng) > 0.0) != self.reward", "coin(observed[i], rng) > 0.0"),
    ("while top > 0 and y[top - 1] < y[top]:", "if top > 0 and y[top - 1] < y[top]:"),
    ("            weight[top - 1] = total\n", ""),
    ("            size[top - 1] += size[top]\n", ""),
]


@pytest.mark.parametrize(("old", "new"), EDITS, ids=lambda text: text.strip()[:40])
def test_mutants_are_found_out(old, new):
    mutant = mutate(csb_iso, old, new).CsbIso
    runs = [(seed, setting, seed % 2 == 0) for seed in range(10) for setting in BOTH]
    assert any(not survives(lambda run=run: lockstep(mutant, *run[:2], fractions=run[2])) for run in runs)


# ---- its parts, by enumeration


def best_split(offers, capacity, start, level, gain):
    splits = itertools.product(*offers)
    fits = [s for s in splits if sum(level[m] for m in s if m >= 0) <= capacity]
    return max(sum(gain[m] for m in s if m >= 0) for s in fits)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, None),
        ("range(capacity, -1, -1)", "range(capacity + 1)"),
        ("if level[m] > room:", "if level[m] >= room:"),
        ("> top:", "> 1.5 * top:"),
        ("room -= level[chosen[i]]", "pass"),
    ],
)
def test_the_split_is_the_best_of_all(old, new):
    split = split_levels if old is None else mutate(separable, old, new).split_levels

    def check():
        for seed in range(100):
            rng = np.random.default_rng(seed)
            sizes = rng.integers(0, 4, 3)
            start = np.append(0, np.cumsum(sizes))
            level = np.concatenate(
                [np.sort(rng.choice(np.arange(1, 9), n, replace=False)) for n in sizes]
            ).astype(int)
            gain = np.concatenate([np.sort(rng.random(n)) for n in sizes])
            chosen = split(start, level, gain, 8)
            offers = [[-1, *range(start[i], start[i + 1])] for i in range(3)]
            assert all(chosen[i] in offers[i] for i in range(3))
            assert sum(level[m] for m in chosen if m >= 0) <= 8
            value = sum(gain[m] for m in chosen if m >= 0)
            assert value == pytest.approx(best_split(offers, 8, start, level, gain), abs=1e-12)

    assert survives(check) == (old is None)


def test_pooling_solves_the_quadratic_programme():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y, w = rng.random(6), rng.uniform(0.5, 5.0, 6)
        values, weights, size = y.copy(), w.copy(), np.ones(6, dtype=np.int64)
        n = csb_iso.pool_rising(values, weights, size, 6)
        found = np.repeat(values[:n], size[:n])
        order = {"type": "ineq", "fun": lambda x: x[:-1] - x[1:]}
        right = minimize(
            lambda x, y=y, w=w: w @ (x - y) ** 2, np.full(6, 0.5), constraints=[order], tol=1e-14
        )
        np.testing.assert_allclose(found, right.x, atol=1e-5)
        assert weights[:n].sum() == pytest.approx(w.sum())


@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=60),
    st.integers(0, 10**6),
    st.sampled_from(BOTH),
)
@settings(max_examples=100, deadline=None)
def test_a_drawn_curve_falls_within_bounds_and_depends_on_counts_only(data, seed, setting):
    one, other = CsbIso(1, 1.2, 12, setting), CsbIso(1, 1.2, 12, setting)
    for policy, lessons in ((one, data), (other, data[::-1])):
        for level, positive in lessons:
            policy.update(np.array([level * policy.step]), np.array([float(positive)]), None)
    drawn = []
    for policy in (one, other):
        level, value = np.empty(13, dtype=np.int64), np.empty(13)
        n = policy.draw(0, 0, level, value, np.random.default_rng(seed))
        drawn.append((level[:n].tolist(), value[:n].tolist()))
    assert drawn[0] == drawn[1]
    level, value = map(np.array, drawn[0])
    assert level[0] == 0
    assert (np.diff(level) > 0).all() or level.size == 1
    assert level[-1] <= 12
    assert (np.diff(value) <= 0).all()
    assert ((value >= 0) & (value <= 1)).all()
    amounts, ones, zeros = one.response_of(0)
    rate = ones / np.maximum(ones + zeros, 1)
    known = ones + zeros > 0
    assert ((np.diff(rate[known]) <= 1e-12) if setting == "loss" else (np.diff(rate[known]) >= -1e-12)).all()
    assert (amounts.size, amounts[-1]) == (13, pytest.approx(1.2))


# ---- problems with curves


def test_the_optimum_is_the_best_of_all_splits():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for setting in BOTH:
            curves = random_curves(rng, 3, 6, setting)
            problem = AllocationProblem(curves=curves, budget=2.4, setting=setting)
            sign = 1 if setting == "reward" else -1
            splits = [s for s in itertools.product(range(7), repeat=3) if sum(s) <= 6]
            best = max(sign * sum(curves[i, k] for i, k in enumerate(s)) for s in splits)
            assert sign * problem.optimal_value == pytest.approx(best, abs=1e-12)
            levels = np.rint(problem.optimal_allocation / 0.4).astype(int)
            assert sign * curves[np.arange(3), levels].sum() == pytest.approx(best, abs=1e-12)
    assert best_levels(np.zeros((2, 4)))[0].tolist() == [0, 0]


@pytest.mark.slow
def test_a_step_is_a_threshold():
    """The same worlds: thresholds as curves give every policy the same rounds."""
    mu, theta = np.array([0.9, 0.7, 0.5]), np.array([0.4, 0.3, 0.6])
    grid = np.arange(11) / 10
    curves = np.where(grid[None] + 1e-9 < theta[:, None], mu[:, None], 0.0)
    one = simulate(AllocationProblem(mu, theta, 1.0), {"x": CsbTs(3, 1.0, 0.1)}, 300, 3).values("x")
    same = simulate(AllocationProblem(curves=curves, budget=1.0), {"x": CsbTs(3, 1.0, 0.1)}, 300, 3).values(
        "x"
    )
    np.testing.assert_allclose(one, same, atol=1e-9)


test_wrong_problems_are_named = refusals(
    lambda arguments: AllocationProblem(**arguments),
    ({"curves": [[0.5, 0.6]], "budget": 1.0}, "curves must lie in .0, 1. and never rise"),
    (
        {"curves": [[0.5, 0.4]], "budget": 1.0, "setting": "reward"},
        "curves must lie in .0, 1. and never fall",
    ),
    ({"curves": [[1.5, 0.4]], "budget": 1.0}, "curves must lie in"),
    ({"curves": [[0.5]], "budget": 1.0}, "curves must be a row for each arm"),
    ({"curves": [[0.5, 0.4], [0.5]], "budget": 1.0}, "curves must be a row for each arm"),
    ({"curves": [], "budget": 1.0}, "curves must be a row for each arm"),
    ({"curves": [[0.5, 0.4]], "budget": 0.0}, "budget must be a finite number > 0, got 0.0"),
    ({"curves": [[0.5, 0.4]], "means": [0.5], "budget": 1.0}, "means and thresholds must be left out"),
    ({"curves": [[0.5, 0.4]], "budget": 1.0, "rewards": "uniform"}, "rewards must be 'bernoulli' where"),
    ({"means": [0.5], "thresholds": [0.5]}, "budget must be"),
)


def test_a_problem_with_curves_is_described_and_written_in_a_file():
    setting = SETTINGS["allocation"]
    table = {"curves": [[0.5, 0.2], [0.9, 0.0]], "budget": 1.0}
    problem = setting.form_of(table).make(**table)
    assert repr(problem) == "AllocationProblem(arms=2, budget=1, setting='loss', curves at 1 levels)"
    assert dict(setting.describe_problem(problem))["Optimal allocation"] == "0, 1"
    assert (
        problem.digest()
        != setting.form_of(table).make(**{**table, "setting": "loss", "budget": 2.0}).digest()
    )
    assert setting.form_of({"means": [0.5]}).needed == ["means", "thresholds", "budget"]


test_wrong_arguments_are_named = refusals(
    lambda arguments: CsbIso(3, 1.0, **arguments),
    ({"levels": 0}, "levels must be an integer >= 1, got 0"),
    ({"levels": 2000}, "levels must be at most 1000, got 2000"),
    ({"setting": "losses"}, "setting must be 'loss' or 'reward', got 'losses'"),
)


@pytest.mark.parametrize("setting", BOTH)
def test_conformance_on_curves(setting):
    problem = AllocationProblem(
        curves=random_curves(np.random.default_rng(1), 4, 20, setting), budget=1.0, setting=setting
    )
    check_policy(lambda p: CsbIso(p.arms, p.budget, 20, p.outcome), problem, rounds=60)


# ---- regret


def test_thresholds_fail_where_effects_are_gradual():
    """Diminishing returns, 3 worlds: CSB-TS has linear regret, some 1.2 a round; CSB-ISO a tenth of it."""
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        l = np.arange(101) / 10  # noqa: E741
        curves = [rng.uniform(0.3, 0.95) * np.exp(-l / rng.uniform(0.4, 3)) for _ in range(10)]
        problem = AllocationProblem(curves=curves, budget=1.0)
        found = simulate(
            problem, {"new": CsbIso(10, 1.0), "old": CsbTs(10, 1.0)}, 4000, 1, marks=[2000, 4000]
        )
        new, old = found.values("new")[0], found.values("old")[0]
        assert old[1] - old[0] > 0.7 * old[0]  # linear
        assert new[1] - new[0] < 0.7 * new[0]
        ratios.append(new[1] / old[1])
    assert max(ratios) < 0.25


def test_states_from_before_keep_their_prior():
    """A round of today's rules from a state of before would not be the round that was decided then."""
    once = CsbIso(3, 1.0)
    once.prior = 1.0
    assert "prior" not in storage.encode_fields(once)
    for policy in (once, CsbIso(3, 1.0)):
        assert storage.restore_fields(CsbIso(3, 1.0), storage.encode_fields(policy)).prior == policy.prior
