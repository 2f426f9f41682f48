"""The copies of the medical data sets on OpenML, translated to the columns and codes of the originals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weakfeedback.plaintext import one_line

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class OpenmlCopy:
    """How an OpenML data set spells the columns and codes of ours.

    ``columns`` maps our column to theirs where the names differ; ``codes`` gives, for our column, the number of
    each of their words. Columns without codes are numbers.
    """

    data_id: int
    codes: Mapping[str, Mapping[str, float]]
    columns: Mapping[str, str] = field(default_factory=dict)


PIMA = OpenmlCopy(
    data_id=37,
    codes={"outcome": {"tested_negative": 0, "tested_positive": 1}},
    columns={
        "pregnancies": "preg",
        "glucose": "plas",
        "blood_pressure": "pres",
        "skin_thickness": "skin",
        "insulin": "insu",
        "bmi": "mass",
        "diabetes_pedigree": "pedi",
        "outcome": "class",
    },
)
HEART = OpenmlCopy(
    data_id=49,
    codes={
        "sex": {"female": 0, "male": 1},
        "cp": {"typ_angina": 1, "atyp_angina": 2, "non_anginal": 3, "asympt": 4},
        "fbs": {"f": 0, "t": 1},
        "restecg": {"normal": 0, "st_t_wave_abnormality": 1, "left_vent_hyper": 2},
        "exang": {"no": 0, "yes": 1},
        "slope": {"up": 1, "flat": 2, "down": 3},
        "thal": {"normal": 3, "fixed_defect": 6, "reversable_defect": 7},
        "num": {"<50": 0, ">50_1": 1, ">50_2": 2, ">50_3": 3, ">50_4": 4},
    },
)


def fetch(copy: OpenmlCopy, header: tuple[str, ...]) -> list[list[float]]:
    """Download the copy and return its rows in the order of ``header``; a missing cell is NaN.

    Raises ``ConnectionError`` when the download fails and ``ValueError`` when it is not what was expected.
    """
    frame = _download(copy.data_id)
    columns = [_column(frame, copy, name) for name in header]
    return [list(row) for row in zip(*columns)]


def _download(data_id: int) -> pd.DataFrame:
    from sklearn import datasets

    try:
        with warnings.catch_warnings():
            # If the second attempt fails too, the error says so; if it succeeds, no warning is needed.
            warnings.filterwarnings("ignore", message="A network error occurred")
            found: pd.DataFrame = datasets.fetch_openml(data_id=data_id, as_frame=True, n_retries=1).frame
            return found
    except Exception as error:  # a download can fail in any layer, from sockets to the cache on disk
        reason = one_line(f"{type(error).__name__}: {error}")
        raise ConnectionError(f"the download of OpenML data set {data_id} failed ({reason})") from None


def _column(frame: pd.DataFrame, copy: OpenmlCopy, name: str) -> list[float]:
    theirs = copy.columns.get(name, name)
    if theirs not in frame.columns:
        raise ValueError(
            f"OpenML data set {copy.data_id} has no column {theirs!r}, only {', '.join(map(str, frame.columns))}"
        )
    cells, absent = frame[theirs].astype(object), frame[theirs].isna()
    return [math.nan if gone else _value(copy, name, cell) for cell, gone in zip(cells, absent)]


def _value(copy: OpenmlCopy, name: str, cell: Any) -> float:
    codes = copy.codes.get(name)
    try:
        return float(cell) if codes is None else float(codes[str(cell).strip("'\"")])
    except (KeyError, TypeError, ValueError):
        allowed = "a number" if codes is None else " or ".join(codes)
        raise ValueError(f"OpenML data set {copy.data_id}: {name} is {cell!r}, expected {allowed}") from None
