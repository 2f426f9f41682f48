"""The round loop of cascades: what is drawn, what is decided, what is shown (thesis, Algorithm 1)."""

import numpy as np

from weakfeedback.cascade.events import LAWS, play_events
from weakfeedback.cascade.rehearsal import Protocol
from weakfeedback.cascade.selling import LABEL_LOOP, NOTHING, fits, pull_names
from weakfeedback.decisions import arm_words, checked_arm
from weakfeedback.engine.loop import Loop


def play(policy, world, world_rng, rng, marks, pulls, table):
    """Play up to the round ``marks[-1]``, counting pulls per arm and copying the counts at each mark.

    Return 0, or the round in which the policy chose an arm that does not exist.
    """
    K = pulls.size
    seen = np.full(K, NOTHING)  # holds only what this policy has observed, in this round or before
    played = 0
    for k in range(K):
        played += pulls[k]
    if played == 0:
        world.begin(world_rng)
    m = 0
    for t in range(played + 1, marks[-1] + 1):
        row = world.draw(world_rng)  # 1. the environment chooses (Y, Y^1, ..., Y^K)
        arm = policy.select(rng) + 0  # 2. the learner selects I_t; a bool, no index to NumPy, becomes an int
        if arm < 0 or arm >= K:
            return t
        world.show(row, arm, seen)  # 3. it observes Y^1, ..., Y^{I_t}, in a buffer of their own
        policy.update(arm, seen[: arm + 1], rng)
        pulls[arm] += 1
        if t == marks[m]:
            for k in range(K):
                table[m, k] = pulls[k]
            m += 1
    return 0


LOOP = Loop(
    play,
    entry=("select", "update"),
    world_entry=("begin", "draw", "show"),
    counters=pull_names,
    fits=fits,
    refusal=lambda problem: arm_words(problem.arms),
    judge=lambda problem, policy, value: checked_arm(policy, value, problem.arms),
    chunk_rounds=250_000,
    protocol=Protocol(),
    with_labels=LABEL_LOOP,
    events=play_events,
    events_of=tuple(LAWS),
)
