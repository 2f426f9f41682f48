"""How players that observe only their own collisions take different arms and count each other.

Orthogonalisation and player indexing are the first two phases of DLC and DLC-LIX (thesis, section 5.3), and of
SIC-MMAB. All three inherit them from here.
"""

import math

import numpy as np

IDLE = -1
SEATING, SWEEP, INDEXING, PLAYING = 0, 1, 2, 3


def seating_length(arms, delta):
    """Return T_RP = ceil(log(delta / K) / log(1 - 1 / (4 K))), within which all sit with probability 1 - delta.

    It is very loose: 210 slots for 10 arms, where simulated runs needed at most 84.

    >>> seating_length(10, 0.05)
    210
    """
    return math.ceil(math.log(delta / arms) / math.log(1.0 - 1.0 / (4.0 * arms)))


def bits_for(values):
    """Return the smallest b with 2^b >= values: the length in bits of a word that can take ``values`` values.

    >>> bits_for(1), bits_for(2), bits_for(9), bits_for(16)
    (0, 1, 4, 4)
    """
    bits = 0
    room = 1
    while room < values:
        room *= 2
        bits += 1
    return bits


def bit_of(word, position, length):
    """Return bit ``position`` of a word of ``length`` bits, the most significant first.

    >>> [bit_of(6, k, 4) for k in range(4)]
    [0, 1, 1, 0]
    """
    return (word >> (length - 1 - position)) & 1


def indexing_arm(arm, slot, arms):
    """Return the arm of a player with reserved arm ``arm`` in ``slot`` = 1, ..., 2 K - 1 of player indexing.

    With i = arm + 1: arm i for 2 i slots, then i + 1, ..., K, then arm i again. Players i < j meet in slot i + j.

    >>> [indexing_arm(0, slot, 3) for slot in range(1, 6)], [indexing_arm(2, slot, 3) for slot in range(1, 6)]
    ([0, 0, 1, 2, 0], [2, 2, 2, 2, 2])
    """
    i = arm + 1
    if 2 * i < slot <= arms + i:
        return slot - i - 1
    return arm


class Opening:
    """The state and steps of orthogonalisation, alarm sweep and indexing, a base class for players.

    Orthogonalisation (T_RP slots): play an arm drawn uniformly until a play is free of collisions, then stay
    on that arm and ignore collisions. The last arm played is the reserved arm. A player that never had a free
    play knows it: ``failed``.

    Alarm sweep (K slots, only with the alarm): a player without a seat visits arms 0, ..., K - 1 in turn, the others
    stay. A player that has no seat, or was hit, repeats the orthogonalisation and the sweep; seats are kept. If any
    player has no seat, every other player is hit or has none either, so all repeat together.

    Indexing (2 K - 1 slots): see ``indexing_arm``. A collision in slot s tells player i of a player on arm s - i.
    Afterwards ``N``, ``seats`` (all reserved arms, ascending) and its own ``rank`` are known. Rank 0 leads.
    """

    def start_opening(self, arms, rounds, alarm):
        """Create the fields (called by ``__init__``)."""
        self.K = arms
        self.seating_rounds = rounds  # T_RP
        self.alarm = bool(alarm)
        self.phase = SEATING
        self.slot = 0  # elapsed slots of the phase
        self.seated = False  # whether a play was free
        self.failed = False  # orthogonalisation ended without a free play
        self.hit = False  # in the sweep
        self.restarts = 0
        self.taken = np.zeros(arms, dtype=np.bool_)  # arms known to be reserved
        self.seats = np.zeros(arms, dtype=np.int64)  # reserved arm of rank 0, 1, ..., N - 1
        self.N = 0  # number of players, 0 until it is known
        self.rank = 0
        self.arm = IDLE
        self.settled = False

    def opening_choice(self, rng):
        """Return the arm of this slot of the opening."""
        if self.phase == SEATING:
            return self.arm if self.seated else int(self.K * rng.random())
        if self.phase == SWEEP:
            return self.arm if self.seated else self.slot
        return indexing_arm(self.arm, self.slot + 1, self.K)

    def opening_observe(self, arm, collided):
        """Learn from this slot; ``phase`` is PLAYING when the opening is over."""
        self.slot += 1
        if self.phase == SEATING:
            if not self.seated:
                self.arm = arm
                self.seated = not collided
            if self.slot == self.seating_rounds:
                self.failed = not self.seated
                self.enter(SWEEP if self.alarm else INDEXING)
        elif self.phase == SWEEP:
            if collided:
                self.hit = True
            if self.slot == self.K:
                if self.hit or not self.seated:
                    self.restarts += 1
                    self.enter(SEATING)
                else:
                    self.enter(INDEXING)
        else:
            other = self.slot - (self.arm + 1) - 1
            if collided and 0 <= other < self.K:
                self.taken[other] = True
            if self.slot == 2 * self.K - 1:
                self.count_players()
                self.enter(PLAYING)

    def enter(self, phase):
        """Begin a phase."""
        self.phase = phase
        self.slot = 0
        self.hit = False

    def count_players(self):
        """Compute N, the seats and the player's own rank."""
        self.taken[self.arm] = True
        for k in range(self.K):
            if self.taken[k]:
                self.seats[self.N] = k
                if k == self.arm:
                    self.rank = self.N
                self.N += 1
