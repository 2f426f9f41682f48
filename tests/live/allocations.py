"""Arms with hidden thresholds, and what an allocator may see of them."""

import json

import numpy as np

from weakfeedback.live import Allocator

MEANS = np.array([0.9, 0.75, 0.6, 0.4])
SAME, DIFFERENT = np.full(4, 0.4), np.array([0.3, 0.5, 0.2, 0.6])
SEARCH = {"epsilon": 0.3, "delta": 0.1}
CASES = [
    ("CSB-SK", "loss", SAME, SEARCH),
    ("CSB-ST", "loss", SAME, SEARCH),
    ("CSB-SU", "loss", SAME, {}),
    ("CSB-MK", "loss", DIFFERENT, {**SEARCH, "gamma": 0.02}),
    ("CSB-MK", "loss", DIFFERENT, {**SEARCH, "gamma": 0.02, "distinct": 2, "wait": 3, "every": 5}),
    ("CSB-DT", "loss", DIFFERENT, {**SEARCH, "gamma": 0.02}),
    ("CSB-DU", "loss", DIFFERENT, {"gamma": 0.05}),
    ("NUM-SK", "reward", SAME, SEARCH),
    ("NUM-MK", "reward", DIFFERENT, {**SEARCH, "gamma": 0.02}),
    ("CSB-TS", "loss", DIFFERENT, {}),
    ("CSB-TS", "reward", DIFFERENT, {"step": 0.01}),
    ("CSB-TS-same", "loss", SAME, {}),
    ("CSB-TS-same", "reward", SAME, {}),
    ("Known", "loss", DIFFERENT, {"thresholds": [0.3, 0.5, 0.2, 0.6]}),
    ("Known", "reward", DIFFERENT, {"thresholds": [0.3, 0.5, 0.2, 0.6], "every": 3}),
]
IDS = [f"{name}-{setting}-{len(options)}" for name, setting, _, options in CASES]


def outcomes(rounds, seed=0, fractions=False):
    """What would happen in each round if nothing were hidden."""
    rng = np.random.default_rng(seed)
    drawn = rng.random((rounds, 4))
    return np.clip(MEANS - 0.1 + 0.2 * drawn, 0, 1) if fractions else (drawn < MEANS).astype(float)


def shown(allocation, outcome, thresholds, setting):
    """What censoring lets through, None for what it does not."""
    served = allocation >= thresholds * (1 - 1e-9)
    return [float(x) if s == (setting == "reward") else None for x, s in zip(outcome, served)]


def filled(observed):
    return np.array([0.0 if x is None else x for x in observed])


def make(name="CSB-SU", setting="loss", seed=0, budget=1.3, **options):
    return Allocator(4, budget, name, setting=setting, seed=seed, **options)


def snapshot(allocator):
    return json.dumps(allocator.state(), sort_keys=True)


class OneAtATime:
    """Gives everything to one arm after the other."""

    delay_safe = False

    def __init__(self, share=1.0):
        self.share = share
        self.seen = 0

    def select(self, rng):
        allocation = np.zeros(4)
        allocation[self.seen % 4] = self.share * 1.3
        return allocation

    def update(self, allocation, observed, rng):
        self.seen += 1
