"""One round of a cascade: what is decided, what is answered, what is learned from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.live.labels import Combine, answers_of, costs_of, labels_of, short
from weakfeedback.live.ledger import fingerprint


@dataclass(frozen=True, slots=True)
class Decision:
    """Call the stages 0, ..., ``arm`` and give their outputs as feedback under ``id``."""

    id: int
    arm: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one sample: its label, the stage it stopped at, and what the calls of stages cost in all."""

    label: Any
    arm: int
    cost: float
    outputs: tuple[Any, ...]
    id: int
    truth: Any = None  # the label that was bought for this sample, None if there was none


@dataclass(frozen=True, slots=True)
class Lesson:
    """Everything that one round teaches, worked out before anything is changed."""

    arm: int
    answers: tuple[Any, ...]
    labels: tuple[Any, ...]
    cost: float
    saved: float
    differ: np.ndarray  # which pairs differ, or how far they are apart while no coin was tossed
    digest: str
    right: np.ndarray | None = None  # which of the answers a label that was bought says are right
    truth: Any = None
    label_cost: float = 0.0


def check_number(outputs: list[Any], arm: int) -> None:
    """Refuse more or fewer outputs than stages were to be called."""
    if len(outputs) != arm + 1:
        raise ValueError(
            f"outputs must be {arm + 1} in number, of the stages 0 to {arm}, got {len(outputs)}: {short(outputs)}"
        )


def make_lesson(
    arm: int,
    outputs: list[Any],
    stage_costs: list[float],
    combine: Combine | None,
    compared: Callable[[list[Any]], np.ndarray],
    digest: str | None = None,
) -> Lesson:
    """Return what the outputs of stages 0, ..., arm teach; ValueError if they cannot be compared.

    ``digest`` is that of the outputs, where it is known.
    """
    labels = labels_of(outputs)
    answers = answers_of(labels, combine)
    return Lesson(
        arm=arm,
        answers=tuple(answers),
        labels=tuple(labels),
        cost=sum(costs_of(outputs, stage_costs)),
        saved=sum(stage_costs[arm + 1 :]),
        differ=compared(answers),
        digest=fingerprint(outputs) if digest is None else digest,
    )
