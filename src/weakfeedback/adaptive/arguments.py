"""Validation of arguments shared by the policies of this setting."""

from typing import Any

import numpy as np

from weakfeedback.validate import brief, plain, vector


def stage_costs(value: Any) -> np.ndarray:
    """The price of running each stage, in units of an error; not cumulative."""
    return vector("costs", value, at_least=0.0)


def threshold_vector(value: Any, size: int) -> np.ndarray:
    """One threshold per stage but the last; minus infinity stops always, plus infinity never."""
    found = real_numbers("thresholds", value)
    if found.shape != (size,) or np.isnan(found).any():
        raise ValueError(
            f"thresholds must be {size} numbers, one per stage but the last (infinity is allowed), got {brief(value)}"
        )
    return found


def real_numbers(name: str, value: Any) -> np.ndarray:
    """A fresh array of floats of any shape; text, complex numbers and ragged lists are refused."""
    try:
        if np.asarray(plain(value)).dtype.kind not in "biufO":
            raise TypeError
        return np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, got {brief(value)}") from None
