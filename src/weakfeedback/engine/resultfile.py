"""The file of some results: written with a digest, and checked from end to end before anything is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback._version import __version__
from weakfeedback.engine.tables import Damaged, read_table, writer_of
from weakfeedback.validate import brief

if TYPE_CHECKING:
    import pandas as pd

KEY = "weakfeedback"
LABELS = ("policy", "replication", "round")
LARGE = 2**63


def writer_of_results(
    frame: pd.DataFrame, compiled: dict[str, bool], reasons: dict[str, str], about: dict[str, Any]
) -> Callable[[Path], None]:
    """What writes the rows as Parquet into a file; the rest is JSON beside them."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False)
    words = {name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()}
    text = json.dumps({"version": __version__, "compiled": compiled, "reasons": reasons, "about": about})
    return writer_of(table, {**words, KEY: text})


def read_results(path: Path) -> tuple[pd.DataFrame, dict[str, bool], dict[str, Any], dict[str, str]]:
    """Rows, ``compiled``, ``about`` and ``reasons`` as written; a ``ValueError`` of one line for any other file."""
    try:
        table, words = read_table(path)
        kept = json.loads(words[KEY])
        compiled, about, reasons = kept["compiled"], kept["about"], kept["reasons"]
        frame = table.replace_schema_metadata(None).to_pandas()
    except OSError as error:
        raise _refused(path, error.strerror or "cannot be read") from None
    except Damaged as error:
        raise _refused(path, f"damaged, or not a file written by Results.save: {error}") from None
    except (KeyError, TypeError, ValueError, NotImplementedError, RecursionError):
        raise _refused(path, "not a file written by Results.save") from None
    wrong = _wrong_words(compiled, reasons, about) or _wrong_rows(frame, compiled)
    if wrong:
        raise _refused(path, f"not a file written by Results.save: {wrong}")
    return frame, compiled, about, reasons


def _refused(path: Path, reason: str) -> ValueError:
    return ValueError(f"cannot load results from {path}: {reason}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_words(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value)


# What pages and tables use of ``about``; other keys are the user's own.
KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("horizon", "seed"), _is_count),
    **dict.fromkeys(("setting", "problem", "experiment", "title", "instance", "command"), _is_text),
    **dict.fromkeys(("file", "method", "key", "stands_in_for"), _is_text),
    **dict.fromkeys(("facts", "sources"), _is_table),
    "versions": _is_words,
    "description": _is_pairs,
}


def _wrong_words(compiled: Any, reasons: Any, about: Any) -> str:
    """What is wrong with what stands beside the rows, or nothing."""
    if not isinstance(compiled, dict) or not all(isinstance(how, bool) for how in compiled.values()):
        return "compiled is no table of policies"
    if not _is_words(reasons) or not reasons.keys() <= compiled.keys():
        return "reasons is no table of policies"
    if not isinstance(about, dict):
        return "about is no table"
    if "horizon" not in about:
        return "horizon is missing"
    wrong = [name for name, right in KINDS.items() if name in about and not right(about[name])]
    if wrong:
        return f"{wrong[0]} is of another kind"
    return "horizon is too large" if about["horizon"] >= LARGE else ""


def _wrong_rows(frame: pd.DataFrame, compiled: dict[str, Any]) -> str:
    """What is wrong with the rows, or nothing: every policy has every mark of every replication once."""
    import pandas as pd

    if not frame.columns.is_unique or tuple(frame.columns[:3]) != LABELS:
        return "its columns are others"
    if "regret" not in frame.columns or not len(frame):
        return "it has no regret"
    if not isinstance(frame["policy"].dtype, pd.CategoricalDtype):
        return "its policies are no categories"
    if (
        any(frame[name].dtype.kind not in "iu" for name in LABELS[1:])
        or frame["regret"].dtype.kind not in "iuf"
    ):
        return "its columns are of other kinds"
    if set(frame["policy"].cat.categories) != set(compiled):
        return "its policies are others than it says"
    marks = np.sort(frame["round"].unique())
    for policy in compiled:
        rows = frame.loc[frame["policy"] == policy, ["replication", "round"]].sort_values(
            ["replication", "round"]
        )
        if not len(rows) or len(rows) % marks.size:
            return f"it has not all rows of {brief(policy)}"
        seen = rows["replication"].to_numpy().reshape(-1, marks.size)
        rounds = rows["round"].to_numpy().reshape(-1, marks.size)
        if (seen != seen[:, :1]).any() or (np.diff(seen[:, 0]) <= 0).any() or (rounds != marks).any():
            return f"it has not all rows of {brief(policy)}"
    return ""
