"""How much more does a stopping rule cost than each fixed stage? An estimate from labelled items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.adaptive.arguments import stage_costs
from weakfeedback.adaptive.problem import AdaptiveProblem
from weakfeedback.contract.decisions import checked_bool
from weakfeedback.validate import brief, fraction, integer, number
from weakfeedback.words import STAGES, Words

CHEAPER = "cheaper than every fixed stage"
DEARER = "dearer than a fixed stage"
UNDECIDED = "undecided"


@dataclass(frozen=True)
class RuleAudit:
    """The result of an audit of a rule. ``print`` it for a summary.

    Attributes
    ----------
    verdict : str
        "cheaper than every fixed stage" if all intervals lie below 0, "dearer than a fixed stage" if one lies above 0,
        "undecided" otherwise.
    items : int
        Number of labelled items.
    cost : float
        What the rule costs per item, errors included, in the money of the stage costs.
    fixed_costs : K numbers
        What always stopping at each stage costs per item.
    against : K pairs of numbers
        For each stage the interval of how much more the rule costs per item, with confidence ``1 - alpha`` for all at
        once: Student's t on the paired differences, with one more error and one fewer error added to the items.
    bounds : K pairs of numbers, or None
        The same by the empirical Bernstein inequality (Maurer and Pontil 2009): wider, but valid for every
        distribution. None if the calls reported their own costs, which have no known range.
    stops : K integers
        How many of the items stopped at each stage.
    spent : float
        What the calls of the audit cost, if known.
    """

    verdict: str
    items: int
    alpha: float
    cost: float
    fixed_costs: tuple[float, ...]
    against: tuple[tuple[float, float], ...]
    bounds: tuple[tuple[float, float], ...] | None
    stops: tuple[int, ...]
    spent: float = 0.0
    words: Words = STAGES  # what stages and money are called

    def __str__(self) -> str:
        words = self.words
        lines = [
            f"Audit of the rule on {self.items} labelled items: {self.verdict}",
            f"it costs {words.money(self.cost)} per item, errors included; against always stopping at one stage "
            f"({100 * (1 - self.alpha):g} % confidence):",
        ]
        for stage, (cost, (low, high)) in enumerate(zip(self.fixed_costs, self.against)):
            lines.append(f"  {words.one(stage)}: {self.cost - cost:+.4g} ({low:+.4g} to {high:+.4g})")
        return "\n".join(lines)


def audit_stops(
    stops: Any, wrong: Any, costs: Any, alpha: float = 0.05, error_cost: float = 1.0, paid: Any = None
) -> RuleAudit:
    """Compare a rule with every fixed stage by labelled items.

    Parameters
    ----------
    stops : n integers
        The stage at which the rule stopped each item.
    wrong : bools, shape (n, K)
        Which of the stages were wrong.
    costs : K numbers >= 0
        What each stage costs.
    alpha : number between 0 and 1
        All K intervals hold together except with this probability; each gets alpha / K.
    error_cost : number > 0
        What an error costs, in the same money.
    paid : numbers >= 0, shape (n, K), optional
        What the calls really cost, if that differs from ``costs``.

    Examples
    --------
    Two stages; the rule goes on where the first one errs.

    >>> wrong = np.array([[True, False]] * 20 + [[False, False]] * 80)
    >>> found = audit_stops(wrong[:, 0].astype(int), wrong, [0.01, 0.1])
    >>> found.verdict, round(found.cost, 3), [round(cost, 2) for cost in found.fixed_costs]
    ('cheaper than every fixed stage', 0.03, [0.21, 0.11])
    """
    prices = stage_costs(costs)
    error = number("error_cost", error_cost, above=0.0)
    level = fraction("alpha", alpha)
    table = np.asarray(wrong, dtype=bool)
    if table.ndim != 2 or table.shape[1] != prices.size or len(table) < 2:
        raise ValueError(f"wrong must be bools of shape (n, {prices.size}), n >= 2, got {brief(wrong)}")
    n, K = table.shape
    where = np.asarray(stops)
    if where.shape != (n,) or where.dtype.kind not in "iu" or (where < 0).any() or (where >= K).any():
        raise ValueError(f"stops must be {n} integers from 0 to {K - 1}, got {brief(stops)}")
    each = np.broadcast_to(prices, (n, K)) if paid is None else np.asarray(paid, dtype=float)
    totals = error * table + np.cumsum(each, axis=1)
    own = totals[np.arange(n), where]
    reach = 2.0 * error + float(prices[1:].sum())  # of a difference
    against, bounds = [], []
    for k in range(K):
        difference = own - totals[:, k]
        against.append(student(np.append(difference, [error, -error]), level / K))
        bounds.append(bernstein(difference, level / K, reach))
    verdict = UNDECIDED
    if all(high < 0.0 for _, high in against):
        verdict = CHEAPER
    elif any(low > 0.0 for low, _ in against):
        verdict = DEARER
    return RuleAudit(
        verdict,
        n,
        level,
        float(own.mean()),
        tuple(totals.mean(axis=0).tolist()),
        tuple(against),
        tuple(bounds) if paid is None else None,
        tuple(np.bincount(where, minlength=K).tolist()),
    )


def audit_rule(
    policy: Any, problem: AdaptiveProblem, alpha: float = 0.05, learn: bool = True, seed: int = 0
) -> RuleAudit:
    """Play every recorded row once, in order, and compare the cost with every fixed stage.

    With ``learn`` the policy learns on the way, as it would have in use; otherwise it stays as it is. Costs are in
    units of an error. The policy never sees the truth.

    >>> from weakfeedback.adaptive import Agreement
    >>> problem = AdaptiveProblem([0, 1, 1, 1], [[0, 0], [1, 1], [1, 1], [0, 1]], None, costs=[0.05, 0.2])
    >>> audit_rule(Agreement(problem.costs), problem).stops
    (0, 4)
    """
    problem.loop().fits(problem, policy)
    world, rng = problem.world(), np.random.default_rng(integer("seed", seed, 0))
    n, K = world.outputs.shape
    outputs, scores, chances = np.zeros(K, dtype=np.int64), np.zeros(K), np.zeros(K)
    stops = np.zeros(n, dtype=np.int64)
    for row in range(n):
        arm = 0
        world.show(row, 0, outputs, scores)
        while arm < K - 1 and checked_bool(
            policy, policy.go_on(arm, outputs[: arm + 1], scores[: arm + 1], rng), "go_on"
        ):
            arm += 1
            world.show(row, arm, outputs, scores)
        if learn:
            size = world.believe(row, arm, chances)
            policy.update(arm, outputs[: arm + 1], scores[: arm + 1], chances[:size], rng)
        stops[row] = arm
    return audit_stops(stops, world.wrong == 1, problem.costs, alpha)


def student(values: np.ndarray, level: float) -> tuple[float, float]:
    """Return Student's interval for the mean, with confidence ``1 - level``."""
    from scipy.special import stdtrit

    quantile = float(stdtrit(values.size - 1, 1.0 - level / 2.0))
    half = quantile * float(values.std(ddof=1)) / math.sqrt(values.size)
    middle = float(values.mean())
    return middle - half, middle + half


def bernstein(values: np.ndarray, level: float, reach: float) -> tuple[float, float]:
    """Return the interval of Maurer and Pontil for the mean of n values that lie in an interval of length ``reach``.

    >>> low, high = bernstein(np.zeros(1000), 0.05, 1.0)
    >>> round(high, 4)
    0.0102
    """
    n, log = values.size, math.log(4.0 / level)
    half = math.sqrt(2.0 * float(values.var(ddof=1)) * log / n) + 7.0 * reach * log / (3.0 * (n - 1))
    middle = float(values.mean())
    return middle - half, middle + half
