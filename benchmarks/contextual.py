"""USS-PD against refitting scikit-learn's logistic regression in every round, and its time for the thesis's runs."""

import time

import numpy as np

from weakfeedback import simulate
from weakfeedback.contextual import UssPd, instances

ROUNDS = 400


def refit_per_round(problem):
    """CPU seconds per round of fitting every pair anew with scikit-learn, as a user without this library would."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    features = problem.features[:ROUNDS]
    pairs = problem.arms * (problem.arms - 1) // 2
    labels = rng.random((ROUNDS, pairs)) < 0.3
    taken = []
    for t in range(50, ROUNDS, 50):  # a sample of the rounds: each costs many fits
        before = time.process_time()
        for pair in range(pairs):
            LogisticRegression(C=1e3, fit_intercept=False, max_iter=200).fit(features[:t], labels[:t, pair])
        taken.append(time.process_time() - before)
    return float(np.mean(taken))


def main():
    """Print both ratios."""
    problem = instances.load("synthetic-2")
    policy = {"USS-PD": UssPd(problem.costs, problem.dimension)}
    simulate(problem, policy, horizon=10, replications=1)
    before = time.perf_counter()
    simulate(problem, policy, horizon=5000, replications=100)
    print(
        f"USS-PD, synthetic 2, 100 replications of 5000 rounds: {time.perf_counter() - before:.1f} s of wall time"
    )
    before = time.process_time()
    simulate(problem, policy, horizon=ROUNDS, replications=20)
    ours = (time.process_time() - before) / (20 * ROUNDS)
    theirs = refit_per_round(problem)
    print(f"refitting scikit-learn in the first {ROUNDS} rounds: {theirs / ours:.0f} times slower per round")


if __name__ == "__main__":
    main()
