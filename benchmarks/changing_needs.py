"""Allocation where needs and risks change: ``python -m benchmarks.changing_needs [worlds]``.

Prints the table of docs/algorithms/csb-ts-drift.md: regret against the optimum of every round, mean and worst world.
Ten arms, means uniform in [.1, .95], needs uniform in [.05, .35] of a budget of 1, in whole percents, losses.
"""

import sys
from collections.abc import Iterator

import numpy as np

from weakfeedback import Allocator

ARMS, ROUNDS, LEVELS, SEED = 10, 10_000, 100, 77
POLICIES = ("CSB-TS", "CSB-TS-drift")
World = Iterator[tuple[np.ndarray, np.ndarray]]  # of every round: the needs in percents, and the means


def drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the needs and the means of all arms."""
    return rng.integers(5, 36, ARMS), rng.uniform(0.1, 0.95, ARMS)


def redrawn(rng: np.random.Generator, every: float) -> World:
    """Draw every arm anew once in ``every`` rounds on average."""
    needs, means = drawn(rng)
    for _ in range(ROUNDS):
        yield needs, means
        changed, (other, risk) = rng.random(ARMS) < 1.0 / every, drawn(rng)
        needs, means = np.where(changed, other, needs), np.where(changed, risk, means)


def scaled(rng: np.random.Generator, factor: float) -> World:
    """Multiply all needs halfway."""
    needs, means = drawn(rng)
    for t in range(ROUNDS):
        yield (needs if t < ROUNDS // 2 else np.ceil(needs * factor).astype(int)), means


def waves(rng: np.random.Generator) -> World:
    """Let needs and means swing by 40 % around their first values, in 5000 rounds, each arm in its own phase."""
    needs, means = drawn(rng)
    phase = rng.uniform(0.0, 2.0 * np.pi, (2, ARMS))
    for t in range(ROUNDS):
        swing = 1.0 + 0.4 * np.sin(2.0 * np.pi * t / 5000 + phase)
        yield np.ceil(needs * swing[0]).astype(int), np.minimum(means * swing[1], 1.0)


WORLDS = {
    "nothing changes": lambda rng: redrawn(rng, np.inf),
    "every arm drawn anew once in 5000 rounds": lambda rng: redrawn(rng, 5000.0),
    "once in 1000 rounds": lambda rng: redrawn(rng, 1000.0),
    "all needs halved at T/2": lambda rng: scaled(rng, 0.5),
    "all needs up by half at T/2": lambda rng: scaled(rng, 1.5),
    "slow waves in needs and means": waves,
}


def best(needs: np.ndarray, means: np.ndarray) -> float:
    """Return the largest sum of means that fits the budget."""
    value = np.zeros(LEVELS + 1)
    for need, mean in zip(needs.tolist(), means.tolist(), strict=True):
        if need <= LEVELS:
            value[need:] = np.maximum(value[need:], value[: LEVELS + 1 - need] + mean)
    return float(value[-1])


def regret(policy: str, kind: str, world: int) -> float:
    """Return the regret of one run."""
    allocator = Allocator(ARMS, 1.0, policy=policy, seed=world, compiled=True)
    outcomes, lost, known = np.random.default_rng([SEED, world, 1]), 0.0, (None, 0.0)
    for needs, means in WORLDS[kind](np.random.default_rng([SEED, world])):
        if known[0] is not needs:
            known = needs, best(needs, means)
        decision = allocator.decide()
        short = np.floor(decision.allocation * LEVELS + 1e-6) < needs
        lost += known[1] - float(means[~short].sum())
        allocator.feedback(decision.id, (outcomes.random(ARMS) < means) * short)
    return lost


def main(worlds: int = 3) -> None:
    """Print the table."""
    print(f"| world | {' | '.join(POLICIES)} |\n|---|" + "--:|" * len(POLICIES))
    for kind in WORLDS:
        cells = []
        for policy in POLICIES:
            found = [regret(policy, kind, world) for world in range(worlds)]
            cells.append(f"{np.mean(found):.0f} ({max(found):.0f})")
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
