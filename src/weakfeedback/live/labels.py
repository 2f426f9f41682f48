"""Outputs of stages: labels of any type, their cost, and how they are compared and combined."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.validate import brief, number

Combine = Callable[[list[Any]], Any]
Compare = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Costed:
    """A label together with the cost of this call, for stages whose price varies (tokens, time)."""

    label: Any
    cost: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "cost", number("cost", self.cost, at_least=0.0))


@dataclass(frozen=True, slots=True)
class Scored:
    """A label together with the confidence of the stage, for cascades that decide after every answer.

    Attributes
    ----------
    label
        Of any type.
    score : number
        Larger is more confident. Only the order matters, except for the last stage: a judge may use its score as a
        probability.
    chances : mapping from labels to probabilities, optional
        Probabilities of other labels as well; used for the last stage only. A label not in it has probability 0.

    ``Costed(Scored(label, score), cost)`` also reports the cost of the call.

    >>> Scored("cat", 0.9)
    Scored(label='cat', score=0.9, chances=None)
    """

    label: Any
    score: float
    chances: Mapping[Any, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", number("score", self.score))
        if self.chances is not None and not isinstance(self.chances, Mapping):
            raise ValueError(
                f"chances must be a mapping from labels to probabilities, got {short(self.chances)}"
            )
        if isinstance(self.label, (Costed, Scored)):
            raise ValueError(f"label must be a label, got {short(self.label)}: use Costed(Scored(...), cost)")


def majority(outputs: Sequence[Any]) -> Any:
    """Return the most frequent output; among equally frequent ones, the one given last by a stage.

    >>> majority(["cat", "dog", "cat"]), majority(["cat", "dog"])
    ('cat', 'dog')
    """
    labels = list(outputs)
    counts = [labels.count(label) for label in labels]
    last_best = max(range(len(labels)), key=lambda i: (counts[i], i))
    return labels[last_best]


def output_list(name: str, outputs: Any) -> list[Any]:
    """Return ``outputs`` as a list, one item per stage."""
    if type(outputs) is list or type(outputs) is tuple:
        return list(outputs)
    if isinstance(outputs, (str, bytes, Mapping, Set)) or not np.iterable(outputs):
        raise ValueError(f"{name} must be a sequence of outputs, one per stage called, got {short(outputs)}")
    return list(outputs)


def short(value: Any) -> str:
    """Return the beginning of the ``repr`` of a value, for messages."""
    text = brief(value)
    return text if len(text) <= 80 else text[:77] + "..."


PLAIN = {int, bool, str}  # always valid labels, and equal if and only if they are the same key


def labels_of(outputs: Sequence[Any]) -> list[Any]:
    """Return the labels without their costs and scores."""
    return [label_of(output) for output in outputs]


def label_of(output: Any) -> Any:
    """Return the label of a stage's output.

    >>> label_of(Costed(Scored("cat", 0.9), 2.0)), label_of("dog")
    ('cat', 'dog')
    """
    if isinstance(output, Costed):
        output = output.label
    return output.label if isinstance(output, Scored) else output


def scored_of(output: Any) -> Scored | None:
    """Return the label with its score, or None if the stage gave no score."""
    if isinstance(output, Costed):
        output = output.label
    return output if isinstance(output, Scored) else None


def costs_of(outputs: Sequence[Any], stated: Sequence[float] | np.ndarray) -> list[float]:
    """Return what each call actually cost: the stated cost unless the output has its own."""
    return [
        output.cost if isinstance(output, Costed) else float(cost) for output, cost in zip(outputs, stated)
    ]


def answers_of(labels: list[Any], combine: Combine | None) -> list[Any]:
    """Return the answer of every arm whose outputs are available."""
    if combine is None:
        return labels
    return [combine(labels[: i + 1]) for i in range(len(labels))]


@functools.lru_cache(maxsize=4096)
def _pattern(numbers: tuple[int, ...]) -> np.ndarray:
    """Return the matrix of the pairs i < j of different numbers; cached, as there are few patterns."""
    each = np.array(numbers)
    return freeze(np.triu(each[:, None] != each, 1))


def differences(answers: Sequence[Any], compare: Compare | None) -> np.ndarray:
    """Return the boolean matrix of pairs i < j whose answers differ, read-only.

    >>> differences(["a", None, "a"], None)[0]
    array([False,  True, False])
    """
    size = len(answers)
    if compare is None and PLAIN.issuperset(map(type, answers)):
        numbers: dict[Any, int] = {}
        return _pattern(tuple([numbers.setdefault(answer, len(numbers)) for answer in answers]))
    differ = np.zeros((size, size), dtype=np.bool_)
    for i in range(size):
        if is_nan(answers[i], compare):
            raise ValueError(
                f"the output of stage {i} must be a label, got {answers[i]!r}, which equals nothing"
            )
        for j in range(i + 1, size):
            differ[i, j] = is_other(answers[i], answers[j], compare)
    return freeze(differ)


def sorted_pairs(differ: Any) -> list[Any]:
    """Return the pairs sorted and without repetitions, as tuples of integers, so that equal sets have equal digests.

    >>> sorted_pairs([(0, 2), [0, 1], (0, 2)])
    [(0, 1), (0, 2)]
    """
    if isinstance(differ, np.ndarray):
        differ = differ.tolist()
    pairs = output_list("differ", differ)
    plain = [tuple(pair) if isinstance(pair, list) else pair for pair in pairs]
    try:
        return sorted(set(plain))
    except TypeError:  # anything that is not a pair is refused later
        return list(pairs)


def pairs_of(differ: Any, arm: int) -> np.ndarray:
    """Return the boolean matrix of these pairs (i, j), i < j <= arm.

    >>> pairs_of([(0, 1)], 1).tolist()
    [[False, True], [False, False]]
    """
    matrix = np.zeros((arm + 1, arm + 1), dtype=np.bool_)
    for pair in output_list("differ", differ):
        known = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not known or not all(type(k) is int for k in pair) or not 0 <= pair[0] < pair[1] <= arm:
            raise ValueError(f"differ must be pairs (i, j) with 0 <= i < j <= {arm}, got {short(pair)}")
        matrix[pair[0], pair[1]] = True
    return freeze(matrix)


def freeze(array: np.ndarray) -> np.ndarray:
    """Make an array read-only and return it, so that a policy can borrow it."""
    array.flags.writeable = False
    return array


def rights(answers: Sequence[Any], truth: Any, compare: Compare | None) -> np.ndarray:
    """Return which of the answers are the truth.

    >>> rights(["a", "b"], "b", None)
    array([False,  True])
    """
    if is_nan(truth, compare):
        raise ValueError(f"the truth must be a label, got {truth!r}, which equals nothing")
    return np.array([not is_other(answer, truth, compare) for answer in answers], dtype=np.bool_)


def number_of(label: Any, earlier: Sequence[Any], numbers: Sequence[int], compare: Compare | None) -> int:
    """Return the number of a label in its round: that of the first earlier one it equals, else the next.

    >>> number_of("b", ["a", "b"], [0, 1], None), number_of("c", ["a", "b"], [0, 1], None)
    (1, 2)
    """
    if is_nan(label, compare):
        raise ValueError(f"the output of a stage must be a label, got {label!r}, which equals nothing")
    for one, its_number in zip(earlier, numbers):
        if not is_other(one, label, compare):
            return its_number
    return max(numbers, default=-1) + 1


def pattern(numbers: tuple[int, ...]) -> np.ndarray:
    """Return the boolean matrix of the pairs i < j of different numbers, read-only."""
    return _pattern(numbers)


def is_nan(answer: Any, compare: Compare | None) -> bool:
    """Return whether a label does not equal itself."""
    if compare is None:
        return is_other(answer, answer, None)
    return isinstance(answer, (float, np.floating)) and bool(answer != answer)


def is_other(a: Any, b: Any, compare: Compare | None) -> bool:
    """Return whether two labels differ."""
    if compare is not None:
        return not compare(a, b)
    try:
        if isinstance(a, np.generic) or isinstance(b, np.generic):
            return _differ_in_numpy(a, b)
        return bool(a != b)
    except (TypeError, ValueError):
        raise ValueError(
            f"outputs must be labels that != can compare, got {short(a)} and {short(b)}: pass compare="
        ) from None


def _differ_in_numpy(a: Any, b: Any) -> bool:
    with np.errstate(all="ignore"):
        try:
            return bool(a != b)
        except OverflowError:  # an integer outside the other type's range, so a different number
            return True


def as_array(labels: list[Any]) -> np.ndarray:
    """Return labels as an array that keeps their types: no number becomes a string.

    >>> as_array(["yes", 1])
    array(['yes', 1], dtype=object)
    """
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and issubclass(kinds.pop(), (bool, int, float, str, np.generic)):
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    for row, label in enumerate(labels):
        array[row] = label
    return array
