"""Match: players with qualities of their own find the best assignment (beyond the thesis, after BEACON)."""

import numpy as np

from weakfeedback.kernels.matching import match
from weakfeedback.multiplayer.opening import IDLE, PLAYING, Opening, bit_of, bits_for
from weakfeedback.validate import integer, limited

MOST_ARMS = 500  # every player has room for a table of all pairs, since each may become the leader
TRY, TELL, PLAY, CALL, ASK, REPORT, MOVE = 0, 1, 2, 3, 4, 5, 6


def bits_of(samples):
    """Return b(n) = ceil(log2(n) / 2) + 2, the length of a word for the mean of n samples, by bit lengths alone.

    >>> [bits_of(n) for n in (1, 2, 4, 5, 16, 17, 64)]
    [2, 3, 3, 4, 4, 5, 5]
    """
    return (bits_for(samples) + 1) // 2 + 2


def word_of(total, samples):
    """Return the mean of n samples as a word of b(n) bits."""
    steps = 1 << bits_of(samples)
    return min(steps - 1, int(total / samples * steps))


class Match(Opening):
    """One of N players on K arms, each with its own means, whose leader finds the best assignment and tells it.

    Protocol
    --------
    1. Opening with the alarm and one slot of orthogonalisation per block (as DPE1): N, ranks; rank 0 leads.
    2. For n0 K slots rank r plays arm (t + r) mod K: n0 samples of every pair, no collisions. Then ranks 1, ..., N - 1
       in turn send their K means, as words of b(n0) bits, to the leader on arm 0: rank r plays arm 0 for a 1 and arm r
       for a 0; all others wait on the arm of their rank. These slots are no samples.
    3. From then on a follower plays its arm. A collision is a call of the leader. If the next slot is free it REPORTs:
       b(n) slots, in which it plays its arm for a 1 and idles for a 0, n being its free plays of this arm. If the next
       slot collides too, it hears a MOVE: ceil(log2 K) + ceil(log2 N) bits, a collision for a 1: (new - old) mod K, and
       how many messages of this length follow. It stays until they are over; then all move in the same slot.
    4. The leader knows every follower's number of samples. It plays its arm for L slots; calls every follower whose
       samples of its arm are ``growth`` times those at the last report; draws ``draws`` tables of means, Beta(1 + n m,
       1 + n (1 - m)) for n reported samples with mean m; finds the best assignment of each, and takes the one whose
       least-known pair has the fewest samples (the first drawn of several); tells it to those that change; L = max(n0,
       (growth - 1) times these fewest samples).

    b(n) = ceil(log2(n) / 2) + 2: the word floor(mean 2^b) is read as (word + 1/2) / 2^b, with an error of at most
    1 / (8 sqrt n), a quarter of the largest standard error 1 / (2 sqrt n). After the opening the only collisions are
    those between the leader and the player it calls.

    Needs N <= K, common slot numbers from the first slot on, no lost slot and true collision flags. One lost slot, or a
    player that leaves, ruins it; ``fault`` counts what shows that this happened. No bound of the regret is known.

    Draws: one ``rng.random()`` per slot of orthogonalisation until the first free play. Leader, after each frame:
    ``draws`` times, for ranks 0, ..., N - 1 and arms 0, ..., K - 1, one ``rng.beta``.

    Parameters
    ----------
    arms : integer from 2 to 500
    n0 : integer >= 1
        Samples of every pair at the beginning, and the shortest frame.
    growth : integer >= 2
        A pair is reported again when it has so many times the samples.
    draws : integer >= 1

    Attributes
    ----------
    fault : int
        Collisions where none can be, and calls that met nobody: above 0, slots were lost or players came or went.
    N, rank, restarts, arm
        As for ``Dpe1``.
    settled : bool
        Always False: the leader never stops.

    References
    ----------
    C. Shi, W. Xiong, C. Shen, J. Yang, Heterogeneous multi-player multi-armed bandits: closing the gap and
    generalization, NeurIPS 2021 (BEACON).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> player, last = Match(arms=3), np.zeros(3, dtype=int)
    >>> for slot in range(2000):
    ...     arm = player.choose(rng)
    ...     player.observe(arm, float(rng.random() < [0.2, 0.9, 0.6][arm]), False, rng)
    ...     last[arm] += slot >= 1900
    >>> player.N, last.tolist(), player.fault
    (1, [0, 100, 0], 0)
    """

    in_short = "finds the best assignment if players have own qualities"
    delay_safe = False
    survives = False
    needs_sensing = True

    def __init__(self, arms, n0=16, growth=4, draws=16):
        K = limited("arms", arms, 2, MOST_ARMS)
        self.start_opening(K, 1, True)
        self.n0 = integer("n0", n0, 1)
        self.growth = integer("growth", growth, 2)
        self.draws = integer("draws", draws, 1)
        self.stage = TRY
        self.c = 0  # elapsed slots of the stage
        self.length = 0  # its slots
        self.word = 0  # the message being sent or heard
        self.waiting = 0  # follower: slots until it moves
        self.next = IDLE  # the arm to move to, -1: none
        self.other = 0  # TELL: who sends; leader: the follower of the dialog
        self.left = 0  # leader: MOVE messages to come
        self.fault = 0
        self.pulls = np.zeros(K, dtype=np.int64)  # own samples of each arm
        self.sums = np.zeros(K)
        # the leader's table, by rank and arm
        self.samples = np.zeros((K, K), dtype=np.int64)  # free plays so far
        self.told = np.zeros((K, K), dtype=np.int64)  # samples at the last report
        self.means = np.zeros((K, K))  # reported
        self.place = np.zeros(K, dtype=np.int64)  # the arm of each rank
        self.plan = np.zeros(K, dtype=np.int64)  # and its next one

    # -- slots

    def choose(self, rng):
        """Return the arm of this slot."""
        if self.phase != PLAYING:
            return self.opening_choice(rng)
        if self.stage == TRY:
            return (self.c + self.rank) % self.K
        if self.stage == TELL:
            return 0 if self.rank == self.other and self.told_bit() == 1 else self.rank
        if self.rank > 0:
            return IDLE if self.stage == REPORT and self.sent_bit() == 0 else self.arm
        return int(self.place[self.other]) if self.meets() else self.arm

    def meets(self):
        """Leader: whether it plays the arm of the follower of the dialog."""
        if self.stage == CALL or self.stage == REPORT:
            return True
        return self.stage == MOVE and (self.c == 0 or self.sent_bit() == 1)

    def sent_bit(self):
        """The bit of this slot; the first slot of a MOVE only says that it is one."""
        if self.stage == MOVE:
            return bit_of(self.word, self.c - 1, self.length - 1)
        return bit_of(self.word, self.c, self.length)

    def told_bit(self):
        """The bit of this slot of the first report of all means."""
        b = bits_of(self.n0)
        arm = self.c // b
        return bit_of(word_of(self.sums[arm], self.pulls[arm]), self.c % b, b)

    def observe(self, arm, reward, collided, rng):
        """Learn from the slot: the player's own reward, and whether it collided."""
        if self.phase != PLAYING:
            self.opening_observe(arm, collided)
            if self.phase == PLAYING:
                self.length = self.n0 * self.K
            return
        if arm >= 0 and not collided and self.stage != TELL:
            self.pulls[arm] += 1
            self.sums[arm] += reward
        self.c += 1
        if self.stage == TRY:
            self.fault += 1 if collided else 0
            if self.c == self.length:
                self.end_of_tries(rng)
        elif self.stage == TELL:
            self.observe_tell(arm, collided)
            if self.c == self.length:
                self.end_of_first_report(rng)
        elif self.rank > 0:
            self.observe_follower(arm, collided)
        else:
            self.observe_leader(arm, collided)
            if self.c == self.length:
                self.next_step(rng)

    def enter_stage(self, stage, length):
        """Begin a stage with the next slot."""
        self.stage = stage
        self.length = int(length)
        self.c = 0
        self.word = 0

    # -- the first report

    def end_of_tries(self, rng):
        """Everybody has n0 samples of each arm."""
        self.arm = self.rank
        for r in range(self.N):
            self.place[r] = r
            for k in range(self.K):
                self.samples[r, k] = self.n0
                self.told[r, k] = self.n0
        self.other = 1
        self.enter_stage(TELL, self.K * bits_of(self.n0))
        if self.N == 1:
            self.begin_frames(rng)

    def observe_tell(self, arm, collided):
        """The leader hears a bit of the follower that sends; a follower collides on arm 0 only, and always."""
        if self.rank > 0:
            self.fault += 1 if collided != (arm == 0) else 0
            return
        b = bits_of(self.n0)
        self.word = 2 * self.word + (1 if collided else 0)
        if self.c % b == 0:
            self.means[self.other, self.c // b - 1] = (self.word + 0.5) / (1 << b)
            self.word = 0

    def end_of_first_report(self, rng):
        """The next follower sends, or all have."""
        self.other += 1
        if self.other < self.N:
            self.enter_stage(TELL, self.length)
        else:
            self.begin_frames(rng)

    def begin_frames(self, rng):
        """The leader plans the first assignment; followers play their arms."""
        self.enter_stage(PLAY, 0)
        if self.rank == 0:
            self.make_plan(rng)
            self.start_moves()

    # -- a follower

    def observe_follower(self, arm, collided):
        """Hear calls and words, and send reports."""
        if self.waiting > 0:
            self.fault += 1 if collided else 0
            self.waiting -= 1
            self.move_on()
        elif self.stage == PLAY:
            if collided:
                self.enter_stage(ASK, 1)
        elif self.stage == ASK:
            if collided:
                self.enter_stage(MOVE, bits_for(self.K) + bits_for(self.N))
            else:
                n = self.pulls[self.arm]
                self.enter_stage(REPORT, bits_of(n))
                self.word = int(word_of(self.sums[self.arm], n))
        elif self.stage == REPORT:
            self.fault += 1 if arm >= 0 and not collided else 0
            if self.c == self.length:
                self.enter_stage(PLAY, 0)
        else:
            self.word = 2 * self.word + (1 if collided else 0)
            if self.c == self.length:
                behind = bits_for(self.N)
                self.next = (self.arm + (self.word >> behind)) % self.K
                self.waiting = (self.word & ((1 << behind) - 1)) * (2 + self.length)
                self.enter_stage(PLAY, 0)
                self.move_on()

    def move_on(self):
        """Move when all messages are over."""
        if self.waiting == 0 and self.next >= 0:
            self.arm = self.next
            self.next = IDLE

    # -- the leader

    def observe_leader(self, arm, collided):
        """Count everybody's samples, and hear the bits of reports."""
        meeting = arm != self.arm
        for r in range(1, self.N):
            if not meeting or r != self.other:
                self.samples[r, self.place[r]] += 1
        if self.stage == REPORT:
            self.word = 2 * self.word + (1 if collided else 0)
        elif collided != meeting:
            self.fault += 1

    def next_step(self, rng):
        """The step of a frame after the one that is over."""
        if self.stage == CALL:
            if self.left > 0:
                self.start_move()
            else:
                self.enter_stage(ASK, 1)
        elif self.stage == ASK:
            self.enter_stage(REPORT, bits_of(self.samples[self.other, self.place[self.other]]))
        elif self.stage == MOVE:
            self.left -= 1
            if self.left > 0:
                self.find_mover()
            else:
                self.start_frame()
        else:
            if self.stage == REPORT:
                arm = self.place[self.other]
                self.means[self.other, arm] = (self.word + 0.5) / (1 << self.length)
                self.told[self.other, arm] = self.samples[self.other, arm]
                self.other += 1
            else:
                self.other = 1
            self.find_reporter(rng)

    def find_reporter(self, rng):
        """Call the next follower whose samples have grown enough, or plan."""
        while self.other < self.N:
            arm = self.place[self.other]
            if self.samples[self.other, arm] >= self.growth * self.told[self.other, arm]:
                self.enter_stage(CALL, 1)
                return
            self.other += 1
        self.make_plan(rng)
        self.start_moves()

    def make_plan(self, rng):
        """Draw tables of means; take the best assignment that can be checked soonest."""
        N, K = self.N, self.K
        for k in range(K):
            self.samples[0, k] = self.pulls[k]
            self.told[0, k] = self.pulls[k]
            self.means[0, k] = self.sums[k] / self.pulls[k]
        drawn = np.empty((N, K))
        matched = np.empty(N, dtype=np.int64)
        fewest = -1
        for _ in range(self.draws):
            for r in range(N):
                for k in range(K):
                    n = self.told[r, k]
                    good = n * self.means[r, k]
                    drawn[r, k] = rng.beta(1.0 + good, 1.0 + n - good)
            match(drawn, matched)
            least = self.samples[0, matched[0]]
            for r in range(1, N):
                least = min(least, self.samples[r, matched[r]])
            if fewest < 0 or least < fewest:
                fewest = least
                for r in range(N):
                    self.plan[r] = matched[r]

    def start_moves(self):
        """Tell everybody who changes, one after the other."""
        self.left = 0
        for r in range(1, self.N):
            if self.plan[r] != self.place[r]:
                self.left += 1
        self.other = 0
        if self.left > 0:
            self.find_mover()
        else:
            self.start_frame()

    def find_mover(self):
        """Call the next follower that changes."""
        self.other += 1
        while self.plan[self.other] == self.place[self.other]:
            self.other += 1
        self.enter_stage(CALL, 1)

    def start_move(self):
        """The message: how far to move, and how many messages follow."""
        self.enter_stage(MOVE, 1 + bits_for(self.K) + bits_for(self.N))
        shift = (self.plan[self.other] - self.place[self.other]) % self.K
        self.word = int((shift << bits_for(self.N)) + self.left - 1)

    def start_frame(self):
        """All are on their arms of the plan."""
        fewest = self.pulls[self.plan[0]]
        self.place[0] = self.plan[0]
        for r in range(1, self.N):
            self.place[r] = self.plan[r]
            fewest = min(fewest, self.samples[r, self.plan[r]])
        self.arm = int(self.plan[0])
        self.enter_stage(PLAY, max(self.n0, (self.growth - 1) * fewest))
