"""Answers of stages: labels of any type and numbers, how they are compared, and what is remembered of them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import math
import re
import signal
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations
from types import CodeType
from typing import Any

import numpy as np

from weakfeedback.validate import brief, number, vector

# What is remembered of an answer: its digest or, for speed, the answer itself if it is a few short labels or numbers.
Content = str | tuple[Any, ...]
VAGUE = "?"  # prefix of the digest of content that cannot be distinguished from other content of its kind
FEW_LABELS, LENGTH, LARGE = 8, 16, 2**63
MOST = float(np.finfo(float).max)
UNTOLD = " at \0"  # replaces a memory address
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
        Larger is more confident; it may be infinite, and NaN is no score. Only the order matters, except for the last
        stage: a judge may use its score as a probability.
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
        given = self.score
        if isinstance(given, (float, np.floating)) and not math.isfinite(given):
            object.__setattr__(self, "score", math.nan if math.isnan(given) else math.copysign(MOST, given))
        else:
            object.__setattr__(self, "score", number("score", given))
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
    return output if isinstance(output, Scored) and not math.isnan(output.score) else None


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
def pattern(numbers: tuple[int, ...]) -> np.ndarray:
    """Return the boolean matrix of the pairs i < j of different numbers, read-only; there are few patterns."""
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
        return pattern(tuple([numbers.setdefault(answer, len(numbers)) for answer in answers]))
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
    pairs = output_list("differ", differ)
    if not pairs:
        return none_of(arm)
    matrix = np.zeros((arm + 1, arm + 1), dtype=np.bool_)
    for pair in pairs:
        known = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not known or not all(type(k) is int for k in pair) or not 0 <= pair[0] < pair[1] <= arm:
            raise ValueError(f"differ must be pairs (i, j) with 0 <= i < j <= {arm}, got {short(pair)}")
        matrix[pair[0], pair[1]] = True
    return freeze(matrix)


@functools.lru_cache(1024)
def none_of(arm: int) -> np.ndarray:
    """Return the matrix of no pairs."""
    return freeze(np.zeros((arm + 1, arm + 1), dtype=np.bool_))


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


# -- numeric answers: why a tolerance is not enough

Metric = Callable[[Any, Any], Any]

TOLERANCES = ("tolerance", "tol", "atol", "rtol", "abs_tol", "rel_tol")
CLOSENESS = (math.isclose, np.isclose, np.allclose)
WHY = (
    "a tolerance must not be used: let the truth be 0 and two stages answer 1.2 tol and 0.6 tol; they count as the "
    "same, so nothing is seen, yet the first is wrong and the second right, and disagreement no longer bounds what "
    "a stage saves; use metric=, a function into [0, 1] such as lambda a, b: min(abs(a - b) / scale, 1)"
)


def refuse_tolerance(options: Mapping[str, Any], compare: Compare | None) -> None:
    """Reject a tolerance given by name, or as a function known to be one."""
    named = [name for name in TOLERANCES if name in options]
    if named:
        raise ValueError(f"{named[0]}={short(options[named[0]])}: {WHY}")
    function: Any = compare
    while isinstance(function, functools.partial):
        function = function.func
    if any(function is known for known in CLOSENESS):
        raise ValueError(f"compare={short(compare)}: {WHY}")


def refuse_closeness(answers: Sequence[Any], compare: Compare) -> bool:
    """Reject ``compare`` if it turns out to be a tolerance; return whether the answers tested that.

    Take two different numbers that count as the same, and double the step between them until its ends no longer count
    as the same. If the ends of each half of the step still do, ``compare`` is not transitive, as it must be.
    """
    numbers = [float(answer) for answer in answers if isinstance(answer, (float, np.floating))]
    for a, b in combinations(numbers, 2):
        if a != b and math.isfinite(a) and math.isfinite(b) and compare(a, b):
            start, end = sorted((a, b), key=abs)  # away from 0: a relative tolerance grows there
            _walk(start, end - start, compare)
            return True
    return False


def _walk(start: float, step: float, compare: Compare) -> None:
    while math.isfinite(start + 2.0 * step):
        if not compare(start, start + 2.0 * step):
            if compare(start + step, start + 2.0 * step):
                raise ValueError(
                    f"compare takes {start:g} and {start + step:g} for the same, {start + step:g} and "
                    f"{start + 2.0 * step:g} too, but not {start:g} and {start + 2.0 * step:g}: {WHY}"
                )
            return
        step *= 2.0


def distances(answers: Sequence[Any], metric: Metric) -> np.ndarray:
    """Return the matrix of the distances between answers i < j, each from 0 to 1.

    >>> distances([0.1, 0.4], lambda a, b: abs(a - b)).round(3)[0].tolist()
    [0.0, 0.3]
    """
    size = len(answers)
    far = np.zeros((size, size))
    for i, j in combinations(range(size), 2):
        given = metric(answers[i], answers[j])
        try:
            far[i, j] = given
        except (TypeError, ValueError):
            far[i, j] = math.nan
        if not 0.0 <= far[i, j] <= 1.0:
            raise ValueError(
                f"metric must give a number from 0 to 1, got {short(given)} for {short(answers[i])} and "
                f"{short(answers[j])}"
            )
    return far


def far_matrix(far: Any, arm: int) -> np.ndarray:
    """Return the matrix of the distances of the pairs (0, 1), (0, 2), ..., (1, 2), ... of the stages up to ``arm``."""
    given = vector("far", far, at_least=0.0, size=arm * (arm + 1) // 2) if arm else np.zeros(0)
    if (given > 1.0).any():
        raise ValueError(f"far must be numbers from 0 to 1, got {short(far)}")
    matrix = np.zeros((arm + 1, arm + 1))
    matrix[np.triu_indices(arm + 1, 1)] = given
    return matrix


def sample_disagreements(far: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sample which pairs i < j count as different, in the order (0, 1), (0, 2), ..., (1, 2), ....

    Draws: one ``rng.random()`` for every pair, whatever its distance; the pair differs if the number is smaller.
    """
    size = len(far)
    differ = np.zeros((size, size), dtype=np.bool_)
    for i, j in combinations(range(size), 2):
        differ[i, j] = rng.random() < far[i, j]
    return freeze(differ)


# -- how answers are compared


class Comparer:
    """The user's code that says when two answers count as the same, or how far apart they are."""

    def __init__(
        self,
        compare: Compare | None = None,
        combine: Combine | None = None,
        metric: Metric | None = None,
        proven: bool = False,
    ) -> None:
        self.compare, self.combine, self.metric = compare, combine, metric
        self._plain = compare is None and metric is None  # answers are compared with != only
        self._proven = proven or compare is None  # whether ``compare`` is known not to be a tolerance

    def difference(self, answers: list[Any]) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return which pairs of answers differ or, with a metric, how far apart they are."""
        if self._plain:
            return differences(answers, None), None
        if self.metric is not None:
            return None, distances(answers, self.metric)
        differ = differences(answers, self.compare)
        self.prove(answers)
        return differ, None

    def prove(self, answers: Sequence[Any]) -> None:
        """Refuse ``compare`` as soon as answers show that it is a tolerance."""
        if not self._proven and self.compare is not None:
            self._proven = refuse_closeness(answers, self.compare)


# -- what is remembered of an answer


def plain_content(labels: tuple[Any, ...]) -> Content | None:
    """Return what is remembered of plain labels: the labels if they are few and short, else their digest.

    Return None for other labels. Such tuples are equal if and only if their digests are.

    >>> plain_content((1, True, "no")), plain_content((1.0,)), plain_content(("no" * 100,))
    ((1, True, 'no'), None, '0424c7b66e29910e')
    """
    short = len(labels) <= FEW_LABELS
    for label in labels:
        kind = type(label)
        if kind is int or kind is bool:
            if not -LARGE < label < LARGE:
                short = False
        elif kind is not str:
            return None
        elif len(label) > LENGTH:
            short = False
    return labels if short else fingerprint(labels)


def content_of(outputs: Sequence[Any]) -> Content:
    """Return what is remembered of outputs: the outputs if they are few, plain and short, else their digest."""
    content = plain_content(tuple(outputs))
    return fingerprint(outputs) if content is None else content


def labelled_content(content: Content, label: Any) -> str:
    """Return what is remembered of outputs with a label."""
    digest = digest_of(content)
    found = fingerprint([digest, label])
    return VAGUE + found if digest.startswith(VAGUE) and not found.startswith(VAGUE) else found


def same_content(one: Content, other: Content) -> bool:
    """Return whether two contents are certainly the same; vague ones never are."""
    if type(one) is not type(other):
        one, other = digest_of(one), digest_of(other)
    return one == other and not (isinstance(one, str) and one.startswith(VAGUE))


def digest_of(content: Content) -> str:
    """Return the digest of what is remembered of an answer."""
    return content if isinstance(content, str) else fingerprint(content)


def fingerprint(content: Any) -> str:
    """Return a short digest that is the same for equal content, in this process and after a restart.

    Equal numbers have the same digest whatever their type. An object whose ``repr`` contains a memory address cannot
    be distinguished from others of its class, and the digest of anything that holds one begins with "?".

    >>> fingerprint(["yes", 1]) == fingerprint(("yes", np.float64(1.0)))
    True
    >>> fingerprint([object()])[0], fingerprint(["<object object at 0x7f>"])[0] == "?"
    ('?', False)
    """
    text = _canonical(content)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return VAGUE + digest if UNTOLD in text else digest


def _canonical(value: Any) -> str:
    kind = type(value)  # the usual kinds first: a digest is computed in every round
    if kind is int or kind is bool:
        return f"i{int(value)}"
    if kind is float:
        return f"i{int(value)}" if value.is_integer() else f"f{value!r}"
    if kind is str:
        return f"s{len(value)}:{value}"
    if kind is list or kind is tuple:
        return "[" + ",".join([f"i{item}" if type(item) is int else _canonical(item) for item in value]) + "]"
    if isinstance(value, np.generic) and value.dtype.kind in "biufcSU":
        value = value.item()
    if isinstance(value, (bool, int)):
        return f"i{int(value)}"
    if isinstance(value, float):
        return f"i{int(value)}" if value.is_integer() else f"f{value!r}"
    if isinstance(value, str):
        return f"s{len(value)}:{str.__str__(value)}"
    if isinstance(value, np.ndarray):
        items = value.ravel().tolist()
        texts = _texts(items) if value.dtype == np.float64 else _canonical(items)
        return f"a{value.shape}" + texts
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_canonical(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{_canonical(k)}={_canonical(v)}" for k, v in value.items())) + "}"
    if isinstance(value, Set):
        return "<" + ",".join(sorted(_canonical(item) for item in value)) + ">"
    name = type(value).__qualname__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return name + _canonical([getattr(value, field.name) for field in dataclasses.fields(value)])
    if isinstance(value, enum.Enum):
        return f"e{name}.{value.name}"
    try:
        text = repr(value)
    except Exception as error:
        if _is_of_handler(error):
            raise
        raise ValueError(f"{name} is no label: its repr fails with {type(error).__name__}") from None
    # A memory address is not content, and changes with a restart.
    return f"r{name}:" + re.sub(r" at 0x[0-9a-fA-F]+", UNTOLD, text)


def _texts(numbers: list[float]) -> str:
    """Return `_canonical` of a list of floats, mostly zeros and ones."""
    known = {0.0: "i0", 1.0: "i1"}
    return "[" + ",".join([known.get(item) or _canonical(item) for item in numbers]) + "]"


def _is_of_handler(error: Exception) -> bool:
    """Return whether an exception comes from a signal handler, not from the ``repr`` that it interrupted."""
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return False


def _code_of(handler: Any) -> CodeType | None:
    """Return the code of a handler: of a function, a method, or an object that can be called."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    for one in (handler, getattr(type(handler), "__call__", None)):  # noqa: B004
        found = getattr(one, "__code__", None)
        if isinstance(found, CodeType):
            return found
    return None
