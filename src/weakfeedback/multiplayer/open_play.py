"""The round loop of players that come and go, lose slots, have means of their own or sense no collisions."""

import dataclasses

import numpy as np

from weakfeedback.multiplayer.conformance import OpenProtocol
from weakfeedback.multiplayer.play import COLLISIONS, FIXED, IDLE, LOOP, ROUNDS, SETTLED, SETTLED_AT
from weakfeedback.multiplayer.world import ABSENT, AWAKE


def play_open(players, world, world_rng, rngs, marks, counts, table):
    """Play up to the round ``marks[-1]``, count, and copy the counts at each mark.

    Return 0, or the round in which a player chose an arm that does not exist.
    """
    N = len(players)
    K = (counts.size - FIXED) // N - 1
    rewards = np.empty((world.means.shape[0], K))
    awake = np.empty(N, dtype=np.int64)
    arms = np.empty(N, dtype=np.int64)
    crowd = np.empty(K, dtype=np.int64)
    used = np.zeros((N, K), dtype=np.int64)  # indexed by the players' arm numbers, since the last mark
    m = 0
    if counts[ROUNDS] == 0:
        world.begin(world_rng)
    while counts[ROUNDS] < marks[-1]:
        # 1. draw a reward for every arm, played or not, and who loses this slot
        world.draw(rewards, awake, counts[ROUNDS], world_rng)
        counts[ROUNDS] += 1
        for k in range(K):
            crowd[k] = 0
        for n in range(N):  # 2. every player that is awake chooses an arm, or idles
            arms[n] = IDLE
            if awake[n] == AWAKE:
                arm = players[n].choose(rngs[n])
                if arm < IDLE or arm >= K:
                    return counts[ROUNDS]
                arms[n] = arm
                if arm != IDLE:
                    crowd[arm] += 1
        present = 0
        settled = 0
        for n in range(N):  # 3. each of them observes its own arm only
            if awake[n] == AWAKE:
                arm = int(arms[n])
                collided = arm != IDLE and crowd[arm] > 1
                reward = 0.0
                if arm != IDLE and not collided:
                    reward = float(rewards[n if rewards.shape[0] > 1 else 0, arm])
                    used[n, arm] += 1
                counts[COLLISIONS] += 1 if collided else 0
                players[n].observe(arm, reward, bool(collided and world.sensing), rngs[n])
            if awake[n] != ABSENT:
                present += 1
                settled += 1 if players[n].settled else 0
        counts[SETTLED] = settled
        if settled < present:
            counts[SETTLED_AT] = 0
        elif counts[SETTLED_AT] == 0:
            counts[SETTLED_AT] = counts[ROUNDS]
        if counts[ROUNDS] == marks[m]:
            for n in range(N):
                for k in range(K):
                    counts[FIXED + n * K + world.order[k]] += used[n, k]
                    used[n, k] = 0
                counts[FIXED + N * K + n] = 0
                if awake[n] != ABSENT and players[n].settled and 0 <= players[n].arm < K:
                    counts[FIXED + N * K + n] = 1 + world.order[players[n].arm]
            for k in range(counts.size):
                table[m, k] = counts[k]
            m += 1
    return 0


def open_counters(problem):
    """Return the names of the counts of an open problem: uses by player and arm, and the seat of each player."""
    arms, players = range(problem.arms), range(problem.players)
    words = ("rounds", "collisions", "settled_players", "settled_at")
    return (*words, *(f"used_{n}_{k}" for n in players for k in arms), *(f"seat_{n}" for n in players))


OPEN_LOOP = dataclasses.replace(LOOP, play=play_open, counters=open_counters, protocol=OpenProtocol())
