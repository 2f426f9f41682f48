"""The audit of a live object: fresh samples through its stages, labels where these disagree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from weakfeedback.cascade.audit import Audit, audit_arm, checked_level
from weakfeedback.live.buying import LabelSource
from weakfeedback.live.comparing import Comparing
from weakfeedback.live.labels import (
    Combine,
    Compare,
    Costed,
    answers_of,
    costs_of,
    differences,
    labels_of,
    output_list,
    rights,
    short,
)
from weakfeedback.live.stages import Rows, Stage
from weakfeedback.validate import integer


class Audited(Comparing):
    """Stages or models of which one can be audited. A subclass defines the default one (``_used``)."""

    _audit_argument: ClassVar[str] = "arm"  # the argument that names the audited one
    _label_price: float | None = None

    def _audit(self, items: Any, truth: Any, alpha: float, arm: int | None) -> Audit:
        samples = Rows(items, "items")
        self._refuse_asynchronous()
        self._refuse_elsewhere()
        chosen = self._audited(arm, samples.size)
        ask, level = teller(samples, truth), checked_level(alpha)  # before any call is paid for
        outputs = run_stages(samples, self._stages[: chosen + 1])
        calls = sum(sum(costs_of(seen, self._prices)) for seen in outputs)
        return self._examined(outputs, ask, level, chosen, calls)

    def _audit_outputs(self, outputs: Any, truth: Any, alpha: float, arm: int | None) -> Audit:
        table, K = Rows(outputs, "outputs"), len(self._stages)
        chosen = self._audited(arm, table.size)
        rows = []
        for row in range(table.size):
            given = output_list(f"outputs[{row}]", table[row])
            if not chosen < len(given) <= K:
                wanted = f"{chosen + 1} to {K} labels, of the {self._noun}s 0 to {chosen} at least"
                raise ValueError(f"outputs[{row}] must be {wanted}, got {short(given)}")
            rows.append(given[: chosen + 1])
        return self._examined(rows, teller(Rows(range(table.size)), truth), alpha, chosen, 0.0)

    def _audited(self, arm: int | None, items: int) -> int:
        """Return the stage or model to audit."""
        if self._metric is not None:
            raise ValueError("an audit is for labels, not for answers compared by a metric")
        chosen = self._used() if arm is None else integer(self._audit_argument, arm, 0, len(self._stages) - 1)
        if chosen > 0 and not items:
            raise ValueError("items must be at least one sample, got none")
        return chosen

    def _used(self) -> int:
        """Return the stage or model that is mostly used."""
        raise NotImplementedError

    def _examined(self, outputs: list[list[Any]], ask: Any, alpha: float, arm: int, calls: float) -> Audit:
        level = checked_level(alpha)
        with self._ledger.lock:
            self._recover()
            counts, costs, error = self._counts, self._costs, self._error_cost
        found = examine(outputs, ask, self._combine, self._compare, self._label_price or 0.0)
        audit = audit_arm(costs, arm, found.wrong, len(outputs), counts.differed, counts.compared, level)
        return dataclasses.replace(in_money(audit, error, calls + found.labels), noun=self._noun)


@dataclasses.dataclass
class Findings:
    """What the fresh samples showed."""

    wrong: list[np.ndarray]  # for each labelled sample, which stages were wrong
    labels: float = 0.0  # what the labels cost


def run_stages(samples: Rows, stages: Sequence[Stage], alone: bool = False) -> list[list[Any]]:
    """Return the outputs of all these stages for every sample; a single stage is run only if ``alone`` is true."""
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


def in_money(audit: Audit, error_cost: float, spent: float) -> Audit:
    """Return the audit with costs in the money of the stages."""
    against = tuple((low * error_cost, high * error_cost) for low, high in audit.against)
    return dataclasses.replace(
        audit, low=audit.low * error_cost, high=audit.high * error_cost, against=against, spent=spent
    )
