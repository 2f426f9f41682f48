"""Policies of allocations in the interpreter, with the same draws and to the same bits.

Their own methods read arrays number by number, so that they can be compiled; here no compiler is at hand. What one
round of CSB-TS and CSB-SU needs is read into lists at once or done on whole arrays.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.allocation.common import coin
from weakfeedback.allocation.csb_su import CsbSu
from weakfeedback.allocation.csb_ts import NODES, REST, WORTH, CsbTs, raise_worthiest
from weakfeedback.allocation.posterior import NEGLIGIBLE, fall
from weakfeedback.live.packing import branch_and_bound, count_served, fill_levels, give_top, some_positive

FEW = 10  # arms up to which loops are quicker than arrays
Array = np.ndarray
Generator = np.random.Generator


class Belief(NamedTuple):
    """The posterior of a threshold, by the segments on which it is constant, as ``posterior.lay_out`` has them."""

    edge: int  # the first segment begins behind it
    ends: list[int]  # may go on behind the last segment that counts
    share: list[float]
    total: list[float]

    def first_above(self, portion: float) -> tuple[int, int]:
        """Return the segment and the t at which Pr(threshold <= t) first exceeds ``portion``."""
        high = len(self.total) - 1
        mass = portion * self.total[high]
        low = bisect_right(self.total, mass, 0, high)
        t = self.edge + 1
        if low > 0:
            t = self.ends[low - 1] + 1
            mass -= self.total[low - 1]
        return low, min(t + int(mass / self.share[low]), self.ends[low])

    def share_up_to(self, t: int) -> float:
        """Return Pr(threshold <= t)."""
        if t <= self.edge:
            return 0.0
        high = len(self.total) - 1
        if t >= self.ends[high]:
            return 1.0
        low = bisect_left(self.ends, t, 0, high)
        return (self.total[low] - (self.ends[low] - t) * self.share[low]) / self.total[high]


def lay_out(positive: float, seen: float, edge: int, top: int, levels: list[int], zeros: list[int]) -> Belief:
    """Return the segments of one arm's posterior."""
    ends = [*levels, top]
    share: list[float] = []
    total: list[float] = []
    last, weight, mass = edge, 1.0, 0.0
    for end, more in zip(ends, [*zeros, 0]):
        if (top - last) * weight <= NEGLIGIBLE * mass:
            break
        mass += (end - last) * weight
        share.append(weight)
        total.append(mass)
        last = end
        if more == 1:  # most are; all are whole numbers, and their sums exact
            weight *= (seen + 1.0) / (positive + seen + 2.0)
        elif more:
            weight *= fall(positive, seen, float(more))
        seen += more
    return Belief(edge, ends, share, total)


def select_ts(policy: CsbTs, rng: Generator) -> Array:
    """Return what ``policy.select(rng)`` does, with the same draws."""
    K, C = policy.K, policy.C
    P, S, F = policy.P.tolist(), policy.S.tolist(), policy.F.tolist()
    edges, used = policy.edge.tolist(), policy.used.tolist()
    beliefs, k, mu = [], [], []
    for i in range(K):
        levels, zeros = policy.levels[i, : used[i]].tolist(), policy.zeros[i, : used[i]].tolist()
        belief = lay_out(float(P[i]), float(F[i]), edges[i], C + 1, levels, zeros)
        s, t = belief.first_above(rng.random())
        mu.append(rng.beta(1.0 + S[i], 1.0 + F[i] + sum(zeros[:s]) + P[i] - S[i]))
        if policy.reward:
            _, other = belief.first_above(rng.random())
            t = C + 2 - max(t, other)
        k.append(float(t))
        beliefs.append(belief)
    chosen, done = branch_and_bound(mu, k, C + 0.5, NODES)
    if not done:
        chosen = fill_levels(np.array(mu), np.array(k), C + 1).tolist()
    level = [int(k[i]) if chosen[i] else 0 for i in range(K)]
    left = C - sum(level)
    if policy.reward and left > 0:
        left = _pad(C, level, left, chosen, mu, beliefs)
    if left > 0:
        _probe(C, level, left, chosen, mu, beliefs, policy.reward)
    return np.array([amount * policy.step for amount in level])


def _pad(
    C: int, level: list[int], left: int, chosen: list[bool], mu: list[float], beliefs: list[Belief]
) -> int:
    """Do what ``CsbTs.pad`` does."""
    target, gain = [0] * len(level), [0.0] * len(level)
    for i, belief in enumerate(beliefs):
        if chosen[i]:
            target[i] = C + 2 - belief.first_above(REST)[1]
            if target[i] > level[i]:
                gain[i] = mu[i] * belief.share_up_to(C + 1 - level[i]) / (target[i] - level[i])
    return raise_worthiest(level, left, target, gain)


def _probe(
    C: int,
    level: list[int],
    left: int,
    chosen: list[bool],
    mu: list[float],
    beliefs: list[Belief],
    reward: bool,
) -> None:
    """Do what ``CsbTs.probe`` does."""
    best, worth = -1, WORTH
    for i, belief in enumerate(beliefs):
        if not chosen[i]:
            served = belief.share_up_to(C + 1 - left if reward else left)
            value = mu[i] * (1.0 - served if reward else served)
            if value > worth:
                best, worth = i, value
    if best >= 0:
        level[best] = left


def update_ts(policy: CsbTs, allocation: Array, observed: Array, rng: Generator) -> None:
    """Do what ``policy.update(allocation, observed, rng)`` does: the arms do not touch each other."""
    level = np.minimum((allocation / policy.step + 0.5).astype(np.int64), policy.C)
    place = policy.C + 1 - level if policy.reward else level
    counts = level > 0 if policy.reward else np.ones(policy.K, dtype=np.bool_)
    positive = counts & (observed > 0.0)
    beyond = counts & (place > policy.edge)
    policy.P += positive
    policy.F += counts & ~positive & ~beyond
    for i in np.flatnonzero(positive).tolist():
        policy.S[i] += int(coin(observed[i], rng))
    for i in np.flatnonzero(beyond).tolist():
        if positive[i]:
            policy.narrow(i, place[i])
        else:
            policy.count_zero(i, place[i])


def select_su(policy: CsbSu, rng: Generator) -> Array:
    """Return what ``policy.select(rng)`` does, with the same draws."""
    if policy.K <= FEW:
        return policy.select(rng)
    return give_top(rng.beta(policy.S, policy.F), policy.L, policy.Q / policy.L)


def update_su(policy: CsbSu, allocation: Array, observed: Array, rng: Generator) -> None:
    """Do what ``policy.update(allocation, observed, rng)`` does."""
    if policy.K <= FEW or ((observed > 0.0) & (observed < 1.0)).any():  # coins are tossed one by one
        policy.update(allocation, observed, rng)
        return
    L, served, lost = policy.L, count_served(allocation), some_positive(allocation, observed)
    known = np.ones(policy.K, dtype=np.bool_) if served > L else allocation <= 0.0  # surely not served
    if served == L and lost:
        policy.F += np.where(known, 0.0, policy.Z)
        known = np.ones(policy.K, dtype=np.bool_)
    elif served == L:
        policy.Z += ~known
    policy.S += known * observed
    policy.F += known * (1.0 - observed)
    if lost and served <= L:
        policy.L = max(1, served - 1)
        policy.Z[:] = 0.0
        policy.theta_hat[:] = policy.Q / policy.L


QUICK: dict[
    type, tuple[Callable[[Any, Generator], Array], Callable[[Any, Array, Array, Generator], None]]
] = {
    CsbTs: (select_ts, update_ts),
    CsbSu: (select_su, update_su),
}
