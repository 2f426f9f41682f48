"""The bounds of chapter 5: by hand, and against simulations."""

import math

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.multiplayer import Dlc, DlcLix, MultiplayerProblem, MusicalChairs, instances, theory
from weakfeedback.multiplayer.kl_lucb import K1, divergence


def test_constants():
    alpha = 1.1
    c = theory.exploration_constant(alpha)
    assert c == pytest.approx(alpha * math.log(c) + 1 + alpha / math.e)
    # k_1 must exceed 2e + 1 + e / (alpha - 1) + (e + 1) / (alpha - 1)^2 = 405.4
    least = 2 * math.e + 1 + math.e / 0.1 + (math.e + 1) / 0.01
    assert 400 < least < K1


def test_lengths_and_collisions_by_hand():
    assert theory.orthogonalisation_rounds(10, 0.05) == 210
    assert theory.orthogonalisation_collisions(10, 6, 0.05) == 1260
    assert theory.indexing_rounds(10) == 19
    assert theory.indexing_collisions(6) == 30
    assert theory.communication_rounds(10, 6) == 6 * 5
    assert theory.communication_rounds(10, 1) == 0
    assert theory.communication_collisions(10, 6) == 2 * 5 * 5
    problem = MultiplayerProblem(np.linspace(0.95, 0.5, 10), 6)
    assert theory.dlc_collisions(problem, 0.05) == 1260 + 30 + 50
    # ceil(log2(2 / .3)) = 3: five players send 3 bits and hear 4, after a signal
    assert theory.dlc_lix_collisions(problem, 0.3, 0.05) == 1260 + 30 + 2 * 5 * (1 + 3 + 4)
    everybody = MultiplayerProblem(np.linspace(0.95, 0.5, 10), 10)
    assert theory.dlc_rounds(everybody, 0.1, 0.05) == theory.dlc_lix_rounds(everybody, 0.1, 0.05) == 229
    assert theory.dlc_collisions(everybody, 0.05) == 2100 + 90


def test_complexity_by_hand():
    problem = MultiplayerProblem([0.8, 0.2, 0.4], 1)
    # c = .6; arms .8, .4, .2
    expected = sum(1 / divergence(mean, 0.6) for mean in (0.8, 0.4, 0.2))
    assert theory.complexity(problem, 0.0) == pytest.approx(expected)
    assert theory.complexity(problem, 10.0) == pytest.approx(3 / 50)
    assert theory.complexity(MultiplayerProblem([0.5, 0.5, 0.2], 1), 0.0) == math.inf
    assert theory.exploration_rounds(MultiplayerProblem([0.5, 0.5, 0.2], 1), 0.0, 0.1) == math.inf
    assert theory.complexity(MultiplayerProblem([0.5, 0.5], 2), 0.0) == 0.0


def test_other_bounds_by_hand():
    # sqrt(160 ln(8000) / 3000) = .692: the thesis's epsilon' (it uses half of it, .346, as .3)
    assert theory.chairs_gap(10, 3000, 0.05) == pytest.approx(0.6923, abs=1e-4)
    assert theory.chairs_rounds(10, 0.05, 0.05) == math.ceil(160 * math.log(8000) / 0.0025)
    assert theory.chairs_regret(6, 3000) == pytest.approx(18_000 + 2 * math.exp(2) * 36)
    problem = MultiplayerProblem([0.6, 0.5, 0.5], 2)
    assert theory.lower_bound(problem, 100) == 0.0
    # (.6 - .5) / d(.5, .6), twice
    one = MultiplayerProblem([0.6, 0.5, 0.5], 1)
    assert theory.lower_bound(one, 100) == pytest.approx(math.log(100) * 2 * 0.1 / divergence(0.5, 0.6))


@pytest.mark.parametrize("served", ["wait", "keep"])
def test_dlc_keeps_to_its_bounds(served):
    problem, delta, epsilon = MultiplayerProblem([0.9, 0.8, 0.5, 0.3, 0.2], 2), 0.1, 0.2
    policy = Dlc(5, epsilon, delta, served=served)
    results = simulate(problem, {"dlc": policy}, 10_000, replications=100, marks=1)
    waiting = 4  # T_P = (N - 1)(3 + 1): from the last word to the first play
    late = results.values("dlc", "settled_at")[:, -1] > theory.dlc_rounds(problem, epsilon, delta) + waiting
    many = results.values("dlc", "collisions")[:, -1] > theory.dlc_collisions(problem, delta)
    dear = results.values("dlc")[:, -1] > theory.dlc_regret(problem, epsilon, delta)
    # each with probability at most 2 delta = .2; Bin(100, .2) exceeds 35 with probability 2e-4
    for broken in (late, many, dear):
        assert broken.sum() <= 35


def test_dlc_lix_keeps_to_its_bounds():
    problem, delta, epsilon = MultiplayerProblem([0.9, 0.7, 0.5, 0.3, 0.1], 3), 0.1, 0.3
    policy = DlcLix(5, epsilon, delta, transfer="eps/2")
    results = simulate(problem, {"lix": policy}, 20_000, replications=100, marks=1)
    late = results.values("lix", "settled_at")[:, -1] > theory.dlc_lix_rounds(problem, epsilon, delta)
    many = results.values("lix", "collisions")[:, -1] > theory.dlc_lix_collisions(problem, epsilon, delta)
    dear = results.values("lix")[:, -1] > theory.dlc_lix_regret(problem, epsilon, delta)
    for broken in (late, many, dear):
        assert broken.sum() <= 35


def test_dlc_lix_saves_what_the_last_theorem_says():
    """While both explore, N = 2: regret of DLC less that of DLC-LIX against the bound on the seat's mean."""
    # nothing to find: both explore for ever
    problem = MultiplayerProblem([0.5, 0.5, 0.5, 0.5], 2, shuffle=False)
    policies = {"dlc": Dlc(4, 0.001, 0.1), "lix": DlcLix(4, 0.001, 0.1)}
    results = simulate(problem, policies, 5000, replications=20, marks=[1000, 5000])
    for name in policies:
        assert results.values(name, "settled_players").max() == 0
    saved = np.diff(results.values("dlc") - results.values("lix"), axis=1)
    # regret comes from counts of uses, so equal means make it exact but for the phase of the polls
    bound = theory.regret_saved(4000, 4, [0.5])
    assert (saved >= bound - 1).all()


def test_chairs_keep_to_their_bound():
    problem = MultiplayerProblem([0.95, 0.05], 1)
    rounds = theory.chairs_rounds(2, 0.9, 0.1)
    results = simulate(problem, {"mc": MusicalChairs(2, rounds)}, rounds + 200, replications=50, marks=1)
    # with probability at least 1 - delta = .9 in each; Bin(50, .1) exceeds 14 with probability 1e-4
    assert (results.values("mc")[:, -1] > theory.chairs_regret(1, rounds)).sum() <= 14


def test_instances():
    e1, e2 = instances.load("E1"), instances.load("e2")
    assert (e1.arms, e1.players, e2.arms, e2.players) == (10, 6, 9, 6)
    assert e1.means.tolist() == [0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5]
    assert e2.means[-1] == 0.55
    assert instances.describe("gap-0.02").means[-1] == pytest.approx(0.79)
    sweep = [name for name in instances.names() if name.startswith("arms-")]
    assert [instances.load(name).arms for name in sweep] == [6, 7, 8, 9, 10, 12, 14]
    players = [instances.load(f"players-{n}").players for n in range(1, 11)]
    assert players == list(range(1, 11))
    for name in instances.names():
        about = instances.describe(name)
        assert about.available()
        assert about.unavailable() == ""
        assert all(0.0 <= mean <= 1.0 for mean in about.means)
        assert np.diff(about.means) == pytest.approx(-about.gap)
    with pytest.raises(ValueError, match="instance 'arms-11' is not known; did you mean arms-1"):
        instances.load("arms-11")


def test_with_as_many_players_as_arms_there_is_nothing_to_explore():
    problem = MultiplayerProblem([0.9, 0.5, 0.2], players=3)
    assert theory.exploration_rounds(problem, 0.1, 0.1) == 0.0


def test_bounds_are_for_fixed_teams():
    problem = MultiplayerProblem([0.9, 0.5, 0.1], 2, presence=[(0, None), (7, None)])
    for bound in (lambda: theory.lower_bound(problem, 100), lambda: theory.complexity(problem, 0.1)):
        with pytest.raises(
            ValueError, match="problem must be one of a fixed team with equal means, got Multi"
        ):
            bound()
