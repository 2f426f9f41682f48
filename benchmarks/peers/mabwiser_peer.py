"""MABWiser: predict, then partial_fit, in every round."""

import random

import numpy as np
from mabwiser.mab import MAB, LearningPolicy

from serve import serve


def prepare(work, arms, rounds, features=0):
    """A learning policy over ``arms`` arms, with contexts if it has ``features``."""
    makers = {
        "thompson": LearningPolicy.ThompsonSampling,
        "ucb": LearningPolicy.UCB1,
        "contextual": LearningPolicy.LinUCB,
    }
    policy = MAB(list(range(arms)), makers[work]())
    coin, rng = random.Random(1), np.random.default_rng(1)
    contexts = rng.normal(size=(rounds, 1, features)) / max(features, 1) ** 0.5
    first = [contexts[0]] if features else []
    policy.fit([0], [1], *first)

    def run():
        for t in range(rounds):
            context = [contexts[t]] if features else []
            arm = policy.predict(*context)
            policy.partial_fit([arm], [int(coin.random() < 0.5)], *context)

    return run, rounds


serve(prepare)
