"""Slow twin of CSB-TS-drift: the law of an arm as a sum over all patterns of changes, in fractions; 0-based arms.

Nothing of `weakfeedback` is imported here: that is what makes a comparison worth something.
"""

import itertools
from fractions import Fraction

BINS = 20


def likelihood(k: int, j: int, outcomes: list[tuple[int, int | None]], C: int, reward: bool) -> Fraction:
    """Of outcomes (level, 0 or 1 or None for no report) if the threshold is k and the mean lies in bin j."""
    mean, found = Fraction(2 * j + 1, 2 * BINS), Fraction(1)
    for level, x in outcomes:
        if x is None or (reward and level == 0):
            continue
        shown = (level >= k) == reward
        found *= (mean if x else 1 - mean) if shown else Fraction(int(x == 0))
    return found


def posterior(
    outcomes: list[tuple[int, int | None]], h: Fraction, C: int, reward: bool
) -> tuple[dict[tuple[int, int], Fraction], Fraction]:
    """The law of (threshold, bin) after these outcomes, and their probability: over all 2^t patterns of changes."""
    cells = list(itertools.product(range(1, C + 2), range(BINS)))
    fresh = Fraction(1, len(cells))
    law, t = dict.fromkeys(cells, Fraction(0)), len(outcomes)
    for pattern in itertools.product((False, True), repeat=t):
        weight = Fraction(1)
        for change in pattern:
            weight *= h if change else 1 - h
        starts = [n for n, change in enumerate(pattern) if change]
        pieces = [outcomes[a:b] for a, b in itertools.pairwise([0, *starts, t])]
        for piece in pieces[:-1]:  # lives that have ended
            weight *= sum(fresh * likelihood(k, j, piece, C, reward) for k, j in cells)
        if weight:
            for k, j in cells:
                law[k, j] += weight * fresh * likelihood(k, j, pieces[-1], C, reward)
    total = sum(law.values())
    return {cell: mass / total for cell, mass in law.items()}, total
