"""The audit of a live cascade: fresh samples through its stages, labels where these disagree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weakfeedback.cascade.audit import Audit
from weakfeedback.live.buying import LabelSource
from weakfeedback.live.labels import (
    Combine,
    Compare,
    Costed,
    answers_of,
    differences,
    labels_of,
    rights,
    short,
)
from weakfeedback.live.stages import Rows, Stage


@dataclasses.dataclass
class Findings:
    """What the fresh samples showed."""

    wrong: list[np.ndarray]  # for each labelled sample, which stages were wrong
    labels: float = 0.0  # what the labels cost


def run_stages(samples: Rows, stages: Sequence[Stage], alone: bool = False) -> list[list[Any]]:
    """Return the outputs of all these stages for every sample; a single stage is run only with ``alone``."""
    outputs: list[list[Any]] = [[] for _ in range(samples.size)]
    if len(stages) > 1 or alone:
        for stage in stages:
            for seen, output in zip(outputs, list(stage.many(samples, range(samples.size), outputs))):
                seen.append(output)
    return outputs


def examine(
    outputs: list[list[Any]],
    ask: Callable[[int, list[Any]], Any],
    combine: Combine | None,
    compare: Compare | None,
    label_price: float,
) -> Findings:
    """Ask for the truth of the rows in which the answers differ."""
    found = Findings([])
    for row, seen in enumerate(outputs):
        if len(seen) < 2:
            continue
        answers = answers_of(labels_of(seen), combine)
        if differences(answers, compare).any():
            given = ask(row, labels_of(seen))
            label, cost = (given.label, given.cost) if isinstance(given, Costed) else (given, label_price)
            found.wrong.append(~rights(answers, label, compare))
            found.labels += cost
    return found


def teller(samples: Rows, truth: Any) -> Callable[[int, list[Any]], Any]:
    """Return a function for the truth of a row, from the sequence or the callable given."""
    if callable(truth):
        source = LabelSource("truth", truth)
        return lambda row, outputs: source.ask(samples[row], outputs)
    if isinstance(truth, (str, bytes, dict)) or not np.iterable(truth):
        raise ValueError(
            f"truth must be a callable or a sequence of labels, one per item, got {short(truth)}"
        )
    told = Rows(truth)
    if told.size != samples.size:
        raise ValueError(f"truth must be {samples.size} labels, one per item, got {told.size}")
    return lambda row, _: told[row]


def in_money(audit: Audit, error_cost: float, spent: float) -> Audit:
    """Return the audit in the money of the stages."""
    against = tuple((low * error_cost, high * error_cost) for low, high in audit.against)
    return dataclasses.replace(
        audit, low=audit.low * error_cost, high=audit.high * error_cost, against=against, spent=spent
    )
