"""Plain checks of arguments: each raises one line that names the argument, its value and what is allowed."""

import math
import numbers
import sys
from typing import Any

import numpy as np

from weakfeedback.plaintext import one_line

MOST_ARMS = 10**6
MOST_INPUTS = 20_000  # maximum number of features of a regression, whose matrix has their square
SMALLEST = 1e-200  # smallest number that may be a divisor


def number(name: str, value: Any, above: float = -math.inf, at_least: float = -math.inf) -> float:
    """Validate a finite real number, greater than ``above`` and not below ``at_least``."""
    allowed = "a finite number"
    if above > -math.inf:
        allowed += f" > {above:g}"
    if at_least > -math.inf:
        allowed += f" >= {at_least:g}"
    real = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    try:
        given = float(value) if real else math.nan
    except OverflowError:  # an integer beyond all floats
        given = math.nan
    if not math.isfinite(given) or given <= above or given < at_least:
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
    return given


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Validate an integer from ``low`` to ``high`` (both allowed)."""
    if type(value) is int and low <= value and (high is None or value <= high):
        return value
    allowed = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"
    whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not whole or value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
    return int(value)


def limited(name: str, value: Any, low: int, most: int) -> int:
    """Validate an integer >= ``low`` that is at most ``most``."""
    found = integer(name, value, low)
    if found > most:
        raise ValueError(f"{name} must be at most {most}, got {brief(value)}")
    return found


def vector(name: str, value: Any, at_least: float = -math.inf, size: int | None = None) -> np.ndarray:
    """Validate and copy a one-dimensional array of finite floats."""
    allowed = "a sequence of finite numbers" if size is None else f"{size} finite numbers"
    if at_least > -math.inf:
        allowed += f" >= {at_least:g}"
    try:
        array = floats(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}") from None
    wrong = array.ndim != 1 or array.size == 0 or not np.isfinite(array).all() or (array < at_least).any()
    if wrong or (size is not None and array.size != size):
        raise ValueError(f"{name} must be {allowed}, got {brief(value)}")
    return array


def floats(value: Any) -> np.ndarray:
    """Return a new array of floats of any shape; ``TypeError``, ``ValueError`` or ``OverflowError`` if it is none."""
    if np.asarray(plain(value)).dtype.kind not in "biufO":
        raise TypeError("text and complex numbers would pass for floats")
    return np.array(value, dtype=float)


def plain(value: Any) -> Any:
    """Return the value; raise ``TypeError`` for a masked array, a sequence of bytes, or a list of these."""
    rows = value if isinstance(value, (list, tuple)) else ()
    if _is_strange(value) or any(map(_is_strange, rows)):
        raise TypeError("masked arrays and bytes are not numbers")
    return value


def flag(name: str, value: Any) -> bool:
    """Validate a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {brief(value)}")
    return bool(value)


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Validate a choice among a few words."""
    if not isinstance(value, str) or value not in allowed:
        *words, last = map(repr, allowed)
        raise ValueError(f"{name} must be {', '.join(words)} or {last}, got {brief(value)}")
    return value


def fraction(name: str, value: Any, allowed: str = "between 0 and 1") -> float:
    """Validate a number strictly between 0 and 1."""
    found = number(name, value, above=0.0)
    if found >= 1.0:
        raise ValueError(f"{name} must be a number {allowed}, got {brief(value)}")
    return found


def probability(name: str, value: Any) -> float:
    """Validate a number strictly between 0 and 1 that is large enough to divide by."""
    return large_enough(name, fraction(name, value))


def large_enough(name: str, value: float) -> float:
    """Validate a positive number that is large enough to divide by."""
    if value < SMALLEST:
        raise ValueError(f"{name} must be at least {SMALLEST:g}, got {value!r}")
    return value


def cumulative_costs(value: Any) -> np.ndarray:
    """Validate the costs C_1 <= ... <= C_K of stopping at each arm of a cascade."""
    costs = vector("costs", value, at_least=0.0)
    if (np.diff(costs) < 0).any():
        raise ValueError(
            f"costs must be cumulative (in all, for stopping at each arm), so never falling, got {brief(value)}"
        )
    return costs


def brief(value: Any) -> str:
    """Return the beginning of the ``repr`` of a value on one line, for messages."""
    try:
        text = repr(value)
    except Exception:  # the user's own, or that of an integer with too many digits
        text = object.__repr__(value)
    return one_line(text, 120)


def _is_strange(value: Any) -> bool:
    """Whether a value is bytes, or has a mask that would be ignored; numpy.ma takes long to import, so it is not."""
    masked = "numpy.ma" in sys.modules and isinstance(value, np.ma.MaskedArray)
    return masked or isinstance(value, (bytes, bytearray, memoryview))
