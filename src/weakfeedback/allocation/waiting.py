"""After how many rounds without a loss an amount counts as sufficient: W_delta (thesis, chapter 4)."""

import math
from typing import Any

from weakfeedback.validate import MOST_ARMS, brief, integer, limited, number, probability

ROUNDING = 1e-9  # relative tolerance before rounding to whole numbers
LONGEST = 2.0**53  # rounds, and steps of a search


def wait_same(arms: int, epsilon: float, delta: float) -> float:
    """Return W_delta of CSB-SK and NUM-SK: log(log2(K) / delta) / log(1 / (1 - epsilon)); 0 for one arm.

    >>> round(wait_same(50, epsilon=0.1, delta=0.1), 2)
    38.28
    """
    k = limited("arms", arms, 1, MOST_ARMS)
    rate = -math.log1p(-probability("epsilon", epsilon))
    delta = probability("delta", delta)
    return _short(math.log(math.log2(k) / delta) / rate if k > 1 else 0.0, epsilon)


def wait_multiple(arms: int, epsilon: float, delta: float, search_max: float, gamma: float) -> float:
    """Return W_delta of CSB-MK and NUM-MK: log(K log2(ceil(1 + Q/gamma)) / delta) / log(1 / (1 - epsilon)).

    ``search_max`` is the upper end of the interval that is searched: Q in the thesis, 1 in the program of 2019.

    >>> round(wait_multiple(5, epsilon=0.1, delta=0.1, search_max=2.0, gamma=0.001), 2)
    59.86
    """
    k = limited("arms", arms, 1, MOST_ARMS)
    rate = -math.log1p(-probability("epsilon", epsilon))
    delta = probability("delta", delta)
    candidates = grid(search_max, gamma)
    if candidates < 2:
        raise ValueError(
            f"gamma must be a step of a search up to {search_max:g} (search_max, or the budget), got {brief(gamma)}"
        )
    return _short(math.log(k * math.log2(candidates) / delta) / rate, epsilon)


def _short(wait: float, epsilon: float) -> float:
    """Validate a number of rounds to wait."""
    if wait < LONGEST:
        return wait
    raise ValueError(f"epsilon must be so large that less than 2^53 rounds are waited, got {brief(epsilon)}")


def grid(search_max: float, gamma: float) -> int:
    """Return ceil(1 + Q/gamma), the number of candidates 0, gamma, 2 gamma, ..., Q."""
    steps = number("search_max", search_max, above=0.0) / number("gamma", gamma, above=0.0)
    if not steps < LONGEST:
        raise ValueError(
            f"gamma must be at least {search_max / LONGEST:.3g} for a search up to {search_max:g} (search_max, or the "
            f"budget), got {brief(gamma)}"
        )
    return math.ceil((1.0 + steps) * (1.0 - ROUNDING))


def published_share(budget: float) -> int:
    """Return max(1, floor(Q)), by which the waiting times of 2019 are divided.

    It counts arms that are tried together, for thresholds of at most 1.

    >>> published_share(15.0), published_share(0.5)
    (15, 1)
    """
    return max(1, math.floor(min(number("budget", budget, above=0.0), LONGEST) * (1.0 + ROUNDING)))


def wait_program(arms: int, budget: float, epsilon: float, delta: float) -> int:
    """Return the waiting time of the program of 2019: ceil(log(K / delta) / (Q log(1 / (1 - epsilon)))).

    >>> wait_program(10, 3.0, epsilon=0.1, delta=1e-4)
    37
    """
    k = limited("arms", arms, 1, MOST_ARMS)
    rate = -math.log1p(-probability("epsilon", epsilon))
    delta = probability("delta", delta)
    share = number("budget", budget, above=0.0) * rate
    return max(1, math.ceil(_short(math.log(k / delta) / share if share > 0.0 else math.inf, epsilon)))


def rounds_to_wait(wait: Any, real: float) -> int:
    """Return the option ``wait`` if given, otherwise the real W_delta rounded up.

    The pseudo-code compares a count with the real number by equality, which would never hold.
    """
    if wait is not None:
        return integer("wait", wait, 1)
    return max(1, math.ceil(real))
