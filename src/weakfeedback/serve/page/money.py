"""What the page says about money: the headline, the invoice, what it was for, and the other side of a saving."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.cascade.certificate import rates_at_all_times
from weakfeedback.plaintext import counted
from weakfeedback.serve.activity import WATCHED, Activity
from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.page.words import amount, count, share
from weakfeedback.stats import rounded

MINUS = "\N{MINUS SIGN}"
ENOUGH = 50  # comparisons of a pair before the headline speaks of its answers


def decimals_of(total: float) -> int:
    """Return how many decimals an amount is shown with; everything that adds up to it is shown with as many.

    >>> decimals_of(31.65), decimals_of(0.351), decimals_of(0.0)
    (2, 3, 2)
    """
    size = abs(total)
    return 2 if not 1e-8 < size < 1.0 else 2 - math.floor(math.log10(size))


def added_up(parts: Sequence[float], decimals: int) -> list[str]:
    """Return amounts that are rounded so that they add up to the rounded sum.

    >>> added_up([1.004, 1.004, 1.004], 2), added_up([], 2)
    (['1.01', '1.00', '1.00'], [])
    """
    return [fixed(part, decimals) for part in rounded(parts, decimals)]


def fixed(value: float, decimals: int) -> str:
    """Return an amount with so many decimals.

    >>> fixed(-1234.5, 2)
    '\N{MINUS SIGN}1,234.50'
    """
    text = f"{abs(value):,.{decimals}f}"
    return (MINUS if value < 0.0 and text.strip("0.,") else "") + text


def has_spent(report: dict[str, Any], watch: Activity) -> bool:
    """Whether there is money to speak of: not of an allocation, nor before the first decision."""
    told = report.get("saved") is not None and report.get("spent") is not None
    return told and watch.kind != "allocation" and bool(watch.decided)


def headline(report: dict[str, Any], watch: Activity, other: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the sentence that a manager can repeat; None while nothing was spent, and for an allocation."""
    if not has_spent(report, watch):
        return None
    spent, gain, currency = report["spent"], report["saved"]["amount"], report["currency"]
    base, sums = watch.names[watch.baseline], sums_of(spent, gain)
    unit = f" {currency}" if currency else ""
    instead = f"instead of {sums.alone}{unit}"
    if gain < 0.0:
        instead = f"where {base} alone would have cost {sums.alone}{unit}"
    same = ""
    if other is not None and other["known"] and not other["nothing"] and other["enough"]:
        same = f", and about {other['same']} of 100 answers are the same as {base}\N{RIGHT SINGLE QUOTATION MARK}s"
    agree = (report["details"].get("settings") or {}).get("agree")
    promised = "" if agree is None or not same else f" {100 * agree:g} were promised."
    return {
        "name": report["name"],
        "spent": f"{sums.spent}{unit}",
        "rest": f"{instead}{same}.{promised}",
        "lost": gain < 0.0,
    }


class Sums(NamedTuple):
    """What was spent, what the baseline alone costs, and what was saved: as texts that add up."""

    spent: str
    alone: str
    saved: str
    decimals: int


def sums_of(spent: float, gain: float) -> Sums:
    """Return the three amounts with as many decimals; the saving is what the rounded ones leave.

    >>> sums_of(31.6549, 35.7999)[:3], sums_of(0.15, -0.02)[:3]
    (('31.65', '67.45', '35.80'), ('0.150', '0.130', '−0.020'))
    """
    decimals = max(decimals_of(spent), decimals_of(spent + gain))
    paid, alone = round(spent, decimals), round(spent + gain, decimals)
    return Sums(fixed(paid, decimals), fixed(alone, decimals), fixed(alone - paid, decimals), decimals)


class Differ(NamedTuple):
    """How many answers differ: the estimate, from, to; and whether enough was compared to say so in one number."""

    about: float
    low: float
    high: float
    enough: bool


def differing(answers: Sequence[int], base: int, rates: dict[tuple[int, int], tuple[float, float]]) -> Differ:
    """Return how many answers differ from those of the baseline, by the rates of pairs: comparisons, differences.

    The interval holds at all times together, with 95 %, as long as requests stay alike.
    """
    others = [k for k, given in enumerate(answers) if k != base and given]
    counts = [rates.get((min(k, base), max(k, base)), (0.0, 0.0)) for k in others]
    low, high = rates_at_all_times([n for n, _ in counts], [d for _, d in counts])
    about = [d / n if n else 0.5 for n, d in counts]
    given = np.array([answers[k] for k in others], dtype=float)
    enough = all(n >= ENOUGH for n, _ in counts)
    return Differ(float(given @ np.array(about)), float(given @ low), float(given @ high), enough)


def other_side(report: dict[str, Any], watch: Activity, invoice: Invoice) -> dict[str, Any] | None:
    """Return how many answers differ from the baseline's, as an estimate and an interval, and what that may cost.

    None before the first decision, and for an allocation. Where which requests are compared depends on the requests,
    nothing is known.
    """
    if not has_spent(report, watch):
        return None
    base, currency = watch.baseline, report["currency"]
    kept = report.get("promise")  # which knows it from its coins, whatever the models do
    known = kept is not None or watch.kind in WATCHED
    told: dict[str, Any] = {"known": known, "base": watch.names[base], "nothing": False}
    if not known:
        return told
    if kept is not None:
        total = kept["requests"]
        about, high = kept["differ"] * total, kept["differ_at_most"] * total
        found = Differ(about, 0.0, high, kept["state"] != "learning")
    else:
        answers = [line.answers for line in invoice.lines] if invoice.terms is not None else watch.stops
        items = [item for item in report.get("disagreement") or () if item["comparisons"]]
        rates = {
            tuple(item["pair"]): (item["comparisons"], item["share"] * item["comparisons"]) for item in items
        }
        total, found = sum(answers), differing(answers, base, rates)
    gain, error = report["saved"]["amount"], report["details"].get("error_cost")
    told |= {
        "promised": kept is not None,
        "nothing": found.high == 0.0,
        "enough": found.enough,
        "about": count(round(found.about)),
        "low": count(math.floor(found.low)),
        "high": count(math.ceil(found.high)),
        "of": count(total),
        "same": f"{100.0 * (1.0 - found.about / total):.0f}" if total else "",
        "worth": amount(gain / found.high, currency) if found.high > 0.0 and gain > 0.0 else "",
        "worth_about": amount(gain / found.about, currency) if found.about > 0.0 and gain > 0.0 else "",
        "error": amount(error, currency),
        "net": "",
        "open": False,
    }
    if error is not None and found.high > 0.0:
        least, most = gain - found.high * error, gain + found.high * error
        told["net"] = f"{amount(least)} to {amount(most, currency)}"
        told["open"] = least <= 0.0 <= most
    return told


def invoice_of(invoice: Invoice, currency: str | None) -> dict[str, Any] | None:
    """Return the invoice as a table; None for a learner whose stages run elsewhere."""
    if invoice.terms is None:
        return None
    invoice = deepcopy(invoice)  # as it is now
    terms, sums = invoice.terms or {}, sums_of(invoice.spent, invoice.saved)
    names = [model["name"] for model in terms["models"]]
    moneys = added_up([*(line.money for line in invoice.lines), invoice.judge], sums.decimals)
    return {
        "of": invoice,
        "unit": currency or "money",
        "rows": list(zip(terms["models"], invoice.lines, moneys)),
        "judge": moneys[-1] if invoice.judge else "",
        "sums": sums,
        "base": names[terms["baseline"]],
        "waiting": fixed(invoice.waiting, sums.decimals) if terms["waiting_price"] else "",
        "for": purposes(invoice, names, sums.decimals),
    }


def csv_of(invoice: Invoice, currency: str | None) -> str:
    """Return the invoice as CSV: a line for each model, unrounded, then its sum."""
    unit, models = currency or "money", (invoice.terms or {}).get("models", ())
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    prices = [f"price {name} per million" for name in ("input", "cached", "output")]
    table.writerow(["name", "model", "calls", "tokens in", "of these cached", "tokens out", *prices, unit])
    for model, line in zip(models, invoice.lines):
        price = [model["price"][name] for name in ("input", "cached", "output")]
        tokens = [line.calls, line.input, line.cached, line.output]
        table.writerow([_cell(model["name"]), _cell(model["model"]), *tokens, *price, line.money])
    for name, money in (("judges and embeddings", invoice.judge), ("models that are gone", invoice.gone)):
        if money:
            table.writerow([name, *[""] * 8, money])
    table.writerow(["spent", *[""] * 8, invoice.spent])
    table.writerow(["the reference alone", *[""] * 8, invoice.alone])
    return text.getvalue()


def _cell(text: str) -> str:
    """Return a name that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def plainly(price: float) -> str:
    """Return a price of a million tokens.

    >>> plainly(0.6), plainly(0.075), plainly(10.0)
    ('0.60', '0.075', '10.00')
    """
    text = f"{price:.6f}".rstrip("0")
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals.ljust(2, '0')}"


def purposes(invoice: Invoice, names: Sequence[str], decimals: int) -> list[dict[str, Any]]:
    """Return what the money was for; the parts add up to the invoice."""
    parts: list[tuple[str, str, float, str]] = [
        (f"Answers of {name}", counted(line.answers, "request"), money, f"s{k % 8}")
        for k, (name, line, money) in enumerate(zip(names, invoice.lines, invoice.answers))
        if line.answers
    ]
    calls, compared = invoice.calls, invoice.money["compare"] + invoice.judge
    if compared or calls["compare"]:
        judged = ", and judges" if invoice.judge else ""
        parts.append(
            (
                f"Comparisons, {share(compared / invoice.spent)}" if invoice.spent else "Comparisons",
                f"{counted(calls['compare'], 'call')} beside an answer{judged}",
                compared,
                f"hatch s{(invoice.terms or {}).get('baseline', 0) % 8}",
            )
        )
    if calls["first"]:
        parts.append(
            ("Asked first, not used", counted(calls["first"], "call"), invoice.money["first"], "hatch s0")
        )
    if calls["lost"]:
        lost = invoice.money["lost"]
        parts.append(("Nothing came of it", f"{counted(calls['lost'], 'call')} failed or left", lost, "lost"))
    shown = added_up([money for _, _, money, _ in parts], decimals)
    total, found, x = sum(money for _, _, money, _ in parts) or 1.0, list[dict[str, Any]](), 0.0
    for (label, note, money, kind), text in zip(parts, shown):
        width = 100.0 * money / total
        found.append(
            {
                "label": label,
                "note": note,
                "money": text,
                "kind": kind,
                "x": round(x, 2),
                "width": round(width, 2),
            }
        )
        x += width
    return found


def _number(text: str) -> float:
    return float(text.replace(",", "").replace(MINUS, "-"))


def totals(sums: Sequence[tuple[str, float, float]]) -> dict[str, Any] | None:
    """Return the sums of all learners (currency, spent and saved of each); None without a common currency."""
    currencies = {currency for currency, _, _ in sums}
    if len(currencies) != 1:
        return None
    currency = currencies.pop() or None
    each = [sums_of(spent, saved) for _, spent, saved in sums]  # as the rows show them, so that they add up
    spent, alone = sum(_number(one.spent) for one in each), sum(_number(one.alone) for one in each)
    saved, whole, unit = alone - spent, sums_of(spent, alone - spent), f" {currency}" if currency else ""
    return {
        "spent": f"{whole.spent}{unit}",
        "saved": f"{whole.saved}{unit}",
        "alone": f"{whole.alone}{unit}",
        "share": share(abs(saved) / alone) if alone > 0.0 else "",
        "lost": saved < 0.0,
        "one": len(sums) == 1,
    }
