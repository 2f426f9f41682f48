"""Allocation where needs and risks change: CSB-TS-drift beside CSB-TS, which takes every loss for a proof for ever.

Ten arms, means uniform in [.1, .95], needs uniform in [.05, .35] of a budget of 1, in whole percents, losses. Regret is
against the optimum of every round.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weakfeedback.allocation import CsbTs, CsbTsDrift
from weakfeedback.experiments.model import Row, Run, Table

ARMS, ROUNDS, LEVELS, SEED = 10, 10_000, 100, 77
RUNS = 2  # worlds of each kind
World = Iterator[tuple[np.ndarray, np.ndarray]]  # of every round: the needs in percents, and the means
POLICIES: dict[str, Callable[[], Any]] = {
    "CSB-TS": lambda: CsbTs(ARMS, 1.0),
    "CSB-TS-drift": lambda: CsbTsDrift(ARMS, 1.0),
}


def drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the needs and the means of all arms."""
    return rng.integers(5, 36, ARMS), rng.uniform(0.1, 0.95, ARMS)


def redrawn(rng: np.random.Generator, every: float) -> World:
    """Draw every arm anew once in ``every`` rounds on average."""
    needs, means = drawn(rng)
    for _ in range(ROUNDS):
        yield needs, means
        changed = rng.random(ARMS) < 1.0 / every
        if changed.any():
            other, risk = drawn(rng)
            needs, means = np.where(changed, other, needs), np.where(changed, risk, means)


def scaled(rng: np.random.Generator, factor: float) -> World:
    """Multiply all needs halfway."""
    needs, means = drawn(rng)
    later = np.ceil(needs * factor).astype(int)
    for t in range(ROUNDS):
        yield (needs if t < ROUNDS // 2 else later), means


def waves(rng: np.random.Generator) -> World:
    """Let needs and means swing by 40 % around their first values, in 5000 rounds, each arm in its own phase."""
    needs, means = drawn(rng)
    phase = rng.uniform(0.0, 2.0 * np.pi, (2, ARMS))
    for t in range(ROUNDS):
        swing = 1.0 + 0.4 * np.sin(2.0 * np.pi * t / 5000 + phase)
        yield np.ceil(needs * swing[0]).astype(int), np.minimum(means * swing[1], 1.0)


WORLDS: dict[str, Callable[[np.random.Generator], World]] = {
    "nothing changes": lambda rng: redrawn(rng, np.inf),
    "every arm drawn anew once in 5000 rounds": lambda rng: redrawn(rng, 5000.0),
    "every arm drawn anew once in 1000 rounds": lambda rng: redrawn(rng, 1000.0),
    "all needs halved at T/2": lambda rng: scaled(rng, 0.5),
    "all needs up by half at T/2": lambda rng: scaled(rng, 1.5),
    "needs and means in slow waves": waves,
}


def best(needs: np.ndarray, means: np.ndarray) -> float:
    """Return the largest sum of means that fits the budget.

    >>> best(np.array([60, 50, 40]), np.array([0.9, 0.6, 0.4])).__round__(9)
    1.3
    """
    value = np.zeros(LEVELS + 1)
    for need, mean in zip(needs.tolist(), means.tolist(), strict=True):
        if need <= LEVELS:
            value[need:] = np.maximum(value[need:], value[: LEVELS + 1 - need] + mean)
    return float(value[-1])


@functools.cache
def regret(policy: str, kind: str, world: int) -> float:
    """Return the regret of one run."""
    from weakfeedback.engine.compiler.calls import Calls

    rng, outcomes = np.random.default_rng([SEED, world, 2]), np.random.default_rng([SEED, world, 1])
    calls = Calls(POLICIES[policy](), {"select": (), "update": (np.zeros(ARMS), np.zeros(ARMS))}, rng)
    select, update = calls.method("select"), calls.method("update")
    lost, known, optimum = 0.0, None, 0.0
    for needs, means in WORLDS[kind](np.random.default_rng([SEED, world])):
        if known is not needs:
            known, optimum = needs, best(needs, means)
        allocation = select(rng)
        short = np.floor(allocation * LEVELS + 1e-6) < needs
        lost += optimum - float(means[~short].sum())
        update(allocation, (outcomes.random(ARMS) < means) * short * 1.0, rng)
    return lost


def _rows(results: Run) -> list[Row]:
    if not results:
        return []
    rows: list[Row] = []
    for kind in WORLDS:
        found = [[regret(policy, kind, world) for world in range(RUNS)] for policy in POLICIES]
        rows.append([kind, *(float(n) for one in found for n in (np.mean(one), max(one)))])
    return rows


TABLE = Table(
    "beyond-table-changing",
    "Allocation where needs and risks change",
    "allocation",
    ("World", *(f"{policy}{words}" for policy in POLICIES for words in ("", ", worst world"))),
    _rows,
    ("beyond-drift-still",),
    f"Regret against the optimum of every round, T = {ROUNDS}, {RUNS} worlds. Where nothing changes, following changes "
    "costs; CSB-TS-drift is never the default.",
)
