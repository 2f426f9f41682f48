"""Selfish: every player alone, as if there were no others (the baseline without collision sensing)."""

import math

import numpy as np

from weakfeedback.multiplayer.kl_lucb import kl_upper
from weakfeedback.multiplayer.opening import IDLE
from weakfeedback.validate import MOST_ARMS, limited, one_of


class Selfish:
    """A player that counts every play, collision or not, by its reward, and plays a bandit index of its own.

    With n_k plays of arm k that earned s_k in all (a collision earns 0), it plays the arm with the largest

    * "thompson": draw of Beta(1 + s_k, 1 + n_k - s_k);
    * "kl-ucb": max{q : n_k d(s_k / n_k, q) <= log t} + Z / t, with Z standard normal and t the number of the slot, so
      that equal players do not follow each other for ever; arms without a play come first.

    Ties go to the smaller arm. It never asks whether it collided, so it works without sensing. No bound is known, and
    plain selfish indices are known to fail in corner cases.

    Draws: for arms 0, ..., K - 1, one ``rng.beta`` ("thompson") or one ``rng.normal()`` ("kl-ucb").

    Parameters
    ----------
    arms : integer >= 2
    index : "thompson" or "kl-ucb"
        Thompson is much faster; KL-UCB with noise has fewer bad runs.

    Attributes
    ----------
    arm : int
        The arm played last.
    settled : bool
        Always False.

    References
    ----------
    C. Trinh, R. Combes, A high performance, low complexity algorithm for multi-player bandits without collision sensing
    information, arXiv 2102.10200.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> player, plays = Selfish(arms=3), np.zeros(3, dtype=int)
    >>> for slot in range(500):
    ...     arm = player.choose(rng)
    ...     player.observe(arm, float(rng.random() < [0.2, 0.9, 0.6][arm]), False, rng)
    ...     plays[arm] += 1
    >>> int(plays.argmax())
    1
    """

    in_short = "every player for itself; needs no collision sensing"
    delay_safe = False
    survives = True
    needs_sensing = False

    def __init__(self, arms, index="thompson"):
        self.K = limited("arms", arms, 2, MOST_ARMS)
        self.draws = one_of("index", index, ("thompson", "kl-ucb")) == "thompson"
        self.t = 0  # elapsed slots
        self.pulls = np.zeros(self.K, dtype=np.int64)
        self.sums = np.zeros(self.K)
        self.arm = IDLE
        self.settled = False

    def choose(self, rng):
        """Return the arm of this slot."""
        best = 0
        highest = -math.inf
        for k in range(self.K):
            value = self.index_of(k, rng)
            if value > highest:
                highest = value
                best = k
        return best

    def index_of(self, k, rng):
        """The value of an arm."""
        n = self.pulls[k]
        if self.draws:
            return rng.beta(1.0 + self.sums[k], 1.0 + n - self.sums[k])
        noise = rng.normal() / (self.t + 1)
        if n == 0:
            return 10.0 + noise
        return kl_upper(min(1.0, self.sums[k] / n), n, math.log(self.t + 1)) + noise

    def observe(self, arm, reward, collided, rng):
        """Learn from the slot: the player's own reward."""
        self.t += 1
        self.pulls[arm] += 1
        self.sums[arm] += reward
        self.arm = arm
