"""The live objects behind one face, so that what holds for all is tested on all."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback import Allocator, Cascade, ContextualCascade, FeedbackConflict, Player, Scored

STAGES = [lambda x: x % 2, lambda x: x % 3, lambda x: x % 5]


def noise(id: int, size: int = 1) -> Any:
    """Numbers from 0 to 1 that depend on the id only."""
    luck = random.Random(int(id))
    return np.array([luck.random() for _ in range(size)])


@dataclass
class Kind:
    """How one kind of object is made, loaded, asked and told."""

    make: Any  # () -> object
    load: Any  # path -> object
    decide: Any  # object -> (id, decided); players: the slot and the arm
    content: Any  # (id, decided) -> the feedback of that decision, the same on every call
    feedback: Any  # (object, id, content) -> "accepted" or "duplicate"
    open: Any  # (path, **options) -> object with a journal


def _decide_cascade(cascade):
    decision = cascade.decide()
    return decision.id, decision.arm


def _decide_contextual(cascade):
    decision = cascade.decide(noise(cascade.rounds, 2) - 0.5)
    return decision.id, decision.arm


def _decide_allocator(allocator):
    decision = allocator.decide()
    return decision.id, decision.allocation.tolist()


def _labels(id, arm):
    return [stage(int(1e6 * noise(id)[0])) for stage in STAGES[: arm + 1]]


def _seen(id, allocation):
    return [1.0 if amount < 0.4 and u < 0.7 else None for amount, u in zip(allocation, noise(id, 4))]


def _heard(slot, arm):
    hit = bool(arm >= 0 and noise(slot)[0] < 0.2)
    return (0.0 if hit or arm < 0 else float(noise(slot, 2)[1] < 0.2 + 0.2 * arm), hit)


def _observe(player, slot, heard):
    player.observe(*heard, slot=slot)
    return "accepted"


def _begin(cascade):
    return cascade.begin().id, None


def _sayings(id, decided):
    numbers = noise(id, 4)
    return [Scored(stage(int(1e6 * numbers[0])), numbers[k + 1]) for k, stage in enumerate(STAGES)]


def _tell(cascade, id, sayings):
    """Tell outputs until there is an answer; of a round that is known to have ended, the last one again."""
    if id not in cascade.pending:
        for stage, output in reversed(list(enumerate(sayings))):
            try:
                assert cascade.tell(id, output, stage=stage).answer is not None
                return "duplicate"
            except FeedbackConflict:
                if stage == 0:
                    raise
    for stage, output in enumerate(sayings):
        if cascade.tell(id, output, stage=stage).answer is not None:
            break
    return "accepted"


KINDS = {
    "Cascade": Kind(
        lambda: Cascade(STAGES, [1, 4, 9], error_cost=30, seed=1),
        lambda path: Cascade.load(path, STAGES),
        _decide_cascade,
        _labels,
        lambda cascade, id, content: cascade.feedback(id, content),
        lambda path, **options: Cascade.open(path, STAGES, [1, 4, 9], error_cost=30, seed=1, **options),
    ),
    "Adaptive": Kind(
        lambda: Cascade(STAGES, [1, 4, 9], error_cost=30, policy="USS-A", seed=1),
        lambda path: Cascade.load(path, STAGES),
        _begin,
        _sayings,
        _tell,
        lambda path, **options: Cascade.open(
            path, STAGES, [1, 4, 9], error_cost=30, policy="USS-A", seed=1, **options
        ),
    ),
    "ContextualCascade": Kind(
        lambda: ContextualCascade(STAGES, [1, 4, 9], error_cost=30, seed=1, keep=100, forced=30),
        lambda path: ContextualCascade.load(path, STAGES),
        _decide_contextual,
        _labels,
        lambda cascade, id, content: cascade.feedback(id, content),
        lambda path, **options: ContextualCascade.open(
            path, STAGES, [1, 4, 9], error_cost=30, seed=1, keep=100, forced=30, **options
        ),
    ),
    "Allocator": Kind(
        lambda: Allocator(4, 1.0, "CSB-SU", seed=1),
        Allocator.load,
        _decide_allocator,
        _seen,
        lambda allocator, id, content: allocator.feedback(id, content),
        lambda path, **options: Allocator.open(path, 4, 1.0, "CSB-SU", seed=1, **options),
    ),
    "Player": Kind(
        lambda: Player(4, "DLC-LIX", epsilon=0.3, seed=1),
        Player.load,
        lambda player: (player.slot, player.choose()),
        _heard,
        _observe,
        lambda path, **options: Player.open(path, 4, "DLC-LIX", epsilon=0.3, seed=1, **options),
    ),
}
BY_ID = [name for name in KINDS if name != "Player"]  # a player goes slot by slot


def play(kind: Kind, thing: Any, rounds: int) -> list[tuple[int, Any, Any]]:
    """Play rounds one after the other: their ids, decisions and contents."""
    played = []
    for _ in range(rounds):
        id, decided = kind.decide(thing)
        content = kind.content(id, decided)
        assert kind.feedback(thing, id, content) == "accepted"
        played.append((id, decided, content))
    return played


def state(thing: Any) -> dict[str, Any]:
    """Everything that its file would hold."""
    return thing.state()


def learned(thing: Any) -> dict[str, Any]:
    """The same without the answers remembered, which an object with a journal leaves to that."""
    found = thing.state()
    for name in ("answered", "remember", "floor", "runs"):
        del found["core"]["ledger"][name]
    return found
