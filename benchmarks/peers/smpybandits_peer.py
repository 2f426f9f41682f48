"""SMPyBandits: its policies in the leanest loop that lets them play; its own evaluator would only be slower."""

import numpy as np
from SMPyBandits.Policies.MusicalChair import MusicalChair
from SMPyBandits.Policies.SIC_MMAB import SIC_MMAB
from SMPyBandits.Policies.Thompson import Thompson
from SMPyBandits.Policies.UCB import UCB

from serve import serve


def alone(policy, rounds, means):
    """One player."""
    rng = np.random.default_rng(1)
    policy.startGame()

    def run():
        draws = rng.random(rounds)
        for t in range(rounds):
            arm = policy.choice()
            policy.getReward(arm, float(draws[t] < means[arm]))

    return run, rounds


def together(make, rounds, means, players):
    """Players who collide; each run is a new game."""
    rng = np.random.default_rng(1)

    def run():
        team = [make() for _ in range(players)]
        for player in team:
            player.startGame()
        for _ in range(rounds):
            rewards = rng.random(means.size) < means
            arms = [player.choice() for player in team]
            for player, arm in zip(team, arms):
                if arms.count(arm) > 1:
                    player.handleCollision(arm, 0.0)
                else:
                    player.getReward(arm, float(rewards[arm]))

    return run, rounds


def prepare(work, arms, rounds, players=1, horizon=0):
    """Bernoulli arms with means from 0.9 down to 0.5."""
    means = np.linspace(0.9, 0.5, arms)
    if work == "musical chairs":
        return together(lambda: MusicalChair(arms, Time0=horizon), rounds, means, players)
    if work == "sic-mmab":
        return together(lambda: SIC_MMAB(arms, horizon), rounds, means, players)
    return alone({"thompson": Thompson, "ucb": UCB}[work](arms), rounds, means)


serve(prepare)
