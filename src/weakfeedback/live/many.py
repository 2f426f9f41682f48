"""USS-TS in the interpreter, for few and for many stages, with the same draws and to the same bits.

The policy's own methods read its arrays number by number, so that they can be compiled; here no compiler is at hand.
With many stages all pairs are drawn and counted at once, with few the numbers are read from lists.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from weakfeedback.cascade.uss_ts import UssTs
from weakfeedback.live.labels import later_pairs


def select_few(policy: UssTs, rng: np.random.Generator) -> int:
    """Return what ``policy.select(rng)`` does, with the same draws."""
    C, S, F = policy.C.tolist(), policy.S.tolist(), policy.F.tolist()
    last = len(C) - 1
    for i in range(last):
        best = True
        for j in range(i + 1, last + 1):
            if C[j] - C[i] <= rng.beta(S[i][j], F[i][j]):
                best = False
        if best:
            return i
    return last


def update_few(policy: UssTs, outputs: tuple[Any, ...]) -> list[tuple[int, int]]:
    """Do what ``policy.update(arm, outputs, rng)`` does, and return which pairs differ."""
    S, F, differing = policy.S, policy.F, []
    for j in range(1, len(outputs)):
        for i in range(j):
            if outputs[i] != outputs[j]:
                S[i, j] += 1.0
                differing.append((i, j))
            else:
                F[i, j] += 1.0
    return differing


def select_at_once(policy: UssTs, rng: np.random.Generator) -> int:
    """Return what ``policy.select(rng)`` does, and leave the generator as it would.

    All draws that may be needed are made by one call. If an early arm is accepted, the later ones are not needed:
    the generator is then taken back, and only the draws up to that arm are made again.
    """
    rows, columns, starts = _pairs(policy.K)
    S, F = policy.S[rows, columns], policy.F[rows, columns]
    before = rng.bit_generator.state
    cheaper = policy.C[columns] - policy.C[rows] > rng.beta(S, F)
    accepted = np.logical_and.reduceat(cheaper, starts)
    arm = int(accepted.argmax())
    if not accepted[arm]:
        return policy.K - 1
    if arm < policy.K - 2:
        rng.bit_generator.state = before
        rng.beta(S[: starts[arm + 1]], F[: starts[arm + 1]])
    return arm


def update_at_once(policy: UssTs, arm: int, differ: np.ndarray) -> None:
    """Do what ``policy.update_pairs(arm, differ, rng)`` does, for all pairs at once."""
    later = later_pairs(arm + 1)
    differed = differ[: arm + 1, : arm + 1] & later
    policy.S[: arm + 1, : arm + 1] += differed
    policy.F[: arm + 1, : arm + 1] += later ^ differed


@functools.lru_cache(maxsize=16)
def _pairs(arms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pairs i < j in the order of the draws, and where each i starts."""
    rows, columns = np.triu_indices(arms, 1)
    return rows, columns, np.searchsorted(rows, np.arange(arms - 1))
