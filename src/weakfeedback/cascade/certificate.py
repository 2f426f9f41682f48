"""What can be certified without labels: that the first arm is optimal, or that weak dominance fails.

With p_ij the probability that arms i and j disagree, gamma_i - gamma_j <= p_ij whatever the truth is. So an arm j for
which C_j - C_i > p_ij, for some earlier arm i, certainly costs more than i. If that excludes every arm but the first,
the first is optimal, whatever the truth is. Under weak dominance the optimal arm i passes two tests, C_i - C_j <= p_ji
for all j < i and C_j - C_i > p_ij for all j > i. If no arm can pass both, weak dominance certainly fails. Everything
else needs labels: ``weakfeedback.cascade.audit``, Q-USS.

The p_ij are known up to a confidence sequence, which holds for all pairs and at all times together: it may be checked
after every round. It is the mixture of Robbins with the Beta(1/2, 1/2) prior,

    M_n(p) = B(d + 1/2, n - d + 1/2) / B(1/2, 1/2) / (p^d (1 - p)^(n - d))

after d disagreements in n comparisons. If p is the true probability, this is a martingale that starts at 1, so the
probability that it ever reaches 1 / a is at most a (Ville). All p with M_n(p) >= 1 / a are excluded, with a = alpha
divided by the number of pairs.

A policy that has settled rarely compares any more, and often settles before anything is proved: ``needed`` says how
many comparisons are still needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.plaintext import counted
from weakfeedback.validate import brief, cumulative_costs, fraction
from weakfeedback.words import STAGES, Words

FIRST = "first-optimal"
NEVER = "no-weak-dominance"
UNDECIDED = "undecided"
# More comparisons than this are never suggested: the estimates lie on a boundary.
MOST = 10**9
EARLY = 50  # comparisons of a pair, before which nothing is said of what more of them would bring
HALVINGS = 50  # of an interval of length 1: to about 1e-15


@dataclass(frozen=True)
class Certificate:
    """What the disagreements prove. ``print`` it for a sentence.

    Attributes
    ----------
    verdict : str
        "first-optimal": the first arm is the only optimal one, whatever the truth is. "no-weak-dominance": weak
        dominance fails, so disagreements alone cannot be trusted. "undecided" otherwise. The probability that it is
        ever wrong, at any time and however often one looks, is at most ``alpha``.
    possible : tuple of int
        The arms, from 0, that can be optimal: those that no earlier arm excludes.
    needed : int or None
        An estimate of how many more comparisons of every pair would decide, if arms go on to disagree as often as they
        did; None if it is decided, if some pair was never compared, or if no number would decide at these rates.
    alpha : float
    intervals : dict
        By pair (i, j) with i < j the limits (low, high) of its disagreement.
    fewest : int
        How often the pair was compared that was compared least.
    """

    verdict: str
    possible: tuple[int, ...]
    needed: int | None
    alpha: float
    intervals: dict[tuple[int, int], tuple[float, float]]
    fewest: int = EARLY
    words: Words = STAGES  # what arms are called

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """Return the certificate in words; ``names`` are those of the stages, if it has none."""
        noun, names = self.words.noun, names or self.words.names
        sure = f"at confidence {100 * (1 - self.alpha):.6g} %"
        if self.verdict == FIRST:
            first = f"The first {noun}" if names is None else str(names[0])
            return f"{first} is optimal for certain ({sure}), whatever the truth is."
        if self.verdict == NEVER:
            return f"Weak dominance fails ({sure}): labels are needed (audit, Q-USS)."
        if self.needed is not None:
            return f"Not decided: needs about {_about(self.needed)} more comparisons of all {noun}s."
        if self.fewest == 0:
            return f"Not decided: some {noun}s were never compared."
        if self.fewest < EARLY:
            return f"Too early to say: {counted(self.fewest, 'comparison')} so far."
        return "Not decided, and more comparisons are not likely to decide it: labels can (audit, Q-USS)."

    def __str__(self) -> str:
        return self.sentence()


def certificate_level(alpha: Any) -> float:
    """Return ``alpha``, which must be above 0 and below 1."""
    return fraction("alpha", alpha, "below 1")


def certify(costs: Any, compared: Any, disagreed: Any, alpha: float = 0.05) -> Certificate:
    """Return what comparisons of the arms prove without labels.

    Valid if the choice of the pairs compared in a round does not depend on the outputs of that round, which holds when
    the stop is chosen before it.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        Total costs C_i of stopping at each arm, where an error costs 1.
    compared, disagreed : integers, shape (K, K)
        How often arms i < j were compared, and how often they disagreed; only the entries above the diagonal are read.
        Sums of distances from 0 to 1 may replace counts of disagreements, if errors are measured by the same distance.
    alpha : number from 0 to 1
        The probability that the certificate is ever wrong.

    Examples
    --------
    >>> found = certify([0.0, 0.4], [[0, 100], [0, 0]], [[0, 20], [0, 0]])
    >>> print(found)
    The first stage is optimal for certain (at confidence 95 %), whatever the truth is.
    >>> found.possible, [round(end, 3) for end in found.intervals[0, 1]]
    ((0,), [0.091, 0.352])
    >>> print(certify([0.0, 0.4], [[0, 20], [0, 0]], [[0, 4], [0, 0]]))
    Not decided: needs about 38 more comparisons of all stages.
    """
    total = cumulative_costs(costs)
    arms = total.size
    n, d = _counts(compared, disagreed, arms)
    level = certificate_level(alpha)
    first, second = np.triu_indices(arms, 1)
    limit = math.log(max(first.size, 1) / level)
    gaps = total[second] - total[first]
    counts, differ = n[first, second], d[first, second]
    verdict, possible = _decide(arms, gaps, counts, differ, limit)
    low, high = _limits(counts, differ, limit)
    return Certificate(
        verdict=str(verdict),
        possible=tuple(np.flatnonzero(possible).tolist()),
        needed=_needed(arms, gaps, counts, differ, limit) if verdict == UNDECIDED else None,
        alpha=level,
        intervals=dict(zip(zip(first.tolist(), second.tolist()), zip(low.tolist(), high.tolist()))),
        fewest=int(counts.min(initial=EARLY)),
    )


def rates_at_all_times(compared: Any, disagreed: Any, alpha: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Return intervals of several rates that hold for all of them, and at all times, together.

    >>> low, high = rates_at_all_times([100, 1000], [20, 200])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.086, 0.155], [0.362, 0.251])
    """
    n, d = np.asarray(compared, dtype=float), np.asarray(disagreed, dtype=float)
    return _limits(n, d, math.log(max(n.size, 1) / certificate_level(alpha)))


def _counts(compared: Any, disagreed: Any, arms: int) -> tuple[np.ndarray, np.ndarray]:
    found = []
    for name, value in (("compared", compared), ("disagreed", disagreed)):
        try:
            array = np.asarray(value)
            wrong = array.dtype.kind not in "iuf" or array.shape != (arms, arms)
        except ValueError:  # rows of different lengths
            wrong = True
        if wrong or not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"{name} must be counts of shape ({arms}, {arms}), got {brief(value)}")
        found.append(np.triu(array.astype(float), 1))
    n, d = found
    if (n != np.floor(n)).any():
        raise ValueError(f"compared must be whole numbers, got {brief(compared)}")
    if (d > n).any():
        raise ValueError(f"disagreed must not exceed compared, got {brief(disagreed)} of {brief(compared)}")
    return n, d


def _log_mixture(n: np.ndarray, d: np.ndarray) -> np.ndarray:
    """log B(d + 1/2, n - d + 1/2) - log B(1/2, 1/2): the mixture's likelihood of the comparisons."""
    from scipy.special import betaln

    found: np.ndarray = betaln(d + 0.5, n - d + 0.5) - math.log(math.pi)
    return found


def _log_likelihood(n: np.ndarray, d: np.ndarray, p: np.ndarray) -> np.ndarray:
    """log p^d (1 - p)^(n - d), minus infinity where that is impossible."""
    from scipy.special import xlog1py, xlogy

    found: np.ndarray = xlogy(d, p) + xlog1py(n - d, -p)
    return found


def _excluded(n: np.ndarray, d: np.ndarray, p: np.ndarray, limit: float) -> np.ndarray:
    """Whether the confidence sequence excludes p, for p from 0 to 1."""
    found: np.ndarray = _log_mixture(n, d) - _log_likelihood(n, d, p) >= limit
    return found


def _decide(
    arms: int, gaps: np.ndarray, n: np.ndarray, d: np.ndarray, limit: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the verdicts, and which arms are possible; n and d have pairs in their last axis."""
    rate = np.divide(d, n, out=np.full(np.shape(n), 0.5), where=n > 0.0)
    out = _excluded(n, d, np.minimum(gaps, 1.0), limit)
    beyond = (gaps > 1.0) | (out & (gaps > rate))  # C_j - C_i is above the upper limit: j is excluded
    # C_j - C_i is not above the lower limit: i fails against j
    within = (gaps <= 0.0) | (out & (gaps < rate))
    first, second = np.triu_indices(arms, 1)
    excludes, fails = np.zeros((2, *np.shape(n)[:-1], arms, arms), dtype=bool)
    excludes[..., first, second] = beyond
    fails[..., first, second] = within
    possible, passing = ~excludes.any(axis=-2), ~fails.any(axis=-1)
    alone = ~possible[..., 1:].any(axis=-1)
    hopeless = ~(possible & passing).any(axis=-1)
    return np.where(alone, FIRST, np.where(hopeless, NEVER, UNDECIDED)), possible


def _limits(n: np.ndarray, d: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the endpoints of the intervals, by bisection: excluded values lie outside."""
    rate = np.divide(d, n, out=np.full(n.shape, 0.5), where=n > 0.0)
    mixture = _log_mixture(n, d)
    out = np.repeat([[0.0], [1.0]], n.size, axis=1)
    inside = np.stack([rate, rate])
    for _ in range(HALVINGS):
        middle = (out + inside) / 2.0
        away = mixture - _log_likelihood(n, d, middle) >= limit
        out, inside = np.where(away, middle, out), np.where(away, inside, middle)
    return out[0], out[1]


def _needed(arms: int, gaps: np.ndarray, n: np.ndarray, d: np.ndarray, limit: float) -> int | None:
    """Estimate how many more comparisons of all pairs are needed, if they differ as often as before."""
    if (n == 0.0).any():
        return None
    rate = d / n

    def decided(more: int) -> bool:
        verdict, _ = _decide(arms, gaps, n + more, d + more * rate, limit)
        return bool(verdict != UNDECIDED)

    enough = 1
    while not decided(enough):
        enough *= 2
        if enough > MOST:
            return None
    few = enough // 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if decided(middle) else (middle, enough)
    return enough


def _about(count: int) -> str:
    """Return a number with two significant digits.

    >>> _about(7), _about(1234), _about(98_765)
    ('7', '1200', '99,000')
    """
    scale = 10 ** max(len(str(count)) - 2, 0)
    rounded = round(count / scale) * scale
    return f"{rounded:,}" if rounded >= 10_000 else str(rounded)
