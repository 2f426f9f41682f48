"""Contexts of samples: how they are checked, mapped to features, and how the map is saved."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from weakfeedback.contextual.features import QuadraticFeatures, context_table, feature_table
from weakfeedback.live import storage
from weakfeedback.live.labels import short
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import integer, vector

OWN = "given again"  # marks a feature map that is user code


class Contexts:
    """Maps contexts of one length to features of one length; both are fixed by the first context.

    Only ``fix`` changes anything: a context that is refused leaves no trace.
    """

    def __init__(self, features: Any) -> None:
        if features is not None and (isinstance(features, type) or not callable(features)):
            raise ValueError(f"features must be a map of contexts to features, got {short(features)}")
        quadratic = isinstance(features, QuadraticFeatures)
        self.map = copy.copy(features) if quadratic else features
        self.inputs = 0  # the length of a context, 0 before the first
        self.dimension = 0  # the length of its features
        self.per_pair = bool(getattr(features, "per_pair", False))

    def one(self, name: str, x: Any) -> tuple[int, np.ndarray]:
        """Return the length of one context and its features."""
        context = vector(name, x)
        return context.size, self._phi(name, context.reshape(1, -1))[0]

    def many(self, name: str, X: Any) -> tuple[int, np.ndarray]:
        """Return the length of the contexts and the features of each, one row per context."""
        table = context_table(name, X)
        return table.shape[1], self._phi(name, table)

    def fix(self, inputs: int, dimension: int) -> None:
        """Fix the lengths of all further contexts and features."""
        self.inputs, self.dimension = inputs, dimension

    def _phi(self, name: str, table: np.ndarray) -> np.ndarray:
        width = table.shape[1]
        if self.inputs and width != self.inputs:
            raise ValueError(f"{name} must have {self.inputs} numbers per context, as the first, got {width}")
        chosen = QuadraticFeatures(math.sqrt(width)) if self.map is None else self.map
        phi = feature_table(chosen, table.copy())
        if self.dimension and phi.shape[1] != self.dimension:
            raise ValueError(f"features must give {self.dimension} numbers, as at first, got {phi.shape[1]}")
        return phi

    def state(self) -> dict[str, Any]:
        """Return everything as plain data, without a user-defined map."""
        form: Any = None if self.map is None else OWN
        if isinstance(self.map, QuadraticFeatures):
            names = ("bound", "columns", "inputs")
            form = {name: storage.encode(getattr(self.map, name)) for name in names}
        return {"inputs": self.inputs, "dimension": self.dimension, "map": form}

    @classmethod
    def from_state(cls, state: Any, features: Any) -> Contexts:
        """Return the contexts that gave ``state``; ``features`` is the user-defined map, or None."""
        require("contexts", state, {"inputs": int, "dimension": int, "map": (dict, str, type(None))})
        form = state["map"]
        if isinstance(form, str) and form != OWN:
            raise StateError(f"there is no feature map {form!r:.40}")
        contexts = cls(_quadratic(form) if isinstance(form, dict) else features)
        contexts.fix(integer("inputs", state["inputs"], 0), integer("dimension", state["dimension"], 0))
        if (contexts.inputs == 0) != (contexts.dimension == 0):
            raise StateError("the contexts contradict themselves")
        return contexts


def _quadratic(form: Any) -> QuadraticFeatures:
    require("map", form, {"bound": (int, float), "columns": dict, "inputs": int})
    features = QuadraticFeatures(form["bound"])
    features.columns = storage.restored("columns", features.columns, form["columns"], grows=True)
    features.inputs = integer("inputs", form["inputs"], 0)
    d = features.inputs
    columns = features.columns
    if (d == 0) != (columns.size == 0) or ((columns < 0) | (columns >= (d + 1) * (d + 2) // 2)).any():
        raise StateError("the columns of the feature map are damaged")
    return features
