"""The round loops of contextual cascades (thesis, algorithm ContxUSS).

Regret depends on the context, so pulls do not determine it. The loops add it up in integer units of each problem:
sums of integers are exact, whatever their order and however the rounds are cut into chunks.
"""

from dataclasses import replace

import numpy as np

from weakfeedback.contextual.conformance import PairProtocol, Protocol
from weakfeedback.contract.decisions import arm_words, checked_arm
from weakfeedback.engine.loop import Loop
from weakfeedback.settings.problem import check_arms

HIDDEN = -1_000_000_007  # placeholder in outputs that a policy must not read


def play(policy, world, world_rng, rng, marks, counts, table):
    """Play up to the round ``marks[-1]``; counts are pulls per arm, then regret and errors in units.

    Return 0, or the round in which the policy chose an arm that does not exist.
    """
    K = counts.size - 2
    outputs = np.empty(K, dtype=np.int64)
    seen = np.empty(K, dtype=np.int64)
    phi = np.empty(world.phi.shape[1])
    played = 0
    for k in range(K):
        played += counts[k]
    if played == 0:
        world.begin(world_rng)
    m = 0
    for t in range(played + 1, marks[-1] + 1):
        row = world.draw(phi, outputs, world_rng)  # 1. the environment chooses (X, Y, Y^1, ..., Y^K)
        arm = policy.select(phi, rng)  # 2. the learner observes the context and selects I_t
        if arm < 0 or arm >= K:
            return t
        for k in range(K):
            seen[k] = outputs[k] if k <= arm else HIDDEN
        policy.update(phi, arm, seen[: arm + 1], rng)  # 3. it observes Y^1, ..., Y^{I_t}
        counts[arm] += 1
        counts[K] += world.regret(row, arm)
        counts[K + 1] += world.loss(row, arm)
        if t == marks[m]:
            for k in range(K + 2):
                table[m, k] = counts[k]
            m += 1
    return 0


def play_with_truth(policy, world, world_rng, rng, marks, counts, table):
    """Play as ``play`` does, with a comparator that sees the truth."""
    K = counts.size - 2
    outputs = np.empty(K, dtype=np.int64)
    seen = np.empty(K, dtype=np.int64)
    phi = np.empty(world.phi.shape[1])
    played = 0
    for k in range(K):
        played += counts[k]
    if played == 0:
        world.begin(world_rng)
    m = 0
    for t in range(played + 1, marks[-1] + 1):
        row = world.draw(phi, outputs, world_rng)
        arm = policy.select(phi, rng)
        if arm < 0 or arm >= K:
            return t
        for k in range(K):
            seen[k] = outputs[k] if k <= arm else HIDDEN
        policy.update(phi, arm, seen[: arm + 1], rng, truth=world.truth(row))
        counts[arm] += 1
        counts[K] += world.regret(row, arm)
        counts[K + 1] += world.loss(row, arm)
        if t == marks[m]:
            for k in range(K + 2):
                table[m, k] = counts[k]
            m += 1
    return 0


def play_pairs(policy, world, world_rng, rng, marks, counts, table):
    """Play as ``play`` does where only disagreements exist; counts are pulls per arm, then pseudo-regret in units."""
    K = counts.size - 1
    differ = np.zeros((K, K), dtype=np.bool_)
    seen = np.zeros((K, K), dtype=np.bool_)
    phi = np.empty(world.phi.shape[1])
    played = 0
    for k in range(K):
        played += counts[k]
    if played == 0:
        world.begin(world_rng)
    m = 0
    for t in range(played + 1, marks[-1] + 1):
        row = world.draw(phi, differ, world_rng)
        arm = policy.select(phi, rng)
        if arm < 0 or arm >= K:
            return t
        for i in range(K):
            for j in range(K):
                seen[i, j] = differ[i, j] and j <= arm
        policy.update_pairs(phi, arm, seen, rng)
        counts[arm] += 1
        counts[K] += world.regret(row, arm)
        if t == marks[m]:
            for k in range(K + 1):
                table[m, k] = counts[k]
            m += 1
    return 0


def _fits(problem, policy):
    check_arms(problem, policy)
    dimension = getattr(policy, "dimension", problem.dimension)
    if dimension != problem.dimension:
        raise ValueError(
            f"{type(policy).__name__} was made for dimension {dimension}, the problem has {problem.dimension}"
        )


def _pulls(problem):
    return tuple(f"pulls_{k}" for k in range(problem.arms))


TRUTH_LOOP = Loop(
    play_with_truth,
    entry=("select", "update"),
    world_entry=("begin", "draw", "truth", "regret", "loss"),
    counters=lambda problem: (*_pulls(problem), "regret_units", "error_units"),
    fits=_fits,
    refusal=lambda problem: arm_words(problem.arms),
    judge=lambda problem, policy, value: checked_arm(policy, value, problem.arms),
    chunk_rounds=50_000,
    protocol=Protocol(sees_truth=True),
)
LOOP = replace(
    TRUTH_LOOP, play=play, protocol=Protocol(sees_truth=False), variants={"sees_truth": TRUTH_LOOP}
)
PAIR_LOOP = replace(
    TRUTH_LOOP,
    play=play_pairs,
    entry=("select", "update_pairs"),
    world_entry=("begin", "draw", "regret"),
    counters=lambda problem: (*_pulls(problem), "regret_units"),
    protocol=PairProtocol(),
)
