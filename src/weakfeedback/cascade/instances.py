"""Named problems of chapter 2: the tables of the thesis, a built-in data set, and special cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from weakfeedback import datasets
from weakfeedback.cascade.numbers import NumericProblem
from weakfeedback.cascade.problem import CascadeProblem
from weakfeedback.cascade.theory import uniform_counterexample
from weakfeedback.datasets.numbers import SETS
from weakfeedback.settings.instances import Described, names_and_describe

# Builds a problem from cumulative costs and the folder of the medical data (None: the environment variable).
Maker = Callable[[tuple[float, ...], Any], CascadeProblem | NumericProblem]
NUMBER_SCALE = 4.0  # standard deviations of the truth: an error of that size costs 1


@dataclass(frozen=True)
class Instance(Described):
    """A named problem, described without building it.

    Attributes
    ----------
    name, summary : str
        Its name, and a one-line description.
    data : str
        "" (a law), "built-in", or the data set the user must supply: "pima" or "heart".
    costs : tuple of float
        Cumulative costs.
    stated_optimal_arm, stated_weak_dominance
        What the source of the instance states (the thesis, for its tables); arms count from 0. ``load(name)`` gives
        the same, except for ``heart-5-as-printed``.
    """

    name: str
    summary: str
    data: str
    costs: tuple[float, ...]
    stated_optimal_arm: int
    stated_weak_dominance: bool
    setting: str = "cascade"
    _make: Maker = field(kw_only=True, repr=False, compare=False)


def load(name: str, data: Any = None) -> Any:
    """Return the problem with this name. Raise ``DataMissing`` if its data set is missing.

    ``data`` is a folder with the medical data sets; without it the environment variable ``WEAKFEEDBACK_DATA``
    is used. Nothing is downloaded.

    >>> load("bc3-2")
    CascadeProblem(arms=3, optimal_arm=1, weak_dominance=True, xi=0.0543058)
    """
    instance = describe(name)
    return instance._make(instance.costs, data)


def labelled() -> tuple[str, ...]:
    """Return the names of the instances whose answers are labels, not numbers."""
    return tuple(name for name in _INSTANCES if name.rpartition("-")[0] not in SETS)


def _bsc(costs: tuple[float, ...], _data: Any) -> CascadeProblem:
    return CascadeProblem.bsc([0.3937, 0.2899, 0.1358], costs, slip=0.05)


def _pima(costs: tuple[float, ...], data: Any) -> CascadeProblem:
    return CascadeProblem.from_predictions(*datasets.pima_cascade(data), costs)


def _heart(costs: tuple[float, ...], data: Any) -> CascadeProblem:
    return CascadeProblem.from_predictions(*datasets.heart_cascade(data), costs)


def _breast_cancer(costs: tuple[float, ...], _data: Any) -> CascadeProblem:
    return CascadeProblem.from_predictions(*datasets.breast_cancer_cascade(len(costs)), costs)


def _unordered(costs: tuple[float, ...], _data: Any) -> CascadeProblem:
    # Error rates .25, .30, .05, .10: the second arm is worse than the first, the last worse than the third.
    # Arms 3 and 4 differ in the last two rows only, with probability .15 < C_4 - C_3 = .25.
    law = {
        (1, 1, 1, 1, 1): 0.20,
        (0, 0, 0, 0, 0): 0.20,
        (1, 0, 1, 1, 1): 0.15,
        (1, 1, 0, 1, 1): 0.20,
        (0, 1, 1, 0, 0): 0.10,
        (0, 0, 0, 1, 0): 0.05,
        (1, 1, 1, 1, 0): 0.10,
    }
    return CascadeProblem(list(law), list(law.values()), costs)


def _numeric(name: str, costs: tuple[float, ...], _data: Any) -> NumericProblem:
    return NumericProblem(*datasets.numeric_cascade(name), costs, NUMBER_SCALE)


def _uniform_counterexample(_costs: tuple[float, ...], _data: Any) -> CascadeProblem:
    return uniform_counterexample()


def _numbers(name: str) -> list[Instance]:
    rows = tuple((costs, arm, True) for costs, arm in zip(_NUMBER_COSTS, _NUMBER_STAGES[name]))
    about = f"{name}, 3 stages that answer with numbers, stacked"
    return _table(name, "built-in", partial(_numeric, name), about, rows)


def _table(prefix: str, data: str, make: Maker, about: str, rows: tuple[_Row, ...]) -> list[Instance]:
    """Name the rows ``prefix``-1, ``prefix``-2, ..."""
    return [
        Instance(f"{prefix}-{k}", f"{about}, instance {k}", data, costs, arm, dominance, _make=make)
        for k, (costs, arm, dominance) in enumerate(rows, start=1)
    ]


_Row = tuple[tuple[float, ...], int, bool]

# Costs, optimal arm (from 0), weak dominance. Thesis, table bsc.
_BSC: tuple[_Row, ...] = (
    ((0.05, 0.285, 0.45), 0, True),
    ((0.05, 0.1, 0.53), 1, True),
    ((0.05, 0.3, 0.45), 0, True),
    ((0.05, 0.25, 0.29), 2, True),
    ((0.1, 0.2, 0.41), 1, False),
)
# Thesis, table real_datasets.
_PIMA: tuple[_Row, ...] = (
    ((0.05, 0.28, 0.45), 0, True),
    ((0.2, 0.25, 0.269), 1, True),
    ((0.05, 0.309, 0.45), 0, True),
    ((0.2, 0.25, 0.255), 2, True),
    ((0.05, 0.146, 0.3), 0, False),
)
_HEART: tuple[_Row, ...] = (
    ((0.02, 0.32, 0.45), 0, True),
    ((0.2, 0.25, 0.395), 1, True),
    ((0.02, 0.34, 0.45), 0, True),
    ((0.2, 0.25, 0.3), 2, True),
)
# Printed instance 5 contradicts instance 2: the same optimal arm, a more expensive last arm, and yet no weak dominance.
# With a last cost of 0.34 it agrees with what is stated.
_HEART_5 = [
    Instance(
        "heart-5-as-printed",
        "heart disease (Cleveland), instance 5 as printed: stated without weak dominance, but it has it",
        *("heart", (0.2, 0.25, 0.40), 1, False),
        _make=_heart,
    ),
    Instance(
        "heart-5",
        "heart disease (Cleveland), instance 5 corrected: without weak dominance, as the thesis means it",
        *("heart", (0.2, 0.25, 0.34), 1, False),
        _make=_heart,
    ),
]
_BC3: tuple[_Row, ...] = (
    ((0.05, 0.30, 0.40), 0, True),
    ((0.05, 0.10, 0.20), 1, True),
    ((0.05, 0.10, 0.12), 2, True),
    ((0.05, 0.21, 0.40), 0, False),
)
_BC4: tuple[_Row, ...] = (
    ((0.05, 0.35, 0.45, 0.55), 0, True),
    ((0.05, 0.07, 0.30, 0.40), 1, True),
    ((0.05, 0.07, 0.12, 0.25), 2, True),
    ((0.05, 0.06, 0.10, 0.12), 3, True),
    ((0.05, 0.15, 0.40, 0.50), 0, False),
    ((0.02, 0.04, 0.20, 0.36), 1, False),
)
# All three stages together cost .05 or .2 variances of the truth, in shares of 1, 5 and 25: costs for a scale of 4
# standard deviations, and the optimal stage at each.
_NUMBER_COSTS = tuple(
    tuple(price * share / 31 / NUMBER_SCALE**2 for share in (1, 6, 31)) for price in (0.05, 0.2)
)
_NUMBER_STAGES = {"diabetes": (1, 1), "friedman1": (2, 1), "friedman2": (2, 1), "friedman3": (2, 1)}
_SPECIAL = [
    Instance(
        "unordered-1",
        "4 arms whose error rates do not fall along the cascade (.25, .30, .05, .10), the third optimal",
        *("", (0.05, 0.10, 0.15, 0.40), 2, True),
        _make=_unordered,
    ),
    Instance(
        "uniform-counterexample",
        "2 arms with a tiny xi, where USS-UCB breaks its problem-independent bound",
        *("", (0.0, 0.501), 0, True),
        _make=_uniform_counterexample,
    ),
]

_INSTANCES = {
    instance.name: instance
    for instance in (
        *_table("bsc", "", _bsc, "binary symmetric channel, 3 arms", _BSC),
        *_table("pima", "pima", _pima, "PIMA Indians Diabetes, 3 classifiers", _PIMA),
        *_table("heart", "heart", _heart, "heart disease (Cleveland), 3 classifiers", _HEART),
        *_HEART_5,
        *_table("bc3", "built-in", _breast_cancer, "breast cancer, 3 classifiers", _BC3),
        *_table("bc4", "built-in", _breast_cancer, "breast cancer, 4 classifiers", _BC4),
        *_SPECIAL,
        *(instance for name in SETS for instance in _numbers(name)),
    )
}
names, describe = names_and_describe(__name__, _INSTANCES)
