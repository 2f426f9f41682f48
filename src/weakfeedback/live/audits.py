"""Audits of live objects: fresh samples through their stages, labels where these disagree."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.cascade.audit import Audit, audit_arm
from weakfeedback.cascade.movement import Calibration, calibration
from weakfeedback.contract.decisions import checked_bool
from weakfeedback.live.answers import (
    Compare,
    Comparer,
    Costed,
    Scored,
    answers_of,
    costs_of,
    differences,
    label_of,
    labels_of,
    output_list,
    rights,
    short,
)
from weakfeedback.live.games.adaptive import Progress, told_of
from weakfeedback.live.label_source import LabelSource
from weakfeedback.live.numbers import Squared, plain_number
from weakfeedback.live.stages import Rows, Stage
from weakfeedback.validate import fraction

if TYPE_CHECKING:
    from weakfeedback.adaptive.audit import RuleAudit

Ask = Callable[[int, list[Any]], Any]  # row and outputs -> the truth


def run_stages(samples: Rows, stages: Sequence[Stage], alone: bool = False) -> list[list[Any]]:
    """Return the outputs of all these stages for every sample; a single stage is run only if ``alone`` is true."""
    outputs: list[list[Any]] = [[] for _ in range(samples.size)]
    if len(stages) > 1 or alone:
        for stage in stages:
            for seen, output in zip(outputs, list(stage.many(samples, range(samples.size), outputs))):
                seen.append(output)
    return outputs


def calibrated(
    samples: Rows, truth: Any, alpha: float, stages: Sequence[Stage], code: Comparer
) -> Calibration:
    """Return how far stages that answer with numbers are from calibrated."""
    if not isinstance(code.metric, Squared):
        raise ValueError("calibration is for answers that are numbers: give loss='squared'")
    told, level = told_truth(truth, samples.size), fraction("alpha", alpha)  # before any call is paid for
    wanted = [plain_number(told[row]) for row in range(samples.size)]
    rows = run_stages(samples, stages, alone=True)
    answers = [[plain_number(answer) for answer in answers_of(labels_of(row), code.combine)] for row in rows]
    return calibration(wanted, answers, code.metric.scale, level)


def rows_up_to(outputs: Any, arm: int, stages: int, noun: str) -> list[list[Any]]:
    """Return the outputs of the stages 0, ..., arm, row by row."""
    wanted = f"{arm + 1} to {stages} labels, of the {noun}s 0 to {arm} at least"
    return [row[: arm + 1] for row in _rows("outputs", outputs, range(arm + 1, stages + 1), wanted)]


def all_rows(outputs: Any, stages: int, noun: str = "stage") -> list[list[Any]]:
    """Return the outputs of all stages, row by row."""
    return _rows("outputs", outputs, (stages,), f"{stages} labels, one per {noun}")


def _rows(name: str, given: Any, lengths: Sequence[int], wanted: str) -> list[list[Any]]:
    """Return a table as lists, each of one of these lengths."""
    table, rows = Rows(given, name), []
    for number in range(table.size):
        row = output_list(f"{name}[{number}]", table[number])
        if len(row) not in lengths:
            raise ValueError(f"{name}[{number}] must be {wanted}, got {short(row)}")
        rows.append(row)
    return rows


def audit_stage(
    outputs: list[list[Any]],
    ask: Ask,
    alpha: float,
    arm: int,
    calls: float,
    code: Comparer,
    price: float,
    view: Any,
) -> Audit:
    """Return what the outputs of the stages up to ``arm``, and labels where they differ, say of it, in money.

    ``calls`` were paid for the outputs, ``price`` is that of a label.
    """
    level, error = fraction("alpha", alpha), view.terms.error_cost
    wrong, spent = [], 0.0
    for row, seen in enumerate(outputs):
        answers = answers_of(labels_of(seen), code.combine) if len(seen) > 1 else []
        if differences(answers, code.compare).any():
            given = ask(row, labels_of(seen))
            label, cost = (given.label, given.cost) if isinstance(given, Costed) else (given, price)
            wrong.append(~rights(answers, label, code.compare))
            spent += cost
    compared = view.counts.differed, view.counts.compared
    found = audit_arm(view.terms.costs, arm, wrong, len(outputs), *compared, level)
    against = tuple((low * error, high * error) for low, high in found.against)
    return dataclasses.replace(
        found, low=found.low * error, high=found.high * error, against=against, spent=calls + spent
    )


def audit_rule(
    rows: list[list[Any]],
    ask: Ask,
    alpha: float,
    code: Comparer,
    policy: Any,
    rng: np.random.Generator,
    terms: Any,
) -> RuleAudit:
    """Return what labels say of the rule of a policy that decides after every answer; both are copies."""
    from weakfeedback.adaptive.audit import audit_stops

    level = fraction("alpha", alpha)
    told = [ask(row, labels_of(outputs)) for row, outputs in enumerate(rows)]
    right = [rights(labels_of(row), label_of(one), code.compare) for row, one in zip(rows, told)]
    stops = [_stop_of(policy, row, code.compare, rng) for row in rows]
    paid = [costs_of(row, terms.prices) for row in rows]
    own = any(isinstance(output, Costed) for row in rows for output in row)
    return audit_stops(
        stops, ~np.array(right), terms.stage_costs, level, terms.error_cost, paid if own else None
    )


def _stop_of(policy: Any, row: list[Any], compare: Compare | None, rng: np.random.Generator) -> int:
    """Return the stage at which a policy stops a row."""
    seen = Progress()
    for k, output in enumerate(row[:-1]):
        seen = Progress((*seen.told, told_of(output, seen, compare, False)))
        numbers, scores = seen.arrays()
        if not checked_bool(policy, policy.go_on(k, numbers, scores, rng), "go_on"):
            return k
    return len(row) - 1


def teller(samples: Rows, truth: Any) -> Ask:
    """Return a function that returns the truth of a row, from the given sequence or callable."""
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


# -- labelled samples, for a calibration


def told_truth(truth: Any, items: int) -> Rows:
    """Return the truth as rows, one label per item."""
    told = Rows(truth, "truth")
    if told.size != items or not items:
        raise ValueError(f"truth must be {items or 'at least one'} labels, one per item, got {told.size}")
    return told


def with_scores(rows: list[list[Any]], scores: Any) -> list[list[Any]]:
    """Return the outputs with their scores; None or NaN is a missing score."""
    size, stages = Rows(scores, "scores").size, len(rows[0]) if rows else 0
    if size != len(rows):
        raise ValueError(f"scores must have {len(rows)} rows, as outputs has, got {size}")
    found = []
    for labels, given in zip(rows, _rows("scores", scores, (stages,), f"{stages} numbers, one per stage")):
        missing = [
            one is None or (isinstance(one, (float, np.floating)) and math.isnan(one)) for one in given
        ]
        found.append([a if gap else Scored(a, one) for a, one, gap in zip(labels, given, missing)])
    return found
