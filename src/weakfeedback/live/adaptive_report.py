"""The report of a cascade that decides after every answer, and the explanation of its rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from weakfeedback.live.cascade_report import spent_lines
from weakfeedback.live.game import View
from weakfeedback.live.games.adaptive import Ask
from weakfeedback.live.report import Report, columns, percent
from weakfeedback.live.warning import warn_caller
from weakfeedback.plaintext import numbered
from weakfeedback.words import STAGES, Words

JUDGES = ("last", "score", "calibrated")
FEWEST = 20  # scores of the last stage before they are doubted
LIMIT = (
    "The rule it learns can cost up to twice the error rate of the last stage more than the best one; "
    "calibrate(...) with some 30 labels lowers that."
)
CALIBRATED_LIMIT = (
    "The rule it learns can cost up to twice the calibration error of the last stage more than the best one; "
    "audit(...) tells by labels what it costs."
)
NO_LIMIT = (
    "Nothing is known without labels of how good this rule is; audit(...) tells by labels what it costs."
)
NO_SCORES = (
    "No scores from {}: what is left is agreement, which rarely beats the best fixed stage. Return "
    "Scored(label, score); with scores the cost fell to 0.91 of the best fixed stage, without to 1.04 (38 recorded "
    "cascades)."
)


@dataclass(frozen=True)
class AdaptiveReport(Report):
    """What a cascade that decides after every answer has seen and spent. ``print`` it for a table.

    Attributes
    ----------
    judge : str or None
        What it judges answers by: "last", "score" or "calibrated"; None for a rule that does not judge.
    rounds, pending : int
        Rounds learned, and rounds that are open.
    reached, stopped : K integers
        How many of the rounds reached each stage, and how many stopped there.
    changed : K - 1 integers
        How often the next stage, when it was called, gave a different answer.
    judged_changes, agreed : K - 1 integers, or None
        How many of these changes were in rounds that reached the last stage, which are judged, and in how many of
        them the judge believed the new answer more.
    unscored : integers
        The stages that were called and never gave a score.
    spent, saved_alone, saved, wasted : float
        As in `CascadeReport`: the cost of the calls of all rounds; what was saved against calling the last stage alone
        in every round (negative if that had been cheaper); against calling all stages; spent on rounds that failed.
    """

    columns: ClassVar = ("stage_costs", "reached", "stopped", "changed", "judged_changes", "agreed")
    drawn: ClassVar = "stopped"

    policy: str
    judge: str | None
    stage_costs: np.ndarray
    error_cost: float
    rounds: int
    pending: int
    reached: np.ndarray
    stopped: np.ndarray
    changed: np.ndarray
    judged_changes: np.ndarray | None
    agreed: np.ndarray | None
    unscored: tuple[int, ...]
    spent: float
    saved_alone: float
    saved: float
    wasted: float
    words: Words = STAGES

    def __str__(self) -> str:
        K, words = len(self.stage_costs), self.words
        judged = "" if self.judge is None else f" (judge {self.judge})"
        lines = [
            f"Cascade of {numbered(K, 'stage')}, {self.policy}{judged}: {numbered(self.rounds, 'round')} learned, "
            f"{self.pending} pending",
            "",
        ]
        heads = ["stage", "cost", "reached", "stopped here", "changed the answer", "judge agreed"]
        rows = [heads if self.agreed is not None else heads[:-1]]
        for k, cost in enumerate(self.stage_costs):
            rows.append([words.short(k), words.money(cost), self._share(self.reached[k], self.rounds)])
            rows[-1].append(self._share(self.stopped[k], self.rounds))
            if k > 0:
                rows[-1].append(self._share(self.changed[k - 1], self.reached[k]))
            if k > 0 and self.agreed is not None and self.judged_changes is not None:
                rows[-1].append(self._share(self.agreed[k - 1], self.judged_changes[k - 1]))
        lines += columns((words.width(5), 10, 8, 12, 18, 12), rows)
        lines += ["", *spent_lines(words, self.spent, self.saved_alone, self.saved)]
        if self.wasted > 0:
            lines.append(f"spent on rounds that failed: {words.money(self.wasted)}")
        if self.unscored:
            lines.append(NO_SCORES.format(words.several(self.unscored)))
        if self.judge is None:
            lines.append(NO_LIMIT)
        else:
            lines.append(CALIBRATED_LIMIT if self.judge == "calibrated" else LIMIT)
        return "\n".join(lines)

    @staticmethod
    def _share(count: Any, of: Any) -> str:
        return percent(count / of if of else math.nan)


def make_adaptive_report(view: View, label: str, words: Words) -> AdaptiveReport:
    """Return the report from the counts of the cascade and of its policy; warn of a judge that believes too little."""
    policy, counts, K = view.policy, view.counts, len(view.terms.prices)
    _warn_of_scores(policy, K)
    stopped = np.array(counts.stops)
    judging, agreed, judged = (
        getattr(policy, name, None) for name in ("judging", "agreed", "judged_changes")
    )
    filled = getattr(policy, "filled", None)
    reached = np.cumsum(stopped[::-1])[::-1]
    return AdaptiveReport(
        policy=label,
        judge=None if judging is None else JUDGES[judging],
        stage_costs=view.terms.stage_costs.copy(),
        error_cost=view.terms.error_cost,
        rounds=counts.rounds,
        pending=view.pending,
        reached=reached,
        stopped=stopped,
        changed=np.array([counts.differed[k, k + 1] for k in range(K - 1)], dtype=np.int64),
        judged_changes=None if judged is None else judged[: K - 1].copy(),
        agreed=None if agreed is None else agreed[: K - 1].copy(),
        unscored=()
        if filled is None
        else tuple(k for k in range(K - 1) if reached[k] > 0 and filled[k] == 0),
        spent=counts.spent,
        saved_alone=counts.alone - counts.spent,
        saved=counts.saved,
        wasted=counts.wasted,
        words=words,
    )


def _warn_of_scores(policy: Any, stages: int) -> None:
    """Warn where the judge takes for probabilities what cannot be any."""
    from weakfeedback.adaptive.judges import doubt_of

    if getattr(policy, "judging", None) != JUDGES.index("score"):
        return
    known = policy.scored[: policy.held, stages - 1]
    doubt = doubt_of(policy.score[: policy.held, stages - 1][known], policy.classes())
    if doubt and known.sum() >= FEWEST:
        warn_caller(doubt)


def adaptive_explanation(id: int, asks: tuple[Ask, ...], stages: int, policy: str, words: Words) -> str:
    """Explain why each stage was called, and why the round stopped."""
    if not asks:
        return f"Decision {id}: begun; {words.one(0)} is asked in every round ({policy})."
    lines = []
    for k, ask in enumerate(asks):
        said = "gave the first answer"
        if k > 0:
            before = [one.told.number for one in asks[:k]]
            if ask.told.number == before[-1]:
                said = "confirmed the answer"
            else:
                said = "gave another answer" + (", one seen before" if ask.told.number in before else "")
        score = ask.told.known_score
        said += "" if score is None else f", with score {score:.4g}"
        lines.append(f"{words.first(k)} {said}.")
        if k == stages - 1:
            lines.append("There is no further stage.")
            continue
        word = "was asked" if ask.more else "was not asked"
        if ask.worth is None:
            reason = "the rule said so"
        elif math.isinf(ask.worth):
            reason = "a share of the rounds looks further whatever is known (probe)"
        else:
            than = "more" if ask.more else "not more"
            reason = (
                f"going on was worth {words.money(ask.worth)} by a random draw from what is known of such answers, "
                f"{than} than its price, {words.money(ask.prices[k + 1])}"
            )
        lines.append(f"{words.first(k + 1)} {word} because {reason}.")
    end = "open" if asks[-1].more else f"answered by {words.one(len(asks) - 1)}"
    return "\n".join(
        [f"Decision {id}: {end} of {words.short(0)} to {words.short(stages - 1)} ({policy}).", *lines]
    )
