"""Bounds of chapter 5 as functions of a problem, corrected where the printed bound does not hold.

Collisions are counted once for every player involved, as the thesis defines them; its lemmas on indexing and
communication count pairwise meetings, so these are doubled here. Rounds T and collisions hold with probability at least
1 - 2 delta where they involve exploration, else as stated.
"""

import math

import numpy as np

from weakfeedback.multiplayer.kl_lucb import ALPHA, K1, confidence, divergence
from weakfeedback.multiplayer.opening import bits_for, seating_length
from weakfeedback.multiplayer.problem import MultiplayerProblem
from weakfeedback.validate import integer, number


def orthogonalisation_rounds(arms: int, delta: float) -> int:
    """Return T_RP, within which all players sit with probability at least 1 - delta (thesis, lemma OrthoArms).

    >>> orthogonalisation_rounds(10, 0.05)
    210
    """
    return int(seating_length(integer("arms", arms, 2), confidence(delta)))


def orthogonalisation_collisions(arms: int, players: int, delta: float) -> int:
    """Return the bound N T_RP on the collisions of orthogonalisation (thesis, lemma OrthoArms)."""
    return integer("players", players, 1, arms) * orthogonalisation_rounds(arms, delta)


def indexing_rounds(arms: int) -> int:
    """Return T_IP = 2 K - 1 (thesis, lemma IndexPlayer)."""
    return 2 * integer("arms", arms, 2) - 1


def indexing_collisions(players: int) -> int:
    """Return C_IP = N (N - 1), exactly: each pair of players meets once, and a meeting is two collisions.

    The thesis (lemma IndexPlayer) counts meetings.
    """
    return players * (integer("players", players, 1) - 1)


def exploration_constant(alpha: float = ALPHA) -> float:
    """Return C_0(alpha), the smallest C > alpha with C >= alpha log C + 1 + alpha / e.

    >>> round(exploration_constant(), 4)
    2.3397
    """
    from scipy.optimize import brentq

    rate = number("alpha", alpha, above=1.0)
    return float(brentq(lambda c: c - rate * math.log(c) - 1.0 - rate / math.e, rate, 1e6))


def complexity(problem: MultiplayerProblem, tolerance: float) -> float:
    """Return H = sum over arms of 1 / max(d(mu_a, c), tolerance^2 / 2), c midway between the N-th and next mean.

    The tolerance is that of AdaptiveExplore, eps / N (or eps); the thesis prints eps where its proof has eps / N.
    Infinite if the two means are equal and the tolerance is 0. N = K has nothing to explore: 0.
    """
    floor = number("tolerance", tolerance, at_least=0.0) ** 2 / 2.0
    if problem.players == problem.arms:
        return 0.0
    ordered = _ordered(problem)
    middle = (ordered[problem.players - 1] + ordered[problem.players]) / 2.0
    return math.fsum(_inverse(max(divergence(float(mean), float(middle)), floor)) for mean in ordered)


def exploration_rounds(problem: MultiplayerProblem, tolerance: float, delta: float) -> float:
    """Bound T_AE, the plays of AdaptiveExplore, by C_0 H log(k_1 K H^alpha / delta) (thesis, lemma samples_AE).

    It holds with probability at least 1 - delta.
    """
    return _plays(complexity(problem, tolerance), problem.arms, delta)


def communication_rounds(arms: int, players: int) -> int:
    """Return the bound N (ceil(log2 K) + 1) on T_CP, from the end of exploration to the last word (DLC).

    A player that waits (``served="wait"``) starts up to T_P = (N - 1) (ceil(log2 K) + 1) slots later.
    """
    if integer("players", players, 1, arms) == 1:
        return 0
    return int(players * (bits_for(arms) + 1))


def communication_collisions(arms: int, players: int) -> int:
    """Return the bound 2 (N - 1) (ceil(log2 K) + 1) on the collisions of DLC's communication.

    The thesis (lemma signaling) counts meetings.
    """
    return int(2 * (integer("players", players, 1, arms) - 1) * (bits_for(arms) + 1))


def dlc_rounds(problem: MultiplayerProblem, epsilon: float, delta: float) -> float:
    """Bound T(DLC), the rounds until the last word, with probability at least 1 - 2 delta (first theorem).

    Adds the bracket missing from the thesis's formula, and uses the tolerance eps / N.

    >>> problem = MultiplayerProblem([0.9, 0.8, 0.4, 0.2], players=2)
    >>> round(dlc_rounds(problem, epsilon=0.1, delta=0.05))
    1112
    """
    opening = orthogonalisation_rounds(problem.arms, delta) + indexing_rounds(problem.arms)
    if problem.players == problem.arms:
        return float(opening)
    explored = exploration_rounds(problem, epsilon / problem.players, delta)
    return opening + explored + communication_rounds(problem.arms, problem.players)


def dlc_collisions(problem: MultiplayerProblem, delta: float) -> int:
    """Bound the collisions of DLC, in all and with probability at least 1 - 2 delta (first theorem, doubled)."""
    arms, players = problem.arms, problem.players
    total = orthogonalisation_collisions(arms, players, delta) + indexing_collisions(players)
    return total + (communication_collisions(arms, players) if players < arms else 0)


def dlc_regret(problem: MultiplayerProblem, epsilon: float, delta: float) -> float:
    """Bound the regret of DLC by N T(DLC), with probability at least 1 - 2 delta (second theorem).

    After the last word, players wait up to T_P more slots before the first play; these are added.
    """
    waiting = 0 if problem.players == problem.arms else (problem.players - 1) * (bits_for(problem.arms) + 1)
    return problem.players * (dlc_rounds(problem, epsilon, delta) + waiting)


def dlc_lix_rounds(problem: MultiplayerProblem, epsilon: float, delta: float) -> float:
    """Bound T(DLC-LIX) with probability at least 1 - 2 delta, for ``transfer="eps/2"`` (theorem dlcIX_results).

    H is K over the smallest max(d(mu_a, c_a), tolerance^2 / 2) over neighbours a, a + 1 in the order of means. The
    thesis omits the N - 1 slots of the signals; they are added. ``transfer="exact"`` takes
    ceil(log2(T_c + 1)) slots instead of ceil(log2(2 / eps)).
    """
    arms, players = problem.arms, problem.players
    opening = orthogonalisation_rounds(arms, delta) + indexing_rounds(arms)
    if players == arms:
        return float(opening)
    floor = (number("epsilon", epsilon, above=0.0) / players) ** 2 / 2.0
    ordered = _ordered(problem)
    steps = []
    for one, two in zip(ordered[:-1].tolist(), ordered[1:].tolist()):
        middle = (one + two) / 2.0
        steps.append(min(divergence(one, middle), divergence(two, middle)))
    explored = _plays(arms * _inverse(max(min(steps), floor)), arms, delta)
    return float(opening + explored + (players - 1) * (1 + bits_for(2.0 / epsilon) + bits_for(arms)))


def dlc_lix_collisions(problem: MultiplayerProblem, epsilon: float, delta: float) -> int:
    """Bound the collisions of DLC-LIX with ``transfer="eps/2"`` (last theorem but one, doubled, with signals)."""
    arms, players = problem.arms, problem.players
    total = orthogonalisation_collisions(arms, players, delta) + indexing_collisions(players)
    if players == arms:
        return total
    word = bits_for(2.0 / number("epsilon", epsilon, above=0.0)) + bits_for(arms)
    return int(total + 2 * (players - 1) * (1 + word))


def dlc_lix_regret(problem: MultiplayerProblem, epsilon: float, delta: float) -> float:
    """Bound the regret of DLC-LIX by N T(DLC-LIX), with probability at least 1 - 2 delta."""
    return problem.players * dlc_lix_rounds(problem, epsilon, delta)


def regret_saved(exploration: int, arms: int, reserved_means: list[float]) -> float:
    """Return a lower bound on the regret that DLC-LIX saves over DLC while both explore for T_L rounds (last theorem).

    (T_L - ceil(T_L / T_P)) times the means of the arms that the players other than the leader reserved: those arms
    are used in every round instead of once in T_P.

    >>> round(regret_saved(1000, arms=8, reserved_means=[0.5, 0.75]), 2)  # T_P = 8
    1093.75
    """
    rounds = integer("exploration", exploration, 0)
    if not reserved_means:
        return 0.0
    period = len(reserved_means) * (bits_for(integer("arms", arms, 2)) + 1)
    return float((rounds - math.ceil(rounds / period)) * math.fsum(reserved_means))


def chairs_rounds(arms: int, gap: float, delta: float) -> int:
    """Return the T_0 that Musical Chairs needs for a gap between the N-th and the next mean (its theorem 1).

    The largest of (K / 2) log(2 K^2 / delta), 16 K log(4 K^2 / delta) / gap^2 and K^2 log(2 / delta) / 0.02.

    >>> chairs_rounds(10, 0.692, 0.05)
    18445
    """
    k, risk = integer("arms", arms, 2), confidence(delta)
    width = number("gap", gap, above=0.0)
    needs = (
        k / 2.0 * math.log(2.0 * k * k / risk),
        16.0 * k * math.log(4.0 * k * k / risk) / width**2,
        k * k * math.log(2.0 / risk) / 0.02,
    )
    return math.ceil(max(needs))


def chairs_gap(arms: int, learning_rounds: int, delta: float) -> float:
    """Return the gap for which T_0 rounds of Musical Chairs are designed (thesis, section 5.5).

    sqrt(16 K log(4 K^2 / delta) / T_0): only the part of the condition that concerns samples.

    >>> round(chairs_gap(10, 3000, 0.05), 3)
    0.692
    """
    k, rounds = integer("arms", arms, 2), integer("learning_rounds", learning_rounds, 1)
    return math.sqrt(16.0 * k * math.log(4.0 * k * k / confidence(delta)) / rounds)


def chairs_regret(players: int, learning_rounds: int) -> float:
    """Bound the regret of Musical Chairs, N T_0 + 2 e^2 N^2, if T_0 suffices (Rosenski and Shamir, theorem 1).

    It holds in expectation given the event, of probability at least 1 - delta, that ranking and count are right.
    """
    n = integer("players", players, 1)
    return n * integer("learning_rounds", learning_rounds, 1) + 2.0 * math.exp(2.0) * n * n


def lower_bound(problem: MultiplayerProblem, horizon: int) -> float:
    """Return log(T) times the sum over the other arms of (mu_(N) - mu_k) / d(mu_k, mu_(N)).

    The asymptotic lower bound for a central controller of all N players (Anantharam, Varaiya and Walrand, 1987); not a
    bound for an algorithm that is right with probability 1 - delta only.

    >>> problem = MultiplayerProblem([0.95 - 0.05 * k for k in range(9)], players=6)
    >>> round(lower_bound(problem, 300_000))
    203
    """
    ordered = _ordered(problem).tolist()
    last = ordered[problem.players - 1]
    parts = [(last - mean) / divergence(mean, last) for mean in ordered[problem.players :] if mean < last]
    return math.log(integer("horizon", horizon, 1)) * math.fsum(parts)


def _plays(h: float, arms: int, delta: float) -> float:
    if math.isinf(h) or h == 0.0:  # with as many players as arms there is nothing to explore
        return h
    return exploration_constant() * h * math.log(K1 * arms * h**ALPHA / confidence(delta))


def _ordered(problem: MultiplayerProblem) -> np.ndarray:
    """Return the means, largest first; these bounds are for a fixed team of players that all have the same means."""
    if problem.is_open:
        raise ValueError(f"problem must be one of a fixed team with equal means, got {problem!r}")
    return np.sort(problem.means)[::-1]


def _inverse(value: float) -> float:
    return 1.0 / value if value > 0.0 else math.inf
