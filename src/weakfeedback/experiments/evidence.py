"""The tests behind claims. Each uses one value per replication and returns a part of a finding."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from weakfeedback.engine.results import Results
from weakfeedback.experiments.model import Part
from weakfeedback.stats import student_interval

# With fewer replications nothing is decided: values equal by chance would look certain.
FEWEST = 5
# A difference below this share of the larger regret, or below one unit of regret, does not count.
MARGIN, UNIT = 0.05, 1.0
# Regret that grows like T^(2/3), the rate of the thesis, adds in the last quarter .44 times what it adds in the first;
# linear regret adds 1 times as much. In between the test is inconclusive.
SUBLINEAR, NEARLY_LINEAR = 0.5, 0.9
# Linear: in the last half a round costs at least half the gap of the arm settled on; not linear: at most a tenth.
LINEAR, NOT_LINEAR = 0.5, 0.1


def below(name: str, values: np.ndarray, against: np.ndarray | None = None, note: str = "") -> Part:
    """Claim: the mean of ``values`` is below 0. Contradicted if the mean of ``against`` is above 0.

    One-sided t-tests over replications. ``against`` defaults to ``values``; it can be, for instance, ``values`` raised
    by a margin.

    >>> part = below("", np.array([-3.0, -2.0, -4.0, -2.5, -3.5]))
    >>> part.effect, part.p_for < 0.01 < 0.99 < part.p_against
    (-3.0, True)
    """
    values = np.asarray(values, dtype=float)
    low, high = student_interval(values)
    if values.size < FEWEST:
        note = "; ".join(filter(None, (note, f"fewer than {FEWEST} replications")))
    return Part(
        name,
        *(float(values.mean()), float(low), float(high)),
        p_for=_p_below(values),
        p_against=_p_below(-values if against is None else -np.asarray(against, dtype=float)),
        n=values.size,
        note=note,
    )


def above(name: str, values: np.ndarray, against: np.ndarray | None = None, note: str = "") -> Part:
    """Claim: the mean of ``values`` is above 0. Contradicted if the mean of ``against`` is below 0."""
    part = below(name, -np.asarray(values), None if against is None else -np.asarray(against), note)
    return dataclasses.replace(part, effect=-part.effect, low=-part.high, high=-part.low)


def same(name: str, values: np.ndarray, margin: float, note: str = "") -> Part:
    """Claim: the mean of ``values`` lies within ``margin`` of 0 (two one-sided tests); contradicted if outside."""
    values = np.asarray(values, dtype=float)
    part = below(name, values, note=note)
    inside = max(_p_below(values - margin), _p_below(-values - margin))
    outside = min(1.0, 2.0 * min(_p_below(margin - values), _p_below(margin + values)))
    return dataclasses.replace(part, p_for=inside, p_against=outside)


def reverse(part: Part) -> Part:
    """Return the part with the opposite claim."""
    return dataclasses.replace(part, p_for=part.p_against, p_against=part.p_for)


def beside(part: Part, note: str = "") -> Part:
    """Return the part as one that is shown but does not count."""
    return dataclasses.replace(part, counts=False, note="; ".join(filter(None, (part.note, note))))


def decided(name: str, holds: bool, effect: float = math.nan, n: int = 0, note: str = "") -> Part:
    """Return a part that is computed, not tested."""
    return Part(name, effect=effect, n=n, outcome="reproduced" if holds else "not-reproduced", note=note)


def skipped(name: str, note: str = "no data") -> Part:
    """Return a part that could not be run."""
    return Part(name, outcome="skipped", note=note)


def last(results: Results, policy: str, measure: str = "regret") -> NDArray[np.float64]:
    """Return the final values, one per replication."""
    return results.values(policy, measure)[:, -1]


def on(run: Mapping[str, Results], ids: Iterable[str], name: str, part: Callable[..., Part]) -> Part:
    """Return the part that follows from the results of some experiments; a skipped one if one of them was not run."""
    ids = tuple(ids)
    return part(*(run[one] for one in ids)) if all(one in run for one in ids) else skipped(name)


def each(
    short: Callable[[str], str],
    run: Mapping[str, Results],
    ids: Iterable[str],
    part: Callable[[str, Results], Part | list[Part] | None],
) -> list[Part]:
    """Return the parts of all experiments, under their short names; a skipped one where an experiment was not run."""
    found: list[Part] = []
    for name in ids:
        one = part(short(name), run[name]) if name in run else skipped(short(name))
        found += one if isinstance(one, list) else [] if one is None else [one]
    return found


def without_exception(name: str, holds: Sequence[bool], kind: str = "random problems") -> Part:
    """Claim: it holds on every one of some problems."""
    broken = sum(not one for one in holds)
    return decided(name, broken == 0, broken, len(holds), f"{broken} exceptions in {len(holds)} {kind}")


def often(name: str, count: int, n: int, least: float, note: str) -> Part:
    """Claim: more than a share ``least`` of all; contradicted below it (exact binomial tests)."""
    from scipy.special import bdtr, bdtrc

    return Part(
        name,
        effect=count / n,
        p_for=float(bdtrc(count - 1, n, least)) if count else 1.0,
        p_against=float(bdtr(count, n, least)),
        n=n,
        note=note,
    )


def lower(
    name: str, results: Results, first: str, second: str, factor: float = 1.0, measure: str = "regret"
) -> Part:
    """Claim: the final regret of ``first`` is below ``factor`` times that of ``second``, paired by replication.

    Contradicted if the difference is significantly above minus a margin: 5 % of the larger mean, at least 1. So
    equal regret contradicts the claim too, once the test has enough power.
    """
    a, b = last(results, first, measure), last(results, second, measure)
    difference = a - factor * b
    margin = max(MARGIN * max(a.mean(), factor * b.mean()), UNIT)
    note = f"{first} {a.mean():.4g}, {second} {b.mean():.4g}"
    return below(name, difference, difference + margin, note=joined(note, stand_in(results)))


def more(name: str, first: np.ndarray, second: np.ndarray) -> Part:
    """Claim: the second has the larger mean, paired by replication.

    Contradicted if it is significantly not larger by a margin: 5 % of the larger mean, at least 1. So equal values also
    contradict the claim, once the test has enough power.
    """
    n = min(first.size, second.size)
    a, b = first[:n], second[:n]
    margin = max(MARGIN * max(a.mean(), b.mean()), UNIT)
    return above(name, b - a, b - a - margin, f"{a.mean():.4g} to {b.mean():.4g}")


def steps(
    run: Mapping[str, Results],
    ids: Iterable[str],
    words: Callable[[str, str], str],
    values: Callable[[Results], np.ndarray],
    grows: bool = True,
) -> list[Part]:
    """Claim: from each experiment to the next the values grow, or fall. The worlds are the same, so paired."""

    def part(name: str, one: Results, other: Results) -> Part:
        a, b = values(one), values(other)
        n = min(a.size, b.size)
        found = more(name, a, b) if grows else more(name, b, a)
        return dataclasses.replace(found, note=f"{a[:n].mean():.4g} to {b[:n].mean():.4g}")

    pairs = [(pair, words(*pair)) for pair in itertools.pairwise(ids)]
    return [on(run, pair, name, functools.partial(part, name)) for pair, name in pairs]


def sublinear(name: str, results: Results, policy: str, marks: int | None = None) -> Part:
    """Claim: the last quarter of the run, or of its first ``marks`` marks, adds less than half the regret of the first.

    Contradicted above 0.9: regret that falls more slowly at this horizon proves neither.
    """
    first, fourth = _quarters(results.values(policy)[:, :marks])
    ratio = fourth.mean() / first.mean() if first.mean() > 0.0 else math.nan
    note = f"last quarter adds {ratio:.2f} of the first"
    return below(
        name, fourth - SUBLINEAR * first, fourth - NEARLY_LINEAR * first, joined(note, stand_in(results))
    )


def linear(name: str, results: Results, policy: str, gap: float) -> Part:
    """Claim: in the last half of the run a round costs at least half of ``gap`` on average; contradicted: a tenth."""
    regret = results.values(policy)
    rounds = int(results.about["horizon"])
    slope = (regret[:, -1] - regret[:, regret.shape[1] // 2 - 1]) / (rounds - rounds // 2)
    note = joined(f"slope {slope.mean():.4g}, gap {gap:.4g}", stand_in(results))
    return above(name, slope - LINEAR * gap, slope - NOT_LINEAR * gap, note)


def stand_in(results: Results) -> str:
    """Return a note if the results come from a stand-in."""
    replaced = results.about.get("stands_in_for", "")
    return f"stand-in {results.about['instance']} for {replaced}" if replaced else ""


def joined(*notes: str) -> str:
    """Join several notes."""
    return "; ".join(filter(None, notes))


def _quarters(regret: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the first and the last quarter of the marks add, by replication."""
    marks = regret.shape[1]
    if marks % 4:
        raise ValueError(f"results must have a multiple of 4 marks, got {marks}")
    return regret[:, marks // 4 - 1], regret[:, -1] - regret[:, 3 * marks // 4 - 1]


def _p_below(values: np.ndarray) -> float:
    """Return the p-value of a one-sided t-test whose rejection says that the mean is below 0."""
    from scipy.special import stdtr

    if values.size < FEWEST:
        return math.nan
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    if spread <= 1e-12 * abs(mean):
        return 0.0 if mean < 0.0 else 1.0
    return float(stdtr(values.size - 1, mean / (spread / math.sqrt(values.size))))
