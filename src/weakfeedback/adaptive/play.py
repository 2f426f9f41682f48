"""The round loop of adaptive cascades: run a stage, show its answer, ask the policy whether to go on."""

import numpy as np

from weakfeedback.adaptive.conformance import Protocol
from weakfeedback.contract.decisions import checked_bool
from weakfeedback.engine.loop import Loop
from weakfeedback.settings.problem import check_arms


def play(policy, world, world_rng, rng, marks, counts, table):
    """Play up to the round ``marks[-1]``; counts are stops per stage, then errors.

    Return 0, or the round in which the policy returned neither True nor False.
    """
    K = counts.size - 1
    # these hold only what this policy has observed, in this round or before
    outputs = np.zeros(K, dtype=np.int64)
    scores = np.zeros(K)
    chances = np.zeros(K)
    played = 0
    for k in range(K):
        played += counts[k]
    if played == 0:
        world.begin(world_rng)
    m = 0
    for t in range(played + 1, marks[-1] + 1):
        row = world.draw(world_rng)  # 1. the environment chooses the truth and all answers
        arm = 0
        world.show(row, 0, outputs, scores)  # 2. the first stage is run
        while arm < K - 1:
            more = (
                policy.go_on(arm, outputs[: arm + 1], scores[: arm + 1], rng) + 0
            )  # 3. the policy decides whether to go on
            if more != 0 and more != 1:
                return t
            if more == 0:
                break
            arm += 1
            world.show(row, arm, outputs, scores)
        believed = world.believe(row, arm, chances)
        policy.update(arm, outputs[: arm + 1], scores[: arm + 1], chances[:believed], rng)
        counts[arm] += 1
        counts[K] += world.errs(row, arm)
        if t == marks[m]:
            for k in range(K + 1):
                table[m, k] = counts[k]
            m += 1
    return 0


def fits(problem, policy):
    """Refuse a policy that was made for another number of stages, or whose judge cannot use these scores."""
    check_arms(problem, policy, "stages")
    if callable(getattr(policy, "check_judge", None)):
        policy.check_judge(problem.last_scores)


LOOP = Loop(
    play,
    entry=("go_on", "update"),
    world_entry=("begin", "draw", "show", "believe", "errs"),
    counters=lambda problem: (*(f"stops_{k}" for k in range(problem.arms)), "errors"),
    fits=fits,
    refusal=lambda problem: "True or False",  # noqa: ARG005
    judge=lambda problem, policy, value: checked_bool(policy, value, "go_on"),  # noqa: ARG005
    chunk_rounds=50_000,
    protocol=Protocol(),
)
