"""Slow twins of chapter 5: the world, the round loop, the shared opening and AdaptiveExplore.

A player is one Python generator: it yields the arm of a slot (or -1 for idling) and is sent what it saw,
``(reward, collided)``. So its program reads from top to bottom as the pseudo-code does, and a phase that ends
is a loop that ends. What others may look at (is it settled, on which arm) stands in its `Diary`.
Arms are 0-based, except in player indexing, where the thesis needs i = 1..K.
Nothing of `weakfeedback` is imported here: that is what makes a comparison worth something.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

IDLE = -1
Turns = Generator[int, tuple[float, bool], Any]


@dataclass
class Diary:
    """What a player knows; ``c`` is the number of the coming slot, counted from the end of indexing."""

    arm: int = 0
    settled: bool = False
    failed: bool = False
    garbled: bool = False
    restarts: int = 0
    N: int = 0
    rank: int = -1
    seats: list[int] = field(default_factory=list)
    c: int = 1
    pulls: dict[int, int] = field(default_factory=dict)
    sums: dict[int, float] = field(default_factory=dict)
    pairs: int = 0
    told: dict[int, int] = field(default_factory=dict)  # SIC-MMAB: sums of all players


# The world and the round loop


def stream(seed: int, *key: int) -> np.random.Generator:
    """The generator with a spawn key: (r, 0) for the world, (r, 1, n) for player n of replication r."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


class SlowWorld:
    """Every arm's reward in every round, whoever plays; ``order[k]`` is the true arm behind arm k."""

    def __init__(self, means: Sequence[float], rng: Any, shuffle: bool = True, rewards: str = "bernoulli"):
        self.means, self.rng, self.rewards = [float(mean) for mean in means], rng, rewards
        self.order = list(range(len(means)))
        if shuffle:
            for k in range(len(means) - 1, 0, -1):
                j = int((k + 1) * rng.random())
                self.order[k], self.order[j] = self.order[j], self.order[k]

    def draw(self) -> list[float]:
        return [self.reward(self.means[true]) for true in self.order]

    def reward(self, mean: float) -> float:
        if self.rewards == "bernoulli":
            return 1.0 if self.rng.random() < mean else 0.0
        if self.rewards == "uniform":
            half = min(mean, 1.0 - mean)
            return min(1.0, max(0.0, mean + half * (2.0 * self.rng.random() - 1.0)))
        if self.rewards == "beta":
            return self.rng.beta(4.0 * mean, 4.0 * (1.0 - mean)) if 0.0 < mean < 1.0 else mean
        raise ValueError(f"rewards must be bernoulli, uniform or beta, got {self.rewards!r}")


class SlowTable:
    """Players around a table: every slot all choose, then all see their own reward and collision."""

    def __init__(self, player: Callable[[Diary, Any], Turns], rngs: Sequence[Any]):
        self.diaries = [Diary() for _ in rngs]
        self.players = [player(diary, rng) for diary, rng in zip(self.diaries, rngs, strict=True)]
        self.coming = [next(one) for one in self.players]
        self.choices: list[list[int]] = []  # per slot, the arm of every player
        self.hits: list[list[bool]] = []

    def slot(self, rewards: Sequence[float]) -> None:
        arms = self.coming
        hits = [arm != IDLE and arms.count(arm) > 1 for arm in arms]
        seen = [
            (0.0 if arm == IDLE or hit else float(rewards[arm]), hit)
            for arm, hit in zip(arms, hits, strict=True)
        ]
        self.coming = [one.send(what) for one, what in zip(self.players, seen, strict=True)]
        self.choices.append(arms)
        self.hits.append(hits)

    def settled(self) -> bool:
        return all(diary.settled for diary in self.diaries)


@dataclass
class Row:
    """The state of affairs after a round; lists run over the true arms."""

    used: list[int]
    collisions: int
    settled_players: int
    settled_at: int
    seats: list[int]
    regret: float
    optimal: bool
    shortfall: float


def slow_run(
    player: Callable[[Diary, Any], Turns],
    world: SlowWorld,
    players: int,
    seed: int,
    replication: int,
    rounds: int,
) -> tuple[SlowTable, list[Row]]:
    """Play all rounds to the end: no short cut when everybody is settled."""
    table = SlowTable(player, [stream(seed, replication, 1, n) for n in range(players)])
    used, collisions, settled_at, rows = [0] * len(world.means), 0, 0, []
    for t in range(1, rounds + 1):
        table.slot(world.draw())
        for arm, hit in zip(table.choices[-1], table.hits[-1], strict=True):
            collisions += hit
            if arm != IDLE and not hit:
                used[world.order[arm]] += 1
        if table.settled() and not settled_at:
            settled_at = t
        rows.append(judged(world, table, players, t, list(used), collisions, settled_at))
    return table, rows


def judged(
    world: SlowWorld,
    table: SlowTable,
    players: int,
    t: int,
    used: list[int],
    collisions: int,
    settled_at: int,
) -> Row:
    """Regret by its definition, N best arms in each round minus what was used, and the seats taken."""
    best = sorted(world.means, reverse=True)[:players]
    sitting = [world.order[diary.arm] for diary in table.diaries if diary.settled]
    alone = [arm for arm in sitting if sitting.count(arm) == 1]
    value = math.fsum(world.means[arm] for arm in alone)
    gained = math.fsum(count * mean for count, mean in zip(used, world.means, strict=True))
    return Row(
        used=used,
        collisions=collisions,
        settled_players=len(sitting),
        settled_at=settled_at or t,
        seats=[sitting.count(k) for k in range(len(world.means))],
        regret=t * math.fsum(best) - gained,
        optimal=len(alone) == players and value >= math.fsum(best) - 1e-12,
        shortfall=math.fsum(best) - value,
    )


# What all phases share


def smallest_power(number: int) -> int:
    """The smallest b with 2^b >= number."""
    b = 0
    while 2**b < number:
        b += 1
    return b


def slot(me: Diary, arm: int) -> Turns:
    """One slot after indexing."""
    seen = yield arm
    me.c += 1
    return seen


def sit(me: Diary, arm: int) -> Turns:
    """Settle on an arm and play it for ever."""
    me.arm, me.settled = arm, True
    while True:
        yield from slot(me, arm)


def binary(number: int, width: int) -> list[int]:
    """Most significant bit first."""
    return [(number >> (width - 1 - k)) & 1 for k in range(width)]


def from_binary(bits: Sequence[int]) -> int:
    return sum(bit << (len(bits) - 1 - k) for k, bit in enumerate(bits))


# Orthogonalisation and player indexing


def thesis_rounds(K: int, delta: float) -> int:
    """T_RP of the lemma on orthogonalisation."""
    return math.ceil(math.log(delta / K) / math.log(1.0 - 1.0 / (4.0 * K)))


def opening(me: Diary, rng: Any, K: int, rounds: int, alarm: bool = False) -> Turns:
    """Lines 2-4 of DLC: a reserved arm, the number of players, their seats and the own rank."""
    seated = False
    while True:
        seated = yield from orthogonalise(me, rng, K, rounds, seated)
        me.failed = not seated
        if not alarm:
            break
        alarmed = yield from sweep(me, K, seated)
        if not alarmed:
            break
        me.restarts += 1
    heard = yield from indexing(me.arm + 1, K)
    me.seats = sorted({me.arm} | {i - 1 for i in heard})
    me.N, me.rank = len(me.seats), me.seats.index(me.arm)


def orthogonalise(me: Diary, rng: Any, K: int, rounds: int, seated: bool) -> Turns:
    for _ in range(rounds):
        arm = me.arm if seated else int(K * rng.random())
        _, collided = yield arm
        me.arm = arm
        seated = seated or not collided
    return seated


def sweep(me: Diary, K: int, seated: bool) -> Turns:
    """Unseated players visit all arms; whoever is unseated or was visited raises the alarm."""
    hit = False
    for s in range(K):
        _, collided = yield (me.arm if seated else s)
        hit = hit or collided
    return hit or not seated


def indexing(i: int, K: int) -> Turns:
    """The 2K - 1 slots of player indexing for the player on arm i = 1..K; the arms it heard of."""
    heard = set()
    walk = [i] * (2 * i) + list(range(i + 1, K + 1)) + [i] * K
    for s in range(1, 2 * K):
        _, collided = yield walk[s - 1] - 1
        if collided and s - i in range(1, K + 1) and s - i != i:
            heard.add(s - i)
    return heard


# AdaptiveExplore (KL-LUCB)


def divergence(p: float, q: float) -> float:
    """The Kullback-Leibler divergence of two Bernoulli laws, 0 log 0 = 0."""
    return part_of_divergence(p, q) + part_of_divergence(1.0 - p, 1.0 - q)


def part_of_divergence(mine: float, other: float) -> float:
    if mine <= 0.0:
        return 0.0
    return mine * math.log(mine / other) if other > 0.0 else math.inf


def bound(pulls: int, mean: float, end: float, beta: float) -> float:
    """The q farthest from the mean towards an end (1 or 0) with pulls d(mean, q) <= beta: 40 halvings."""
    inside, outside = mean, end
    for _ in range(40):
        middle = (inside + outside) / 2.0
        if pulls * divergence(mean, middle) <= beta:
            inside = middle
        else:
            outside = middle
    return inside


def exploration_rate(K: int, delta: float, s: int) -> float:
    x = math.log(505.5 * K / delta) + 1.1 * math.log(s)
    return x + math.log(x)


def ranked(me: Diary, among: Sequence[int]) -> list[int]:
    """Arms by decreasing empirical mean, ties to the smaller index."""
    return sorted(among, key=lambda a: (-me.sums[a] / me.pulls[a], a))


def critical(me: Diary, among: Sequence[int], m: int, K: int, delta: float) -> tuple[int, int, float]:
    """u, l and U_u - L_l from the current counts."""
    beta = exploration_rate(K, delta, max(1, me.pairs))
    J = ranked(me, among)[:m]
    U = {a: bound(me.pulls[a], me.sums[a] / me.pulls[a], 1.0, beta) for a in sorted(among) if a not in J}
    L = {a: bound(me.pulls[a], me.sums[a] / me.pulls[a], 0.0, beta) for a in sorted(J)}
    u, low = max(U, key=lambda a: (U[a], -a)), min(L, key=lambda a: (L[a], a))
    return u, low, U[u] - L[low]


def sample(me: Diary, arm: int) -> Turns:
    """A play whose reward counts unless it collides."""
    reward, collided = yield from slot(me, arm)
    if arm != IDLE and not collided:
        me.pulls[arm] = me.pulls.get(arm, 0) + 1
        me.sums[arm] = me.sums.get(arm, 0.0) + reward


def nobody(c: int) -> int:
    """No arm is polled in slot c."""
    return IDLE


def adaptive_explore(
    me: Diary,
    K: int,
    among: Sequence[int],
    m: int,
    tolerance: float,
    delta: float,
    polled: Callable[[int], int] = nobody,
) -> Turns:
    """The m best arms, best first; counts and the number of pairs live on in the diary."""
    while any(a not in me.pulls for a in among):
        free = [a for a in sorted(among) if a not in me.pulls and a != polled(me.c)]
        yield from sample(me, free[0] if free else IDLE)
    u, low, _ = critical(me, among, m, K, delta)
    while True:
        pair = [u, low]
        if u == polled(me.c) or low == polled(me.c + 1):
            pair = [low, u]
        for arm in pair:
            yield from sample(me, arm)
        me.pairs += 1
        u, low, gap = critical(me, among, m, K, delta)
        if gap <= tolerance:
            return ranked(me, among)[:m]
