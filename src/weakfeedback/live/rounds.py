"""One round of a cascade: the decision, the answer, and the record to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.live.ledger import Content


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision: call the stages 0, ..., ``arm`` and give their outputs as feedback under ``id``."""

    id: int
    arm: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one sample: its label, the stage it stopped at, and the total cost of the stages called."""

    label: Any
    arm: int
    cost: float
    outputs: tuple[Any, ...]
    id: int
    truth: Any = None  # the label that was bought for this sample, None if there was none
    scores: tuple[
        float | None, ...
    ] = ()  # of the stages called, where the cascade decides after every answer


@dataclass(slots=True)
class RoundRecord:
    """Everything to learn from one round, computed before anything is changed."""

    id: int
    arm: int
    answers: list[Any]
    labels: list[Any]
    content: Content
    differ: np.ndarray | None  # which pairs differ; None while they are still to be sampled
    far: np.ndarray | None  # how far apart the answers are, where a metric tells
    cost: float  # of all calls
    last: float  # what the last stage costs, or cost if it was called
    costs: list[float] | None = None  # of each call, if they differ from the stated costs
    right: np.ndarray | None = None  # which of the answers are right according to a bought label
    truth: Any = None
    label_cost: float = 0.0
    scores: tuple[float | None, ...] = ()
