"""Q-USS: a cascade that occasionally buys a label and therefore needs no weak dominance."""

from typing import ClassVar

import numpy as np

from weakfeedback.kernels.loops import disagreements
from weakfeedback.validate import cumulative_costs, number

TRUST = 5.0  # weight of the prior: as if so many labels had said that the later arm is right


class QUss:
    """Thompson sampling for a cascade that may ask for the truth, at a price, where its arms disagree.

    Disagreement alone cannot distinguish an arm that corrects errors from one that makes them. Where arms i < j differ,
    a label says which of them is right: j in A_ij cases, i in B_ij, neither in E_ij (only with more than two labels).
    What j saves is then known without weak dominance:

        gamma_i - gamma_j = p_ij m_ij (2 theta_ij - 1),
        p_ij ~ Beta(1 + D_ij, 1 + N_ij - D_ij),   theta_ij ~ Beta(6 + A_ij, 1 + B_ij),
        m_ij ~ Beta(1 + A_ij + B_ij, E_ij), which is 1 while E_ij = 0

    with D_ij disagreements in N_ij comparisons, which are free. The prior of theta favours the later arm, as if five
    labels had shown that it is right: weak dominance is plausible. A sample of the arm is min { i : C_j - C_i > p_ij
    m_ij (2 theta_ij - 1) for all j > i } or K. In every round:

        I1, I2 = two samples, with the same p_ij
        I1 = I2:  play it, no label
        I1 != I2 and (labels + 1) price <= cap price^(1/3) t^(2/3):  play max(I1, I2); where the outputs are not all
                  equal, buy the label and update A, B, E of every pair that disagrees
        otherwise:  the same walk with posterior means
        D, N of all pairs up to the arm played are updated always

    Both samples have the same p_ij, so they differ only where a label can help. Where free comparisons settle the
    question, nothing is bought: a first arm that passes all its tests is optimal whatever the truth is.

    No regret bound is known. What is spent on labels stays below cap price^(1/3) t^(2/3) by construction. Where weak
    dominance holds, labels are bought without need. A label is bought for the sample just seen and cannot be bought
    later, so only one decision may be open at a time (``delay_safe = False``).

    Draws: in ``select``, ``rng.beta(1 + D, 1 + N - D)`` at [i, j] for all i < j, row by row; then two samples, one
    after the other. Each: for i = 0, 1, ... until an arm is accepted (at most to K-2), for every j = i+1, ..., K-1,
    even after one has failed: ``rng.beta(6 + A, 1 + B)`` and, only if E > 0, ``rng.beta(1 + A + B, E)`` at [i, j].
    Nothing else draws.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    price : number >= 0
        The price of a label, where an error costs 1. A simulation adds it to the regret for each label.
    cap : number >= 0
        Limits what may be spent: see above. 0 buys nothing, unless the price is also 0.

    Examples
    --------
    The second arm adds errors of its own: it differs from the first in every third round and is always wrong there.

    >>> rng = np.random.default_rng(7)
    >>> policy = QUss(costs=[0.05, 0.25], price=1.0)
    >>> for t in range(3000):
    ...     arm = policy.select(rng)
    ...     outputs = [1, int(t % 3 > 0)][: arm + 1]
    ...     if policy.wants_label(arm, outputs, rng):
    ...         policy.learn_label(arm, outputs, 1)
    ...     policy.update(arm, outputs, rng)
    >>> arm, policy.labels, policy.B[0, 1].item()
    (0, 6, 6.0)
    """

    in_short = "USS-TS that may buy the truth, at a price"
    explained = (
        "Q-USS looks at which of two stages that differ was right by the labels bought, and not only at "
        "how often they differ."
    )
    sample_options: ClassVar = {"price": 1.0}
    delay_safe = False
    scratch = ("buying",)  # what select may write: a note for wants_label, nothing that is learned

    def __init__(self, costs, price, cap=0.2):
        self.C = cumulative_costs(costs)
        self.K = self.C.size
        self.price = number("price", price, at_least=0.0)
        self.cap = number("cap", cap, at_least=0.0)
        self.t = 1  # the round: one more than the feedbacks so far
        self.labels = 0  # bought so far
        self.D = np.zeros((self.K, self.K))  # D[i, j] disagreements of arms i < j
        self.N = np.zeros((self.K, self.K))  # N[i, j] comparisons
        self.A = np.zeros((self.K, self.K))  # A[i, j] labels by which j was right and i wrong
        self.B = np.zeros((self.K, self.K))  # B[i, j] labels by which i was right and j wrong
        self.E = np.zeros((self.K, self.K))  # E[i, j] labels by which both were wrong, and different
        self.buying = False  # whether the last decision was made to buy a label
        self.differ = np.zeros((self.K, self.K), dtype=np.bool_)  # buffer for the disagreements of a round
        self.right = np.zeros(self.K, dtype=np.bool_)  # buffer: which arms are right by the label

    def select(self, rng):
        """Return the arm at which to stop the cascade in this round."""
        p = np.empty((self.K, self.K))
        for i in range(self.K):
            for j in range(i + 1, self.K):
                p[i, j] = rng.beta(1.0 + self.D[i, j], 1.0 + self.N[i, j] - self.D[i, j])
        first = self.sample(p, rng)
        second = self.sample(p, rng)
        self.buying = first != second and self.affordable()
        if first == second or self.buying:
            return max(first, second)
        return self.best_guess()

    def sample(self, p, rng):
        """Return the arm that is best by a draw from the posterior, given the disagreements p."""
        for i in range(self.K - 1):
            best = True
            for j in range(i + 1, self.K):
                A = self.A[i, j]
                B = self.B[i, j]
                theta = rng.beta(1.0 + TRUST + A, 1.0 + B)
                m = 1.0
                if self.E[i, j] > 0.0:
                    m = rng.beta(1.0 + A + B, self.E[i, j])
                if self.C[j] - self.C[i] <= p[i, j] * m * (2.0 * theta - 1.0):
                    best = False  # all pairs are drawn: no early exit
            if best:
                return i
        return self.K - 1

    def affordable(self):
        """Whether (labels + 1) price <= cap price^(1/3) t^(2/3), cubed and divided by the price."""
        count = self.labels + 1.0
        spent = count * self.price
        t = float(self.t)
        return spent * spent * count <= self.cap * self.cap * self.cap * (t * t)

    def best_guess(self):
        """Return the arm that is best by the means of the posterior."""
        for i in range(self.K - 1):
            best = True
            for j in range(i + 1, self.K):
                labelled = self.A[i, j] + self.B[i, j]
                p = (1.0 + self.D[i, j]) / (2.0 + self.N[i, j])
                theta = (1.0 + TRUST + self.A[i, j]) / (2.0 + TRUST + labelled)
                m = (1.0 + labelled) / (1.0 + labelled + self.E[i, j])
                if self.C[j] - self.C[i] <= p * m * (2.0 * theta - 1.0):
                    best = False
            if best:
                return i
        return self.K - 1

    def wants_label(self, arm, outputs, rng):
        """Whether to buy the truth of this round, whose outputs of arms 0, ..., arm were seen."""
        for k in range(1, arm + 1):
            if outputs[k] != outputs[0]:
                return self.buying
        return False

    def wants_label_pairs(self, arm, differ, rng):
        """Whether to buy the truth of this round, whose pairs i < j <= arm disagreed or not."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                if differ[i, j]:
                    return self.buying
        return False

    def learn_label(self, arm, outputs, truth):
        """Learn the truth of the round, which was bought."""
        disagreements(outputs, arm, self.differ)
        for k in range(arm + 1):
            self.right[k] = outputs[k] == truth
        self.learn_label_pairs(arm, self.differ, self.right)

    def learn_label_pairs(self, arm, differ, right):
        """Learn which of the arms 0, ..., arm were right; a label says nothing about pairs that agree."""
        self.labels += 1
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                if differ[i, j]:
                    if right[i] == right[j]:
                        self.E[i, j] += 1.0
                    elif right[j]:
                        self.A[i, j] += 1.0
                    else:
                        self.B[i, j] += 1.0

    def update(self, arm, outputs, rng):
        """Learn from the outputs of arms 0, ..., arm."""
        disagreements(outputs, arm, self.differ)
        self.update_pairs(arm, self.differ, rng)

    def update_pairs(self, arm, differ, rng):
        """Learn which pairs i < j <= arm disagreed."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                if differ[i, j]:
                    self.D[i, j] += 1.0
                self.N[i, j] += 1.0
        self.t += 1
