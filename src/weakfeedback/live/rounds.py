"""One round of a cascade: what is decided, what is answered, what is learned from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.live.labels import Combine, Compare, answers_of, costs_of, differences, labels_of
from weakfeedback.live.ledger import fingerprint


@dataclass(frozen=True, slots=True)
class Decision:
    """Call the stages 0, ..., ``arm`` and give their outputs as feedback under ``id``."""

    id: int
    arm: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one sample: its label, the stage it stopped at, and what the calls cost in all."""

    label: Any
    arm: int
    cost: float
    outputs: tuple[Any, ...]
    id: int


@dataclass(frozen=True, slots=True)
class Lesson:
    """Everything that one round teaches, worked out before anything is changed."""

    arm: int
    answer: Any
    labels: tuple[Any, ...]
    cost: float
    saved: float
    differ: np.ndarray
    digest: str


def make_lesson(
    arm: int, outputs: list[Any], stage_costs: np.ndarray, combine: Combine | None, compare: Compare | None
) -> Lesson:
    """Return what the outputs of stages 0, ..., arm teach; ValueError if they cannot be compared."""
    labels = labels_of(outputs)
    answers = answers_of(labels, combine)
    return Lesson(
        arm=arm,
        answer=answers[-1],
        labels=tuple(labels),
        cost=sum(costs_of(outputs, stage_costs)),
        saved=float(stage_costs[arm + 1 :].sum()),
        differ=differences(answers, compare),
        digest=fingerprint(outputs),
    )
