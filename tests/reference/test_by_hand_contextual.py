"""The slow twins of chapter 3 against cases computed by hand."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.reference import contextual as slow
from tests.reference import contextual_worlds as worlds
from tests.rig.draws import Script

ONE = np.array([1.0])


def logit(p):
    return math.log(p / (1 - p))


def mu(z):
    return 1 / (1 + math.exp(-z))


# The estimate


def test_the_estimate_of_a_constant_feature_is_the_log_odds():
    X, y = np.ones((10, 1)), np.array([1.0] * 8 + [0.0] * 2)
    assert slow.exact_mle(X, y, 0.0, np.zeros(1)) == pytest.approx([math.log(4)], abs=1e-12)


def test_the_ridge_pulls_the_estimate_towards_zero():
    X, y = np.ones((10, 1)), np.array([1.0] * 8 + [0.0] * 2)
    ridge = 8 - 10 * mu(1.0)  # theta = 1 then solves 8 - 10 mu(theta) - ridge theta = 0
    assert slow.exact_mle(X, y, ridge, np.zeros(1)) == pytest.approx([1.0], abs=1e-12)


def test_groups_of_contexts_are_estimated_apart():
    X = np.array([[1.0, 0.0]] * 4 + [[0.0, 2.0]] * 3)
    y = np.array([1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    expected = [logit(1 / 4), logit(2 / 3) / 2]
    assert slow.exact_mle(X, y, 0.0, np.zeros(2)) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_the_estimate_agrees_with_a_general_optimiser(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    y = (rng.random(60) < 0.3).astype(float)
    best = minimize(lambda theta: -slow.log_likelihood(X, y, 0.01, theta), np.zeros(3), tol=1e-10)
    for start in (np.zeros(3), np.full(3, 8.0), np.array([-30.0, 30.0, 0.0])):
        theta = slow.exact_mle(X, y, 0.01, start)
        assert theta == pytest.approx(best.x, abs=1e-4)
        slope = X.T @ (y - 1 / (1 + np.exp(-X @ theta))) - 0.01 * theta
        assert np.max(np.abs(slope)) < 1e-10


def test_separable_labels_have_an_estimate_with_a_ridge():
    X, y = np.array([[1.0, 0.5], [1.0, -0.5]]), np.array([1.0, 0.0])
    theta = slow.exact_mle(X, y, 1e-3, np.zeros(2))
    assert theta[0] == pytest.approx(0.0, abs=1e-10)
    assert 1 - mu(0.5 * theta[1]) == pytest.approx(1e-3 * theta[1], abs=1e-10)


def test_a_model_by_hand():
    model = slow.SlowModel(2, 0.5)
    assert model.norm(np.array([1.0, 1.0])) == pytest.approx(2.0)
    for phi, label in (([1.0, 0.0], 1), ([1.0, 0.0], 0), ([0.0, 2.0], 1)):
        model.observe(np.array(phi), label)
    assert model.gram().tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert model.norm(np.array([1.0, 3.0])) == pytest.approx(math.sqrt(1 / 2.5 + 9 / 4.5))
    theta = model.estimate()
    assert theta[0] == pytest.approx(0.0, abs=1e-10)
    assert 2 * (1 - mu(2 * theta[1])) == pytest.approx(0.5 * theta[1], abs=1e-10)
    model.observe(np.array([1.0, 0.0]), 1)
    assert model.estimate()[0] > 0.1


def test_the_width_of_the_confidence_set():
    # 2 sigma / kappa = 1, d'/2 log(1 + 2t/d') = log 2, log(K^2 / (2 delta)) = log 4
    assert slow.confidence(2, 2, 0.5, 0.25, 0.5, 1) == pytest.approx(math.sqrt(3 * math.log(2)))
    assert slow.confidence(2, 2, 0.5, 0.25, 0.5, 0) == pytest.approx(math.sqrt(2 * math.log(2)))
    assert slow.confidence(4, 3, 0.05, 0.1, 0.25, 6) == pytest.approx(
        0.8 * math.sqrt(2 * math.log(4) + math.log(90))
    )


# Policies


def taught(policy, phi, feedbacks, **truth):
    for outputs in feedbacks:
        policy.update(phi, len(outputs) - 1, outputs, None, **truth)
    return policy


def four_to_one(policy):
    """Eight feedbacks at the context 1, two of which are disagreements."""
    return taught(policy, ONE, [(1, 0), (0, 1), *[(1, 1)] * 6])


def test_uss_pd_accepts_strictly_above_its_bound():
    alpha = 0.8 * math.sqrt(0.5 * math.log(1 + 16) + math.log(40))
    bound = mu(-math.log(3) + alpha / math.sqrt(8))  # 2 of 8 disagree
    for extra, arm in ((1e-6, 0), (-1e-6, 1)):
        policy = four_to_one(slow.SlowUssPd([0.0, bound + extra], 1, forced=8, ridge=1e-9))
        assert policy.select(ONE, None) == arm
    policy = four_to_one(slow.SlowUssPd([0.0, bound], 1, forced=8, ridge=1e-9))
    assert policy.decisions(ONE, slack=1e-3) == {0, 1}


def test_a_tie_is_not_accepted():
    # at phi = 0 the bound is mu(0) = 1/2 whatever was seen
    for cost, arm in ((0.5, 1), (np.nextafter(0.5, 1), 0)):
        policy = taught(slow.SlowUssPd([0.0, cost], 1, forced=1), ONE, [(1, 0)])
        assert policy.select(np.zeros(1), None) == arm
        ridge = taught(slow.SlowUssPdRidge([0.0, cost], 1), ONE, [(1, 0)])
        assert ridge.select(np.zeros(1), None) == arm
    for cost, arm in ((0.0, 1), (1e-300, 0)):
        told = taught(slow.SlowSupervised([0.0, cost], 1, forced=1), ONE, [(1, 0)], truth=1)
        assert told.select(np.zeros(1), None) == arm


def test_every_later_arm_has_to_be_beaten_and_the_smallest_such_arm_is_taken():
    # after 100 equal feedbacks the bounds are near 0 for a pair that agrees and near 1 for one that does not
    for outputs, arm in (((1, 1, 1), 0), ((1, 1, 0), 2), ((1, 0, 0), 1), ((1, 0, 1), 2)):
        policy = taught(slow.SlowUssPd([0.0, 0.6, 0.9], 1, forced=1), ONE, [outputs] * 100)
        assert policy.select(ONE, None) == arm


def test_the_forced_phase_of_a_given_length():
    policy = slow.SlowUssPd([0.0, 5.0], 1, forced=3)
    played = []
    for _ in range(5):
        played.append(policy.select(ONE, None))
        policy.update(ONE, played[-1], (1,) * (played[-1] + 1), None)
    assert played == [1, 1, 1, 0, 0]


def test_the_forced_phase_ends_when_all_matrices_are_large():
    first, second = np.array([0.8, 0.0]), np.array([0.0, 0.8])
    for arm, over in ((1, True), (0, False)):
        policy = slow.SlowUssPd([0.0, 5.0], 2)
        for phi in (first, first, second):
            policy.update(phi, 1, (1, 1), None)
            assert policy.select(first, None) == 1
        policy.update(second, arm, (1, 1)[: arm + 1], None)  # .64 + .64 >= 1, if the pair was seen
        assert (policy.select(first, None) == 0) == over


def test_a_matrix_with_least_eigenvalue_one_is_large_enough():
    policy = taught(slow.SlowUssPd([0.0, 5.0], 1), ONE, [(1, 1)])
    assert policy.select(ONE, None) == 0


def test_the_forced_phase_has_a_limit():
    policy = slow.SlowUssPd([0.0, 5.0], 1, forced_limit=4)
    phi = np.array([0.1])
    taught(policy, phi, [(1, 1)] * 3)
    assert policy.select(phi, None) == 1
    taught(policy, phi, [(1, 1)])
    assert policy.select(phi, None) == 0


@pytest.mark.parametrize(
    ("bonus", "width"),
    [
        ("alpha", 0.8 * math.sqrt(0.5 * math.log(1 + 2 * 9) + math.log(40))),
        ("beta", 0.8 * math.sqrt(0.5 * math.log(1 + 8 / 2) + math.log(40)) + 2 * math.sqrt(2) * 0.3),
    ],
)
def test_the_ridge_variant_by_hand(bonus, width):
    # nine feedbacks, the last without the pair; theta solves 2 - 8 mu(theta) - 2 theta = 0
    theta = slow.exact_mle(np.ones((8, 1)), np.array([1.0] * 2 + [0.0] * 6), 2.0, np.zeros(1))[0]
    assert 2 - 8 * mu(theta) - 2 * theta == pytest.approx(0.0, abs=1e-10)
    bound = mu(theta + width / math.sqrt(10))
    for extra, arm in ((1e-9, 0), (-1e-9, 1)):
        policy = slow.SlowUssPdRidge([0.0, bound + extra], 1, ridge=2.0, bonus=bonus, norm_bound=0.3)
        assert policy.select(ONE, None) == 1
        four_to_one(policy).update(ONE, 0, (1,), None)
        assert (policy.t, policy.models[1, 2].n) == (9, 8)
        assert policy.select(ONE, None) == arm


def test_the_ridge_variant_decides_after_one_feedback():
    policy = slow.SlowUssPdRidge([0.0, 5.0], 1)
    assert policy.select(ONE, None) == 1
    assert taught(policy, ONE, [(1, 0)]).select(ONE, None) == 0


def test_the_supervised_comparator_by_hand():
    # arm 1 errs in 3 of 8 rounds, arm 2 in 1 of the 7 in which it is seen
    feedbacks = [(0, 0), (0, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (0,)]
    alpha = 0.8 * math.sqrt(0.5 * math.log(1 + 16) + math.log(40))
    bound = mu(logit(3 / 8) + alpha / math.sqrt(8)) - mu(logit(1 / 7) - alpha / math.sqrt(7))
    for extra, arm in ((1e-6, 0), (-1e-6, 1)):
        policy = slow.SlowSupervised([0.0, bound + extra], 1, forced=8, ridge=1e-9)
        assert taught(policy, ONE, feedbacks, truth=1).select(ONE, None) == arm


def test_the_supervised_comparator_waits_for_every_arm():
    policy = taught(slow.SlowSupervised([0.0, 5.0], 1, forced_limit=9), 1.1 * ONE, [(1,)] * 3, truth=1)
    assert policy.select(ONE, None) == 1
    assert taught(policy, 1.1 * ONE, [(1, 0)], truth=1).select(ONE, None) == 0


def test_pairs_have_features_of_their_own():
    policy = slow.SlowUssPd([0.0, 0.2, 0.4], 2, forced=1, per_pair=True)
    policy.update(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2, (1, 0, 0), None)
    seen = {pair: (model.X[0].tolist(), model.y.tolist()) for pair, model in policy.models.items()}
    assert seen == {(1, 2): ([1.0, 2.0], [1]), (1, 3): ([3.0, 4.0], [1]), (2, 3): ([5.0, 6.0], [0])}


def test_pairs_and_outputs_teach_the_same():
    one, other = (slow.SlowUssPd([0.0, 0.2, 0.4], 1, forced=1) for _ in range(2))
    for outputs in ((1, 0, 1), (0, 0), (1, 1, 0), (1,)):
        one.update(ONE, len(outputs) - 1, outputs, None)
        differ = [[a != b for b in outputs] for a in outputs]
        other.update_pairs(ONE, len(outputs) - 1, differ, None)
    labels = {pair: model.y.tolist() for pair, model in one.models.items()}
    assert labels == {(1, 2): [1, 0, 0], (1, 3): [0, 1], (2, 3): [1, 1]}
    assert labels == {pair: model.y.tolist() for pair, model in other.models.items()}
    assert one.t == other.t == 4


def test_fixed_and_random_arms():
    assert slow.SlowFixedArm([0.0, 0.1, 0.2], 1).select(ONE, None) == 1
    draws = Script(0.0, 0.3, 0.34, 0.99)
    assert [slow.SlowRandomArm([0.0, 0.1, 0.2]).select(ONE, draws) for _ in range(4)] == [0, 0, 1, 2]


# Features


def test_the_quadratic_map_by_hand():
    root = math.sqrt(2)
    expected = np.array([1, root * 2, root * 3, root * 5, 4, 9, 25, root * 6, root * 10, root * 15]) / 50
    assert slow.quadratic_columns([2.0, 3.0, 5.0], 7.0) == pytest.approx(expected)


def test_the_quadratic_map_belongs_to_the_kernel():
    points = np.random.default_rng(5).normal(size=(8, 4))
    phi = np.array([slow.quadratic_columns(x, 1.5) for x in points])
    assert phi @ phi.T == pytest.approx(((1 + points @ points.T) / (1 + 1.5**2)) ** 2)


def test_dependent_columns_are_dropped():
    # binary features: the squares follow from the features themselves; the third feature is constant
    contexts = [[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1]]
    table = np.array([slow.quadratic_columns(x, 1.0) for x in contexts])
    assert slow.independent_columns(table) == [0, 1, 2, 7]
    assert slow.slow_features([[0.0], [0.0]]).tolist() == [[0.5], [0.5]]
    assert slow.slow_features([[3.0], [1.0], [2.0]])[0] == pytest.approx(
        np.array([1, 3 * math.sqrt(2), 9]) / 10
    )


# Problems and worlds

LN3 = math.log(3)  # mu(ln 3) = 3/4, mu(-ln 3) = 1/4


def example(labels="random", costs=(0.0, 0.1, 0.4)):
    parameters = [[LN3], [LN3, LN3], [-LN3, 0.0]]
    return worlds.SlowContextualProblem([[1.0, 0.0], [-1.0, 1.0]], [1, 0], parameters, costs, labels)


def test_errors_and_disagreements_by_hand():
    problem = example()
    assert problem.errors_at(0) == pytest.approx([0.25, 0.25, 0.75])
    assert problem.errors_at(1) == pytest.approx([0.25, 0.5, 0.75])
    assert problem.disagreement_at(0)[0] == pytest.approx([0.0, 6 / 16, 10 / 16])
    p = problem.disagreement_at(1)
    assert (p[0][1], p[0][2], p[1][2]) == pytest.approx((0.5, 10 / 16, 0.5))
    with_bias = worlds.SlowContextualProblem([[0.0]], [1], [[5.0], [5.0]], [0, 1], intercepts=[LN3, -LN3])
    assert with_bias.errors_at(0) == pytest.approx([0.25, 0.75])


def test_thresholded_labels_by_hand():
    problem = example("thresholded")
    assert problem.errors_at(0) == [0.0, 0.0, 1.0]
    assert problem.errors_at(1) == [0.0, 0.0, 1.0]  # x.theta_2 = 0 is not above 0
    assert problem.disagreement_at(1) == [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    assert worlds.draw_labels(problem, 1, Script()) == [0, 0, 1]
    assert problem.strong_dominance_fraction() == 0.0
    helpful = worlds.SlowContextualProblem([[1.0], [-1.0]], [1, 1], [[-1.0], [2.0]], [0, 1], "thresholded")
    assert helpful.strong_dominance_fraction() == 0.5


def test_optimal_arms_and_dominance_by_hand():
    # totals at the first context .25, .35, 1.15; at the second .25, .6, 1.15
    problem = example()
    assert [problem.optimal_arm_at(row) for row in range(2)] == [0, 0]
    assert problem.weak_dominance_fraction() == 0.0
    wide = example(costs=(0.0, 0.45, 1.2))  # p_12 = 3/8 at the first context and 1/2 at the second
    assert (wide.weak_dominance_fraction(), wide.weak_dominance_fraction_fixed()) == (0.5, 0.5)
    assert wide.regret_at(1, 2) == pytest.approx(0.75 + 1.2 - 0.25)
    tied = worlds.SlowContextualProblem([[0.0]], [1], [[1.0], [1.0]], [0.3, 0.1 + 0.2])
    assert tied.optimal_arm_at(0) == 1


def test_the_best_fixed_arm_and_the_best_arm_of_a_context_differ():
    contexts, truth = [[1.0], [1.0], [1.0]], [1, 1, 0]
    problem = worlds.SlowContextualProblem(contexts, truth, [[-1.0], [1.0]], [0.0, 0.1], "thresholded")
    assert [problem.optimal_arm_at(row) for row in range(3)] == [1, 1, 0]
    assert problem.best_fixed_arm() == 1
    assert problem.weak_dominance_fraction() == pytest.approx(2 / 3)  # the last arm is best in the first two
    assert problem.weak_dominance_fraction_fixed() == 1.0


def test_a_realizable_problem_by_hand():
    theta = {(0, 1): [-LN3], (0, 2): [0.0], (1, 2): [-LN3]}  # p = 1/4, 1/2, 1/4
    for costs, best in (((0, 0.3, 0.6), 0), ((0, 0.25, 0.6), 1), ((0, 0.3, 0.5), 2), ((0, 0.2, 0.4), 2)):
        assert worlds.SlowRealizableProblem([[1.0]], theta, costs).optimal_arm_at(0) == best
    signed = worlds.SlowRealizableProblem([[1.0]], theta, (0, 0.2, 0.5))
    assert signed.optimal_arm_at(0) == 1
    assert [signed.regret_at(0, arm) for arm in range(3)] == pytest.approx([0.05, 0.0, 0.55])
    absolute = worlds.SlowRealizableProblem([[1.0]], theta, (0, 0.2, 0.5), "absolute")
    assert [absolute.regret_at(0, arm) for arm in range(3)] == pytest.approx([0.45, 0.0, 0.55])


def test_the_draws_of_the_worlds():
    rows = worlds.SlowRows(3)
    rows.start(Script(0.4, 0.9))  # k = 2 with j = 1, then k = 1 with j = 1
    assert [rows.row(t) for t in range(1, 8)] == [0, 2, 1, 0, 2, 1, 0]
    # P(Y^i = 1) at the first context: 3/4, 3/4, 1/4
    assert worlds.draw_labels(example(), 0, Script(0.74, 0.76, 0.2)) == [1, 0, 1]
    theta = {(0, 1): [-LN3], (0, 2): [0.0], (1, 2): [LN3]}
    differ = worlds.draw_pairs(
        worlds.SlowRealizableProblem([[1.0]], theta, (0, 1, 2)), 0, Script(0.3, 0.3, 0.8)
    )
    assert (differ[0][1], differ[0][2], differ[1][2]) == (False, True, False)


class Recorder:
    """Plays a script and keeps what it was given."""

    sees_truth = True

    def __init__(self, *arms):
        self.arms, self.seen = list(arms), []

    def select(self, phi, rng):
        return self.arms[len(self.seen)]

    def update(self, phi, arm, outputs, rng, truth):
        self.seen.append((phi.tolist(), arm, outputs.tolist(), truth))

    def update_pairs(self, phi, arm, differ, rng):
        self.seen.append((phi.tolist(), arm, differ.tolist()))


def test_a_run_shows_what_may_be_seen_and_sums_the_regret():
    problem = example("thresholded")
    recorder = Recorder(0, 2, 1)
    played, regret = worlds.slow_run(recorder, problem, [[7.0], [8.0]], 0, 0, 3)
    assert played == [0, 2, 1]
    first = 0 if recorder.seen[0][0] == [7.0] else 1
    labels, truth = {0: [1, 1, 0], 1: [0, 0, 1]}, {0: 1, 1: 0}
    expected = [first, 1 - first, first]
    assert [seen[0] for seen in recorder.seen] == [[7.0 + row] for row in expected]
    assert [seen[2] for seen in recorder.seen] == [labels[r][: a + 1] for r, a in zip(expected, played)]
    assert [seen[3] for seen in recorder.seen] == [truth[row] for row in expected]
    assert regret == pytest.approx([0.0, 1.4, 1.5])
