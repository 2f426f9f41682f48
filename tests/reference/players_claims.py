"""The slow twin of Claims: a player's life told from top to bottom, as the text tells it.

One generator per player, as in `players`. Nothing of `weakfeedback` is imported here.
"""

import math
from typing import Any

from tests.reference.players import IDLE, Turns


class SlowClaims:
    """A player's notes, and its life as a generator of slots."""

    def __init__(self, K: int, rng: Any, recheck: float | None = None, patience: float = 0.5):
        self.K, self.rng, self.recheck, self.patience = K, rng, recheck, patience
        self.now = 0  # the number of the coming slot
        self.doing = "SEEK"
        self.home: int | None = None
        self.n, self.s, self.h = [0] * K, [0.0] * K, [0] * K
        self.since, self.due = [0] * K, [0.0] * K
        self.pause = K

    def life(self) -> Turns:
        while True:
            arm = yield from self.seek()
            while arm is not None:
                arm = yield from self.own(arm)

    def slot(self, arm: int) -> Turns:
        """One slot; whether it collided. During what follows, ``now`` is still the slot just played."""
        reward, collided = yield from self.next_slot(arm)
        if arm != IDLE and not collided:
            self.n[arm] += 1
            self.s[arm] += reward
            self.h[arm] = 0
        return collided

    def next_slot(self, arm: int) -> Turns:
        seen = yield arm
        return seen

    def over(self) -> None:
        """The slot is over, with all that followed from it."""
        self.now += 1

    def seek(self) -> Turns:
        """Until two free plays in a row on one arm; that arm."""
        self.home, collisions, limit = None, 0, 6 * self.K
        while True:
            self.doing = "SEEK"
            arm = self.largest([k for k in range(self.K) if self.due[k] <= self.now])
            if (yield from self.slot(arm)):
                self.occupied(arm)
            else:
                if limit == 6 * self.K:  # it has not been silent yet
                    collisions = 0
                self.doing = "CLAIM"
                self.over()
                if not (yield from self.slot(arm)):
                    self.pause = self.K
                    return arm
                self.doing = "SEEK"
                self.due[arm] = self.now + self.K * self.rng.random()
            collisions += 1
            silence = 0
            if collisions == limit:
                limit += self.K
                silence = max(1, int(self.pause * (0.5 + self.rng.random())))
                self.pause = min(2 * self.pause, 50 * self.K)
            self.over()
            for _ in range(silence):
                yield IDLE
                self.over()

    def own(self, home: int) -> Turns:
        """As long as it owns this arm. The next arm that it owns, or None if it has to seek."""
        self.home, self.doing, heat, away = home, "HOME", 0, True
        while True:
            self.over()
            others = [k for k in range(self.K) if k != home and self.due[k] <= self.now]
            arm = home if away or not others else self.largest(sorted([home, *others]))
            collided = yield from self.slot(arm)
            away = arm != home
            if not away:
                heat = heat + 1 if collided else max(0, heat - 1)
                if heat == 6:
                    heat = 0
                    if self.rng.random() < 0.5:
                        return self.evicted()
            elif collided:
                self.occupied(arm)
            elif self.mean(arm) > self.mean(home):
                self.doing = "MOVE"
                self.over()
                if not (yield from self.slot(arm)):
                    self.due[home] = self.now + 4
                    return arm
                self.occupied(arm)
                self.doing = "RECLAIM"
                if not (yield from self.reclaim(home)):
                    return self.evicted()
                self.doing = "HOME"

    def reclaim(self, home: int) -> Turns:
        """Whether it has its home again."""
        seen: list[bool] = []
        while True:
            self.over()
            seen.append((yield from self.slot(home)))
            if seen[-2:] == [False, False]:
                return True
            if seen.count(True) == 2:
                return False

    def evicted(self) -> None:
        self.home, self.doing = None, "SEEK"
        self.over()

    def largest(self, arms: list[int]) -> int:
        """The arm with the largest draw."""
        if not arms:
            return int(self.K * self.rng.random())
        drawn = [(self.rng.beta(1.0 + self.s[k], 1.0 + self.n[k] - self.s[k]), -k) for k in arms]
        return -max(drawn)[1]

    def mean(self, k: int) -> float:
        return (self.s[k] + 1.0) / (self.n[k] + 2.0)

    def occupied(self, k: int) -> None:
        if self.h[k] == 0:
            self.since[k] = self.now
        self.h[k] += 1
        wait = self.patience * (self.now - self.since[k])
        if self.recheck is not None:
            wait = min(self.recheck, wait)
        scale = 1.0
        if self.home is not None:
            mine, there = self.mean(self.home), self.mean(k)
            scale = math.sqrt((there + mine) / max(0.02, there - mine))
        self.due[k] = self.now + max(2.0 * self.K, scale * wait) * (0.5 + self.rng.random())
