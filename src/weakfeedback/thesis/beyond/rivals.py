"""What the promise is compared with on recorded answers, in its own setting. For comparison only.

The two offline rules are ours, written in the manner of what the papers on C3PO and BARGAIN describe: neither is their
code, and BARGAIN itself samples adaptively and would need fewer calls of calibration.
"""

import math

import numpy as np

from weakfeedback.adaptive.arguments import stage_costs
from weakfeedback.cascade import UssTs
from weakfeedback.routing.tails import above
from weakfeedback.validate import integer, number

STOP = -1
STEPS = 31  # thresholds tried of each model


class OfflineRule:
    """Calls all models for the first requests, then fixes one cheap model and one threshold of its score for ever.

    Of the thresholds tried of a model, from the surest answers on, one is allowed if

        empirical (C3PO):     differing answers above it <= eps n
        tested (BARGAIN):     P(Binomial(n, eps) <= differing answers above it) <= delta / number of cheap models;
                              the first that fails ends the sequence

    and the allowed one with the lowest cost c_k + (1 - share above it) c_R is taken; none: the reference answers
    everything. A score that is missing counts as lowest. The last stage is the reference. Draws: none.

    Parameters
    ----------
    costs : K numbers >= 0
    agree : number between 0 and 1
    sample : integer >= 1
        n, the number of requests that all models answer.
    delta : number >= 0
        0: the empirical rule.

    Examples
    --------
    >>> rule = OfflineRule([1, 20], agree=0.95, sample=100)
    >>> for t in range(100):
    ...     hard = float(t % 4 == 0)
    ...     rule.update(1, np.array([hard, 0.0]), np.array([1.0 - hard, 1.0]), None, None)
    >>> rule.model, float(rule.limit), rule.next_stage(0, [0], [0.2], None), rule.next_stage(0, [0], [1.0], None)
    (0, 1.0, 1, -1)
    """

    def __init__(self, costs, agree, sample=100, delta=0.0):
        self.c = stage_costs(costs)
        self.K = self.c.size
        self.eps = 1.0 - number("agree", agree, above=0.0)
        self.sample = integer("sample", sample, 1)
        self.delta = number("delta", delta, at_least=0.0)
        self.t = 0
        self.score = np.zeros((self.K, self.sample))
        self.D = np.zeros((self.K, self.sample))
        self.model = STOP
        self.limit = 0.0

    def next_stage(self, k, outputs, scores, rng):
        """Return the stage to call after stage k (-1: before the first), or -1."""
        last = self.K - 1
        if self.t < self.sample:
            return k + 1 if k < last else STOP
        if k == last:
            return STOP
        if k < 0:
            return self.model if self.model >= 0 else last
        return STOP if scores[k] >= self.limit or self.limit == -math.inf else last

    def update(self, arm, outputs, scores, chances, rng):
        """Keep a request of the sample; choose once it is complete."""
        if self.t < self.sample:
            for k in range(self.K - 1):
                self.score[k, self.t] = -math.inf if math.isnan(scores[k]) else scores[k]
                self.D[k, self.t] = 1.0 if outputs[k] != outputs[self.K - 1] else 0.0
            self.t += 1
            if self.t == self.sample:
                self.choose()

    def choose(self):
        """Fix the model and its threshold."""
        n = self.sample
        best = self.c[self.K - 1]
        for k in range(self.K - 1):
            ranked = np.sort(self.score[k])
            for step in range(1, STEPS + 1):
                limit = ranked[n - math.ceil(step * n / STEPS)]
                share = 0.0
                differing = 0.0
                for i in range(n):
                    if self.score[k, i] >= limit:
                        share += 1.0 / n
                        differing += self.D[k, i]
                if not self.is_allowed(differing):
                    if self.delta > 0.0:
                        break
                    continue
                cost = self.c[k] + (1.0 - share) * self.c[self.K - 1]
                if cost < best:
                    best = cost
                    self.model = k
                    self.limit = limit

    def is_allowed(self, differing):
        """Whether so few answers of the sample differ that the rule may be used."""
        if self.delta == 0.0:
            return differing <= self.eps * self.sample
        if differing >= self.sample:
            return False
        # P(Binomial(n, eps) <= x) = P(p > eps) for p ~ Beta(x + 1, n - x)
        return above(differing + 1.0, self.sample - differing, self.eps) <= self.delta / (self.K - 1)


class StopBefore(UssTs):
    """USS-TS, which chooses the stage before the first answer, where others look at the answers."""

    def __init__(self, costs):
        super().__init__(np.cumsum(stage_costs(costs)))
        self.arm = 0

    def go_on(self, k, outputs, scores, rng):
        """Whether stage k lies before the chosen one."""
        if k == 0:
            self.arm = self.select(rng)
        return bool(k < self.arm)

    def update(self, arm, outputs, scores, chances, rng):  # type: ignore[override]  # what this setting shows
        """Learn which pairs disagreed."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                self.count(i, j, outputs[i] != outputs[j])
