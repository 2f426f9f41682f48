"""USS-PD-lambdaI: USS-PD with a ridge instead of the forced phase (thesis, appendix of chapter 3)."""

import math

from weakfeedback.contextual.disagreement import PairwiseDisagreement
from weakfeedback.contextual.glm import confidence
from weakfeedback.validate import number, one_of


class UssPdRidge(PairwiseDisagreement):
    """USS-PD whose matrices start at lambda I, so that only the first round is forced.

    The rule of ``UssPd`` with V_ij = lambda I + the sum of phi phi', and theta_ij the maximiser of the
    log-likelihood minus lambda |theta|^2 / 2. The factor before |phi| is, with n_ij observations of the pair,

        "alpha":  (2 sigma / kappa) sqrt( d'/2 log(1 + 2 t / d') + log(K^2 / (2 delta)) )
        "beta":   (2 sigma / kappa) sqrt( d'/2 log(1 + n_ij / (d' lambda)) + log(K^2 / (2 delta)) ) + 2 sqrt(lambda) S

    Deviations from the thesis, and why: ``docs/algorithms/uss-pd-ridge.md``. The algorithm avoids the forced phase, but
    its guarantee does not.

    Estimates, history and wrong input are as in ``UssPd``.

    Draws: none.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    dimension : integer >= 1
        The length of phi.
    ridge : number >= 1e-12
        lambda.
    bonus : "alpha" or "beta"
    norm_bound : number >= 0
        S, at least the norm of every theta_ij; used by "beta".
    delta, sigma, kappa, tolerance, per_pair, keep
        As in ``UssPd``.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm USS-PD-lambdaI.

    Examples
    --------
    Two tests that differ only where x > 0: there the second is worth its cost.

    >>> import numpy as np
    >>> rng = np.random.default_rng(7)
    >>> policy = UssPdRidge(costs=[0.1, 0.4], dimension=2)
    >>> pulls = np.zeros((2, 2), dtype=int)
    >>> for x in rng.choice([-1.0, 1.0], size=1000):
    ...     phi = np.array([0.7, 0.7 * x])
    ...     arm = policy.select(phi, rng)
    ...     policy.update(phi, arm, np.array([0, int(x > 0)])[: arm + 1], rng)
    ...     pulls[int(x > 0), arm] += 1
    >>> pulls.tolist()
    [[473, 11], [0, 516]]
    """

    in_short = "USS-PD with only one forced round"
    explained = (
        "USS-PD-lambdaI compares the extra cost with the largest plausible disagreement at this context."
    )
    delay_safe = True
    keeps_history = True

    def __init__(
        self,
        costs,
        dimension,
        ridge=1.0,
        bonus="alpha",
        norm_bound=1.0,
        delta=0.05,
        sigma=0.1,
        kappa=0.25,
        tolerance=0.5,
        per_pair=False,
        keep=None,
    ):
        super().__init__(costs, dimension, tolerance, ridge, delta, sigma, kappa, per_pair, keep)
        one_of("bonus", bonus, ("alpha", "beta"))
        self.by_pair = bonus == "beta"
        self.norm_bound = number("norm_bound", norm_bound, at_least=0.0)

    def is_over(self):
        """Return True: the forced phase ends with the first feedback (line 2)."""
        return True

    def bonus(self, m):
        """Return the factor alpha, or beta of pair m."""
        if not self.by_pair:
            return confidence(self.t + self.gone, self.d, self.K, self.delta, self.sigma, self.kappa)
        # beta is alpha with n / (2 lambda) instead of t, plus the bias of the ridge
        effective = self.n[m] / (2.0 * self.ridge)
        alpha = confidence(effective, self.d, self.K, self.delta, self.sigma, self.kappa)
        return alpha + 2.0 * math.sqrt(self.ridge) * self.norm_bound
