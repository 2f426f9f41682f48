"""The slow twin of DLC: the leader explores alone, the others poll and wait for their arm."""

from collections.abc import Callable, Sequence
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
    slot,
    smallest_power,
    thesis_rounds,
)


@dataclass
class DlcRules:
    """The inputs and options of DLC."""

    K: int
    epsilon: float
    delta: float
    tolerance: str = "eps/N"
    served: str = "wait"
    seating_rounds: int | None = None
    alarm: bool = False
    fair: bool = False

    def goal(self, N: int) -> float:
        return self.epsilon / N if self.tolerance == "eps/N" else self.epsilon


def slow_dlc(rules: DlcRules) -> Callable[[Diary, Any], Turns]:
    """A maker of DLC players."""

    def player(me: Diary, rng: Any) -> Turns:
        K = rules.K
        rounds = rules.seating_rounds or thesis_rounds(K, rules.delta)
        yield from opening(me, rng, K, rounds, rules.alarm)
        if me.N == K:
            yield from finally_play(me, rules, me.arm, list(range(K)))
        elif me.rank == 0:
            yield from leader(me, rules)
        else:
            yield from follower(me, rules)

    return player


def word_length(rules: DlcRules) -> int:
    return rules.K if rules.fair else smallest_power(rules.K)


def final_arm(me: Diary, rules: DlcRules, arm: int, cycle: Sequence[int]) -> int:
    """The arm of the coming slot for a player that knows its place."""
    return cycle[(me.rank + me.c) % len(cycle)] if rules.fair and cycle else arm


def finally_play(me: Diary, rules: DlcRules, arm: int, cycle: Sequence[int]) -> Turns:
    me.settled = True
    while True:
        me.arm = final_arm(me, rules, arm, cycle)
        yield from slot(me, me.arm)


def timetable(me: Diary, rules: DlcRules) -> Callable[[int], int]:
    """P(r, m) = m T_P + (r - 1) B_K, m >= 1, read backwards: the rank that polls in slot c, or 0."""
    B = word_length(rules) + 1
    T_P = (me.N - 1) * B

    def rank(c: int) -> int:
        for r in range(1, me.N):
            m, rest = divmod(c - (r - 1) * B, T_P)
            if rest == 0 and m >= 1:
                return r
        return 0

    return rank


def assignment(me: Diary, rules: DlcRules, top: Sequence[int]) -> list[int]:
    """The arm of every rank, from the top N arms, best first."""
    if rules.served == "wait":
        return [top[-1], *top[:-1]]
    vacant = [a for a in top if a not in me.seats]
    given = {r: me.seats[r] for r in range(me.N) if me.seats[r] in top}
    for r in [*range(1, me.N), 0]:
        if r not in given:
            given[r] = vacant.pop(0)
    return [given[r] for r in range(me.N)]


def leader(me: Diary, rules: DlcRules) -> Turns:
    rank = timetable(me, rules)

    def polled(c: int) -> int:
        return me.seats[rank(c)] if rank(c) else IDLE

    arms = list(range(rules.K))
    top = yield from adaptive_explore(me, rules.K, arms, me.N, rules.goal(me.N), rules.delta, polled)
    given, cycle = assignment(me, rules, top), sorted(top)
    for _ in range(me.N - 1):
        while not rank(me.c):
            yield from slot(me, final_arm(me, rules, given[0], cycle))
        receiver = rank(me.c)
        there = me.seats[receiver]
        yield from slot(me, there)  # the signal
        word = [int(a in top) for a in arms] if rules.fair else binary(given[receiver], word_length(rules))
        for bit in word:
            mine = final_arm(me, rules, given[0], cycle)
            yield from slot(me, there if bit else mine if mine != there else IDLE)
    yield from finally_play(me, rules, given[0], cycle)


def follower(me: Diary, rules: DlcRules) -> Turns:
    rank, reserved = timetable(me, rules), me.arm
    T_P = (me.N - 1) * (word_length(rules) + 1)
    while True:
        mine = rank(me.c) == me.rank
        signal = me.c
        _, collided = yield from slot(me, reserved if mine else IDLE)
        if mine and collided:
            break
    bits = []
    for _ in range(word_length(rules)):
        _, collided = yield from slot(me, reserved)
        bits.append(int(collided))
    cycle, arm = [], reserved
    if rules.fair:
        cycle = [a for a in range(rules.K) if bits[a]]
        me.garbled = not cycle  # only after a failed opening, as any word that names no arm
    elif from_binary(bits) < rules.K:
        arm = from_binary(bits)
    else:
        me.garbled = True
    if rules.served == "wait":
        while me.c < signal + T_P:
            yield from slot(me, IDLE)
    yield from finally_play(me, rules, arm, cycle)
