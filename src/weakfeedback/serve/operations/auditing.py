"""Audits: which fresh items need labels, and what the labels say."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.canonical import digest_of
from weakfeedback.journal import Event
from weakfeedback.live.errors import Refused
from weakfeedback.live.report import plain
from weakfeedback.routing.yields import Yields, yields
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.models import AuditLabels, AuditRequest, Problem
from weakfeedback.serve.operations.teaching import run_once
from weakfeedback.serve.outputs import check_labels

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service


async def audit(service: Service, name: str, given: AuditRequest, key: str | None = None) -> dict[str, Any]:
    """Begin an audit: send outputs of fresh items, get the rows that need labels.

    Only once per key.
    """
    learner = service.learner(name)
    if learner.kind.name not in ("cascade", "router") or not hasattr(learner.live, "audit_outputs"):
        raise Problem("not_offered", f"a {learner.kind.name} learner has no audit")
    for outputs in given.outputs:
        check_labels("outputs", outputs)
    found = await run_once(service, learner, "audit", functools.partial(_begin_audit, learner), given, key)
    begun = (found if isinstance(found, Event) else found[-1]).body
    return _audit_told(learner.audits.get(begun["audit"], begun))


def _audited(learner: Learner, arm: int | None, items: int) -> int:
    """Return the stage to audit; Problem if there can be no audit of it."""
    live: Any = learner.live
    try:
        return int(live._audited(arm, items))
    except ValueError as error:
        code = error.code if isinstance(error, Refused) else "invalid"
        raise Problem(code, str(error)) from None


def _begin_audit(learner: Learner, given: AuditRequest, key: str | None, digest: str | None) -> list[Event]:
    arm = _audited(learner, given.arm, len(given.outputs))
    rows, wanted = [], []
    for row, outputs in enumerate(given.outputs):
        if not arm < len(outputs) <= len(learner.kind.names):
            raise Problem(
                "wrong_outputs",
                f"outputs[{row}] must be of the stages 0 to {arm} at least, got {len(outputs)}",
                field="outputs",
            )
        comparator: Any = learner.kind.comparator  # type: ignore[attr-defined]
        labels = [digest_of(label) for label in comparator.labels("outputs", outputs[: arm + 1])]
        same = len(set(labels)) == 1
        rows.append(None if same else labels)
        if not same:
            wanted.append(row)
    number = max(learner.audits, default=0) + 1
    body = {"audit": number, "arm": arm, "alpha": given.alpha, "rows": rows, "wanted": wanted}
    if digest is not None:
        body["digest"] = digest
    return learner.audit(body, key)


async def audit_labels(service: Service, name: str, audit: int, given: AuditLabels) -> dict[str, Any]:
    """End an audit with the labels of those rows."""
    learner = service.learner(name)
    await service.steps.run(learner, _end_audit, learner, audit, given)
    return await audit_told(service, name, audit)


def _end_audit(learner: Learner, number: int, given: AuditLabels) -> list[Event]:
    known = _audit_of(learner, number)
    live: Any = learner.live
    comparator: Any = learner.kind.comparator  # type: ignore[attr-defined]
    wanted = {str(row) for row in known["wanted"]}
    if set(given.labels) != wanted:
        raise Problem(
            "wrong_label", f"labels must be those of the {len(wanted)} rows asked for", field="labels"
        )
    told = {row: digest_of(comparator.labels("labels", [label])[0]) for row, label in given.labels.items()}
    if known.get("verdict"):
        if known["labels"] != told:
            raise Problem("conflict", f"audit {number} was answered with other labels")
        return []
    _audited(learner, known["arm"], len(known["rows"]))  # it may have been made a promise meanwhile
    outputs = [["="] * (known["arm"] + 1) if labels is None else labels for labels in known["rows"]]
    truth = [told.get(str(row), "=") for row in range(len(outputs))]
    found = live.audit_outputs(outputs, truth, known["alpha"], known["arm"])
    _take_yields(live, outputs, truth)
    result = {"low": found.low, "high": found.high, "against": plain(found.against), "text": str(found)}
    return learner.audit(
        {
            "audit": number,
            "labels": told,
            "verdict": found.verdict,
            **plain(result),
            "count": found.labels,
        }
    )


def _take_yields(live: Any, outputs: list[list[str]], truth: list[str]) -> None:
    """Let a router with features decide with what the labelled disagreements yield, added to those known before."""
    if getattr(live, "features", None) is None or not hasattr(live.core.game, "take_yields"):
        return
    size, models = len(outputs[0]), len(live.prices)
    found = yields(outputs, truth, labels=len(outputs))
    if not found.labels.any():
        return
    more = ((0, models - size), (0, models - size))
    labels, better, worse = (np.pad(one, more) for one in (found.labels, found.better, found.worse))
    n, plus, minus = live.core.counts.yields or (0, 0, 0)
    live.take_yields(Yields.of(labels + n, better + plus, worse + minus))


async def audit_told(service: Service, name: str, audit: int) -> dict[str, Any]:
    """Show where an audit stands."""
    learner = service.learner(name)
    return await service.steps.confirm(learner, _audit_told(_audit_of(learner, audit)))


def _audit_of(learner: Learner, number: int) -> dict[str, Any]:
    known = learner.audits.get(number)
    if known is None:
        raise Problem("unknown_audit", f"there is no audit {number!r:.30}")
    return known


def _audit_told(audit: dict[str, Any]) -> dict[str, Any]:
    told = {"id": audit["audit"], "arm": audit["arm"], "alpha": audit["alpha"]}
    told |= {"items": len(audit["rows"]), "rows": audit["wanted"]}
    if audit.get("verdict"):
        told |= {name: audit[name] for name in ("verdict", "low", "high", "against", "text")}
        told["labels"] = audit["count"]
    return told
