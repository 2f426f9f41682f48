"""The report of a cascade with context, and the explanation of its decisions."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from weakfeedback.cascade.movement import PROMISE
from weakfeedback.contextual.disagreement import PairwiseDisagreement
from weakfeedback.contextual.policies.uss_mean import UssMean
from weakfeedback.contextual.policies.uss_pd_ts import UssPdTs
from weakfeedback.kernels.linalg import logistic
from weakfeedback.live.cascade_report import (
    CascadeReport,
    going_on,
    make_report,
    needed_share,
    stop_at,
    why_there,
)
from weakfeedback.live.game import View
from weakfeedback.live.games.cascade import Terms
from weakfeedback.live.report import percent
from weakfeedback.words import Words

SELECTED = (
    "Shares of answers that differ are of the samples that went that far, which the contexts chose: they are no"
    " averages over all samples."
)
WEAK_DOMINANCE = (
    "The learned stops are optimal only where weak dominance holds at the context, which in general only labels can"
    " tell, and as far as the features can express the disagreements."
)
NORMAL = 1.959964  # the 97.5 % quantile


@dataclass(frozen=True, kw_only=True)
class ContextualReport(CascadeReport):
    """What a cascade with context has seen and spent. ``print`` it for a table.

    As `CascadeReport`, but here the decision to go on depends on the sample: disagreements and their intervals
    are those of the samples that went to the later stage, not of all samples.

    Attributes
    ----------
    inputs, features : int
        The length of a context and of its features; 0 before the first context.
    learning : bool
        Whether the first rounds, which all go to the last stage, are over; True for policies without such rounds.
    kept, let_go : int
        Observations that are kept individually, and those kept only as part of a quadratic.
    lost_at_most : float or None
        What is lost per round at contexts where weak dominance fails, at most: the mean of the largest
        C_a - C_i + p_ia(x) over i < a, at the contexts of the observations kept, where a is the stage that the
        estimates settle on, in money. No labels are needed; it is not 0 where weak dominance holds. None before there
        are estimates.
    """

    inputs: int
    features: int
    learning: bool
    kept: int
    let_go: int
    lost_at_most: float | None

    kind = "Contextual cascade"
    rare: ClassVar = ("numbers", "lost_at_most")

    def _trust_lines(self) -> list[str]:
        lines = []
        if not self.learning:
            lines.append("still in the first rounds, which all go to the last stage")
        if self.kept or self.let_go:
            lines.append(f"{self.kept} observations kept, {self.let_go} older ones as a quadratic")
        squared = self.numbers is not None and self.numbers.loss is not None
        lines += [SELECTED, PROMISE if squared else WEAK_DOMINANCE]
        if self.lost_at_most is not None:
            lost = self.words.money(self.lost_at_most)
            lines.append(
                f"Where weak dominance fails, at most {lost} per round is lost (estimated without labels)."
            )
        return lines


def make_context_report(view: View, game: Any, label: str, words: Words) -> ContextualReport:
    """Return the report from the counts and from what the policy remembers."""
    policy, base = view.policy, make_report(view, game, label, words, chained=False)
    keeps = bool(getattr(policy, "keeps_history", False))
    return ContextualReport(
        **{one.name: getattr(base, one.name) for one in fields(base)},
        inputs=view.terms.inputs,
        features=view.terms.dimension,
        learning=bool(getattr(policy, "ready", True)),
        kept=int(getattr(policy, "t", 0)) if keeps else 0,
        let_go=int(getattr(policy, "gone", 0)),
        lost_at_most=None if base.numbers else lost_at_most(policy, view.terms),
    )


def lost_at_most(policy: Any, terms: Any) -> float | None:
    """Return the mean of what the stage that disagreements settle on may cost more than the best, in money."""
    if not isinstance(policy, (PairwiseDisagreement, UssPdTs)) or not policy.ready or policy.t == 0:
        return None
    costs, last = terms.costs, policy.K - 1
    p = np.zeros((policy.t, policy.K, policy.K))
    for m in range(policy.M):
        begin = policy.begins[policy.slot[m]]
        x = policy.past[: policy.t, begin : begin + policy.d]
        p[:, policy.first[m], policy.stop[m]] = 1.0 / (
            1.0 + np.exp(-np.clip(x @ policy.theta[m], -500.0, 500.0))
        )
    excess = np.full(policy.t, math.nan)
    for i in range(last + 1):
        passes = (costs[i + 1 :] - costs[i] > p[:, i, i + 1 :]).all(axis=1) & np.isnan(excess)
        larger = costs[i] - costs[:i] + p[:, :i, i]
        excess[passes] = larger.max(axis=1, initial=0.0)[passes]
    return float(excess.mean()) * float(terms.error_cost)


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """What was known about a context when a decision was made; no estimates in the first rounds."""

    arm: int
    estimate: Any = None  # K x K, of the disagreement of each pair
    bound: Any = None  # K x K, the largest plausible disagreement


def make_record(arm: int, policy: Any, phi: np.ndarray) -> ContextRecord:
    """Return what the policy estimates about the disagreements, or the distances, at these features."""
    ready = policy.ready if isinstance(policy, (PairwiseDisagreement, UssPdTs)) else False
    moves = isinstance(policy, UssMean) and bool((policy.n > 1.0).all())
    if not ready and not moves:
        return ContextRecord(arm)
    estimate, bound = np.full((policy.K, policy.K), math.nan), np.full((policy.K, policy.K), math.nan)
    begins = policy.begins[policy.slot]
    x = phi[begins[:, None] + np.arange(policy.d)]  # the features of each regression
    if moves:
        x, inverse = np.column_stack((np.ones(len(x)), x)), policy.W[policy.slot]
        factor = NORMAL * np.sqrt(np.maximum(policy.left / policy.n, policy.n**-2.0))
    elif isinstance(policy, UssPdTs):
        inverse, factor = policy.Q, np.full(policy.M, NORMAL * policy.scale)
    else:
        inverse, factor = policy.W[policy.slot], np.array([policy.bonus(m) for m in range(policy.M)])
    widths = np.sqrt(np.maximum(np.einsum("mi,mi->m", np.matmul(inverse, x[:, :, None])[:, :, 0], x), 0.0))
    centres = np.einsum("mi,mi->m", x, policy.theta)
    mean = float if moves else logistic
    for m, pair in enumerate(zip(policy.first, policy.stop)):
        estimate[pair] = mean(centres[m])
        bound[pair] = mean(centres[m] + factor[m] * widths[m])
    return ContextRecord(arm, estimate, bound)


def context_explanation(
    id: int, record: ContextRecord, terms: Terms, policy: str, how: str, words: Words, apart: bool
) -> str:
    """Explain the choice of a stage, and ``how`` the policy decides; ``apart`` says that answers have distances."""
    K, arm, total = len(terms.prices), record.arm, terms.costs
    estimate, bound = record.estimate, record.bound

    def pressure(i: int, j: int) -> float:
        return float(bound[i, j] - (total[j] - total[i]))

    def sentence(i: int, j: int) -> str:
        needed, high = needed_share(terms, i, j), float(bound[i, j])
        going = going_on(words, terms, i, j, apart)
        seen = f"differ {percent(float(estimate[i, j]))} of the time, at most {percent(high)}"
        if apart:
            seen = f"be {estimate[i, j]:.3g} apart on average, at most {high:.3g}"
        little, much = ("too little", "far enough") if apart else ("too seldom", "often enough")
        verdict = f"{little} to pay" if high < needed else f"{much} that it may pay"
        return f"{going}; at this context {words.pair(i, j)} are estimated to {seen}: {verdict}."

    lines = [stop_at(words, id, arm, K, policy)]
    if estimate is not None:
        lines += why_there(words, arm, K, pressure, sentence)
    elif policy not in ("Fixed", "Random"):
        lines.append("Nothing is estimated yet: the first rounds go to the last stage.")
    return "\n".join([*lines, how] if how else lines)
