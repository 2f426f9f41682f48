"""DLC: distributed learning and coordination of players that cannot communicate (thesis, section 5.3)."""

from typing import ClassVar

import numpy as np

from weakfeedback.multiplayer.leading import Leading
from weakfeedback.multiplayer.opening import IDLE, PLAYING, bit_of, bits_for
from weakfeedback.validate import flag, one_of

LEARN, SERVE, LISTEN, WAIT, DONE = 0, 1, 2, 3, 4


class Dlc(Leading):
    """One of N players that end on the N best of K arms, each on its own; the leader finds them alone.

    Protocol
    --------
    1. Orthogonalisation and player indexing (``Opening``). With N = K players every player keeps its arm.
    2. The player with the smallest reserved arm leads and finds the N best arms by ``AdaptiveExplore``. The
       others are silent, but for a poll: rank r plays its reserved arm in the slots m T_P + (r - 1) B, m >= 1,
       with B = ceil(log2 K) + 1 and T_P = (N - 1) B. The leader avoids polls.
    3. Having found the arms, the leader collides with each poll in turn (the signal) and then, in B - 1 slots,
       tells the player the index of its arm, most significant bit first: a collision is 1.

    Rank r gets the r-th best arm and the leader the N-th.

    Deviations from the printed algorithm, with their reasons: ``docs/algorithms/dlc.md``. The most important one: a
    player that moved to its arm immediately would jam a player that still listens on it. So a served player idles until
    T_P slots after its signal (``served="wait"``), when all have been served; or those whose reserved arm is among the
    best keep it and the others get best arms that nobody reserved, at once (``served="keep"``). A player that failed to
    sit (``failed``) goes on as printed, and such a run does not recover; ``alarm=True`` repairs that. A player that
    receives a word that names no arm keeps its own (``garbled``).

    ``fair=True``: the word is the set of the N best arms, one bit per arm, and all players hop through it
    in turn: in slot c, counted from the end of indexing, rank r plays the arm (r + c) mod N of the set.

    Draws: ``choose`` takes one ``rng.random()`` in each slot of orthogonalisation until the first free play, the
    arm being ``int(K * u)``; nothing else draws.

    Parameters
    ----------
    arms : integer >= 2
    epsilon : number >= 0
        How much the total mean of the arms may fall short of the best.
    delta : number in (0, 1/2]
    tolerance : "eps/N" or "eps"
        When AdaptiveExplore stops. Only eps/N has the guarantee; the thesis's figures were made with eps.
    served : "wait" or "keep"
    seating_rounds : integer >= 1, optional
        Slots of orthogonalisation; T_RP of the thesis by default.
    alarm : bool
        Sweep after orthogonalisation, and repeat it if some player has no seat.
    fair : bool
        Rotate over the arms instead of staying; needs ``served="wait"``.

    Attributes
    ----------
    settled : bool
        Whether it plays ``arm`` from the next slot on (with ``fair``, ``arm`` moves on every slot).
    arm : int
        The arm it sits on: reserved at first, then assigned. -1 before its first slot.
    failed, restarts, N, rank
        Whether orthogonalisation ended without a seat; repetitions by the alarm; the results of indexing.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm DLC.
    A. Verma, M. K. Hanawal, R. Vaze, Distributed algorithms for efficient learning and coordination in ad hoc
    networks, WiOpt 2019.

    Examples
    --------
    A single player is its own leader and ends on the best arm:

    >>> rng = np.random.default_rng(1)
    >>> player, slots = Dlc(arms=3, epsilon=0.1, delta=0.1), 0
    >>> while not player.settled:
    ...     arm = player.choose(rng)
    ...     player.observe(arm, [0.2, 0.9, 0.6][arm], False, rng)
    ...     slots += 1
    >>> player.arm, player.N, slots
    (1, 1, 388)
    """

    in_short = "the leader finds the best channels alone"
    sample_options: ClassVar = {"epsilon": 0.1, "delta": 0.1}
    delay_safe = False

    def __init__(
        self,
        arms,
        epsilon,
        delta,
        tolerance="eps/N",
        served="wait",
        seating_rounds=None,
        alarm=False,
        fair=False,
    ):
        K = self.start_leading(arms, epsilon, delta, tolerance, seating_rounds, alarm)
        self.keep = one_of("served", served, ("wait", "keep")) == "keep"
        self.fair = flag("fair", fair)
        if self.fair and self.keep:
            raise ValueError("served must be 'wait' with fair=True, which rotates over all arms, got 'keep'")
        self.stage = LEARN
        self.c = 0  # the next slot, counted from the end of indexing; the first is 1
        self.word_bits = K if self.fair else bits_for(K)
        self.B = self.word_bits + 1  # slots between polls
        self.period = 0  # T_P
        self.signal = 0  # slot of the signal: the first one (leader), the player's own (others)
        self.word = 0
        self.garbled = False  # received a word that names no arm
        self.assigned = np.zeros(K, dtype=np.int64)  # leader: the arm of each rank
        self.cycle = np.zeros(K, dtype=np.int64)  # fair: the arms to hop through, ascending
        self.cycle_size = 0

    def choose(self, rng):
        """Return the arm of this slot, or -1 to idle."""
        if self.phase != PLAYING:
            return self.opening_choice(rng)
        if self.stage == DONE or self.stage == LISTEN:
            return self.arm
        if self.stage == SERVE:
            return self.serving_choice()
        if self.stage == WAIT:
            return IDLE
        if self.rank == 0:
            return self.explore_choice(self.polled(self.c))
        return self.arm if self.polled_rank(self.c) == self.rank else IDLE

    def observe(self, arm, reward, collided, rng):
        """Learn from the slot: the player's own reward, and whether it collided."""
        if self.phase != PLAYING:
            self.opening_observe(arm, collided)
            if self.phase == PLAYING:
                self.begin()
            return
        self.c += 1
        if self.stage == LEARN:
            if self.rank == 0:
                self.explore_observe(arm, reward, collided)
                if self.due:
                    self.next_pair(self.polled(self.c), self.polled(self.c + 1))
                    if not self.exploring:
                        self.found()
            elif collided:
                self.signal = self.c - 1
                self.stage = LISTEN
        elif self.stage == LISTEN:
            self.listen(collided)
        elif (
            self.c == self.signal + self.period
        ):  # the leader has informed all players, or a served player has waited
            self.settle()
        self.rotate()

    def begin(self):
        """Prepare the first slot after indexing."""
        self.c = 1
        self.period = (self.N - 1) * self.B
        if self.N == self.K:
            for k in range(self.K):
                self.cycle[k] = k
            self.cycle_size = self.K
            self.settle()
            self.rotate()
        elif self.rank == 0:
            tolerance = self.epsilon / self.N if self.shared else self.epsilon
            self.explore_from(self.N, tolerance)

    def polled_rank(self, slot):
        """Return the rank that polls in a slot, 0 if none does: rank r in m T_P + (r - 1) B, m >= 1."""
        if self.period == 0 or slot < self.period or slot % self.B != 0:
            return 0
        return (slot % self.period) // self.B + 1

    def polled(self, slot):
        """Return the arm that is polled in a slot, -1 if none is."""
        rank = self.polled_rank(slot)
        return self.seats[rank] if rank > 0 else IDLE

    def found(self):
        """Leader: the N best arms are known; wait for the next poll."""
        self.assign()
        self.stage = SERVE
        self.signal = max(self.period, (self.c - 1) // self.B * self.B + self.B)
        if self.N == 1:
            self.settle()

    def assign(self):
        """Map the N best arms to the ranks."""
        best = self.best_arms()
        if self.fair:
            for k in range(self.K):
                if self.chosen[k]:
                    self.cycle[self.cycle_size] = k
                    self.cycle_size += 1
        else:
            for i in range(self.N):
                self.assigned[(i + 1) % self.N] = best[i]  # rank r the r-th best, the leader the N-th
            if self.keep:
                self.assign_keeping(best)
            self.arm = int(self.assigned[0])

    def assign_keeping(self, best):
        """Let players keep reserved arms among the best; give the others the best arms that nobody reserved."""
        free = 0
        for i in range(self.N):
            rank = (i + 1) % self.N
            if self.chosen[self.seats[rank]]:
                self.assigned[rank] = self.seats[rank]
            else:
                while self.taken[best[free]]:
                    free += 1
                self.assigned[rank] = best[free]
                free += 1

    def serving_choice(self):
        """Return what the leader plays while it informs the others: signal, word or its own arm."""
        if self.c < self.signal:
            return self.arm
        receiver = self.polled_rank(self.c - self.c % self.B)
        seat = self.seats[receiver]
        position = self.c % self.B - 1
        if position < 0:
            return seat
        if self.fair:
            bit = self.chosen[position]
        else:
            bit = bit_of(self.assigned[receiver], position, self.word_bits) == 1
        if bit:
            return seat
        return IDLE if self.arm == seat else self.arm

    def listen(self, collided):
        """Receive one bit of the word; after the last one, the arm is known."""
        position = self.c - self.signal - 2
        if self.fair:
            if collided:
                self.cycle[self.cycle_size] = position
                self.cycle_size += 1
        else:
            self.word = 2 * self.word + (1 if collided else 0)
        if position == self.word_bits - 1:
            self.garbled = self.cycle_size == 0 if self.fair else self.word >= self.K
            if not self.fair and not self.garbled:
                self.arm = self.word
            self.stage = WAIT
            if self.starts_at_once():
                self.settle()

    def starts_at_once(self):
        """Whether a player that has just received its arm may play it in the next slot."""
        return self.keep or self.c == self.signal + self.period

    def settle(self):
        """Start playing the assigned arm in the next slot."""
        self.stage = DONE
        self.settled = True

    def rotate(self):
        """Fair: return the arm of the next slot."""
        if self.fair and self.cycle_size > 0 and (self.stage == DONE or self.stage == SERVE):
            self.arm = int(self.cycle[(self.rank + self.c) % self.cycle_size])
