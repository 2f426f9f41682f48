"""The round loops of adaptive cascades: run a stage, show its answer, ask the policy whether to go on, or where."""

import math
from dataclasses import replace

import numpy as np

from weakfeedback.adaptive.conformance import Protocol, StagesProtocol
from weakfeedback.contract.decisions import checked_bool, checked_stage, stage_words
from weakfeedback.engine.loop import Loop
from weakfeedback.settings.problem import check_arms


def play(policy, world, world_rng, rng, marks, counts, table):
    """Play up to the round ``marks[-1]``; counts are stops per stage, errors, answers unlike the last stage's.

    Return 0, or the round in which the policy returned neither True nor False.
    """
    K = counts.size - 2
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
            # 3. the policy decides whether to go on
            more = policy.go_on(arm, outputs[: arm + 1], scores[: arm + 1], rng) + 0
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
        counts[K + 1] += world.differs(row, arm, K - 1)
        if t == marks[m]:
            for k in range(counts.size):
                table[m, k] = counts[k]
            m += 1
    return 0


def play_stages(policy, world, world_rng, rng, marks, counts, table):
    """Do the same for a policy that names the next stage: it may begin anywhere, and skip.

    Counts are, per stage, answers, calls and answers unlike its own, then errors. Return 0, or the round in which the
    policy called no stage, one that does not exist, or one twice.
    """
    K = counts.size // 3
    outputs = np.zeros(K, dtype=np.int64)
    scores = np.zeros(K)
    chances = np.zeros(K)
    m = 0
    for t in range(begin(world, world_rng, counts, K) + 1, marks[-1] + 1):
        row = world.draw(world_rng)
        if play_round(policy, world, row, rng, outputs, scores, chances, counts) < 0:
            return t
        if t == marks[m]:
            table[m, :] = counts
            m += 1
    return 0


def play_groups(policy, world, world_rng, rng, marks, counts, table):
    """Do the same for a policy that is told the group of a round before it begins."""
    K = counts.size // 3
    outputs = np.zeros(K, dtype=np.int64)
    scores = np.zeros(K)
    chances = np.zeros(K)
    m = 0
    for t in range(begin(world, world_rng, counts, K) + 1, marks[-1] + 1):
        row = world.draw(world_rng)
        policy.turn_to(world.group(row), -1, 1.0)
        if play_round(policy, world, row, rng, outputs, scores, chances, counts) < 0:
            return t
        if t == marks[m]:
            table[m, :] = counts
            m += 1
    return 0


def begin(world, world_rng, counts, K):
    """Return how many rounds were played; begin if there were none."""
    played = 0
    for k in range(K):
        played += counts[k]
    if played == 0:
        world.begin(world_rng)
    return played


def play_round(policy, world, row, rng, outputs, scores, chances, counts):
    """Run the stages that a policy names until it names none; return the last one, or -1 for a wrong decision."""
    K = outputs.size
    for k in range(K):
        outputs[k] = -1  # not called
        scores[k] = math.nan
    arm = -1
    top = -1
    while True:
        stage = policy.next_stage(arm, outputs[: top + 1], scores[: top + 1], rng) + 0
        if stage == -1:
            break
        if stage < 0 or stage >= K or outputs[stage] != -1:
            return -1
        arm = stage
        top = max(top, arm)
        world.show(row, arm, outputs, scores)
        counts[K + arm] += 1
    if arm < 0:
        return -1
    believed = world.believe(row, K - 1, chances) if top == K - 1 else 0
    policy.update(arm, outputs[: top + 1], scores[: top + 1], chances[:believed], rng)
    counts[arm] += 1
    for k in range(K):
        counts[2 * K + k] += world.differs(row, arm, k)
    counts[3 * K] += world.errs(row, arm)
    return arm


def fits(problem, policy):
    """Refuse a policy that was made for another number of stages, or whose judge cannot use these scores."""
    check_arms(problem, policy, "stages")
    if callable(getattr(policy, "check_judge", None)):
        policy.check_judge(problem.last_scores, problem.labels)


def fits_stages(problem, policy):
    """Refuse a policy that was made for another number of stages, or whose answers go out while they are compared."""
    fits(problem, policy)
    if getattr(policy, "background", False):
        raise ValueError("background=True is for live use: in a simulation the last stage called answers")


def reference_of(problem, policy):
    """Return the stage whose answers the others are compared with."""
    return int(getattr(policy, "R", problem.arms - 1))


SEEN = ("begin", "draw", "show", "believe", "errs", "differs")
GROUPS = Loop(
    play_groups,
    entry=("next_stage", "update", "turn_to"),
    world_entry=(*SEEN, "group"),
    counters=lambda problem: (
        *(f"{word}_{k}" for word in ("stops", "calls", "unlike") for k in range(problem.arms)),
        "errors",
    ),
    fits=fits_stages,
    refusal=lambda problem: f"{stage_words(problem.arms)}, each at most once, and at least one",
    judge=lambda problem, policy, value: checked_stage(policy, value, problem.arms),
    chunk_rounds=50_000,
    protocol=StagesProtocol(),
    measures=lambda problem, policy, counts: problem.measures_of_calls(counts, reference_of(problem, policy)),
)
STAGES = replace(
    GROUPS, play=play_stages, entry=("next_stage", "update"), world_entry=SEEN, variants={"turn_to": GROUPS}
)
LOOP = Loop(
    play,
    entry=("go_on", "update"),
    world_entry=SEEN,
    counters=lambda problem: (*(f"stops_{k}" for k in range(problem.arms)), "errors", "differs"),
    fits=fits,
    refusal=lambda problem: "True or False",  # noqa: ARG005
    judge=lambda problem, policy, value: checked_bool(policy, value, "go_on"),  # noqa: ARG005
    chunk_rounds=50_000,
    protocol=Protocol(),
    variants={"next_stage": STAGES},
)
