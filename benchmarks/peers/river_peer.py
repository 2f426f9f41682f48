"""River: one arm pulled and updated per round."""

import random

from river import bandit, proba

from serve import serve


def prepare(work, arms, rounds):
    """A policy over ``arms`` arms; Thompson sampling draws once per arm, as ours does once per pair or arm."""
    names = list(range(arms))
    coin = random.Random(1)
    makers = {
        "thompson": lambda: bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=1),
        "ucb": lambda: bandit.UCB(delta=1, seed=1),
    }
    policy = makers[work]()

    def run():
        for _ in range(rounds):
            arm = policy.pull(names)
            policy.update(arm, coin.random() < 0.5)

    return run, rounds


serve(prepare)
