"""A bounded history: against direct sums and exact fits, what it promises to be taken back, and mutants of it."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from tests.contextual.following import stream, teach
from tests.contextual.test_mutants import CHAINS
from tests.rig.mutants import made_again, survives

from weakfeedback.contextual import (
    ContextualProblem,
    QuadraticFeatures,
    Supervised,
    UssPd,
    UssPdRidge,
    UssPdTs,
    disagreement,
    glm,
    history,
)
from weakfeedback.contextual.policies import uss_pd, uss_pd_ridge
from weakfeedback.engine.replication import Compiled, Interpreted
from weakfeedback.engine.seeds import generator
from weakfeedback.kernels import linalg
from weakfeedback.validate import integer

KINDS = [UssPd, UssPdRidge, UssPdTs, Supervised]
COSTS = [0.1, 0.4, 0.9]
TOLERATED = 3e-3  # what UssPd states for tolerance=0.5


def labels_of(policy, arm, outputs, truth):
    """The label of each regression, and whether it is seen."""
    if hasattr(policy, "first"):
        seen = [int(j) <= arm for j in policy.stop]
        pairs = list(zip(policy.first, policy.stop))
        return [int(s and outputs[i] != outputs[j]) for s, (i, j) in zip(seen, pairs, strict=True)], seen
    return [int(i <= arm and outputs[i] != truth) for i in range(policy.K)], [
        i <= arm for i in range(policy.K)
    ]


class Direct:
    """What a bounded history must hold, in lists and NumPy: rows, labels and the quadratics of what was let go."""

    def __init__(self, policy):
        self.policy, self.rows, self.all, self.gone = policy, [], [], 0
        d, M = policy.d, policy.M
        self.H, self.b, self.weight = np.zeros((M, d, d)), np.zeros((M, d)), np.zeros(M)
        self.n = np.zeros(M, dtype=int)

    def see(self, phi, arm, outputs, truth):
        """Follow the policy over an observation that it has just learned."""
        labels, seen = labels_of(self.policy, arm, outputs, truth)
        self.rows.append((phi.copy(), arm, labels, seen))
        self.all.append(self.rows[-1])
        self.n += seen
        if self.policy.ready and len(self.rows) >= self.policy.keep:
            self.let_go(len(self.rows) - self.policy.keep + self.policy.keep // 4)

    def let_go(self, count):
        for m in range(self.policy.M):
            x, y = self.data(m, self.rows[:count])
            z = x @ self.policy.anchor[m]
            p = expit(z)
            w = p * (1 - p)
            self.H[m] += (x.T * w) @ x
            self.b[m] += x.T @ (y - p + w * z)
            self.weight[m] += 4 * w.sum()
        self.rows = self.rows[count:]
        self.gone += count

    def data(self, m, rows):
        """Features and labels of regression m among some observations."""
        begin, d = self.policy.begins[self.policy.slot[m]], self.policy.d
        seen = [row for row in rows if row[3][m]]
        x = np.array([row[0][begin : begin + d] for row in seen]).reshape(-1, d)
        return x, np.array([row[2][m] for row in seen], dtype=float)

    def derivatives(self, m, theta):
        """Gradient and Hessian of the penalised likelihood of what is kept and of the quadratic, and the weight."""
        x, y = self.data(m, self.rows)
        p = expit(x @ theta)
        w = p * (1 - p)
        gradient = x.T @ (y - p) + self.b[m] - self.H[m] @ theta - self.policy.ridge * theta
        H = (x.T * w) @ x + self.H[m] + self.policy.ridge * np.eye(self.policy.d)
        return gradient, H, self.weight[m] + 4 * w.sum()

    def maximum(self, m):
        """The exact estimate: Newton's method from the policy's own, which is near."""
        theta = self.policy.theta[m].copy()
        for _ in range(100):
            gradient, H, _ = self.derivatives(m, theta)
            step = np.linalg.solve(H, gradient)
            theta = theta + step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
            if gradient @ step < 1e-16:
                break
        return theta

    def worst(self, m):
        """The largest error of a probability over the observations kept."""
        x, _ = self.data(m, self.rows)
        return np.abs(expit(x @ self.policy.theta[m]) - expit(x @ self.maximum(m))).max(initial=0.0)

    def compare(self):
        """The tables to the bit, the quadratics and the counts up to rounding."""
        policy, n = self.policy, len(self.rows)
        assert (policy.t, policy.gone) == (n, self.gone)
        assert np.array_equal(policy.past[:n], np.array([row[0] for row in self.rows]))
        assert policy.arms[:n].tolist() == [row[1] for row in self.rows]
        assert policy.label[:n].tolist() == [row[2] for row in self.rows]
        assert np.allclose(policy.old_H, self.H, rtol=1e-9, atol=1e-9)
        assert np.allclose(policy.old_b, self.b, rtol=1e-9, atol=1e-9)
        assert np.allclose(policy.old_weight, self.weight, rtol=1e-9)
        assert policy.n.tolist() == self.n.tolist()


def follow(policy, rounds, seed=0, d=2, blocks=1, every=7):
    """Teach a policy arms of all kinds and compare it with the direct computation after each; return the latter."""
    direct = Direct(policy)
    for t, (short, *what) in enumerate(stream(seed, d, policy.K, rounds)):
        phi = np.concatenate([short * (1 - 0.2 * k) for k in range(blocks)])
        teach(policy, phi, *what)
        direct.see(phi, *what)
        direct.compare()
        if policy.ready and t % every == 0:
            for m in range(policy.M):
                assert direct.worst(m) <= TOLERATED, (t, m)
    return direct


def sums_are_direct_ones(kind, **options):
    policy = kind(COSTS, 3, keep=100, **options)
    direct = follow(policy, 230)
    assert policy.gone == 150
    rng = np.random.default_rng(4)
    for m in range(policy.M):
        theta = policy.theta[m] + rng.normal(size=3)
        gradient, H, weight = direct.derivatives(m, theta)
        found, matrix = np.full(3, 7.0), np.full((3, 3), 7.0)
        policy.evaluate(m, theta, found, matrix, True)
        assert np.allclose(found, gradient, rtol=1e-9, atol=1e-9)
        assert np.allclose(np.tril(matrix), np.tril(H), rtol=1e-9, atol=1e-9)
        assert policy.weight[m] == pytest.approx(weight)
    return policy, direct


def bounds_are_of_all_observations(kind):
    """Counts, V and the bonus, for the two optimistic policies."""
    policy, direct = sums_are_direct_ones(kind)
    d, total = 3, len(direct.all)
    for m in range(policy.M):
        x, _ = direct.data(m, direct.all)
        V = x.T @ x + policy.ridge * np.eye(d)
        assert np.allclose(policy.V[policy.slot[m]], V)
        assert np.allclose(policy.W[policy.slot[m]] @ V, np.eye(d), atol=1e-7)
        inside = 0.5 * d * math.log(1 + 2 * total / d) + math.log(9 / (2 * policy.delta))
        assert policy.bonus(m) == pytest.approx(2 * policy.sigma / policy.kappa * math.sqrt(inside))


def nothing_is_let_go_in_the_forced_phase():
    for kind in (UssPd, Supervised):
        forced_phase(kind)


def forced_phase(kind):
    policy = kind([0.1, 0.4], 3, forced=150, keep=100)
    for t, what in enumerate(stream(1, 2, 2, 152), start=1):
        teach(policy, *what)
        assert (policy.t, policy.gone) == ((t, 0) if t < 150 else (t - 75, 75)), t


def full_fits_reach_the_maximum(kind):
    """Features grow thirtyfold and effects turn round, so that Newton's steps must be cut when much has been let go."""
    rng = np.random.default_rng(1)
    phi = np.column_stack([np.ones(600), rng.uniform(-1, 1, (600, 3))])
    phi[400:] *= 30
    effects = np.where(np.arange(600)[:, None] < 400, 1, -1 / 30) * [0.0, 4.0, -4.0, 2.0]
    labels = (rng.random(600) < expit(np.sum(phi * effects, axis=1))).astype(int)
    policy = kind([0.1, 0.3], 4, keep=100)
    direct = Direct(policy)
    for t, (row, label) in enumerate(zip(phi, labels, strict=True)):
        what = (row, 1, np.array([0, label]), 0)
        teach(policy, *what)
        direct.see(*what)
        if t % 2 or t > 390:
            gradient, H, _ = direct.derivatives(0, policy.theta[0])
            step = np.linalg.solve(H, gradient)
            x, _ = direct.data(0, direct.rows)
            near, exact = (expit(x @ theta) for theta in (policy.theta[0], policy.theta[0] + step))
            assert np.abs(near - exact).max(initial=0.0) < TOLERATED
            assert gradient @ step < 1e-4  # 8 tau^4 n with n = 80; without the quadratic it is 12
    assert policy.gone > 400


def tables_are_append_only(kind):
    """An update writes the row t and no other; what rows from t on hold is of no account."""
    clean, dirty = (kind(COSTS, 3, keep=100, **({"forced": 20} if kind is UssPd else {})) for _ in range(2))
    grown, lost = 0, 0
    for what in stream(2, 2, 3, 240):
        t, gone = dirty.t, dirty.gone
        for name, garbage in (("past", np.nan), ("label", -1), ("arms", 7)):
            getattr(dirty, name)[t:] = garbage
        tables = [getattr(clean, name) for name in kind.history]
        before = [table.copy() for table in tables]
        teach(clean, *what)
        teach(dirty, *what)
        for name, table, old in zip(kind.history, tables, before, strict=True):
            others = np.arange(len(table)) != t
            assert np.array_equal(table[others], old[others]), name
        replaced = [getattr(clean, name) is not table for name, table in zip(kind.history, tables)]
        assert len(set(replaced)) == 1
        grown += len(clean.arms) > len(before[-1])
        lost += clean.gone > gone
        assert replaced[0] == (clean.gone > gone or len(clean.arms) > len(before[-1]))
        for name, value in vars(clean).items():
            rows = slice(0, clean.t) if name in kind.history else ...
            mine, theirs = np.asarray(value)[rows], np.asarray(getattr(dirty, name))[rows]
            assert mine.tobytes() == theirs.tobytes(), name
    assert (grown, lost) == (1, 6)


# -- the policies pass


@pytest.mark.parametrize("kind", KINDS)
def test_sums_over_what_is_kept_and_what_was_let_go_are_direct_ones(kind):
    sums_are_direct_ones(kind)


@pytest.mark.parametrize("kind", [UssPd, UssPdRidge, UssPdTs])
def test_every_pair_has_the_quadratic_of_its_own_features(kind):
    policy = kind(COSTS, 9, keep=100, per_pair=True)
    follow(policy, 130, blocks=3)
    assert policy.gone == 50


@pytest.mark.parametrize("kind", [UssPd, UssPdRidge])
def test_counts_matrices_and_bonus_are_of_all_observations(kind):
    bounds_are_of_all_observations(kind)


def test_the_bound_of_the_comparator_is_of_all_observations():
    policy, whole = Supervised(COSTS, 3, keep=100), Supervised(COSTS, 3)
    for what in stream(3, 2, 3, 400):
        teach(policy, *what)
        teach(whole, *what)
    assert policy.gone == 325
    whole.theta[:] = policy.theta
    whole.W[:] = policy.W
    rng = np.random.default_rng(0)
    probes = np.column_stack([np.ones(300), rng.uniform(-1, 1, (300, 2))]) / math.sqrt(3)
    extras = rng.uniform(0, 0.8, 300)

    def decisions(one):
        found = []
        for probe, extra in zip(probes, extras, strict=True):
            one.C = np.array([0.0, extra, 3.0])
            found.append(one.select(probe, None))
        return found

    assert decisions(policy) == decisions(whole)
    policy.gone = 0
    assert decisions(policy) != decisions(whole)


def test_the_forced_phase_keeps_everything():
    nothing_is_let_go_in_the_forced_phase()


@pytest.mark.parametrize("kind", [UssPdRidge, UssPdTs])
def test_full_fits_reach_the_maximum_of_what_is_kept_and_the_quadratic(kind):
    full_fits_reach_the_maximum(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_the_history_are_append_only(kind):
    assert kind.history == ("past", "label", "arms")
    tables_are_append_only(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_until_something_is_let_go_a_bound_changes_no_bit(kind):
    bounded, whole = kind(COSTS, 3, keep=100), kind(COSTS, 3)
    assert whole.keep == 0
    own = {"keep", "gone", "old_H", "old_b", "old_weight"}
    for t, what in enumerate(stream(5, 2, 3, 100), start=1):
        teach(bounded, *what)
        teach(whole, *what)
        same = vars(whole).keys() - own - (set() if t < 100 else {"t", *kind.history})
        for name in same:
            assert np.asarray(vars(bounded)[name]).tobytes() == np.asarray(vars(whole)[name]).tobytes(), name
    assert bounded.gone == 25
    assert whole.gone == 0


@pytest.mark.parametrize("kind", [UssPd, pytest.param(UssPdRidge, marks=pytest.mark.slow)])
def test_older_observations_as_a_quadratic_hardly_change_the_estimate(kind):
    rng = np.random.default_rng(0)
    phi = QuadraticFeatures(math.sqrt(2))(rng.uniform(-1, 1, size=(1200, 2)))
    differ = rng.random(1200) < expit(phi @ [-1, 8, 0, 4, 0, 2.0])
    labels = np.stack([differ, np.zeros(1200, bool), rng.random(1200) < 0.1], axis=1).astype(int)
    costs = [0.01, 0.05, 0.3]
    whole, bounded = kind(costs, 6), kind(costs, 6, keep=400)
    furthest, same = 0.0, 0
    for t in range(1200):
        arm = whole.select(phi[t], None)
        same += bounded.select(phi[t], None) == arm
        for policy in (whole, bounded):
            policy.update(phi[t], arm, labels[t, : arm + 1], None)
        if t > 600:
            for m in range(3):
                error = np.sqrt(phi[t] @ whole.Q[m] @ phi[t])  # the standard error of the logit
                furthest = max(furthest, abs((bounded.theta[m] - whole.theta[m]) @ phi[t]) / error)
    assert bounded.t + bounded.gone == whole.t == 1200
    assert bounded.gone >= 800
    assert np.array_equal(bounded.n, whole.n)
    assert np.array_equal(bounded.V, whole.V)
    assert bounded.bonus(0) == whole.bonus(0)
    # What the quadratic adds is small beside what is not known anyway.
    assert furthest < 0.5
    assert same > 1190


# -- compiled


def problem_of(d, rounds, scale):
    """Contexts in a cube and two random classifiers that cost nothing, so that both are always seen."""
    rng = np.random.default_rng(d)
    contexts = rng.uniform(-1, 1, (rounds, d))
    parameters = scale * rng.standard_normal((2, d))
    truth = (contexts[:, 0] > 0).astype(int)
    map_ = QuadraticFeatures(math.sqrt(d))
    return ContextualProblem(contexts, truth, parameters, [0.0, 0.0], features=map_)


def played(player, policy, problem, marks):
    """The state of a policy at each mark."""
    world, counts = problem.world(), np.zeros(problem.arms + 2, dtype=np.int64)
    rngs = generator(0, 0, 0), generator(0, 0, 1)
    for t in marks:
        table = np.zeros((1, counts.size), dtype=np.int64)
        _, state = player.play(policy, world, *rngs, np.array([t]), counts, table)
        vars(policy).update(state)
        yield policy


def linear(x):
    return np.column_stack([np.ones(len(x)), x]) / 2


@pytest.mark.slow  # unbounded ones are compared in tests/checks/test_policies.py
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_rounds_leave_the_bits_of_interpreted_ones(kind):
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1, 1, (60, 2))
    arms = [[0.5], [1.0, 0.5], [2.0, 1.0]]
    truth = (contexts[:, 0] > 0).astype(int)
    problem = ContextualProblem(contexts, truth, arms, [0.1, 0.35, 0.7], features=linear)
    states = []
    for player in (Compiled(problem, kind(problem.costs, 3, keep=100)), Interpreted(problem)):
        (policy,) = played(player, kind(problem.costs, 3, keep=100), problem, [420])
        assert (policy.t, policy.gone) == (95, 325)
        states.append(vars(policy))
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        assert np.asarray(value).tobytes() == np.asarray(states[1][name]).tobytes(), name


def kept_maximum(policy, m=0):
    """The exact estimate of a policy with one pair, of its own tables and quadratic."""
    direct = Direct(policy)
    direct.H, direct.b, direct.weight = policy.old_H, policy.old_b, policy.old_weight
    rows, t = zip(policy.past, policy.arms, policy.label), policy.t
    direct.rows = [(phi, arm, label, [True]) for _, (phi, arm, label) in zip(range(t), rows)]
    return direct.worst(m)


@pytest.mark.parametrize(
    ("d", "scale", "keep", "points"), [(3, 4.0, 200, 60), (3, 1.0, 1000, 60), (13, 0.5, 1000, 12)]
)
@pytest.mark.parametrize("kind", [UssPd, pytest.param(UssPdTs, marks=pytest.mark.slow)])
def test_the_estimate_stays_within_the_tolerance(kind, d, scale, keep, points):
    problem = problem_of(d, 6000, scale)
    policy = kind(problem.costs, problem.dimension, keep=keep)
    marks = np.unique(np.geomspace(keep, 6000, points).astype(int))
    states = played(Compiled(problem, policy), policy, problem, marks)
    errors = [kept_maximum(state) for state in states if state.ready]
    assert len(errors) >= points // 2
    assert policy.gone > 6000 - keep
    assert max(errors) <= TOLERATED
    assert np.median(errors) <= TOLERATED / 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", [UssPd, UssPdRidge, UssPdTs])
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_two_hundred_kept_of_two_thousand_give_nearly_the_fit_of_all(kind, scale):
    """All data, fitted by a general optimiser: the error of the quadratics is small beside the standard error."""
    problem = problem_of(2, 2000, scale)
    policy = kind(problem.costs, problem.dimension, keep=200)
    whole = kind(problem.costs, problem.dimension)
    for one in (policy, whole):
        for _ in played(Compiled(problem, one), one, problem, [2000]):
            pass
    assert (policy.t + policy.gone, whole.t) == (2000, 2000)
    x, y = whole.past[:2000], whole.label[:2000, 0].astype(float)

    def loss(theta):
        z = x @ theta
        p = expit(z)
        value = np.sum(np.logaddexp(0.0, z) - y * z) + 0.5 * policy.ridge * theta @ theta
        return value, x.T @ (p - y) + policy.ridge * theta

    fit = minimize(loss, np.zeros(x.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-6}).x
    w = expit(x @ fit) * (1 - expit(x @ fit))
    H = (x.T * w) @ x + policy.ridge * np.eye(len(fit))
    deviations = np.sqrt(np.einsum("ij,jk,ik->i", x, np.linalg.inv(H), x))
    away = np.abs(x @ (policy.theta[0] - fit)) / deviations
    assert away.max() <= 0.3
    assert np.abs(expit(x @ policy.theta[0]) - expit(x @ fit)).max() <= 0.01


# -- wrong options


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep", [99, 1, -5, 100.5, "all", True, False, math.nan])
def test_wrong_bounds(kind, keep):
    with pytest.raises(ValueError, match="keep must be an integer"):
        kind(COSTS, 3, keep=keep)


def test_a_bound_may_be_any_integer_from_100():
    for keep in (100, np.int64(101), 5000):
        assert UssPd(COSTS, 3, keep=keep).keep == integer("keep", keep, 100)


# -- mutants

MUTANTS = [
    ("UssPd", history, "- p + w[r] * z[r]", "- p - w[r] * z[r]"),
    ("UssPd", history, "- p + w[r] * z[r]", "- p"),
    ("UssPd", history, "gradient[i] += self.old_b[m, i] - v[i]", "gradient[i] -= self.old_b[m, i] + v[i]"),
    ("UssPd", history, "gradient[i] += self.old_b[m, i] - v[i]", "gradient[i] += self.old_b[m, i]"),
    ("UssPd", history, "H[i, j] += self.old_H[m, i, j]", "H[i, j] += 0.0"),
    ("UssPd", history, "return self.old_weight[m]", "return 0.0"),
    ("UssPd", history, "self.old_weight[m] += weight", "self.old_weight[m] = weight"),
    ("UssPd", history, "        mirror(H)\n", ""),
    ("UssPd", history, "self.label[s, m] = 0", "self.label[s, m] = abs(self.label[s, m])"),
    ("UssPd", history, "self.label.shape[1]", "self.label.shape[1] - 1"),
    ("UssPd", history, "self.arms[count + r]", "self.arms[count + r - 1]"),
    ("UssPd", history, "np.zeros(self.arms.size, dtype=np.int64)", "self.arms"),
    ("UssPd", history, "arms[r] = self.arms[r]", "arms[r] = self.arms[s - 1 - r]"),
    ("UssPd", history, "self.keep + self.keep // 4)", "self.keep + self.keep // 4 + 1)"),
    ("UssPd", history, "self.t >= self.keep:", "self.t > self.keep:"),
    ("UssPd", history, "        while s < count:", "        while s < count - 64:"),
    ("UssPd", history, "self.expand(m, count)", "self.expand(m, count - 1)"),
    ("UssPd", history, "self.expand(m, count)", "self.expand(m, count + 1)"),
    ("UssPd", history, "self.observed_rows(m, s, count, rows)", "self.observed_rows(m, s, self.t, rows)"),
    ("UssPd", history, "self.gone += count", "self.gone = count"),
    ("UssPd", history, "rest = self.t - count", "rest = self.t - count - 1"),
    ("UssPd", linalg, "table[first + r, k]", "table[first + r - 1, k]"),
    ("UssPd", linalg, "moved = np.zeros_like(table)", "moved = table"),
    ("UssPd", uss_pd, "self.t + self.gone,", "self.t,"),
    ("UssPd", uss_pd, "self.t + self.gone,", "self.t - self.gone,"),
    ("UssPdRidge", uss_pd_ridge, "self.t + self.gone,", "self.t,"),
    ("UssPd", disagreement, "            self.trim()", "        self.trim()"),
    ("UssPdRidge", history, "inner(self.old_b[m], step) - inner", "inner(self.old_b[m], step) + inner"),
    ("UssPdRidge", glm, "steeper += loss", "steeper -= loss"),
]


def battery(name, kind):
    if name == "UssPd":
        forced_phase(kind)
    else:
        full_fits_reach_the_maximum(kind)
    bounds_are_of_all_observations(kind)
    tables_are_append_only(kind)


@pytest.mark.parametrize("kind", [UssPd, UssPdRidge])
def test_the_battery_finds_nothing_wrong_with_policies_made_again(kind):
    module = uss_pd if kind is UssPd else uss_pd_ridge
    again = made_again(
        CHAINS[kind.__name__], kind.__name__, module, "self.t + self.gone,", "self.t + self.gone,"
    )
    assert again is not kind
    battery(kind.__name__, again)


@pytest.mark.parametrize(("name", "module", "old", "new"), MUTANTS, ids=[f"{m[0]}: {m[3]}" for m in MUTANTS])
def test_mutants_are_caught(name, module, old, new):
    mutant = made_again(CHAINS[name], name, module, old, new)
    assert not survives(lambda: battery(name, mutant))
