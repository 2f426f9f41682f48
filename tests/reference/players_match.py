"""The slow twins of Match and Selfish, told from top to bottom. Nothing of `weakfeedback` is imported here.

Assignments are found by SciPy, so comparisons need draws without ties, which continuous draws are.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from tests.reference.players import IDLE, Diary, Turns, binary, bound, from_binary, opening


def length_of_mean(n: int) -> int:
    """The bits of a mean of n samples: the smallest whole number >= log2(n) / 2, plus 2."""
    half = 0
    while 4**half < n:
        half += 1
    return half + 2


class Notes:
    """What a player of Match knows; others may read it, the player does not read theirs."""

    def __init__(self, K: int):
        self.n, self.s = [0] * K, [0.0] * K
        self.moves: list[int] = []  # the slots in which it changed its arm
        self.sent: list[tuple[int, float]] = []  # (word, mean) of its reports
        self.heard: list[tuple[int, int, int]] = []  # leader: (rank, n, word)
        self.clock = 0

    def count(self, arm: int, reward: float) -> None:
        self.n[arm] += 1
        self.s[arm] += reward

    def word(self, arm: int) -> int:
        b = length_of_mean(self.n[arm])
        return min(2**b - 1, math.floor(self.s[arm] / self.n[arm] * 2**b))


def slow_match(
    K: int, n0: int = 16, growth: int = 4, draws: int = 16, book: list[Notes] | None = None
) -> Callable[[Diary, Any], Turns]:
    def player(me: Diary, rng: Any) -> Turns:
        notes = Notes(K)
        if book is not None:
            book.append(notes)
        yield from opening(me, rng, K, 1, alarm=True)
        for t in range(n0 * K):
            arm = (t + me.rank) % K
            reward, collided = yield arm
            assert not collided
            notes.count(arm, reward)
        first = yield from first_reports(me, notes, K, n0)
        if me.rank == 0:
            yield from Leader(me, notes, rng, K, n0, growth, draws, first).lead()
        else:
            yield from follow(me, notes, K)

    return player


def first_reports(me: Diary, notes: Notes, K: int, n0: int) -> Turns:
    """Everybody's means, on arm 0; the leader returns the words it heard."""
    b, words = length_of_mean(n0), {}
    for sender in range(1, me.N):
        for k in range(K):
            bits = []
            for place in range(b):
                one = sender == me.rank and binary(notes.word(k), b)[place] == 1
                _, collided = yield (0 if one else me.rank)
                bits.append(int(collided))
            words[sender, k] = from_binary(bits)
    return words


def follow(me: Diary, notes: Notes, K: int) -> Turns:
    arm = me.rank
    bits_K, bits_N = math.ceil(math.log2(K)), math.ceil(math.log2(me.N))

    def stay() -> Turns:
        reward, collided = yield arm
        if not collided:
            notes.count(arm, reward)
        return collided

    while True:
        if not (yield from stay()):
            continue
        if not (yield from stay()):
            word = notes.word(arm)
            notes.sent.append((word, notes.s[arm] / notes.n[arm]))
            for bit in binary(word, length_of_mean(notes.n[arm])):
                reward, collided = yield (arm if bit else IDLE)
                if bit and not collided:
                    notes.count(arm, reward)
            continue
        heard = [0] * (bits_K + bits_N)
        for place in range(len(heard)):
            heard[place] = int((yield from stay()))
        shift, behind = from_binary(heard[:bits_K]), from_binary(heard[bits_K:])
        for _ in range(behind * (2 + bits_K + bits_N)):
            yield from stay()
        arm = (arm + shift) % K


class Leader:
    def __init__(
        self, me: Diary, notes: Notes, rng: Any, K: int, n0: int, growth: int, draws: int, first: Any
    ):
        self.me, self.notes, self.rng, self.K, self.n0, self.growth, self.draws = (
            me,
            notes,
            rng,
            K,
            n0,
            growth,
            draws,
        )
        self.arm = {r: r for r in range(me.N)}
        pairs = [(r, k) for r in range(1, me.N) for k in range(K)]
        self.n = dict.fromkeys(pairs, n0)  # samples of the followers, by its own count
        self.reported = {pair: (n0, (first[pair] + 0.5) / 2 ** length_of_mean(n0)) for pair in pairs}

    def slot(self, arm: int, met: int = 0) -> Turns:
        """One slot, in which it meets follower ``met`` or nobody."""
        reward, collided = yield arm
        if not collided:
            self.notes.count(arm, reward)
        for r in range(1, self.me.N):
            if r != met:
                self.n[r, self.arm[r]] += 1
        return collided

    def lead(self) -> Turns:
        while True:
            plan = self.planned()
            yield from self.tell(plan)
            self.arm = plan
            fewest = min(self.known(r, plan[r]) for r in range(self.me.N))
            for _ in range(max(self.n0, (self.growth - 1) * fewest)):
                yield from self.slot(self.arm[0])
            for r in range(1, self.me.N):
                pair = (r, self.arm[r])
                if self.n[pair] >= self.growth * self.reported[pair][0]:
                    yield from self.ask(r, pair)

    def known(self, r: int, k: int) -> int:
        return self.notes.n[k] if r == 0 else self.n[r, k]

    def ask(self, r: int, pair: tuple[int, int]) -> Turns:
        yield from self.slot(self.arm[r], met=r)
        yield from self.slot(self.arm[0])
        b = length_of_mean(self.n[pair])
        bits = [0] * b
        for place in range(b):
            bits[place] = int((yield from self.slot(self.arm[r], met=r)))
        word = from_binary(bits)
        self.notes.heard.append((r, self.n[pair], word))
        self.reported[pair] = (self.n[pair], (word + 0.5) / 2**b)

    def planned(self) -> dict[int, int]:
        found: list[tuple[int, dict[int, int]]] = []
        for _ in range(self.draws):
            table = np.array([[self.drawn(r, k) for k in range(self.K)] for r in range(self.me.N)])
            plan = {int(r): int(k) for r, k in zip(*linear_sum_assignment(table, maximize=True))}
            found.append((min(self.known(r, k) for r, k in plan.items()), plan))
        return min(found, key=lambda one: one[0])[1]

    def drawn(self, r: int, k: int) -> float:
        if r == 0:
            n, mean = self.notes.n[k], self.notes.s[k] / self.notes.n[k]
        else:
            n, mean = self.reported[r, k]
        return self.rng.beta(1.0 + n * mean, 1.0 + n - n * mean)

    def tell(self, plan: dict[int, int]) -> Turns:
        movers = [r for r in range(1, self.me.N) if plan[r] != self.arm[r]]
        bits_K, bits_N = math.ceil(math.log2(self.K)), math.ceil(math.log2(self.me.N))
        for behind, r in zip(range(len(movers) - 1, -1, -1), movers):
            shift = (plan[r] - self.arm[r]) % self.K
            for bit in [1, 1, *binary(shift, bits_K), *binary(behind, bits_N)]:
                yield from self.slot(self.arm[r] if bit else self.arm[0], met=r if bit else 0)


def slow_selfish(K: int, rng: Any, index: str) -> Turns:
    n, s, t = [0] * K, [0.0] * K, 1
    while True:
        values = []
        for k in range(K):
            if index == "thompson":
                values.append(rng.beta(1.0 + s[k], 1.0 + n[k] - s[k]))
            else:
                noise = rng.normal() / t
                values.append(
                    noise + (10.0 if n[k] == 0 else bound(n[k], min(1.0, s[k] / n[k]), 1.0, math.log(t)))
                )
        arm = values.index(max(values))
        reward, _ = yield arm
        n[arm], s[arm], t = n[arm] + 1, s[arm] + reward, t + 1
