"""The round loop of routing: what is drawn, which models are called, what is shown."""

from dataclasses import replace

import numpy as np

from weakfeedback.contract.decisions import call_words, checked_call
from weakfeedback.engine.loop import Loop
from weakfeedback.routing.conformance import CountedProtocol, GroupsProtocol, Protocol
from weakfeedback.routing.events import play_events
from weakfeedback.routing.policies.pay_to_compare import PayToCompare
from weakfeedback.settings.problem import check_arms

NOTHING = -1_000_000_007  # placeholder where no output was ever observed


def play(policy, world, world_rng, rng, marks, counts, table):
    """Play up to the round ``marks[-1]``, counting calls and answers per model and copying the counts at each mark.

    Where groups of the rows are known, errors are counted as well. Return 0, or the round in which the policy called no
    model, or returned something invalid.
    """
    K = world.rows.shape[1] - 1
    seen = np.full(K, NOTHING)  # holds only what this policy has observed, in this round or before
    m = 0
    played = begin(world, world_rng, counts, K)
    for t in range(played + 1, marks[-1] + 1):
        row = world.draw(world_rng)  # 1. the environment chooses (Y, Y^1, ..., Y^K)
        if not play_round(policy, world, row, rng, seen, counts):
            return t
        if t == marks[m]:
            for k in range(counts.size):
                table[m, k] = counts[k]
            m += 1
    return 0


def play_groups(policy, world, world_rng, rng, marks, counts, table):
    """Do the same for a policy that is told the groups of a round before it selects."""
    K = world.rows.shape[1] - 1
    seen = np.full(K, NOTHING)
    nobody = np.zeros(K, dtype=np.bool_)
    m = 0
    for t in range(begin(world, world_rng, counts, K) + 1, marks[-1] + 1):
        row = world.draw(world_rng)
        policy.turn_to(world.groups[row], nobody)
        if not play_round(policy, world, row, rng, seen, counts):
            return t
        if t == marks[m]:
            table[m, :] = counts
            m += 1
    return 0


def begin(world, world_rng, counts, K):
    """Return how many rounds were played; begin if there were none."""
    played = 0
    for k in range(K):
        played += counts[K + k]
    if played == 0:
        world.begin(world_rng)
    return played


def play_round(policy, world, row, rng, seen, counts):
    """Play one round; return whether the policy called a model."""
    K = seen.size
    call = policy.select(rng)  # 2. the learner selects the models to call
    if call.size != K or call.itemsize != 1:  # numbers are not bools
        return False
    answer = -1
    for k in range(K):
        if call[k]:
            answer = k
    if answer < 0:
        return False
    policy.start(call, rng)
    shown = world.show(row, call, seen)  # 3. it observes their outputs, in a buffer of their own
    policy.update(call, seen[:shown], rng)
    for k in range(K):
        if call[k]:
            counts[k] += 1
    counts[K + answer] += 1
    if counts.size > 2 * K and world.rows[row, answer + 1] != world.rows[row, 0]:
        counts[2 * K] += 1
    return True


def fits(problem, policy):
    """Refuse a policy that was made for another number of models, or for features that the problem does not have."""
    check_arms(problem, policy, "models")
    wanted = getattr(policy, "Q", 0)
    if callable(getattr(policy, "turn_to", None)) and wanted > problem.features:
        raise ValueError(
            f"{type(policy).__name__} was made for {wanted} features, the problem has {problem.features}"
        )


def counters(problem):
    """Return what is counted; where groups are known, errors depend on them and not only on the models."""
    models = range(problem.arms)
    calls = (*(f"calls_{k}" for k in models), *(f"answers_{k}" for k in models))
    return (*calls, "errors") if problem.features else calls


GROUPS = Loop(
    play_groups,
    entry=("select", "start", "update", "turn_to"),
    world_entry=("begin", "draw", "show"),
    counters=counters,
    fits=fits,
    refusal=lambda problem: call_words(problem.arms),
    judge=lambda problem, policy, value: checked_call(policy, value, problem.arms),
    chunk_rounds=250_000,
    protocol=GroupsProtocol(),
)
GROUPED = replace(
    GROUPS,
    play=play,
    entry=("select", "start", "update"),
    protocol=CountedProtocol(),
    variants={"turn_to": GROUPS},
)
LOOP = replace(GROUPED, protocol=Protocol(), events=play_events, events_of=(PayToCompare,))
