"""The hidden part of a multi-player problem: in every round a reward is drawn for every arm, played or not."""

import numpy as np

BERNOULLI, UNIFORM, BETA = 0, 1, 2
CONCENTRATION = 4.0  # a beta reward of mean m is Beta(4 m, 4 (1 - m))
ABSENT, ASLEEP, AWAKE = 0, 1, 2  # not there; there, but loses this slot; plays


def reward_of(mean, law, rng):
    """Draw a reward."""
    if law == BERNOULLI:
        return 1.0 if rng.random() < mean else 0.0
    if law == UNIFORM:
        half = min(mean, 1.0 - mean)
        return min(1.0, max(0.0, mean + half * (2.0 * rng.random() - 1.0)))
    if 0.0 < mean < 1.0:
        return rng.beta(CONCENTRATION * mean, CONCENTRATION * (1.0 - mean))
    return mean


class MultiplayerWorld:
    """K arms, in a new random order for every replication.

    Draws: ``begin`` shuffles, if asked to (Fisher-Yates from the end, ``int((k + 1) * rng.random())``). Each round
    draws for arm k = 0, ..., K - 1, as players number them, one number: ``u = rng.random()``, reward 1 if
    u < mean (bernoulli) or mean + h (2 u - 1) with h = min(mean, 1 - mean) (uniform);
    ``rng.beta(4 mean, 4 (1 - mean))`` (beta; none if the mean is 0 or 1, which is then the reward).
    """

    def __init__(self, means, law, shuffled):
        self.means = means
        self.law = int(law)
        self.shuffled = bool(shuffled)
        self.order = np.arange(means.shape[-1])  # order[k]: index of the mean of arm k

    def begin(self, rng):
        """Start a replication."""
        if self.shuffled:
            for k in range(self.order.size - 1, 0, -1):
                j = int((k + 1) * rng.random())
                kept = self.order[k]
                self.order[k] = self.order[j]
                self.order[j] = kept

    def draw(self, rewards, rng):
        """Write the rewards of all arms in this round."""
        for k in range(rewards.size):
            rewards[k] = reward_of(self.means[self.order[k]], self.law, rng)


class OpenWorld(MultiplayerWorld):
    """A world whose players come and go, lose slots, have means of their own or do not sense collisions.

    Draws: ``begin`` as above. Each slot draws the rewards as above, row by row if every player has its own means,
    and then, if slots can be lost, one ``rng.random()`` for each player, present or not: it loses the slot if this is
    below ``lost``.
    """

    def __init__(self, means, law, shuffled, first, beyond, lost, sensing):
        self.means = means  # of shape (1, K) if all players have the same, else (N, K)
        self.law = int(law)
        self.shuffled = bool(shuffled)
        self.order = np.arange(means.shape[-1])
        self.first = first  # the first slot of each player
        self.beyond = beyond  # the slot after its last
        self.lost = float(lost)
        self.sensing = bool(sensing)

    def draw(self, rewards, awake, slot, rng):  # type: ignore[override]
        """Write the rewards of all arms in this slot, and for each player whether it is there and plays."""
        for row in range(rewards.shape[0]):
            for k in range(rewards.shape[1]):
                rewards[row, k] = reward_of(self.means[row, self.order[k]], self.law, rng)
        for n in range(awake.size):
            awake[n] = AWAKE
            if self.lost > 0.0 and rng.random() < self.lost:
                awake[n] = ASLEEP
            if slot < self.first[n] or slot >= self.beyond[n]:
                awake[n] = ABSENT
