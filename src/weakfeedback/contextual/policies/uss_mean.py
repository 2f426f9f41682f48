"""USS-mean with contexts: how far answers move, by linear regression on the context. Not in the thesis."""

import math
from typing import Any

import numpy as np

from weakfeedback.contextual.arguments import LEAST_RIDGE, layout, pairs, per_pair_fits
from weakfeedback.contextual.glm import Regressions
from weakfeedback.kernels.linalg import inner, shrink, times
from weakfeedback.validate import MOST_INPUTS, cumulative_costs, limited, number

FLAT = 1e-6  # the ridge of the constant: the mean of all movements is learned at once


class UssMean:
    """USS-mean of the cascade with a linear regression of the movement of each pair on the context.

    The movement of two answers is min(((a - b) / scale)^2, 1). If every later stage is calibrated given the earlier
    ones and the context, what it improves at a context is its mean movement there. Stops at the first arm from which,
    by a random draw, no later arm moves the answer by more than it costs:

        I_t = min { i : C_j - C_i > s_ij for all j > i } or K,
        s_ij ~ Normal( x.theta_ij, max(r_ij / n, 1 / n^2) |x|^2 ),   x = (1, phi),   |x|^2 = x' (R + sum x x')^-1 x,

    with theta_ij the ridge regression of the n movements of the pair that were seen (R has ``ridge`` for every feature,
    and nearly 0 for the constant), and r_ij its sum of squared residuals; a pair that was seen less than twice is never
    below its cost. So at first all contexts have the mean movement of the pair, and features count as they prove
    themselves. Without features this is `weakfeedback.cascade.UssMean`, draw by draw. Movements are learned as they
    are, and no observation is kept: O(K^2 d + K d^2) numbers. Where the answers are labels the movement is 1 if they
    differ (with scale 1). No regret bound is known.

    Draws: in ``select``, for i = 0, 1, ... until an arm is accepted (at most to K-2), one ``rng.standard_normal()`` for
    every j = i+1, ..., K-1 in this order, all of them even after one has failed. ``update`` draws nothing.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``, where an error of size ``scale`` costs 1.
    dimension : integer >= 1
        The length of phi.
    scale : number > 0
        The size of an error that costs 1. Larger errors cost no more.
    ridge : number >= 1e-12
        The precision of the prior of each feature's parameter: 1 is the weight of an observation of norm 1. With less,
        the first rounds with many features are guesses.
    per_pair : bool
        Whether phi holds one block of features per pair (``PairFeatures``).

    Examples
    --------
    A second stage that moves the answer by .6 where x > 0, squared .36, and costs .2 more:

    >>> rng = np.random.default_rng(7)
    >>> policy = UssMean(costs=[0.1, 0.3], dimension=2)
    >>> pulls = np.zeros((2, 2), dtype=int)
    >>> for x in rng.choice([-1.0, 1.0], size=1000):
    ...     phi = np.array([0.7, 0.7 * x])
    ...     arm = policy.select(phi, rng)
    ...     policy.update(phi, arm, np.array([2.0, 2.6 if x > 0 else 2.0])[: arm + 1], rng)
    ...     pulls[int(x > 0), arm] += 1
    >>> pulls.tolist()
    [[482, 2], [3, 513]]
    """

    in_short = "USS-mean, linear regression on the context"
    explained = (
        "USS-mean compares the extra cost with a random draw from what is plausible of the mean movement of the "
        "answers at this context, so that doubtful stages are tried now and then; the largest one named is that of "
        "97.5 % of such draws."
    )
    delay_safe = True
    recostable = True  # nothing that is learned depends on the costs: C may change
    numeric_outputs = True  # outputs may be real numbers

    check: Any = Regressions.check

    def __init__(self, costs, dimension, scale=1.0, ridge=1.0, per_pair=False):
        self.C = cumulative_costs(costs)
        self.K = self.C.size
        first, stop = pairs(self.K)
        self.dimension = limited("dimension", dimension, 1, MOST_INPUTS)
        per_pair_fits(per_pair, self.dimension, len(first))
        self.scale = number("scale", scale, above=0.0)
        self.d = self.dimension // max(len(first), 1) if per_pair else self.dimension
        self.first = np.array(first, dtype=np.int64)  # regression m is of the pair (first[m], stop[m])
        self.stop = np.array(stop, dtype=np.int64)
        self.slot, self.reach, self.begins = layout(self.stop, self.d, per_pair)
        self.n = np.zeros(len(first))  # n[m]: how often the pair was compared
        self.theta = np.zeros((len(first), self.d + 1))  # of the constant, then of the features
        self.left = np.zeros(len(first))  # r: squared residuals, and ridge |theta|^2
        self.W = np.zeros((self.reach.size, self.d + 1, self.d + 1))  # the inverse of R + sum x x'
        self.W[:, 0, 0] = 1.0 / FLAT
        for k in range(1, self.d + 1):
            self.W[:, k, k] = 1.0 / number("ridge", ridge, at_least=LEAST_RIDGE)

    def select(self, phi, rng):
        """Return the arm I_t at which to stop the cascade for this context."""
        self.check(phi, 0)
        m = 0  # pairs are in the order of this walk
        for i in range(self.K - 1):
            if self.is_best(m, i, phi, rng):
                return i
            m += self.K - 1 - i
        return self.K - 1

    def is_best(self, m, i, phi, rng):
        """Whether C_j - C_i > s_ij for every later arm j, with s_ij drawn; pair m is that of i and i + 1."""
        best = True
        for j in range(i + 1, self.K):
            z = rng.standard_normal()
            if self.n[m] < 2.0 or self.C[j] - self.C[i] <= self.movement(m, phi, z):
                best = False  # no early exit: as in USS-TS, all pairs are drawn
            m += 1
        return best

    def movement(self, m, phi, z):
        """Return the mean movement of a pair at a context plus z standard errors."""
        x = self.part(phi, self.slot[m])
        v = np.empty(self.d + 1)
        times(self.W[self.slot[m]], x, v)
        n = self.n[m]
        variance = max(self.left[m] / n, 1.0 / (n * n))
        return inner(x, self.theta[m]) + z * math.sqrt(variance * max(inner(x, v), 0.0))

    def update(self, phi, arm, outputs, rng):
        """Learn from the answers of arms 0, ..., arm."""
        self.check(phi, arm)
        if outputs.size != arm + 1:
            raise ValueError("outputs must be those of arms 0 to arm")
        moved = np.zeros((self.K, self.K))
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                apart = (outputs[i] - outputs[j]) / self.scale
                moved[i, j] = min(apart * apart, 1.0)
        self.update_pairs(phi, arm, moved, rng)

    def update_pairs(self, phi, arm, moved, rng):
        """Learn how far the answers of pairs i < j <= arm lie apart: numbers from 0 to 1, or whether they differ."""
        self.check(phi, arm)
        v = np.empty(self.d + 1)
        for m in range(self.stop.size):
            if self.stop[m] <= arm:
                x = self.part(phi, self.slot[m])
                times(self.W[self.slot[m]], x, v)
                self.absorb(m, 1.0 * moved[self.first[m], self.stop[m]], x, v)
        for s in range(self.reach.size):
            if self.reach[s] <= arm:
                shrink(self.W[s], 1.0, self.part(phi, s), v)

    def part(self, phi, s):
        """Return x: the constant, and the features that the regressions with matrix s look at."""
        x = np.empty(self.d + 1)
        x[0] = 1.0
        for k in range(self.d):
            x[k + 1] = phi[self.begins[s] + k]
        return x

    def absorb(self, m, moved, x, v):
        """Add one movement to regression m, exactly; v is W x."""
        wide = 1.0 + inner(x, v)
        off = moved - inner(x, self.theta[m])
        for k in range(x.size):
            self.theta[m, k] += off / wide * v[k]
        self.left[m] += off * off / wide
        self.n[m] += 1.0
