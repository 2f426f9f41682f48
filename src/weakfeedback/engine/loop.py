"""The interface between a setting's round loop and the engine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Loop:
    """The round loop of a setting, the methods it calls on a policy, and what it counts.

    ``play(policy, world, world_rng, rng, marks, counts, table)`` plays up to round ``marks[-1]``, adds to
    ``counts`` and copies them into ``table`` at each mark; it returns 0, or the round of a decision that
    is not allowed. A world has the methods ``begin(rng)`` and those named in ``world_entry``.
    """

    play: Callable[..., Any]
    entry: tuple[str, ...]
    world_entry: tuple[str, ...]
    counters: Callable[[Any], tuple[str, ...]]  # problem -> names of the counts
    fits: Callable[[Any, Any], None]  # (problem, policy): ValueError if they do not belong together
    refusal: Callable[[Any], str]  # problem -> what a decision must be
    # (problem, policy, decision): the decision, or ``WrongDecision`` if it is not allowed
    judge: Callable[[Any, Any, Any], Any]
    chunk_rounds: int  # rounds of one policy in one chunk of replications
    protocol: Any  # one round split into steps (draw, decide, show, learn), for the conformance checks
    # the same setting for policies with one of these methods, or with ``sees_truth = True``
    variants: "Mapping[str, Loop]" = field(default_factory=dict)
    # problem -> N: ``play`` gets lists of N policies and generators
    players: Callable[[Any], int] | None = None
    # (problem, policy, counts) -> measures, where they depend on the policy; the problem's own otherwise
    measures: Callable[[Any, Any, Any], dict[str, Any]] | None = None
    # like ``play``, but skips rounds in which nothing changes; for policies of these classes
    events: Callable[..., Any] | None = None
    events_of: tuple[type, ...] = ()


def loop_for(problem: Any, policy: Any) -> Loop:
    """Return the loop for this policy: the problem's own, or a variant that shows or sells more."""
    own: Loop = problem.loop()
    loop = own
    for name in ("next_stage", "turn_to", "wants_label", "sees_truth"):
        if getattr(policy, name, False):
            loop = loop.variants.get(name, loop)
    if loop is own and callable(getattr(policy, "wants_label", None)):
        raise ValueError(f"{type(policy).__name__} buys labels, which {problem!r} does not sell")
    if loop is own and getattr(policy, "sees_truth", False):
        raise ValueError(f"{type(policy).__name__} must see the truth, which {problem!r} does not have")
    return loop


def refuse_events(problem: Any, label: str, policy: Any) -> None:
    """Raise ``ValueError`` for a policy that cannot be played by events."""
    loop = loop_for(problem, policy)
    if loop.events is None:
        raise ValueError(
            f"method must be 'rounds' for {problem.setting} and {type(policy).__name__}, got 'events'"
        )
    known = next((kind for kind in type(policy).__mro__ if kind in loop.events_of), None)
    if known is None:
        names = ", ".join(sorted(kind.__name__ for kind in loop.events_of))
        raise ValueError(
            f"method must be 'rounds' for policies[{label!r}], got 'events': {type(policy).__name__} is none of "
            f"{names}, whose rounds can be skipped"
        )
    # a subclass that overrides these methods may not have the properties of the class
    for kind in type(policy).__mro__[: type(policy).__mro__.index(known)]:
        for name, value in vars(kind).items():
            if callable(value) and name != "__init__":
                raise ValueError(
                    f"method must be 'rounds' for policies[{label!r}], got 'events': {kind.__name__} changes "
                    f"{name}() of {known.__name__}"
                )


def measures_of(problem: Any, policy: Any, counts: Any) -> dict[str, Any]:
    """Return the measures that follow from the counts of a policy."""
    loop = loop_for(problem, policy)
    return problem.measures(counts) if loop.measures is None else loop.measures(problem, policy, counts)
