"""USS-PD-TS: contextual cascades by Thompson sampling of pairwise disagreements. Not in the thesis."""

import math

import numpy as np

from weakfeedback.contextual.disagreement import PairRegressions
from weakfeedback.kernels.linalg import copy_block, inner, logistic, times
from weakfeedback.validate import number


class UssPdTs(PairRegressions):
    """USS-PD with a random draw of each pair's disagreement, given the context, instead of an upper bound.

    Stops at the first arm whose drawn disagreement with every later arm is below the extra cost of going there:

        I_t = min { i : C_j - C_i > mu(z_ij) for all j > i } or K,       mu(z) = 1 / (1 + exp(-z)),
        z_ij = phi.theta_ij + scale |phi| g_ij,   |phi|^2 = phi' H_ij^-1 phi,   g_ij standard normal,

    with theta_ij the maximiser of the log-likelihood of the pair's disagreements minus ridge |theta|^2 / 2, over the
    rounds in which arms i < j were both seen, and H_ij minus the Hessian of that sum there: the normal approximation
    of the posterior whose prior is normal with variance 1 / ridge.

    There is no forced phase, and no kappa, sigma or delta to choose. No regret bound is known. On the
    synthetic problems of the thesis's chapter 3 its regret was a third to three fifths of that of USS-PD.

    Estimates, history and wrong input are as in ``UssPd``, but there is a full fit whenever n has grown by the factor
    (1 + tolerance / 2) since the last one, to keep H up to date. With ``tolerance=0.5`` the measured widths |phi| were
    within 12 % of the exact ones, 2 % on average; the largest errors were with heavy tails.

    Draws: in ``select``, for i = 0, 1, ... until an arm is accepted: one ``rng.standard_normal()`` for every
    j = i + 1, i + 2, ... up to the first one that rejects stopping at i.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    dimension : integer >= 1
        The length of phi.
    ridge : number >= 1e-12
        The precision of the prior of each parameter. The labels of classifiers are nearly determined by the context, so
        their disagreements need large parameters: a ridge of 0.1 shrinks those too much.
    scale : number >= 0
        Width of the draws; 0 is greedy. With such a weak prior the normal approximation is too wide where disagreements
        are nearly determined by the context; half of it explores enough.
    tolerance, per_pair, keep
        As in ``UssPd``.

    References
    ----------
    O. Chapelle, L. Li, An empirical evaluation of Thompson sampling, NeurIPS 2011, for one logistic regression.

    Examples
    --------
    Two tests that differ only where x > 0: there the second is worth its cost.

    >>> rng = np.random.default_rng(7)
    >>> policy = UssPdTs(costs=[0.1, 0.4], dimension=2)
    >>> pulls = np.zeros((2, 2), dtype=int)
    >>> for x in rng.choice([-1.0, 1.0], size=1000):
    ...     phi = np.array([0.7, 0.7 * x])
    ...     arm = policy.select(phi, rng)
    ...     policy.update(phi, arm, np.array([0, int(x > 0)])[: arm + 1], rng)
    ...     pulls[int(x > 0), arm] += 1
    >>> pulls.tolist()
    [[438, 46], [7, 509]]
    """

    in_short = "USS-PD with random draws instead of upper bounds"
    explained = (
        "USS-PD-TS compares the extra cost with a random draw from what is plausible at this context, so "
        "that doubtful stages are tried now and then; the largest disagreement named is that of 97.5 % of"
        " such draws."
    )
    delay_safe = True
    recostable = True  # nothing that is learned depends on the costs: C may change
    keeps_history = True

    def __init__(self, costs, dimension, ridge=0.001, scale=0.5, tolerance=0.5, per_pair=False, keep=None):
        super().__init__(costs, dimension, tolerance, ridge, per_pair, keep)
        self.scale = number("scale", scale, at_least=0.0)
        self.growth = 1.0 + 12.5 * self.tau
        self.ready = True  # the prior already gives an estimate
        for k in range(self.d):
            self.Q[:, k, k] = 1.0 / self.ridge
        self.V = np.zeros((0, self.d, self.d))  # the width comes from Q
        self.W = np.zeros((0, self.d, self.d))

    def select(self, phi, rng):
        """Return the arm I_t at which to stop the cascade for this context."""
        self.check(phi, 0)
        x = np.empty(self.d)
        v = np.empty(self.d)
        for i in range(self.K - 1):
            if self.is_best(i, phi, x, v, rng):
                return i
        return self.K - 1

    def is_best(self, i, phi, x, v, rng):
        """Whether C_j - C_i exceeds a draw of the disagreement for every later arm j."""
        for j in range(i + 1, self.K):
            m = self.pair[i, j]
            copy_block(phi, self.begins[self.slot[m]], x)
            times(self.Q[m], x, v)
            width = math.sqrt(max(inner(x, v), 0.0))
            z = inner(x, self.theta[m]) + self.scale * width * rng.standard_normal()
            if self.C[j] - self.C[i] <= logistic(z):
                return False
        return True

    def is_over(self):
        """There is no forced phase."""
        return True

    def gather(self, s):
        """Count the feedback s."""
        for m in range(self.M):
            if self.stop[m] <= self.arms[s]:
                self.n[m] += 1

    def rebuild(self, s):
        """There is no V to invert."""
