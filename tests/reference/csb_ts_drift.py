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


class DriftTwin:
    """The whole policy, written down from its description: laws by (threshold, bin), sets by enumeration."""

    def __init__(self, K: int, Q: float, C: int, rates: tuple[float, ...], reward: bool) -> None:
        self.K, self.Q, self.C, self.rates, self.reward = K, Q, C, rates, reward
        # by increasing threshold, and mirrored for rewards
        thresholds = range(C + 1, 0, -1) if reward else range(1, C + 2)
        self.cells = [(k, j) for k in thresholds for j in range(BINS)]
        even = 1.0 / len(self.cells)
        self.laws = [[dict.fromkeys(self.cells, even) for _ in range(K)] for _ in rates]
        self.weights = [1.0 / len(rates)] * len(rates)

    def select(self, rng) -> list[int]:
        """Return the levels given."""
        h = self.invert(dict(enumerate(self.weights)), rng.random())
        needs, means = [], []
        for i in range(self.K):
            k, j = self.invert(self.laws[h][i], rng.random())
            needs.append(k)
            means.append((j + rng.random()) / BINS)
        sets = [
            chosen
            for size in range(self.K + 1)
            for chosen in itertools.combinations(range(self.K), size)
            if sum(needs[i] for i in chosen) <= self.C
        ]
        served = max(sets, key=lambda chosen: sum(means[i] for i in chosen))
        levels = [needs[i] if i in served else 0 for i in range(self.K)]
        left = self.C - sum(levels)
        gains = {
            i: means[i] * sum(mass for (k, _), mass in self.laws[h][i].items() if k <= left)
            for i in range(self.K)
            if i not in served
        }
        if left and gains and max(gains.values()) > 1e-6:
            levels[max(gains, key=lambda i: gains[i])] = left
        return levels

    @staticmethod
    def invert(law, u):
        """Return where the cumulative law first exceeds u."""
        total, last = 0.0, None
        for cell, mass in law.items():
            if mass > 0.0:
                total, last = total + mass, cell
                if total > u:
                    break
        return last

    def update(self, levels, observed, rng) -> None:
        """Leak, and multiply by the likelihood."""
        H, even = len(self.rates), 1.0 / len(self.cells)
        for i, (level, x) in enumerate(zip(levels, observed, strict=True)):
            known = x is not None
            hit = known and (x == 1 or (0 < x < 1 and rng.random() < x))
            for n, h in enumerate(self.rates):
                law = {cell: (1 - h) * mass + h * even for cell, mass in self.laws[n][i].items()}
                if known and not (self.reward and level == 0):
                    for k, j in self.cells:
                        shown, mean = (level >= k) == self.reward, (2 * j + 1) / (2 * BINS)
                        law[k, j] *= (mean if hit else 1 - mean) if shown else float(not hit)
                total = sum(law.values())
                self.laws[n][i] = {cell: mass / total for cell, mass in law.items()}
                self.weights[n] *= total
            self.weights = [w / sum(self.weights) for w in self.weights]
        self.weights = [0.999 * w + 0.001 / H for w in self.weights]
