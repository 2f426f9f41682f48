"""Findings of claims' tests, cached on disk under a digest of the code and of their inputs."""

from __future__ import annotations

import dataclasses
import errno
import functools
import hashlib
import importlib.metadata
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from weakfeedback.canonical import hashed
from weakfeedback.experiments.model import Claim, Finding, Part, Run
from weakfeedback.files import write_atomically

# Packages, and a module, that show or use the numbers of the thesis but do not produce them.
ASIDE = ("adapters", "apps", "checks", "cli", "figures.py", "journal", "live", "report", "serve")


@functools.cache
def code_digest() -> str:
    """Return a digest of this package's code and of the libraries that the numbers depend on."""
    import weakfeedback

    return digest_of(Path(str(weakfeedback.__file__)).parent)


def digest_of(root: Path) -> str:
    """Return the same for a package in any folder: of all its packages except those in ``ASIDE``."""
    hasher = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        if place.parts[0] not in ASIDE:
            hasher.update(place.as_posix().encode() + b"\0" + path.read_bytes())
    for name in ("numpy", "scipy", "numba", "scikit-learn"):
        hasher.update(f"{name} {importlib.metadata.version(name)}".encode())
    return hasher.hexdigest()[:16]


class Findings:
    """A folder with one file per claim.

    Parameters
    ----------
    folder : Path
    keys : mapping
        By experiment id the digest of its results; an experiment that was not run is absent.
    data : mapping
        By data set the digest of its rows, "" if missing.
    """

    def __init__(self, folder: Path, keys: Mapping[str, str], data: Mapping[str, str]) -> None:
        self.folder, self.keys, self.data = folder, keys, data

    def key(self, claim: Claim) -> str:
        """Return a digest of everything that determines the finding of the claim's test."""
        read = [f"{name}={self.keys.get(name, '')}" for name in claim.experiments]
        words = [code_digest(), str(claim.number), *read, json.dumps(dict(self.data), sort_keys=True)]
        return hashed(*words)[:40]

    def get(self, claim: Claim) -> Finding | None:
        """Return the finding of an earlier run, if nothing has changed."""
        try:
            kept = json.loads(self._path(claim).read_text())
            if kept["key"] == self.key(claim):
                parts = tuple(Part(**part) for part in kept["finding"].pop("parts"))
                return Finding(parts, **kept["finding"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass  # absent or damaged: computed again
        return None

    def find(self, claim: Claim, results: Callable[[], Run]) -> Finding | None:
        """Return the finding of the claim's test, from disk if available; None if there is no test."""
        if claim.test is None:
            return None
        found = self.get(claim)
        if found is None:
            found = claim.test(results())
            text = json.dumps({"key": self.key(claim), "finding": dataclasses.asdict(found)}, default=float)
            if self.folder.is_symlink():
                raise OSError(errno.ELOOP, "is a link to another place: remove it", str(self.folder))
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path(claim), lambda part: part.write_text(text))
        return found

    def _path(self, claim: Claim) -> Path:
        return self.folder / f"claim-{claim.number}.json"


class Aside:
    """Runs tests that read no results in a separate thread while experiments are played."""

    def __init__(self, findings: Findings, claims: Iterable[Claim], data: Any) -> None:
        self._todo = [claim for claim in claims if claim.test is not None and not claim.experiments]
        self._findings, self._data = findings, data
        self._stop = threading.Event()
        self._error: BaseException | None = None
        # a daemon: an interrupted run must not wait for a test of many seconds
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for claim in self._todo:
                if self._stop.is_set():
                    return
                self._findings.find(claim, lambda: Run({}, self._data))
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        """Wait until all tests are done; raise what a test raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Start no further test."""
        self._stop.set()
