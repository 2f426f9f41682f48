"""USS-PD: contextual cascades by optimistic pairwise disagreements (thesis, section 3.4)."""

from typing import ClassVar

from weakfeedback.contextual.arguments import forced_rounds
from weakfeedback.contextual.disagreement import PairwiseDisagreement
from weakfeedback.contextual.glm import confidence


class UssPd(PairwiseDisagreement):
    """Upper confidence bounds on the disagreements of pairs, given the context, by logistic regression.

    Plays the last arm in a forced phase. Then stops at the first arm whose disagreement with every later arm, by an
    upper bound, is below the extra cost of going there:

        I_t = min { i : C_j - C_i > p_ij for all j > i } or K,
        p_ij = mu( phi.theta_ij + alpha |phi| ),   |phi|^2 = phi' V_ij^-1 phi,   mu(z) = 1 / (1 + exp(-z)),
        alpha = (2 sigma / kappa) sqrt( d'/2 log(1 + 2 t / d') + log(K^2 / (2 delta)) )

    with t the number of feedbacks so far (t - 1 in the thesis), V_ij the sum of phi phi' over the rounds in which arms
    i < j were both seen, and theta_ij the maximum-likelihood estimate of their disagreement over those rounds.

    Deviations from the thesis, and why: ``docs/algorithms/uss-pd.md``. ``forced=None`` ends the forced phase when the
    smallest eigenvalue of every V_ij is at least 1, at the latest after ``forced_limit`` rounds. The estimate follows
    the exact one at a bounded cost (see ``weakfeedback.contextual.glm``). kappa and sigma are tuning parameters that
    scale the bonus: the guarantee holds for neither default.

    All observations are kept, O(t d') numbers, unless ``keep`` sets a limit (see ``weakfeedback.contextual.history``);
    counts, V_ij and t always cover all observations. A context that has the wrong length or is not finite raises
    ``ValueError`` and changes nothing; so do outputs of a wrong number of arms.

    Draws: none.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    dimension : integer >= 1
        The length of phi.
    delta : number between 0 and 1
        The confidence is 1 - delta.
    sigma, kappa : numbers > 0
        See above.
    forced : integer >= 1, or None
        The number of forced rounds m.
    tolerance : number > 0
        Errors of probabilities are of the order of (tolerance / 25)^2.
    ridge : number >= 1e-12
    forced_limit : integer >= 1
        Maximum length of the forced phase with ``forced=None``.
    per_pair : bool
        Whether phi holds one block of features per pair (``PairFeatures``). d' is then the length of a block.
    keep : integer >= 100, or None
        Maximum number of observations kept individually after the forced phase. Older ones are summarised by the
        quadratic expansion of their likelihood at the estimate of that time. None keeps all.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm USS-PD.
    A. Verma, M. K. Hanawal, C. Szepesvári, V. Saligrama, Online algorithm for unsupervised sequential selection with
    contextual information, NeurIPS 2020.

    Examples
    --------
    Two tests that differ only where x > 0: there the second is worth its cost.

    >>> import numpy as np
    >>> rng = np.random.default_rng(7)
    >>> policy = UssPd(costs=[0.1, 0.4], dimension=2)
    >>> pulls = np.zeros((2, 2), dtype=int)
    >>> for x in rng.choice([-1.0, 1.0], size=1000):
    ...     phi = np.array([0.7, 0.7 * x])
    ...     arm = policy.select(phi, rng)
    ...     policy.update(phi, arm, np.array([0, int(x > 0)])[: arm + 1], rng)
    ...     pulls[int(x > 0), arm] += 1
    >>> pulls.tolist()
    [[482, 2], [0, 516]]
    """

    in_short = "upper confidence bounds, logistic regression on the context"
    explained = "USS-PD compares the extra cost with the largest plausible disagreement at this context."
    sample_options: ClassVar = {"forced": 30}
    delay_safe = True
    recostable = True  # nothing that is learned depends on the costs: C may change
    keeps_history = True

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
        per_pair=False,
        keep=None,
    ):
        super().__init__(costs, dimension, tolerance, ridge, delta, sigma, kappa, per_pair, keep)
        self.adaptive, self.forced = forced_rounds(forced, forced_limit)

    def is_over(self):
        """Whether the forced phase ends with this feedback."""
        return self.t >= self.forced or (self.adaptive and self.covers(1.0))

    def bonus(self, m):
        """Return the factor alpha, the same for all pairs."""
        return confidence(self.t + self.gone, self.d, self.K, self.delta, self.sigma, self.kappa)
