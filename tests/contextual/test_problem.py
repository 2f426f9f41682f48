"""Contextual problems against values computed by hand, their worlds, and wrong arguments."""

import copy
import math
import pickle

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.contextual import (
    ContextualProblem,
    FixedArm,
    QuadraticFeatures,
    RandomArm,
    RealizableProblem,
    Supervised,
    UssPd,
)
from weakfeedback.engine.replication import Interpreted
from weakfeedback.engine.seeds import generator

LOG3 = math.log(3.0)  # mu(LOG3) = 3/4


@pytest.fixture
def random_labels():
    """Contexts 1 and -1, truth 1 and 1; m = (3/4, 1/2, 1/4) at x = 1 and (1/4, 1/2, 3/4) at x = -1."""
    return ContextualProblem([[1.0], [-1.0]], [1, 1], [[LOG3], [0.0], [-LOG3]], [0.0, 0.1, 0.3])


def test_errors_disagreements_and_optimal_arms(random_labels):
    p = random_labels
    assert p.errors_at(0) == pytest.approx([0.25, 0.5, 0.75])
    assert p.errors_at(1) == pytest.approx([0.75, 0.5, 0.25])
    # p_ij = m_i (1 - m_j) + m_j (1 - m_i): 1/2 for a fair coin against anything, 9/16 + 1/16 for 3/4 against 1/4
    expected = [[0, 0.5, 0.625], [0.5, 0, 0.5], [0.625, 0.5, 0]]
    assert p.disagreement_at(0) == pytest.approx(np.array(expected))
    # totals (.25, .6, 1.05) and (.75, .6, .55)
    assert [p.optimal_arm_at(0), p.optimal_arm_at(1)] == [0, 2]
    assert p.gaps == pytest.approx(np.array([[0, 0.35, 0.8], [0.2, 0.05, 0]]))


def test_dominance_and_xi(random_labels):
    p = random_labels
    # at row 0: C_1 - C_0 - p_01 = -.4 and C_2 - C_0 - p_02 = -.325; at row 1 the last arm is optimal
    assert p.xi_at(0) == pytest.approx(-0.4)
    assert p.xi_at(1) == math.inf
    assert p.xi == pytest.approx(-0.4)
    assert p.weak_dominance.tolist() == [False, True]
    assert p.weak_dominance_fraction == 0.5
    # mean totals (.5, .6, .8): arm 0 is the best fixed one, with p the same in both rows
    assert p.best_fixed_arm == 0
    assert p.weak_dominance_fraction_fixed == 0.0
    assert p.strong_dominance_fraction == 0.0


def test_thresholded_labels():
    # scores: arm 0 reads the first feature only; x.theta + b: row 0 (1 - 1 = 0 -> label 0), row 1 (2 - 1 = 1 -> 1)
    contexts = [[1.0, 5.0], [2.0, -5.0]]
    p = ContextualProblem(
        contexts, [1, 1], [[1.0], [0.0, 1.0]], [0.1, 0.5], "thresholded", intercepts=[-1.0, 0.0]
    )
    assert p.errors.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert p.disagreement[:, 0, 1].tolist() == [1.0, 1.0]
    assert p.optimal_arms.tolist() == [1, 0]
    # row 1: C_1 - C_0 = .4 < p = 1
    assert p.weak_dominance.tolist() == [True, False]
    # row 0: arm 0 wrong, arm 1 right; row 1: arm 0 right and arm 1 wrong
    assert p.strong_dominance_fraction == 0.5


def test_decimal_ties_go_to_the_later_arm():
    # arm 0: error .3, cost 0; arm 1: error .1, cost .2: .1 + .2 > .3 in floating point
    logit = [math.log(0.3 / 0.7), math.log(0.1 / 0.9)]
    p = ContextualProblem([[1.0]], [0], [[logit[0]], [logit[1]]], [0.0, 0.2])
    assert p.optimal_arm_at(0) == 1
    assert p.gaps[0] == pytest.approx([0.0, 0.0], abs=1e-12)


def test_realizable_by_hand():
    def features(x):
        return np.column_stack([np.ones(len(x)), x])

    # logit p_01 = 0, logit p_02 = x LOG3, logit p_12 = -LOG3
    theta = {(0, 1): [0.0, 0.0], (0, 2): [0.0, LOG3], (1, 2): [-LOG3, 0.0]}
    p = RealizableProblem([[1.0], [-1.0]], theta, [0.0, 0.6, 0.9], features)
    assert p.disagreement_at(0) == pytest.approx(np.array([[0, 0.5, 0.75], [0.5, 0, 0.25], [0.75, 0.25, 0]]))
    assert p.optimal_arms.tolist() == [0, 0]
    assert p.xis == pytest.approx([0.1, 0.1])
    assert p.gaps == pytest.approx(np.array([[0, 1.1, 1.65], [0, 1.1, 1.15]]))
    dear = RealizableProblem([[1.0], [-1.0]], theta, [0.0, 0.3, 0.6], features)
    # row 0 and 1: .3 <= p_01 = .5 bars arm 0; .3 > p_12 = .25 accepts arm 1
    assert dear.optimal_arms.tolist() == [1, 1]
    assert dear.gaps == pytest.approx(np.array([[0.2, 0, 0.55], [0.2, 0, 0.55]]))
    absolute = RealizableProblem([[1.0], [-1.0]], theta, [0.0, 0.3, 0.6], features, regret="absolute")
    assert absolute.gaps == pytest.approx(np.array([[0.8, 0, 0.55], [0.8, 0, 0.55]]))
    assert math.isnan(dear.strong_dominance_fraction)
    with pytest.raises(ValueError, match="no error rates"):
        dear.errors_at(0)


def test_realizable_parameters_in_three_shapes():
    x = np.random.default_rng(0).uniform(-1, 1, (5, 1))
    flat = np.arange(9.0).reshape(3, 3) / 9
    square = np.zeros((3, 3, 3))
    for m, pair in enumerate([(0, 1), (0, 2), (1, 2)]):
        square[pair] = flat[m]
    mapping = {(0, 1): flat[0], (0, 2): flat[1], (1, 2): flat[2]}
    made = [RealizableProblem(x, value, [0.1, 0.2, 0.3]) for value in (flat, square, mapping)]
    assert len({p.digest() for p in made}) == 1


def test_an_incoherent_context_is_not_counted_as_dominant():
    # arm 0 is barred by arm 2 (p_02 = .9 >= .5), arm 1 is accepted, but .3 > p_01 = .1: no error rates fit
    chances = {(0, 1): 0.1, (0, 2): 0.9, (1, 2): 0.1}
    theta = {pair: [math.log(p / (1 - p))] for pair, p in chances.items()}
    p = RealizableProblem([[1.0]], theta, [0.0, 0.3, 0.5], lambda x: np.ones((len(x), 1)))
    assert p.optimal_arm_at(0) == 1
    assert p.weak_dominance_fraction == 0.0


def test_units_lose_nothing_that_matters(random_labels):
    results = simulate(
        random_labels, {"r": RandomArm(random_labels.costs)}, horizon=1000, replications=2, marks=[7]
    )
    world = random_labels.world()
    rng, draws = generator(0, 1, 0), generator(0, 1, 1)
    world.begin(rng)
    regret = cost = total = 0.0
    for _ in range(1000):
        row = world.draw(np.empty(random_labels.dimension), np.empty(3, dtype=np.int64), rng)
        arm = int(3 * draws.random())
        regret += random_labels.gaps[row, arm]
        cost += random_labels.costs[arm]
        total += random_labels.costs[arm] + random_labels.errors[row, arm]
    assert results.values("r", "regret")[1, -1] == pytest.approx(regret, abs=1e-7)
    assert results.values("r", "cost")[1, -1] == pytest.approx(cost)
    assert results.values("r", "total_cost")[1, -1] == pytest.approx(total, abs=1e-7)
    assert results.frame.columns.tolist()[3:] == [
        "regret",
        "cost",
        "total_cost",
        "pulls_0",
        "pulls_1",
        "pulls_2",
    ]


def test_contexts_are_served_once_each_then_again():
    x = np.arange(6.0)[:, None] / 6
    p = ContextualProblem(x, [0, 1] * 3, [[1.0], [2.0]], [0.1, 0.2])
    orders = []
    for replication in range(3):
        world, rng = p.world(), generator(4, replication, 0)
        world.begin(rng)
        served = [world.draw(np.empty(p.dimension), np.empty(2, dtype=np.int64), rng) for _ in range(12)]
        assert sorted(served[:6]) == list(range(6))
        assert served[6:] == served[:6]
        orders.append(tuple(served))
    assert len(set(orders)) > 1


def test_labels_are_drawn_with_their_probabilities():
    p = ContextualProblem([[1.0]], [1], [[LOG3], [-LOG3]], [0.1, 0.2])
    world, rng = p.world(), generator(0, 0, 0)
    world.begin(rng)
    outputs = np.empty((4000, 2), dtype=np.int64)
    for row in outputs:
        world.draw(np.empty(p.dimension), row, rng)
    # five standard errors of a mean of 4000: .034; false alarm below 1e-5
    assert outputs.mean(axis=0) == pytest.approx([0.75, 0.25], abs=0.034)
    assert (outputs[:, 0] != outputs[:, 1]).mean() == pytest.approx(0.625, abs=0.039)


class Peeker:
    """Notes everything it is given."""

    def __init__(self, K):
        self.K = K
        self.seen = []

    def select(self, phi, rng):
        return 1

    def update(self, phi, arm, outputs, rng, **more):
        self.seen.append((outputs.copy(), outputs.base.copy(), more))


def test_only_outputs_up_to_the_arm_are_shown(random_labels):
    policy = Peeker(3)
    counts = np.zeros(5, dtype=np.int64)
    table = np.zeros((1, 5), dtype=np.int64)
    rngs = generator(0, 0, 0), generator(0, 0, 1)
    Interpreted(random_labels).play(policy, random_labels.world(), *rngs, np.array([50]), counts, table)
    for outputs, base, more in policy.seen:
        assert outputs.size == 2
        assert base[2] not in (0, 1)
        assert more == {}


def test_truth_goes_to_comparators_only(random_labels):
    class Told(Peeker):
        sees_truth = True

    policy = Told(3)
    rngs = generator(0, 0, 0), generator(0, 0, 1)
    counts, table = np.zeros(5, dtype=np.int64), np.zeros((1, 5), dtype=np.int64)
    Interpreted(random_labels).play(policy, random_labels.world(), *rngs, np.array([50]), counts, table)
    assert {more["truth"].item() for *_, more in policy.seen} == {1}
    x = [[0.1], [0.5]]
    realizable = RealizableProblem(x, [[0.0, 1.0]], [0.1, 0.2], lambda x: np.column_stack([x, x]))
    with pytest.raises(ValueError, match="must see the truth"):
        simulate(realizable, {"s": Supervised(realizable.costs, 2)}, horizon=5, replications=1)


def test_a_problem_is_frozen_and_travels(random_labels):
    p = random_labels
    with pytest.raises(AttributeError, match="cannot be changed"):
        p.costs = [1.0]
    with pytest.raises(ValueError, match="read-only"):
        p.features[0, 0] = 1.0
    other = pickle.loads(pickle.dumps(p))
    assert other.digest() == p.digest()
    assert not other.features.flags.writeable
    assert copy.deepcopy(p) is p


def test_digests_tell_problems_apart(random_labels):
    base = [[1.0], [-1.0]], [1, 1], [[LOG3], [0.0], [-LOG3]], [0.0, 0.1, 0.3]
    assert ContextualProblem(*base).digest() == random_labels.digest()
    others = [
        ContextualProblem([[1.0], [-0.9]], *base[1:]),
        ContextualProblem(base[0], [1, 0], *base[2:]),
        ContextualProblem(*base[:3], [0.0, 0.1, 0.31]),
        ContextualProblem(*base, labels="thresholded"),
        ContextualProblem(*base, intercepts=[0.0, 0.0, 0.1]),
        ContextualProblem(*base, features=QuadraticFeatures(2.0)),
    ]
    assert len({p.digest() for p in [random_labels, *others]}) == 7


def test_policies_of_another_shape_are_refused(random_labels):
    for policy, words in [
        (UssPd([0.1, 0.2], random_labels.dimension), "made for 2 arms"),
        (UssPd(random_labels.costs, 9), "made for dimension 9"),
        (FixedArm([0.1, 0.2], 0), "made for 2 arms"),
    ]:
        with pytest.raises(ValueError, match=words):
            simulate(random_labels, {"p": policy}, horizon=5, replications=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"contexts": [[math.nan], [0.0]]}, "contexts must be finite"),
        ({"contexts": [1.0, 2.0]}, r"contexts must have shape \(n, d\)"),
        ({"truth": [0, 2]}, "truth must be 2 labels"),
        ({"truth": [0]}, "truth must be 2 labels"),
        ({"parameters": [[1.0]]}, "parameters must be 2 vectors"),
        ({"parameters": [[1.0], [1.0, 2.0]]}, r"parameters\[1\] must be at most 1"),
        ({"parameters": [[1.0], [math.inf]]}, r"parameters\[1\] must be"),
        ({"costs": [0.3, 0.2]}, "costs must be cumulative"),
        ({"labels": "soft"}, "labels must be 'random' or 'thresholded'"),
        ({"intercepts": [1.0]}, "intercepts must be 2 finite numbers"),
        ({"features": 3}, "features must be a map"),
        ({"features": lambda x: x[:1]}, "must have 2 rows"),
        ({"features": lambda x: x * math.nan}, r"features\(contexts\) must be finite"),
    ],
)
def test_wrong_arguments(change, words):
    good = {"contexts": [[1.0], [0.0]], "truth": [0, 1], "parameters": [[1.0], [2.0]], "costs": [0.1, 0.2]}
    ContextualProblem(**good)
    with pytest.raises(ValueError, match=words):
        ContextualProblem(**good | change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pair_parameters": [[1.0]]}, "must be 3 finite numbers"),
        ({"pair_parameters": [[1.0, 1.0, 1.0]] * 2}, r"must have shape \(1, 3\)"),
        ({"pair_parameters": {(1, 0): [1.0, 1.0, 1.0]}}, "one vector for each of"),
        ({"pair_parameters": "abc"}, "pair_parameters must be numbers"),
        ({"regret": "real"}, "regret must be 'signed' or 'absolute'"),
    ],
)
def test_wrong_arguments_of_realizable_problems(change, words):
    good = {"contexts": [[1.0], [0.0], [0.5]], "pair_parameters": [[0.0, 1.0, 1.0]], "costs": [0.1, 0.2]}
    RealizableProblem(**good)
    with pytest.raises(ValueError, match=words):
        RealizableProblem(**good | change)


def test_rows_out_of_range(random_labels):
    for row in (-1, 2, 0.5):
        with pytest.raises(ValueError, match="row must be an integer from 0 to 1"):
            random_labels.errors_at(row)


def test_assumptions_of_a_realizable_problem_are_its_parameters(capsys):
    x = np.random.default_rng(0).uniform(-1, 1, (300, 1))
    p = RealizableProblem(x, [[-2.0, 1.0, 0.5]], [0.1, 0.2], QuadraticFeatures(1.0))
    found = p.check_assumptions()
    assert "lambda_Sigma" in capsys.readouterr().out
    assert found.misfit < 1e-6
    assert found.parameters[0] == pytest.approx([-2.0, 1.0, 0.5], abs=1e-3)
    assert found.norm == pytest.approx(np.linalg.norm(p.features, axis=1).max())
    assert found.lambda_sigma == pytest.approx(np.linalg.eigvalsh(p.features.T @ p.features / 300)[0])
    # the slope at the largest logit, one unit of parameter further out
    reach = np.abs(p.features @ [-2.0, 1.0, 0.5]) + np.linalg.norm(p.features, axis=1)
    assert found.kappa == pytest.approx((np.exp(-reach) / (1 + np.exp(-reach)) ** 2).min(), rel=1e-3)


def test_the_misfit_is_seen_where_the_model_is_too_poor(capsys):
    p = ContextualProblem(
        [[1.0], [-1.0]], [1, 0], [[LOG3], [-LOG3]], [0.1, 0.2], features=lambda x: np.ones((len(x), 1))
    )
    # p_01 is 5/8 in both contexts: one constant fits
    assert p.check_assumptions().misfit == pytest.approx(0.0, abs=1e-6)
    p = ContextualProblem(
        [[1.0], [0.0]], [1, 0], [[LOG3], [-LOG3]], [0.1, 0.2], features=lambda x: np.ones((len(x), 1))
    )
    # p_01 is 5/8 and 1/2: the constant is 9/16
    assert p.check_assumptions().misfit == pytest.approx(1 / 16, abs=1e-6)
    capsys.readouterr()
