"""Arguments that the policies of this chapter share."""

from typing import Any

import numpy as np

from weakfeedback.validate import brief, integer

LEAST_RIDGE = 1e-12  # with less, rounding makes the first matrices singular


def pairs(arms: int) -> tuple[list[int], list[int]]:
    """Return the pairs i < j in the order (0, 1), (0, 2), ..., (1, 2), ..., as two lists."""
    both = [(i, j) for i in range(arms) for j in range(i + 1, arms)]
    return [i for i, _ in both], [j for _, j in both]


def layout(stop: Any, width: int, blocks: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each regression its matrix, and for each matrix the arm that shows it and where its features begin.

    Regression m is observed from arm ``stop[m]`` on. Those that see the same rounds and features share a matrix; with
    ``blocks`` each has ``width`` features of its own.
    """
    own = np.arange(len(stop)) if blocks else np.unique(stop, return_inverse=True)[1]
    slot = own.astype(np.int64).reshape(len(stop))
    slots = int(own.max()) + 1 if len(stop) else 0
    reach, begins = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)
    for m in range(len(stop)):
        reach[slot[m]] = stop[m]
        begins[slot[m]] = m * width if blocks else 0
    return slot, reach, begins


def forced_rounds(forced: Any, limit: Any) -> tuple[bool, int]:
    """Return whether the forced phase may end before its last round, and that round."""
    if forced is None:
        return True, integer("forced_limit", limit, 1)
    return False, integer("forced", forced, 1)


def kept(keep: Any) -> int:
    """Validate the maximum number of observations kept; 0 for all."""
    return 0 if keep is None or (type(keep) is int and keep == 0) else integer("keep", keep, 100)


def per_pair_fits(per_pair: Any, dimension: int, count: int) -> None:
    """Reject a dimension that is not a multiple of the number of pairs."""
    if not isinstance(per_pair, bool):
        raise ValueError(f"per_pair must be True or False, got {brief(per_pair)}")
    if per_pair and (count == 0 or dimension % count != 0):
        raise ValueError(
            f"dimension must be a multiple of the number of pairs, {count}, with per_pair=True, got {dimension}"
        )
