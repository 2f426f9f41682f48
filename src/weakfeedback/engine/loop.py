"""What a setting tells the engine about its round loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Loop:
    """The round loop of a setting, the methods it calls on a policy, and what it counts.

    ``play(policy, world, world_rng, rng, marks, counts, table)`` plays on to round ``marks[-1]``, adds to
    ``counts`` and copies them into ``table`` at each mark; it returns 0, or the round of a decision that
    is not allowed. A world has the methods ``begin(rng)`` and those named in ``world_entry``.
    """

    play: Callable
    entry: tuple[str, ...]
    world_entry: tuple[str, ...]
    counters: Callable[[Any], tuple[str, ...]]  # problem -> names of the counts
    fits: Callable[[Any, Any], None]  # (problem, policy): ValueError if they do not belong together
    refusal: Callable[[Any], str]  # problem -> what a decision must be
    chunk_rounds: int  # rounds of one policy in one chunk of replications
    protocol: Any  # one round taken apart (draw, decide, show, learn), for the conformance checks
    with_truth: "Loop | None" = None  # the same setting for comparators with ``sees_truth = True``
    players: Callable[[Any], int] | None = (
        None  # problem -> N: ``play`` gets lists of N policies and generators
    )


def loop_for(problem: Any, policy: Any) -> Loop:
    """The loop that plays this policy: the problem's own, or the one that shows the truth to a comparator."""
    loop: Loop = problem.loop()
    if not getattr(policy, "sees_truth", False):
        return loop
    if loop.with_truth is None:
        raise ValueError(f"{type(policy).__name__} must see the truth, which {problem!r} does not have")
    return loop.with_truth
