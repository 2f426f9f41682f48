"""DLC-LIX: DLC with limited information exchange (thesis, section 5.4)."""

from typing import ClassVar

import numpy as np

from weakfeedback.multiplayer.kl_lucb import exploration_rate, kl_lower, kl_upper
from weakfeedback.multiplayer.leading import Leading
from weakfeedback.multiplayer.opening import IDLE, PLAYING, bit_of, bits_for
from weakfeedback.validate import flag, one_of

FINEST = 40  # maximum number of binary digits after the point of a transferred sum
# what a player does in a slot; words are sent in the stages from COLLECT to HEAR
SIT, EXPLORE, SIGNAL, COLLECT, TELL, SEND, HEAR, DONE = 0, 1, 2, 3, 4, 5, 6, 7


def fineness(plays, epsilon, players):
    """Return the smallest g >= 0 with 1 / (plays 2^g) <= epsilon / (2 players), 0 if epsilon is 0.

    A sum of rewards in units of 2^-g is then a mean to within epsilon / (2 N); a sum of 0/1 rewards is exact.

    >>> fineness(100, 0.05, 2), fineness(20, 0.05, 2), fineness(20, 0.0, 2)
    (0, 2, 0)
    """
    if epsilon <= 0.0 or plays == 0:
        return 0
    g = 0
    while g < FINEST and 2.0 * players > epsilon * plays * (1 << g):
        g += 1
    return g


class DlcLix(Leading):
    """One of N players that end on the N best of K arms; all of them earn while the leader explores.

    Protocol
    --------
    1. Orthogonalisation and player indexing (``Opening``). With N = K players every player keeps its arm.
    2. All but the leader play their reserved arms. The leader explores the arms that nobody else reserved. For
       each rank r = 1, ..., N - 1 it

       a. finds the best of them by ``AdaptiveExplore`` with m = 1,
       b. collides with player r on its arm (the signal),
       c. stays there while the player sends the sum of its rewards since indexing: it plays for a 1 and
          idles for a 0, most significant bit first. Both know the number of plays from the clock,
       d. tells the player, in ceil(log2 K) slots, by how many arms to move (modulo K): to the best arm found,
          if its empirical mean is larger than that of the player's arm, else by 0,

       and the arm that was left becomes one to explore, with the samples received.
    3. The leader finds the best of the remaining arms and stays on it.

    Samples and the number of pairs are kept from one exploration to the next; the rate uses all K arms.

    Deviations from the printed algorithm, with their reasons: ``docs/algorithms/dlc-lix.md``. Means rounded to epsilon
    / 2 lose the guarantee: by default (``transfer="exact"``) the sum is sent in units that make the mean right to
    epsilon / (2 N), and exact for 0/1 rewards. For ``failed`` and ``alarm`` see ``Dlc``.

    It looks for the single best free arm: where the top arms are close but the gap below the N-th is wide it
    can be slower than DLC.

    Early moves
    -----------
    ``early_moves=True``, which is not in the thesis, removes this weakness. At the first pause between two pairs after
    slot 10 K 3^k, k = 0, 1, ..., the leader visits all players without a final arm, in order of rank. A
    visit is b., c. and d. above with the arm that has the largest empirical mean, separated or not. One more bit, the
    first, says whether the word is final; if it is not, the player moves anyway, counts its plays and
    rewards from then on, and can be visited again. The samples add up.

    The word is final, as without early moves, if the best free arm is separated from the other free arms. If the player
    keeps an arm of its own, that arm must be separated from them too (by U_u - L of its arm, with the same
    tolerance); if it is not, the next visit is after the next of those slots. No regret bound is known.

    Draws: as ``Dlc``: one ``rng.random()`` per slot of orthogonalisation until the first free play.

    Parameters
    ----------
    arms, epsilon, delta, tolerance, seating_rounds, alarm
        As for ``Dlc``.
    transfer : "exact" or "eps/2"
        How the sums of rewards are sent; the second needs epsilon > 0.
    early_moves : bool
        See above.

    Attributes
    ----------
    settled, arm, failed, restarts, N, rank
        As for ``Dlc``.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm DLC-LIX.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> player, slots = DlcLix(arms=3, epsilon=0.1, delta=0.1), 0
    >>> while not player.settled:
    ...     arm = player.choose(rng)
    ...     player.observe(arm, [0.2, 0.9, 0.6][arm], False, rng)
    ...     slots += 1
    >>> player.arm, player.N, slots
    (1, 1, 388)
    """

    in_short = "DLC in which all earn while the leader explores"
    sample_options: ClassVar = {"epsilon": 0.1, "delta": 0.1}
    delay_safe = False

    def __init__(
        self,
        arms,
        epsilon,
        delta,
        tolerance="eps/N",
        transfer="exact",
        seating_rounds=None,
        alarm=False,
        early_moves=False,
    ):
        K = self.start_leading(arms, epsilon, delta, tolerance, seating_rounds, alarm)
        self.exact = one_of("transfer", transfer, ("exact", "eps/2")) == "exact"
        if not self.exact and self.epsilon == 0.0:
            raise ValueError("epsilon must be > 0 with transfer='eps/2', got 0")
        self.early = flag("early_moves", early_moves)
        self.stage = SIT
        self.c = 0  # the next slot, counted from the end of indexing; the first is 1
        self.bits = bits_for(K)
        self.mean_bits = 0 if self.exact else max(1, bits_for(2.0 / self.epsilon))
        self.gain = 0.0  # R, the rewards of the current arm
        self.before = np.zeros(K, dtype=np.int64)  # by rank: elapsed slots when the current arm was taken
        self.served = 1  # leader: the first rank that has no final arm
        self.visited = 1  # leader: the rank that is visited
        self.visits_to = 1  # leader: the last rank of this round of visits
        self.check = 10 * K  # leader: the slot after which all are visited
        self.sure = False  # leader: the best free arm is separated
        self.hold = False  # leader: no visit before that slot
        self.best = 0  # leader: the best free arm
        self.plays = 0  # T_c
        self.fine = 0  # g
        self.length = 0  # length of the current word
        self.position = 0  # bits of it already sent
        self.word = 0

    def choose(self, rng):
        """Return the arm of this slot, or -1 to idle."""
        if self.phase != PLAYING:
            return self.opening_choice(rng)
        if self.stage == EXPLORE:
            return self.explore_choice(IDLE)
        if self.stage == SIGNAL or self.stage == COLLECT:
            return int(self.seats[self.visited])
        if self.stage == TELL:
            one = bit_of(self.word, self.position, self.length) == 1
            return int(self.seats[self.visited]) if one else self.best
        if self.stage == SEND and bit_of(self.word, self.position, self.length) == 0:
            return IDLE
        return self.arm

    def observe(self, arm, reward, collided, rng):
        """Learn from the slot: the player's own reward, and whether it collided."""
        if self.phase != PLAYING:
            self.opening_observe(arm, collided)
            if self.phase == PLAYING:
                self.begin()
            return
        self.c += 1
        if self.stage == EXPLORE:
            self.explore_observe(arm, reward, collided)
        elif self.stage == SIGNAL or (self.stage == SIT and collided):
            self.start_transfer()
        elif self.stage == SIT:
            self.gain += reward
        elif self.stage != DONE:
            if self.stage == COLLECT or self.stage == HEAR:
                self.word = 2 * self.word + (1 if collided else 0)
            self.position += 1
        if COLLECT <= self.stage <= HEAR and self.position == self.length:
            self.end_of_word()
        if self.due:
            self.next_pair(IDLE, IDLE)
            if self.early:
                self.found_or_not()
            elif not self.exploring:
                self.found()

    def begin(self):
        """Prepare the first slot after indexing."""
        self.c = 1
        if self.N == self.K:
            self.settle(self.arm)
        elif self.rank == 0:
            for rank in range(1, self.N):
                self.open_arms[self.seats[rank]] = False
            self.explore()

    def explore(self):
        """Leader: start the search for the best free arm."""
        self.stage = EXPLORE
        self.explore_from(1, self.epsilon / self.N if self.shared else self.epsilon)

    def found(self):
        """Leader: the best free arm is known; signal the next player, or take it."""
        self.sure = True
        if self.served < self.N:
            self.visit(self.served, self.served)
        else:
            self.settle(int(self.best_arms()[0]))

    def visit(self, rank, last):
        """Leader: signal this player, to offer it the free arm with the largest mean; then those up to ``last``."""
        self.best = int(self.best_arms()[0])
        self.visited = rank
        self.visits_to = last
        self.stage = SIGNAL

    def found_or_not(self):
        """Leader, with early moves: visit all if it is time, else continue until the best free arm is known."""
        if self.served < self.N and self.c > self.check and not self.fresh:
            self.hold = False
            self.sure = not self.exploring
            while self.check < self.c:
                self.check *= 3
            self.visit(self.served, self.N - 1)
        elif not self.exploring and not self.hold:
            self.found()
        else:
            self.exploring = True

    def start_transfer(self):
        """After the signal: determine how many bits will be sent and, for the sender, which."""
        self.plays = self.c - 2 - int(self.before[self.visited if self.stage == SIGNAL else self.rank])
        self.fine = fineness(self.plays, self.epsilon, self.N)
        limit = self.plays << self.fine
        self.length = bits_for(limit + 1) if self.exact else self.mean_bits
        self.position = 0
        self.word = 0
        if self.stage == SIGNAL:
            self.stage = COLLECT
            return
        self.stage = SEND
        if self.exact:
            self.word = min(int(self.gain * (1 << self.fine)), limit)
        elif self.plays > 0:
            top = 1 << self.mean_bits
            self.word = min(int(self.gain / self.plays * top), top - 1)

    def end_of_word(self):
        """Start what follows a word."""
        if self.stage == COLLECT:
            self.receive()
        elif self.stage == TELL:
            self.moved()
        elif self.stage == SEND:
            self.start_word(HEAR, 0)
        else:
            self.told()

    def told(self):
        """Take the arm received; unless the word was final, treat it as the reserved arm."""
        final = not self.early or self.word >> self.bits == 1
        self.word %= 1 << self.bits
        if final:
            self.settle((self.arm + self.word) % self.K)
        else:
            self.arm = (self.arm + self.word) % self.K
            self.stage = SIT
            self.gain = 0.0
            self.before[self.rank] = self.c - 1

    def start_word(self, stage, word):
        """Begin the word that announces the move."""
        self.stage = stage
        self.word = word
        self.length = self.bits + 1 if self.early else self.bits
        self.position = 0

    def receive(self):
        """Leader: take over the player's samples and decide which of the two arms it gets; tie: its own."""
        seat = int(self.seats[self.visited])
        if self.exact:
            total = min(self.word / (1 << self.fine), float(self.plays))
        else:
            total = self.word / (1 << self.mean_bits) * self.plays
        total += self.sums[seat]  # the samples of earlier visits, and its own
        self.pulls[seat] += self.plays
        self.sums[seat] = total
        self.means[seat] = total / self.pulls[seat]
        new = self.best if self.means[self.best] > self.means[seat] else seat
        word = (new - seat) % self.K
        if self.early and self.is_final(new, seat):
            word += 1 << self.bits
        self.start_word(TELL, word)

    def is_final(self, new, seat):
        """Leader: whether the arm assigned is one of the N best, with confidence: better than all free arms but one."""
        if not self.sure:
            return False
        self.sure = False  # the free arms change: no other player gets a final word in this round of visits
        level = exploration_rate(self.scale, max(1, self.pairs))
        u = self.first  # the free arm with the largest upper bound but for the best one
        final = new != seat or (
            kl_upper(self.means[u], self.pulls[u], level)
            - kl_lower(self.means[seat], self.pulls[seat], level)
            <= self.enough
        )
        self.hold = not final
        return final

    def moved(self):
        """Leader: the player has its arm; update the free arms and continue."""
        seat = int(self.seats[self.visited])
        if self.word % (1 << self.bits) != 0:
            self.open_arms[self.best] = False
            self.open_arms[seat] = True
            self.seats[self.visited] = self.best
        self.before[self.visited] = self.c - 1
        if not self.early or self.word >> self.bits == 1:
            self.served += 1
        if self.visited < self.visits_to:
            self.visit(self.visited + 1, self.visits_to)
        else:
            self.explore()

    def settle(self, arm):
        """Play this arm from the next slot on."""
        self.arm = arm
        self.stage = DONE
        self.settled = True
