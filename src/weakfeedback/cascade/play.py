"""The round loops of cascades: what is drawn, what is decided, what is shown (thesis, Algorithm 1).

The second loop is for policies that buy labels.
"""

from dataclasses import replace

import numpy as np

from weakfeedback.cascade.conformance import LabelProtocol, Protocol
from weakfeedback.cascade.events import LAWS, play_events
from weakfeedback.cascade.numbers import NumericProblem
from weakfeedback.cascade.problem import measures_with_labels, most_outputs
from weakfeedback.contract.decisions import arm_words, checked_arm
from weakfeedback.engine.loop import Loop
from weakfeedback.settings.problem import check_arms
from weakfeedback.validate import number

NOTHING = -1_000_000_007  # placeholder where no output was ever observed


def play(policy, world, world_rng, rng, marks, pulls, table):
    """Play up to the round ``marks[-1]``, counting pulls per arm and copying the counts at each mark.

    Return 0, or the round in which the policy chose an arm that does not exist.
    """
    K = pulls.size
    # holds only what this policy has observed, in this round or before
    seen = np.full(K, NOTHING, world.rows.dtype)
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


def play_selling(policy, world, world_rng, rng, marks, counts, table):
    """Play as ``play`` does, with a policy that may buy the truth of a round; the last count is of labels."""
    K = counts.size - 1
    seen = np.full(K, NOTHING)
    played = 0
    for k in range(K):
        played += counts[k]
    if played == 0:
        world.begin(world_rng)
    m = 0
    for t in range(played + 1, marks[-1] + 1):
        row = world.draw(world_rng)
        arm = policy.select(rng) + 0
        if arm < 0 or arm >= K:
            return t
        world.show(row, arm, seen)
        if policy.wants_label(arm, seen[: arm + 1], rng):  # asked before anything is learned from the round
            policy.learn_label(arm, seen[: arm + 1], world.sell(row))
            counts[K] += 1
        policy.update(arm, seen[: arm + 1], rng)
        counts[arm] += 1
        if t == marks[m]:
            for k in range(K + 1):
                table[m, k] = counts[k]
            m += 1
    return 0


def fits(problem, policy):
    """Refuse a policy that was made for other arms or labels."""
    check_arms(problem, policy)
    if isinstance(problem, NumericProblem):
        if not getattr(policy, "numeric_outputs", False):
            raise ValueError(
                f"{type(policy).__name__} is for answers that are labels, the problem has numbers: use USS-mean"
            )
        scale = getattr(policy, "scale", problem.scale)
        if scale != problem.scale:
            raise ValueError(f"scale must be {problem.scale:g}, as in the problem, got {scale:g}")
    elif getattr(policy, "binary_outputs", False) and most_outputs(problem) > 2:
        raise ValueError(
            f"{type(policy).__name__} is for outputs of two labels, the problem has {most_outputs(problem)} in a round"
        )


def _fits_buyer(problem, policy):
    fits(problem, policy)
    number(f"the field price of {type(policy).__name__}, which buys labels,", _price(policy), at_least=0.0)


def _price(policy):
    return getattr(policy, "price", None)


def pull_names(problem):
    """Return the names of the counts of every policy."""
    return tuple(f"pulls_{k}" for k in range(problem.arms))


LABEL_LOOP = Loop(
    play_selling,
    entry=("select", "wants_label", "learn_label", "update"),
    world_entry=("begin", "draw", "show", "sell"),
    counters=lambda problem: (*pull_names(problem), "labels"),
    fits=_fits_buyer,
    refusal=lambda problem: arm_words(problem.arms),
    judge=lambda problem, policy, value: checked_arm(policy, value, problem.arms),
    chunk_rounds=250_000,
    protocol=LabelProtocol(),
    measures=lambda problem, policy, counts: measures_with_labels(problem, counts, _price(policy)),
)

LOOP = replace(
    LABEL_LOOP,
    play=play,
    entry=("select", "update"),
    world_entry=("begin", "draw", "show"),
    counters=pull_names,
    fits=fits,
    protocol=Protocol(),
    measures=None,
    variants={"wants_label": LABEL_LOOP},
    events=play_events,
    events_of=tuple(LAWS),
)
