"""The invoice of a learner whose stages are upstream models: a fold of its events ``terms`` and ``bill``.

``terms`` say what a million tokens of each model cost from now on. A ``bill`` has calls that ended, each with the money
that it cost on that day; the calls of one request may be spread over several bills. Money is tokens times price and
nothing else: waiting has a sum of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weakfeedback.journal.events import Event
from weakfeedback.stats import add_up, rounded

GROUPS = 63  # that are kept by name; the others are one
OTHERS = "other"
DAY = 86_400_000_000  # microseconds
COUNTED = ("since", "requests", "compared", "fallbacks", "failed", "left")  # told as they are
PURPOSES = ("answer", "compare", "first", "lost")  # what a call was for


class BilledCall(NamedTuple):
    """One call of a model, as it stands in a bill.

    ``purpose`` is "answer" if the client got it, "compare" if it was called beside the answer, "first" if a later model
    had to answer, "lost" if nothing came of it. ``characters`` were sent, None if there was more than text.
    """

    stage: int
    purpose: str
    outcome: str
    money: float
    input: int
    cached: int
    output: int
    estimated: bool
    seconds: float
    first: float | None
    characters: int | None


@dataclass(slots=True)
class Line:
    """The sums of the calls of one model."""

    calls: int = 0
    answers: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    estimated: int = 0  # calls
    money: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    complete: int = 0  # calls that succeeded,
    made: int = 0  # their output,
    seconds: float = 0.0  # and what they took
    streams: int = 0
    first: float = 0.0  # seconds to the first tokens of streams
    characters: int = 0  # of the calls whose input was reported,
    reported: int = 0  # and that input

    def add(self, call: BilledCall) -> None:
        """Count one call."""
        self.calls += 1
        self.answers += call.purpose == "answer"
        self.outcomes[call.outcome] += 1
        self.input += call.input
        self.cached += call.cached
        self.output += call.output
        self.estimated += call.estimated
        self.money += call.money
        if call.outcome == "ok":
            self.complete += 1
            self.made += call.output
            self.seconds += call.seconds
        if call.first is not None:
            self.streams += 1
            self.first += call.first
        if call.characters is not None and not call.estimated and call.input:
            self.characters += call.characters
            self.reported += call.input

    def summary(self) -> dict[str, Any]:
        """Return the line as plain data."""
        return {
            "calls": self.calls,
            "answers": self.answers,
            "errors": {name: count for name, count in sorted(self.outcomes.items()) if name != "ok"},
            "tokens": {"input": self.input, "cached": self.cached, "output": self.output},
            "estimated": self.estimated,
            "spent": self.money,
            "seconds": self.seconds / self.complete if self.complete else None,
            "first_token": self.first / self.streams if self.streams else None,
        }


# by the name of a token: the day of its last bill, money of it, and of all
Paid = dict[str, tuple[int, float, float]]


def add_paid(paid: Paid, bill: dict[str, Any], at: int) -> None:
    """Count a bill for the token that it names, if it names one."""
    if "token" in bill:
        today, money = at // DAY, money_of(bill)
        day, of_day, total = paid.get(bill["token"], (today, 0.0, 0.0))
        paid[bill["token"]] = today, money + (of_day if day == today else 0.0), total + money


class Invoice:
    """What the upstream models of one learner have cost, what for, and what the baseline alone would have cost.

    ``terms`` is None for a learner whose stages run elsewhere: it has no invoice.
    """

    def __init__(self, stages: int) -> None:
        self.terms: dict[str, Any] | None = None
        self.since: int | None = None
        self.lines = [Line() for _ in range(stages)]
        self.money = dict.fromkeys(PURPOSES, 0.0)  # by purpose
        self.calls = dict.fromkeys(PURPOSES, 0)
        self.answers = [0.0] * stages  # money of the calls that answered
        self.judge = 0.0  # for judges and embeddings
        self.gone = 0.0  # money of models that are no longer there
        self.requests = self.compared = self.fallbacks = self.failed = self.left = 0
        self.measured = self.estimated = (
            0.0  # what the baseline alone costs: where it was called, and elsewhere
        )
        self.measured_requests = 0
        self.waited = self.waiting = 0.0  # seconds, and what they are worth
        self.group_spent: dict[str, float] = {}  # by the group of the request, "" for those without one
        self.group_alone: dict[str, float] = {}
        self.paid: Paid = {}

    # -- sums

    @property
    def spent(self) -> float:
        """All money."""
        return add_up(line.money for line in self.lines) + self.judge + self.gone

    @property
    def alone(self) -> float:
        """What the baseline alone would have cost."""
        return self.measured + self.estimated

    @property
    def saved(self) -> float:
        """What was saved against the baseline, negative if it would have been cheaper."""
        return self.alone - self.spent

    # -- events

    def agree(self, terms: dict[str, Any], at: int) -> None:
        """Continue with these terms."""
        self.terms = dict(terms)
        if self.since is None:
            self.since = at

    def change(self, kept: list[int]) -> None:
        """Go on with other models; the money of those that are gone stays spent."""
        before, spent = self.lines, self.spent
        self.lines = [before[was] if was >= 0 else Line() for was in kept]
        self.answers = [self.answers[was] if was >= 0 else 0.0 for was in kept]
        self.gone += spent - self.spent

    def add(self, bill: dict[str, Any]) -> None:
        """Count a bill."""
        for call in calls_of(bill):
            self.lines[call.stage].add(call)
            self.money[call.purpose] += call.money
            self.calls[call.purpose] += 1
            if call.purpose == "answer":
                self.answers[call.stage] += call.money
        for stage, outcome in bill.get("again", ()):
            self.lines[stage].outcomes[outcome] += 1
        self.judge += bill.get("judge", 0.0)
        group = bill.get("group", "")
        if group not in self.group_spent and len(self.group_spent) >= GROUPS:
            group = OTHERS
        self.group_spent[group] = self.group_spent.get(group, 0.0) + money_of(bill)
        self.group_alone[group] = self.group_alone.get(group, 0.0) + alone_of(bill)
        end = bill.get("end")
        self.requests += end == "answered"
        self.failed += end == "failed"
        self.left += end == "left"
        self.fallbacks += bool(bill.get("fallback"))
        self.compared += bool(bill.get("compared"))
        measured, estimated = bill.get("alone", (0.0, 0.0))
        self.measured += measured
        self.estimated += estimated
        self.measured_requests += measured > 0.0
        self.waited += bill.get("waited", 0.0)
        self.waiting += bill.get("waited", 0.0) * (self.terms or {}).get("waiting_price", 0.0)

    # -- as plain data

    def summary(self) -> dict[str, Any]:
        """Return the accounts for a report; empty without terms."""
        if self.terms is None:
            return {}
        models, saved, alone = self.terms["models"], self.saved, self.alone
        return {
            **{name: getattr(self, name) for name in COUNTED},
            "spent": self.spent,
            "comparing": self.money["compare"] + self.judge,
            "wasted": self.money["lost"],
            "alone": {
                "amount": alone,
                "measured": self.measured,
                "measured_requests": self.measured_requests,
                "estimated": self.estimated,
            },
            "saved": {
                "against": f"{models[self.terms['baseline']]['name']} alone",
                "amount": saved,
                "share": saved / alone if alone > 0.0 else None,
                "estimated": True,
            },
            "waiting": {
                "seconds": self.waited,
                "price": self.terms["waiting_price"],
                "amount": self.waiting,
            },
            "stages": [
                {"name": model["name"], "model": model["model"], "price": model["price"], **line.summary()}
                for model, line in zip(models, self.lines)
            ],
        }

    def table(self, currency: str | None) -> str:
        """Return the invoice as text, to be laid beside the bill of a provider."""
        unit, models = currency or "money", (self.terms or {}).get("models", ())
        names = [model["name"] for model in models]
        rows = list(zip(names, self.lines)) + ([("judge", Line(money=self.judge))] if self.judge else [])
        width, decimals = max([5, *map(len, names)]), _decimals(self.spent)
        lines = [
            f"{'model':<{width}}  {'calls':>9}  {'tokens in':>13}  {'cached':>11}  {'tokens out':>11}  {unit:>11}"
        ]
        moneys = rounded([line.money for _, line in rows], decimals)
        for (name, line), money in zip(rows, moneys):
            lines.append(_text_line(name, line, width, f"{money:,.{decimals}f}"))
        total = Line()
        for column in ("calls", "input", "cached", "output"):
            setattr(total, column, sum(getattr(line, column) for _, line in rows))
        lines.append(_text_line("spent", total, width, f"{self.spent:,.{decimals}f}"))
        saved, share = self.saved, abs(self.saved) / self.alone if self.alone > 0.0 else 0.0
        against = names[(self.terms or {}).get("baseline", -1)] if names else ""
        word = "saved" if saved >= 0.0 else "lost"
        lines.append(
            f"{against} alone would have cost {_money(self.alone)}: {word} {_money(abs(saved))} ({100 * share:.1f} %)"
        )
        lines.append(
            f"of that {_money(self.measured)} measured on {self.measured_requests:,} requests, "
            f"{_money(self.estimated)} estimated"
        )
        if self.waiting:
            lines.append(f"waiting, not in the sums: {self.waited:,.0f} s, worth {_money(self.waiting)}")
        return "\n".join(lines)

    # -- as an observer of a learner of the service

    @classmethod
    def of(cls, learner: Any) -> Invoice:
        """Return the invoice of a new learner."""
        return cls(len(learner.kind.names))

    def see(self, event: Event) -> None:
        """Take one event into account."""
        if event.kind == "terms":
            self.agree(event.body, event.at)
        elif event.kind == "models":
            self.change(event.body["kept"])
        elif event.kind == "bill":
            self.add(event.body)
            add_paid(self.paid, event.body, event.at)

    def state(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        told = {name: value for name, value in vars(self).items() if name != "lines"}
        if not self.paid:
            del told["paid"]
        told = {name: value.copy() if hasattr(value, "copy") else value for name, value in told.items()}
        return {**told, "lines": [_line_state(line) for line in self.lines]}

    def restore(self, state: Any) -> None:
        """Continue from a result of ``state``."""
        for name in vars(self):
            if name != "lines" and name in state:
                setattr(self, name, state[name])
        self.paid = {name: (day, today, total) for name, (day, today, total) in self.paid.items()}
        self.lines = [Line(**{**one, "outcomes": Counter(one["outcomes"])}) for one in state["lines"]]


def _text_line(name: str, line: Line, width: int, money: str) -> str:
    return f"{name:<{width}}  {line.calls:>9,}  {line.input:>13,}  {line.cached:>11,}  {line.output:>11,}  {money:>11}"


def _decimals(amount: float) -> int:
    """Return how many decimals an amount is told with: enough for three digits."""
    return 2 if amount >= 100.0 or amount == 0.0 else max(4, 2 - math.floor(math.log10(amount)))


def _money(amount: float) -> str:
    return f"{amount:,.{_decimals(amount)}f}"


def _line_state(line: Line) -> dict[str, Any]:
    told = {name: getattr(line, name) for name in Line.__slots__}
    return {**told, "outcomes": dict(line.outcomes)}


def calls_of(bill: dict[str, Any]) -> list[BilledCall]:
    """Return the calls of a bill."""
    return [BilledCall(*row) for row in bill.get("calls", ())]


def money_of(bill: dict[str, Any]) -> float:
    """Return the money of all calls of a bill, and of its judge."""
    return add_up(call.money for call in calls_of(bill)) + float(bill.get("judge", 0.0))


def alone_of(bill: dict[str, Any]) -> float:
    """Return what a bill adds to the cost of the baseline alone."""
    return float(add_up(bill.get("alone", ())))
