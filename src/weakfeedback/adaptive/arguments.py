"""Validation of arguments shared by the policies of this setting."""

import warnings
from typing import Any

import numpy as np

from weakfeedback.validate import brief, floats, integer, number, vector
from weakfeedback.words import are_prices_told, saving_warning


def stage_costs(value: Any) -> np.ndarray:
    """Validate the price of running each stage, in units of an error; not cumulative."""
    return vector("costs", value, at_least=0.0)


def reference_stage(value: Any, costs: np.ndarray) -> int:
    """Validate the stage with which others are compared; the last one unless told."""
    found = costs.size - 1 if value is None else integer("reference", value, 0, costs.size - 1)
    if costs[found] <= 0.0:
        raise ValueError(
            f"costs must be above 0 for the reference, stage {found}, got {brief(costs.tolist())}"
        )
    return found


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
        return floats(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, got {brief(value)}") from None


def warn_of_prices(costs: np.ndarray, reference: int, least: float) -> None:
    """Say at construction which stages can save nothing, unless the caller does, who has names."""
    words = saving_warning(costs.tolist(), reference, least)
    if words is not None and not are_prices_told():
        warnings.warn(words, stacklevel=3)


def agreement(value: Any) -> float:
    """Validate the share of answers that must be those of a reference."""
    found = number("agree", value)
    if found == 1.0:
        raise ValueError(
            "agree must be below 1, got 1: the reference would answer everything; "
            "shadow=True shows what could be saved"
        )
    if not 0.5 < found < 1.0:
        raise ValueError(f"agree must be a share above 0.5 and below 1, got {found:g}")
    return found
