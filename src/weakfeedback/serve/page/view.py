"""What the page says about a learner: plain data for the templates, built from its report and its watch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weakfeedback.live.adaptive_report import CALIBRATED_LIMIT, LIMIT, NO_LIMIT
from weakfeedback.live.games.promise import ALLOWANCE, OVERSPEND
from weakfeedback.live.promise_report import PromiseReport
from weakfeedback.live.report import wilson
from weakfeedback.plaintext import counted
from weakfeedback.serve.activity import WATCHED, Activity
from weakfeedback.serve.drift import Alarm
from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.page.money import MINUS, differing, has_spent, headline, other_side, sums_of
from weakfeedback.serve.page.words import ago, amount, clock, count, duration, listed, moment, number, share

KINDS = {
    "cascade": ("cascade", "calls its stages from the cheapest on, and learns where to stop"),
    "contextual": (
        "cascade with context",
        "looks at numbers about each request, and learns how far to go for it",
    ),
    "adaptive": ("adaptive cascade", "decides after each answer whether to ask the next stage"),
    "router": ("router", "calls one model for most requests, and several only while comparing them pays"),
    "allocation": ("allocation", "divides a budget over arms, and learns how much each of them needs"),
}
SPANS = {"15m": (900, 15), "1h": (3600, 60), "1d": (86_400, 1800), "7d": (604_800, 7200)}  # seconds, step
LEARNING_ROUNDS = 100  # rounds below which the page says nothing about trust
DRAWN = 6  # pairs in one chart
BANNERS = 3  # pairs that are named at the top of a page
RECENT_ALARM = 86_400_000_000  # microseconds for which an alarm counts as recent
AGES = ((60, "under a minute"), (600, "1 to 10 min"), (3600, "10 min to 1 h"), (86_400, "1 h to 1 day"))
ESTIMATED = "estimated: the last stage was not called"
DRIFT = (
    "The detector finds large changes (5 % to 15 %) within some hundreds of comparisons, and not small ones."
)
CHANGING = {
    "promise": " The promise is kept whatever changes: comparisons go on, and fewer cheap answers go out.",
    "cascade": " Where the world keeps changing, use the policy USS-TS-drift.",
    "router": "",
}

CONTEXT_TRUST = (
    "Rests on weak dominance at every context (only labels can tell), and on what its numbers can express."
)
NOT_WATCHED = (
    "This learner is not watched for changes: which requests it compares depends on the requests, so that a rate that "
    "changes would mean little."
)


def spark(watch: Activity, now: int) -> str:
    """Return the sparkline of the decisions in each of the last 30 whole minutes; empty if there were none."""
    end = now // 60_000_000 * 60  # the unfinished minute would look like a drop
    read = watch.series.read(end - 30 * 60, end, 60, ["decisions"])
    values = read["columns"]["decisions"]
    return line_of(values) if any(values) else ""


def line_of(values: Sequence[float], width: float = 90.0, height: float = 22.0) -> str:
    """Return the points of a sparkline in the format of SVG.

    >>> line_of([0, 2, 1], 20, 10)
    '0.0,9.5 10.0,0.5 20.0,5.0'
    """
    top = max(values, default=0.0) or 1.0
    step = width / max(1, len(values) - 1)
    return " ".join(
        f"{k * step:.1f},{height - 0.5 - (height - 1.0) * value / top:.1f}" for k, value in enumerate(values)
    )


def bar_of(shares: Sequence[float], names: Sequence[str], width: float = 160.0) -> list[dict[str, Any]]:
    """Return the pieces of a bar, one for every stage that has a share."""
    pieces, x = [], 0.0
    for k, part in enumerate(shares):
        if part > 0.0:
            label = f"{names[k]} {share(part)}"
            pieces.append({"x": round(x, 2), "width": round(part * width, 2), "stage": k % 8, "label": label})
            x += part * width
    return pieces


def shares_of(watch: Activity) -> list[float]:
    """Return the shares of decisions that stopped at each stage, or of the budget that each arm got."""
    weights: Sequence[float] = watch.stops if watch.kind != "allocation" else watch.given
    total = sum(weights)
    return [weight / total for weight in weights] if total else [0.0] * len(weights)


def alarms_of(watch: Activity, now: int) -> list[Alarm]:
    """Return the alarms of the last day, by time."""
    if watch.alarmed is None or now - watch.alarmed >= RECENT_ALARM:
        return []
    return [alarm for alarm in watch.drift.marks() if now - alarm.at < RECENT_ALARM]


def does(watch: Activity, settled: int | None) -> tuple[str, str]:
    """Return in words what a learner does now: the beginning of a sentence, and the stage it refers to."""
    names = watch.names
    if not watch.decided:
        return "waits for its first decision", ""
    if watch.kind == "allocation":
        top = max(range(len(names)), key=lambda k: watch.given[k])
        return ("gives most to", names[top]) if any(watch.given) else ("gives nothing yet", "")
    if not watch.ends["accepted"] and watch.kind != "router":
        return "waits for its first feedback", ""
    if watch.kind == "router":
        stage = max(range(len(names)), key=lambda k: watch.stops[k]) if settled is None else settled
        return "answers with", names[stage]
    if watch.kind in ("contextual", "adaptive") or settled is None:
        stage = max(range(len(names)), key=lambda k: watch.stops[k])
        return "stops most often at", names[stage]
    return "stops at", names[settled]


def row(
    name: str,
    watch: Activity,
    *,
    line: str,
    settled: int | None,
    currency: str | None,
    archived: bool,
    now: int,
    money: tuple[float, float] | None = None,
    promise: dict[str, Any] | None = None,
    risk: str = "",
) -> dict[str, Any]:
    """Return the row of a learner in the overview.

    ``line`` has the points of its sparkline, ``money`` what was spent and saved, ``promise`` what it promises, ``risk``
    how many answers differ if it promises nothing.
    """
    verb, stage = does(watch, settled)
    bar = bar_of(shares_of(watch), watch.names)
    alarms = alarms_of(watch, now)
    priced = watch.kind != "allocation"
    spent, saved = (watch.spent, watch.saved) if money is None else money
    alone, sums, unit = spent + saved, sums_of(spent, saved), f" {currency}" if currency else ""
    return {
        "name": name,
        "kind": KINDS[watch.kind][0],
        "verb": verb,
        "stage": stage,
        "line": line,
        "rate": count(_lately(watch, now)),
        "bar": bar,
        "legend": listed([piece["label"] for piece in bar] or ["nothing yet"]),
        "most": ", ".join(piece["label"] for piece in sorted(bar, key=lambda piece: -piece["width"])[:2]),
        "spent": f"{sums.spent}{unit}" if priced and watch.decided else "",
        "saved": f"{sums.saved}{unit}" if priced and watch.decided else "",
        "saved_share": share(abs(saved) / alone) if priced and alone > 0.0 else "",
        "alone": f"{sums.alone}{unit}",
        "promise": promise,
        "risk": risk,
        "lost": saved < 0.0,
        "baseline": watch.names[watch.baseline] if priced else "",
        "decided": watch.decided,
        "state": _badge(watch, promise, archived, bool(alarms)),
        "note": alarm_words(watch, alarms[-1], now)
        if alarms
        else ""
        if promise is None or archived
        else promise["note"],
    }


def _badge(watch: Activity, promise: dict[str, Any] | None, archived: bool, changed: bool) -> tuple[str, str]:
    """Return the class and the words of the badge of a row."""
    if archived:
        return "archived", "archived"
    if promise is not None and promise["words"] != "none" and not (changed and promise["kept"]):
        return promise["state"], promise["badge"]
    return ("changed", "changed") if changed else (state_of(watch), state_of(watch))


def risk(watch: Activity) -> str:
    """Return how many answers differ from the baseline's, of a learner that promises nothing."""
    total = sum(watch.stops) if watch.kind in WATCHED else 0
    if not total or not watch.differed:
        return ""
    found = differing(
        watch.stops, watch.baseline, {pair: (n, d) for pair, (n, d) in list(watch.differed.items())}
    )
    return f"differ: about {share(found.about / total)}, at most {share(min(found.high / total, 1.0))}"


def state_of(watch: Activity) -> str:
    """Return the progress of a learner, in one word."""
    if not watch.decided:
        return "new"
    done = watch.decided if watch.kind == "router" else watch.ends["accepted"]
    return "learning" if done < LEARNING_ROUNDS else "settled"


def alarm_words(watch: Activity, alarm: Alarm, now: int) -> str:
    """Say what an alarm was about."""
    i, j = alarm.pair if alarm.pair[0] != watch.baseline else alarm.pair[::-1]
    how = {True: "more often", False: "less often", None: "at another rate"}[alarm.more]
    since = f"since {clock(alarm.at, now)} at the latest"
    return f"{watch.names[i]} differs from {watch.names[j]} {how} than before, {since}"


def changed(watch: Activity, now: int) -> list[str]:
    """Say which pairs have begun to differ more or less often in the last day, those with the baseline first."""
    last = {alarm.pair: alarm for alarm in alarms_of(watch, now)}
    found = sorted(last.values(), key=lambda alarm: watch.baseline not in alarm.pair)
    return [f"{alarm_words(watch, alarm, now)}." for alarm in found[:BANNERS]]


# -- one learner


def summary(
    report: dict[str, Any], watch: Activity, invoice: Invoice, now: int, promised: PromiseReport | None = None
) -> dict[str, Any]:
    """Return the top of the page: a sentence, what the learner does, what it costs, whether it can be trusted."""
    other = other_side(report, watch, invoice)
    return {
        "changed": changed(watch, now),
        "headline": headline(report, watch, other),
        "other": other,
        "does": _does_sentence(report, watch),
        "flow": _flow(report, watch),
        "money": _money(report, watch),
        "outcome": _outcome(report, watch, now),
        "trust": _trust(report, watch, now, promised),
    }


def _does_sentence(report: dict[str, Any], watch: Activity) -> str:
    names, settled = watch.names, report.get("settled")
    rounds = counted(report["rounds"], "round")
    if watch.kind == "allocation":
        budget = number(report["details"]["budget"])
        last: list[float] = next(
            (shown["allocation"] for shown in reversed(watch.recent.values()) if "allocation" in shown), []
        )
        gives = [f"{name} {number(x)}" for name, x in zip(names, last) if x > 0.0]
        given = f" Now it gives {listed(gives)}." if gives else ""
        over = counted(len(names), "arm")
        return f"Every round it divides a budget of {budget} over {over}.{given} {rounds} learned."
    if not watch.decided:
        return f"It {KINDS[watch.kind][1]}. Nothing was decided yet."
    compared = sum(tries for tries, _ in watch.differed.values())
    basis = f"It knows that from {counted(compared, 'comparison')} of two answers, and from no label."
    if report.get("promise") is not None:
        kept = report["promise"]
        return f"{kept['reference']} answers, and another one where that is the same often enough. {basis}"
    if watch.kind == "router":
        stage = names[settled or 0]
        return f"For most requests it calls {stage} alone and uses its answer. {basis}"
    if watch.kind == "contextual":
        return (
            f"It looks at the numbers of each request and stops between {names[0]} and {names[-1]}. {basis}"
        )
    if watch.kind == "adaptive":
        return f"It asks {names[0]} first, and after each answer decides whether to ask on. {basis}"
    called = names[: (settled or 0) + 1]
    first = f"For each request it calls {listed(called)}"
    used = " and uses its answer." if len(called) == 1 else f", and uses the answer of {called[-1]}."
    return f"{first}{used} {basis}"


def _flow(report: dict[str, Any], watch: Activity) -> list[dict[str, Any]]:
    """Return the stages as a row of pills: which ones are usually called, and which one answers."""
    settled = report.get("settled")
    if (
        watch.kind not in ("cascade", "router")
        or settled is None
        or not watch.decided
        or len(watch.names) > 8
    ):
        return []
    alone = watch.kind == "router"
    return [
        {
            "name": name,
            "state": "answers" if k == settled else "called" if k < settled and not alone else "left",
            "arrow": k > 0 and not alone,
        }
        for k, name in enumerate(watch.names)
    ]


def _money(report: dict[str, Any], watch: Activity) -> dict[str, Any] | None:
    if not has_spent(report, watch):
        return None
    saved, currency = report["saved"], report["currency"]
    gain = saved["amount"]
    estimated = saved.get("estimated", True)
    sums, unit = sums_of(report["spent"], gain), f" {currency}" if currency else ""
    return {
        "sums": sums,
        "billed": "proxy" in report,
        "saved": f"{sums.saved.removeprefix(MINUS)}{unit}",
        "share": share(None if saved["share"] is None else abs(saved["share"])),
        "lost": gain < 0.0,
        "against": saved["against"],
        "wasted": amount(report.get("wasted"), currency) if report.get("wasted") else "",
        "estimated": ESTIMATED if estimated else "",
        "per_round": amount(report["spent"] / report["rounds"], currency) if report["rounds"] else "",
        "cap": _cap(report, currency),
    }


def _cap(report: dict[str, Any], currency: str | None) -> str:
    """Return what a promise never exceeds: the reference alone, plus 5 %, plus 50 calls of it at its mean price."""
    kept = report.get("promise")
    if kept is None or not kept["requests"] or report["details"]["settings"]["budget"] is not None:
        return ""
    alone = report["details"]["reference_alone"]
    return amount((1.0 + OVERSPEND) * alone + ALLOWANCE * alone / kept["requests"], currency)


def _outcome(report: dict[str, Any], watch: Activity, now: int) -> dict[str, str] | None:
    """Return what an allocation has seen per round, overall and lately."""
    if watch.kind != "allocation":
        return None
    details, end = report["details"], now // 60_000_000 * 60
    columns = [f"observed_{k}" for k in range(len(watch.names))]
    read = watch.series.read(end - 900, end, 60, [*columns, "accepted"])["columns"]
    lately = sum(sum(read[name]) for name in columns)
    rounds = sum(read["accepted"])
    even = details.get("even_total")
    return {
        "what": details["setting"],
        "all": number(sum(details["observed"]) / details["rounds"]) if details["rounds"] else "",
        "lately": number(lately / rounds) if rounds else "",
        "even": "" if even is None or not details["rounds"] else number(even / details["rounds"]),
        "budget": number(details["budget"]),
    }


def _trust(
    report: dict[str, Any], watch: Activity, now: int, promised: PromiseReport | None
) -> list[dict[str, str]]:
    """Return statements, each with its state: "good", "open" or "bad"."""
    found = [_alarm_statement(watch, now)] if watch.kind in WATCHED else []
    if state_of(watch) in ("new", "learning"):
        found.append(
            {
                "state": "open",
                "text": f"Still learning: {counted(report['rounds'], 'round')}, wait for {LEARNING_ROUNDS}.",
            }
        )
    details = report.get("details") or {}
    if promised is not None:
        return [*found, *promise_statements(promised)]
    certificate = details.get("certificate")
    if certificate is not None and len(watch.names) > 1:
        found.append(_certificate_statement(certificate, watch))
    if watch.kind == "contextual":
        found.append({"state": "open", "text": CONTEXT_TRUST})
    if watch.kind == "adaptive":
        found.append({"state": "open", "text": _adaptive_words(details)})
    if watch.kind == "allocation":
        found.append(_found_statement(details.get("found")))
    found += [
        {"state": "open" if text.startswith("No bound") else "good", "text": text}
        for text in details.get("guarantees") or ()
    ]
    found += [{"state": "open", "text": details["belief"]}] if details.get("belief") else []
    found += [{"state": "good", "text": _yield_words(one, watch)} for one in details.get("yields") or ()]
    audit = next((one for one in reversed(watch.audits) if one.get("verdict")), None)
    if audit is not None:
        good = audit["verdict"] == "optimal"
        state = "good" if good else "open" if audit["verdict"] == "undecided" else "bad"
        found.append({"state": state, "text": f"Audit of {moment(audit['at'])}: {audit['verdict']}."})
    elif watch.kind == "cascade":
        found.append(
            {"state": "open", "text": "Never audited: a few labels would tell whether the stop is right."}
        )
    return found


def _yield_words(known: dict[str, Any], watch: Activity) -> str:
    """Say in what share of the disagreements of two models the dearer one is really better."""
    low, high = (watch.names[k] for k in known["pair"])
    counted_labels = counted(known["labels"], "labelled disagreement")
    return (
        f"Where {low} and {high} differ, {high} is really better in {share(known['estimate'])} "
        f"({share(known['low'])} to {share(known['high'])}), by {counted_labels}."
    )


def promise_statements(promised: PromiseReport) -> list[dict[str, str]]:
    """Return what the cards do not say of a promise: in which sense it holds, its rule, and what is not known."""
    sense = (
        "It holds at any time, 95 % sure."
        if promised.settings["sure"]
        else "It holds on average over our coins."
    )
    said = [{"state": "good", "text": text} for text in (sense, promised.rule()) if text]
    if promised.is_early():
        said.append({"state": "open", "text": promised.early()})
    return [*said, *({"state": "open", "text": text} for text in promised.unknown())]


def _adaptive_words(details: dict[str, Any]) -> str:
    """Say how good the rule of an adaptive learner can be, in the words of its report."""
    if details.get("judge") is None:
        return NO_LIMIT
    return CALIBRATED_LIMIT if details["judge"] == "calibrated" else LIMIT


def _found_statement(known: bool | None) -> dict[str, str]:
    """Describe the progress of an allocation."""
    if known:
        return {"state": "good", "text": "What each arm needs is found."}
    words = "What each arm needs is estimated; the table below has the intervals." if known is None else ""
    return {"state": "open", "text": words or "Still searching for what each arm needs."}


def _alarm_statement(watch: Activity, now: int) -> dict[str, str]:
    alarms = alarms_of(watch, now)
    if alarms:
        return {"state": "bad", "text": f"Something changed: {alarm_words(watch, alarms[-1], now)}."}
    watched = sum(detector.watching for detector in watch.drift.detectors.values())
    if not watched:
        return {
            "state": "open",
            "text": "No pair is watched for changes yet: that takes 300 comparisons of it.",
        }
    return {"state": "good", "text": f"No large change seen; watching {counted(watched, 'pair')}."}


def _certificate_statement(certificate: dict[str, Any], watch: Activity) -> dict[str, str]:
    sure = share(1.0 - certificate["alpha"])
    verdict = certificate["verdict"]
    if verdict == "first-optimal":
        words = f"Proved without labels, at confidence {sure}: {watch.names[0]} alone is best, whatever the truth is."
        return {"state": "good", "text": words}
    if verdict == "no-weak-dominance":
        words = f"Proved at confidence {sure}: disagreement alone cannot be trusted here. Buy labels (audit, Q-USS)."
        return {"state": "bad", "text": words}
    words = (
        "Rests on one assumption, weak dominance: stages behind the best one differ from it too seldom to be worth "
        "their price. Only labels can tell."
    )
    return {"state": "open", "text": words}


def numbers(report: dict[str, Any], watch: Activity, now: int) -> list[tuple[str, str]]:
    """Return the counters of a learner."""
    ends = watch.ends
    return [
        ("decisions", count(watch.decided)),
        ("rounds learned", count(report["rounds"])),
        ("open now", count(len(watch.open))),
        ("late", count(report.get("late", 0))),
        ("expired", count(ends["expired"])),
        ("cancelled", count(ends["cancelled"])),
        ("in the last minute", count(_lately(watch, now))),
    ]


def _lately(watch: Activity, now: int) -> float:
    return watch.series.lately("decisions", now // 1_000_000 - 55)


def pairs(report: dict[str, Any], watch: Activity) -> list[dict[str, Any]]:
    """Return the pairs of stages that were compared."""
    return [item for item in report.get("disagreement") or _counted_pairs(watch) if item["comparisons"]]


def _counted_pairs(watch: Activity) -> list[dict[str, Any]]:
    """Return the pairs as counted by the watch, for a report that has none."""
    found = []
    for (i, j), (tries, differed) in sorted(watch.differed.items()):
        low, high = wilson(differed, tries)
        row = {"pair": [i, j], "share": differed / tries if tries else None, "low": low, "high": high}
        found.append({**row, "comparisons": tries, "pays_above": 2.0})
    return found


def drift(watch: Activity) -> list[dict[str, Any]]:
    """Return the detectors, nearest to an alarm first; ``height`` is on a logarithmic scale, from 1 to the alarm."""
    rows = sorted(watch.drift.rows(), key=lambda row: -row["level"])[:20]
    return [{**row, "height": math.log10(max(1.0, row["level"] * 1e5)) / 5.0} for row in rows]


def waiting(watch: Activity, now: int) -> dict[str, Any]:
    """Return how many decisions are open, and how many of each age."""
    ages = watch.ages(now)
    bins = dict.fromkeys([*(label for _, label in AGES), "more than a day"], 0)
    for age in ages:
        bins[next((label for limit, label in AGES if age < limit), "more than a day")] += 1
    return {
        "total": len(ages),
        "oldest": ages[0] if ages else None,
        "bins": bins,
        "largest": max(1, *bins.values()),
    }


def recent(
    watch: Activity, now: int, explained: bool, risk: Callable[[int], float | None] | None = None
) -> list[dict[str, Any]]:
    """Return the last decisions, newest first; ``risk`` is that of an answer of a promise."""
    found = []
    for shown in reversed(watch.recent.values()):
        who = ""
        if risk is not None and shown["stage"] is not None:
            who, what = watch.names[shown["stage"]], _answered(shown, watch, risk(shown["id"]))
        elif "allocation" in shown:
            given = [(watch.names[k], x) for k, x in enumerate(shown["allocation"]) if x > 0.0]
            what = ", ".join(f"{name} {number(x)}" for name, x in given[:4]) or "nothing"
            what += f" and {len(given) - 4} more" if len(given) > 4 else ""
        elif shown["stage"] is None:
            what = "asking"
        elif "call" in shown and len(shown["call"]) > 1:
            what = f"called {listed([watch.names[k] for k in shown['call']])}"
        else:
            name = watch.names[shown["stage"]]
            what = name if watch.kind == "router" else f"stopped at {name}"
        ended = shown["ended"]
        after = "" if ended is None else f" in {duration((ended - shown['at']) / 1e6, 1)}"
        state = {"open": "waits", "done": "called alone"}.get(shown["state"], shown["state"] + after)
        found.append(
            {
                "id": shown["id"],
                "when": ago(shown["at"], now, 1),
                "at": moment(shown["at"]),
                "group": shown.get("group", ""),
                "who": who,
                "what": what,
                "state": state,
                "why": explained and shown["stage"] is not None,
            }
        )
    return found


def _answered(shown: dict[str, Any], watch: Activity, risk: float | None) -> str:
    """Say how a request of a promise was answered."""
    others = [watch.names[k] for k in shown.get("call", ()) if k != shown["stage"]]
    if others:
        return f"answered, beside {listed(others)} to compare"
    return "answered" + (f", risk {share(risk)}" if risk else "")


def proxy(invoice: Invoice) -> list[dict[str, Any]]:
    """Return one row for every upstream model that was called, none for a learner whose stages run elsewhere."""
    found = []
    for model, line in zip((invoice.terms or {}).get("models", ()), invoice.lines):
        if line.calls:
            told = line.summary()
            errors = sum(times for name, times in told["errors"].items() if name != "cancelled")
            found.append({"name": model["name"], **told, "failed": errors / sum(line.outcomes.values())})
    return found


# -- charts


def charts(report: dict[str, Any], watch: Activity, span: str, now: int, created: int = 0) -> dict[str, Any]:
    """Return the data of the charts as JSON: sums by step, running shares with their intervals, running money."""
    length, step = SPANS[span]
    end = (now // 1_000_000 // step + 1) * step  # the running step is the last
    start = end - length
    read = watch.series.read(start, end, step)
    at, columns = read["at"], read["columns"]
    # steps before there was anything
    born = sum(1 for seconds in at if seconds + step <= created // 1_000_000)
    made: dict[str, Any] = {
        "at": at,
        "from": start,
        "to": end,
        "now": now // 1_000_000,
        "born": born,
        "step": step,
        "names": list(watch.names),
        "marks": [
            [seconds, f"{watch.names[i]} / {watch.names[j]}"] for seconds, (i, j) in _marks(watch, start)
        ],
    }
    decided = columns["decisions"]
    if watch.kind == "allocation":
        made["stops"] = [
            [round(given / n, 5) if n else None for given, n in zip(columns[f"given_{k}"], decided)]
            for k in range(len(watch.names))
        ]
        made["unit"] = "given"
        return made
    made["unit"] = "answers in each step"
    made["stops"] = [columns[f"stop_{k}"] for k in range(len(watch.names))]
    made["pairs"] = [
        _pair_line(item, watch, columns, born)
        for item in _drawn(report, watch)
        if tuple(item["pair"]) in watch.pairs
    ]
    made["money"] = [
        {"label": label, "values": _unborn([round(x, 6) for x in _running(total, columns[column])], born)}
        for label, column, total in (
            ("spent", "spent", watch.spent),
            (f"saved against {watch.names[watch.baseline]}", "saved", watch.saved),
            ("wasted", "wasted", watch.wasted),
        )
        if label != "wasted" or watch.wasted
    ]
    return made


def _unborn(values: list[Any], born: int) -> list[Any]:
    """Return values without those of steps before the learner was made."""
    return [None] * born + values[born:]


def _marks(watch: Activity, start: int) -> list[tuple[int, tuple[int, int]]]:
    return [(one.at // 1_000_000, one.pair) for one in watch.drift.marks() if one.at // 1_000_000 >= start]


def _running(total: float, sums: Sequence[float]) -> list[float]:
    """Return the running totals at the end of each step; the last one is ``total``."""
    values, left = [], total
    for amount_ in reversed(sums):
        values.append(left)
        left -= amount_
    return values[::-1]


def _drawn(report: dict[str, Any], watch: Activity) -> list[dict[str, Any]]:
    """Return the pairs to draw: those of the settled stage first, if they were compared."""
    settled = report.get("settled")
    compared = sorted(pairs(report, watch), key=lambda item: (settled not in item["pair"], item["pair"]))
    return sorted(compared[:DRAWN], key=lambda item: item["pair"])


def _pair_line(
    item: dict[str, Any], watch: Activity, columns: dict[str, list[float]], born: int
) -> dict[str, Any]:
    i, j = item["pair"]
    tries, differed = watch.differed.get((i, j), [0, 0])
    both, unlike = f"compared_{i}_{j}", f"differed_{i}_{j}"
    compared = _unborn(_running(tries, columns[both]), born)
    counts = _unborn(_running(differed, columns[unlike]), born)
    line: dict[str, Any] = {
        "label": f"{watch.names[i]} / {watch.names[j]}",
        "pays": round(item["pays_above"], 5),
    }
    line["share"], line["low"], line["high"] = [], [], []
    for n, d in zip(compared, counts):
        low, high = wilson(d, n) if n else (None, None)
        line["share"].append(round(d / n, 4) if n else None)
        line["low"].append(None if low is None else round(low, 4))
        line["high"].append(None if high is None else round(high, 4))
    return line


def table_of(made: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers behind the charts as rows, at most the last 30."""
    steps = list(range(made["born"], len(made["at"])))[-30:]
    return {
        "heads": made["names"],
        "rows": [
            {
                "at": moment(made["at"][k] * 1_000_000),
                "cells": [number(values[k]) for values in made["stops"]],
                "pairs": [share(line["share"][k]) for line in made.get("pairs", ())],
                "money": [amount(line["values"][k]) for line in made.get("money", ())],
            }
            for k in reversed(steps)
        ],
        "pairs": [line["label"] for line in made.get("pairs", ())],
        "money": [line["label"] for line in made.get("money", ())],
        "unit": made["unit"],
    }
