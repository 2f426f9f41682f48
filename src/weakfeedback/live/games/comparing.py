"""What the games share that compare answers: prices, pairs, warm starts, and when to stop by the means."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from weakfeedback.live.answers import (
    Content,
    digest_of,
    far_matrix,
    fingerprint,
    pairs_of,
    sample_disagreements,
    short,
)
from weakfeedback.validate import brief

Difference = tuple[np.ndarray | None, np.ndarray | None]  # which pairs differ, or how far apart they are


def finite(amount: float) -> float:
    """Return an amount, the largest float of its sign for one that is infinite: a sum must not be."""
    return max(-sys.float_info.max, min(amount, sys.float_info.max))


def pairs_body(differ: np.ndarray | None, far: np.ndarray | None, content: Content) -> dict[str, Any]:
    """Return what the event of an answer holds of a comparison: pairs, or distances as they are, or both."""
    body: dict[str, Any] = {"digest": digest_of(content)}
    if differ is not None:
        body = {"differ": pairs_in(differ), **body}
    if far is not None:
        body["far"] = upper(far)
    return body


def warm_body(found: list[Difference]) -> dict[str, Any]:
    """Return the body of a warm start: the pairs of each row, or the distances from which they are sampled."""
    fars = [far for _, far in found if far is not None]
    if fars:
        return {"differ": [[] for _ in found], "far": [upper(far) for far in fars]}
    return {"differ": [pairs_in(differ) for differ, _ in found if differ is not None]}


def warm_rows(body: dict[str, Any], last: int) -> list[tuple[Any, Any]]:
    """Return the pairs of each row of a warm start, or the distances, which may still be sampled."""
    if "far" in body:
        return [(None, far_matrix(far, last)) for far in body["far"]]
    return [(pairs_of(differ, last), None) for differ in body["differ"]]


def sampled_rows(body: dict[str, Any], last: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the pairs of each row of a warm start; distances are sampled."""
    return [
        differ if far is None else sample_disagreements(far, rng) for differ, far in warm_rows(body, last)
    ]


def pairs_in(differ: np.ndarray) -> list[list[int]]:
    """Return the pairs of a matrix."""
    if b"\1" not in differ.tobytes():  # mostly, and numpy would let another thread run
        return []
    earlier, later = differ.nonzero()  # argwhere takes three times as long
    return [list(pair) for pair in zip(earlier.tolist(), later.tolist())]


def upper(matrix: np.ndarray) -> list[Any]:
    """Return the entries of the pairs (0, 1), (0, 2), ..., (1, 2), ....

    >>> upper(np.array([[0, 1, 2], [0, 0, 3], [0, 0, 0]]))
    [1, 2, 3]
    """
    return list(matrix[np.triu_indices(len(matrix), 1)].tolist())


def content_of_pairs(digest: Any, *said: Any) -> Content:
    """Return what distinguishes a repeated answer from a conflict: the given digest, else one of the content."""
    if digest is None:
        return fingerprint(["pairs", *said])
    if not isinstance(digest, str):
        raise ValueError(f"digest must be a string or None, got {brief(digest)}")
    return digest


def check_functions(**functions: Any) -> None:
    """Reject values that are neither callables nor None."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise ValueError(f"{name} must be a callable or None, got {short(function)}")


def check_count(
    name: str, count: Callable[[Any], int], counted: str
) -> Callable[[Any, dict[str, Any], str], None]:
    """Return the check that so many stages or models are given as a state has prices."""

    def check(given: Any, body: dict[str, Any], where: str) -> None:
        wanted, found = len(body[counted]), count(given)
        if found != wanted:
            raise ValueError(f"{name} must be {wanted}, as {where} holds, got {found}")

    return check


def check_costs(
    policy: Any,
    costs: np.ndarray,
    field: str = "C",
    words: str = "the costs cumsum(stage_costs) / error_cost",
    noun: str = "arm",
) -> None:
    """Reject a policy object made for other costs; the policy keeps its costs in ``field``."""
    built = getattr(policy, field, None)
    size = getattr(policy, "K", costs.size)
    fits = size == costs.size and (built is None or np.shape(built) == costs.shape)
    if not fits or (built is not None and not np.allclose(built, costs, rtol=1e-9, atol=1e-12)):
        got = f"{size} {noun}s" if built is None else np.asarray(built).tolist()
        raise ValueError(f"policy must be made for {words} = {costs.tolist()}, got one for {got}")


def stop_by_means(costs: np.ndarray, differed: np.ndarray, compared: np.ndarray) -> int:
    """Return the first stage from which going on to each later stage costs more than the mean disagreement with it.

    The mean of a disagreement is (differed + 1) / (compared + 2), the posterior mean under a uniform prior.
    """
    return first_passing(costs, (differed + 1.0) / (compared + 2.0))


def first_passing(costs: np.ndarray, means: np.ndarray) -> int:
    """Return the first stage from which going on to each later stage costs more than its mean distance."""
    arms = range(costs.size)
    return next(i for i in arms if (costs[i + 1 :] - costs[i] > means[i, i + 1 :]).all())
