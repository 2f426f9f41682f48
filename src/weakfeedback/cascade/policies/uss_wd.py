"""USS-WD: Thompson sampling from a posterior of all outputs together, conditioned on weak dominance, for two labels.

USS-WD-TS goes over to USS-TS in the first round whose answers take three values.
"""

from typing import Any

import numpy as np

from weakfeedback.cascade.policies.uss_ts import UssTs
from weakfeedback.kernels.loops import disagreements
from weakfeedback.validate import cumulative_costs, integer

MOST_ARMS = 8  # 2^(K-1) - 1 probabilities are kept, and drawn in every round


class UssWd:
    """Thompson sampling for a cascade with two labels and weak dominance whose errors are never observed.

    `UssTs` draws the disagreement of every pair independently, as if arms 0 and 2 could differ while neither of them
    differs from arm 1. With two labels the outputs of the first k arms form a pattern s: which of them differ from the
    first. For every pattern this policy keeps the probability that the next arm differs from the last one,

        q_ks = P(Y^{k+1} != Y^k | s) ~ Beta(1/2 + d_ks, 3/2 + n_ks - d_ks),

    after it differed d_ks times in n_ks. A draw of all of them is a distribution over all patterns and gives all p_ij
    at once. The arm is the one that weak dominance makes optimal under the law that was drawn,

        i = min { i : C_j - C_i > p_ij for all j > i } or K,

    if i also passes against the arms before it: C_i - C_l <= p_li for all l < i. If it does not, no cascade with weak
    dominance has this law, and another law is drawn, at most ``redraws`` in all; the last one decides. So this is
    Thompson sampling with the posterior conditioned on weak dominance: laws that weak dominance excludes are not
    explored.

    A round that stops at I_t updates one pattern of every length k < I_t. No regret bound is known. It takes
    2^(K-1) - 1 Beta draws per law (7 for K = 4, 127 for K = 8, the maximum), and mostly one law per round. By the
    prior an arm differs from the one before it in a quarter of the rounds; the prior has the weight of two observations
    of each pattern.

    A pattern is a node of a binary tree in heap order: the root is node 1, the children of a node are
    ``2 node`` and ``2 node + 1``, the last bit tells whether the last arm differs from arm 0.

    Draws: in ``select``, whole laws, one after the other: one ``rng.beta(0.5 + d[node], 1.5 + n[node] - d[node])`` for
    node = 1, ..., 2^(K-1) - 1 in this order. ``update`` draws nothing.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0, K at most 8
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    redraws : integer >= 1
        How many laws are drawn in a round at most. With 1 nothing is conditioned on weak dominance.

    Examples
    --------
    Two tests that never disagree: the second is not worth its cost.

    >>> rng = np.random.default_rng(7)
    >>> policy = UssWd(costs=[0.05, 0.40])
    >>> pulls = [0, 0]
    >>> for _ in range(1000):
    ...     arm = policy.select(rng)
    ...     policy.update(arm, np.ones(arm + 1), rng)
    ...     pulls[arm] += 1
    >>> pulls
    [989, 11]
    """

    in_short = "Thompson sampling of the law of two labels"
    explained = (
        "USS-WD compares the extra cost with a random draw from what is known about all stages "
        "together, so it now and then goes further than the estimate suggests, to learn."
    )
    delay_safe = True
    recostable = True  # nothing that is learned depends on the costs: C may change
    binary_outputs = True  # the outputs of a round take at most two values

    def __init__(self, costs, redraws=20):
        self.C = cumulative_costs(costs)
        self.K = self.C.size
        if self.K > MOST_ARMS:
            raise ValueError(
                f"costs must be at most {MOST_ARMS} numbers, got {self.K}: the patterns are 2^(K-1)"
            )
        self.redraws = integer("redraws", redraws, low=1)
        self.d = np.zeros(2 ** (self.K - 1))  # d[node]: how often the next arm differed from the last one
        self.n = np.zeros(2 ** (self.K - 1))  # n[node]: how often the next arm was seen
        self.differ = np.zeros((self.K, self.K), dtype=np.bool_)  # buffer for the disagreements of a round

    def select(self, rng):
        """Return the arm I_t at which to stop the cascade in this round."""
        arm = self.K - 1
        for _ in range(self.redraws):
            weight = self.draw_law(rng)
            arm = 0
            while not self.in_higher_set(arm, weight):
                arm += 1
            if self.in_lower_set(arm, weight):
                break
        return arm

    def draw_law(self, rng):
        """Draw every q from its posterior; return the probability of every pattern of arms 0, ..., k, for all k."""
        weight = np.empty(2 * self.n.size)
        weight[0] = 0.0  # no node
        weight[1] = 1.0
        for node in range(1, self.n.size):
            q = rng.beta(0.5 + self.d[node], 1.5 + self.n[node] - self.d[node])
            last = node & 1 if node > 1 else 0
            weight[2 * node + last] = weight[node] * (1.0 - q)
            weight[2 * node + 1 - last] = weight[node] * q
        return weight

    def in_higher_set(self, i, weight):
        """Whether C_j - C_i > p_ij for every later arm j, under the law that was drawn; the last arm passes."""
        for j in range(i + 1, self.K):
            if self.C[j] - self.C[i] <= self.disagreement(i, j, weight):
                return False
        return True

    def in_lower_set(self, i, weight):
        """Whether C_i - C_l <= p_li for every earlier arm l, under the law that was drawn."""
        for earlier in range(i):
            if self.C[i] - self.C[earlier] > self.disagreement(earlier, i, weight):
                return False
        return True

    def disagreement(self, i, j, weight):
        """Return p_ij, i < j, under the law that was drawn."""
        p = 0.0
        for node in range(1 << j, 2 << j):  # the patterns of arms 0, ..., j
            first = (node >> (j - i)) & 1 if i > 0 else 0
            if first != node & 1:
                p += weight[node]
        return p

    def update(self, arm, outputs, rng):
        """Learn from the outputs of arms 0, ..., arm."""
        disagreements(outputs, arm, self.differ)
        self.update_pairs(arm, self.differ, rng)

    def update_pairs(self, arm, differ, rng):
        """Learn which pairs i < j <= arm disagreed: the first row gives the pattern, the others must agree with it."""
        if self.takes_three(arm, differ):
            raise ValueError("outputs must take at most two values in a round for USS-WD, got three")
        node = 1
        last = 0
        for k in range(arm):
            bit = 1 if differ[0, k + 1] else 0
            self.n[node] += 1.0
            if bit != last:
                self.d[node] += 1.0
            node = 2 * node + bit
            last = bit

    def takes_three(self, arm, differ):
        """Whether the outputs of arms 0, ..., arm take three values."""
        for i in range(1, arm + 1):
            for j in range(i + 1, arm + 1):
                if differ[i, j] != (differ[0, i] != differ[0, j]):
                    return True
        return False


class UssTsJoint(UssWd):
    """USS-WD with one law per round, under the name of before: saved states and journals with it go on unchanged."""

    def __init__(self, costs):
        super().__init__(costs, redraws=1)


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
            self.count_pairs(arm, differ, None)  # nothing is drawn, and live objects see that it is not
        else:
            self.count_pattern(arm, differ, None)

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
