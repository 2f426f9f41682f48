"""Learners of the service that keep a promise: their arguments, their changes and their reports."""

from __future__ import annotations

import dataclasses
from typing import Any

from weakfeedback.live.promise_report import NO_GROUP, PromiseReport
from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.models import Problem, wrong

# what a promise may change while the learner runs, with error_cost
CHANGES = ("agree", "budget", "reference", "shadow", "paused", "self_check")
CHOICES = ("sure", "groups", "shadow", "background", "self_check")


def is_promised(config: Any) -> bool:
    """Whether a configuration asks for a promise."""
    named = (getattr(config, "policy", None) or "").lower() == "promise"
    given = any(getattr(config, name, None) is not None for name in ("agree", "budget"))
    return named or (given and config.kind in ("adaptive", "router"))


def promise_arguments(config: Any, names: list[str]) -> dict[str, Any]:
    """Return the arguments of the live object that say what is promised; Problem for a reference that there is not."""
    found: dict[str, Any] = {name: getattr(config, name) for name in ("agree", "budget", *CHOICES)}
    return {**found, "reference": reference_of(config.reference, names)}


def reference_of(name: str | None, names: list[str]) -> int | None:
    """Return the number of the reference."""
    if name is None:
        return None
    if name not in names:
        raise wrong("reference", f"must be one of {', '.join(names)}, got {name!r:.60}")
    return names.index(name)


def change(live: Any, given: dict[str, Any], names: list[str]) -> None:
    """Promise something else from the next request on, if that is asked for."""
    wanted = {name: given[name] for name in CHANGES if given.get(name) is not None}
    if "reference" in wanted:
        wanted["reference"] = reference_of(wanted["reference"], names)
    if wanted and live.core.terms.promise is None:
        raise Problem(
            "not_offered", f"{next(iter(wanted))} is for a promise; make a learner with agree or budget"
        )
    if wanted:
        live.promise(**wanted)


def settings_of(promised: Any, names: list[str]) -> dict[str, Any]:
    """Return what is promised now, as the configuration has it."""
    modes = {"shadow": promised.shadow, "self_check": promised.self_check}
    return {**promised.limits(), "reference": names[promised.reference], **modes}


def billed_promise(report: PromiseReport, invoice: Invoice, names: list[str]) -> PromiseReport:
    """Return the report with the money of the invoice, if there is one."""
    if invoice.terms is None:
        return report
    is_base = names[invoice.terms["baseline"]] == report.reference
    alone = invoice.alone if is_base else report.reference_alone
    saved = alone - invoice.spent
    by_group = _billed_groups(report, invoice) if is_base else report.by_group
    worst, about = report.differ_at_most * report.requests, report.differ * report.requests
    return dataclasses.replace(
        report,
        spent=invoice.spent,
        reference_alone=alone,
        saved=saved,
        by_group=by_group,
        wasted=invoice.money["lost"],
        worth_below=saved / worst if saved > 0 and worst > 0 and report.shadow is None else None,
        worth_below_estimate=saved / about if saved > 0 and about > 0 else None,
    )


def _billed_groups(report: PromiseReport, invoice: Invoice) -> dict[str, dict[str, Any]]:
    """Return what is known of each group, with its part of the invoice."""
    found = {}
    for name, one in report.by_group.items():
        own = "" if name == NO_GROUP else name
        spent, alone = invoice.group_spent.get(own, 0.0), invoice.group_alone.get(own, 0.0)
        found[name] = {**one, "spent": spent, "reference_alone": alone, "saved": alone - spent}
    return found


def stages_told(
    report: Any, rounds: int, names: list[str], costs: list[float], shares: list[Any]
) -> dict[str, Any]:
    """Return the beginning of every report on stages."""
    stages = [{"name": n, "cost": c, "stopped_share": s} for n, c, s in zip(names, costs, shares)]
    policy = getattr(report, "policy", "Promise")
    return {"policy": policy, "rounds": rounds, "pending": report.pending, "stages": stages}


def money_told(report: Any, saved: float, last: str, alone: float) -> dict[str, Any]:
    """Return the money of a report: what was saved against one stage alone."""
    share = saved / alone if alone > 0.0 else None
    told = {"against": f"{last} alone", "amount": saved, "share": share, "estimated": True}
    return {"spent": report.spent, "wasted": report.wasted, "saved": told}


def promise_body(
    report: PromiseReport, names: list[str], costs: list[float], shares: list[Any]
) -> dict[str, Any]:
    """Return the part of a report that is specific to a promise."""
    return {
        **stages_told(report, report.requests, names, costs, shares),
        **money_told(report, report.saved, report.reference, report.reference_alone),
        "promise": {
            "words": str(report).splitlines(),
            **{name: getattr(report, name) for name in SHOWN},
        },
        "details": report.to_dict(),
    }


SHOWN = (
    *("state", "reference", "requests", "differ", "differ_at_most", "compared", "allowance", "bucket"),
    *("worth_below", "worth_below_estimate"),
)
