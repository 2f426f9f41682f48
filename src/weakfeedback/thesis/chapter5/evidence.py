"""Shared helpers of chapter 5's tests: final values, shares of runs, trends over a sweep."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import numpy as np

from weakfeedback.engine.results import Results
from weakfeedback.experiments import evidence
from weakfeedback.experiments.evidence import FEWEST, above, below, last, lower, often, on, skipped
from weakfeedback.experiments.model import Part, Run
from weakfeedback.thesis.chapter5 import experiments as ch5

COMPARE = ("ch5-compare-e1", "ch5-compare-e2")
E1, E2 = COMPARE
ARMS = tuple(f"ch5-arms-{k}" for k in ch5.ARMS)
PLAYERS = tuple(f"ch5-players-{n}" for n in ch5.PLAYERS)
LEARNED = PLAYERS[:-1]  # N = K leaves nothing to learn
GAPS = tuple(f"ch5-gap-{gap:g}" for gap in ch5.GAPS)
SWEEPS = (*ARMS, *PLAYERS, *GAPS)
# Runs that are pooled must differ: ten arms and five players are in both sweeps, and e2 has the gap .05.
DISTINCT = tuple(name for name in SWEEPS if name not in ("ch5-arms-10", "ch5-gap-0.05"))
ENDS, LONG, ROUNDING, FAIR = "ch5-ends-e1", "ch5-long-e1", "ch5-rounding", "ch5-fair-e2"
SLACK = 1e-9  # means are decimals, their sums are not


def since(results: Results, policy: str, measure: str, part: float) -> np.ndarray:
    """Return what the run adds after this fraction of its marks."""
    values = results.values(policy, measure)
    return values[:, -1] - values[:, int(part * values.shape[1]) - 1]


def ended(results: Results, policy: str) -> np.ndarray:
    """Whether all players have settled."""
    found: np.ndarray = last(results, policy, "settled_players") == results.about["facts"]["N"]
    return found


def missed(results: Results, policy: str) -> np.ndarray:
    """Whether all have settled, but not on the best arms."""
    found: np.ndarray = ended(results, policy) & (last(results, policy, "optimal") == 0)
    return found


def short(name: str) -> str:
    """Return an experiment's name for use in a sentence."""
    return name.removeprefix("ch5-").removeprefix("compare-")


each = functools.partial(evidence.each, short)


def share(name: str, hits: np.ndarray, least: float, note: str = "") -> Part:
    """Claim: more than a share ``least`` of all runs; contradicted below it (exact binomial tests)."""
    count, n = int(np.sum(hits)), int(np.size(hits))
    words = "; ".join(filter(None, (f"{count} of {n} runs", note)))
    if n < FEWEST:
        return Part(name, n=n, note=words)
    return often(name, count, n, least, words)


def pooled(
    name: str,
    run: Run,
    ids: Iterable[str],
    hits: Callable[[Results], np.ndarray],
    least: float,
    note: str = "",
) -> Part:
    """Test a share over the runs of several experiments together."""
    found = [hits(run[experiment]) for experiment in ids if experiment in run]
    return share(name, np.concatenate(found), least, note) if found else skipped(name)


def trend(
    name: str, run: Run, ids: Iterable[str], fact: str, values: Callable[[Results], np.ndarray]
) -> Part:
    """Claim: the values grow along a sweep; contradicted if they fall. One slope per replication."""
    ids = tuple(ids)
    if any(experiment not in run for experiment in ids):
        return skipped(name)
    at = np.array([run[experiment].about["facts"][fact] for experiment in ids], dtype=float)
    columns = [values(run[experiment]) for experiment in ids]
    count = min(column.size for column in columns)
    table = np.stack([column[:count] for column in columns])
    slopes = (at - at.mean()) @ table / ((at - at.mean()) ** 2).sum()
    note = ", ".join(f"{mean:.4g}" for mean in table.mean(axis=1))
    return above(name, slopes, note=f"{note} at {fact} = {at[0]:g} to {at[-1]:g}")


def times(name: str, results: Results, first: str, second: str, factor: float, measure: str) -> Part:
    """Claim: ``first`` is above ``factor`` times ``second``; contradicted below it."""
    a, b = last(results, first, measure), last(results, second, measure)
    return below(name, factor * b - a, note=f"{first} {a.mean():.4g}, {second} {b.mean():.4g}")


def lower_on(
    run: Run, experiment: str, first: str, second: str, measure: str = "regret", factor: float = 1.0
) -> Part:
    """Claim: the final value of ``first`` is below ``factor`` times that of ``second``."""
    name = f"{first} below {second} on {short(experiment)}"
    return on(run, [experiment], name, lambda r: lower(name, r, first, second, factor, measure))
