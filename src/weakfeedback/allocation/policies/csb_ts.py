"""CSB-TS: Thompson sampling from the exact posterior of threshold and mean, for losses and rewards; no bound known."""

import math
from typing import ClassVar

import numpy as np

from weakfeedback.allocation.common import SLACK, coin
from weakfeedback.allocation.posterior import cheapest_join, fall, first_above, lay_out, share_up_to
from weakfeedback.kernels.knapsack import pack_rounded
from weakfeedback.validate import MOST_ARMS, limited, number, one_of

MOST_LEVELS = 10**8  # products of two levels must be exact
NODES = 3000  # nodes of the knapsack's search tree, before dynamic programming over the levels takes over
LEAST = 1e-300  # smallest budget: a millionth of it is still a normal number
WORTH = 1e-12  # an arm is probed only if its expected gain is larger
WORTH_BEFORE = 1e-6  # ... in the first edition
EDITION = 2  # of the rules; what was saved under the first ones goes on under them
REST = 0.001 * (1.0 + SLACK)  # what the .999-quantile leaves; the slack settles exact ties
LEVELS = 256  # maximum number of levels with zeros kept per arm
MOSTLY = 0.9 * (1.0 + SLACK)  # of the level up to which losses are padded
# more zeros, of less probability, where none should have been censored: a surprise
QUIET, UNLIKELY = (20, 1e-6)
MIDDLE = 0.5 * (1.0 + SLACK)  # of the median; the slack settles exact ties
POOL = 30  # real-valued outcomes: the pooled prior weighs at most as much as this many outcomes of an arm


class CsbTs:
    """Draw a threshold and a mean for every arm from their posterior, and serve what the budget can pay for; anytime.

    Amounts are levels 0, ..., C of one ``step`` each. The threshold theta_i of arm i is one of 1, ..., C + 1 (C + 1:
    the budget cannot serve it), its mean lies in [0, 1]; both are uniform at first. Of arm i, P positive outcomes were
    seen, S of them (after binarisation) were ones, and F_i(k) zeros are genuine if theta_i = k: those at levels < k
    (losses), at levels >= k (rewards). Positive outcomes bound the support: a loss at l proves theta_i > l, a reward
    theta_i <= l. On the support

        Pr(theta_i = k) ~ B(1 + P, 1 + F_i(k)),   mu_i | theta_i = k ~ Beta(1 + S, 1 + F_i(k) + P - S)

    exactly. Cover (losses): with e_i the largest level at which arm i had a loss, R = C - sum of e_i levels are left to
    serve all arms. While R is at least half of an equal share, R >= C / 2K (and R >= K), every arm gets something:

        a_i = e_i + 1 + floor((R - K) w_i / sum of w),   w_i = (median of theta_i) - e_i rounded up to a power of 2

    (rounded, so that amounts rarely change and few levels are kept), at least a quarter of an equal share of what is
    left, (R - K) / 4K, so that no arm is searched more finely than the budget asks for. If the budget covers all
    thresholds, nothing is lost; if it does not, bounds are found quickly. Otherwise every round draws (k_i, mu_i) for
    each arm; for rewards it draws k_i twice and keeps the smaller. Then

        A_t = KP(mu, k, C),   a_i = k_i on A_t,   R = C - sum of a_i.

    Pad: while R > 0 the arm of A_t with the largest mu_i Pr(theta_i > a_i) / (u_i - a_i), each once, is raised towards
    u_i. For rewards u_i is the .999-quantile of theta_i; for losses the largest level with Pr(theta_i <= u_i) <= .9,
    which leaves the last level to the draws: an arm that always got its last level would never be known exactly.
    Probe: what is left goes to the arm outside A_t with the largest mu_i Pr(theta_i <= R), if that exceeds 1e-12.

    Real-valued outcomes: where most positive outcomes lie strictly between 0 and 1, a zero says more, because such
    outcomes are hardly ever 0. Then P and F_i(k) in the distribution of theta_i are raised by what all arms together
    have shown, positive outcomes and genuine zeros in their proportion, at most 30 in total.

    No regret bound is known. Thresholds are rounded up to levels, and if no optimal set fits then, regret is linear:
    see `weakfeedback.allocation.theory.lost_to_rounding`. It keeps no estimate, so ``found_at`` and
    ``really_equivalent`` say nothing about it.

    Feedback may arrive late: P, S, the support and the zeros by level are sums and extremes over what was given and
    seen, in any order.

    The posterior is a step function, constant between levels with zeros: it is kept as a sorted list of those inside
    the support. Rewards are kept mirrored, level l as C + 1 - l and theta as C + 2 - theta, which makes them losses.
    It has room for 256 levels. When it is full, the two neighbours between which the posterior changes least are merged
    at the farther one, and from then on it is no longer exact: F is too small between the two.

    Draws: in ``select`` none while all are covered; else for each arm in index order ``rng.random()``, which inverts
    the distribution of theta_i along the support in the direction of growing F_i (up for losses, down for rewards);
    ``rng.beta(1 + S, 1 + F + P - S)``; for rewards one more ``rng.random()``. ``update`` draws one ``rng.random()`` for
    each recorded outcome strictly between 0 and 1, in index order.

    Parameters
    ----------
    arms, budget
        K and Q.
    step : number > 0, optional
        The resolution, at most the budget. Leave it out: it is then a millionth of the budget's leading decimal place
        (1e-6 for budgets from 1 to 10, 1e-5 from 10 to 100), for rewards a hundred-thousandth.
    setting : "loss" or "reward"

    References
    ----------
    A. Verma, M. K. Hanawal, A. Rajkumar, R. Sankaran, Censored semi-bandits, NeurIPS 2019 (the problem).
    W. R. Thompson, On the likelihood that one unknown probability exceeds another, Biometrika 1933 (the idea).

    Examples
    --------
    >>> from weakfeedback.allocation import AllocationProblem
    >>> problem = AllocationProblem([0.9, 0.8, 0.7], [0.3, 0.7, 0.3], budget=1.1, setting="reward")
    >>> policy, rng, reward = CsbTs(3, 1.1, setting="reward"), np.random.default_rng(0), np.zeros(3)
    >>> for _ in range(300):
    ...     problem.world().draw(reward, rng)
    ...     allocation = policy.select(rng)
    ...     policy.update(allocation, np.where(allocation >= problem.thresholds, reward, 0.0), rng)
    >>> (allocation >= problem.thresholds).tolist(), problem.optimal_set.tolist()
    ([True, True, False], [True, True, False])
    """

    in_short = "draws both thresholds and means; anytime"
    sample_problem = "different"
    delay_safe = True
    made_for = ("loss", "reward")
    takes_gaps = True  # NaN among the observed outcomes says that there is no report
    before: ClassVar = {"edition": 1, "surprises": 0}  # what a state without these fields stands for

    def __init__(self, arms, budget, step=None, setting="loss"):
        self.K = limited("arms", arms, 1, MOST_ARMS)
        self.Q = number("budget", budget, above=0.0)
        one_of("setting", setting, ("loss", "reward"))
        self.step = default_step(self.Q, setting) if step is None else number("step", step, above=0.0)
        if not self.Q / self.step <= MOST_LEVELS:
            raise ValueError(
                f"step must be at least {self.Q / MOST_LEVELS:.1g} for this budget, got {self.step!r}"
            )
        self.reward = setting == "reward"
        self.C = math.floor(self.Q / self.step + SLACK)
        if self.C < 1:
            raise ValueError(f"step must be at most the budget {self.Q:g}, got {step!r}")
        self.P = np.zeros(self.K, dtype=np.int64)  # positive outcomes
        self.S = np.zeros(self.K, dtype=np.int64)  # sum of the binarised outcomes
        self.F = np.zeros(self.K, dtype=np.int64)  # zeros that are genuine on the whole support
        # largest level with a loss: theta_i is one of edge + 1, ..., C + 1
        self.edge = np.zeros(self.K, dtype=np.int64)
        # other levels with zeros, increasing,
        self.levels = np.zeros((self.K, min(LEVELS, self.C)), dtype=np.int64)
        self.zeros = np.zeros((self.K, min(LEVELS, self.C)), dtype=np.int64)  # ... how many at each,
        self.used = np.zeros(self.K, dtype=np.int64)  # ... and how many such levels
        self.edition = EDITION
        self.surprises = 0  # outcomes at odds with fixed thresholds
        self.fractions = 0  # positive outcomes below 1, of all arms

    def select(self, rng):
        """Return the allocation of this round."""
        most = 1
        for i in range(self.K):
            most = max(most, self.used[i] + 1)
        # the posterior of each arm, by the segments on which it is constant
        ends = np.empty((self.K, most), dtype=np.int64)
        share = np.empty((self.K, most))
        total = np.empty((self.K, most))
        n = np.empty(self.K, dtype=np.int64)
        P, F = pool(self.P, self.F, self.fractions)
        for i in range(self.K):
            n[i] = lay_out(
                i, P, F, self.edge, self.C + 1, self.levels, self.zeros, self.used, ends, share, total
            )
        if not self.reward and may_cover(self.edge, self.C):
            middle = np.empty(self.K, dtype=np.int64)
            for i in range(self.K):
                _, middle[i] = first_above(i, n[i], self.edge, MIDDLE, ends, share, total)
            level = cover(self.edge, middle, self.C, self.edition)
        else:
            level = self.serve(n, ends, share, total, rng)
        allocation = np.empty(self.K)
        for i in range(self.K):
            allocation[i] = level[i] * self.step
        return allocation

    def serve(self, n, ends, share, total, rng):
        """Return the best levels for a draw of all thresholds and means."""
        k = np.empty(self.K)
        mu = np.empty(self.K)
        for i in range(self.K):
            k[i], mu[i] = self.draw(i, n[i], ends, share, total, rng)
        chosen = pack_rounded(mu, k, self.C, np.int64(NODES))
        level = np.empty(self.K, dtype=np.int64)
        left = self.C
        for i in range(self.K):
            level[i] = int(k[i]) if chosen[i] else 0
            left -= level[i]
        if left > 0 and (self.reward or self.edition > 1):
            left = self.pad(level, left, chosen, mu, n, ends, share, total)
        if left > 0:
            self.probe(level, left, chosen, mu, n, ends, share, total)
        return level

    def draw(self, i, n, ends, share, total, rng):
        """Return a threshold and a mean of arm i; for rewards the smaller of two thresholds."""
        s, t = first_above(i, n, self.edge, rng.random(), ends, share, total)
        zeros = int(self.F[i])
        for j in range(s):
            zeros += int(self.zeros[i, j])
        mu = rng.beta(1.0 + self.S[i], 1.0 + zeros + self.P[i] - self.S[i])
        if self.reward:
            _, other = first_above(i, n, self.edge, rng.random(), ends, share, total)
            t = self.C + 2 - max(t, other)
        return t, mu

    def pad(self, level, left, chosen, mu, n, ends, share, total):
        """Raise chosen arms while levels are left, in order of their gain per level; return what is left."""
        target = np.empty(self.K, dtype=np.int64)
        gain = np.empty(self.K)
        for i in range(self.K):
            gain[i] = 0.0
            if chosen[i]:
                _, t = first_above(i, n[i], self.edge, REST if self.reward else MOSTLY, ends, share, total)
                target[i] = self.C + 2 - t if self.reward else t - 1  # u_i
                if target[i] > level[i]:
                    beyond = self.C + 1 - level[i] if self.reward else level[i]
                    missed = share_up_to(i, n[i], self.edge, beyond, ends, share, total)
                    gain[i] = mu[i] * (missed if self.reward else 1.0 - missed) / (target[i] - level[i])
        return raise_worthiest(level, left, target, gain)

    def probe(self, level, left, chosen, mu, n, ends, share, total):
        """Give what is left to the unchosen arm with the largest mean times probability that this serves it."""
        best = -1
        worth = WORTH if self.edition > 1 else WORTH_BEFORE
        for i in range(self.K):
            if not chosen[i]:
                served = share_up_to(
                    i, n[i], self.edge, self.C + 1 - left if self.reward else left, ends, share, total
                )
                value = mu[i] * (1.0 - served if self.reward else served)
                if value > worth:
                    best = i
                    worth = value
        if best >= 0:
            level[best] = left

    def update(self, allocation, observed, rng):
        """Record the outcomes that were seen under this allocation."""
        for i in range(self.K):
            if observed[i] != observed[i]:
                continue  # NaN: no report for this arm
            level = min(int(allocation[i] / self.step + 0.5), self.C)
            if self.reward and level == 0:
                continue  # nothing can be earned there
            place = self.C + 1 - level if self.reward else level
            if observed[i] > 0.0:
                self.P[i] += 1
                if observed[i] < 1.0:
                    self.fractions += 1
                self.S[i] += int(coin(observed[i], rng))
                if place > self.edge[i]:
                    self.narrow(i, place)
            elif place <= self.edge[i]:
                self.F[i] += 1
            else:
                self.count_zero(i, place)

    def narrow(self, i, place):
        """Record that the threshold of arm i lies beyond this place: zeros up to it are genuine.

        If these are so many that it is very unlikely, it is no threshold, or it has changed.
        """
        self.edge[i] = place
        gone = 0
        before = self.F[i]
        while gone < self.used[i] and self.levels[i, gone] <= place:
            self.F[i] += self.zeros[i, gone]
            gone += 1
        quiet = self.F[i] - before
        if quiet > QUIET and fall(self.P[i] - 1.0, float(before), float(quiet)) < UNLIKELY:
            self.surprises += 1
        self.used[i] -= gone
        for j in range(self.used[i]):
            self.levels[i, j] = self.levels[i, j + gone]
            self.zeros[i, j] = self.zeros[i, j + gone]

    def count_zero(self, i, place):
        """Add a zero of arm i inside the support."""
        low = 0
        high = self.used[i]
        while low < high:
            middle = (low + high) // 2
            if self.levels[i, middle] < place:
                low = middle + 1
            else:
                high = middle
        if low < self.used[i] and self.levels[i, low] == place:
            self.zeros[i, low] += 1
            return
        if self.used[i] == self.levels.shape[1]:  # full: merge two neighbours at the farther one
            gone = cheapest_join(i, self.P, self.F, self.levels, self.zeros, self.used)
            self.zeros[i, gone + 1] += self.zeros[i, gone]
            self.used[i] -= 1
            for j in range(gone, self.used[i]):
                self.levels[i, j] = self.levels[i, j + 1]
                self.zeros[i, j] = self.zeros[i, j + 1]
            if low > gone:
                low -= 1
        for j in range(self.used[i], low, -1):
            self.levels[i, j] = self.levels[i, j - 1]
            self.zeros[i, j] = self.zeros[i, j - 1]
        self.levels[i, low] = place
        self.zeros[i, low] = 1
        self.used[i] += 1

    def belief(self, arm):
        """Return what is known about an arm, in pieces: amounts, increasing, probability, and parameters a, b.

        The threshold lies between ``amounts[j, 0]`` and ``amounts[j, 1]`` with ``probability[j]``, each level there as
        likely as another, and the mean is then Beta(a[j], b[j]). An infinite amount: the budget cannot serve the arm.
        For reports; playing needs no such list.
        """
        shape = (self.K, self.used[arm] + 1)
        ends, share, total = np.empty(shape, dtype=np.int64), np.empty(shape), np.empty(shape)
        P, F = pool(self.P, self.F, self.fractions)
        n = lay_out(arm, P, F, self.edge, self.C + 1, self.levels, self.zeros, self.used, ends, share, total)
        cuts = [int(self.edge[arm]), *ends[arm, :n].tolist()]
        unserved = 1 if self.reward else self.C + 1
        pieces = []  # lowest and highest level, probability, zeros
        zeros = int(self.F[arm])
        for s in range(n):
            low, high = cuts[s] + 1, cuts[s + 1]
            each = share[arm, s] / total[arm, n - 1]
            if low <= unserved <= high:  # it has a piece of its own
                pieces.append((self.C + 1, self.C + 1, each, zeros))
                low, high = low + self.reward, high - (not self.reward)
            if low <= high:
                ends_at = (self.C + 2 - high, self.C + 2 - low) if self.reward else (low, high)
                pieces.append((*ends_at, (high - low + 1) * each, zeros))
            if s < self.used[arm]:
                zeros += int(self.zeros[arm, s])
        table = np.array(sorted(pieces))
        amounts = np.where(table[:, :2] > self.C, math.inf, table[:, :2] * self.step)
        a = np.full(len(pieces), 1.0 + self.S[arm])
        return amounts, table[:, 2], a, 1.0 + table[:, 3] + self.P[arm] - self.S[arm]


def default_step(budget, setting="loss"):
    """Return a millionth of the budget's leading decimal place; for rewards, where a finer one costs more, ten of them.

    >>> default_step(3.0), default_step(15.0), default_step(0.065), default_step(3.0, "reward")
    (1e-06, 1e-05, 1e-08, 1e-05)
    """
    if budget < LEAST:
        raise ValueError(f"budget must be at least {LEAST:g}, or step be given, got {budget:g}")
    return 10.0 ** (math.floor(math.log10(budget * (1.0 + SLACK))) - (6 if setting == "loss" else 5))


def pool(P, F, fractions):
    """Return P and F of all arms for the posterior of the thresholds, raised by pooled outcomes if these are real.

    >>> [counts.tolist() for counts in pool(np.array([2, 4]), np.array([0, 3]), 3)]  # three fractions: half of six
    [[2, 4], [0, 3]]
    >>> [counts.tolist() for counts in pool(np.array([2, 4]), np.array([0, 3]), 4)]
    [[8, 10], [3, 6]]
    >>> [counts.tolist() for counts in pool(np.array([90]), np.array([30]), 90)]  # 30 of 120
    [[113], [37]]
    """
    positive = 0
    zero = 0
    for i in range(P.size):
        positive += P[i]
        zero += F[i]
    if 2 * fractions <= positive:
        return P, F
    n = min(POOL, positive + zero)
    zeros = n * zero // (positive + zero)
    return P + (n - zeros), F + zeros


def may_cover(edge, C):
    """Whether at least half of an equal share of the budget is left beyond all lower bounds, and a level per arm.

    >>> [bool(may_cover(np.array(edge), 10)) for edge in ([3, 4], [4, 4], [0] * 11)]
    [True, False, False]
    """
    left = C
    for i in range(edge.size):
        left -= edge[i]
    return left >= edge.size and 2 * edge.size * left >= C


def cover(edge, middle, C, edition=EDITION):
    """Return levels for all arms: each gets its bound plus one, and a share of the rest by how far its median is above.

    In the first edition there was no least share.

    >>> cover(np.array([0, 2]), np.array([3, 3]), 10).tolist()  # 6 levels to share, 4 to 1
    [5, 4]
    """
    left = C - edge.size
    total = 0
    weight = np.ones(edge.size, dtype=np.int64)
    for i in range(edge.size):
        left -= edge[i]
    least = left // (4 * edge.size) if edition > 1 else 1
    for i in range(edge.size):
        while weight[i] < max(middle[i] - edge[i], least):
            weight[i] *= 2
        total += weight[i]
    level = np.empty(edge.size, dtype=np.int64)
    for i in range(edge.size):
        level[i] = edge[i] + 1 + left * weight[i] // total
    return level


def raise_worthiest(level, left, target, gain):
    """Raise arms to their targets by decreasing gain while levels are left; return what is left."""
    while left > 0:
        best = 0
        for i in range(len(gain)):
            if gain[i] > gain[best]:
                best = i
        if gain[best] <= 0.0:
            break
        raised = min(left, target[best] - level[best])
        level[best] += raised
        left -= raised
        gain[best] = 0.0  # once each
    return left
