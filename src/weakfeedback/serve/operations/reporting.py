"""What was learned, spent and saved: reports, certificates, accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weakfeedback.cascade.certificate import certificate_level
from weakfeedback.journal import Event
from weakfeedback.live.promise_report import PromiseCertificate
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.models import Problem
from weakfeedback.serve.operations.lookup import asked_before, checked_key
from weakfeedback.serve.wording import moment

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service


async def report(service: Service, name: str) -> dict[str, Any]:
    """Return what a learner has seen, spent and saved, as data."""
    learner = service.learner(name)
    async with learner.lock:
        told = await service.steps.in_pool(report_now, learner)
    return await service.steps.confirm(learner, told)


def report_now(learner: Learner) -> dict[str, Any]:
    """Return the current report of a learner, committed or not; the caller must hold its lock."""
    own = learner.kind.report(learner.live, learner.invoice)
    if own.get("weak_dominance") is not None:
        done = [audit for audit in learner.audits.values() if audit.get("verdict")]
        last = done[-1]["verdict"] if done else "none"
        own["weak_dominance"] = f"{own['weak_dominance']} Last audit: {last}."
    told = {
        "name": learner.name,
        "kind": learner.kind.name,
        **own,
        "late": learner.refused["late"],
        "cancelled": learner.counts["cancelled"],
        "expired": learner.counts["expired"],
        "currency": learner.config.currency,
        "seq": learner.seq,
    }
    if learner.invoice.terms is not None:
        told["proxy"] = {**learner.invoice.summary(), "since": moment(learner.invoice.since or 0)}
        told |= {name: told["proxy"][name] for name in ("spent", "wasted", "saved")}
    watch: Any = learner.observers.get("watch")
    if watch is not None and watch.kind != "allocation":
        told["drift"] = [
            {**row, "since": None if row["since"] is None else moment(row["since"])}
            for row in watch.drift.rows()
        ]
    return told


async def report_text(service: Service, name: str) -> str:
    """Return the report as the library's own table."""
    learner = service.learner(name)
    async with learner.lock:
        text = await service.steps.in_pool(learner.kind.text, learner.live, learner.invoice)
        if learner.invoice.terms is not None:
            text += "\n\n" + learner.invoice.table(learner.config.currency)
    return await service.steps.confirm(learner, text)


async def certificate(service: Service, name: str, alpha: float = 0.05) -> dict[str, Any]:
    """Say what the comparisons prove without labels."""
    learner = service.learner(name)
    certificate = getattr(learner.live, "certificate", None)
    if certificate is None:
        raise Problem("not_offered", f"a {learner.kind.name} learner has no certificate")
    try:
        certificate_level(alpha)
    except ValueError as error:
        raise Problem("invalid", str(error)) from None
    async with learner.lock:
        try:
            found = await service.steps.in_pool(certificate, alpha)
        except ValueError as error:
            raise Problem("not_offered", str(error)) from None
    if isinstance(found, PromiseCertificate):
        kept: dict[str, Any] = {
            "verdict": "promise",
            "possible": [],
            "needed": None,
            "alpha": alpha,
            "text": str(found),
        }
        told = {**kept, "differ_at_most": found.differ_at_most}
        return await service.steps.confirm(learner, told)
    told = {
        "verdict": found.verdict,
        "possible": list(found.possible),
        "needed": found.needed,
        "alpha": found.alpha,
        "text": str(found),
    }
    return await service.steps.confirm(learner, told)


async def note(
    service: Service, name: str, kind: str, body: dict[str, Any], key: str | None = None, again: bool = False
) -> None:
    """Record what only the accounts count.

    A request that a front end answered without a comparison ("serve"), a "bill", or the "terms" of the next ones.
    With ``again`` it may have been recorded before, under its key: then it is not recorded twice.
    """
    learner, check = service.learner(name), None
    if again and key is not None:
        check = asked_before(service, learner, checked_key(key), _known)
    _, future = await service.steps.take(learner, learner.note, kind, body, key, check=check)
    await service.steps.wait(future)


async def _known(event: Event) -> list[Event]:
    return [event]
