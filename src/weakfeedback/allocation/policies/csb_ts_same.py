"""CSB-TS-same: Thompson sampling from the exact posterior of one threshold and all means; no bound known."""

import numpy as np

from weakfeedback.allocation.common import coin, count_served, give_top
from weakfeedback.allocation.posterior import NEGLIGIBLE, fall
from weakfeedback.validate import MOST_ARMS, limited, number, one_of


class CsbTsSame:
    """Draw the number of arms that can be served, and a mean for every arm, from their posterior; anytime, no
    parameter.

    All arms have one threshold. Only M = floor(Q / theta) matters, the number of arms that can be served, so that
    theta = Q/M is one of Q, Q/2, ..., Q/K; all are equally likely at first, and the means uniform. Of arm i, P_i
    positive outcomes were seen, S_i of them (after binarisation) were ones, and F_i(M) zeros are genuine under M: those
    of rounds in which it got nothing or Q/L with L > M (losses), Q/L with L <= M (rewards). A loss at Q/L proves M < L,
    a reward M >= L. On the support

        Pr(M) ~ prod_i B(1 + P_i, 1 + F_i(M)),   mu_i | M ~ Beta(1 + S_i, 1 + F_i(M) + P_i - S_i)

    exactly. Every round draws M, then all mu_i, and gives Q/M to the M arms with the largest mu_i.

    No regret bound is known. If the thresholds differ, every arm gets what the arm with the largest threshold needs,
    and regret is linear. It keeps no estimate, so ``found_at`` and ``really_equivalent`` say nothing about it. A loss
    at Q, which no threshold explains, leaves M = 1.

    Feedback may arrive late: P, S, the support and the zeros by L are sums and extremes over what was given and seen,
    in any order.

    The candidates are kept in the order in which F grows, t = K + 1 - M for losses and t = M for rewards; zeros seen
    at place y are genuine for t > y, a positive outcome there proves t > y.

    Draws: in ``select`` one ``rng.random()``, which inverts the distribution of M from the largest candidate down
    (losses) or from the smallest up (rewards); then ``rng.beta(1 + S_i, 1 + F_i(M) + P_i - S_i)`` for each arm in
    index order. ``update`` draws one ``rng.random()`` for each recorded outcome strictly between 0 and 1, in index
    order.

    Parameters
    ----------
    arms, budget
        K and Q.
    setting : "loss" or "reward"

    References
    ----------
    A. Verma, M. K. Hanawal, A. Rajkumar, R. Sankaran, Censored semi-bandits, NeurIPS 2019 (the problem).
    W. R. Thompson, On the likelihood that one unknown probability exceeds another, Biometrika 1933 (the idea).

    Examples
    --------
    Ten places, a budget of 3, losses at every place that gets less than .5: six can be served.

    >>> from weakfeedback.allocation import AllocationProblem
    >>> problem = AllocationProblem(np.linspace(0.9, 0.45, 10), [0.5] * 10, budget=3.0)
    >>> policy, rng, loss = CsbTsSame(10, 3.0), np.random.default_rng(0), np.zeros(10)
    >>> for _ in range(100):
    ...     problem.world().draw(loss, rng)
    ...     allocation = policy.select(rng)
    ...     policy.update(allocation, np.where(allocation < 0.5, loss, 0.0), rng)
    >>> (allocation > 0).sum().item(), allocation.max().item()
    (6, 0.5)
    """

    in_short = "CSB-TS for a common threshold; anytime, no parameter"
    delay_safe = True
    made_for = ("loss", "reward")
    takes_gaps = True  # NaN among the observed outcomes says that there is no report

    def __init__(self, arms, budget, setting="loss"):
        self.K = limited("arms", arms, 1, MOST_ARMS)
        self.Q = number("budget", budget, above=0.0)
        self.reward = one_of("setting", setting, ("loss", "reward")) == "reward"
        self.P = np.zeros(self.K, dtype=np.int64)  # positive outcomes
        self.S = np.zeros(self.K, dtype=np.int64)  # sum of the binarised outcomes
        self.F = np.zeros(self.K, dtype=np.int64)  # zeros that are genuine on the whole support
        self.edge = 0  # the support is t = edge + 1, ..., K
        self.zeros = np.zeros((self.K, self.K), dtype=np.int64)  # other zeros, by place and arm

    def select(self, rng):
        """Return the allocation of this round: Q/M for the M arms with the largest draws."""
        total, last = self.weigh()
        target = rng.random() * total[last]
        t = self.edge + 1
        while t < last and total[t] <= target:
            t += 1
        mu = np.empty(self.K)
        for i in range(self.K):
            zeros = self.F[i]
            for y in range(self.edge + 1, t):
                zeros += self.zeros[y, i]
            mu[i] = rng.beta(1.0 + self.S[i], 1.0 + zeros + self.P[i] - self.S[i])
        M = t if self.reward else self.K + 1 - t
        return give_top(mu, M, self.Q / M)

    def weigh(self):
        """Return the weight of all candidates up to each t, and the last t that counts."""
        seen = self.F.copy()
        total = np.zeros(self.K + 1)
        weight = 1.0  # relative to the first candidate's, which is the largest
        mass = 0.0
        t = self.edge
        while t < self.K and (self.K - t) * weight > NEGLIGIBLE * mass:
            t += 1
            mass += weight
            total[t] = mass
            if t < self.K:
                for i in range(self.K):
                    if self.zeros[t, i] > 0:
                        weight *= fall(float(self.P[i]), float(seen[i]), float(self.zeros[t, i]))
                        seen[i] += self.zeros[t, i]
        return total, t

    def update(self, allocation, observed, rng):
        """Record the outcomes that were seen under this allocation."""
        served = count_served(allocation)
        for i in range(self.K):
            if observed[i] != observed[i]:
                continue  # NaN: no report for this arm
            place = 0
            if allocation[i] > 0.0:
                place = served - 1 if self.reward else self.K + 1 - served
            elif self.reward:
                continue  # nothing can be earned there
            if observed[i] > 0.0:
                self.P[i] += 1
                self.S[i] += int(coin(observed[i], rng))
                self.narrow(min(place, self.K - 1))
            elif place <= self.edge:
                self.F[i] += 1
            elif place < self.K:  # at Q every candidate is served: no loss could be seen
                self.zeros[place, i] += 1

    def narrow(self, place):
        """Record that the threshold lies beyond this place: zeros up to it are genuine."""
        while self.edge < place:
            self.edge += 1
            for i in range(self.K):
                self.F[i] += self.zeros[self.edge, i]
                self.zeros[self.edge, i] = 0

    def belief(self, arm):
        """Return what is known about an arm: amounts, increasing, probability, and parameters a, b.

        The threshold is ``amounts[j, 0] = amounts[j, 1]`` with ``probability[j]``, and the mean is then
        Beta(a[j], b[j]). For reports.
        """
        total, last = self.weigh()
        probability = np.zeros(self.K)  # of t = 1, ..., K
        probability[self.edge : last] = np.diff(total[self.edge : last + 1]) / total[last]
        zeros = self.F[arm] + np.append(0, np.cumsum(self.zeros[1:, arm]))
        if self.reward:
            probability, zeros = probability[::-1], zeros[::-1]
        a = np.full(self.K, 1.0 + self.S[arm])
        amounts = np.repeat(self.Q / np.arange(self.K, 0, -1), 2).reshape(self.K, 2)
        return amounts, probability, a, 1.0 + zeros + self.P[arm] - self.S[arm]
