"""Problems of recorded stages: arguments, attributes, thresholds in hindsight, named instances."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from tests.adaptive.following import random_table

from weakfeedback import simulate
from weakfeedback.adaptive import AdaptiveProblem, FixedArm, Thresholds, instances
from weakfeedback.thesis import beyond
from weakfeedback.thesis.beyond import adaptive as beyond_adaptive

TRUTH, OUTPUTS = [0, 1, 1, 1], [[0, 0], [1, 1], [1, 1], [0, 1]]
SCORES = [[0.9, 1.0], [0.9, 1.0], [0.9, 1.0], [0.6, 1.0]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"truth": [0, 1, 1]}, r"shapes \(n,\) and \(n, K\)"),
        ({"truth": [], "outputs": np.zeros((0, 2))}, "n >= 1"),
        ({"truth": ["a", "b", "b", "b"]}, "both be strings or both be numbers"),
        ({"truth": [0.5, 1, 1, 1]}, "truth must be labels that are integers, booleans or strings, got 0.5"),
        ({"outputs": [[0, 0], [1]]}, "outputs must be a rectangular array"),
        ({"scores": [[0.9, 1.0]]}, r"scores must be finite numbers \(or NaN\) of shape \(4, 2\)"),
        ({"scores": [[np.inf, 1.0]] * 4}, "scores must be finite"),
        ({"scores": [["x", "y"]] * 4}, "scores must be numbers"),
        ({"costs": [0.1]}, "costs must be 2 numbers"),
        ({"costs": [0.1, -0.1]}, "costs must be"),
        ({"costs": [1e308, 1e308]}, "finite sum"),
        ({"chances": [[0.5, 0.5]]}, r"chances must be numbers from 0 to 1 of shape \(4, 2\)"),
        ({"chances": [[0.5, 1.5]] * 4}, "from 0 to 1"),
        ({"chances": {0: [0.5] * 4}}, "all labels that occur, 1 is missing"),
        ({"groups": [1, 2]}, "groups must be 4 labels, one per row"),
        ({"order": "random"}, "order must be 'drawn', 'shuffled' or 'given'"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_wrong_arguments_are_refused(changed, message):
    given = {"truth": TRUTH, "outputs": OUTPUTS, "scores": SCORES, "costs": [0.05, 0.2], "chances": None}
    with pytest.raises(ValueError, match=message):
        AdaptiveProblem(**{**given, **changed})


def test_attributes_and_measures():
    problem = AdaptiveProblem(TRUTH, OUTPUTS, SCORES, [0.05, 0.2])
    assert problem.errors.tolist() == [0.25, 0.0]
    assert problem.cumulative.tolist() == [0.05, 0.25]
    assert problem.best_fixed == 1
    assert problem.threshold_cost([0.9]) == pytest.approx(0.1)
    assert problem.threshold_cost([-np.inf]) == pytest.approx(0.3)
    found = problem.measures(np.array([[6, 4, 2, 3]]))
    assert (found["spent"] == found["cost"]).all()
    assert [found[name].tolist() for name in ("differs", "errors", "calls_0", "calls_1")] == [
        [3],
        [2],
        [10],
        [4],
    ]
    assert found["total_cost"].tolist() == pytest.approx([6 * 0.05 + 4 * 0.25 + 2])
    assert found["regret"].tolist() == pytest.approx([3.3 - 10 * 0.25])
    with pytest.raises(ValueError, match=r"shape \(..., 4\)"):
        problem.measures([1, 2])
    with pytest.raises(AttributeError, match="cannot be changed"):
        problem.arms = 3
    assert copy.deepcopy(problem) is problem
    again = pickle.loads(pickle.dumps(problem))
    assert again.digest() == problem.digest()
    assert not again.costs.flags.writeable


def test_every_argument_is_part_of_the_digest():
    truth, outputs, scores, chances = random_table(3)
    one = AdaptiveProblem(truth, outputs, scores, [0.1, 0.1, 0.1])
    others = [
        AdaptiveProblem(truth, outputs, scores, [0.1, 0.1, 0.2]),
        AdaptiveProblem(truth, outputs, None, [0.1, 0.1, 0.1]),
        AdaptiveProblem(truth[::-1], outputs, scores, [0.1, 0.1, 0.1]),
        AdaptiveProblem(truth, outputs[::-1], scores, [0.1, 0.1, 0.1]),
        AdaptiveProblem(truth, outputs, scores, [0.1, 0.1, 0.1], chances),
    ]
    assert len({one.digest(), *(other.digest() for other in others)}) == 6


def test_labels_may_be_words_and_chances_a_mapping():
    words = np.array(["cat", "dog"])
    one = AdaptiveProblem(
        words[TRUTH], words[np.array(OUTPUTS)], SCORES, [0.1, 0.1], {"dog": [0.2] * 4, "cat": [0.8] * 4}
    )
    other = AdaptiveProblem(TRUTH, OUTPUTS, SCORES, [0.1, 0.1], [[0.8, 0.2]] * 4)
    assert one.digest() == other.digest()
    kind = np.dtypes.StringDType()
    again = AdaptiveProblem(
        words[TRUTH].astype(kind), words[np.array(OUTPUTS)].astype(kind), SCORES, [0.1, 0.1], [[0.8, 0.2]] * 4
    )
    assert again.digest() == one.digest()
    assert one._chances.tolist() == [[0.8, 0.8], [0.2, 0.2], [0.2, 0.2], [0.8, 0.2]]


def test_thresholds_of_three_stages_are_hardly_above_the_best():
    """Against all pairs of thresholds; within 2 % of the best, and exact in most cases."""
    exact = 0
    for seed in range(8):
        truth, outputs, scores, _ = random_table(seed, rows=30)
        problem = AdaptiveProblem(truth, outputs, scores, [0.02, 0.1, 0.2])
        trials = [[-np.inf, *np.unique(scores[:, k]), np.inf] for k in range(2)]
        best = min(problem.threshold_cost(pair) for pair in itertools.product(*trials))
        mine = problem.threshold_cost(problem.oracle_thresholds())
        assert best - 1e-12 <= mine <= 1.02 * best
        assert mine <= problem.fixed_costs.min() + 1e-12
        exact += mine <= best + 1e-12
    assert exact >= 6


def test_missing_scores_go_on():
    scores = np.array(SCORES)
    scores[0, 0] = np.nan
    problem = AdaptiveProblem(TRUTH, OUTPUTS, scores, [0.05, 0.2])
    assert problem.threshold_cost([0.7]) == pytest.approx((2 * 0.05 + 2 * 0.25) / 4)
    assert problem.threshold_cost([-np.inf]) == pytest.approx(0.3)
    assert problem.oracle_thresholds().shape == (1,)
    none = AdaptiveProblem(TRUTH, OUTPUTS, None, [0.05, 0.2])
    assert none.threshold_cost(none.oracle_thresholds()) == pytest.approx(0.25)


def test_simulated_costs_are_those_of_the_table():
    """50,000 rounds; the tolerance is 5 standard deviations, a false alarm in 10^6."""
    truth, outputs, scores, _ = random_table(4)
    problem = AdaptiveProblem(truth, outputs, scores, [0.02, 0.1, 0.2])
    policies = {str(arm): FixedArm(problem.costs, arm) for arm in range(3)}
    policies["best"] = Thresholds(problem.costs, problem.oracle_thresholds())
    results = simulate(problem, policies, horizon=50_000, replications=1, seed=0)
    expected = [*problem.fixed_costs, problem.threshold_cost(problem.oracle_thresholds())]
    for name, cost in zip(policies, expected):
        assert results.values(name, "total_cost")[0, -1] / 50_000 == pytest.approx(
            cost, abs=5 * 0.6 / 50_000**0.5
        )


@pytest.mark.parametrize("name", ["bc-adaptive-1", "wine-adaptive-4", "digits-adaptive-6"])
def test_bundled_instances(name):
    problem = instances.load(name)
    known = instances.describe(name)
    assert problem.arms == 3
    assert sum(known.costs) == pytest.approx(instances.PRICES[int(name[-1]) - 1])
    assert known.available()
    assert (np.diff(problem.errors) < 0).all()
    world = problem.world()
    assert (world.chances[:, -1] == world.scores[:, -1]).all()


def test_the_errors_of_the_bundled_stages():
    """As counts: the same on every processor."""
    wrong = {
        name: instances.load(f"{name}-adaptive-1")._wrong.sum(axis=0).tolist()
        for name in ("bc", "wine", "digits")
    }
    assert wrong == {"bc": [141, 34, 13], "wine": [78, 15, 3], "digits": [248, 83, 19]}


def test_medical_instances(medical_data):
    for name in ("pima", "heart"):
        problem = instances.load(f"{name}-adaptive-2", medical_data)
        assert problem.arms == 3
        assert problem.errors[0] > problem.errors[1]


def test_names_are_answered():
    assert len(instances.names()) == 42
    with pytest.raises(ValueError, match="did you mean"):
        instances.load("bc-adaptiv-1")
    with pytest.raises(ValueError, match="allowed"):
        instances.describe("zzzz")
    assert instances.describe("pima-adaptive-1").unavailable("/nowhere") != ""
    assert not instances.describe("heart-adaptive-1").available("/nowhere")


class Played:
    """Results in which every policy pays the same multiple of the best fixed arm."""

    def __init__(self, facts, factor):
        self.about = {"facts": facts, "horizon": 100}
        self.factor = factor

    def values(self, label, measure):
        assert measure == "total_cost"
        more = 2.0 if label == "Agreement" else 1.0
        return np.full((3, 4), 100 * self.about["facts"]["fixed"] * self.factor * more)


def test_the_table_of_ratios():
    problem = instances.load("wine-adaptive-1")
    assert beyond_adaptive.facts(problem) == {"price": 0.02, "fixed": problem.fixed_costs.min()}
    low, high = {"price": 0.1, "fixed": 0.5}, {"price": 0.2, "fixed": 0.3}
    run = {
        "beyond-adaptive-bc-1": Played(low, 0.5),
        "beyond-adaptive-bc-2": Played(low, 0.98),
        "beyond-adaptive-bc-4": Played(high, 0.9),
    }
    rows = {row[0]: row[1:] for row in beyond_adaptive.tally(run)}
    assert len(rows) == 2 * len(beyond_adaptive.POLICIES)
    assert rows["USS-A, score, prices up to 0.1"] == pytest.approx([2, 2, 0.7, 0.98])
    assert rows["USS-A, score, prices above 0.1"] == pytest.approx([1, 1, 0.9, 0.9])
    assert rows["Agreement, prices up to 0.1"] == pytest.approx([2, 0, 1.4, 1.96])
    assert set(beyond_adaptive.ADAPTIVE) <= set(beyond.EXPERIMENTS)
    assert beyond_adaptive.TABLE in beyond.TABLES
