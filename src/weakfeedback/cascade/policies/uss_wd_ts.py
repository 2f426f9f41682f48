"""USS-WD-TS: USS-WD while the answers of a round take two values, USS-TS from the first round with three on."""

from typing import Any

import numpy as np

from weakfeedback.cascade.policies.uss_ts import UssTs
from weakfeedback.cascade.policies.uss_wd import UssWd


class UssWdTs(UssWd):
    """What a live cascade plays by default: nobody tells it beforehand how many labels its stages have.

    It plays `UssWd` until the outputs of a round take three values, and `UssTs` from then on. The patterns that USS-WD
    has counted tell how often each pair differed, so USS-TS begins with everything that was seen.

    Draws: those of USS-WD, later those of USS-TS. ``update`` draws nothing.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0, K at most 8
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> policy = UssWdTs(costs=[0.05, 0.10, 0.40])
    >>> policy.update(2, np.array([0, 1, 1]), rng)
    >>> policy.many, policy.S[0, 1].item()
    (False, 1.0)
    >>> policy.update(2, np.array([0, 1, 2]), rng)
    >>> policy.many, policy.S[0, 1].item(), policy.S[1, 2].item(), policy.F[1, 2].item()
    (True, 3.0, 2.0, 2.0)
    """

    in_short = "USS-WD for two labels, USS-TS for more"
    explained = (
        "The extra cost is compared with a random draw from what is known about the disagreements, so that a round now "
        "and then goes further than the estimate suggests, to learn."
    )
    binary_outputs = False

    select_by_law: Any = UssWd.select
    count_pattern: Any = UssWd.update_pairs
    select_by_pairs: Any = UssTs.select
    is_best: Any = UssTs.is_best
    count_pairs: Any = UssTs.update_pairs
    count: Any = UssTs.count

    def __init__(self, costs):
        super().__init__(costs)
        self.many = False  # whether the outputs of a round took three values
        self.S = np.ones((self.K, self.K))  # of USS-TS, from then on
        self.F = np.ones((self.K, self.K))

    @staticmethod
    def plays_now(fields):
        """Return the name of what is played, from the fields of the policy."""
        return "USS-TS" if fields["many"] else "USS-WD"

    def select(self, rng):
        """Return the arm I_t at which to stop the cascade in this round."""
        if self.many:
            return self.select_by_pairs(rng)
        return self.select_by_law(rng)

    def update_pairs(self, arm, differ, rng):
        """Learn which pairs i < j <= arm disagreed."""
        if not self.many and self.takes_three(arm, differ):
            self.go_over()
        if self.many:
            self.count_pairs(arm, differ, rng)
        else:
            self.count_pattern(arm, differ, rng)

    def go_over(self):
        """Count the pairs of all rounds so far, from their patterns."""
        seen = np.zeros(2 * self.n.size)  # how often each pattern was seen
        for node in range(1, self.n.size):
            last = node & 1 if node > 1 else 0
            seen[2 * node + last] = self.n[node] - self.d[node]
            seen[2 * node + 1 - last] = self.d[node]
        for j in range(1, self.K):
            rounds = 0.0
            for node in range(1 << j, 2 << j):
                rounds += seen[node]
            for i in range(j):
                differed = self.disagreement(i, j, seen)
                self.S[i, j] += differed
                self.F[i, j] += rounds - differed
        self.many = True
