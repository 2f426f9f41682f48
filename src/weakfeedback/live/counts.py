"""Counts of live objects, apart from their policies: comparisons, stops, money; what was given, played and earned."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.live import storage
from weakfeedback.live.storage import StateError

# What a state holds of each kind of counts.
ARRAYS = ("differed", "compared", "stops")
SUMS = ("spent", "saved", "alone", "wasted")
ROUTER_ARRAYS = ("differed", "compared", "calls", "answers")
ROUTER_NUMBERS = ("cancelled", "learned", "asked")
ROUTER_SUMS = ("spent", "alone", "allowed", "wasted")


class Counts(NamedTuple):
    """Counts of a cascade of K stages. Immutable: a round creates new ones, so that a record can keep the old."""

    differed: np.ndarray  # pairs i < j whose answers differed
    seen: tuple[int, ...]  # seen[k]: how often the stages up to k were compared, and none after it
    stops: tuple[int, ...]  # rounds that stopped at each stage
    spent: float = 0.0  # on rounds that were learned
    saved: float = 0.0  # stated costs of the calls not made
    alone: float = 0.0  # what the last stage alone would have cost
    wasted: float = 0.0  # spent on rounds that failed
    labels: int = 0  # labels bought
    label_spent: float = 0.0

    @classmethod
    def of(cls, arms: int) -> Counts:
        """Return the counts before the first round."""
        return cls(np.zeros((arms, arms), dtype=np.int64), (0,) * arms, (0,) * arms)

    @property
    def compared(self) -> np.ndarray:
        """How often the pairs i < j were compared."""
        return pairs_compared(self.seen)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return sum(self.stops)

    @property
    def learned(self) -> int:
        """The number of feedbacks: one for every round."""
        return self.rounds

    def after_round(self, arm: int, differ: np.ndarray, cost: float, saved: float, alone: float) -> Counts:
        """Count a round that stopped at this stage; ``differ`` has the pairs i < j <= arm."""
        differed, seen = self._compared(arm, differ)
        stops = (*self.stops[:arm], self.stops[arm] + 1, *self.stops[arm + 1 :])
        self.check_sum(cost, alone)
        spent, saved, alone = self.spent + cost, self.saved + saved, self.alone + alone
        return Counts(differed, seen, stops, spent, saved, alone, self.wasted, self.labels, self.label_spent)

    def check_sum(self, cost: float, alone: float) -> None:
        """Reject a round that would overflow the sums."""
        if self.spent + cost == math.inf or self.alone + alone == math.inf:
            raise ValueError(
                f"costs must have a finite sum with the {self.spent:g} spent so far, got {cost!r}"
            )

    def after_comparison(self, arm: int, differ: np.ndarray) -> Counts:
        """Count a comparison of the stages up to ``arm`` outside a round."""
        differed, seen = self._compared(arm, differ)
        return self._replace(differed=differed, seen=seen)

    def after_label(self, cost: float) -> Counts:
        """Count a label that was bought."""
        return self._replace(labels=self.labels + 1, label_spent=finite(self.label_spent + cost))

    def after_failure(self, cost: float) -> Counts:
        """Count what was spent on a round that failed."""
        return self._replace(wasted=finite(self.wasted + cost))

    def _compared(self, arm: int, differ: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
        if arm == 0:
            return self.differed, self.seen
        differed = self.differed
        if b"\1" in differ.tobytes():  # faster than any() for few items
            differed = differed.copy()
            differed[: arm + 1, : arm + 1] += differ
        return differed, (*self.seen[:arm], self.seen[arm] + 1, *self.seen[arm + 1 :])

    def state(self) -> dict[str, Any]:
        """Return everything but the labels as plain data."""
        arrays = {
            "differed": self.differed,
            "compared": self.compared,
            "stops": np.array(self.stops, dtype=np.int64),
        }
        encoded = {name: storage.encode(value) for name, value in arrays.items()}
        return encoded | {name: getattr(self, name) for name in SUMS}

    @classmethod
    def from_state(cls, arms: int, state: Any) -> Counts:
        """Return the counts that gave ``state``, or raise `StateError`."""
        _require(state, ARRAYS + SUMS)
        square = np.zeros((arms, arms), dtype=np.int64)
        differed = storage.restored("differed", square, state["differed"])
        compared = storage.restored("compared", square, state["compared"])
        stops = storage.restored("stops", square[0], state["stops"])
        sums = [storage.restored(name, 0.0, state[name]) for name in SUMS]
        reached = np.append(compared[0], 0)  # a stage is compared with the first one whenever it is seen
        seen = (0, *(reached[1:-1] - reached[2:]).tolist())
        sound = (
            (differed >= 0).all()
            and (differed <= compared).all()
            and (stops >= 0).all()
            and min(seen) >= 0
            and np.array_equal(pairs_compared(seen), compared)
            and all(0.0 <= value < math.inf for value in sums)
        )
        if not sound:
            raise StateError("the counts contradict each other")
        return cls(differed, seen, tuple(stops.tolist()), *sums)


def pairs_compared(seen: tuple[int, ...] | list[int]) -> np.ndarray:
    """Return how often pairs i < j were compared; the stages up to k, and none after it, were seen ``seen[k]`` times.

    >>> pairs_compared([0, 5, 2]).tolist()
    [[0, 7, 2], [0, 0, 2], [0, 0, 0]]
    """
    reached = np.cumsum(seen[::-1])[::-1]
    return np.triu(np.broadcast_to(reached, (len(seen), len(seen))), 1)


class RouterCounts(NamedTuple):
    """Counts of a router of K models. Immutable: a decision or an answer creates new ones."""

    differed: np.ndarray  # pairs i < j whose answers differed
    compared: np.ndarray  # how often they were compared
    calls: tuple[int, ...]
    answers: tuple[int, ...]
    cancelled: int = 0
    learned: int = 0  # comparisons
    asked: int = 0  # decisions that called several models, cancelled or not
    spent: float = 0.0  # at stated prices, on all decisions
    alone: float = 0.0  # what the last model alone would have cost
    allowed: float = 0.0  # the price of the last model, once for every period of prices
    wasted: float = 0.0  # reported as spent on cancelled decisions

    @classmethod
    def of(cls, prices: list[float]) -> RouterCounts:
        """Return the counts before the first decision."""
        size = len(prices)
        square = np.zeros((size, size), dtype=np.int64)
        return cls(square, square, (0,) * size, (0,) * size, allowed=prices[-1])

    @property
    def decided(self) -> int:
        """All decisions, cancelled or not."""
        return sum(self.answers)

    @property
    def rounds(self) -> int:
        """The decisions that were not cancelled."""
        return self.decided - self.cancelled

    def after_decision(self, call: tuple[int, ...], prices: list[float]) -> RouterCounts:
        """Count a decision to call these models."""
        calls = tuple(n + (k in call) for k, n in enumerate(self.calls))
        answers = tuple(n + (k == call[-1]) for k, n in enumerate(self.answers))
        spent, alone = finite(self.spent + sum(prices[k] for k in call)), finite(self.alone + prices[-1])
        asked = self.asked + (len(call) > 1)
        return self._replace(calls=calls, answers=answers, spent=spent, asked=asked, alone=alone)

    def after_comparison(self, call: tuple[int, ...], differ: np.ndarray, learned: int = 1) -> RouterCounts:
        """Count a comparison of the answers of these models; ``differ`` is indexed by model."""
        compared = self.compared.copy()
        compared[np.ix_(call, call)] += np.triu(np.ones((len(call), len(call)), dtype=np.int64), 1)
        return self._replace(
            differed=self.differed + differ, compared=compared, learned=self.learned + learned
        )

    def after_cancel(self, cost: float) -> RouterCounts:
        """Count a cancelled decision; its price stays counted."""
        return self._replace(cancelled=self.cancelled + 1, wasted=finite(self.wasted + cost))

    def after_recost(self, prices: list[float]) -> RouterCounts:
        """Count a new period of prices."""
        return self._replace(allowed=finite(self.allowed + prices[-1]))

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        arrays = {name: np.array(getattr(self, name), dtype=np.int64) for name in ROUTER_ARRAYS}
        encoded = {name: storage.encode(value) for name, value in arrays.items()}
        return encoded | {name: getattr(self, name) for name in ROUTER_NUMBERS + ROUTER_SUMS}

    @classmethod
    def from_state(cls, models: int, state: Any) -> RouterCounts:
        """Return the counts that gave ``state``, or raise `StateError`."""
        _require(state, ROUTER_ARRAYS + ROUTER_NUMBERS + ROUTER_SUMS)
        square = np.zeros((models, models), dtype=np.int64)
        differed, compared = (storage.restored(name, square, state[name]) for name in ROUTER_ARRAYS[:2])
        calls, answers = (storage.restored(name, square[0], state[name]) for name in ROUTER_ARRAYS[2:])
        cancelled, learned, asked = (storage.restored(name, 0, state[name]) for name in ROUTER_NUMBERS)
        sums = [storage.restored(name, 0.0, state[name]) for name in ROUTER_SUMS]
        sound = (
            (differed >= 0).all()
            and (differed <= compared).all()
            and not np.tril(compared).any()
            and (answers >= 0).all()
            and (answers <= calls).all()
            and 0 <= cancelled <= answers.sum()
            and 0 <= learned <= asked <= answers.sum()
            and all(0.0 <= value < math.inf for value in sums)
        )
        if not sound:
            raise StateError("the counts contradict each other")
        return cls(
            differed,
            compared,
            tuple(calls.tolist()),
            tuple(answers.tolist()),
            cancelled,
            learned,
            asked,
            *sums,
        )


def finite(amount: float) -> float:
    """Return an amount, the largest float for one that is infinite: a sum must not be."""
    return min(amount, sys.float_info.max)


def _require(state: Any, names: tuple[str, ...]) -> None:
    if not isinstance(state, dict) or set(state) != set(names):
        raise StateError(f"the counts must hold exactly: {', '.join(names)}")
