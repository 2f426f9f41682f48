"""The comparator of chapter 3 that sees the truth (thesis, section 3.5.1)."""

from typing import ClassVar

import numpy as np

from weakfeedback.contextual.arguments import LEAST_RIDGE, forced_rounds, kept
from weakfeedback.contextual.glm import Regressions, confidence
from weakfeedback.kernels.linalg import inner, logistic
from weakfeedback.validate import MOST_INPUTS, cumulative_costs, fraction, limited, number


class Supervised(Regressions):
    """USS-PD with error rates instead of disagreements: it learns whether each label it sees was right.

    After the forced phase of ``UssPd``, stops at the first arm for which no later arm is worth its extra cost, by an
    upper bound U on its own error rate and a lower bound L on that of the later arm:

        I_t = min { i : C_j - C_i > U_i - L_j for all j > i } or K,
        U_i = mu( phi.theta_i + alpha |phi| ),   L_j = mu( phi.theta_j - alpha |phi| )

    with one logistic regression per arm on whether its label was wrong, over the rounds that reached the arm, and
    alpha, |phi| as in ``UssPd``. The thesis says only that error rates replace disagreements; the bounds, which make
    the rule optimistic about later arms, are our interpretation.

    ``sees_truth = True``: the simulation passes the truth to ``update``. There are no ``update_pairs``, because
    disagreements say nothing about errors here. History and wrong input are as in ``UssPd``.

    Draws: none.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    dimension : integer >= 1
        The length of phi.
    delta, sigma, kappa, forced, tolerance, ridge, forced_limit, keep
        As in ``UssPd``.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, section 3.5.1.

    Examples
    --------
    The first test is wrong where x > 0, the second is never wrong.

    >>> rng = np.random.default_rng(7)
    >>> policy = Supervised(costs=[0.1, 0.4], dimension=2)
    >>> pulls = np.zeros((2, 2), dtype=int)
    >>> for x in rng.choice([-1.0, 1.0], size=1000):
    ...     phi = np.array([0.7, 0.7 * x])
    ...     arm = policy.select(phi, rng)
    ...     policy.update(phi, arm, np.array([0, int(x > 0)])[: arm + 1], rng, truth=int(x > 0))
    ...     pulls[int(x > 0), arm] += 1
    >>> pulls.tolist()
    [[482, 2], [0, 516]]
    """

    in_short = "USS-PD that sees which labels were right"
    sample_options: ClassVar = {"forced": 30}
    delay_safe = True
    keeps_history = True
    sees_truth = True

    def __init__(
        self,
        costs,
        dimension,
        delta=0.05,
        sigma=0.1,
        kappa=0.25,
        forced=None,
        tolerance=0.5,
        ridge=1e-3,
        forced_limit=500,
        keep=None,
    ):
        self.C = cumulative_costs(costs)
        dimension = limited("dimension", dimension, 1, MOST_INPUTS)
        tau = number("tolerance", tolerance, above=0.0) / 25.0
        ridge = number("ridge", ridge, at_least=LEAST_RIDGE)
        super().__init__(self.C.size, dimension, range(self.C.size), tau, ridge, False, kept(keep))
        self.delta = fraction("delta", delta)
        self.sigma = number("sigma", sigma, above=0.0)
        self.kappa = number("kappa", kappa, above=0.0)
        self.adaptive, self.forced = forced_rounds(forced, forced_limit)

    def select(self, phi, rng):
        """Return the arm I_t at which to stop the cascade for this context."""
        self.check(phi, 0)
        if not self.ready:
            return self.K - 1
        low = np.empty(self.K)
        high = np.empty(self.K)
        x = np.empty(self.d)
        v = np.empty(self.d)
        alpha = confidence(self.t + self.gone, self.d, self.K, self.delta, self.sigma, self.kappa)
        for i in range(self.K):
            bonus = alpha * self.width(phi, self.slot[i], x, v)
            centre = inner(phi, self.theta[i])
            low[i] = logistic(centre - bonus)
            high[i] = logistic(centre + bonus)
        for i in range(self.K - 1):
            best = True
            for j in range(i + 1, self.K):
                if self.C[j] - self.C[i] <= high[i] - low[j]:
                    best = False
            if best:
                return i
        return self.K - 1

    def update(self, phi, arm, outputs, rng, truth):
        """Learn which of the outputs of arms 0, ..., arm were wrong."""
        if outputs.size != arm + 1:
            raise ValueError("outputs must be those of arms 0 to arm")
        self.check(phi, arm)
        s = self.remember(phi, arm)
        for i in range(arm + 1):
            if outputs[i] != truth:
                self.label[s, i] = 1
        self.gather(s)
        start = not self.ready and (self.t >= self.forced or (self.adaptive and self.covers(1.0)))
        if self.ready or start:
            self.estimate(s, start)
            self.trim()
