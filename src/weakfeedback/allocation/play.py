"""The round loop of allocations: what is drawn, what is given, what is shown (thesis, section 4.2, Algorithm 1)."""

from dataclasses import replace

import numpy as np

from weakfeedback.allocation.conformance import GradualProtocol, Protocol
from weakfeedback.contract.decisions import REACH, allocation_words, checked_allocation
from weakfeedback.engine.loop import Loop
from weakfeedback.settings.problem import check_arms

ROUNDS, SEARCHING, FOUND, EQUIVALENT, SERVED = 0, 1, 2, 3, 4  # indices of counts; served_0 is the fifth


def play(policy, world, world_rng, rng, marks, counts, table):
    """Play up to the round ``marks[-1]``, counting the rounds in which each arm was served.

    A policy may expose its estimate of the thresholds as ``theta_hat``, and whether the estimate is final as ``found``.
    An estimate without a ``found`` counts as found when it is really equivalent, which only this loop can check. Return
    0, or the round in which the policy returned an invalid allocation.
    """
    K = counts.size - SERVED
    outcomes = np.empty(K)
    seen = np.empty(K)
    served = np.empty(K, dtype=np.bool_)
    known = np.empty(K)
    for i in range(K):
        known[i] = -1.0  # no estimate yet
    nothing = np.empty(0)
    if counts[ROUNDS] == 0:
        world.begin(world_rng)
    m = 0
    while True:
        t = counts[ROUNDS]
        if world.follow(getattr(policy, "theta_hat", nothing), known):
            counts[EQUIVALENT] = world.settled(known)
        counts[FOUND] = getattr(policy, "found", counts[EQUIVALENT] > 0)
        if t == marks[m]:
            for k in range(counts.size):
                table[m, k] = counts[k]
            m += 1
        if t >= marks[-1]:
            return 0
        world.draw(outcomes, world_rng)  # 1. the environment generates X_t
        allocation = policy.select(rng)  # 2. the learner picks a_t
        if not world.allows(allocation):
            return t + 1
        world.serve(allocation, served)
        reward = world.reward
        for i in range(K):
            counts[SERVED + i] += served[i]
            seen[i] = outcomes[i] if served[i] == reward else 0.0
        policy.update(allocation, seen, rng)  # 3. it observes what is not censored, in a buffer of its own
        counts[ROUNDS] += 1
        counts[SEARCHING] += 1 - counts[FOUND]


def play_gradual(policy, world, world_rng, rng, marks, counts, table):
    """Play up to the round ``marks[-1]``, counting the rounds by arm and level.

    Return 0, or the round in which the policy returned an invalid allocation.
    """
    K = world.curves.shape[0]
    width = world.curves.shape[1]
    hidden = np.empty(K)
    seen = np.empty(K)
    if counts[ROUNDS] == 0:
        world.begin(world_rng)
    m = 0
    while True:
        t = counts[ROUNDS]
        if t == marks[m]:
            for k in range(counts.size):
                table[m, k] = counts[k]
            m += 1
        if t >= marks[-1]:
            return 0
        world.draw(hidden, world_rng)
        allocation = policy.select(rng)
        if not world.allows(allocation):
            return t + 1
        for i in range(K):
            counts[1 + i * width + world.level(allocation[i])] += 1
        world.show(allocation, hidden, seen)
        policy.update(allocation, seen, rng)
        counts[ROUNDS] += 1


def fits(problem, policy):
    """Raise ``ValueError`` unless the policy was made for this problem."""
    check_arms(problem, policy)
    budget = getattr(policy, "Q", problem.budget)
    if abs(budget - problem.budget) > REACH * problem.budget:
        raise ValueError(
            f"{type(policy).__name__} was made for a budget of {budget:g}, not {problem.budget:g}"
        )
    rewards = getattr(policy, "reward", None)
    if isinstance(rewards, bool) and rewards != (problem.outcome == "reward"):
        raise ValueError(
            f"{type(policy).__name__} was made for setting={'reward' if rewards else 'loss'!r}, the problem has "
            f"setting={problem.outcome!r}"
        )
    estimate = getattr(policy, "theta_hat", None)
    if estimate is not None and np.shape(estimate) != (problem.arms,):
        raise ValueError(
            f"theta_hat of {type(policy).__name__} must be {problem.arms} numbers, got {estimate!r}"
        )


def _counters(problem):
    return ("rounds", "searching", "found", "equivalent", *(f"served_{k}" for k in range(problem.arms)))


LOOP = Loop(
    play,
    entry=("select", "update"),
    world_entry=("begin", "draw", "allows", "serve", "follow", "settled"),
    counters=_counters,
    fits=fits,
    refusal=lambda problem: allocation_words(problem.arms, problem.budget),
    judge=lambda problem, policy, value: checked_allocation(policy, value, problem.arms, problem.budget),
    chunk_rounds=100_000,
    protocol=Protocol(),
)

GRADUAL = replace(
    LOOP,
    play=play_gradual,
    world_entry=("begin", "draw", "allows", "level", "show"),
    counters=lambda problem: (
        "rounds",
        *(f"level_{i}_{k}" for i in range(problem.arms) for k in range(problem.curves.shape[1])),
    ),
    protocol=GradualProtocol(),
)
