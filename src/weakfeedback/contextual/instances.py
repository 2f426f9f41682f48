"""Named problems of chapter 3: the tables of the thesis, realizable families, and a built-in data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weakfeedback import datasets
from weakfeedback.contextual import families
from weakfeedback.contextual.problem import ContextualProblem, RealizableProblem
from weakfeedback.settings.instances import Described, names_and_describe

Problem = ContextualProblem | RealizableProblem
# Builds a problem from cumulative costs and the folder of the medical data (None: the environment variable).
Maker = Callable[[tuple[float, ...], Any], Problem]

PIMA_COLUMNS = (
    *("pregnancies", "blood_pressure", "skin_thickness", "bmi", "diabetes_pedigree", "age"),
    *("glucose", "insulin"),
)
# The thesis counts 12 features, the first 7 with rest-ECG: with age that is UCI's order, and 13 features.
HEART_COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
    *("thalach", "exang", "oldpeak"),
    *("slope", "ca", "thal"),
)
BREAST_CANCER_COLUMNS = (
    *("mean texture", "mean smoothness"),
    *("mean symmetry", "mean fractal dimension"),
    *("mean radius", "mean concavity"),
)


@dataclass(frozen=True)
class Instance(Described):
    """A named problem, described without building it.

    Attributes
    ----------
    name, summary : str
        Its name, and a one-line description.
    data : str
        "" (synthetic), "built-in", or the data set the user must supply: "pima" or "heart".
    costs : tuple of float
        Cumulative costs.
    stated_weak_dominance_fraction : float
        The share of contexts with weak dominance that the source of the instance states; NaN if it states none. For
        the synthetic data of the thesis it is the share for the best fixed arm, for its real data that of 5000 rounds.
    """

    name: str
    summary: str
    data: str
    costs: tuple[float, ...]
    stated_weak_dominance_fraction: float
    setting: str = "contextual"
    _make: Maker = field(kw_only=True, repr=False, compare=False)


def load(name: str, data: Any = None) -> Problem:
    """Return the problem with this name. Raise ``DataMissing`` if its data set is missing.

    ``data`` is a folder with the medical data sets; without it the environment variable ``WEAKFEEDBACK_DATA``
    is used. Nothing is downloaded.

    >>> load("realizable-varying")
    RealizableProblem(arms=3, contexts=2766, dimension=10, weak_dominance_fraction=1)
    """
    instance = describe(name)
    return instance._make(instance.costs, data)


def _law(make: Callable[[tuple[float, ...]], Problem]) -> Maker:
    return lambda costs, _: make(costs)


def _realizable(costs: tuple[float, ...], _data: Any) -> Problem:
    return families.realizable(costs, base=0.05 if len(costs) == 4 else 0.035)


def _on(
    load: Callable[[Any], datasets.Dataset], columns: tuple[str, ...], *ends: int
) -> Callable[[str], Maker]:
    """Return what makes problems of classifiers that see the columns up to each of the ends."""
    return lambda labels: lambda costs, data: families.classifiers(load(data), columns, ends, costs, labels)


_pima = _on(datasets.load_pima, PIMA_COLUMNS, 6, 7, 8)
_heart = _on(datasets.load_heart, HEART_COLUMNS, 7, 10, 13)
_breast_cancer = _on(lambda _: datasets.load_breast_cancer(), BREAST_CANCER_COLUMNS, 2, 4, 6)


def _table(prefix: str, data: str, make: Maker, about: str, rows: tuple[_Row, ...]) -> list[Instance]:
    """Name the rows ``prefix``-1, ``prefix``-2, ..."""
    return [
        Instance(f"{prefix}-{k}", f"{about}, instance {k}", data, costs, stated, _make=make)
        for k, (costs, stated) in enumerate(rows, start=1)
    ]


def _steps(arms: int, increment: float) -> tuple[_Row, ...]:
    """Return the four cases of the thesis: C_i = .1 + (i - 1)(increment + (case - 1) .01)."""
    return tuple(
        (tuple(round(0.1 + i * (increment + case * 0.01), 10) for i in range(arms)), 1.0) for case in range(4)
    )


_Row = tuple[tuple[float, ...], float]
_UNSTATED = float("nan")

# Costs and the printed share of contexts with weak dominance. Thesis, table sysDatasetCases.
_SYNTHETIC: tuple[_Row, ...] = (
    ((0.01, 0.02, 0.032, 0.05, 0.55), 0.997),
    ((0.01, 0.02, 0.032, 0.05, 0.60), 1.0),
    ((0.01, 0.02, 0.032, 0.05, 0.65), 1.0),
    ((0.01, 0.02, 0.032, 0.05, 0.70), 1.0),
)
# Thesis, table real_dataset.
_PIMA: tuple[_Row, ...] = (
    ((0.01, 0.25, 0.5), 0.0692),
    ((0.01, 0.30, 0.5), 0.1192),
    ((0.01, 0.35, 0.5), 0.2204),
)
_HEART: tuple[_Row, ...] = (
    ((0.01, 0.25, 0.5), 0.1384),
    ((0.01, 0.30, 0.5), 0.1454),
    ((0.01, 0.35, 0.5), 0.2426),
)
_BREAST_CANCER: tuple[_Row, ...] = (
    ((0.05, 0.10, 0.20), _UNSTATED),
    ((0.05, 0.15, 0.40), _UNSTATED),
    ((0.01, 0.25, 0.50), _UNSTATED),
)


def _both(
    prefix: str, data: str, make: Callable[[str], Maker], about: str, rows: tuple[_Row, ...]
) -> list[Instance]:
    """Return the rows with random labels, as in chapter 3, and with thresholded ones, which have no printed share."""
    unstated = tuple((costs, _UNSTATED) for costs, _ in rows)
    return [
        *_table(prefix, data, make("random"), f"{about}, random labels", rows),
        *_table(f"{prefix}-thresholded", data, make("thresholded"), f"{about}, thresholded labels", unstated),
    ]


_INSTANCES = {
    instance.name: instance
    for instance in (
        *_table("synthetic", "", _law(families.synthetic), "synthetic contexts, 5 classifiers", _SYNTHETIC),
        *_table("realizable-4", "", _realizable, "given disagreements, 4 arms", _steps(4, 0.09)),
        *_table("realizable-5", "", _realizable, "given disagreements, 5 arms", _steps(5, 0.06)),
        Instance(
            "realizable-varying",
            "given disagreements, 3 arms, the best one changes with the context",
            *("", (0.1, 0.3, 0.6), 1.0),
            _make=_law(families.varying),
        ),
        *_both("bc-contextual", "built-in", _breast_cancer, "breast cancer, 3 classifiers", _BREAST_CANCER),
        *_both("pima-contextual", "pima", _pima, "PIMA Indians Diabetes, 3 classifiers", _PIMA),
        *_both("heart-contextual", "heart", _heart, "heart disease (Cleveland), 3 classifiers", _HEART),
    )
}
names, describe = names_and_describe(__name__, _INSTANCES)
