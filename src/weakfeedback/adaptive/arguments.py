"""Checks of arguments that the policies of this setting share."""

from typing import Any

import numpy as np

from weakfeedback.validate import brief, vector


def stage_costs(value: Any) -> np.ndarray:
    """The price of running each stage, in units of an error; not cumulative."""
    return vector("costs", value, at_least=0.0)


def threshold_vector(value: Any, size: int) -> np.ndarray:
    """One threshold per stage but the last; minus infinity stops always, plus infinity never."""
    try:
        found = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        found = np.full(size + 1, np.nan)
    if found.shape != (size,) or np.isnan(found).any():
        raise ValueError(
            f"thresholds must be {size} numbers, one per stage but the last (infinity is allowed), got {brief(value)}"
        )
    return found
