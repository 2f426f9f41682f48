"""Musical Chairs: explore at random, count the players by the collisions, sit down (Rosenski and Shamir)."""

import math
from typing import ClassVar

import numpy as np

from weakfeedback.kernels.loops import rank_down
from weakfeedback.multiplayer.opening import IDLE
from weakfeedback.validate import MOST_ARMS, integer, limited


class MusicalChairs:
    """One of N players that sit down on the best arms after a fixed time of random play.

    Protocol
    --------
    1. For T_0 slots play an arm drawn uniformly; note rewards and the number C of collisions.
    2. Estimate the number of players, N* = round(log((T_0 - C) / T_0) / log(1 - 1 / K) + 1), from 1 to K (K if
       every play collided), and the N* arms with the largest empirical means.
    3. Play one of those N* arms, drawn uniformly, until a play is free of collisions; then stay.

    Means of arms without a free play are 0; ties go to the smaller arm.

    Draws: ``choose`` takes one ``rng.random()`` in every slot until it sits: ``int(K * u)`` in the first T_0
    slots, the arm of rank ``int(N* u)`` afterwards.

    Parameters
    ----------
    arms : integer >= 2
    learning_rounds : integer >= 1
        T_0. Enough for a probability 1 - delta if it is at least 16 K log(4 K^2 / delta) / gap^2, see
        ``theory.chairs_rounds``; the thesis uses 3000.

    Attributes
    ----------
    settled, arm
        Whether it has settled, and its arm (before that, the arm played last).
    N : int
        The estimated number of players, 0 until then.

    References
    ----------
    J. Rosenski, O. Shamir, L. Szlak, Multi-player bandits: a musical chairs approach, ICML 2016.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> player, slots = MusicalChairs(arms=3, learning_rounds=100), 0
    >>> while not player.settled:
    ...     arm = player.choose(rng)
    ...     player.observe(arm, [0.2, 0.9, 0.6][arm], False, rng)
    ...     slots += 1
    >>> player.arm, player.N, slots
    (1, 1, 101)
    """

    in_short = "random play for a fixed time, then sits down"
    sample_options: ClassVar = {"learning_rounds": 100}
    delay_safe = False

    def __init__(self, arms, learning_rounds):
        self.K = limited("arms", arms, 2, MOST_ARMS)
        self.T0 = integer("learning_rounds", learning_rounds, 1)
        self.slot = 0  # elapsed slots
        self.collisions = 0  # of the first T_0 slots
        self.pulls = np.zeros(self.K, dtype=np.int64)  # free plays
        self.sums = np.zeros(self.K)
        self.ranking = np.zeros(self.K, dtype=np.int64)  # arms, best first
        self.N = 0  # N*
        self.arm = IDLE
        self.settled = False

    def choose(self, rng):
        """Return the arm of this slot."""
        if self.settled:
            return self.arm
        if self.slot < self.T0:
            return int(self.K * rng.random())
        return int(self.ranking[int(self.N * rng.random())])

    def observe(self, arm, reward, collided, rng):
        """Learn from the slot: the player's own reward, and whether it collided."""
        if self.settled:
            return
        self.slot += 1
        self.arm = arm
        if self.slot > self.T0:
            self.settled = not collided
            return
        # three conditional values instead of one branch, which would be mispredicted half of the time
        self.collisions += 1 if collided else 0
        self.pulls[arm] += 0 if collided else 1
        self.sums[arm] += 0.0 if collided else reward
        if self.slot == self.T0:
            self.estimate()

    def estimate(self):
        """Estimate the number of players and rank the arms."""
        free = self.T0 - self.collisions
        self.N = self.K
        if free > 0:
            players = math.log(free / self.T0) / math.log(1.0 - 1.0 / self.K) + 1.0
            self.N = min(self.K, max(1, int(players + 0.5)))
        means = np.zeros(self.K)
        for k in range(self.K):
            if self.pulls[k] > 0:
                means[k] = self.sums[k] / self.pulls[k]
        order = rank_down(means)
        for k in range(self.K):
            self.ranking[k] = order[k]
