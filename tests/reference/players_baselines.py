"""Slow twins of the baselines of chapter 5: Musical Chairs and SIC-MMAB."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from tests.reference.players import Diary, Turns, opening, sit


def slow_musical_chairs(K: int, learning_rounds: int) -> Callable[[Diary, Any], Turns]:
    """Rosenski and Shamir (2016): hop at random, estimate the number of players, find a chair."""

    def player(me: Diary, rng: Any) -> Turns:
        rewards: dict[int, list[float]] = {k: [] for k in range(K)}
        collisions = 0
        for _ in range(learning_rounds):
            arm = int(K * rng.random())
            reward, collided = yield arm
            if collided:
                collisions += 1
            else:
                rewards[arm].append(reward)
        means = {k: sum(seen) / len(seen) if seen else 0.0 for k, seen in rewards.items()}
        chairs = sorted(means, key=lambda k: (-means[k], k))[
            : estimated_players(K, learning_rounds, collisions)
        ]
        collided = True
        while collided:
            arm = chairs[int(len(chairs) * rng.random())]
            _, collided = yield arm
        yield from sit(me, arm)

    return player


def estimated_players(K: int, rounds: int, collisions: int) -> int:
    """N* = round(log((T0 - C) / T0) / log(1 - 1/K) + 1), halves up, between 1 and K."""
    if collisions == rounds:
        return K
    real = math.log((rounds - collisions) / rounds) / math.log(1.0 - 1.0 / K) + 1.0
    return min(K, max(1, math.floor(real + 0.5)))


def slow_sic_mmab(
    K: int, horizon: int, constant: float = 2.0, first_phase: int | None = None
) -> Callable[[Diary, Any], Turns]:
    """Boursier and Perchet (2019): explore by hopping in turn, tell everybody every sum, accept and reject."""

    def player(me: Diary, rng: Any) -> Turns:
        yield from opening(me, rng, K, math.ceil(K * math.e * math.log(horizon)))
        arms, players, p, plays = list(range(K)), me.N, first_phase or 1, 0
        totals = me.told = dict.fromkeys(arms, 0)
        while True:
            sums = yield from explore(arms, me.rank, 2**p)
            own = {k: min(math.floor(sums[k]), 2**p) for k in arms}
            told = yield from tell_everybody(arms, players, me.rank, own, p + 1)
            plays += players * 2**p
            for k in arms:
                totals[k] += own[k] + told[k]
            width = math.sqrt(constant * math.log(horizon) / plays)
            means = {k: totals[k] / plays for k in arms}
            accepted, rejected = verdicts(arms, players, means, width)
            turn = players - 1 - me.rank  # the last ranks leave first
            if turn < len(accepted):
                yield from sit(me, accepted[turn])
            players -= len(accepted)
            arms = [k for k in arms if k not in accepted and k not in rejected]
            p += 1

    return player


def explore(arms: Sequence[int], j: int, times: int) -> Turns:
    """Hop over the active arms, each played ``times`` times; the sums of free plays."""
    sums = dict.fromkeys(arms, 0.0)
    for s in range(len(arms) * times):
        arm = arms[(j + 1 + s) % len(arms)]
        reward, collided = yield arm
        if not collided:
            sums[arm] += reward
    return sums


def tell_everybody(arms: Sequence[int], players: int, j: int, own: dict[int, int], bits: int) -> Turns:
    """Everybody sends everybody else every sum, least significant bit first; what was received in all."""
    told = dict.fromkeys(arms, 0)
    turns = [(i, to) for i in range(players) for to in range(players) if to != i]
    for sender, receiver in turns:
        for arm in arms:
            for bit in range(bits):
                one = sender == j and own[arm] >> bit & 1
                _, collided = yield arms[receiver if one else j]
                if receiver == j and collided:
                    told[arm] += 1 << bit
    return told


def verdicts(
    arms: Sequence[int], players: int, means: dict[int, float], width: float
) -> tuple[list[int], list[int]]:
    """Arms surely among the best, and arms surely not."""

    def surely_above(one: int, other: int) -> bool:
        return means[one] - width >= means[other] + width

    accepted = [k for k in arms if sum(surely_above(k, i) for i in arms) >= len(arms) - players]
    rejected = [k for k in arms if sum(surely_above(i, k) for i in arms) >= players]
    return accepted, rejected
