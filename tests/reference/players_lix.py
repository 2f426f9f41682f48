"""The slow twin of DLC-LIX: followers go on playing and tell the leader what they earned."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.reference.players import (
    IDLE,
    Diary,
    Turns,
    adaptive_explore,
    binary,
    from_binary,
    opening,
    sit,
    slot,
    smallest_power,
    thesis_rounds,
)


@dataclass
class LixRules:
    """The inputs and options of DLC-LIX."""

    K: int
    epsilon: float
    delta: float
    tolerance: str = "eps/N"
    transfer: str = "exact"
    seating_rounds: int | None = None
    alarm: bool = False

    def goal(self, N: int) -> float:
        return self.epsilon / N if self.tolerance == "eps/N" else self.epsilon


def slow_dlc_lix(rules: LixRules) -> Callable[[Diary, Any], Turns]:
    """A maker of DLC-LIX players."""

    def player(me: Diary, rng: Any) -> Turns:
        rounds = rules.seating_rounds or thesis_rounds(rules.K, rules.delta)
        yield from opening(me, rng, rules.K, rounds, rules.alarm)
        if me.N == rules.K:
            yield from sit(me, me.arm)
        elif me.rank == 0:
            yield from leader(me, rules)
        else:
            yield from follower(me, rules)

    return player


class Code:
    """How an average of T_c plays travels: sums in units of 2^-g, or means in units of 2^-b."""

    def __init__(self, rules: LixRules, N: int, T_c: int):
        self.means, self.T_c, self.g = rules.transfer == "eps/2", T_c, 0
        if self.means:
            self.bits = 1
            while 2.0**-self.bits > rules.epsilon / 2.0:
                self.bits += 1
        else:
            if rules.epsilon > 0.0 and T_c > 0:
                while 1.0 / (T_c * 2**self.g) > rules.epsilon / (2.0 * N) and self.g < 40:
                    self.g += 1
            self.bits = smallest_power(T_c * 2**self.g + 1)

    def number(self, earned: float) -> int:
        if not self.means:
            return min(math.floor(earned * 2**self.g), self.T_c * 2**self.g)
        if self.T_c == 0:
            return 0
        return min(math.floor(earned / self.T_c * 2**self.bits), 2**self.bits - 1)

    def earned(self, number: int) -> float:
        if self.means:
            return number / 2**self.bits * self.T_c
        return min(number / 2**self.g, float(self.T_c))


def leader(me: Diary, rules: LixRules) -> Turns:
    """Lines 6-12: the best unreserved arm, against the arm of one follower after the other."""
    K, goal = rules.K, rules.goal(me.N)
    unreserved = {a for a in range(K) if a not in me.seats[1:]}
    for r in range(1, me.N):
        (best,) = yield from adaptive_explore(me, K, sorted(unreserved), 1, goal, rules.delta)
        there = me.seats[r]
        code = Code(rules, me.N, me.c - 1)
        yield from slot(me, there)  # the signal
        bits = []
        for _ in range(code.bits):
            _, collided = yield from slot(me, there)
            bits.append(int(collided))
        me.pulls[there], me.sums[there] = code.T_c, code.earned(from_binary(bits))
        moved = me.sums[best] / me.pulls[best] > me.sums[there] / me.pulls[there]
        for bit in binary((best - there) % K if moved else 0, smallest_power(K)):
            yield from slot(me, there if bit else best)
        if moved:
            unreserved = (unreserved - {best}) | {there}
    (best,) = yield from adaptive_explore(me, K, sorted(unreserved), 1, goal, rules.delta)
    yield from sit(me, best)


def follower(me: Diary, rules: LixRules) -> Turns:
    """Lines 14-15: play the reserved arm, answer the signal, take the arm that is given."""
    earned, collided = 0.0, False
    while not collided:
        reward, collided = yield from slot(me, me.arm)
        earned += reward
    code = Code(rules, me.N, me.c - 2)  # c is the slot after the signal's
    for bit in binary(code.number(earned), code.bits):
        yield from slot(me, me.arm if bit else IDLE)
    word = []
    for _ in range(smallest_power(rules.K)):
        _, collided = yield from slot(me, me.arm)
        word.append(int(collided))
    yield from sit(me, (me.arm + from_binary(word)) % rules.K)
