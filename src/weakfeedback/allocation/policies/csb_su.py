"""CSB-SU: one threshold for all arms, nothing else known (thesis, section 4.4.1)."""

import numpy as np

from weakfeedback.allocation.common import coin, count_served, draw_means, give_top, some_positive
from weakfeedback.validate import MOST_ARMS, limited, number


class CsbSu:
    """Linear search for a common threshold from Q/K upwards, with Thompson sampling of the means; anytime.

    In every round the L arms with the largest draws get Q/L each:

        A_t = top-L of mu_i ~ Beta(S_i, F_i),   a_i = Q/L for i in A_t

    starting with L = K. A loss in A_t proves that Q/L is too small: L falls by one. S_i - 1 losses and F_i - 1 rounds
    without a loss were seen of arm i where it was certainly not served. Zeros seen at Q/L wait in Z_i; a loss proves
    that those of the arms in A_t are genuine (the printed algorithm forgets the others).

    Deviations from the printed algorithm: L is never below 1 (no problem has a threshold above Q). A loss at Q/l
    gives L = min(L, l - 1), which is the same without delay; late feedback at an l > L is a true sample of every arm.

    Draws: in ``select`` one ``rng.beta(S[i], F[i])`` for each arm in index order. ``update`` draws one ``rng.random()``
    for each arm whose S and F it changes with a loss strictly between 0 and 1, in index order (none for 0/1).

    Parameters
    ----------
    arms, budget
        K and Q.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm CSB-SU.

    Examples
    --------
    Ten places, a budget of 3, losses at every place that gets less than .5: six can be served.

    >>> from weakfeedback.allocation import AllocationProblem
    >>> problem = AllocationProblem(np.linspace(0.9, 0.45, 10), [0.5] * 10, budget=3.0)
    >>> policy, rng, loss = CsbSu(10, 3.0), np.random.default_rng(0), np.zeros(10)
    >>> for _ in range(10):
    ...     problem.world().draw(loss, rng)
    ...     allocation = policy.select(rng)
    ...     policy.update(allocation, np.where(allocation < 0.5, loss, 0.0), rng)
    >>> policy.L
    6
    """

    in_short = "common threshold by linear search; anytime"
    delay_safe = True
    made_for = ("loss",)

    def __init__(self, arms, budget):
        self.K = limited("arms", arms, 1, MOST_ARMS)
        self.Q = number("budget", budget, above=0.0)
        self.L = self.K  # number of arms served
        self.S = np.ones(self.K)  # S[i] - 1 losses of arm i, where it was certainly not served
        self.F = np.ones(self.K)  # F[i] - 1 rounds without a loss there
        self.Z = np.zeros(self.K)  # rounds without a loss at Q/L
        self.theta_hat = np.full(self.K, self.Q / self.K)

    def select(self, rng):
        """Return the allocation: Q/L for the L arms with the largest draws (lines 3 to 5)."""
        return give_top(draw_means(self.S, self.F, rng), self.L, self.Q / self.L)

    def update(self, allocation, observed, rng):
        """Learn from the losses that were seen under this allocation (lines 6 to 11)."""
        S, F, Z, L = self.S, self.F, self.Z, self.L
        served = count_served(allocation)
        lost = some_positive(allocation, observed)
        for i in range(Z.size):
            if allocation[i] <= 0.0 or served > L:  # certainly not served
                bit = coin(observed[i], rng)
                S[i] += bit
                F[i] += 1.0 - bit
            elif served == L and lost:  # the zeros turn out to be genuine
                bit = coin(observed[i], rng)
                S[i] += bit
                F[i] += 1.0 - bit + Z[i]
            elif served == L:
                Z[i] += 1.0
        if lost and served <= L:
            self.L = max(1, served - 1)
            for i in range(Z.size):
                Z[i] = 0.0
                self.theta_hat[i] = self.Q / self.L
