"""AdaptiveExplore: the m best of K arms with confidence, by KL-LUCB (thesis, section 5.3, sub-routine)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weakfeedback.validate import MOST_ARMS, brief, integer, large_enough, limited, number

IDLE = -1
ALPHA = 1.1  # exponent of the pair's number in the exploration rate
K1 = 505.5  # the constant of the thesis; 405.5 suffices, and any larger value is valid
HALVINGS = 40


def divergence(p, q):
    """Return the Kullback-Leibler divergence d(p, q) of Bernoulli laws.

    >>> round(divergence(0.5, 0.25), 6), divergence(0.5, 1.0)
    (0.143841, inf)
    """
    if p <= 0.0:
        return -math.log(1.0 - q) if q < 1.0 else math.inf
    if p >= 1.0:
        return -math.log(q) if q > 0.0 else math.inf
    if q <= 0.0 or q >= 1.0:
        return math.inf
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))


def kl_upper(mean, pulls, level):
    """Return U = max{q in [mean, 1] : pulls d(mean, q) <= level}, to 1e-12 and never above it.

    >>> round(kl_upper(0.0, 10, 1.0), 6)  # 1 - exp(-1/10)
    0.095163
    """
    low = mean
    high = 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if pulls * divergence(mean, middle) <= level:
            low = middle
        else:
            high = middle
    return low


def kl_lower(mean, pulls, level):
    """Return L = min{q in [0, mean] : pulls d(mean, q) <= level}, to 1e-12 and never below it.

    The thesis prints a maximum here, which would be the mean itself.

    >>> round(kl_lower(1.0, 10, 1.0), 6)  # exp(-1/10)
    0.904837
    """
    low = 0.0
    high = mean
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if pulls * divergence(mean, middle) <= level:
            high = middle
        else:
            low = middle
    return high


def exploration_rate(scale, pair):
    """Return beta = x + log(x) with x = log(k_1 K s^alpha / delta), for ``scale`` = log(k_1 K / delta), s = pair."""
    x = scale + ALPHA * math.log(pair)
    return x + math.log(x)


class AdaptiveExplore:
    """State and steps of the sub-routine, a base class for players; ``KlLucb`` runs it alone.

    ``explore_from(m, tolerance)`` starts a call over the arms marked in ``open_arms``; ``explore_choice`` and
    ``explore_observe`` play it, and whenever ``due`` is set after either, call ``next_pair``. Samples and the
    number of pairs are kept between calls. An arm is *polled* if another player is about to use it: the caller
    names the polled arms, and the order of a pair is chosen so that neither play meets a poll.
    """

    def start_exploring(self, arms, delta):
        """Create the fields (called by ``__init__``)."""
        self.delta = delta
        self.scale = math.log(K1 * arms / delta)
        self.open_arms = np.ones(arms, dtype=np.bool_)  # the arms under consideration
        self.pulls = np.zeros(arms, dtype=np.int64)  # N_a, collision-free plays
        self.sums = np.zeros(arms)  # their rewards
        self.means = np.zeros(arms)
        self.chosen = np.zeros(arms, dtype=np.bool_)  # J(t)
        self.m = 1
        self.enough = 0.0  # the B(t) at which to stop
        self.pairs = 0  # pairs played so far
        self.unplayed = 0  # open arms without a sample
        self.first = 0  # the current pair, in order of play
        self.second = 0
        self.half = 0  # plays of the current pair so far
        self.due = False  # whether the next pair must be found
        self.fresh = False  # no pair of this call has been played yet
        self.gap = math.inf  # B(t)
        self.exploring = False

    def explore_from(self, m, tolerance):
        """Start a call: the m best of the open arms, until U_u - L_l <= tolerance."""
        self.m = m
        self.enough = tolerance
        self.half = 0
        self.exploring = True
        self.fresh = True
        self.unplayed = 0
        for k in range(self.pulls.size):
            if self.open_arms[k] and self.pulls[k] == 0:
                self.unplayed += 1
        self.due = self.unplayed == 0

    def explore_choice(self, polled):
        """Return the arm to play in this slot; ``polled`` is the arm being polled in it."""
        if self.unplayed > 0:
            for k in range(self.pulls.size):
                if self.open_arms[k] and self.pulls[k] == 0 and k != polled:
                    return k
            return IDLE
        return self.first if self.half == 0 else self.second

    def explore_observe(self, arm, reward, collided):
        """Learn from a play; a collision gives no sample."""
        starting = self.unplayed > 0
        if arm != IDLE and not collided:
            if self.pulls[arm] == 0:
                self.unplayed -= 1
            self.pulls[arm] += 1
            self.sums[arm] += reward
            self.means[arm] = self.sums[arm] / self.pulls[arm]
        if starting:
            self.due = self.unplayed == 0
            return
        self.half += 1
        if self.half == 2:
            self.half = 0
            self.pairs += 1
            self.fresh = False
            self.due = True

    def next_pair(self, polled_now, polled_next):
        """Find the pair and test whether to stop; the two arguments are the arms polled in the next two slots."""
        self.due = False
        self.gap = self.find_pair()
        if self.gap <= self.enough and not self.fresh:  # B(1) is infinite: a call plays at least one pair
            self.exploring = False
        elif self.first == polled_now or self.second == polled_next:
            # polls are at least two slots apart, so the other order is free of them
            kept = self.first
            self.first = self.second
            self.second = kept

    def find_pair(self):
        """Set J(t), u_t (``first``) and l_t (``second``); return B(t) = U_u - L_l."""
        self.mark_best()
        level = exploration_rate(self.scale, max(1, self.pairs))
        upper = -1.0
        lower = 2.0
        for k in range(self.pulls.size):
            if not self.open_arms[k]:
                continue
            mean = self.means[k]
            pulls = self.pulls[k]
            # a bound is computed only where it can beat the best one so far: same arms, a fraction of the work
            if not self.chosen[k]:
                if mean >= upper or pulls * divergence(mean, upper) <= level:
                    bound = kl_upper(mean, pulls, level)
                    if bound > upper:
                        upper = bound
                        self.first = k
            elif mean <= lower or pulls * divergence(mean, lower) <= level:
                bound = kl_lower(mean, pulls, level)
                if bound < lower:
                    lower = bound
                    self.second = k
        return upper - lower

    def mark_best(self):
        """Mark J(t): the m open arms with the largest means, ties to the smaller index."""
        for k in range(self.pulls.size):
            self.chosen[k] = False
        for _ in range(self.m):
            self.chosen[self.next_best(self.chosen)] = True

    def next_best(self, passed):
        """Return the open arm with the largest mean among those not ``passed``, ties to the smaller index."""
        best = -1
        for k in range(self.pulls.size):
            if self.open_arms[k] and not passed[k] and (best < 0 or self.means[k] > self.means[best]):
                best = k
        return best

    def best_arms(self):
        """Return the arms of J by decreasing mean."""
        passed = np.zeros(self.pulls.size, dtype=np.bool_)
        best = np.empty(self.m, dtype=np.int64)
        for i in range(self.m):
            best[i] = self.next_best(passed)
            passed[best[i]] = True
        return best


class KlLucb(AdaptiveExplore):
    """Identify the m best of K arms with rewards in [0, 1], up to ``epsilon``, with probability 1 - delta.

    In each step J holds the m arms with the largest empirical means, and the pair

        u = argmax over a not in J of U_a,   l = argmin over a in J of L_a

    is played, where U_a and L_a are the largest and smallest q with N_a d(mean_a, q) <= beta. It stops when
    U_u - L_l <= epsilon: then every arm of J is, with probability at least 1 - delta, at most epsilon worse than
    the m-th best.

    Deviations from the printed sub-routine: L_a is a minimum (printed: maximum); u and l are computed again
    after the two plays, and then tested, with s the number of the pair just played. Ties go to the smaller arm.

    Draws: none.

    Parameters
    ----------
    arms : integer >= 2
    m : integer from 1 to arms
    delta : number in (0, 1/2]
    epsilon : number >= 0
        With 0 it stops only if the m-th and the next mean differ.

    References
    ----------
    E. Kaufmann, S. Kalyanakrishnan, Information complexity in bandit subset selection, COLT 2013.
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, section 5.3.

    Examples
    --------
    >>> rng = np.random.default_rng(3)
    >>> means = [0.2, 0.9, 0.5, 0.8]
    >>> search = KlLucb(arms=4, m=2, delta=0.05, epsilon=0.1)
    >>> while not search.finished:
    ...     arm = search.select(rng)
    ...     search.update(arm, float(rng.random() < means[arm]), rng)
    >>> search.best_arms().tolist(), int(search.pulls.sum())
    ([1, 3], 506)
    """

    delay_safe = False

    def __init__(self, arms, m, delta, epsilon=0.0):
        self.K = limited("arms", arms, 2, MOST_ARMS)
        chosen = integer("m", m, 1, self.K)
        self.start_exploring(self.K, confidence(delta))
        if chosen == self.K:
            self.m = chosen  # nothing to find
        else:
            self.explore_from(chosen, number("epsilon", epsilon, at_least=0.0))

    @property
    def finished(self):
        """Whether the m best arms are known."""
        return not self.exploring

    def select(self, rng):
        """Return the arm to play."""
        return self.explore_choice(IDLE)

    def update(self, arm, reward, rng):
        """Learn from the reward of the arm that ``select`` named."""
        self.explore_observe(arm, reward, False)
        if self.due:
            self.next_pair(IDLE, IDLE)


@dataclass(frozen=True)
class TopArms:
    """Result of ``top_arms``: the arms, best first, the number of plays, and whether the search finished."""

    arms: tuple[int, ...]
    pulls: int
    sure: bool


def top_arms(
    pull: Callable[[int], float],
    arms: int,
    m: int,
    delta: float,
    epsilon: float = 0.0,
    limit: int = 1_000_000,
) -> TopArms:
    """Find the m best arms by calling ``pull(arm)``, which returns a reward in [0, 1], at most ``limit`` times.

    >>> rewards = [0.1, 0.7, 0.4]
    >>> top_arms(lambda arm: rewards[arm], arms=3, m=1, delta=0.1, epsilon=0.2).arms
    (1,)
    """
    search = KlLucb(arms, m, delta, epsilon)
    rng = np.random.default_rng(0)  # never used: the search draws nothing
    pulls = 0
    while not search.finished and pulls < integer("limit", limit, 1):
        arm = search.select(rng)
        reward = number("the reward", pull(arm), at_least=0.0)
        if reward > 1.0:
            raise ValueError(f"the reward must lie in [0, 1], got {reward!r} of arm {arm}")
        search.update(arm, reward, rng)
        pulls += 1
    return TopArms(tuple(search.best_arms().tolist()), pulls, search.finished)


def confidence(delta):
    """Validate ``delta``: a number in (0, 1/2]."""
    value = number("delta", delta, above=0.0)
    if value > 0.5:
        raise ValueError(f"delta must be a number in (0, 0.5], got {brief(delta)}")
    return large_enough("delta", value)
