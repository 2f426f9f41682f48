"""Outputs as clients send them, and how they are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weakfeedback.canonical import canonical
from weakfeedback.live.answers import Metric, distances
from weakfeedback.live.numbers import Squared
from weakfeedback.serve.limits import LABEL_LIMIT
from weakfeedback.serve.models import Compare, NumberCompare, Problem, TextCompare

DEEP = 20  # a label may be nested


def check_labels(field: str, values: list[Any]) -> None:
    """Refuse labels that are too long or nested too deeply."""
    for value in values:
        kind = type(value)
        if kind is int or kind is bool or kind is float or value is None:
            continue
        if kind is str:
            long = len(value) > LABEL_LIMIT
        else:
            if _depth(value) > DEEP:
                raise Problem("invalid", f"{field} must not be nested deeper than {DEEP}", field=field)
            long = len(canonical(value)) > LABEL_LIMIT
        if long:
            raise Problem(
                "label_too_long",
                f"a label of {field} must have at most {LABEL_LIMIT} characters",
                field=field,
            )


def _depth(value: Any, depth: int = 0) -> int:
    if depth > DEEP or not isinstance(value, (list, dict)):
        return depth
    items = value if isinstance(value, list) else value.values()
    return max((_depth(item, depth + 1) for item in items), default=depth)


def differ(labels: Sequence[Any], numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of stages, the lower number first, whose labels differ; ``numbers`` are those of the stages."""
    if len(set(labels)) == 1:
        return []
    known = sorted(zip(numbers, range(len(labels))))  # an answer that is not compared first is called last
    return [(i, j) for n, (i, a) in enumerate(known) for j, b in known[n + 1 :] if labels[a] != labels[b]]


class LabelComparator:
    """Finds which outputs differ, or how far apart they are, as configured for a learner."""

    def __init__(self, compare: Compare) -> None:
        self.metric: Metric | None = None
        self._label: Callable[[str, Any], Any] = _plain
        if isinstance(compare, TextCompare):
            self._text, self._label = compare, self._as_text
        elif isinstance(compare, NumberCompare):
            scale = compare.scale
            self.metric = Squared(scale) if compare.loss else lambda a, b: min(abs(a - b) / scale, 1.0)
            self._label = _as_number

    def labels(self, field: str, outputs: list[Any]) -> list[Any]:
        """Return the labels of outputs, which are compared by ``==``."""
        check_labels(field, outputs)
        label = self._label
        return [label(field, output) for output in outputs]

    def far(self, labels: list[Any]) -> list[float]:
        """Return the distances of the pairs (0, 1), (0, 2), ..., (1, 2), ...; needs a metric."""
        assert self.metric is not None
        matrix = distances(labels, self.metric)
        found: list[float] = matrix[np.triu_indices(len(labels), 1)].tolist()
        return found

    def _as_text(self, field: str, output: Any) -> str:
        if type(output) is not str:
            raise Problem(
                "wrong_outputs", f"{field} must be texts, as this learner compares texts", field=field
            )
        if self._text.strip:
            output = output.strip()
        if self._text.collapse:
            output = " ".join(output.split())
        found: str = output.casefold() if self._text.casefold else output
        return found


def _plain(_: str, output: Any) -> Any:
    """Return a text as it is, any other value as canonical JSON, marked so that no text can equal it."""
    if type(output) is int:
        return f"\0{output}"  # as canonical JSON says it, without a detour
    return output if type(output) is str else "\0" + canonical(output)


def _as_number(field: str, output: Any) -> float:
    if type(output) not in (int, float):
        raise Problem(
            "wrong_outputs", f"{field} must be numbers, as this learner compares numbers", field=field
        )
    return float(output)
