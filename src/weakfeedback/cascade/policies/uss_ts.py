"""USS-TS: Thompson sampling for unsupervised sequential selection (thesis, section 2.5)."""

import numpy as np

from weakfeedback.validate import cumulative_costs


class UssTs:
    """Thompson sampling for a cascade whose errors are never observed.

    Stops at the first arm whose disagreement with every later arm, drawn from its posterior, is below the extra cost of
    going there:

        I_t = min { i : C_j - C_i > p_ij for all j > i } or K,   p_ij ~ Beta(S_ij, F_ij)

    where S_ij - 1 disagreements and F_ij - 1 agreements of arms i < j were seen. Each pair is drawn
    afresh and independently, so the draws of one round need not be consistent with each other; the
    theorems of the thesis assume that they are (transitivity).

    Draws: in ``select``, for i = 0, 1, ... until an arm is accepted (at most to K-2), one
    ``rng.beta(S[i, j], F[i, j])`` for every j = i+1, ..., K-1 in this order, all of them even after one
    has failed. ``update`` draws nothing.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm USS-TS.

    Examples
    --------
    Two tests that never disagree: the second is not worth its cost.

    >>> rng = np.random.default_rng(7)
    >>> policy = UssTs(costs=[0.05, 0.40])
    >>> pulls = [0, 0]
    >>> for _ in range(1000):
    ...     arm = policy.select(rng)
    ...     policy.update(arm, np.ones(arm + 1), rng)
    ...     pulls[arm] += 1
    >>> pulls
    [985, 15]
    """

    in_short = "Thompson sampling of disagreements"
    explained = (
        "USS-TS compares the extra cost with a random draw from what is known about the disagreement, so it "
        "now and then goes further than the estimate suggests, to learn."
    )
    delay_safe = True
    recostable = True  # nothing that is learned depends on the costs: C may change

    def __init__(self, costs):
        self.C = cumulative_costs(costs)
        self.K = self.C.size
        self.S = np.ones((self.K, self.K))  # S[i, j] - 1 disagreements of arms i < j
        self.F = np.ones((self.K, self.K))  # F[i, j] - 1 agreements

    def select(self, rng):
        """Return the arm I_t at which to stop the cascade in this round."""
        for i in range(self.K - 1):
            if self.is_best(i, rng):
                return i
        return self.K - 1

    def is_best(self, i, rng):
        """Whether C_j - C_i > p_ij for every later arm j, with p_ij drawn from its posterior."""
        best = True
        for j in range(i + 1, self.K):
            p = rng.beta(self.S[i, j], self.F[i, j])
            if self.C[j] - self.C[i] <= p:
                best = False  # line 6 draws for every j: no early exit
        return best

    def update(self, arm, outputs, rng):
        """Learn from the outputs of arms 0, ..., arm."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                self.count(i, j, outputs[i] != outputs[j])

    def update_pairs(self, arm, differ, rng):
        """Learn which pairs i < j <= arm disagreed (line 10)."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                self.count(i, j, differ[i, j])

    def count(self, i, j, differed):
        """Add what was seen of one pair."""
        if differed:
            self.S[i, j] += 1.0
        else:
            self.F[i, j] += 1.0
