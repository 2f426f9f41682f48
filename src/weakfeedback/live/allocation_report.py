"""The report of an allocator: what it has given, seen and learned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weakfeedback.live.game import View
from weakfeedback.live.games.allocation import AllocationGame, Past
from weakfeedback.live.report import Report, between, columns, percent
from weakfeedback.plaintext import numbered
from weakfeedback.validate import brief

if TYPE_CHECKING:
    import pandas as pd

SLACK = 1e-9  # relative tolerance on amounts
SURPRISES = 2  # so many outcomes at odds with thresholds are no accident
# outcomes on each side of a split, and standard errors between them, that show a gradual response
FEW, FAR = (20, 6.0)
GRADUAL = (
    "the response looks gradual, or needs have changed: what was enough for long was not enough later; "
    "use response='gradual', or policy='CSB-TS-drift'"
)


@dataclass(frozen=True)
class AllocationReport(Report):
    """What an allocator has given, seen and learned. ``print`` it for a table.

    Attributes
    ----------
    rounds, pending : int
        Feedbacks accepted, and decisions that still wait for feedback.
    mean_allocation : K numbers
        What each arm got on average over the rounds learned, NaN before the first.
    served_share : K numbers
        Share of the rounds in which the arm got anything.
    seen : K integers
        Rounds in which something was seen at the arm.
    observed : K numbers
        The sum of what was seen at the arm.
    thresholds : K numbers
        The policy's estimate of what the arm needs, NaN if it has none. For a policy with a belief (CSB-TS) this is
        the median, infinite if the budget does not seem to be enough for the arm.
    bounds : K x 2 array
        Bounds of the threshold according to the policy, NaN if it has none; for a belief, its 95 % interval.
    found : bool or None
        Whether the policy considers the thresholds found; None if it searches for ever or does not report it.
    means : K numbers
        Mean loss or reward of each arm when it is not hidden, as estimated by the policy; NaN if it has no estimate.
    intervals : K x 2 array
        95 % interval of the policy's belief about each mean.
    names : K strings or None
        The names of the arms.
    gaps : K integers
        Rounds in which the report of the arm is missing.
    unlearned : int
        Rounds with a missing report, from which the policy could not learn.
    looks_gradual : bool
        Whether the policy has seen what no fixed threshold explains: effects are gradual, or needs have changed.
    changes, rate : K numbers and a number, or None
        For a policy that follows changes: how often each arm has changed in about the last 1000 rounds, as expected by
        the policy, and the probability of a change per round and arm that it has learned.
    responses : tuple of three arrays for each arm, or None
        For a policy of gradual effects: see `curve`.
    total : float
        The sum of everything seen: losses should be small, rewards large.
    even_total, best_total : float
        What an even split of the budget, and the best split by current knowledge, would have had in as many rounds.
        Both follow from these estimates of thresholds and means; NaN where the estimates are missing.
    """

    columns: ClassVar = (
        *("mean_allocation", "served_share", "seen", "observed"),
        *("thresholds", "bounds", "means", "intervals", "changes"),
    )
    row: ClassVar = "arm"
    drawn: ClassVar = "mean_allocation"
    rare: ClassVar = ("looks_gradual", "changes", "rate", "responses")

    policy: str
    setting: str
    budget: float
    rounds: int
    pending: int
    mean_allocation: np.ndarray
    served_share: np.ndarray
    seen: np.ndarray
    observed: np.ndarray
    thresholds: np.ndarray
    bounds: np.ndarray
    found: bool | None
    means: np.ndarray
    intervals: np.ndarray
    names: tuple[str, ...] | None = None
    gaps: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    unlearned: int = 0
    total: float = 0.0
    even_total: float = math.nan
    best_total: float = math.nan
    looks_gradual: bool = False
    changes: np.ndarray | None = None
    rate: float | None = None
    responses: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...] | None = None

    def curve(self, arm: int | str) -> pd.DataFrame:
        """Return the learned response of an arm: a table of amount, mean (loss or reward), and its 95 % band low, high.

        Neighbouring amounts whose means are out of order share one estimate; amounts that were never given have that
        of the next smaller one.
        """
        import pandas as pd
        from scipy.special import betaincinv

        if self.responses is None:
            raise ValueError(f"{self.policy} learns thresholds, no curves: use response='gradual'")
        names = range(len(self.seen)) if self.names is None else self.names
        if arm not in names:
            raise ValueError(f"arm must be one of {brief(list(names))}, got {brief(arm)}")
        amounts, ones, zeros = self.responses[list(names).index(arm)]
        known = ones + zeros > 0
        mean = np.where(known, ones / np.maximum(ones + zeros, 1), math.nan)
        low, high = (betaincinv(1.0 + ones, 1.0 + zeros, q) for q in (0.025, 0.975))
        low, high = np.where(ones > 0, low, 0.0), np.where(zeros > 0, high, 1.0)  # the band holds its mean
        return pd.DataFrame({"amount": amounts, "mean": mean, "low": low, "high": high})

    def __str__(self) -> str:
        words = {True: "found", False: "still being searched for", None: "as estimated so far"}
        lines = [
            f"A budget of {self.budget:g} over {len(self.seen)} arms, {self.policy}: "
            f"{numbered(self.rounds, 'round')} learned, {self.pending} pending",
            f"thresholds {words[self.found]}; {self.setting} as the policy learned it, with 95 % interval"
            if self.responses is None
            else f"gradual effects as estimated so far: report().curve(arm) is the mean {self.setting} by amount",
            *self._against(),
            *self._missing(),
            *([GRADUAL] if self.looks_gradual else []),
            *self._changes(),
            "",
        ]
        heads = ["arm", "gets", "in rounds", "threshold", f"mean {self.setting}", "seen in", "in all"]
        rows = [heads, *(self._row(i) for i in range(len(self.seen)))]
        # as narrow as possible: terminals are narrow
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join(lines + columns(widths, rows))

    def _against(self) -> list[str]:
        """Return what was observed in total, and what two other allocations would have achieved by the estimates."""
        if not self.rounds:
            return []
        others = [("an even split", self.even_total), ("the best split known now", self.best_total)]
        told = [f"{name} about {_amount(total)}" for name, total in others if not math.isnan(total)]
        line = f"seen in all: {_amount(self.total)}"
        return [line + (f"; by these estimates {' and '.join(told)}" if told else "")]

    def _missing(self) -> list[str]:
        if not self.gaps.any():
            return []
        line = f"{numbered(int(self.gaps.sum()), 'report')} missing"
        unlearned = f"; {numbered(self.unlearned, 'round')} could not be learned for that"
        return [line + unlearned if self.unlearned else line]

    def _changes(self) -> list[str]:
        if self.changes is None or not self.rate:
            return []
        most = int(np.argmax(self.changes))
        name = most if self.names is None else self.names[most]
        often = f"about {self.changes[most]:.2g} changes in 1000 rounds"
        return [
            f"changes: one in {_amount(1.0 / self.rate)} rounds by what was learned; most at arm {name}, {often}"
        ]

    def _row(self, i: int) -> list[str]:
        name = str(i) if self.names is None else self.names[i]
        given, served = _amount(self.mean_allocation[i]), percent(self.served_share[i])
        seen = [str(self.seen[i]), f"{self.observed[i]:.6g}"]
        return [name, given, served, self._threshold(i), self._mean(i), *seen]

    def _threshold(self, i: int) -> str:
        low, high = self.bounds[i]
        known = f"{_amount(self.thresholds[i])}"
        return known if math.isnan(low) else f"{known} ({_amount(low)} to {_amount(high)})"

    def _mean(self, i: int) -> str:
        if math.isnan(self.means[i]):
            return "-"
        return f"{percent(self.means[i])} {between(self.intervals[i])}"


def make_allocation_report(view: View, game: AllocationGame, label: str) -> AllocationReport:
    """Return the report from the counts, from what the policy knows and from the last rounds."""
    policy, tally, arms, rounds = view.policy, view.counts, game.arms, view.counts.rounds
    budget, setting = game.budget, game.observes
    if hasattr(policy, "belief"):
        thresholds, bounds, means, intervals = _joint_beliefs(policy, arms)
    else:
        thresholds, bounds = _field(policy, "theta_hat", arms), _bounds(policy, arms)
        means, intervals = _beliefs(policy, arms)
    nothing = np.full(arms, math.nan)
    found = getattr(policy, "found", None)
    return AllocationReport(
        policy=label,
        setting=setting,
        budget=budget,
        rounds=rounds,
        pending=view.pending,
        mean_allocation=tally.given / rounds if rounds else nothing,
        served_share=tally.served / rounds if rounds else nothing,
        seen=tally.seen.copy(),
        observed=tally.total.copy(),
        thresholds=thresholds,
        bounds=bounds,
        found=bool(found) if isinstance(found, (bool, np.bool_)) else None,
        means=means,
        intervals=intervals,
        names=game.names,
        gaps=tally.gaps.copy(),
        unlearned=tally.unlearned,
        total=float(tally.total.sum()),
        even_total=rounds * expected(np.full(arms, budget / arms), thresholds, means, setting),
        looks_gradual=_looks_gradual(policy, setting, view.kept.values()),
        changes=policy.changes()[0] if hasattr(policy, "changes") else None,
        rate=policy.changes()[1] if hasattr(policy, "changes") else None,
        responses=tuple(policy.response_of(i) for i in range(arms))
        if hasattr(policy, "response_of")
        else None,
        best_total=rounds * expected(best_split(thresholds, means, budget), thresholds, means, setting),
    )


def _looks_gradual(policy: Any, setting: str, history: Iterable[Past]) -> bool:
    """Return whether no threshold explains the outcomes: as the policy has counted them, else by the last rounds."""
    if hasattr(policy, "changes") or hasattr(policy, "response_of"):
        return False
    if hasattr(policy, "surprises"):
        return bool(policy.surprises >= SURPRISES)
    rounds = [(given, seen) for _, given, seen in history]
    if not rounds:
        return False
    given, seen = np.array([one[0] for one in rounds]), np.array([one[1] for one in rounds])
    return any(falls(given[:, i], seen[:, i], setting == "reward") for i in range(given.shape[1]))


def falls(given: np.ndarray, seen: np.ndarray, reward: bool) -> bool:
    """Return whether outcomes of one arm become clearly rarer with the amount, though none of them was censored.

    An outcome at an amount proves that nothing was censored up to it (for rewards: from it on). With a threshold the
    share of outcomes there does not depend on the amount; a difference of six standard errors is a surprise.

    >>> given, seen = np.repeat([0.1, 0.5], [40, 60]), np.array([1.0] * 40 + [0.0, 0.0, 1.0] * 20)
    >>> falls(given, seen, False), falls(given, seen > -1.0, False)
    (True, False)
    """
    known = ~np.isnan(seen) & (given > 0.0 if reward else True)
    place, hit = np.where(reward, -given, given)[known], seen[known] > 0.0
    if not hit.any():
        return False
    open_to = place <= place[hit].max()
    order = np.argsort(place[open_to], kind="stable")
    places, hits = place[open_to][order], np.cumsum(hit[open_to][order])
    n = np.arange(1, places.size)
    ends = (places[1:] > places[:-1]) & (n >= FEW) & (places.size - n >= FEW)  # a split between two amounts
    low, high = hits[:-1] / n, (hits[-1] - hits[:-1]) / (places.size - n)
    share = hits[-1] / places.size
    error = np.sqrt(share * (1.0 - share) * (1.0 / n + 1.0 / (places.size - n)))
    return bool((ends & (low - high > FAR * error)).any())


def expected(allocation: np.ndarray, thresholds: np.ndarray, means: np.ndarray, setting: str) -> float:
    """Return the average outcome of an allocation per round, NaN if it depends on unknown values.

    >>> expected(np.array([0.5, 0.5]), np.array([0.3, 0.6]), np.array([np.nan, 0.2]), "loss")
    0.2
    """
    if np.isnan(thresholds).any():
        return math.nan
    served = allocation >= thresholds * (1.0 - SLACK)
    return float(np.where(served == (setting == "reward"), means, 0.0).sum())


def best_split(thresholds: np.ndarray, means: np.ndarray, budget: float) -> np.ndarray:
    """Return the allocation that serves the set of arms with the largest total mean, given thresholds and means."""
    from weakfeedback.allocation import knapsack

    allocation = np.zeros(means.size)
    # an arm with an unknown mean has no observations: serving it has no estimated value yet
    worth = np.where(np.isnan(means), 0.0, means)
    able = np.flatnonzero((thresholds <= budget * (1.0 + SLACK)) & (worth > 0.0))
    if able.size:
        try:
            chosen = knapsack(worth[able], np.minimum(thresholds[able], budget), budget * (1.0 + SLACK))
        except ValueError:  # too many combinations: better no answer than a wrong one
            return np.full(means.size, math.nan)
        allocation[able[chosen]] = thresholds[able[chosen]]
    return allocation


def history_table(
    kept: Mapping[int, tuple[int, np.ndarray, np.ndarray]], arms: int, names: tuple[str, ...] | None
) -> pd.DataFrame:
    """Return one row for each round and arm; ``kept`` has for each id its round, what was given and what was seen."""
    import pandas as pd

    rows = list(kept.items())
    empty = np.zeros((0, arms))
    return pd.DataFrame(
        {
            "round": np.repeat(np.array([round for _, (round, _, _) in rows], dtype=np.int64), arms),
            "id": np.repeat(np.array([id for id, _ in rows], dtype=np.int64), arms),
            "arm": (list(range(arms)) if names is None else list(names)) * len(rows),
            "given": np.concatenate([empty, *(given[None] for _, (_, given, _) in rows)]).ravel(),
            "seen": np.concatenate([empty, *(seen[None] for _, (_, _, seen) in rows)]).ravel(),
        }
    )


def _amount(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if 10_000 <= value < math.inf else f"{value:.4g}"


def _field(policy: Any, name: str, arms: int) -> np.ndarray:
    value = getattr(policy, name, None)
    fits = isinstance(value, np.ndarray) and value.shape == (arms,) and value.dtype.kind in "fi"
    return np.array(value, dtype=float) if fits else np.full(arms, math.nan)


def _bounds(policy: Any, arms: int) -> np.ndarray:
    """Return the bounds that the search of a policy has found for each threshold."""
    bounds = np.full((arms, 2), math.nan)
    if hasattr(policy, "theta_l") and hasattr(policy, "theta_u"):
        bounds[:, 0], bounds[:, 1] = _field(policy, "theta_l", arms), _field(policy, "theta_u", arms)
    elif all(isinstance(getattr(policy, name, None), int) for name in ("l", "u")):
        # Candidates are Q / (K - j + 1), j = l, ..., u; the one before l is known to be too small.
        l, u = policy.l, policy.u  # noqa: E741
        bounds[:, 0] = 0.0 if l == 1 else policy.Q / (policy.K - l + 2)
        bounds[:, 1] = policy.Q / (policy.K - u + 1)
    return bounds


def _beliefs(policy: Any, arms: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the 95 % interval of the Beta beliefs of a policy, NaN where nothing was learned."""
    from scipy.special import betaincinv

    ones, zeros = _field(policy, "S", arms), _field(policy, "F", arms)
    means, intervals = np.full(arms, math.nan), np.full((arms, 2), math.nan)
    for i in range(arms):
        if ones[i] + zeros[i] > 2.0:
            means[i] = ones[i] / (ones[i] + zeros[i])
            intervals[i] = [float(betaincinv(ones[i], zeros[i], q)) for q in (0.025, 0.975)]
    return means, intervals


def _joint_beliefs(policy: Any, arms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return, for a policy with a belief about both: median and 95 % of the thresholds, mean and 95 % of the means."""
    thresholds, bounds = np.full(arms, math.nan), np.full((arms, 2), math.nan)
    means, intervals = np.full(arms, math.nan), np.full((arms, 2), math.nan)
    for i in range(arms):
        amounts, probability, a, b = policy.belief(i)
        step = getattr(policy, "step", 1.0)
        thresholds[i], *bounds[i] = (_quantile(q, amounts, probability, step) for q in (0.5, 0.025, 0.975))
        if (a + b > 2.0).any():
            # There are few different laws of the mean: it depends on the threshold only through the zeros.
            zeros, place = np.unique(b, return_inverse=True)
            weights = np.bincount(place, probability)
            means[i] = weights @ (a[0] / (a[0] + zeros))
            intervals[i] = [_mixture_quantile(q, weights, a[0], zeros) for q in (0.025, 0.975)]
    return thresholds, bounds, means, intervals


def _quantile(q: float, amounts: np.ndarray, probability: np.ndarray, step: float) -> float:
    """Return the quantile of a threshold whose levels from ``amounts[j, 0]`` to ``amounts[j, 1]`` are equally likely.

    >>> _quantile(0.3, np.array([[0.25, 1.0], [np.inf, np.inf]]), np.array([0.8, 0.2]), 0.25)
    0.5
    """
    before = np.cumsum(probability) - probability
    j = int(np.searchsorted(before, q)) - 1
    low, high = (float(end) for end in amounts[j])
    if low == high:
        return low
    levels = round((high - low) / step) + 1
    inside = math.ceil((q - float(before[j])) / float(probability[j]) * levels * (1.0 - SLACK)) - 1
    return (round(low / step) + min(inside, levels - 1)) * step


def _mixture_quantile(q: float, weights: np.ndarray, a: float, b: np.ndarray) -> float:
    """Return the quantile of a mixture of Beta(a, b_j), by bisection."""
    from scipy.special import betainc

    low, high = 0.0, 1.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if weights @ betainc(a, b, middle) > q else (middle, high)
    return 0.5 * (low + high)
