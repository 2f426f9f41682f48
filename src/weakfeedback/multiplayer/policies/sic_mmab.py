"""SIC-MMAB: players that explore together and send each other all statistics by collisions (Boursier and Perchet)."""

import math
from typing import ClassVar

import numpy as np

from weakfeedback.multiplayer.opening import PLAYING, Opening
from weakfeedback.validate import MOST_ARMS, integer, limited, number

EXPLORING, TALKING, DONE = 0, 1, 2


class SicMmab(Opening):
    """One of N players that explore in turn, exchange sums after each phase, and accept or reject arms.

    Protocol
    --------
    1. Orthogonalisation for ceil(K e log T) slots and player indexing (``Opening``): number of players M and
       own rank j = 0, ..., M - 1.
    2. Phases p = 1, 2, ..., with K_p active arms and M_p active players:

       a. Exploration: K_p 2^p slots of hopping through the active arms, the j-th player one arm ahead of
          the (j-1)-th, so that nobody collides.
       b. Communication: each player i tells each other player l, for every active arm, the sum of its rewards
          of this phase in p + 1 bits, least significant first. For a 1 it plays the l-th active arm; all
          others stay on the active arm of their rank.
       c. With s plays of each active arm by all players so far and B = sqrt(constant log T / s), an arm is
          accepted if mean - B >= mean' + B for at least K_p - M_p active arms, and rejected if at least M_p
          active arms are better by that much. Of the accepted arms, the last active players take one each and
          stay; the others go on with the arms left.

    Deviations from the published algorithm: ``docs/algorithms/sic-mmab.md``. The authors' program starts with phase
    ceil(log2 M) + 1 (``first_phase``), which communicates less and is a stronger competitor.

    Draws: as ``Dlc``: one ``rng.random()`` per slot of orthogonalisation until the first free play.

    Parameters
    ----------
    arms : integer >= 2
    horizon : integer >= 2
        T, the number of rounds for which the confidence level is chosen.
    constant : number > 0
        In the width B. The thesis does not give it; the authors' program uses 2.
    first_phase : integer from 1 to 30, optional
        p of the first phase, 1 if left out.

    Attributes
    ----------
    settled, arm, failed, N, rank
        As for ``Dlc``.

    References
    ----------
    E. Boursier, V. Perchet, SIC-MMAB: synchronisation involves communication in multiplayer multi-armed bandits,
    NeurIPS 2019.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> player, slots = SicMmab(arms=3, horizon=1000), 0
    >>> while not player.settled:
    ...     arm = player.choose(rng)
    ...     player.observe(arm, [0.0, 1.0, 0.0][arm], False, rng)
    ...     slots += 1
    >>> player.arm, player.N, slots
    (1, 1, 248)
    """

    in_short = "explores in turn, sends sums by collisions"
    sample_options: ClassVar = {"horizon": 10_000}
    delay_safe = False

    def __init__(self, arms, horizon, constant=2.0, first_phase=None):
        K = limited("arms", arms, 2, MOST_ARMS)
        log_horizon = math.log(integer("horizon", horizon, 2))
        self.start_opening(K, math.ceil(K * math.e * log_horizon), False)
        self.width = number("constant", constant, above=0.0) * log_horizon  # B^2 s
        self.stage = EXPLORING
        self.p = 1 if first_phase is None else integer("first_phase", first_phase, 1, 30)
        self.t = 0  # elapsed slots of the stage
        self.length = 0  # slots of the stage
        # Position of the slot in the stage. Counters: computing them from t would take four divisions per slot.
        self.place = 0  # exploration: among the active arms
        self.bit = 0  # communication: of the number sent,
        self.about = 0  # about this active arm,
        self.listener = 0  # to this one of the others,
        self.sender = 0  # by the player of this rank
        self.active = np.arange(K)  # active arms, ascending, in the first ``arms_left`` places
        self.arms_left = K  # K_p
        self.players_left = 0  # M_p
        self.own = np.zeros(K)  # own rewards of this phase, by arm
        self.sums = np.zeros(K, dtype=np.int64)  # of all players and phases
        self.plays = 0  # of each active arm, by all players

    def choose(self, rng):
        """Return the arm of this slot."""
        if self.phase != PLAYING:
            return self.opening_choice(rng)
        if self.stage == DONE:
            return self.arm
        if self.stage == EXPLORING:
            return int(self.active[self.place])
        return self.talking_choice()

    def observe(self, arm, reward, collided, rng):
        """Learn from the slot: the player's own reward, and whether it collided."""
        if self.phase != PLAYING:
            self.opening_observe(arm, collided)
            if self.phase == PLAYING:
                self.players_left = self.N
                self.explore()
            return
        if self.stage == DONE:
            return
        if self.stage == EXPLORING:
            if not collided:
                self.own[arm] += reward
            self.place += 1
            if self.place == self.arms_left:
                self.place = 0
        else:
            # after a failed opening, collisions can occur at random
            if collided and self.receiver() == self.rank:
                self.hear()
            self.next_bit()
        self.t += 1
        if self.t == self.length:
            self.next_stage()

    def explore(self):
        """Begin the exploration of phase p."""
        self.stage = EXPLORING
        self.t = 0
        self.length = self.arms_left << self.p
        self.place = (self.rank + 1) % self.arms_left

    def next_stage(self):
        """Start the stage that follows."""
        if self.stage == EXPLORING:
            self.stage = TALKING
            self.t = 0
            self.sender = 0
            self.length = self.players_left * (self.players_left - 1) * self.arms_left * (self.p + 1)
            for k in range(self.K):
                self.sums[k] += self.told(k)
        if self.t == self.length:  # immediately when it is alone
            self.decide()

    def told(self, arm):
        """Return the player's own sum of this phase, as sent."""
        return min(int(self.own[arm]), 1 << self.p)

    def next_bit(self):
        """Advance by one slot: each player sends each other player its sum of each active arm, bit by bit."""
        self.bit += 1
        if self.bit <= self.p:
            return
        self.bit = 0
        self.about += 1
        if self.about < self.arms_left:
            return
        self.about = 0
        self.listener += 1
        if self.listener < self.players_left - 1:
            return
        self.listener = 0
        self.sender += 1

    def receiver(self):
        """Return the rank of the receiver: all but the sender, in turn."""
        return self.listener + 1 if self.listener >= self.sender else self.listener

    def talking_choice(self):
        """Play the receiver's arm for a 1, else the player's own."""
        if self.sender == self.rank and (self.told(self.active[self.about]) >> self.bit) & 1 == 1:
            return int(self.active[self.receiver()])
        return int(self.active[self.rank])

    def hear(self):
        """Receive a 1."""
        self.sums[self.active[self.about]] += 1 << self.bit

    def decide(self):
        """Accept and reject arms; take one, or continue without them."""
        self.plays += self.players_left << self.p
        margin = 2.0 * math.sqrt(self.width / self.plays) * self.plays  # 2 B, in the units of the sums
        accepted = np.zeros(self.K, dtype=np.int64)
        n = 0
        left = np.zeros(self.K, dtype=np.int64)
        kept = 0
        for a in range(self.arms_left):
            arm = self.active[a]
            worse = 0
            better = 0
            for b in range(self.arms_left):
                lead = self.sums[arm] - self.sums[self.active[b]]
                if lead >= margin:
                    worse += 1
                elif -lead >= margin:
                    better += 1
            if worse >= self.arms_left - self.players_left:
                accepted[n] = arm
                n += 1
            elif better < self.players_left:
                left[kept] = arm
                kept += 1
        mine = self.players_left - 1 - self.rank
        if mine < n:
            self.arm = int(accepted[mine])
            self.stage = DONE
            self.settled = True
            return
        self.players_left -= n
        self.arms_left = kept
        for a in range(kept):
            self.active[a] = left[a]
        for k in range(self.K):
            self.own[k] = 0.0
        self.p += 1
        self.explore()
