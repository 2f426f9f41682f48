"""Contexts of samples: how they are checked, mapped to features, and how the map is saved."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from weakfeedback.contextual.features import QuadraticFeatures, context_table, feature_table
from weakfeedback.live import storage
from weakfeedback.live.answers import short
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import integer, vector

OWN = "given again"  # marks a feature map that is user code


class Contexts:
    """Maps contexts of one length to features of one length; the first context fixes both.

    ``inputs`` and ``dimension`` are these lengths, 0 before the first context.
    """

    def __init__(self, features: Any) -> None:
        if features is not None and (isinstance(features, type) or not callable(features)):
            raise ValueError(f"features must be a map of contexts to features, got {short(features)}")
        self.map = copy.copy(features) if isinstance(features, QuadraticFeatures) else features
        self.per_pair = bool(getattr(features, "per_pair", False))

    def one(self, name: str, x: Any, inputs: int, dimension: int) -> tuple[int, np.ndarray]:
        """Return the length of one context and its features."""
        context = vector(name, x)
        return context.size, self._phi(name, context.reshape(1, -1), inputs, dimension)[0]

    def many(self, name: str, X: Any, inputs: int, dimension: int) -> tuple[int, np.ndarray]:
        """Return the length of the contexts and the features of each, one row per context."""
        table = context_table(name, X)
        return table.shape[1], self._phi(name, table, inputs, dimension)

    def _phi(self, name: str, table: np.ndarray, inputs: int, dimension: int) -> np.ndarray:
        width = table.shape[1]
        if inputs and width != inputs:
            raise ValueError(f"{name} must have {inputs} numbers per context, as the first, got {width}")
        chosen = QuadraticFeatures(math.sqrt(width)) if self.map is None else self.map
        phi = feature_table(chosen, table.copy())
        if dimension and phi.shape[1] != dimension:
            raise ValueError(f"features must give {dimension} numbers, as at first, got {phi.shape[1]}")
        return phi

    def map_state(self) -> Any:
        """Return the map as plain data; of a user-defined one, only that there is one."""
        if isinstance(self.map, QuadraticFeatures):
            return {name: storage.encode(getattr(self.map, name)) for name in ("bound", "columns", "inputs")}
        return None if self.map is None else OWN


def quadratic(form: Any) -> QuadraticFeatures:
    """Return the map that a state holds, or raise `StateError`."""
    require("map", form, {"bound": (int, float), "columns": dict, "inputs": int})
    features = QuadraticFeatures(form["bound"])
    features.columns = storage.restored("columns", features.columns, form["columns"], grows=True)
    features.inputs = integer("inputs", form["inputs"], 0)
    d = features.inputs
    columns = features.columns
    if (d == 0) != (columns.size == 0) or ((columns < 0) | (columns >= (d + 1) * (d + 2) // 2)).any():
        raise StateError("the columns of the feature map are damaged")
    return features
