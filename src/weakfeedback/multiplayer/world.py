"""The hidden part of a multi-player problem: in every round a reward is drawn for every arm, played or not."""

import numpy as np

BERNOULLI, UNIFORM, BETA = 0, 1, 2
CONCENTRATION = 4.0  # a beta reward of mean m is Beta(4 m, 4 (1 - m))


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
        self.order = np.arange(means.size)  # order[k]: index of the mean of arm k

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
        means, order, law = self.means, self.order, self.law
        for k in range(rewards.size):
            mean = means[order[k]]
            if law == BERNOULLI:
                rewards[k] = 1.0 if rng.random() < mean else 0.0
            elif law == UNIFORM:
                half = min(mean, 1.0 - mean)
                rewards[k] = min(1.0, max(0.0, mean + half * (2.0 * rng.random() - 1.0)))
            elif 0.0 < mean < 1.0:
                rewards[k] = rng.beta(CONCENTRATION * mean, CONCENTRATION * (1.0 - mean))
            else:
                rewards[k] = mean
