"""The report of a router, and the explanation of its decisions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from weakfeedback.live.game import View
from weakfeedback.live.games.router import Known, RouterCounts
from weakfeedback.live.report import (
    Report,
    against_last,
    between,
    columns,
    disagreements,
    percent,
    share_of,
)
from weakfeedback.plaintext import numbered
from weakfeedback.routing.tails import below, mean_excess
from weakfeedback.words import MODELS, Words


@dataclass(frozen=True)
class RouterReport(Report):
    """What a router has seen and spent. ``print`` it for a table.

    Attributes
    ----------
    rounds, comparisons, pending : int
        Decisions made and not cancelled; feedbacks accepted; comparisons that still wait for feedback.
    settled : int
        The model that the policy trusts now.
    compared_share : float
        Share of the decisions that called several models, NaN before the first.
    calls, answers : K integers
        How often each model was called, and how often its answer counted; cancelled decisions included.
    disagreement, compared, intervals : K x K, K x K and K x K x 2 arrays
        How often the answers of two models differed (NaN: never compared), the number of comparisons, including the
        rows of a warm start, and the 95 % Wilson interval.
    spent : float
        What all decisions cost at stated prices, cancelled ones included.
    last_alone, saved_alone : float
        What the last model alone would have cost, and what was saved against it; negative if that had been cheaper.
    bound : float
        Upper bound on ``spent``, whatever the models answer; infinite for a policy that has no such bound.
    wasted : float
        What was spent on cancelled decisions, as far as it was reported.
    guarantees : texts
        What is guaranteed, in words.
    groups : `GroupReport` of every group of requests
        With ``context``: its share, the model that answers there, and how often the first one differed.
    yields : `YieldReport` of every pair with labelled disagreements
        In what share of them the dearer model is really better, with its interval.
    conversations : dict or None
        How many began and moved up, their requests, what these cost, and would have cost with the last model alone.
    belief : text or None
        Which model is believed without proof, and what that means; None if none is.
    """

    columns: ClassVar = ("prices", "calls", "answers")
    row: ClassVar = "model"
    drawn: ClassVar = "answers"
    rare: ClassVar = ("yields", "conversations", "belief")

    policy: str
    prices: np.ndarray
    error_cost: float
    rounds: int
    comparisons: int
    pending: int
    settled: int
    compared_share: float
    calls: tuple[int, ...]
    answers: tuple[int, ...]
    disagreement: np.ndarray
    compared: np.ndarray
    intervals: np.ndarray
    spent: float
    last_alone: float
    saved_alone: float
    bound: float
    wasted: float
    guarantees: tuple[str, ...]
    words: Words = MODELS
    groups: tuple[Any, ...] = ()
    yields: tuple[Any, ...] = ()
    conversations: dict[str, Any] | None = None
    belief: str | None = None

    def __str__(self) -> str:
        words = self.words
        lines = [
            f"Router of {numbered(len(self.prices), 'model')}, {self.policy}: {numbered(self.rounds, 'round')}, "
            f"{numbered(self.comparisons, 'comparison')} learned, {self.pending} pending",
            f"settled on {words.one(self.settled)}; {percent(self.compared_share)} of the decisions called several "
            "models",
            "",
        ]
        rows = [("model", "price", "called", "answered")]
        for k, (price, calls, answers) in enumerate(zip(self.prices, self.calls, self.answers)):
            rows.append((words.short(k), words.money(price), str(calls), str(answers)))
        lines += [*columns((words.width(5), 10, 8, 8), rows), "", *self._pairs(), ""]
        lines += [*(one.line(words) for one in self.groups), ""] if self.groups else []
        lines += [*(one.line(words) for one in self.yields), ""] if self.yields else []
        lines += [*self._money(), *self.guarantees, *([self.belief] if self.belief else [])]
        return "\n".join(lines)

    def _pairs(self) -> list[str]:
        lines = []
        for i, j in combinations(range(len(self.prices)), 2):
            tries, seen = int(self.compared[i, j]), ": never compared"
            if tries:
                seen = f" differed in {percent(self.disagreement[i, j])} of {numbered(tries, 'comparison')} "
                seen += between(self.intervals[i, j])
            lines.append(f"{self.words.pair(i, j)}{seen}")
        return lines or ["one model: nothing to compare"]

    def _money(self) -> list[str]:
        lines = [against_last(self.words, self.spent, self.last_alone, self.saved_alone)]
        if self.wasted > 0.0:
            lines.append(f"spent on cancelled decisions: {self.words.money(self.wasted)}")
        return lines


def make_router_report(view: View, settled: int, label: str, words: Words) -> RouterReport:
    """Return the report from the counts."""
    tally: RouterCounts = view.counts
    policy, prices = view.policy, view.terms.prices
    disagreement, intervals = disagreements(
        len(prices), lambda i, j: share_of(int(tally.differed[i, j]), int(tally.compared[i, j]))
    )
    bound = math.inf
    if hasattr(policy, "overspend") and hasattr(policy, "allowance"):
        bound = (1.0 + policy.overspend) * tally.alone + policy.allowance * tally.allowed
    return RouterReport(
        policy=label,
        prices=np.array(prices),
        error_cost=view.terms.error_cost,
        rounds=tally.rounds,
        comparisons=tally.learned,
        pending=view.pending,
        settled=settled,
        compared_share=tally.asked / tally.decided if tally.decided else math.nan,
        calls=tally.calls,
        answers=tally.answers,
        disagreement=disagreement,
        compared=tally.compared + tally.compared.T,
        intervals=intervals,
        spent=tally.spent,
        last_alone=tally.alone,
        saved_alone=tally.alone - tally.spent,
        bound=bound,
        wasted=tally.wasted,
        guarantees=_guarantees(policy, bound, words),
        words=words,
    )


def _guarantees(policy: Any, bound: float, words: Words) -> tuple[str, ...]:
    dominance = "Whether a cheaper model would be better still cannot be told without labels."
    if math.isinf(bound) or not hasattr(policy, "rho"):
        return (f"No bound on the money or on the loss is known for {type(policy).__name__}.", dominance)
    return (
        f"Money: at most {words.money(bound)} so far whatever the models answer: {words.last()} alone, plus "
        f"{percent(policy.overspend)}, plus {policy.allowance:g} calls of it for each period of prices.",
        f"Loss: up to errors of estimation, money plus errors are at most {percent(policy.rho)} above those of always "
        f"calling {words.last()}, or any model more expensive than the settled one. {dominance}",
    )


def explanation(id: int, known: Known, label: str, words: Words = MODELS) -> str:
    """Explain, also in money, why these models were called."""
    called = words.several(known.call) + (" alone" if len(known.call) == 1 else "")
    lines = [
        f"Decision {id}: called {called}, answered by {words.one(known.call[-1])} ({label}); "
        f"settled on {words.one(known.settled)}."
    ]
    for i, j in combinations(range(len(known.prices)), 2):
        if known.settled in (i, j) or {i, j} <= set(known.call):
            lines.append(_pair(known, i, j, words))
    return "\n".join(lines)


def _pair(known: Known, i: int, j: int, words: Words) -> str:
    count, tries = int(known.counts.differed[i, j]), int(known.counts.compared[i, j])
    extra = known.prices[j] - known.prices[i]
    seen = f"differed {count} of {tries} times" if tries else "were never compared"
    text = f"{words.pair_first(i, j)} {seen}; {words.one(j)} costs {words.money(extra)} more"
    if known.ahead is None or known.evidence is None:
        return text + "."
    differed, compared = (float(counts[i, j]) for counts in known.evidence)
    d, s, f = extra / known.error_cost, 1.0 + differed, 1.0 + compared - differed
    cheap = mean_excess(s, f, min(1.0, d + known.rho * known.prices[j] / known.error_cost))
    dear = below(s, f, min(1.0, d)) * d
    trusted = j if cheap > dear else i
    loss = min(cheap, dear) * known.error_cost * max(known.ahead, 0.0)
    spent = tries * (known.prices[j] if trusted == i else known.prices[i])
    return (
        f"{text}. Of the two {words.one(trusted)} is trusted; if that is wrong it is expected to cost "
        f"{words.money(loss)} over the next {known.ahead:.0f} requests; {numbered(tries, 'comparison')} of the pair "
        f"cost {words.money(spent)}."
    )
