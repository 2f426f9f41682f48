"""The multi-player problem: arguments, measures by hand, the laws of the rewards."""

import copy
import pickle

import numpy as np
import pytest
from tests.rig.refusals import refusals

from weakfeedback.multiplayer import MultiplayerProblem
from weakfeedback.multiplayer.world import MultiplayerWorld

# K = 3, N = 2: rounds, collisions, settled players, settled at, used 0-2, seats 0-2
MEANS = [0.5, 0.9, 0.7]


def test_attributes():
    problem = MultiplayerProblem(MEANS, 2)
    assert (problem.arms, problem.players, problem.setting) == (3, 2, "multiplayer")
    assert problem.optimal_value == pytest.approx(1.6)
    assert MultiplayerProblem(MEANS, 3).optimal_value == pytest.approx(2.1)


test_bad_arguments_are_named = refusals(
    lambda arguments: MultiplayerProblem(**arguments),
    ({"means": [0.5], "players": 1}, "means must be at least two numbers in"),
    ({"means": [0.5, 1.1], "players": 1}, r"means .* \[0, 1\], got \[0.5, 1.1\]"),
    ({"means": [0.5, -0.1], "players": 1}, "means must be"),
    ({"means": [0.5, float("nan")], "players": 1}, "means must be"),
    ({"means": MEANS, "players": 0}, "players must be an integer from 1 to 3, got 0"),
    ({"means": MEANS, "players": 4}, "players must be an integer from 1 to 3, got 4"),
    (
        {"means": MEANS, "players": 2, "rewards": "normal"},
        "rewards must be 'bernoulli', 'uniform' or 'beta'",
    ),
    ({"means": MEANS, "players": 2, "shuffle": "no"}, "shuffle must be True or False, got 'no'"),
)


def test_a_problem_cannot_be_changed_and_survives_copies():
    problem = MultiplayerProblem(MEANS, 2)
    with pytest.raises(AttributeError, match="cannot be changed"):
        problem.players = 3
    with pytest.raises(ValueError, match="read-only"):
        problem.means[0] = 1.0
    assert copy.deepcopy(problem) is problem
    again = pickle.loads(pickle.dumps(problem))
    assert again.digest() == problem.digest()
    with pytest.raises(ValueError, match="read-only"):
        again.means[0] = 1.0


def test_the_digest_tells_problems_apart():
    problems = [
        MultiplayerProblem(MEANS, 2),
        MultiplayerProblem(MEANS, 1),
        MultiplayerProblem(MEANS[::-1], 2),
        MultiplayerProblem(MEANS, 2, shuffle=False),
        MultiplayerProblem(MEANS, 2, rewards="beta"),
    ]
    assert len({problem.digest() for problem in problems}) == len(problems)


def test_measures_by_hand():
    problem = MultiplayerProblem(MEANS, 2)
    # 10 rounds: arm 1 used 8 times, arm 2 used 4 times, arm 0 twice; two meetings are 4 collisions.
    # 10 * 1.6 - (2 * .5 + 8 * .9 + 4 * .7) = 16 - 11 = 5
    measures = problem.measures([10, 4, 2, 7, 2, 8, 4, 1, 1, 0])
    assert measures["regret"] == pytest.approx(5.0)
    assert measures["collisions"] == 4
    assert measures["settled_players"] == 2
    assert measures["settled_at"] == 7
    assert measures["optimal"] == 0
    assert measures["shortfall"] == pytest.approx(0.2)  # arms 0 and 1 instead of 1 and 2


def test_an_end_is_optimal_only_if_all_settled_on_different_best_arms():
    problem = MultiplayerProblem(MEANS, 2)
    rows = np.array(
        [
            [9, 0, 2, 3, 0, 9, 9, 0, 1, 1],  # on the two best
            [9, 0, 1, 0, 0, 9, 9, 0, 1, 0],  # one of them still looking
            [9, 9, 2, 3, 0, 0, 0, 0, 2, 0],  # both on the best arm
            [9, 0, 2, 3, 9, 9, 0, 1, 1, 0],  # one on the worst arm
        ]
    )
    measures = problem.measures(rows)
    assert measures["optimal"].tolist() == [1, 0, 0, 0]
    assert measures["shortfall"] == pytest.approx([0.0, 0.7, 1.6, 0.2])
    assert measures["settled_at"].tolist() == [3, 9, 3, 3]


def test_equal_means_are_all_optimal():
    problem = MultiplayerProblem([0.5, 0.5, 0.5], 2)
    measures = problem.measures([4, 0, 2, 1, 0, 4, 4, 0, 1, 1])
    assert measures["optimal"] == 1
    assert measures["regret"] == 0.0


def test_measures_refuse_other_shapes():
    with pytest.raises(ValueError, match=r"counts must be integers of shape \(..., 10\)"):
        MultiplayerProblem(MEANS, 2).measures([1, 2, 3])


@pytest.mark.parametrize("law", ["bernoulli", "uniform", "beta"])
def test_rewards_follow_their_law(law):
    means = [0.0, 0.1, 0.5, 0.8, 1.0]
    world = MultiplayerProblem(means, 2, shuffle=False, rewards=law).world()
    rng = np.random.default_rng(5)
    world.begin(rng)
    rows = np.empty((20_000, 5))
    for row in rows:
        world.draw(row, rng)
    assert rows.min() >= 0.0
    assert rows.max() <= 1.0
    # standard error at most .5 / sqrt(20000) = .0035; five standard errors, five arms: false alarm below 1e-5
    assert rows.mean(axis=0) == pytest.approx(means, abs=0.018)
    variance = {
        "bernoulli": [m * (1 - m) for m in means],
        "uniform": [min(m, 1 - m) ** 2 / 3 for m in means],  # width 2h: (2h)^2 / 12
        "beta": [m * (1 - m) / 5 for m in means],  # a + b + 1 = 5
    }[law]
    assert rows.var(axis=0) == pytest.approx(variance, abs=0.006)


def test_the_order_of_arms_is_drawn_by_fisher_yates():
    world = MultiplayerProblem([0.1, 0.2, 0.3, 0.4], 2).world()
    rng = np.random.default_rng(3)
    world.begin(rng)
    expected, again = [0, 1, 2, 3], np.random.default_rng(3)
    for k in (3, 2, 1):
        j = int((k + 1) * again.random())
        expected[k], expected[j] = expected[j], expected[k]
    assert world.order.tolist() == expected
    assert rng.random() == again.random()


def test_without_shuffle_nothing_is_drawn():
    world = MultiplayerProblem(MEANS, 2, shuffle=False).world()
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    world.begin(rng)
    assert world.order.tolist() == [0, 1, 2]
    assert rng.random() == again.random()


def test_every_order_is_equally_likely():
    counts = {}
    rng = np.random.default_rng(11)
    for _ in range(6000):
        world = MultiplayerWorld(np.array(MEANS), 0, True)
        world.begin(rng)
        counts[tuple(world.order)] = counts.get(tuple(world.order), 0) + 1
    assert len(counts) == 6
    # chi-square with 5 degrees of freedom: 25.7 is exceeded with probability 1e-4
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 25.7
