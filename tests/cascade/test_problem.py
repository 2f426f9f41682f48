"""Cascade problems against laws computed by hand, the tables of the thesis, and wrong arguments."""

import copy
import math
import pickle

import numpy as np
import pytest

from weakfeedback.cascade.problem import CascadeProblem

ROWS = [[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1]]
LAW = [0.2, 0.4, 0.1, 0.1, 0.2]
COSTS = [0.0, 0.1, 0.45]

BSC_ERRORS = [0.3937, 0.2899, 0.1358]
BSC_COSTS = [
    [0.05, 0.285, 0.45],
    [0.05, 0.1, 0.53],
    [0.05, 0.3, 0.45],
    [0.05, 0.25, 0.29],
    [0.1, 0.2, 0.41],
]
ARRAYS = ["costs", "errors", "disagreement", "total_costs", "gaps", "kappas", "xis"]


@pytest.fixture
def problem():
    return CascadeProblem(ROWS, LAW, COSTS)


def two_arms(errors_and_differences, costs):
    """A problem with truth 1 and two arms, from the probabilities of (right, wrong), (wrong, right), both wrong."""
    only_second, only_first, both = errors_and_differences
    law = [only_second, only_first, both, 1.0 - only_second - only_first - both]
    return CascadeProblem([[1, 1, 0], [1, 0, 1], [1, 0, 0], [1, 1, 1]], law, costs)


def test_every_quantity_of_a_law_computed_by_hand(problem):
    assert problem.setting == "cascade"
    assert problem.arms == 3
    assert problem.costs == pytest.approx([0.0, 0.1, 0.45])
    assert problem.errors == pytest.approx([0.5, 0.3, 0.0])
    assert problem.disagreement == pytest.approx(np.array([[0, 0.4, 0.5], [0.4, 0, 0.3], [0.5, 0.3, 0]]))
    assert problem.total_costs == pytest.approx([0.5, 0.4, 0.45])
    assert problem.optimal_arm == 1
    assert problem.gaps == pytest.approx([0.1, 0.0, 0.05])
    assert problem.kappas == pytest.approx([0.2, 0.0, 0.0])
    assert problem.xis == pytest.approx([0.3, 0.0, 0.05])
    assert problem.rho == pytest.approx(7 / 6)
    assert problem.xi == pytest.approx(0.05)
    assert problem.strong_dominance is False
    assert problem.weak_dominance is True
    assert problem.lower_set == (0, 1)
    assert problem.upper_set == (1, 2)


def test_types_are_plain(problem):
    assert type(problem.arms) is int
    assert type(problem.optimal_arm) is int
    assert type(problem.rho) is float
    assert type(problem.xi) is float
    for arms in (problem.lower_set, problem.upper_set):
        assert type(arms) is tuple
        assert all(type(arm) is int for arm in arms)


def test_the_last_arm_has_nothing_after_it():
    problem = CascadeProblem(ROWS, LAW, [0.0, 0.1, 0.2])
    assert problem.optimal_arm == 2
    assert problem.rho == math.inf
    assert problem.xi == math.inf
    assert problem.weak_dominance
    assert problem.upper_set == (2,)


def test_arms_that_always_agree_differ_only_in_cost():
    problem = two_arms((0.0, 0.0, 0.3), [0.1, 0.4])
    assert problem.rho == math.inf
    assert problem.xi == pytest.approx(0.3)
    assert problem.weak_dominance
    assert problem.strong_dominance


def test_one_arm_is_a_problem_without_choice():
    problem = CascadeProblem([[0, 0], [0, 1]], [0.75, 0.25], [0.5])
    assert problem.optimal_arm == 0
    assert problem.lower_set == problem.upper_set == (0,)
    assert problem.errors.tolist() == [0.25]


@pytest.mark.parametrize(
    ("differences", "costs"),
    [
        ((0.0, 0.2, 0.0), [0.1, 0.3]),  # .2 + .1 is above .3 in floating point
        ((0.1, 0.3, 0.0), [0.0, 0.2]),  # .3 is below .1 + .2
    ],
)
def test_decimal_ties_go_to_the_later_arm(differences, costs):
    problem = two_arms(differences, costs)
    assert problem.total_costs[0] != problem.total_costs[1]
    assert problem.optimal_arm == 1
    assert problem.gaps[1] == 0.0
    assert 0.0 <= problem.gaps[0] < 1e-15


def test_rounding_makes_no_negative_xi_before_the_optimal_arm():
    problem = two_arms((0.0, 0.3, 0.0), [0.1, 0.4])
    assert 0.3 - (0.4 - 0.1) < 0.0
    assert problem.optimal_arm == 1
    assert problem.xis.tolist() == [0.0, 0.0]


def test_a_decimal_tie_of_cost_and_disagreement_is_not_dominance():
    problem = two_arms((0.3, 0.0, 0.0), [0.1, 0.4])
    assert 0.4 - 0.1 > 0.3  # so a comparison without tolerance would see dominance
    assert problem.optimal_arm == 0
    assert problem.weak_dominance is False
    assert problem.xi == pytest.approx(0.0, abs=1e-15)
    assert problem.upper_set == (1,)
    assert problem.lower_set == (0, 1)


def test_a_margin_above_the_tolerance_is_dominance():
    problem = two_arms((0.3, 0.0, 0.0), [0.0, 0.3 + 1e-11])
    assert problem.weak_dominance is True
    assert problem.upper_set == (0, 1)
    assert problem.lower_set == (0,)


def test_error_rates_may_rise_along_the_cascade():
    # truth 1; arm 1 wrong with probability .1, arm 2 with .4, arm 3 with .2, never two at once
    rows = [[1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0], [1, 1, 1, 1]]
    problem = CascadeProblem(rows, [0.1, 0.4, 0.2, 0.3], [0.0, 0.1, 0.6])
    assert problem.errors == pytest.approx([0.1, 0.4, 0.2])
    assert problem.optimal_arm == 0
    assert problem.disagreement[0] == pytest.approx([0.0, 0.5, 0.3])
    # kappa_j = p - (gamma_i* - gamma_j), xi_j = C_j - C_i* - p
    assert problem.kappas == pytest.approx([0.0, 0.8, 0.4])
    assert problem.xis == pytest.approx([0.0, -0.4, 0.3])
    assert problem.rho == pytest.approx(0.2)
    assert problem.weak_dominance is False
    assert problem.upper_set == (2,)  # .5 is not above p = .6 for the second arm
    assert problem.lower_set == (0, 1)


def test_strong_dominance_ignores_rows_of_probability_zero():
    rows = [[1, 1, 0], [1, 0, 1], [1, 1, 1]]
    assert CascadeProblem(rows, [0.0, 0.5, 0.5], [0.0, 0.1]).strong_dominance
    assert not CascadeProblem(rows, [0.1, 0.4, 0.5], [0.0, 0.1]).strong_dominance


def test_more_than_two_labels():
    # both arms wrong with different labels: they disagree, and neither is right
    problem = CascadeProblem([[7, 8, -9], [7, 7, 7]], [0.5, 0.5], [0.0, 0.4])
    assert problem.errors.tolist() == [0.5, 0.5]
    assert problem.disagreement[0, 1] == 0.5
    assert problem.kappas.tolist() == [0.0, 0.5]
    assert problem.strong_dominance
    assert not problem.weak_dominance


def test_probabilities_are_normalised():
    problem = CascadeProblem([[1, 0], [1, 1]], [0.25 + 4e-10, 0.75], [0.0])
    assert math.fsum(problem._probabilities) == pytest.approx(1.0, abs=1e-15)


def test_tradeoff_scales_costs():
    double = CascadeProblem(ROWS, LAW, COSTS, tradeoff=2)
    assert double.costs == pytest.approx([0.0, 0.2, 0.9])
    assert double.total_costs == pytest.approx([0.5, 0.5, 0.9])
    assert double.optimal_arm == 1
    each = CascadeProblem(ROWS, LAW, COSTS, tradeoff=[1.0, 3.0, 0.5])
    assert each.total_costs == pytest.approx([0.5, 0.6, 0.225])
    assert CascadeProblem.from_predictions([1], [[1, 0]], [1, 2], tradeoff=0.5).costs.tolist() == [0.5, 1.0]
    assert CascadeProblem.bsc([0.3, 0.2], [1, 2], tradeoff=0.5).costs.tolist() == [0.5, 1.0]


def test_a_data_set_has_its_empirical_law():
    # 238, 179 and 175 errors in 768 rows, as in the thesis's table of the PIMA data
    truth = np.zeros(768, dtype=int)
    predictions = np.zeros((768, 3), dtype=int)
    for arm, count in enumerate((238, 179, 175)):
        predictions[:count, arm] = 1
    problem = CascadeProblem.from_predictions(truth, predictions, [0.05, 0.28, 0.45])
    assert problem.errors.tolist() == [238 / 768, 179 / 768, 175 / 768]
    assert problem.disagreement[0, 2] == 63 / 768
    assert problem._cycled is True
    assert problem._probabilities == pytest.approx(np.full(768, 1 / 768))


@pytest.mark.parametrize(
    ("truth", "predictions"),
    [
        ([1, 0, 1], [[1, 0], [1, 0], [0, 1]]),
        ([1.0, 0.0, 1.0], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
        ([True, False, True], [[True, False], [True, False], [False, True]]),
        ([True, False, True], [[1, 0], [1, 0], [0, 1]]),
        (["y", "n", "y"], [["y", "n"], ["y", "n"], ["n", "y"]]),
        (["y", "no", "y"], [["y", "n"], ["y", "no"], ["n", "y"]]),
        (np.array(["y", "n", "y"], object), np.array([["y", "n"], ["y", "n"], ["n", "y"]], object)),
        (np.array([1, 0, 1], object), np.array([[1, 0], [1, 0], [0, 1]], object)),
        (np.array([1, 0, 1], np.uint8), np.array([[1, 0], [1, 0], [0, 1]], np.int8)),
    ],
)
def test_labels_of_a_data_set_may_have_any_type(truth, predictions):
    # arm 1 is right, wrong, wrong; arm 2 is wrong, right, right
    problem = CascadeProblem.from_predictions(truth, predictions, [0.0, 0.1])
    assert problem.errors.tolist() == [2 / 3, 1 / 3]
    assert problem.disagreement[0, 1] == 1.0
    assert problem._rows.dtype == np.int64
    assert problem._rows.flags.c_contiguous
    assert problem._rows.shape == (3, 3)


def test_integer_labels_are_kept():
    problem = CascadeProblem([[5, -3]], [1.0], [0.0])
    assert problem._rows.tolist() == [[5, -3]]
    assert CascadeProblem.from_predictions([5], [[-3]], [0.0])._rows.tolist() == [[5, -3]]


def test_later_changes_of_the_arguments_do_not_reach_the_problem():
    rows, law, costs = np.array(ROWS), np.array(LAW), np.array(COSTS)
    problem = CascadeProblem(rows, law, costs)
    digest = problem.digest()
    rows[:], law[:], costs[:] = 0, 0.2, 7.0
    assert problem.digest() == digest
    truth, predictions = np.array([0, 1]), np.array([[0, 1], [1, 1]])
    problem = CascadeProblem.from_predictions(truth, predictions, [0, 1])
    digest = problem.digest()
    truth[:], predictions[:] = 5, 5
    assert problem.digest() == digest


# the recipe of the thesis's synthetic instances


@pytest.mark.parametrize("slip", [k / 100 for k in range(11)])
def test_bsc_gives_the_table_of_the_thesis(slip):
    problems = [CascadeProblem.bsc(BSC_ERRORS, costs, slip=slip) for costs in BSC_COSTS]
    for problem in problems:
        assert problem.errors == pytest.approx(BSC_ERRORS, abs=1e-14)
    assert [problem.optimal_arm + 1 for problem in problems] == [1, 2, 1, 3, 2]
    assert [problem.weak_dominance for problem in problems] == [True, True, True, True, False]


def test_bsc_leaves_the_table_with_more_slips():
    problems = [CascadeProblem.bsc(BSC_ERRORS, costs, slip=0.11) for costs in BSC_COSTS]
    assert [problem.weak_dominance for problem in problems] != [True, True, True, True, False]


def test_bsc_is_strongly_dominant_against_the_first_arm_without_slips():
    problem = CascadeProblem.bsc([0.4, 0.2], [0.0, 0.1], slip=0.0)
    assert problem.strong_dominance
    assert problem.disagreement[0, 1] == pytest.approx(0.2)


def test_bsc_law_for_four_arms():
    errors, slip = [0.4, 0.3, 0.2, 0.1], 0.05
    problem = CascadeProblem.bsc(errors, [0, 0.1, 0.2, 0.3], slip=slip)
    rows, law = problem._rows, problem._probabilities
    assert rows.shape == (32, 5)
    assert len({tuple(row) for row in rows}) == 32
    wrong = rows[:, 1:] != rows[:, :1]
    assert problem.errors == pytest.approx(errors)
    assert law[rows[:, 0] == 1].sum() == pytest.approx(0.7)
    right = ~wrong[:, 0]
    assert law[right & wrong[:, 1] & wrong[:, 2] & wrong[:, 3]].sum() == pytest.approx(0.6 * slip**3)
    # given an error of arm 1: (.3 - .03) / .4, (.2 - .03) / .4, (.1 - .03) / .4, independent
    together = law[wrong.all(axis=1)].sum()
    assert together == pytest.approx(0.4 * 0.675 * 0.425 * 0.175)
    assert law[wrong.all(axis=1) & (rows[:, 0] == 1)].sum() == pytest.approx(0.7 * together)


def test_bsc_with_a_perfect_first_arm():
    problem = CascadeProblem.bsc([0.0, 0.05], [0.0, 0.1])
    assert problem.errors == pytest.approx([0.0, 0.05])
    with pytest.raises(
        ValueError, match=r"errors\[1\] must be from slip .* got errors\[1\]=0.2, errors\[0\]=0"
    ):
        CascadeProblem.bsc([0.0, 0.2], [0.0, 0.1])


# a problem as an object


def test_a_problem_cannot_be_changed(problem):
    for name in [*ARRAYS, "_rows", "_probabilities"]:
        with pytest.raises(ValueError, match="read-only"):
            getattr(problem, name)[0] = 1
    with pytest.raises(AttributeError, match="costs cannot be set"):
        problem.costs = np.zeros(3)
    with pytest.raises(AttributeError, match="other cannot be set"):
        problem.other = 1
    with pytest.raises(AttributeError, match="gaps cannot be deleted"):
        del problem.gaps


def test_pickles_and_copies(problem):
    again = pickle.loads(pickle.dumps(problem))
    assert again.digest() == problem.digest()
    assert repr(again) == repr(problem)
    for name in ARRAYS:
        assert np.array_equal(getattr(again, name), getattr(problem, name))
    with pytest.raises(ValueError, match="read-only"):
        again.gaps[0] = 1.0
    with pytest.raises(AttributeError):
        again.xi = 0.0
    assert copy.copy(problem) is problem
    assert copy.deepcopy(problem) is problem


def test_repr_is_one_line(problem):
    assert repr(problem) == "CascadeProblem(arms=3, optimal_arm=1, weak_dominance=True, xi=0.05)"


def test_digest_covers_what_determines_a_simulation(problem):
    class Other(CascadeProblem):
        pass

    half = [0.5, 0.5]
    others = [
        CascadeProblem([ROWS[1], ROWS[0], *ROWS[2:]], [LAW[1], LAW[0], *LAW[2:]], COSTS),
        CascadeProblem(ROWS, [0.4, 0.2, 0.1, 0.1, 0.2], COSTS),
        CascadeProblem(ROWS, LAW, [0.0, 0.1, 0.46]),
        CascadeProblem(ROWS, LAW, COSTS, tradeoff=1.5),
        CascadeProblem([[1, 0], [1, 1]], half, [0.0]),
        CascadeProblem.from_predictions([1, 1], [[0], [1]], [0.0]),
        Other(ROWS, LAW, COSTS),
    ]
    digests = {p.digest() for p in [problem, *others]}
    assert len(digests) == 1 + len(others)
    assert CascadeProblem(ROWS, LAW, np.array(COSTS) / 2, tradeoff=2).digest() == problem.digest()
    assert len(problem.digest()) == 64
    assert set(problem.digest()) <= set("0123456789abcdef")


def test_measures_of_pull_counts(problem):
    pulls = np.array([[[10, 0, 0], [0, 10, 0]], [[1, 2, 3], [0, 0, 0]]])
    measures = problem.measures(pulls)
    assert list(measures) == ["regret", "cost", "pulls_0", "pulls_1", "pulls_2"]
    assert measures["regret"] == pytest.approx(np.array([[1.0, 0.0], [0.25, 0.0]]))
    assert measures["cost"] == pytest.approx(np.array([[0.0, 1.0], [1.55, 0.0]]))
    assert measures["pulls_2"].tolist() == [[0, 0], [3, 0]]
    single = problem.measures([1, 2, 3])
    assert single["regret"].shape == single["pulls_0"].shape == ()
    assert single["regret"] == measures["regret"][1, 0]
    with pytest.raises(ValueError, match=r"pulls must be integers of shape \(\.\.\., 3\)"):
        problem.measures([1, 2])
    with pytest.raises(ValueError, match="pulls must be integers"):
        problem.measures([1.0, 2.0, 3.0])


def test_the_world_serves_the_rows_of_the_problem(problem):
    world = problem.world()
    assert world.rows.tolist() == ROWS
    assert type(world).__name__ == "LawWorld"
    assert type(CascadeProblem.from_predictions([1], [[1, 0]], [0, 1]).world()).__name__ == "TableWorld"
