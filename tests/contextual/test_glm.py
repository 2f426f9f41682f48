"""The regressions against scikit-learn's exact fit, and on data that have broken such code before."""

import math

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from weakfeedback.contextual import (
    ContextualProblem,
    QuadraticFeatures,
    Supervised,
    UssPd,
    UssPdRidge,
    UssPdTs,
)
from weakfeedback.engine.replication import Compiled
from weakfeedback.engine.seeds import generator
from weakfeedback.kernels.linalg import settle


def exact(features, labels, ridge):
    # scikit-learn wants two classes: add a weightless observation of the other
    if len(set(labels.tolist())) == 1:
        features = np.vstack([features, np.zeros(features.shape[1])])
        labels = np.append(labels, 1 - labels[0])
    model = LogisticRegression(
        C=1 / ridge, solver="newton-cholesky", fit_intercept=False, tol=1e-10, max_iter=2000
    )
    return model.fit(features, labels).coef_[0]


def worst_error(policy, m=0):
    """The largest error of a probability over the contexts that regression m has met."""
    seen = policy.arms[: policy.t] >= policy.stop[m]
    features, labels = policy.past[: policy.t][seen], policy.label[: policy.t, m][seen]
    theta = exact(features, labels, policy.ridge)
    return float(np.abs(expit(features @ policy.theta[m]) - expit(features @ theta)).max())


def follow(policy, problem, marks):
    """Play compiled rounds up to each mark and yield the policy with its state of then."""
    player, world = Compiled(problem, policy), problem.world()
    rngs = generator(0, 0, 0), generator(0, 0, 1)
    counts = np.zeros(problem.arms + 2, dtype=np.int64)
    for t in marks:
        table = np.zeros((1, counts.size), dtype=np.int64)
        _, state = player.play(policy, world, *rngs, np.array([t]), counts, table)
        vars(policy).update(state)
        yield policy


def stream(d, scale):
    """20000 contexts in a cube and two random classifiers that cost nothing, so that both are always seen."""
    rng = np.random.default_rng(d)
    contexts = rng.uniform(-1, 1, (20_000, d))
    parameters = scale * rng.standard_normal((2, d))
    truth = (contexts[:, 0] > 0).astype(int)
    return ContextualProblem(
        contexts, truth, parameters, [0.0, 0.0], features=QuadraticFeatures(math.sqrt(d))
    )


@pytest.mark.parametrize(
    ("d", "scale", "tolerance", "allowed", "points", "rounds"),
    [
        (3, 1.0, 0.5, 3e-3, 150, 20_000),
        (3, 4.0, 0.5, 3e-3, 150, 20_000),
        (3, 4.0, 0.2, 1e-3, 150, 20_000),
        (13, 0.5, 0.5, 3e-3, 30, 6000),
        pytest.param(13, 0.5, 0.5, 3e-3, 50, 20_000, marks=pytest.mark.slow),
    ],
)
def test_the_estimate_stays_within_the_tolerance(d, scale, tolerance, allowed, points, rounds):
    problem = stream(d, scale)
    assert problem.dimension == (d + 1) * (d + 2) // 2  # 10 and 105
    policy = UssPd(problem.costs, problem.dimension, tolerance=tolerance)
    errors = []
    for state in follow(policy, problem, np.unique(np.geomspace(200, rounds, points).astype(int))):
        if state.ready:
            assert state.n[0] == state.t
            errors.append(worst_error(state))
    assert len(errors) >= points // 2
    assert max(errors) <= allowed
    assert np.median(errors) <= allowed / 5


def test_the_stream_is_not_refitted_all_the_time():
    problem = stream(3, 1.0)
    policy = UssPd(problem.costs, problem.dimension)
    fits, sums = set(), set()
    for state in follow(policy, problem, range(10_000, 10_200)):
        fits.add(int(state.fitted[0]))
        sums.add(int(state.centred[0]))
    assert len(fits) <= 2
    assert len(sums) <= 10


def test_matrices_are_those_of_the_data():
    problem = stream(3, 1.0)
    policy = UssPd(problem.costs, problem.dimension, ridge=1e-3)
    (state,) = follow(policy, problem, [3000])
    features = state.past[:3000]
    V = features.T @ features + 1e-3 * np.eye(10)
    assert state.V[0] == pytest.approx(V)
    assert state.W[0] @ V == pytest.approx(np.eye(10), abs=1e-8)
    assert np.array_equal(state.W[0], state.W[0].T)
    p = expit(features @ state.theta[0])
    hessian = (features * (p * (1 - p))[:, None]).T @ features + 1e-3 * np.eye(10)
    # the Hessian of the last fits, at slightly older estimates
    assert state.Q[0] @ hessian == pytest.approx(np.eye(10), abs=0.2)


def feed(policy, contexts, labels):
    """Teach one pair by hand."""
    rng = np.random.default_rng(0)
    for phi, label in zip(contexts, labels):
        differ = np.zeros((2, 2), dtype=bool)
        differ[0, 1] = label
        policy.select(phi, rng)
        policy.update_pairs(phi, 1, differ, rng)
    return policy


def finite(policy):
    return all(np.isfinite(value).all() for value in vars(policy).values() if isinstance(value, np.ndarray))


RNG = np.random.default_rng(3)
LINE = RNG.uniform(-1, 1, 300)
HARD = {
    "separable": (np.column_stack([np.ones(300), LINE]) / 2, LINE > 0.1),
    "all the same label": (np.column_stack([np.ones(300), LINE]) / 2, np.ones(300, dtype=bool)),
    "constant features": (np.full((300, 3), 0.5), RNG.random(300) < 0.3),
    "one context": (np.tile([0.3, 0.4], (300, 1)), RNG.random(300) < 0.3),
    "two contexts, opposite labels": (
        np.tile([[0.6, 0.0], [0.0, 0.8]], (150, 1)),
        np.tile([True, False], 150),
    ),
    "norm 0": (np.zeros((300, 2)), RNG.random(300) < 0.5),
    "some of norm 0": (np.column_stack([LINE, LINE**2]) * (RNG.random(300) < 0.5)[:, None], LINE > 0),
    "large": (np.column_stack([np.ones(300), 1e4 * LINE]), RNG.random(300) < expit(3 * LINE)),
    "tiny": (1e-8 * np.column_stack([np.ones(300), LINE]), RNG.random(300) < 0.5),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("ridge", [1e-6, 1.0])
def test_hard_data(name, ridge):
    contexts, labels = HARD[name]
    d = contexts.shape[1]
    for policy in (
        UssPd([0.1, 0.3], d, forced=10, ridge=ridge),
        UssPdRidge([0.1, 0.3], d, ridge=ridge, bonus="beta"),
    ):
        feed(policy, contexts, labels)
        assert finite(policy)
        assert worst_error(policy) <= 3e-3


@pytest.mark.parametrize("make", [UssPd, UssPdRidge, UssPdTs])
@pytest.mark.parametrize("scale", [1e8, 1e10])
def test_huge_features_are_learned_although_rounding_hides_the_ridge(make, scale):
    contexts = np.column_stack([np.ones(300), LINE, LINE**2]) + 1
    labels = RNG.random(300) < expit(3 * LINE)
    options = {"forced": 1} if make is UssPd else {}
    policy = feed(make([0.1, 0.3], 3, **options), scale * contexts, labels)
    plain = feed(UssPd([0.1, 0.3], 3, ridge=1e-9), contexts, labels)
    assert finite(policy)
    assert expit(scale * contexts @ policy.theta[0]) == pytest.approx(
        expit(contexts @ plain.theta[0]), abs=3e-3
    )


def test_twins_of_a_context_count_twice():
    """Every observation given twice, with twice the ridge, is the same likelihood twice."""
    contexts = np.column_stack([np.ones(100), LINE[:100]]) / 2
    labels = RNG.random(100) < expit(LINE[:100])
    once = feed(UssPd([0.1, 0.3], 2, forced=5, ridge=1e-3, tolerance=0.01), contexts, labels)
    twice = feed(
        UssPd([0.1, 0.3], 2, forced=5, ridge=2e-3, tolerance=0.01),
        contexts.repeat(2, axis=0),
        labels.repeat(2),
    )
    assert twice.theta[0] == pytest.approx(once.theta[0], abs=1e-3)


def test_settle_solves_its_equation():
    for z, c, y in [
        (0.0, 0.5, 1.0),
        (-8.0, 30.0, 1.0),
        (8.0, 30.0, 0.0),
        (3.0, 0.0, 1.0),
        (-400.0, 1e6, 1.0),
    ]:
        u = settle(z, c, y)
        assert u - z - c * (y - expit(u)) == pytest.approx(0.0, abs=1e-6 * (1 + c))


@pytest.mark.parametrize("make", [UssPd, UssPdRidge, Supervised])
@pytest.mark.parametrize(
    ("phi", "arm", "outputs"),
    [
        ([0.1, 0.2, 0.3], 1, [0, 1]),
        ([0.1], 1, [0, 1]),
        ([0.1, math.nan], 1, [0, 1]),
        ([math.inf, 0.0], 1, [0, 1]),
        ([0.1, 0.2], 2, [0, 1, 1]),
        ([0.1, 0.2], -1, []),
        ([0.1, 0.2], 1, [0]),
        ([0.1, 0.2], 0, [0, 1]),
    ],
)
def test_wrong_feedback_raises_and_changes_nothing(make, phi, arm, outputs):
    policy = make([0.1, 0.3], 2)
    truth = {"truth": 1} if make is Supervised else {}
    rng = np.random.default_rng(0)
    for _ in range(20):
        policy.update(rng.uniform(-0.7, 0.7, 2), 1, np.array([0, int(rng.random() < 0.3)]), rng, **truth)
    before = {name: np.copy(value) for name, value in vars(policy).items()}
    with pytest.raises(ValueError, match="must"):
        policy.update(np.array(phi), arm, np.array(outputs, dtype=np.int64), rng, **truth)
    if len(phi) != 2 or not np.isfinite(phi).all():
        with pytest.raises(ValueError, match="phi must"):
            policy.select(np.array(phi), rng)
    assert before.keys() == vars(policy).keys()
    for name, value in vars(policy).items():
        assert np.array_equal(before[name], value), name
