"""Claims: players that own arms, and move to a better one when it is free (beyond the thesis)."""

import math

import numpy as np

from weakfeedback.multiplayer.opening import IDLE
from weakfeedback.validate import MOST_ARMS, limited, number

NOBODY = -1  # no arm
SEEK, CLAIM, HOME, MOVE, RECLAIM = 0, 1, 2, 3, 4
HOT = 6  # collisions at home, less free plays there, at which an owner may give up
LEAST_GAIN = 0.02  # smallest difference of means that is told apart when arms are asked again
LEFT = 4  # slots for which a player does not come back to the arm it left
CROWDED = 6  # times K collisions without a free play: be silent for a while
LONGEST_PAUSE = 50  # times K


class Claims:
    """One of any number of players that come and go; each takes an arm that is free, and a better one when it is.

    Protocol
    --------
    Per arm k: n_k free plays, s_k their rewards, h_k collisions in a row, ``due_k`` the slot from which it may be asked
    again; mean_k = (s_k + 1) / (n_k + 2); a draw is Beta(1 + s_k, 1 + n_k - s_k). Every free play is a sample.

    1. SEEK (no arm): play the largest draw among the arms with due_k <= t, a uniform one if there is none. Free: CLAIM
       it. Collided: it is occupied. After 6 K collisions without a free play be silent for pause U(.5, 1.5) slots,
       pause = K; from then on after every further K collisions, with pause 2 K, 4 K, ... up to 50 K. All of this begins
       again after owning an arm.
    2. CLAIM: play it once more. Free: own it. Collided: SEEK, due_k = t + K U(0, 1).
    3. HOME (owner): play home in the slot after owning and after any slot away. Otherwise play the largest draw of home
       and the arms with due_k <= t. Away on k: collided, it is occupied; free and mean_k > mean_home, MOVE; free
       otherwise, stay the owner of home. At home: heat + 1 if it collided, else - 1 (not below 0); at heat 6 give up
       home (SEEK) with probability 1/2, else heat 0.
    4. MOVE: play k again. Free: own k, and due_home = t + 4. Collided: it is occupied, RECLAIM.
    5. RECLAIM: play home until two free plays in a row (HOME) or two collisions in all (SEEK).

    Occupied: since_k = t if h_k = 0; h_k + 1; due_k = t + U(.5, 1.5) max(2 K, scale w), w = patience (t - since_k) but
    at most recheck, scale = sqrt((mean_k + mean_home) / max(.02, mean_k - mean_home)), 1 without a home.

    Without lost slots no arm ever has two owners (players in state HOME): to own an arm takes free plays in two
    consecutive slots, and an owner is never away for two. No bound of the regret is known.

    Needs common slot boundaries and collision sensing, and means that are the same for all players. It needs to know
    neither the number of players nor the horizon nor the number of the slot, and sends no messages.

    Draws: in SEEK and HOME, unless only home may be played, one ``rng.beta`` for each arm that may, ascending (ties go
    to the smaller arm); ``int(K u)`` if there is none. One ``rng.random()`` u for each U, with low + (high - low) u,
    for an occupied arm before that of the silence; and one at heat 6 (u < 1/2 gives up).

    Parameters
    ----------
    arms : integer >= 2
    recheck : number > 0, optional
        Longest mean time in slots before an occupied arm is asked again, times ``scale``: the departure of another
        player is noticed in bounded time, at a price linear in time. None: the time grows with how long the arm has
        been occupied.
    patience : number > 0
        The share of that time.

    Attributes
    ----------
    holds : bool
        Whether it owns an arm: state HOME, not while it tries another one.
    arm : int
        Its home; without one, the arm played last.
    quiet_slots : int
        Slots since it took its home, 0 without one.
    settled : bool
        Always False: it looks for better arms for ever.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> player, plays = Claims(arms=3), np.zeros(3, dtype=int)
    >>> for slot in range(1000):
    ...     arm = player.choose(rng)
    ...     player.observe(arm, float(rng.random() < [0.2, 0.9, 0.6][arm]), False, rng)
    ...     plays[arm] += 1
    >>> player.holds, player.arm, int(plays.argmax())
    (True, 1, 1)
    """

    in_short = "moves up to better free arms; others may come and go"
    delay_safe = False
    survives = True  # others may join, leave, crash and lose slots
    needs_sensing = True

    def __init__(self, arms, recheck=None, patience=0.5):
        self.K = limited("arms", arms, 2, MOST_ARMS)
        self.recheck = 0.0 if recheck is None else number("recheck", recheck, above=0.0)  # 0: no limit
        self.patience = number("patience", patience, above=0.0)
        self.t = 0  # elapsed slots
        self.state = SEEK
        self.home = NOBODY  # in HOME, MOVE and RECLAIM
        self.target = NOBODY  # in CLAIM and MOVE
        self.stay = False  # HOME: play home in the coming slot
        self.heat = 0
        self.frees = 0  # RECLAIM: free plays in a row
        self.hits = 0  # RECLAIM: collisions
        self.misses = 0  # SEEK and CLAIM: collisions, until the first silence since the last free play
        self.pause = self.K
        self.silent = 0  # SEEK: slots of silence to come
        self.taken_at = 0  # the number of slots after which it took its home
        self.pulls = np.zeros(self.K, dtype=np.int64)  # n_k
        self.sums = np.zeros(self.K)  # s_k
        self.rows = np.zeros(self.K, dtype=np.int64)  # h_k
        self.since = np.zeros(self.K, dtype=np.int64)
        self.due = np.zeros(self.K)
        self.arm = IDLE
        self.settled = False

    @property
    def holds(self):
        """Whether it owns an arm."""
        return self.state == HOME

    @property
    def quiet_slots(self):
        """Slots since it took its home."""
        return self.t - self.taken_at if self.home >= 0 else 0

    def choose(self, rng):
        """Return the arm of this slot."""
        if self.silent > 0:
            return IDLE
        if self.state == CLAIM or self.state == MOVE:
            return self.target
        if self.state == RECLAIM or self.stay:
            return self.home
        return self.largest_draw(rng)

    def largest_draw(self, rng):
        """Draw a mean for home and every arm that is due."""
        t, home, due = self.t, self.home, self.due  # most of a player's time is spent here
        asked = 0
        for k in range(self.K):
            asked += k != home and due[k] <= t
        if asked == 0:
            return home if home >= 0 else int(self.K * rng.random())
        best = NOBODY
        highest = -1.0
        for k in range(self.K):
            if k == home or due[k] <= t:
                drawn = rng.beta(1.0 + self.sums[k], 1.0 + self.pulls[k] - self.sums[k])
                if drawn > highest:
                    highest = drawn
                    best = k
        return best

    def observe(self, arm, reward, collided, rng):
        """Learn from the slot: the player's own reward, and whether it collided."""
        if arm >= 0 and not collided:
            self.pulls[arm] += 1
            self.sums[arm] += reward
            self.rows[arm] = 0
        if self.state == HOME:
            self.observe_home(arm, collided, rng)
        elif self.state == MOVE:
            self.observe_move(arm, collided, rng)
        elif self.state == RECLAIM:
            self.observe_reclaim(collided)
        elif self.silent > 0:
            self.silent -= 1
        else:
            self.observe_seek(arm, collided, rng)
        self.t += 1
        self.arm = self.home if self.home >= 0 else arm

    def observe_seek(self, arm, collided, rng):
        """SEEK and CLAIM."""
        if not collided:
            if self.pause == self.K:  # not silent yet
                self.misses = 0
            if self.state == CLAIM:
                self.own(arm)
            else:
                self.state = CLAIM
                self.target = arm
            return
        if self.state == CLAIM:
            self.state = SEEK
            self.due[arm] = self.t + self.K * rng.random()
        else:
            self.occupied(arm, rng)
        self.misses += 1
        if self.misses >= CROWDED * self.K:
            self.misses -= self.K
            self.silent = max(1, int(self.pause * (0.5 + rng.random())))
            self.pause = min(2 * self.pause, LONGEST_PAUSE * self.K)

    def observe_home(self, arm, collided, rng):
        """HOME: at home, or away for one slot."""
        self.stay = arm != self.home
        if arm == self.home:
            self.heat = self.heat + 1 if collided else max(0, self.heat - 1)
            if self.heat == HOT:
                self.heat = 0
                if rng.random() < 0.5:
                    self.lose_home()
        elif collided:
            self.occupied(arm, rng)
        elif self.mean(arm) > self.mean(self.home):
            self.state = MOVE
            self.target = arm

    def observe_move(self, arm, collided, rng):
        """MOVE: the second slot away."""
        if collided:
            self.occupied(arm, rng)
            self.state = RECLAIM
            self.frees = 0
            self.hits = 0
        else:
            self.due[self.home] = self.t + LEFT
            self.own(arm)

    def observe_reclaim(self, collided):
        """RECLAIM: home may belong to somebody else by now."""
        self.frees = 0 if collided else self.frees + 1
        self.hits += 1 if collided else 0
        if self.frees == 2:
            self.state = HOME
            self.stay = True
        elif self.hits == 2:
            self.lose_home()

    def own(self, arm):
        """Become the owner of an arm."""
        self.state = HOME
        self.home = arm
        self.stay = True
        self.heat = 0
        self.pause = self.K
        self.misses = 0
        self.taken_at = self.t + 1

    def lose_home(self):
        """Own nothing, and seek."""
        self.state = SEEK
        self.home = NOBODY
        self.stay = False

    def occupied(self, k, rng):
        """Set when to ask again for an arm that somebody plays."""
        if self.rows[k] == 0:
            self.since[k] = self.t
        self.rows[k] += 1
        scale = 1.0
        if self.home >= 0:
            mine = self.mean(self.home)
            scale = math.sqrt((self.mean(k) + mine) / max(LEAST_GAIN, self.mean(k) - mine))
        wait = self.patience * (self.t - self.since[k])
        if self.recheck > 0.0:
            wait = min(self.recheck, wait)
        self.due[k] = self.t + max(2.0 * self.K, scale * wait) * (0.5 + rng.random())

    def mean(self, k):
        """The estimated mean of an arm."""
        return (self.sums[k] + 1.0) / (self.pulls[k] + 2.0)

    def miss(self, slots):
        """Be told that slots went by without this player: what it owned may have a new owner, so it seeks."""
        self.lose_home()
        self.silent = 0
        self.t += slots
