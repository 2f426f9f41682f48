"""A plain arena for players: who plays what in each slot, written without the package's round loop."""

import numpy as np


class Fixed:
    """A generator whose ``random()`` always gives the same number; it counts the calls."""

    def __init__(self, number):
        self.number = number
        self.calls = 0

    def random(self):
        self.calls += 1
        return self.number


def sitting_on(arm, arms):
    """A generator that makes ``int(arms * random())`` equal to ``arm``."""
    return Fixed((arm + 0.5) / arms)


class Arena:
    """Players on arms with given rewards, and a log of everything.

    ``rewards`` is one number per arm (the reward of every slot) or a function of the slot that gives them.
    """

    def __init__(self, players, rewards, rngs=None, seed=0):
        self.players = players
        self.rewards = rewards if callable(rewards) else lambda slot: rewards
        self.rngs = rngs or [np.random.default_rng([seed, n]) for n in range(len(players))]
        self.arms = []  # per slot: the arm of every player
        self.hits = []  # per slot: whether every player collided
        self.earned = []  # per slot: what every player earned
        self.settled_at = [0] * len(players)

    def play(self, slots):
        for _ in range(slots):
            self.slot()
        return self

    def until_settled(self, limit=100_000):
        while not all(player.settled for player in self.players):
            assert len(self.arms) < limit, "the players have not settled"
            self.slot()
        return self

    def slot(self):
        rewards = self.rewards(len(self.arms) + 1)
        arms = [player.choose(rng) for player, rng in zip(self.players, self.rngs)]
        hits = [arm >= 0 and arms.count(arm) > 1 for arm in arms]
        earned = [0.0 if arm < 0 or hit else float(rewards[arm]) for arm, hit in zip(arms, hits)]
        for n, player in enumerate(self.players):
            player.observe(arms[n], earned[n], hits[n], self.rngs[n])
            if player.settled and not self.settled_at[n]:
                self.settled_at[n] = len(self.arms) + 1
        self.arms.append(arms)
        self.hits.append(hits)
        self.earned.append(earned)

    def collisions(self, first=1, last=None):
        """Collisions in the slots ``first`` to ``last``, one for every player involved."""
        return sum(sum(hits) for hits in self.hits[first - 1 : last])

    def column(self, n, first=1, last=None):
        """What player n played in the slots ``first`` to ``last``."""
        return [arms[n] for arms in self.arms[first - 1 : last]]


def seated(make, seats, arms, rewards):
    """An arena whose players sit on ``seats`` after the first slot of orthogonalisation."""
    players = [make() for _ in seats]
    return Arena(players, rewards, [sitting_on(seat, arms) for seat in seats])
