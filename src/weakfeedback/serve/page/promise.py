"""What the page says about a promise: its state, the gauge, groups, and what another promise would cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from weakfeedback.adaptive.offers import OFFERS, would_be
from weakfeedback.live.promise_report import PromiseReport
from weakfeedback.plaintext import counted
from weakfeedback.serve.page.money import added_up, decimals_of, fixed
from weakfeedback.serve.page.words import amount, count, share

SCALE = 0.1  # a gauge shows at least this share of the answers
NEAR = 0.9  # of what may differ: a group is near the line
LINE = 12.0  # percent of the height that words in a picture take
NUMERALS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
SUMS = ("requests", "cheap", "differ", "differ_at_most", "saved", "reference_alone")  # of all groups
STATES = {  # class of the badge, words
    "learning": ("learning", "learning"),
    "kept": ("kept", "kept"),
    "at risk": ("risk", "at risk"),
    "above": ("risk", "above the line"),
    "shadow": ("shadow", "shadow"),
    "paused": ("", "paused"),
    "nothing to save": ("", "nothing to save"),
}


def promise_of(found: PromiseReport, currency: str | None, since: str = "") -> dict[str, Any]:
    """Return a promise for a row of the list and the card of the page; ``since`` is when it began to be at risk."""
    told, shadow, reference = found.settings, found.shadow, found.reference
    eps = None if told["agree"] is None else 1.0 - told["agree"]
    about = found.differ if shadow is None else shadow["differ"]
    most = found.differ_at_most if shadow is None else shadow["differ_at_most"]
    kind, badge = STATES[found.state]
    return {
        "words": _what(told, reference, currency),
        "agree": "" if eps is None else share(told["agree"]),
        "eps": "" if eps is None else share(eps),
        "reference": reference,
        "state": kind,
        "badge": badge,
        "note": _note(found, since),
        "first": _first_line(found, since),
        "about": share(about),
        "at_most": share(most),
        "would": shadow is not None,
        "gauge": gauge(about, most, eps) if found.requests else None,
        "allowance": None if found.allowance is None else _allowance(found),
        "kept": found.state == "kept",
        "risk": kind == "risk",
    }


def promises_in_words(promises: Sequence[dict[str, Any]]) -> str:
    """Say how many promises are kept and how many are not.

    >>> promises_in_words([{"kept": True, "risk": False}] * 4 + [{"kept": False, "risk": True}])
    'Four promises are kept, one is at risk.'
    """
    kept, risk = sum(one["kept"] for one in promises), sum(one["risk"] for one in promises)
    said = []
    if kept:
        said.append(f"{_numeral(kept)} {'promise is' if kept == 1 else 'promises are'} kept")
    if risk:
        noun = "" if kept else " promise" if risk == 1 else " promises"
        said.append(f"{_numeral(risk)}{noun} {'is' if risk == 1 else 'are'} at risk")
    words = ", ".join(said)
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _numeral(value: int) -> str:
    return NUMERALS[value - 1] if value <= len(NUMERALS) else f"{value:,}"


def gauge(about: float, most: float | None, eps: float | None) -> dict[str, Any]:
    """Return the places of a gauge, in percent of its width, and its words."""
    top = max(SCALE, 2.0 * (eps or 0.0))
    place: Callable[[float], float] = lambda x: round(100.0 * min(x / top, 1.0), 1)  # noqa: E731
    est = place(about)
    return {
        "top": share(top),
        "est": est,
        "sure": None if most is None else place(most),
        "lim": None if eps is None else place(eps),
        "est_at": min(max(est, 14.0), 48.0),  # where the words stand, without touching
        "sure_at": None if most is None else min(max(place(most), 72.0), 83.0),
    }


def _what(told: dict[str, Any], reference: str, currency: str | None) -> str:
    if told["agree"] is not None:
        return f"{share(told['agree'])} as from {reference}"
    if told["budget"] is not None:
        return f"{amount(1000.0 * told['budget'], currency)} for 1000"
    return "none"


def _allowance(found: PromiseReport) -> dict[str, Any]:
    left, bucket = found.allowance or 0.0, found.bucket or 1.0
    return {
        "left": count(int(left + 1e-9)),
        "bucket": count(bucket),
        "bar": round(100.0 * min(left / bucket, 1.0), 1),
        "adds": f"{1.0 - found.settings['agree']:.3g}",
    }


def _note(found: PromiseReport, since: str) -> str:
    """Return what stands beside the badge in the list."""
    reference = found.reference
    if found.state == "paused":
        return f"{reference} answers everything"
    if found.state == "at risk":
        return f"{reference} answers everything{' since ' + since if since else ''}; it goes on by itself"
    if found.state == "learning":
        return f"{reference} answers everything until then"
    if found.state == "above":
        return "more differ so far than were promised; it lowers its limit"
    if found.shadow is not None:
        safe = found.shadow["safe_since"]
        saves = f"would save {share(max(found.shadow['saved_share'], 0.0))}"
        return (
            f"not yet safe to turn on; {saves}" if safe is None else f"safe since request {safe:,}; {saves}"
        )
    return ""


def _first_line(found: PromiseReport, since: str) -> str:
    """Return the first line of the card in states that need one."""
    reference, shadow = found.reference, found.shadow
    if found.state == "paused":
        return found.pause()
    if found.state == "learning":
        least = min([one["compared"] for one in found.models if one["usable"]], default=0)
        return f"Not enough compared yet: {min(least, 50)} of 50. {reference} answers everything until then."
    if found.state == "at risk":
        return found.at_risk(since)
    if found.state == "above":
        return (
            "More answers differ so far than were promised: fewer cheap ones go out until that is made good."
        )
    if found.state == "nothing to save":
        return found.nothing()
    if shadow is None:
        return ""
    if shadow["safe_since"] is not None:
        return f"Safe to turn on since request {shadow['safe_since']:,}. {reference} answers everything."
    return f"Not yet safe to turn on: {shadow['why']}. {reference} answers everything."


def groups_of(found: PromiseReport, currency: str | None) -> dict[str, Any] | None:
    """Return what a promise has seen of each group; None where there are not several. Their money adds up."""
    if len(found.by_group) < 2:
        return None
    told, groups = found.settings, found.by_group
    eps, each = None if told["agree"] is None else 1.0 - told["agree"], told["groups"] == "each"
    decimals, parts = decimals_of(found.spent), [one["spent"] for one in groups.values()]
    more = found.spent - sum(parts)  # of no group: second calls of the reference, models that are gone
    *spent, other = added_up([*parts, more if abs(more) > 1e-9 * found.spent else 0.0], decimals)
    return {
        "each": each,
        "unit": currency or "money",
        "eps": "" if eps is None else share(eps),
        "rows": [_group(name, one, eps, money) for (name, one), money in zip(groups.items(), spent)],
        "other": other if other.strip("0.,") else "",
        "all": _group(
            "all", {name: getattr(found, name) for name in SUMS}, eps, fixed(found.spent, decimals)
        ),
        "near": _near(groups, eps) if eps is not None else "",
        "words": "The promise holds for every group."
        if each
        else "The promise is for all requests together; a group alone may differ more.",
    }


def _group(name: str, one: dict[str, Any], eps: float | None, money: str) -> dict[str, Any]:
    place = gauge(one["differ"], None, eps)
    return {**one, "name": name, "requests": count(one["requests"]), "gauge": place, "spent": money}


def _near(groups: dict[str, dict[str, Any]], eps: float) -> str:
    """Say which groups are above the line, or near it."""
    above = [name for name, one in groups.items() if one["differ"] > eps]
    near = [name for name, one in groups.items() if NEAR * eps < one["differ"] <= eps]
    line = share(eps)
    if above:
        return f"Above {line} by the estimate: {', '.join(above)}."
    return f"No group is above {line}" + (f"; near it: {', '.join(near)}." if near else ".")


Curve = Sequence[tuple[float, float, float]]  # promised share, answers that are the same, share of the money


def curve_of(found: PromiseReport, policy: Any) -> Curve:
    """Return what other promises would cost; nothing before there is evidence. It takes a moment."""
    agree = found.settings["agree"]
    return [] if agree is None or found.state == "learning" else would_be(policy, sorted({*OFFERS, agree}))


def offers_of(
    found: PromiseReport, curve: Curve, price: float, names: Sequence[str]
) -> dict[str, Any] | None:
    """Return other promises beside what is measured now; ``price`` is that of the reference. None without a curve."""
    agree = found.settings["agree"]
    if agree is None or not curve or found.reference_alone <= 0.0:
        return None
    same, money = 1.0 - found.differ, found.spent / found.reference_alone
    if found.shadow is not None:
        same, money = 1.0 - found.shadow["differ"], 1.0 - found.shadow["saved_share"]
    places = {name: k for k, name in enumerate(names)}
    alone = [
        (one["name"], 1.0 - one["differs"], one["price"] / price) for one in found.models if one["compared"]
    ]
    left = math.floor(10.0 * min(0.8, same, *(x for _, x, _ in curve), *(x for _, x, _ in alone))) / 10.0
    top = max(1.0, money)
    across: Callable[[float], float] = lambda x: round(100.0 * (x - left) / (1.0 - left), 2)  # noqa: E731
    down: Callable[[float], float] = lambda y: round(100.0 - 100.0 * min(y, top) / top, 2)  # noqa: E731
    points: list[dict[str, Any]] = [
        {"agree": f"{offer:g}", "x": across(x), "y": down(y), "same": x, "money": y, "now": offer == agree}
        for offer, x, y in curve
    ]
    for point in points:  # words stand above the ends of the curve
        point["words"] = point is points[-1] or (point is points[0] and not point["now"])
    below = any(point["words"] and 0.0 <= down(money) - point["y"] < LINE for point in points)
    return {
        "points": points,
        "lines": list(pairwise(points)),
        "alone": [
            {"name": name, "x": across(x), "y": down(y), "stage": places[name] % 8, "low": down(y) > 50.0}
            for name, x, y in alone
        ],
        "now": {
            "x": across(same),
            "y": down(money),
            "same": share(same),
            "money": share(money),
            "below": below,
        },
        "promised": {"x": across(agree), "agree": share(agree)},
        "reference": {"name": found.reference, "y": down(1.0)},
        "across": [{"x": 25 * k, "label": share(left + k * (1.0 - left) / 4)} for k in range(5)],
        "down": [{"y": down(k / 4), "label": share(k / 4)} for k in range(5)],
        "compared": counted(sum([one["compared"] for one in found.models]), "comparison"),
        # what a promise would cost, for the sentence beside the field that changes it
        "curve": [[offer, round(y, 4)] for offer, _, y in curve],
        "share": round(money, 4),
        "thousand": 1000.0 * found.reference_alone / found.requests if found.requests else 0.0,
    }


__all__ = ["curve_of", "groups_of", "offers_of", "promise_of", "promises_in_words"]
