"""The report of a cascade, and the explanation of its decisions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from weakfeedback.cascade.certificate import FIRST, NEVER, Certificate, certify
from weakfeedback.cascade.movement import PROMISE, Chain
from weakfeedback.live.game import View
from weakfeedback.live.games.cascade import Counts, Terms
from weakfeedback.live.numbers import Squared
from weakfeedback.live.report import (
    Report,
    against_last,
    between,
    columns,
    disagreements,
    percent,
)
from weakfeedback.plaintext import numbered
from weakfeedback.stats import add_up
from weakfeedback.words import STAGES, Words

WEAK_DOMINANCE = (
    "The learned stop is optimal only if weak dominance holds, which in general only labels can tell (audit)."
)
ALPHA = 0.05  # of the certificate in a report

LABELS = (
    "Where stages differ, labels were bought, so the learned stop does not rest on weak dominance; "
    "no regret bound is known."
)


@dataclass(frozen=True)
class Numbers:
    """What is known of answers that are numbers.

    Attributes
    ----------
    loss : str or None
        "squared", or None with a ``metric``.
    chain : Chain or None
        Whether the movements add up along the cascade, as those of calibrated stages do; for ``loss="squared"``, up
        to 8 stages, after 30 comparisons of all of them.
    """

    loss: str | None = None
    chain: Chain | None = None


@dataclass(frozen=True, kw_only=True)
class CascadeReport:
    """What a cascade has seen and spent. ``print`` it for a table.

    Attributes
    ----------
    rounds, pending : int
        Feedbacks accepted, and decisions that still wait for feedback.
    disagreement : K x K array
        How often the answers of two stages differed, NaN for stages never compared. Stages are compared in the
        rounds that went to the later one; the decision to go there does not look at the sample.
    comparisons : K x K array of integers
        How often they were compared, including the rows of a warm start.
    intervals : K x K x 2 array
        95 % Wilson interval of each disagreement.
    arm_shares : K numbers
        Share of the rounds that stopped at each stage, NaN before the first.
    spent : float
        What the calls of all accepted rounds cost.
    saved_alone : float
        What was saved against calling the last stage alone in every round; negative if that had been cheaper. In
        rounds that did not call it, its stated cost counts. With ``combine``, its answer needs all stages, which count.
    saved : float
        The stated costs of the calls not made: what was saved against calling all stages in every round.
    wasted : float
        What was spent on rounds that failed before they were complete; nothing was learned from them.
    certificate : Certificate or None
        What the comparisons prove without labels; None where it is not available.
    extra_errors : float or None
        Upper bound on how many more errors the given answers have than those of the last stage alone: in so many they
        may differ from it, at the upper limits of the certificate. None without a certificate.
    net_saved : (low, high) or None
        What was saved against the last stage alone after paying for errors; the exact value depends on the truth.
    labels : int or None
        How many labels were bought; None for a policy that buys none.
    label_spent : float
        What the labels cost; not part of ``spent``.
    numbers : Numbers or None
        For answers that are numbers. Then ``disagreement`` has mean distances (for ``loss="squared"`` the mean squared
        movements in units of ``scale`` squared), with ``intervals`` by the normal approximation.
    """

    policy: str
    stage_costs: np.ndarray
    rounds: int
    pending: int
    disagreement: np.ndarray
    comparisons: np.ndarray
    intervals: np.ndarray
    arm_shares: np.ndarray
    spent: float
    saved: float
    wasted: float
    saved_alone: float
    error_cost: float
    certificate: Certificate | None
    extra_errors: float | None
    net_saved: tuple[float, float] | None
    labels: int | None
    label_spent: float
    words: Words
    numbers: Numbers | None

    kind, columns, row, drawn = "Cascade", ("stage_costs", "arm_shares"), "stage", "arm_shares"
    rare: ClassVar[tuple[str, ...]] = ("numbers",)
    to_frame, plot, _repr_html_ = Report.to_frame, Report.plot, Report._repr_html_
    to_dict = Report.to_dict

    def __str__(self) -> str:
        words = self.words
        lines = [
            f"{self.kind} of {numbered(len(self.stage_costs), 'stage')}, {self.policy}: "
            f"{numbered(self.rounds, 'round')} learned, {self.pending} pending",
            "",
        ]
        rows = [("stage", "cost", "stopped here")]
        for arm, (cost, share) in enumerate(zip(self.stage_costs, self.arm_shares)):
            rows.append((words.short(arm), words.money(cost), percent(share)))
        lines += [*columns((words.width(5), 10, 12), rows), "", *self._disagreement_lines(), ""]
        return "\n".join([*lines, *self._money_lines(), *self._trust_lines()])

    def _trust_lines(self) -> list[str]:
        """State what is certain and what is not."""
        found = self.certificate
        if self.numbers is not None and self.numbers.loss is not None:
            chain = self.numbers.chain
            return [PROMISE if chain is None else chain.sentence(self.words.names)]
        if self.labels is not None:
            return [LABELS]
        if found is None or len(self.stage_costs) == 1:
            return [WEAK_DOMINANCE]
        if found.verdict in (FIRST, NEVER):
            return [found.sentence(self.words.names)]
        could = ", ".join(map(self.words.short, found.possible))
        return [found.sentence(self.words.names), f"Stages that can be optimal: {could}.", WEAK_DOMINANCE]

    def _disagreement_lines(self) -> list[str]:
        arms, name = range(len(self.stage_costs)), self.words.short
        if len(arms) == 1:
            return ["one stage: nothing to compare"]
        said = "answers differ"
        if self.numbers is not None:
            said = f"answers {'are apart' if self.numbers.loss is None else 'move, squared'}, on average"
        rows = [["stage", *(f"and {name(j)}" for j in arms[1:])]]
        rows += [[name(i), *(self._cell(i, j) if j > i else "" for j in arms[1:])] for i in arms[:-1]]
        return [f"{said} (95 % interval)", *columns((self.words.width(5), *[26] * len(arms)), rows)]

    def _cell(self, i: int, j: int) -> str:
        if self.comparisons[i, j] == 0:
            return "never compared"
        if self.numbers is not None:
            low, high = self.intervals[i, j]
            return f"{self.disagreement[i, j]:.3g} ({low:.3g} to {high:.3g})"
        return f"{percent(self.disagreement[i, j])} {between(self.intervals[i, j])}"

    def _money_lines(self) -> list[str]:
        words, money = self.words, self.words.money
        lines = spent_lines(words, self.spent, self.saved_alone, self.saved)
        if self.extra_errors is not None and self.net_saved is not None and self.rounds:
            low, high = self.net_saved
            lines.append(
                f"at most {STAGES.money(self.extra_errors)} more errors than {words.last()} alone, worth "
                f"{money(self.extra_errors * self.error_cost)}: net {money(low)} to {money(high)} saved"
            )
            if low < 0.0 < high and self.numbers is None:
                lines.append(
                    "Whether anything was saved, errors included, is open: audit() tells by a few labels."
                )
        if self.wasted > 0:
            lines.append(f"spent on rounds that failed: {money(self.wasted)}")
        if self.labels is not None:
            lines.append(f"labels bought: {self.labels}, for {money(self.label_spent)}")
        return lines


def spent_lines(words: Words, spent: float, saved_alone: float, saved: float) -> list[str]:
    """Say what was spent, against the last stage alone (signed) and against all stages in every round."""
    return [
        against_last(words, spent, spent + saved_alone, saved_alone),
        f"all stages in every round would have cost {words.money(spent + saved)}",
    ]


def make_report(view: View, game: Any, label: str, words: Words, chained: bool = True) -> CascadeReport:
    """Return the report from the counts, with a certificate if no decision to compare depended on the sample.

    ``chained`` is whether movements of numbers add up along the cascade.
    """
    tally: Counts = view.counts
    stage_costs, error_cost, K = view.terms.stage_costs, view.terms.error_cost, game.K
    rounds, compared, moved = tally.rounds, tally.compared, tally.moved
    loss = "squared" if isinstance(game.code.metric, Squared) else None
    certificate = extra = net = None
    if "certificate" not in game.refuses:
        differed = tally.differed if moved is None else np.minimum(moved.total, compared)
        certificate = certify(np.cumsum(stage_costs) / error_cost, compared, differed, ALPHA)
        limits = [certificate.intervals[i, K - 1][1] for i in range(K - 1)]
        extra = add_up(stops * limit for stops, limit in zip(tally.stops, limits))
        saved = tally.alone - tally.spent
        net = saved - extra * error_cost, saved + extra * error_cost
    disagreement, intervals = disagreements(K, tally.seen_of)
    return CascadeReport(
        policy=label,
        stage_costs=stage_costs.copy(),
        rounds=rounds,
        pending=view.pending,
        disagreement=disagreement,
        comparisons=compared + compared.T,
        intervals=intervals,
        arm_shares=np.array(tally.stops) / rounds if rounds else np.full(K, math.nan),
        spent=tally.spent,
        saved=tally.saved,
        wasted=tally.wasted,
        saved_alone=tally.alone - tally.spent,
        error_cost=error_cost,
        certificate=certificate,
        extra_errors=extra,
        net_saved=net,
        labels=tally.labels if game.label_price is not None else None,
        label_spent=tally.label_spent,
        words=words,
        numbers=None if moved is None else Numbers(loss, moved.chain(compared) if loss and chained else None),
    )


def explanation(id: int, arm: int, counts: Counts, terms: Terms, policy: str, how: str, words: Words) -> str:
    """Explain the choice of a stage from counts and prices at that time, and ``how`` the policy decides."""
    differed, compared, apart = counts.differed, counts.compared, counts.moved is not None

    def pressure(i: int, j: int) -> float:
        return counts.seen_of(i, j)[2] - needed_share(terms, i, j)

    def sentence(i: int, j: int) -> str:
        needed, tries = needed_share(terms, i, j), int(compared[i, j])
        mean, low, high = counts.seen_of(i, j)
        if apart:
            seen = f"were {mean:.3g} apart on average in {numbered(tries, 'comparison')}" if tries else ""
            seen = f"{seen or 'were never compared, unknown'} ({low:.3g} to {high:.3g})"
        else:
            seen = f"differed {differed[i, j]} of {tries} times, {percent(mean)}" if tries else ""
            seen = f"{seen or 'differed in no comparison yet, unknown'} {between((low, high))}"
        verdict = _verdict(low, high, needed, apart)
        going = going_on(words, terms, i, j, apart)
        return f"{going}; {words.pair(i, j)} {seen}: {verdict}."

    K = len(terms.prices)
    lines = [stop_at(words, id, arm, K, policy), *why_there(words, arm, K, pressure, sentence)]
    return "\n".join([*lines, how] if how else lines)


def _verdict(low: float, high: float, needed: float, apart: bool) -> str:
    """Say whether two stages differ enough."""
    if needed >= 1 or high < needed:
        return "too little to pay" if apart else "too seldom to pay"
    if low > needed:
        return f"{'far' if apart else 'often'} enough that it may pay"
    return "not yet clear whether that pays"


def stop_at(words: Words, id: int, arm: int, K: int, policy: str) -> str:
    """Say what was decided."""
    return f"Decision {id}: stop at {words.one(arm)} of {words.short(0)} to {words.short(K - 1)} ({policy})."


def why_there(
    words: Words, arm: int, K: int, pressure: Callable[[int, int], float], sentence: Callable[[int, int], str]
) -> list[str]:
    """Say why a round stops at no stage before ``arm``, and calls none after it.

    ``sentence`` describes a pair of stages; ``pressure`` measures how strong the case is for going on from one to the
    other.
    """
    lines = []
    for i in range(arm):
        # Among all later stages, the one with the strongest reason not to stop at i.
        pressing = max(range(i + 1, K), key=lambda j: pressure(i, j))
        lines.append(f"Not {words.one(i)}: " + sentence(i, pressing))
    return lines + [f"{words.first(j)} not called: " + sentence(arm, j) for j in range(arm + 1, K)]


def needed_share(terms: Terms, i: int, j: int) -> float:
    """Return the share of answers that stage j must correct to be worth going on to from i."""
    return float(terms.stage_costs[i + 1 : j + 1].sum()) / terms.error_cost


def going_on(words: Words, terms: Terms, i: int, j: int, apart: bool) -> str:
    """Say what going on from stage i to stage j costs, and when it pays."""
    extra, needed = float(terms.stage_costs[i + 1 : j + 1].sum()), needed_share(terms, i, j)
    enough = f"corrects more than {percent(needed)} of the answers"
    if apart:
        enough = f"improves the answers by more than {needed:.3g} on average"
    return f"going on to {words.one(j)} costs {words.money(extra)} more, worth it if it {enough}"
