"""CSB-ISO: Thompson sampling of monotone responses, for effects that are gradual; no bound known."""

from typing import ClassVar

import numpy as np

from weakfeedback.allocation.common import coin
from weakfeedback.kernels.separable import split_levels
from weakfeedback.validate import MOST_ARMS, limited, number, one_of

FALL = 5e-4  # a level is a choice if the curve has fallen by more since the last one
MOST_LEVELS = 1000
PRIOR = 0.5  # ones and zeros of a level or block before anything is seen


class CsbIso:
    """Draw a falling response curve for every arm, and split the budget so that the drawn curves are lowest; anytime.

    The mean loss of arm i is m_i(a), any function of what it gets that never rises (rewards: never falls; they are
    losses of 1 - X). What is seen is what is incurred, in every round and at every arm; the threshold model of the
    thesis is the special case of a step down to 0. Amounts are levels 0, ..., C of Q/C each. Per arm and level, n1
    losses and n0 rounds without were seen.

    Every round draws a curve for every arm, by one of two ways with equal probability:

        levels: y_l ~ Beta(1/2 + n1_l, 1/2 + n0_l) at level 0 and at every level that was given; neighbours that are
                out of order are pooled, weighted by 1 + n
        blocks: the estimates n1 / n are pooled first, one y ~ Beta(1/2 + n1, 1/2 + n0) per block, pooled again

    Between two such levels the curve falls at one place, uniform at random; above the last one it falls once, to a
    uniform share of the last value. The allocation is the best split for these curves, by dynamic programming over
    levels. What is left goes to the arm whose curve is then highest.

    No regret bound is known. On true thresholds it has two to three times the regret of CSB-TS. It keeps no estimate of
    thresholds, so ``found_at`` and ``really_equivalent`` say nothing about it.

    Feedback may arrive late: only counts are kept.

    Draws: in ``select`` for each arm in index order ``rng.random()`` (below .5: levels); ``rng.beta`` by
    increasing level; ``rng.random()`` for the place in each gap between neighbours that differ by more than one
    level and in value; above the last one ``rng.random()`` for the share and one for the place. ``update`` draws one
    ``rng.random()`` for each recorded outcome strictly between 0 and 1, in index order.

    Parameters
    ----------
    arms, budget
        K and Q.
    levels : integer from 1 to 1000
        C.
    setting : "loss" or "reward"

    References
    ----------
    A. Verma, M. K. Hanawal, A. Rajkumar, R. Sankaran, Censored semi-bandits, NeurIPS 2019 (the problem).
    R. E. Barlow et al., Statistical inference under order restrictions, Wiley 1972 (pooling).

    Examples
    --------
    Two of three places calm down slowly; the third needs .5 at once.

    >>> from weakfeedback.allocation import AllocationProblem
    >>> amount = np.linspace(0.0, 1.0, 21)
    >>> problem = AllocationProblem(
    ...     curves=[0.9 * np.exp(-3.0 * amount), 0.5 * np.exp(-amount), np.where(amount < 0.5, 0.4, 0.0)], budget=1.0
    ... )
    >>> policy, rng, hidden, seen = CsbIso(3, 1.0, levels=20), np.random.default_rng(0), np.zeros(3), np.zeros(3)
    >>> world, given = problem.world(), np.zeros(3)
    >>> for _ in range(2000):
    ...     world.draw(hidden, rng)
    ...     allocation = policy.select(rng)
    ...     world.show(allocation, hidden, seen)
    ...     policy.update(allocation, seen, rng)
    ...     given += allocation / 2000
    >>> given.round(1).tolist(), problem.optimal_allocation.round(2).tolist()
    ([0.4, 0.1, 0.5], [0.5, 0.0, 0.5])
    """

    in_short = "for gradual effects: draws monotone response curves; anytime"
    sample_problem = "different"
    delay_safe = True
    response = "gradual"  # other policies take thresholds
    made_for = ("loss", "reward")
    takes_gaps = True  # NaN among the observed outcomes says that there is no report
    before: ClassVar = {"prior": 1.0}  # what a state without this field stands for

    def __init__(self, arms, budget, levels=100, setting="loss"):
        self.K = limited("arms", arms, 1, MOST_ARMS)
        self.Q = number("budget", budget, above=0.0)
        self.levels = limited("levels", levels, 1, MOST_LEVELS)  # C
        self.reward = one_of("setting", setting, ("loss", "reward")) == "reward"
        self.step = self.Q / self.levels
        self.prior = PRIOR
        self.n1 = np.zeros((self.K, self.levels + 1), dtype=np.int64)  # losses by arm and level
        self.n0 = np.zeros((self.K, self.levels + 1), dtype=np.int64)  # rounds without a loss

    def select(self, rng):
        """Return the allocation of this round."""
        start = np.zeros(self.K + 1, dtype=np.int64)
        level = np.empty(self.K * (self.levels + 1), dtype=np.int64)
        gain = np.empty(self.K * (self.levels + 1))
        first = np.empty(self.K)  # the drawn curve at 0
        for i in range(self.K):
            n = self.draw(i, start[i], level, gain, rng)
            first[i] = gain[start[i]]
            m = start[i]  # the breakpoints become choices, in place
            last = 0.0
            for j in range(start[i] + 1, start[i] + n):
                fallen = first[i] - gain[j]
                if fallen > last + FALL:
                    level[m] = level[j]
                    gain[m] = fallen
                    last = fallen
                    m += 1
            start[i + 1] = m
        chosen = split_levels(start, level, gain, self.levels)
        allocation = np.zeros(self.K)
        left = self.levels
        worst = 0
        most = -1.0
        for i in range(self.K):
            remaining = first[i]
            if chosen[i] >= 0:
                allocation[i] = level[chosen[i]] * self.step
                left -= level[chosen[i]]
                remaining -= gain[chosen[i]]
            if remaining > most:
                most = remaining
                worst = i
        if left > 0:
            got = level[chosen[worst]] if chosen[worst] >= 0 else 0
            allocation[worst] = (got + left) * self.step
        return allocation

    def draw(self, i, at, level, value, rng):
        """Write the breakpoints of a drawn curve of arm i, from index ``at`` on; return how many there are.

        A breakpoint is a level and the value from there on. The first one is level 0.
        """
        C = self.levels
        places = np.empty(C + 1, dtype=np.int64)
        n = 0
        for k in range(C + 1):
            if k == 0 or self.n1[i, k] + self.n0[i, k] > 0:
                places[n] = k
                n += 1
        y = np.empty(n)
        weight = np.empty(n)
        size = np.empty(n, dtype=np.int64)
        blocks = n
        if rng.random() < 0.5:
            for j in range(n):
                ones = self.n1[i, places[j]]
                zeros = self.n0[i, places[j]]
                y[j] = rng.beta(self.prior + ones, self.prior + zeros)
                weight[j] = 2.0 * self.prior + ones + zeros
                size[j] = 1
        else:
            for j in range(n):
                weight[j] = self.n1[i, places[j]] + self.n0[i, places[j]]
                y[j] = self.n1[i, places[j]] / weight[j] if weight[j] > 0.0 else 1.0
                size[j] = 1
            blocks = pool_rising(y, weight, size, n)
            j = 0
            for b in range(blocks):
                ones = 0
                zeros = 0
                for _ in range(size[b]):
                    ones += self.n1[i, places[j]]
                    zeros += self.n0[i, places[j]]
                    j += 1
                y[b] = rng.beta(self.prior + ones, self.prior + zeros)
                weight[b] = 2.0 * self.prior + ones + zeros
        blocks = pool_rising(y, weight, size, blocks)
        level[at] = 0
        value[at] = y[0]
        m = at + 1
        j = 0  # the last place of the blocks so far
        for b in range(1, blocks):
            j += size[b - 1]
            gap = places[j] - places[j - 1]
            if y[b] < y[b - 1]:
                level[m] = places[j - 1] + (1 if gap == 1 else 1 + int(rng.random() * gap))
                value[m] = y[b]
                m += 1
        last = places[n - 1]
        if last < C:
            value[m] = y[blocks - 1] * rng.random()
            level[m] = last + 1 + int(rng.random() * (C - last))
            m += 1
        return m - at

    def update(self, allocation, observed, rng):
        """Record what was seen under this allocation."""
        for i in range(self.K):
            if observed[i] != observed[i]:
                continue  # NaN: no report for this arm
            level = min(int(allocation[i] / self.step + 0.5), self.levels)
            if (coin(observed[i], rng) > 0.0) != self.reward:
                self.n1[i, level] += 1
            else:
                self.n0[i, level] += 1

    def response_of(self, arm):
        """Return the amounts of all levels, and for each the ones and zeros of the block that it is in.

        For reports: levels that were not given belong to the block below. Ones are losses, or rewards.
        """
        given = [k for k in range(self.levels + 1) if k == 0 or self.n1[arm, k] + self.n0[arm, k] > 0]
        weight = np.array([float(self.n1[arm, k] + self.n0[arm, k]) for k in given])
        y = np.array([self.n1[arm, k] / w if w > 0.0 else 1.0 for k, w in zip(given, weight)])
        size = np.ones(len(given), dtype=np.int64)
        blocks = pool_rising(y, weight, size, len(given))
        ones, zeros = np.zeros(self.levels + 1), np.zeros(self.levels + 1)
        ends = np.cumsum(size[:blocks])
        for b in range(blocks):
            inside = given[ends[b] - size[b] : ends[b]]
            upto = given[ends[b]] if b + 1 < blocks else self.levels + 1
            ones[inside[0] : upto] = self.n1[arm, inside].sum()
            zeros[inside[0] : upto] = self.n0[arm, inside].sum()
        amounts = np.arange(self.levels + 1) * self.step
        return (amounts, zeros, ones) if self.reward else (amounts, ones, zeros)


def pool_rising(y, weight, size, n):
    """Pool neighbours of the first n blocks where y rises, in place; return how many blocks are left.

    The result is the falling sequence with the least weighted squares of differences.

    >>> y, weight, size = np.array([0.5, 0.2, 0.4, 0.1]), np.array([1.0, 3.0, 1.0, 2.0]), np.ones(4, dtype=int)
    >>> n = pool_rising(y, weight, size, 4)
    >>> y[:n].tolist(), size[:n].tolist()
    ([0.5, 0.25, 0.1], [1, 2, 1])
    """
    top = 0
    for j in range(n):
        y[top] = y[j]
        weight[top] = weight[j]
        size[top] = size[j]
        while top > 0 and y[top - 1] < y[top]:
            total = weight[top - 1] + weight[top]
            y[top - 1] = (weight[top - 1] * y[top - 1] + weight[top] * y[top]) / total
            weight[top - 1] = total
            size[top - 1] += size[top]
            top -= 1
        top += 1
    return top
