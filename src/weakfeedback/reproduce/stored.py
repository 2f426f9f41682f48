"""The files of a reproduction: rows per experiment, and a note on what was requested."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from weakfeedback._version import __version__
from weakfeedback.canonical import hashed
from weakfeedback.engine.results import Results
from weakfeedback.experiments.run import Planned
from weakfeedback.files import write_atomically
from weakfeedback.reproduce.findings import code_digest
from weakfeedback.reproduce.medical import SETS
from weakfeedback.validate import brief

FORMAT = 1
NOTE, ROWS, CHUNKS, FINDINGS, PAGE = "reproduction.json", "results.parquet", "store", "findings", "report"


class NotAReproduction(ValueError):
    """A folder without a finished reproduction that this version can read; the message is one line."""


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Manifest:
    """What was requested of a finished reproduction, and what could not be run.

    ``keys`` holds by experiment the digest of its results, ``skipped`` the reason why there are none, ``data`` by
    data set the digest of its rows or "".
    """

    keys: dict[str, str]
    skipped: dict[str, str]
    data: dict[str, str]
    quick: bool
    folder: str = ""  # the folder of the medical data sets
    given: bool = False  # whether it was given on the command line, not by the environment
    version: str = __version__
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.keys.keys() & self.skipped.keys() or not set(self.data) <= set(SETS):
            raise ValueError("an experiment has results or none, and data are of a known set")

    @property
    def options(self) -> list[str]:
        """Return the command-line options that change what is played."""
        return [*(["--quick"] if self.quick else []), *(["--data", self.folder] if self.given else [])]

    def write(self, folder: Path) -> None:
        """Write the note into the folder of the reproduction."""
        text = json.dumps(asdict(self), indent=1)
        write_atomically(folder / NOTE, lambda part: part.write_text(text))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read what ``write`` wrote."""
        try:
            kept = json.loads((folder / NOTE).read_bytes())
            if kept.get("format") != FORMAT:
                raise NotAReproduction(
                    f"{folder / NOTE}: has format {brief(kept.get('format'))}, this version reads {FORMAT}; run "
                    "`weakfeedback reproduce` with another --out"
                )
            return cls(**kept)
        except OSError as error:
            raise NotAReproduction(f"{folder / NOTE}: {error.strerror or error}") from None
        except NotAReproduction:
            raise
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise NotAReproduction(f"{folder / NOTE}: is not the note of a reproduction") from None


class StoredResults(Mapping[str, Results]):
    """The results of a reproduction by experiment id, read from disk on demand; the latest stay in memory."""

    def __init__(self, folder: Path, ids: Mapping[str, Any], data: Any = None) -> None:
        self.folder, self._ids = folder, dict(ids)
        self.data = data  # the folder of the medical data sets
        self._read = functools.lru_cache(maxsize=64)(self._load)

    def _load(self, name: str) -> Results:
        path = rows_of(self.folder, name)
        try:
            found = Results.load(path)
        except ValueError as error:
            raise NotAReproduction(f"{error}; run `weakfeedback reproduce` again to make them") from None
        made = (found.about.get("experiment", name), found.about.get("key", self._ids[name]))
        if made != (name, self._ids[name]):
            raise NotAReproduction(
                f"{path}: has the results of something else; run `weakfeedback reproduce` again to make them"
            )
        return found

    def __getitem__(self, name: str) -> Results:
        if name not in self._ids:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


def rows_of(folder: Path, name: str) -> Path:
    """Return the file with the rows of an experiment."""
    return folder / name / ROWS


def results_key(planned: Planned) -> str:
    """Return a digest of everything that determines the results and what is said about them."""
    made = planned.plan.key()
    if made is None:
        return ""
    return hashed(made, code_digest(), json.dumps(planned.about, sort_keys=True, default=str))[:40]


def kept_key(folder: Path, name: str) -> str:
    """Return the digest of the results that the folder has for an experiment; "" if it has none."""
    try:
        return str(Results.load(rows_of(folder, name)).about.get("key", ""))
    except ValueError:
        return ""  # absent or damaged: computed again from the chunks


def save(folder: Path, planned: Planned, key: str) -> None:
    """Write the rows of a finished experiment, labelled with experiment, instance and parameters."""
    results = planned.results()
    parameters = {label: _parameters(policy) for label, policy in planned.plan.policies.items()}
    path = rows_of(folder, planned.experiment.id)
    path.parent.mkdir(parents=True, exist_ok=True)
    name, instance = planned.experiment.id, planned.about["instance"]
    results.labelled(name, instance, parameters, {"key": key}).save(path)


def _parameters(policy: Any) -> str:
    """Return the numbers a policy starts with, as JSON."""
    plain = {name: value for name, value in vars(policy).items() if isinstance(value, (bool, int, float))}
    return json.dumps({"policy": type(policy).__name__, **plain}, sort_keys=True)
