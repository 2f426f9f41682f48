"""The round loop of routing: what is drawn, which models are called, what is shown."""

import numpy as np

from weakfeedback.contract.decisions import call_words, checked_call
from weakfeedback.engine.loop import Loop
from weakfeedback.routing.conformance import Protocol
from weakfeedback.routing.events import play_events
from weakfeedback.routing.policies.pay_to_compare import PayToCompare
from weakfeedback.settings.problem import check_arms

NOTHING = -1_000_000_007  # placeholder where no output was ever observed


def play(policy, world, world_rng, rng, marks, counts, table):
    """Play up to the round ``marks[-1]``, counting calls and answers per model and copying the counts at each mark.

    Return 0, or the round in which the policy called no model, or returned something invalid.
    """
    K = counts.size // 2
    seen = np.full(K, NOTHING)  # holds only what this policy has observed, in this round or before
    played = 0
    for k in range(K):
        played += counts[K + k]
    if played == 0:
        world.begin(world_rng)
    m = 0
    for t in range(played + 1, marks[-1] + 1):
        row = world.draw(world_rng)  # 1. the environment chooses (Y, Y^1, ..., Y^K)
        call = policy.select(rng)  # 2. the learner selects the models to call
        if call.size != K or call.itemsize != 1:  # numbers are not bools
            return t
        answer = -1
        for k in range(K):
            if call[k]:
                answer = k
        if answer < 0:
            return t
        policy.start(call, rng)
        shown = world.show(row, call, seen)  # 3. it observes their outputs, in a buffer of their own
        policy.update(call, seen[:shown], rng)
        for k in range(K):
            if call[k]:
                counts[k] += 1
        counts[K + answer] += 1
        if t == marks[m]:
            for k in range(2 * K):
                table[m, k] = counts[k]
            m += 1
    return 0


def _fits(problem, policy):
    check_arms(problem, policy, "models")


def _counters(problem):
    models = range(problem.arms)
    return (*(f"calls_{k}" for k in models), *(f"answers_{k}" for k in models))


LOOP = Loop(
    play,
    entry=("select", "start", "update"),
    world_entry=("begin", "draw", "show"),
    counters=_counters,
    fits=_fits,
    refusal=lambda problem: call_words(problem.arms),
    judge=lambda problem, policy, value: checked_call(policy, value, problem.arms),
    chunk_rounds=250_000,
    events=play_events,
    events_of=(PayToCompare,),
    protocol=Protocol(),
)
