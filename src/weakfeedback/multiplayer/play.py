"""The round loop of players that share arms: collisions, and what each player observes (thesis, section 5.2)."""

import numpy as np

from weakfeedback.contract.decisions import checked_choice, choice_words
from weakfeedback.engine.loop import Loop
from weakfeedback.multiplayer.conformance import Protocol
from weakfeedback.settings.problem import check_arms

IDLE = -1
# the first counts; after them come K counts of uses and K counts of seats, by the arms' true numbers
ROUNDS, COLLISIONS, SETTLED, SETTLED_AT, FIXED = 0, 1, 2, 3, 4


def play(players, world, world_rng, rngs, marks, counts, table):
    """Play up to the round ``marks[-1]``, count, and copy the counts at each mark.

    Return 0, or the round in which a player chose an arm that does not exist. Once every player has settled
    and stays on its arm, all remaining rounds equal the last one: they are counted without being played.
    """
    N = len(players)
    K = (counts.size - FIXED) // 2
    rewards = np.empty(K)
    arms = np.empty(N, dtype=np.int64)
    crowd = np.empty(K, dtype=np.int64)
    used = np.zeros(K, dtype=np.int64)  # indexed by the players' arm numbers, since the last mark
    resting = False
    m = 0
    if counts[ROUNDS] == 0:
        world.begin(world_rng)
    while counts[ROUNDS] < marks[-1]:
        t = counts[ROUNDS] + 1
        more = 1
        if resting:
            more = marks[m] - counts[ROUNDS]
        else:
            world.draw(rewards, world_rng)  # 1. draw a reward for every arm, played or not
            for k in range(K):
                crowd[k] = 0
            for n in range(N):  # 2. every player chooses an arm, or idles
                arm = players[n].choose(rngs[n])
                if arm < IDLE or arm >= K:
                    return t
                arms[n] = arm
                if arm != IDLE:
                    crowd[arm] += 1
            settled = 0
            moving = 0  # settled, but on another arm in this round
            for n in range(N):  # 3. each player observes its own arm only
                arm = int(arms[n])
                collided = arm != IDLE and crowd[arm] > 1
                reward = float(rewards[arm])
                if arm == IDLE or collided:
                    reward = 0.0
                players[n].observe(arm, reward, bool(collided), rngs[n])
                if players[n].settled:
                    settled += 1
                    moving += players[n].arm != arm
            counts[SETTLED] = settled
            resting = settled == N and moving == 0
        counts[ROUNDS] += more
        collisions = 0
        for k in range(K):  # no branches: collisions are unpredictable, also for the branch predictor
            used[k] += more if crowd[k] == 1 else 0
            collisions += crowd[k] if crowd[k] != 1 else 0
        counts[COLLISIONS] += more * collisions
        if counts[SETTLED] == N and counts[SETTLED_AT] == 0:
            counts[SETTLED_AT] = t
        if counts[ROUNDS] == marks[m]:
            for k in range(K):
                counts[FIXED + world.order[k]] += used[k]
                used[k] = 0
                counts[FIXED + K + k] = 0
            for n in range(N):
                if players[n].settled and 0 <= players[n].arm < K:
                    counts[FIXED + K + world.order[players[n].arm]] += 1
            for k in range(counts.size):
                table[m, k] = counts[k]
            m += 1
    return 0


def counters(problem):
    """Return the names of the counts."""
    arms = range(problem.arms)
    words = ("rounds", "collisions", "settled_players", "settled_at")
    return (*words, *(f"used_{k}" for k in arms), *(f"seats_{k}" for k in arms))


def _fits(problem, policy):
    check_arms(problem, policy)
    for field in ("settled", "arm"):
        if not isinstance(getattr(policy, field, None), (bool, int, np.integer, np.bool_)):
            raise ValueError(
                f"{type(policy).__name__} must have the fields settled (a bool) and arm (an integer)"
            )


LOOP = Loop(
    play,
    entry=("choose", "observe"),
    world_entry=("begin", "draw"),
    counters=counters,
    fits=_fits,
    refusal=lambda problem: choice_words(problem.arms),
    judge=lambda problem, policy, value: checked_choice(policy, value, problem.arms),
    chunk_rounds=1_000_000,
    protocol=Protocol(),
    players=lambda problem: problem.players,
)
