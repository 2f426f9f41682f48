"""The slow twin of DPE1: the leader explores, the others exploit the set of arms it told them.

One generator per player, as in `players`. Nothing of `weakfeedback` is imported here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.reference.players import IDLE, Diary, Turns, divergence, opening, sit, slot


@dataclass
class Opinion:
    """What a player holds besides its diary: the common set M, and the leader's arms to explore."""

    M: set[int] = field(default_factory=set)
    worst: int = -1
    wanted: list[int] = field(default_factory=list)
    changes: int = 0  # of M

    def cycle(self) -> list[int]:
        return sorted(self.M)

    def replace(self, low: int, high: int) -> None:
        self.M = (self.M - {low}) | {high}
        self.changes += 1


def slow_dpe1(K: int, opinions: list[Opinion] | None = None) -> Callable[[Diary, Any], Turns]:
    """A maker of DPE1 players; each appends its opinion to the list given, for others to read."""

    def player(me: Diary, rng: Any) -> Turns:
        mine = Opinion()
        if opinions is not None:
            opinions.append(mine)
        yield from every_free_play_counts(me, program(me, mine, rng, K))

    return player


def every_free_play_counts(me: Diary, turns: Turns) -> Turns:
    """Whatever the phase, a play without a collision is a sample."""
    arm = next(turns)
    while True:
        reward, collided = yield arm
        if arm != IDLE and not collided:
            me.pulls[arm] = me.pulls.get(arm, 0) + 1
            me.sums[arm] = me.sums.get(arm, 0.0) + reward
        arm = turns.send((reward, collided))


def program(me: Diary, mine: Opinion, rng: Any, K: int) -> Turns:
    yield from opening(me, rng, K, 1, alarm=True)
    if me.N == K:
        yield from sit(me, me.arm)
    mine.M = set(range(me.N))
    if me.rank == 0:
        yield from leader(me, mine, rng, K)
    else:
        yield from follower(me, mine, K)


def play(me: Diary, arm: int) -> Turns:
    """A slot; the arm played last is the arm it is on."""
    _, collided = yield from slot(me, arm)
    me.arm = arm
    return collided


# The leader


def leader(me: Diary, mine: Opinion, rng: Any, K: int) -> Turns:
    while True:
        c = me.c
        yield from play(me, leaders_arm(me, mine, rng))
        if c % me.N == 0:
            change = look(me, mine, K, c)
            while change is not None:
                yield from tell(me, mine, K, *change)
                change = look(me, mine, K, me.c - 1)


def leaders_arm(me: Diary, mine: Opinion, rng: Any) -> int:
    """Its place in the rotation; on the worst arm of M, half of the time an arm that may be better."""
    arm = mine.cycle()[me.c % me.N]
    if arm == mine.worst and mine.wanted:
        u = rng.random()
        if u >= 0.5:
            return mine.wanted[int(len(mine.wanted) * (2.0 * u - 1.0))]
    return arm


def look(me: Diary, mine: Opinion, K: int, c: int) -> tuple[int, int] | None:
    """At the end of slot c: the arms (out, in) of a change to be told, or else what to explore."""
    mean = {a: me.sums[a] / me.pulls[a] for a in me.pulls}
    while True:
        low = min((a for a in mine.M if a in mean), key=lambda a: (mean[a], a), default=None)
        high = max((a for a in mean if a not in mine.M), key=lambda a: (mean[a], -a), default=None)
        if low is None or high is None or not mean[high] > mean[low]:
            break
        if me.N > 1:
            return low, high
        mine.replace(low, high)
    mine.worst = -1 if low is None else low
    mine.wanted = [a for a in range(K) if a not in mine.M and worth_a_try(me, mean, low, a, c)]
    return None


def worth_a_try(me: Diary, mean: dict[int, float], low: int | None, a: int, c: int) -> bool:
    """Whether the KL-UCB index of arm a reaches the mean of the worst arm of M."""
    if a not in mean:
        return True
    if low is None:
        return False
    f = math.log(c) + 4.0 * math.log(max(1.0, math.log(c)))
    return mean[a] >= mean[low] or me.pulls[a] * divergence(mean[a], mean[low]) <= f


def tell(me: Diary, mine: Opinion, K: int, low: int, high: int) -> Turns:
    """Three parts: it stays where each follower meets it, then on the arm out, then on the arm in."""
    N = me.N
    here = mine.cycle()[(me.c - 1) % N]
    for arm in [here] * (N - 1) + [low] * N + [high] * K:
        yield from play(me, arm)
    mine.replace(low, high)


# A follower


def follower(me: Diary, mine: Opinion, K: int) -> Turns:
    while True:
        collided = yield from rotate(me, mine)
        if collided:
            yield from listen(me, mine, K)


def rotate(me: Diary, mine: Opinion) -> Turns:
    return (yield from play(me, mine.cycle()[(me.c + me.rank) % me.N]))


def listen(me: Diary, mine: Opinion, K: int) -> Turns:
    """After the meeting in slot s + N - r: what collides in the second part goes out, in the third comes in."""
    heard_out = heard_in = -1
    s = me.c - 1 - (me.N - me.rank)
    while me.c <= s + me.N - 1:
        yield from rotate(me, mine)
    while me.c <= s + 2 * me.N - 1:
        if (yield from rotate(me, mine)):
            heard_out = me.arm
    while me.c <= s + 2 * me.N + K - 1:
        if (yield from play(me, (me.c + me.rank) % K)):
            heard_in = me.arm
    if heard_out in mine.M and heard_in >= 0 and heard_in not in mine.M:
        mine.replace(heard_out, heard_in)
