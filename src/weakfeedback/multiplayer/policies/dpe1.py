"""DPE1: one player explores, the others exploit what it found (Wang, Proutiere, Ariu, Jedra and Russo)."""

import math

import numpy as np

from weakfeedback.multiplayer.kl_lucb import divergence
from weakfeedback.multiplayer.opening import PLAYING, Opening
from weakfeedback.validate import MOST_ARMS, limited

NOBODY = -1  # no arm


class Dpe1(Opening):
    """One of N players that rotate over the N arms that look best to their leader, the only one that explores.

    Protocol
    --------
    1. Opening: blocks of one slot of orthogonalisation and an alarm sweep of K slots until all sit, then player
       indexing (``Opening``). Everybody knows N and its rank r; rank 0 leads. With N = K all stay on their arms.
    2. Rotation: the players hold a common set M of N arms, at first the arms 0, ..., N - 1. In slot t after the
       opening, rank r plays the arm of M with number (t + r) mod N, in ascending order: nobody collides.
    3. Exploration: let l be the arm of M with the least empirical mean, as the leader sees it. In its slot on l it
       plays, with probability 1/2, an arm drawn from the arms k outside M whose index reaches it: b_k >= mean_l, with

           b_k = max{ q : n_k d(mean_k, q) <= f(t) },   f(t) = log t + 4 log log t,

       n_k its free plays of arm k and d the divergence of Bernoulli laws. If there is no such arm it plays l.
    4. Communication: every N slots it looks whether the best arm h outside M has a larger mean than l. If so,
       in the coming 2 N - 1 + K slots

       a. it stays on the arm of its last turn for N - 1 slots: each of the others meets it there once, and knows
          from its rank when this began,
       b. it stays on l for N slots, while the others rotate over M: each meets it once, on the arm to be dropped,
       c. it stays on h for K slots, while rank r plays arm (t + r) mod K: each meets it once, on the arm to be
          taken in.

       All replace l by h in M. It looks again, until M holds its N best arms.

    Every free play of the leader is a sample, including the opening. An arm without a sample is not compared; one
    outside M is explored.

    It never settles, because the leader explores for ever, and uses no horizon: ``settled`` stays False unless
    N = K.

    Deviations from the published algorithm: ``docs/algorithms/dpe1.md``.

    As T grows, the regret of the published algorithm is to first order the least that a centralised algorithm can
    have (theorem 1 of the paper).

    Draws: one ``rng.random()`` per slot of orthogonalisation until the first free play. Leader, in its slot on l if
    there are arms to explore: one u = ``rng.random()``; it plays l if u < 1/2, else the arm to explore with number
    int(n (2 u - 1)), n of them in ascending order.

    Parameters
    ----------
    arms : integer >= 2

    Attributes
    ----------
    settled : bool
        Whether N = K and the opening is over.
    arm : int
        The reserved arm in the opening, afterwards the arm played last.
    N, rank, restarts
        As for ``Dlc``.

    References
    ----------
    P.-A. Wang, A. Proutiere, K. Ariu, Y. Jedra, A. Russo, Optimal algorithms for multiplayer multi-armed bandits,
    AISTATS 2020.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> player, plays = Dpe1(arms=3), np.zeros(3, dtype=int)
    >>> for slot in range(1000):
    ...     arm = player.choose(rng)
    ...     player.observe(arm, float(rng.random() < [0.2, 0.9, 0.6][arm]), False, rng)
    ...     plays[arm] += 1
    >>> player.N, int(plays.argmax())
    (1, 1)
    """

    in_short = "rotates over the best channels, only the leader explores"
    delay_safe = False

    def __init__(self, arms):
        K = limited("arms", arms, 2, MOST_ARMS)
        self.start_opening(K, 1, True)
        self.c = 0  # t, elapsed slots after the opening
        self.pulls = np.zeros(K, dtype=np.int64)  # n_k, free plays
        self.sums = np.zeros(K)  # their rewards
        self.means = np.zeros(K)
        self.member = np.zeros(K, dtype=np.bool_)  # M
        self.cycle = np.zeros(K, dtype=np.int64)  # M, ascending, in the first N places
        self.worst = NOBODY  # leader: l
        self.wanted = np.zeros(K, dtype=np.int64)  # leader: the arms to explore, ascending
        self.wanted_size = 0
        self.talking = False  # whether a communication is in progress
        self.begun = 0  # the slot before its first
        self.out = NOBODY  # the arm to be dropped
        self.into = NOBODY  # the arm to be taken in

    def choose(self, rng):
        """Return the arm of this slot."""
        if self.phase != PLAYING:
            return self.opening_choice(rng)
        if self.settled:
            return self.arm
        t = self.c + 1
        if self.talking and t >= self.begun + 2 * self.N and self.rank > 0:
            return (t + self.rank) % self.K  # c.
        arm = int(self.cycle[(t + self.rank) % self.N])
        if self.rank > 0:
            return arm
        if self.talking:
            return self.telling_choice(t - self.begun)
        if arm == self.worst and self.wanted_size > 0:
            u = rng.random()
            if u >= 0.5:
                return int(self.wanted[int(self.wanted_size * (2.0 * u - 1.0))])
        return arm

    def telling_choice(self, p):
        """Leader: where it stays in slot p of a communication."""
        if p < self.N:
            return int(self.cycle[self.begun % self.N])  # a.
        return self.out if p < 2 * self.N else self.into  # b., c.

    def observe(self, arm, reward, collided, rng):
        """Learn from the slot: the player's own reward, and whether it collided."""
        if arm >= 0 and not collided:
            self.pulls[arm] += 1
            self.sums[arm] += reward
            self.means[arm] = self.sums[arm] / self.pulls[arm]
        if self.phase != PLAYING:
            self.opening_observe(arm, collided)
            if self.phase == PLAYING:
                self.begin()
            return
        if self.settled:
            return
        self.c += 1
        self.arm = arm
        if collided and self.rank > 0:
            self.hear(arm)
        if self.talking:
            if self.c == self.begun + 2 * self.N + self.K - 1:
                self.end_of_talk()
        elif self.rank == 0 and self.c % self.N == 0:
            self.look()

    def begin(self):
        """Prepare the first slot after the opening."""
        self.settled = self.N == self.K
        for k in range(self.N):
            self.member[k] = True
        self.list_members()

    def list_members(self):
        """List M in ascending order."""
        n = 0
        for k in range(self.K):
            if self.member[k]:
                self.cycle[n] = k
                n += 1

    def hear(self, arm):
        """Follower: react to a collision with the leader on this arm."""
        if not self.talking:
            self.talking = True
            self.begun = self.c - (self.N - self.rank)
            self.out = NOBODY
            self.into = NOBODY
        elif self.c >= self.begun + 2 * self.N:
            self.into = arm
        elif self.c >= self.begun + self.N:
            self.out = arm

    def end_of_talk(self):
        """Change M; after a failed opening the message may be meaningless, and then M stays."""
        self.talking = False
        if self.out >= 0 and self.into >= 0 and self.member[self.out] and not self.member[self.into]:
            self.swap()
        if self.rank == 0:
            self.look()

    def swap(self):
        """Replace ``out`` by ``into`` in M."""
        self.member[self.out] = False
        self.member[self.into] = True
        self.list_members()

    def look(self):
        """Leader: find out whether M must change and, if not, what to explore."""
        self.find_pair()
        while self.N == 1 and self.is_outdone():
            self.swap()  # no other player to inform
            self.find_pair()
        if self.is_outdone():
            self.talking = True
            self.begun = self.c
        else:
            self.worst = self.out
            self.find_wanted()

    def find_pair(self):
        """Find the worst arm of M and the best one outside, among those with a sample."""
        self.out = NOBODY
        self.into = NOBODY
        for k in range(self.K):
            if self.pulls[k] == 0:
                continue
            if self.member[k]:
                if self.out < 0 or self.means[k] < self.means[self.out]:
                    self.out = k
            elif self.into < 0 or self.means[k] > self.means[self.into]:
                self.into = k

    def is_outdone(self):
        """Whether the best arm outside M has a larger mean than the worst one inside."""
        return self.out >= 0 and self.into >= 0 and self.means[self.into] > self.means[self.out]

    def find_wanted(self):
        """Find the arms outside M whose index reaches the mean of the worst arm inside."""
        log_t = math.log(self.c)
        level = log_t + 4.0 * math.log(max(1.0, log_t))
        self.wanted_size = 0
        for k in range(self.K):
            if not self.member[k] and self.is_wanted(k, level):
                self.wanted[self.wanted_size] = k
                self.wanted_size += 1

    def is_wanted(self, k, level):
        """Whether b_k >= mean_l: without solving for b_k, because d(mean_k, q) grows with q >= mean_k."""
        if self.pulls[k] == 0:
            return True
        if self.worst < 0:
            return False
        least = self.means[self.worst]
        return self.means[k] >= least or self.pulls[k] * divergence(self.means[k], least) <= level
