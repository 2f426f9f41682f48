"""Validation of arguments shared by the policies of this setting."""

from typing import Any

import numpy as np

from weakfeedback.validate import brief, plain, vector


def stage_costs(value: Any) -> np.ndarray:
    """Validate the price of running each stage, in units of an error; not cumulative."""
    return vector("costs", value, at_least=0.0)


def threshold_vector(value: Any, size: int) -> np.ndarray:
    """Validate one threshold per stage but the last; minus infinity always stops, plus infinity never."""
    found = real_numbers("thresholds", value)
    if found.shape != (size,) or np.isnan(found).any():
        raise ValueError(
            f"thresholds must be {size} numbers, one per stage but the last (infinity is allowed), got {brief(value)}"
        )
    return found


def real_numbers(name: str, value: Any) -> np.ndarray:
    """Return a new array of floats of any shape; refuse text, complex numbers and ragged lists."""
    try:
        if np.asarray(plain(value)).dtype.kind not in "biufO":
            raise TypeError
        return np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, got {brief(value)}") from None
