"""Protocols of all settings: what policies, problems and worlds must provide.

A policy is a plain object. Its fields are numbers and arrays, its methods are those below; nothing is inherited. All
methods get a generator, used or not. Optional are

``delay_safe : bool``
    Feedback may come late and out of order. Default: False.
``recostable : bool``
    Nothing that is learned depends on the costs, which may change.
``choosing_learns : bool``
    Deciding counts rounds and comparisons under way. Default: False.
``sees_truth : bool``
    It is a comparator that sees which answers were right. Simulations only.
``in_short``, ``explained``, ``sample_options``, ``sample_problem``
    Used by lists and checks, see `weakfeedback.settings.setting`.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np

Rng = np.random.Generator


@runtime_checkable
class Policy(Protocol):
    """A policy for cascades (chapter 2): stops at an arm, sees the outputs up to it."""

    def select(self, rng: Rng) -> int:
        """Return the arm at which to stop."""

    def update(self, arm: int, outputs: Any, rng: Rng) -> None:
        """Learn from the outputs of the arms 0 to ``arm``."""


@runtime_checkable
class ContextualPolicy(Protocol):
    """A policy for cascades with context (chapter 3)."""

    def select(self, phi: Any, rng: Rng) -> int:
        """Return the arm at which to stop at these features."""

    def update(self, phi: Any, arm: int, outputs: Any, rng: Rng) -> None:
        """Learn from the outputs of the arms 0 to ``arm``."""


@runtime_checkable
class AdaptivePolicy(Protocol):
    """A policy that is asked after every stage."""

    def go_on(self, k: int, outputs: Any, scores: Any, rng: Rng) -> bool:
        """Return whether stage k + 1 is to be run, after stage k."""

    def update(self, arm: int, outputs: Any, scores: Any, chances: Any, rng: Rng) -> None:
        """Learn from a round that stopped at stage ``arm``."""


@runtime_checkable
class StagesPolicy(Protocol):
    """A policy that names the next stage: it may begin at any, and skip.

    With a method ``turn_to(group, first, chance)`` it is told the round of the next call. ``chance`` and ``first`` are
    then fields of the policy: the chance of the coin just tossed, and the stage whose answer it is about.
    """

    def next_stage(self, k: int, outputs: Any, scores: Any, rng: Rng) -> int:
        """Return the stage to call after stage k (-1: before the first one), or -1: the last one called answers."""

    def update(self, arm: int, outputs: Any, scores: Any, chances: Any, rng: Rng) -> None:
        """Learn from a round that stage ``arm`` answered; outputs of stages that were not called are -1."""


@runtime_checkable
class RoutingPolicy(Protocol):
    """A policy for models that can be called alone."""

    def select(self, rng: Rng) -> Any:
        """Return a new array with a bool for each model: whether to call it; the last one called answers."""

    def start(self, call: Any, rng: Rng) -> None:
        """Count a round that is actually played."""

    def update(self, call: Any, outputs: Any, rng: Rng) -> None:
        """Learn from the outputs of the models called."""

    def cancel(self, call: Any) -> None:
        """Cancel requested comparisons."""


@runtime_checkable
class AllocationPolicy(Protocol):
    """A policy that splits a budget (chapter 4)."""

    def select(self, rng: Rng) -> Any:
        """Return how much each arm gets."""

    def update(self, allocation: Any, observed: Any, rng: Rng) -> None:
        """Learn from the observation."""


@runtime_checkable
class PlayerPolicy(Protocol):
    """One of several players that do not communicate (chapter 5)."""

    def choose(self, rng: Rng) -> int:
        """Return the arm to play, or -1 for none."""

    def observe(self, arm: int, reward: float, collided: bool, rng: Rng) -> None:
        """Learn from the player's own reward and collision."""


class World(Protocol):
    """What is hidden: draws a round, and shows of it what a policy may see."""

    def begin(self, rng: Rng) -> None:
        """Start a replication."""


class Problem(Protocol):
    """A law or a data set with its optimum; what `simulate` plays."""

    @property
    def arms(self) -> int:
        """Return the number of arms."""

    @property
    def setting(self) -> str:
        """Return the name of its setting."""

    def world(self) -> Any:
        """Return a new world."""

    def loop(self) -> Any:
        """Return the loop that plays its rounds."""

    def measures(self, counts: Any) -> dict[str, Any]:
        """Return the measures that follow from the counts of a run."""


AnyPolicy = Policy | ContextualPolicy | AdaptivePolicy | RoutingPolicy | AllocationPolicy | PlayerPolicy
