"""Slow twin of CSB-ISO: curves as lists over all levels, every split of the levels tried, 0-based arms.

Nothing of `weakfeedback` is imported here: that is what makes a comparison worth something.
"""

import itertools
from collections.abc import Sequence
from typing import Any


def coin(x: float, rng: Any) -> int:
    if x <= 0 or x >= 1:
        return int(x >= 1)
    return int(rng.random() < x)


def falling(blocks: list[tuple[float, float, list[int]]]) -> list[tuple[float, float, list[int]]]:
    """Blocks (value, weight, members), of which neighbours are pooled from the left as long as one rises."""
    done: list[tuple[float, float, list[int]]] = []
    for block in blocks:
        done.append(block)
        while len(done) > 1 and done[-2][0] < done[-1][0]:
            (v, w, a), (x, y, b) = done[-2:]
            done[-2:] = [((w * v + y * x) / (w + y), w + y, a + b)]
    return done


class SlowCsbIso:
    """CSB-ISO on the levels 0..C, with every outcome kept as it came."""

    def __init__(self, arms: int, budget: float, levels: int = 100, setting: str = "loss"):
        self.K, self.Q, self.C, self.reward = arms, budget, levels, setting == "reward"
        self.seen: list[list[tuple[int, int]]] = [[] for _ in range(arms)]  # (level, 1 for a loss)

    def select(self, rng: Any) -> list[float]:
        curves = [self.curve(i, rng) for i in range(self.K)]
        offers = [self.choices(curve) for curve in curves]
        best = self.best(offers)
        levels = [level for level, _ in best]
        left = self.C - sum(levels)
        rest = [curve[0] - gain for curve, (_, gain) in zip(curves, best)]
        levels[rest.index(max(rest))] += left
        return [level * (self.Q / self.C) for level in levels]

    def counts(self, i: int, level: int) -> tuple[int, int]:
        found = [loss for where, loss in self.seen[i] if where == level]
        return sum(found), len(found) - sum(found)

    def curve(self, i: int, rng: Any) -> list[float]:
        """The drawn curve at every level."""
        places = sorted({0, *(where for where, _ in self.seen[i])})
        if rng.random() < 0.5:
            groups = [[place] for place in places]
        else:
            raw = []
            for place in places:
                n1, n0 = self.counts(i, place)
                raw.append((n1 / (n1 + n0) if n1 + n0 else 1.0, float(n1 + n0), [place]))
            groups = [members for _, _, members in falling(raw)]
        drawn = []
        for members in groups:
            n1, n0 = (sum(self.counts(i, place)[k] for place in members) for k in (0, 1))
            drawn.append((rng.beta(0.5 + n1, 0.5 + n0), 1.0 + n1 + n0, members))
        final = falling(drawn)
        curve = [final[0][0]] * (self.C + 1)
        for (before, _, a), (after, _, b) in itertools.pairwise(final):
            gap = b[0] - a[-1]
            if after < before:
                place = b[0] if gap == 1 else a[-1] + 1 + int(rng.random() * gap)
                curve[place:] = [after] * (self.C + 1 - place)
        last = places[-1]
        if last < self.C:
            lowest = curve[-1] * rng.random()
            place = last + 1 + int(rng.random() * (self.C - last))
            curve[place:] = [lowest] * (self.C + 1 - place)
        return curve

    def choices(self, curve: Sequence[float]) -> list[tuple[int, float]]:
        """Nothing, and every level at which the curve has fallen by more than 5e-4 since the last choice."""
        found = [(0, 0.0)]
        for level, value in enumerate(curve):
            if value != curve[level - 1] and curve[0] - value > found[-1][1] + 5e-4:
                found.append((level, curve[0] - value))
        return found

    def best(self, offers: list[list[tuple[int, float]]]) -> list[tuple[int, float]]:
        """The split with the largest gain, of all."""
        found: list[list[tuple[int, float]]] = [[]]
        for offer in offers:
            found = [
                [*some, one] for some in found for one in offer if sum(k for k, _ in some) + one[0] <= self.C
            ]
        return max(found, key=lambda split: sum(gain for _, gain in split))

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        for i, (amount, x) in enumerate(zip(allocation, observed)):
            if x == x:  # NaN: no report
                one = coin(x, rng)
                self.seen[i].append(
                    (min(self.C, int(amount / (self.Q / self.C) + 0.5)), 1 - one if self.reward else one)
                )
