"""Is the arm on which a cascade has settled the cheapest? An answer from a few labels, without weak dominance.

The arm a is compared with the earlier arms by labels of fresh items, which are needed only where the arms up to a
disagree: where they agree they are right or wrong together. It is compared with the later arms by the
disagreements that were counted on the way, because an arm j cannot save more errors than it changes answers:
gamma_a - gamma_j <= p_aj.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from weakfeedback.validate import cumulative_costs, fraction, integer
from weakfeedback.words import STAGES, Words

OPTIMAL = "optimal"
WRONG = "not the cheapest: weak dominance fails"
OTHER = "not the cheapest"  # an arm that disagreements alone would not have chosen
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Audit:
    """The result of an audit. ``print`` it for a summary.

    Attributes
    ----------
    arm : int
        The arm that was audited.
    low, high : float
        Interval of how much more this arm costs per round than the cheapest, with confidence ``1 - alpha``; in the
        money of the costs.
    verdict : str
        "optimal" if ``high`` is 0; "not the cheapest: weak dominance fails" if ``low`` is above 0 (only "not the
        cheapest" for an arm at which disagreements alone do not stop); "undecided" otherwise.
    items, labels : int
        Number of fresh items, and how many of them had to be labelled.
    against : K pairs of numbers
        For each other arm the interval of how much more ``arm`` costs; for later arms the lower end is minus infinity,
        because it is unknown. (0, 0) for the arm itself.
    spent : float
        What the calls and the labels of the audit cost, if known.
    """

    arm: int
    low: float
    high: float
    verdict: str
    items: int
    labels: int
    alpha: float
    against: tuple[tuple[float, float], ...]
    spent: float = 0.0
    words: Words = STAGES  # what arms and money are called

    @property
    def interval(self) -> tuple[float, float]:
        """Endpoints of the interval, ``(low, high)``."""
        return self.low, self.high

    def __str__(self) -> str:
        words = self.words
        lines = [
            f"Audit of {words.one(self.arm)} on {self.items} fresh items, {self.labels} of them labelled: "
            f"{self.verdict}",
            f"it costs {self.low:.4g} to {words.money(self.high)} per round more than the cheapest {words.noun} "
            f"({100 * (1 - self.alpha):g} % confidence)",
        ]
        for other, (low, high) in enumerate(self.against):
            if other < self.arm:
                lines.append(f"  against {words.one(other)}: {low:+.4g} to {high:+.4g}, by labels")
            elif other > self.arm:
                lines.append(f"  against {words.one(other)}: at most {high:+.4g}, by disagreements")
        return "\n".join(lines)


def audit_arm(
    costs: Any, arm: int, wrong: Any, items: int, differed: Any, compared: Any, alpha: float = 0.05
) -> Audit:
    """Return the interval of the regret per round of an arm, and a verdict.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        Total costs C_i, where an error costs 1.
    arm : integer from 0 to K-1
    wrong : bools, shape (labels, arm + 1)
        Which of the arms 0, ..., arm were wrong, for each of the items that were labelled. These must include all items
        on which these arms disagree; more do no harm.
    items : integer
        How many fresh items there were, including those without a label.
    differed, compared : K x K integers
        At [arm, j], j > arm, how often the two disagreed and in how many comparisons. They may be from all rounds so
        far: the bound holds at all times at once.
    alpha : number between 0 and 1
        The interval misses the truth with at most about this probability; of the K - 1 comparisons each gets
        alpha / (K - 1).

    Against an earlier arm i, E[1{Y^a != Y} - 1{Y^i != Y}] lies in the interval of Bonett and Price (Journal of
    Educational and Behavioral Statistics 37, 2012) over all items. (The plain Wald interval has width 0 when
    no two arms differ, and is wrong more often than not.) Against a later arm j the largest p_aj that the mixture
    martingale of the beta-binomial law does not reject.

    Examples
    --------
    The second arm was right in 30 of the 40 items, of 200, where it differed from the first, and costs 0.02 more.

    >>> wrong = [[True, False]] * 30 + [[False, True]] * 10
    >>> found = audit_arm([0.0, 0.02], 1, wrong, 200, np.zeros((2, 2)), np.zeros((2, 2)))
    >>> found.verdict, found.labels, round(found.low, 3), round(found.high, 3)
    ('optimal', 40, 0.0, 0.0)
    """
    C = cumulative_costs(costs)
    K = C.size
    a = integer("arm", arm, 0, K - 1)
    n = integer("items", items, 0)
    level = fraction("alpha", alpha)
    table = np.asarray(wrong, dtype=bool).reshape(-1, a + 1)
    if len(table) > n or (a > 0 and n == 0):
        raise ValueError(
            f"items must be an integer >= {max(len(table), 1)}, as many as were labelled, got {items!r}"
        )
    D, N = (np.asarray(given) for given in (differed, compared))
    for name, given in (("differed", D), ("compared", N)):
        if given.shape != (K, K):
            raise ValueError(f"{name} must have shape {(K, K)}, got {given.shape}")
    beta = level / max(K - 1, 1)
    against = []
    for other in range(K):
        extra = float(C[a] - C[other])
        if other < a:
            plus = int((table[:, a] & ~table[:, other]).sum())
            minus = int((table[:, other] & ~table[:, a]).sum())
            low, high = bonett_price(plus, minus, n, beta)
            against.append((low + extra, high + extra))
        elif other == a:
            against.append((0.0, 0.0))
        else:
            against.append((-math.inf, upper_probability(D[a, other], N[a, other], beta) + extra))
    lower = max(0.0, *(low for low, _ in against))
    upper = max(0.0, *(high for _, high in against))
    verdict = UNDECIDED
    if upper <= 0.0:
        verdict = OPTIMAL
    elif lower > 0.0:
        verdict = WRONG if settled_arm(C, D, N) == a else OTHER
    return Audit(a, lower, upper, verdict, n, len(table), level, tuple(against))


def bonett_price(plus: int, minus: int, n: int, level: float) -> tuple[float, float]:
    """Return the interval of Bonett and Price of E[Z], Z in {-1, 0, 1}, with confidence ``1 - level``.

    ``plus`` and ``minus`` count the values 1 and -1 among ``n``. One of each is added, then Wald's formula is used.

    >>> low, high = bonett_price(0, 0, 98, 0.05)
    >>> round(low, 4), round(high, 4)
    (-0.0277, 0.0277)
    """
    up, down = (plus + 1) / (n + 2), (minus + 1) / (n + 2)
    half = NormalDist().inv_cdf(1.0 - level / 2.0) * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    return max(up - down - half, -1.0), min(up - down + half, 1.0)


def upper_probability(count: float, tries: float, level: float) -> float:
    """Return the largest q with ln B(D + 1, N - D + 1) - D ln q - (N - D) ln(1 - q) <= ln(1 / level).

    D is the ``count`` of events in N ``tries``. The probability that it is ever below the true probability is at most
    ``level``, however often it is checked and whenever one stops.

    >>> round(upper_probability(0, 100, 0.05), 4), upper_probability(3, 3, 0.05)
    (0.0733, 1.0)
    """
    D, N = float(count), float(tries)
    if not 0.0 <= D <= N:
        raise ValueError(f"differed must be from 0 to compared, got {count!r} of {tries!r}")
    if D == N:
        return 1.0
    room = math.log(1.0 / level) - math.lgamma(D + 1.0) - math.lgamma(N - D + 1.0) + math.lgamma(N + 2.0)
    inside, outside = D / N, 1.0
    for _ in range(200):
        middle = (inside + outside) / 2.0
        if middle in (inside, outside):
            break
        if -(D * math.log(middle) if D else 0.0) - (N - D) * math.log1p(-middle) <= room:
            inside = middle
        else:
            outside = middle
    return inside


def settled_arm(costs: np.ndarray, differed: np.ndarray, compared: np.ndarray) -> int:
    """Return the smallest i with C_j - C_i > D_ij / N_ij for all j > i, the last arm if there is none.

    >>> settled_arm(np.array([0.1, 0.3]), np.array([[0, 1], [0, 0]]), np.array([[0, 10], [0, 0]]))
    0
    """
    K = len(costs)
    for i in range(K - 1):
        later = range(i + 1, K)
        if all(compared[i, j] > 0 and costs[j] - costs[i] > differed[i, j] / compared[i, j] for j in later):
            return i
    return K - 1
