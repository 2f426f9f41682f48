"""A cascade that decides after every answer, when its cheap stage goes bad half way and is as sure of itself as before.

What is lost until that is noticed, and what does it cost to be ready for it? ``fade`` forgets rounds that are old, and
``probe`` goes on in a share of the decisions whatever is known.
"""

import numpy as np

from weakfeedback import Cascade, Scored

ROUNDS, CHANGE = 3000, 2000
PRICES = [0.01, 0.20]  # of the stages, where an error costs 1


def costs(seed, **options):
    """What each round cost, errors included; the right answer is 0, and the second stage gives it."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(ROUNDS) < np.where(np.arange(ROUNDS) < CHANGE, 0.01, 0.5)
    scores = rng.random((2, ROUNDS)).tolist()
    stages = [lambda row: Scored(int(wrong[row]), scores[0][row]), lambda row: Scored(0, scores[1][row])]
    cascade = Cascade(stages, PRICES, error_cost=1, policy="USS-A", seed=seed, compiled=True, **options)
    return np.array([answer.cost + answer.label for answer in map(cascade, range(ROUNDS))])


print("cost per 1000 rounds   before the change   the first 300 after it   the next 700")
for name, options in (
    ("USS-A", {}),
    ("probe=0.02", {"probe": 0.02}),
    ("fade=500", {"fade": 500}),
    ("both", {"probe": 0.02, "fade": 500}),
):
    paid = np.mean([costs(seed, **options) for seed in range(4)], axis=0)
    parts = [paid[1000:CHANGE], paid[CHANGE : CHANGE + 300], paid[CHANGE + 300 :]]
    before, first, later = (round(1000 * part.mean()) for part in parts)
    print(f"{name:>20}   {before:>17}   {first:>22}   {later:>12}")
print("to go on never costs 20 before and 510 after the change, to go on always 210")
