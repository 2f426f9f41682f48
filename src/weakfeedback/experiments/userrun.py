"""Run a user's experiment and write its results: rows, page, figures."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import platform
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakfeedback._version import __version__
from weakfeedback.engine.results import Results
from weakfeedback.engine.simulate import simulate
from weakfeedback.engine.store import StoreMismatch
from weakfeedback.report.page import Section, write_report

if TYPE_CHECKING:
    from weakfeedback.experiments.userfile import UserExperiment

ROWS, PAGE, CHUNKS = "results.parquet", "report", "store"


def run_file(
    experiment: UserExperiment,
    folder: Path,
    command: str = "",
    workers: int | None = None,
    progress: bool = False,
    overwrite: bool = False,
) -> tuple[Results, list[Path]]:
    """Simulate and write ``results.parquet`` and ``report/`` into ``folder``.

    Finished chunks are kept in ``folder/store``, so a run that was stopped continues where it was. Chunks of another
    configuration are refused, or removed with ``overwrite``. The results of an earlier run stay until the new ones are
    complete. Return the results and the paths written, the page first.
    """
    results = play(experiment, folder, command, workers, progress, overwrite)
    results.save(folder / ROWS)
    return results, report(results, folder)


def play(
    experiment: UserExperiment,
    folder: Path,
    command: str,
    workers: int | None,
    progress: bool,
    overwrite: bool,
) -> Results:
    """Simulate, with finished chunks in ``folder/store``."""

    def simulated() -> Results:
        return simulate(
            experiment.problem,
            experiment.policies,
            horizon=experiment.horizon,
            replications=experiment.replications,
            seed=experiment.seed,
            marks=experiment.marks,
            executor=executor,
            store=folder / CHUNKS,
            progress=progress,
            method=experiment.method,
        )

    executor = ThreadPoolExecutor(workers) if workers else None
    try:
        results = simulated()
    except StoreMismatch:
        if not overwrite:
            raise
        _remove_chunks(folder / CHUNKS)
        results = simulated()
    finally:
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)  # a policy that never returns is abandoned
    return _add_labels(results, experiment, command)


def _remove_chunks(store: Path) -> None:
    """Remove the files of a store, and nothing else; a link to elsewhere is left alone."""
    if store.is_symlink():
        raise OSError(errno.ELOOP, "is a link to another place: remove it", str(store))
    for path in (store / "store.json", *store.glob("*.parquet")):
        path.unlink(missing_ok=True)


def _add_labels(results: Results, experiment: UserExperiment, command: str) -> Results:
    """Return the results with the metadata that readers of the rows or the page need."""
    parameters = {
        label: json.dumps(found, sort_keys=True, default=str)
        for label, found in experiment.parameters.items()
    }
    about = {
        "experiment": experiment.name,
        "title": experiment.title,
        "instance": experiment.instance,
        "description": experiment.setting.describe_problem(experiment.problem),
        "facts": experiment.setting.facts_of(experiment.problem),
        "command": command,
        "file": experiment.text,
        "versions": versions(),
    }
    return results.labelled(experiment.name, experiment.instance, parameters, about)


def rebuild(folder: Path) -> tuple[Results, list[Path]]:
    """Write the page and the figures again from ``results.parquet``; return the results and the paths."""
    results = Results.load(folder / ROWS)
    if "seed" not in results.about:
        raise ValueError(f"{folder / ROWS} does not say with which seed it was made")
    return results, report(results, folder)


def report(results: Results, folder: Path) -> list[Path]:
    """Write the page and the figures of results into ``folder/report``."""
    title = results.about.get("title", folder.resolve().name)
    return write_report(folder / PAGE, title, [Section(key_of(results), title, results)])


def key_of(results: Results) -> str:
    """Return the name of the experiment as a file name."""
    return re.sub(r"[^\w.-]+", "-", results.about.get("experiment", "results")).strip("-._") or "results"


def versions() -> dict[str, str]:
    """Return the versions that produced the numbers."""
    found: dict[str, Any] = {"weakfeedback": __version__, "Python": platform.python_version()}
    found.update((name, importlib.metadata.version(name)) for name in ("numpy", "numba"))
    return found
