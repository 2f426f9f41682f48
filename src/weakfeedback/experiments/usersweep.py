"""Run a user's experiment for several values of one key, and show them on one page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakfeedback.engine.results import Results
from weakfeedback.engine.store import StoreMismatch
from weakfeedback.engine.tables import Damaged, read_table, writer_of
from weakfeedback.experiments.userrun import PAGE, ROWS, key_of, play
from weakfeedback.figures import sweep_figure
from weakfeedback.files import write_atomically
from weakfeedback.plaintext import one_line
from weakfeedback.report.page import Section, write_report

if TYPE_CHECKING:
    from weakfeedback.experiments.userfile import Sweep

VALUES = "values"  # the folder that holds a folder for each value
WORD = "sweep"  # key of the metadata that says what was swept
MOST = 1000  # maximum number of values that a file may claim


@dataclass(frozen=True)
class Swept:
    """The outcome of a sweep: the key, its values, and the results for each of them."""

    key: str
    values: Sequence[Any]
    results: Sequence[Results]


def run_sweep(
    sweep: Sweep,
    folder: Path,
    command: str = "",
    workers: int | None = None,
    progress: bool = False,
    overwrite: bool = False,
) -> tuple[Swept, list[Path]]:
    """Simulate for each value, write the rows of all and the page; return the outcome and the paths.

    The files of the k-th value are kept in ``folder/values/k``, as a separate run would keep them.
    """
    results = []
    for k, experiment in enumerate(sweep.experiments, 1):
        found = play(experiment, folder / VALUES / str(k), command, workers, progress, overwrite)
        found.save(folder / VALUES / str(k) / ROWS)
        results.append(found)
    swept = Swept(sweep.key, sweep.values, results)
    _write_rows(swept, folder / ROWS)
    _remove_others(folder / VALUES, len(results))
    return swept, report(swept, folder)


def _write_rows(swept: Swept, path: Path) -> None:
    """Write the rows of all values to one file, with the key that was swept and its value."""
    import pandas as pd
    import pyarrow as pa

    numbers = _are_numbers(swept.values)
    parts = [
        found.frame.assign(swept=swept.key, swept_value=float(value) if numbers else _text(value))
        for value, found in zip(swept.values, swept.results, strict=True)
    ]
    rows = pd.concat(parts, ignore_index=True)
    names = [name for name in rows.columns if rows[name].dtype == object]
    table = pa.Table.from_pandas(rows.astype(dict.fromkeys(names, "category")), preserve_index=False)
    words = {word.decode(): value.decode() for word, value in (table.schema.metadata or {}).items()}
    values = [value if _are_numbers([value]) else _text(value) for value in swept.values]
    about = json.dumps({"key": swept.key, "values": values})
    write_atomically(path, writer_of(table, {**words, WORD: about}))


def _remove_others(folder: Path, count: int) -> None:
    """Remove the files left by an earlier sweep with more values."""
    k = count + 1
    while (folder / str(k)).is_dir() and not (folder / str(k)).is_symlink():
        shutil.rmtree(folder / str(k))
        k += 1


def is_sweep(folder: Path) -> bool:
    """Whether the rows in a folder are of a sweep."""
    try:
        return WORD in read_table(folder / ROWS)[1]
    except (OSError, Damaged, ValueError):
        return False


def refuse_other_kind(folder: Path, sweep: bool) -> None:
    """Refuse the results of a run without a sweep to one that has it, and the other way round."""
    if (folder / ROWS).exists() and is_sweep(folder) != sweep:
        kind = "without" if sweep else "with"
        raise StoreMismatch(f"{folder} has the results of a run {kind} a sweep; give another folder")


def rebuild(folder: Path) -> tuple[Swept, list[Path]]:
    """Write the page and the figures again from the rows; raise a one-line ValueError if there are none."""
    try:
        about = json.loads(read_table(folder / ROWS)[1][WORD])
        key, values = about["key"], about["values"]
        if not isinstance(key, str) or not isinstance(values, list) or not 0 < len(values) <= MOST:
            raise TypeError
        if not all(isinstance(value, (str, int, float)) for value in values):
            raise TypeError
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(f"{folder / ROWS} does not say what was swept") from None
    results = [Results.load(folder / VALUES / str(k) / ROWS) for k in range(1, len(values) + 1)]
    if any("seed" not in found.about for found in results):
        raise ValueError(f"{folder / ROWS} does not say with which seed it was made")
    swept = Swept(key, values, results)
    return swept, report(swept, folder)


def report(swept: Swept, folder: Path) -> list[Path]:
    """Write the page: the final regret against the value, then a section for each value."""
    first = swept.results[0].about
    title, key = first.get("title", folder.resolve().name), key_of(swept.results[0])
    numbers = _are_numbers(swept.values)
    axis = swept.key if numbers else f"{swept.key}, by its place in the list"
    by_value = {
        (float(value) if numbers else float(k)): found
        for k, (value, found) in enumerate(zip(swept.values, swept.results, strict=True), 1)
    }
    words = f"Mean regret in the last round against {axis}, with 95 % bands"
    figure = (f"{key}-by-{_file_name(swept.key)}", sweep_figure(by_value, axis), words)
    sections = [
        Section(f"{key}-{k}", f"{swept.key} = {_text(value)}", found)
        for k, (value, found) in enumerate(zip(swept.values, swept.results, strict=True), 1)
    ]
    return write_report(folder / PAGE, title, sections, leading=[figure])


def _file_name(word: str) -> str:
    """Return a word as a part of a file name."""
    return "".join(one if one.isalnum() else "-" for one in word[:60]).strip("-") or "value"


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _text(value: Any) -> str:
    """Return a value as text: numbers and words unchanged, the rest in TOML syntax."""
    return one_line(value if isinstance(value, str) else json.dumps(value, default=str), 80)
