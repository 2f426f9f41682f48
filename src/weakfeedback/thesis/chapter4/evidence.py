"""Tests that the claims of chapter 4 share: rounds of the search, steps of a sweep, ratios of two runs."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from weakfeedback.engine.results import Results
from weakfeedback.experiments import evidence
from weakfeedback.experiments.evidence import below, last, skipped
from weakfeedback.experiments.model import Part, Run

Measure = Callable[[Results, str], np.ndarray]


def rounds(results: Results, policy: str) -> np.ndarray:
    """Return the rounds until the thresholds were found, by replication; the horizon where they were not."""
    found = last(results, policy, "found_at")
    return np.where(np.isnan(found), float(results.about["horizon"]), found)


def short(name: str) -> str:
    """Return the id of an experiment in words: instance, conventions or law, what is varied."""
    _, kind, instance, *rest = name.split("-")
    if kind in ("resource", "threshold"):
        rest[0] = f"{'Q' if kind == 'resource' else 'theta'} = {rest[0]}"
    return ", ".join([instance.upper(), *rest])


each = functools.partial(evidence.each, short)


def steps(
    run: Run, ids: Sequence[str], policy: str, *, grows: bool = True, measure: Measure = last
) -> list[Part]:
    """Claim: from each experiment to the next the measure of a policy grows, or falls."""

    def words(first: str, second: str) -> str:
        """Describe two experiments of a sweep: their ids are ch4-kind-instance-value, and the law of rewards."""
        _, kind, instance, value, *law = first.split("-")
        change = f"{'Q' if kind == 'resource' else 'theta'} = {value} to {second.split('-')[3]}"
        return ", ".join([policy, instance.upper(), *law, change])

    return evidence.steps(run, ids, words, lambda results: measure(results, policy), grows)


def somewhere(name: str, parts: Sequence[Part]) -> Part:
    """Claim: at least one of the parts holds. The best one is shown, its p-value corrected for the choice."""
    tested = [part for part in parts if not math.isnan(part.p_for)]
    if len(tested) < len(parts):
        return skipped(name)
    best = min(tested, key=lambda part: part.p_for)
    return dataclasses.replace(
        best,
        name=name,
        p_for=min(1.0, len(tested) * best.p_for),
        p_against=max(part.p_against for part in tested),  # all must fail
        note=f"{best.name}: {best.note}",
    )


def log_ratio(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return values whose mean is log(mean(first) / mean(second)) with its spread (delta method), paired."""
    n = min(first.size, second.size)
    a, b = first[:n], second[:n]
    values: np.ndarray = math.log(a.mean() / b.mean()) + (a / a.mean() - 1.0) - (b / b.mean() - 1.0)
    return values


def no_later(name: str, values: np.ndarray, bound: float) -> Part:
    """Claim: the mean is at most the bound. Supported if at most 1 % above it, contradicted if above it."""
    note = f"{values.mean():.4g} on average, bound {bound:.4g}"
    return below(name, values - 1.01 * bound, values - bound, note)
