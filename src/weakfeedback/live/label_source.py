"""Labels that a cascade buys: their source, their cost, and what is stored of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weakfeedback.lazy import Later
from weakfeedback.live.answers import Costed, output_list, short
from weakfeedback.live.errors import Refused
from weakfeedback.live.stages import in_thread, result_of
from weakfeedback.live.storage import StateError, require
from weakfeedback.settings.catalog import canonical_name, option_names
from weakfeedback.validate import number

asyncio: Any = Later("asyncio")  # whoever needs it has imported it

BUYER = ("wants_label_pairs", "learn_label_pairs")  # methods of a policy that buys labels in a live cascade


class NoLabel:
    """The type of the placeholder for a missing label; None may be a label."""

    def __repr__(self) -> str:
        return "no label"


NO_LABEL = NoLabel()


class Bought:
    """Which of the answers are right according to a label, for a comparison that was made elsewhere."""

    def __init__(self, right: np.ndarray, cost: float | None) -> None:
        self.right = right
        self.cost = cost  # None: the stated price

    @classmethod
    def of(cls, label: Any, arm: int) -> Bought:
        """Return the label for stages 0, ..., arm, from bools or `Costed` bools."""
        said, cost = (label.label, label.cost) if isinstance(label, Costed) else (label, None)
        given = output_list("label", said)
        if len(given) != arm + 1 or not all(isinstance(one, (bool, np.bool_)) for one in given):
            words = f"label must be {arm + 1} bools, which answers are right, got {short(said)}"
            raise Refused(words, "wrong_label")
        return cls(np.array(given, dtype=np.bool_), cost)


class LabelSource:
    """A source of true labels: a callable that takes one sample and, optionally, the outputs of the stages.

    It is called as ``function(x, outputs)`` if it has a parameter ``outputs`` or cannot be called with one argument,
    and as ``function(x)`` otherwise.
    """

    def __init__(self, name: str, function: Any) -> None:
        if not callable(function):
            raise ValueError(f"{name} must be a callable that takes a sample, got {short(function)}")
        self._name = name
        self.function = function
        self._sees_outputs = _takes_outputs(function)
        self.asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            type(function).__call__
        )

    def ask(self, x: Any, outputs: Sequence[Any]) -> Any:
        """Return the truth of a sample."""
        truth = self._call(x, outputs)
        if inspect.isawaitable(truth):
            if inspect.iscoroutine(truth):
                truth.close()
            raise ValueError(f"{self._name} is asynchronous: use `await cascade.acall(x)`")
        return truth

    async def ask_async(self, x: Any, outputs: Sequence[Any]) -> Any:
        """Return the truth of a sample; synchronous code runs in its own thread."""
        if self.asynchronous:
            return await self._call(x, outputs)
        truth = result_of(await asyncio.wrap_future(in_thread(lambda: self._call(x, outputs))))
        return await truth if inspect.isawaitable(truth) else truth

    def _call(self, x: Any, outputs: Sequence[Any]) -> Any:
        return self.function(x, tuple(outputs)) if self._sees_outputs else self.function(x)


def _takes_outputs(function: Any) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    if "outputs" in signature.parameters:
        return True
    try:
        signature.bind(None)
    except TypeError:
        return True
    return False


def label_price_of(
    policy: Any, label: Any, label_price: Any, error_cost: float, options: dict[str, Any]
) -> float | None:
    """Return the price of a label in money, None for a policy that buys none; add the price to its ``options``."""
    given = None if label_price is None else number("label_price", label_price, at_least=0.0)
    if isinstance(policy, str):
        name = canonical_name("cascade", policy)
        buys, price = "price" in option_names("cascade", name), options.get("price")
    else:
        name, buys, price = type(policy).__name__, buys_labels(policy), getattr(policy, "price", None)
    if not buys:
        if label is not None or given is not None:
            raise ValueError(
                f"label and label_price go with a policy that buys labels, such as Q-USS, got {name}"
            )
        return None
    if price is None and given is None:
        raise ValueError(f"label_price must be given, because {name} buys labels")
    if price is None:
        if isinstance(policy, str):
            options["price"] = given / error_cost  # type: ignore[operator]
        return given
    stated = number("price", price, at_least=0.0) * error_cost
    if given is not None and not math.isclose(stated, given, rel_tol=1e-9, abs_tol=1e-300):
        raise ValueError(
            f"label_price must be price * error_cost = {stated:g}, or left out, got {label_price!r}"
        )
    return stated


def buys_labels(policy: Any) -> bool:
    """Return whether a policy asks for labels; reject one without the methods for pairs."""
    if not callable(getattr(policy, "wants_label", None)):
        return False
    for method in BUYER:
        if not callable(getattr(policy, method, None)):
            raise ValueError(f"policy must have a method {method}() to buy labels here, got {short(policy)}")
    return True


def labels_from_state(state: Any, price: float | None) -> tuple[int, float]:
    """Return how many labels were bought and what they cost, or raise `StateError`."""
    require("purse", state, {"price": (int, float, type(None)), "labels": int, "spent": (int, float)})
    sound = state["labels"] >= 0 and 0.0 <= state["spent"] < math.inf
    if not sound or (state["price"] is None) != (price is None):
        raise StateError("the labels bought contradict each other")
    return state["labels"], float(state["spent"])
