"""Contexts of samples: how they are checked, mapped to features, and how the map is saved."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from weakfeedback.contextual.features import QuadraticFeatures, feature_table
from weakfeedback.live import storage
from weakfeedback.live.answers import freeze, short
from weakfeedback.live.games.cascade import Terms
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import integer

Context = tuple[int, np.ndarray]  # the length of a context, and its features
OWN = "given again"  # marks a feature map that is user code


class Contexts:
    """Maps contexts of one length to features of one length; the first context fixes both."""

    def __init__(self, features: Any) -> None:
        if features is not None and (isinstance(features, type) or not callable(features)):
            raise ValueError(f"features must be a map of contexts to features, got {short(features)}")
        self.map = copy.copy(features) if isinstance(features, QuadraticFeatures) else features
        self.per_pair = bool(getattr(features, "per_pair", False))

    def mapped(self, name: str, table: np.ndarray, terms: Terms, policy: Any) -> list[Context]:
        """Return the length and the features of each context, one per row of a table.

        They must have the lengths of the first one, and fit a ``policy`` object that was given.
        """
        width = table.shape[1]
        if terms.inputs and width != terms.inputs:
            raise ValueError(
                f"{name} must have {terms.inputs} numbers per context, as the first, got {width}"
            )
        chosen = QuadraticFeatures(math.sqrt(width)) if self.map is None else self.map
        phi = feature_table(chosen, table.copy())
        for wanted, why in (
            (terms.dimension, "as at first"),
            (getattr(policy, "dimension", 0), "as the policy's dimension"),
        ):
            if wanted and phi.shape[1] != wanted:
                raise ValueError(f"features must give {wanted} numbers, {why}, got {phi.shape[1]}")
        return [(width, freeze(row.copy())) for row in phi]

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
