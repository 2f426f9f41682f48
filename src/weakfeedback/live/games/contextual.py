"""The game of a cascade that looks at a context first: the policy names a stage for its features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from weakfeedback.contextual.features import QuadraticFeatures
from weakfeedback.contract.decisions import checked_arm
from weakfeedback.live.answers import Comparer, Content, freeze
from weakfeedback.live.context_report import make_record
from weakfeedback.live.contexts import OWN, Context, Contexts, quadratic
from weakfeedback.live.driver import Examples, Interpreted, learns_by_choosing
from weakfeedback.live.form import Argument, Form
from weakfeedback.live.game import Choice, Plain
from weakfeedback.live.games.cascade import (
    Counts,
    RoundRecord,
    Staged,
    Terms,
    compared,
    moved_in,
    price,
    stage_arguments,
    stages_state,
    with_numbers,
)
from weakfeedback.live.games.comparing import check_costs
from weakfeedback.live.numbers import is_numeric
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import brief, integer, vector

Placed = tuple[int, np.ndarray, int]  # the stage, the features, and the length of the context
REFUSED = {
    "certificate": "certificate is not offered with contexts, which choose the samples that are compared: use the "
    "audit of a Cascade of the same stages"
}


def _check_map(given: Any, body: dict[str, Any], where: str) -> None:
    form = body["contexts"].get("map")
    if isinstance(form, dict) and isinstance(given, QuadraticFeatures):
        if given.bound != form["bound"]:
            raise ValueError(
                f"features must have the bound {form['bound']:g}, as in {where}, or be left out, got {brief(given)}"
            )
    elif (given is not None) != _has_own_map(body):
        raise ValueError(f"features must be given if and only if it was a map of your own: see {where}")


def _map_in(body: dict[str, Any]) -> QuadraticFeatures | None:
    form = body["contexts"].get("map")
    return quadratic(form) if isinstance(form, dict) else None


def _has_own_map(body: dict[str, Any]) -> bool:
    return isinstance(body["contexts"].get("map"), str)


def _has_metric(body: dict[str, Any]) -> bool:
    return "numbers" in body and body["numbers"].get("loss") is None


class ContextualGame(Staged, Plain):
    """One round with a context. The ledger keeps the chosen stage and the features."""

    kind = "ContextualCascade"
    setting = "contextual"
    needs: tuple[str, ...] = ("select", "update_pairs")
    in_order: tuple[str, ...] = ("warm",)
    form = Form(
        (
            *stage_arguments(),
            Argument("metric", "given", told=_has_metric),
            Argument("features", "code", read=_map_in, check=_check_map, told=_has_own_map),
            Argument("keep", "data", (int, type(None))),
        ),
        {"contexts": (dict,)},
        counted="stage_costs",
    )
    of_numbers = with_numbers(form)
    refuses: Mapping[str, str] = REFUSED

    def __init__(
        self,
        K: int,
        code: Comparer,
        timeout: float | None,
        contexts: Contexts,
        keep: int | None,
        make: Callable[[Interpreted, int], Any] | None,
    ) -> None:
        self.K, self.code, self.timeout = K, code, timeout
        self.contexts, self.keep, self.moves = contexts, keep, code.metric is not None
        self.make = make  # makes the policy for a length of the features; None: it was given as an object
        self.calls = lambda decided: tuple(range(decided[0] + 1))
        self.alters = {"recost": self.recost, "warm": self.warm}

    def methods(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        # any length will do: compiled code does not depend on it
        kind = np.float64 if is_numeric(self.code, policy) else np.bool_
        phi, differ = freeze(np.zeros(1)), freeze(np.zeros((1, 1), dtype=kind))
        return {"select": (phi,), "update_pairs": (phi, 0, differ)}, ()

    def bind(self, driver: Interpreted) -> None:
        self.driver, self.policy = driver, driver.policy
        self.select, self.update = driver.method("select"), driver.method("update_pairs")
        self.choosing_learns = learns_by_choosing(driver)
        self.numeric = is_numeric(self.code, driver.policy)

    def check(self, policy: Any, terms: Terms) -> None:
        check_costs(policy, terms.costs)
        history = getattr(policy, "arms", None)
        if getattr(policy, "keeps_history", False) and isinstance(history, np.ndarray):
            if not 0 <= policy.t <= history.size:
                raise StateError("the history contradicts itself")

    # -- the first context fixes the lengths

    def resize(self, terms: Terms, context: Context) -> tuple[Any, Terms] | None:
        inputs, phi = context
        if terms.dimension == 0:
            fixed = terms._replace(inputs=inputs, dimension=phi.size)
            return self.resized(fixed), fixed
        if (inputs, phi.size) != (terms.inputs, terms.dimension):  # another thread's context came first
            raise ValueError(f"x must have {terms.inputs} numbers per context, as the first, got {inputs}")
        return None

    def resized(self, terms: Terms) -> Any:
        """Return a new policy for this length of the features, None if it was given as an object."""
        return None if self.make is None else self.make(self.driver, terms.dimension)

    def contexts_in(self, body: dict[str, Any]) -> list[Context]:
        """Return the contexts of the event of a warm start."""
        if not body.get("phi"):
            return []
        inputs = integer("inputs", body["inputs"], 1)
        return [(inputs, freeze(vector("phi", phi))) for phi in body["phi"]]

    def shown_in(self, body: dict[str, Any]) -> Iterable[tuple[Any, ...]]:
        return [(phi,) for _, phi in self.contexts_in(body)]

    # -- one round

    def choose(
        self, rng: np.random.Generator, counts: Counts, terms: Terms, inputs: int, phi: np.ndarray
    ) -> Choice:
        arm = checked_arm(self.policy, self.select(phi, rng), self.K)
        return Choice((arm, phi, inputs), (make_record(arm, self.driver.write_back(), phi), terms))

    def record(
        self, id: int, decided: Placed, outputs: Sequence[Any], terms: Terms, content: Content | None = None
    ) -> RoundRecord:
        return compared(self.code, id, decided[0], outputs, terms, content)

    def teach(
        self, decided: Placed, record: RoundRecord, counts: Counts, terms: Terms, rng: np.random.Generator
    ) -> Counts:
        price(record, terms)
        arm, differ = decided[0], record.differ
        if differ is None:
            differ, counts = moved_in(record, self.numeric, counts, rng)
        self.update(decided[1], arm, differ, rng)
        return counts.after_round(arm, differ, record.cost, terms.savings[arm], record.last)

    # -- what the log and a state hold

    def opened(self, decided: Placed) -> dict[str, Any]:
        arm, phi, inputs = decided
        return {"stage": arm, "phi": phi.tolist(), "inputs": inputs}

    def context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        return integer("inputs", body["inputs"], 1), freeze(vector("phi", body["phi"]))

    def decided_from(self, body: dict[str, Any], terms: Terms) -> Placed:
        return self.decode({"arm": body["stage"], "phi": body["phi"]}, terms)

    def encode(self, decided: Placed) -> dict[str, Any]:
        return {"arm": decided[0], "phi": decided[1].tolist()}

    def decode(self, data: Any, terms: Terms) -> Placed:
        require("decision", data, {"arm": int, "phi": list})
        phi = freeze(vector("phi", data["phi"], size=terms.dimension))
        return integer("arm", data["arm"], 0, self.K - 1), phi, terms.inputs

    def state(self, counts: Counts, terms: Terms, kept: Mapping[int, Any]) -> dict[str, Any]:
        lengths = {"inputs": terms.inputs, "dimension": terms.dimension, "map": self.contexts.map_state()}
        return {
            **stages_state(self.code, self.timeout, counts, terms),
            "contexts": lengths,
            "keep": self.keep,
        }

    def restore(self, body: dict[str, Any]) -> tuple[Counts, Terms, Mapping[int, Any]]:
        (counts, terms), known = self.restored(body, body["error_cost"]), body["contexts"]
        require("contexts", known, {"inputs": int, "dimension": int, "map": (dict, str, type(None))})
        if isinstance(known["map"], str) and known["map"] != OWN:
            raise StateError(f"there is no feature map {known['map']!r:.40}")
        inputs, dimension = integer("inputs", known["inputs"], 0), integer("dimension", known["dimension"], 0)
        if (inputs == 0) != (dimension == 0):
            raise StateError("the contexts contradict themselves")
        return counts, terms._replace(inputs=inputs, dimension=dimension), {}
