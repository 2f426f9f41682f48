"""Who plays a replication: one policy with one generator, or N players with one of each.

A list of players stands wherever a setting without players has its policy, and a list of generators where that has
its generator. The state of a list is one flat dict.
"""

import functools
import itertools
from typing import Any

import numpy as np

from weakfeedback.engine.fresh import fresh
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.seeds import POLICY, WORLD, generator


def cast(problem: Any, policy: Any) -> Any:
    """A fresh copy of a prototype, or a list of one copy for each player."""
    players = loop_for(problem, policy).players
    return fresh(policy) if players is None else [fresh(policy) for _ in range(players(problem))]


def streams(problem: Any, policy: Any, seed: int, replication: int) -> tuple[np.random.Generator, Any]:
    """The generators of a replication: (r, 0) the world's, (r, 1) the policy's or (r, 1, n) player n's."""
    players = loop_for(problem, policy).players
    world = generator(seed, replication, WORLD)
    if players is None:
        return world, generator(seed, replication, POLICY)
    return world, [generator(seed, replication, POLICY, n) for n in range(players(problem))]


def state_of(policy: Any) -> dict[str, Any]:
    """All fields of a policy, or of a list of players."""
    return joined([player.__dict__ for player in policy]) if isinstance(policy, list) else vars(policy)


def joined(states: list[dict[str, Any]]) -> dict[str, Any]:
    """The states of players as one."""
    labels = _labels(tuple(tuple(state) for state in states))
    return dict(zip(labels, itertools.chain.from_iterable(state.values() for state in states)))


@functools.lru_cache(maxsize=16)
def _labels(fields: tuple[tuple[str, ...], ...]) -> list[str]:
    return [f"{name} of player {n}" for n, names in enumerate(fields) for name in names]


def restore(policy: Any, state: dict[str, Any]) -> None:
    """Give a policy, or the players of a list, the fields in ``state``."""
    if not isinstance(policy, list):
        vars(policy).update(state)
        return
    for n, player in enumerate(policy):
        vars(player).update({name: state[f"{name} of player {n}"] for name in vars(player)})
