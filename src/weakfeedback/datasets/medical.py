"""Loaders: the two medical data sets of the thesis (supplied by the user) and one that is built in."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weakfeedback.datasets import files, openml
from weakfeedback.datasets.dataset import DataMissing, Dataset

ENVIRONMENT = "WEAKFEEDBACK_DATA"
NOWHERE: Any = object()  # used as a path: look in no folder


@dataclass(frozen=True)
class _Medical:
    """The properties of a published data set that identify it."""

    name: str
    title: str
    header: tuple[str, ...]  # the target is the last column
    files: tuple[str, ...]
    rows: int
    complete: int
    negative: int  # rows with target 0 among the complete ones
    labels: tuple[int, ...]
    copy: openml.OpenmlCopy
    exact_copy: bool
    missing: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)


_PIMA = _Medical(
    name="pima",
    title="PIMA Indians Diabetes",
    header=(
        *("pregnancies", "glucose", "blood_pressure", "skin_thickness"),
        *("insulin", "bmi", "diabetes_pedigree", "age", "outcome"),
    ),
    files=("pima-indians-diabetes.csv", "diabetes.csv"),
    rows=768,
    complete=768,
    negative=500,
    labels=(0, 1),
    copy=openml.PIMA,
    exact_copy=True,
    # the Kaggle copy, which the thesis cites, spells these differently
    aliases={
        "bloodpressure": "blood_pressure",
        "skinthickness": "skin_thickness",
        "diabetespedigreefunction": "diabetes_pedigree",
    },
)
_HEART = _Medical(
    name="heart",
    title="Heart Disease (Cleveland)",
    header=(
        *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
        *("thalach", "exang", "oldpeak", "slope", "ca", "thal", "num"),
    ),
    files=("heart-disease-cleveland.csv", "processed.cleveland.data"),
    rows=303,
    complete=297,
    negative=160,
    labels=(0, 1, 2, 3, 4),
    copy=openml.HEART,
    # WEKA's version, from which OpenML's is made, is known to differ from UCI's in a few cells
    exact_copy=False,
    missing="?",
)


def load_pima(path: Any = None, openml: bool = False) -> Dataset:
    """Return the PIMA Indians Diabetes data: 768 rows, 8 features, target 1 where the test was positive.

    The data have no stated licence, so they are not part of the package. They are looked for in this order:

    1. ``path``: a file, or a folder that holds ``pima-indians-diabetes.csv`` or ``diabetes.csv``;
    2. the folder named by the environment variable ``WEAKFEEDBACK_DATA``;
    3. OpenML (data set 37), through scikit-learn, only if ``openml`` is true. Nothing else uses the network.

    A file has 9 comma-separated columns (with a header, or in the published order without one): pregnancies,
    glucose, blood_pressure, skin_thickness, insulin, bmi, diabetes_pedigree, age, outcome. Zeros that mean
    "missing" (in glucose, blood_pressure, skin_thickness, insulin and bmi) stay zeros.

    Raises ``DataMissing`` when there is nothing to read and ``ValueError`` when a file is not this data set.
    """
    return _load(_PIMA, path, openml)


def load_heart(path: Any = None, openml: bool = False) -> Dataset:
    """Return the 297 complete rows of the Cleveland heart disease data: 13 features, target 1 where num > 0.

    Looked for as in ``load_pima``: ``path`` (a file, or a folder that holds ``heart-disease-cleveland.csv`` or
    UCI's ``processed.cleveland.data``, which has no header), the folder ``WEAKFEEDBACK_DATA``, OpenML (data set
    49) if ``openml`` is true. Missing cells are written '?'; the 6 rows that have one are left out.

    The OpenML copy differs from UCI's file in a few cells: other counts than UCI's raise a warning there, but an
    error for a file. Raises ``DataMissing`` and ``ValueError`` as ``load_pima`` does.

    R. Detrano, M.D., Ph.D. (V.A. Medical Center, Long Beach and Cleveland Clinic Foundation) collected the data;
    UCI Machine Learning Repository, Heart Disease, doi:10.24432/C52P4X, CC BY 4.0.
    """
    return _load(_HEART, path, openml)


@functools.cache
def load_breast_cancer() -> Dataset:
    """Return scikit-learn's breast cancer data: 569 rows, 30 features, target 1 = benign. Nothing to download.

    >>> data = load_breast_cancer()
    >>> data.features.shape, int(data.target.sum()), data.columns[0]
    ((569, 30), 357, 'mean radius')
    """
    from sklearn import datasets

    bunch = datasets.load_breast_cancer()
    columns = tuple(str(name) for name in bunch.feature_names)
    return Dataset("breast-cancer", columns, bunch.data, bunch.target, "part of scikit-learn")


def _load(known: _Medical, path: Any, use_openml: bool) -> Dataset:
    file = _find(known, path, use_openml)
    if file:
        try:
            rows = files.read_table(file, known.header, dict(known.aliases), known.missing)
            return _check_rows(known, rows, f"file {file}", strict=True)
        except ValueError as error:
            raise ValueError(f"not the {known.title} data: {error}") from None
    try:
        rows = openml.fetch(known.copy, known.header)
        return _check_rows(known, rows, f"OpenML data set {known.copy.data_id}", strict=known.exact_copy)
    except ConnectionError as error:
        raise DataMissing(f"no {known.title} data: {error}") from None
    except ValueError as error:
        raise ValueError(f"not the {known.title} data: {error}") from None


def _find(known: _Medical, path: Any, use_openml: bool) -> str:
    """Return the file to read, or "" to download."""
    folder = os.environ.get(ENVIRONMENT, "") if path is None else ""
    try:
        if path is not None and path is not NOWHERE:
            return files.find(path, known.files)
        if folder:
            return files.find(folder, known.files, folder_only=True)
    except files.NotFound as error:
        if path is not None or not use_openml:
            where = "path" if path is not None else f"environment variable {ENVIRONMENT}"
            raise DataMissing(f"no {known.title} data: {where}: {error}") from None
    if use_openml:
        return ""
    raise DataMissing(
        f"no {known.title} data: they are not part of the package; give load_{known.name} a path, or set the "
        f"environment variable {ENVIRONMENT} to a folder with {known.files[0]}, or call "
        f"load_{known.name}(openml=True) to download them"
    )


def _check_rows(known: _Medical, rows: list[list[float]], source: str, strict: bool) -> Dataset:
    table = np.array(rows, dtype=float).reshape(len(rows), len(known.header))
    whole = table[~np.isnan(table).any(axis=1)]
    label = whole[:, -1]
    wrong = label[~np.isin(label, known.labels)]
    if wrong.size:
        allowed = ", ".join(map(str, known.labels))
        raise ValueError(f"{source}: {known.header[-1]} is {wrong[0]:g}, expected one of {allowed}")
    counts = (len(table), len(whole), int((label == 0).sum()), int((label > 0).sum()))
    expected = (known.rows, known.complete, known.negative, known.complete - known.negative)
    if counts != expected:
        line = f"{source}: {_describe_counts(counts)}, expected {_describe_counts(expected)}"
        if strict or not len(whole):
            raise ValueError(line)
        warnings.warn(f"{line}; results will differ a little from those of the original", stacklevel=4)
    return Dataset(known.name, known.header[:-1], whole[:, :-1], label > 0, source)


def _describe_counts(counts: tuple[int, int, int, int]) -> str:
    rows, complete, negative, positive = counts
    return f"{rows} rows, {complete} complete ({negative} negative, {positive} positive)"
