"""The slow twin of DLC-LIX with early moves: provisional words by empirical means before the final one.

What a word or a transfer looks like is as in `players_lix`; what differs is when the leader visits a follower, what
it may say, and that a follower goes on listening after a word that is not final.
Nothing of `weakfeedback` is imported here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.reference.players import (
    IDLE,
    Diary,
    Turns,
    adaptive_explore,
    binary,
    bound,
    critical,
    exploration_rate,
    from_binary,
    opening,
    ranked,
    sample,
    sit,
    slot,
    smallest_power,
    thesis_rounds,
)
from tests.reference.players_lix import Code, LixRules


@dataclass
class Word:
    """What a rank was told, whether a final word was possible, and whether no other rank was visited."""

    rank: int
    moved: bool
    final: bool
    sure: bool
    alone: bool


@dataclass
class Mind:
    """What the leader keeps in mind besides its samples."""

    check: int
    open_arms: set[int]
    since: dict[int, int]  # per rank, the first slot on its present arm
    served: int = 1  # the first rank without a final word
    hold: bool = False  # the rank to be served keeps an arm that is not known to be the best or good enough
    sure: bool = False  # the best open arm is separated: the next word may be final
    words: list[Word] = field(default_factory=list)


def slow_early(rules: LixRules, minds: list[Mind] | None = None) -> Callable[[Diary, Any], Turns]:
    """A maker of players; a leader appends what it keeps in mind to the list given."""

    def player(me: Diary, rng: Any) -> Turns:
        seating = rules.seating_rounds or thesis_rounds(rules.K, rules.delta)
        yield from opening(me, rng, rules.K, seating, rules.alarm)
        if me.N == rules.K:
            yield from sit(me, me.arm)
        elif me.N == 1:
            goal = rules.goal(1)
            (best,) = yield from adaptive_explore(me, rules.K, range(rules.K), 1, goal, rules.delta)
            yield from sit(me, best)
        elif me.rank == 0:
            yield from leader(me, rules, minds)
        else:
            yield from follower(me, rules)

    return player


# The leader


def leader(me: Diary, rules: LixRules, minds: list[Mind] | None) -> Turns:
    mind = Mind(
        check=10 * rules.K,
        open_arms={a for a in range(rules.K) if a not in me.seats[1:]},
        since=dict.fromkeys(range(1, me.N), 1),
    )
    if minds is not None:
        minds.append(mind)
    while True:
        ranks, u = yield from explore(me, rules, mind)
        if not ranks:
            yield from sit(me, ranked(me, sorted(mind.open_arms))[0])
        for r in ranks:
            yield from visit(me, rules, mind, r, u, len(ranks) == 1)


def explore(me: Diary, rules: LixRules, mind: Mind) -> Turns:
    """One call of AdaptiveExplore: the ranks to visit now (none: it is over) and the u of its last pair."""
    among = sorted(mind.open_arms)
    while any(a not in me.pulls for a in among):
        yield from sample(me, next(a for a in among if a not in me.pulls))
    played = 0
    while True:
        u, low, gap = critical(me, among, 1, rules.K, rules.delta)
        ranks = whom_to_visit(me, mind, played > 0, played > 0 and gap <= rules.goal(me.N))
        if ranks is not None:
            return list(ranks), u
        yield from sample(me, u)
        yield from sample(me, low)
        me.pairs += 1
        played += 1


def whom_to_visit(me: Diary, mind: Mind, played: bool, separated: bool) -> Iterable[int] | None:
    """All that are not served when the time has come; the next one when the best arm is known; or None."""
    if mind.served < me.N and me.c > mind.check and played:
        mind.hold, mind.sure = False, separated
        while mind.check < me.c:
            mind.check *= 3
        return range(mind.served, me.N)
    if separated and not mind.hold:
        if mind.served == me.N:
            return []
        mind.sure = True
        return [mind.served]
    return None


def visit(me: Diary, rules: LixRules, mind: Mind, r: int, u: int, alone: bool) -> Turns:
    """Signal, transfer, word."""
    K, there = rules.K, me.seats[r]
    best = ranked(me, sorted(mind.open_arms))[0]
    code = Code(rules, me.N, me.c - mind.since[r])
    yield from slot(me, there)  # the signal
    bits = []
    for _ in range(code.bits):
        _, collided = yield from slot(me, there)
        bits.append(int(collided))
    me.pulls[there] = me.pulls.get(there, 0) + code.T_c
    me.sums[there] = me.sums.get(there, 0.0) + code.earned(from_binary(bits))
    moved = mean(me, best) > mean(me, there)
    sure, final = mind.sure, False
    if sure:
        mind.sure = False
        final = moved or good_enough(me, rules, there, u)
        mind.hold = not final
    word = [int(final), *binary((best - there) % K if moved else 0, smallest_power(K))]
    for bit in word:
        yield from slot(me, there if bit else best)
    if moved:
        mind.open_arms = (mind.open_arms - {best}) | {there}
        me.seats[r] = best
    mind.since[r] = me.c
    mind.served += final
    mind.words.append(Word(r, moved, final, sure, alone))


def mean(me: Diary, arm: int) -> float:
    return me.sums[arm] / me.pulls[arm]


def good_enough(me: Diary, rules: LixRules, seat: int, u: int) -> bool:
    """Whether the arm it keeps is separated from the best of the other open arms."""
    beta = exploration_rate(rules.K, rules.delta, max(1, me.pairs))
    upper = bound(me.pulls[u], mean(me, u), 1.0, beta)
    lower = bound(me.pulls[seat], mean(me, seat), 0.0, beta)
    return upper - lower <= rules.goal(me.N)


# A follower


def follower(me: Diary, rules: LixRules) -> Turns:
    while True:
        final, arm = yield from answer(me, rules)
        if final:
            yield from sit(me, arm)
        me.arm = arm


def answer(me: Diary, rules: LixRules) -> Turns:
    """Play its arm until the signal, tell what it earned since it came to it, hear the word."""
    since, earned, collided = me.c, 0.0, False
    while not collided:
        reward, collided = yield from slot(me, me.arm)
        earned += reward
    code = Code(rules, me.N, me.c - 1 - since)  # the signal was in slot c - 1
    for bit in binary(code.number(earned), code.bits):
        yield from slot(me, me.arm if bit else IDLE)
    word = []
    for _ in range(1 + smallest_power(rules.K)):
        _, collided = yield from slot(me, me.arm)
        word.append(int(collided))
    return word[0] == 1, (me.arm + from_binary(word[1:])) % rules.K
