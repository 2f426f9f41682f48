"""Vowpal Wabbit: predict, sample and learn in every round; contextual bandits with a bag of five, which is its nearest
to Thompson sampling."""

import random

import numpy as np
import vowpalwabbit

from serve import serve


def prepare(work, arms, rounds, features=0):
    """``cb_explore`` over ``arms`` actions; features are given as numbers in one namespace."""
    flags = {"thompson": "--bag 5", "ucb": "--epsilon 0.05", "contextual": "--bag 5"}[work]
    learner = vowpalwabbit.Workspace(f"--cb_explore {arms} {flags} --quiet")
    coin, rng = random.Random(1), np.random.default_rng(1)
    texts = ["| a"]
    if features:
        rows = rng.normal(size=(1000, features)) / features**0.5
        texts = ["| " + " ".join(f"f{k}:{value:.5f}" for k, value in enumerate(row)) for row in rows]

    def run():
        for t in range(rounds):
            text = texts[t % len(texts)]
            shares = learner.predict(text)
            u, arm = coin.random(), 0
            while arm < arms - 1 and u > shares[arm]:
                u -= shares[arm]
                arm += 1
            learner.learn(f"{arm + 1}:{int(coin.random() < 0.5)}:{shares[arm]} {text}")

    return run, rounds


serve(prepare)
