"""Finished chunks on disk: one Parquet file each, keyed by everything that determines its numbers.

A store belongs to one problem, horizon, set of marks and seed; it is refused for any other. Policies and replications
may be added or left out: a chunk is found again only if the policy's code and parameters, the problem, the range of
replications and the versions of NumPy, Numba and this package are the same. If the code or state of a policy cannot be
followed, nothing is stored for it, and a warning says so. A chunk that is damaged, or does not belong to its name, is
never used: ``damaged`` lists it, and it is made again.
"""

import hashlib
import importlib.metadata
import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback._version import __version__
from weakfeedback.canonical import hashed
from weakfeedback.engine.compiler.fingerprint import (
    CannotLower,
    class_fingerprint,
    fingerprint,
    name_of,
    reachable,
)
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.replication import Task
from weakfeedback.engine.tables import Damaged, read_table, writer_of
from weakfeedback.files import remove_old_parts, write_atomically
from weakfeedback.validate import brief

FORMAT = 1
CHUNKS = "chunks 2"  # format of the chunks; other formats are not found
SIGNED = "_units"  # suffix of counts that may be negative


class StoreError(ValueError):
    """The folder cannot be used; the message is one line."""


class StoreMismatch(StoreError):
    """The folder holds the chunks of another configuration."""


class Store:
    """A folder of finished chunks."""

    def __init__(
        self, folder: str | Path, problem: Any, marks: np.ndarray, seed: int, method: str = "rounds"
    ) -> None:
        self.folder = Path(folder)
        self.problem = problem
        self.configuration = {
            "format": FORMAT,
            "setting": problem.setting,
            "problem": problem.digest(),
            "horizon": int(marks[-1]),
            "marks": hashlib.sha256(marks.tobytes()).hexdigest(),
            "seed": seed,
        }
        if method != "rounds":
            self.configuration["method"] = method
        self._policies: dict[int, tuple[Any, str | None]] = {}  # by identity, so the policy is kept alive
        self.damaged: list[str] = []  # files that were found but not used
        self._open()

    def _open(self) -> None:
        manifest = self.folder / "store.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not manifest.exists():
                if any(self.folder.glob("*.parquet")):
                    raise StoreMismatch(
                        f"store {self.folder} has chunks but no store.json: give another folder"
                    )
                text = json.dumps(self.configuration, indent=1)
                write_atomically(manifest, lambda part: part.write_text(text))
            remove_old_parts(self.folder)
            found = json.loads(manifest.read_bytes())
        except OSError as error:
            raise StoreError(f"store {self.folder} cannot be used: {error.strerror or error}") from None
        except StoreError:
            raise
        except (ValueError, RecursionError):  # not JSON, or not text
            found = None
        if not isinstance(found, dict):
            raise StoreMismatch(f"store {self.folder} has an unreadable store.json: give another folder")
        for name, value in self.configuration.items():
            if found.get(name) != value:
                # a problem is stored as a digest, which tells nobody anything
                other = "another one" if name == "problem" else f"{brief(found.get(name))}, not {value!r}"
                raise StoreMismatch(
                    f"store {self.folder} belongs to another configuration: its {name} is {other}; "
                    "give another folder"
                )

    def path(self, task: Task) -> Path | None:
        """Return the path of a task's chunk; None when its policy's code cannot be followed."""
        policy = self._policies.get(id(task.policy))
        if policy is None:
            policy = self._policies[id(task.policy)] = (task.policy, self._key(task))
        if policy[1] is None:
            return None
        key = hashed(policy[1], str(task.first), str(task.last))
        return self.folder / f"{key[:40]}.parquet"

    def _key(self, task: Task) -> str | None:
        """Return a digest of everything but the range of replications."""
        try:
            words = [name_of(type(task.policy)), code_of(self.problem, task.policy)]
            words.append(_state_digest(vars(task.policy)))
            if task.method == "events":
                words.append(_source_of_events(self.problem, task.policy))
        except CannotLower as reason:
            warnings.warn(f"store {self.folder} stores nothing for {task.label!r}: {reason}", stacklevel=2)
            return None
        words += [
            json.dumps(self.configuration, sort_keys=True),
            np.__version__,
            importlib.metadata.version("numba"),
            __version__,
            CHUNKS,
        ]
        return hashed(*words)

    def get(self, task: Task) -> tuple[np.ndarray, bool | str] | None:
        """Return the finished chunk of a task and how it was played: True if compiled, or the reason why it was not.

        None if there is no chunk, or an invalid one, whose name is added to ``damaged``.
        """
        path = self.path(task)
        if path is None or not path.exists():
            return None
        try:
            return self._read(task, path)
        except (OSError, ValueError):
            self.damaged.append(path.name)
            return None

    def _read(self, task: Task, path: Path) -> tuple[np.ndarray, bool | str]:
        rows, words = read_table(path)
        names = self._names(task)
        expected = _labels(task)
        if words.get("key") != path.stem:
            raise Damaged("it is the chunk of another task")
        if rows.column_names != [*expected, *names] or rows.num_rows != expected["round"].size:
            raise Damaged("it has other rows or columns")
        columns = {name: rows[name].to_numpy() for name in rows.column_names}
        if any(values.dtype != np.int64 for values in columns.values()):
            raise Damaged("its columns have the wrong types")
        if any(not np.array_equal(columns[name], values) for name, values in expected.items()):
            raise Damaged("it has other replications or rounds")
        if any((columns[name] < 0).any() for name in names if not name.endswith(SIGNED)):
            raise Damaged("it has counts below 0")
        flat = np.stack([columns[name] for name in names], axis=-1)
        return flat.reshape(task.last - task.first, task.marks.size, len(names)), words["interpreted"] or True

    def _names(self, task: Task) -> tuple[str, ...]:
        """Return the names of the counts for the policy of a task."""
        return loop_for(self.problem, task.policy).counters(self.problem)

    def put(self, task: Task, table: np.ndarray, how: bool | str = True) -> None:
        """Store a finished chunk; ``how`` is True, or the reason why it was interpreted."""
        path = self.path(task)
        if path is None:
            return
        import pyarrow as pa

        names = self._names(task)
        flat = table.reshape(-1, len(names))
        columns = {**_labels(task), **{name: flat[:, k] for k, name in enumerate(names)}}
        words = {
            "policy": task.label,
            "version": __version__,
            "interpreted": how if isinstance(how, str) else "",
            "key": path.stem,
        }
        write_atomically(path, writer_of(pa.table(columns), words))


def _labels(task: Task) -> dict[str, np.ndarray]:
    """Return the columns that identify a row."""
    count = task.last - task.first
    return {
        "replication": np.repeat(np.arange(task.first, task.last), task.marks.size),
        "round": np.tile(task.marks, count),
    }


def code_of(problem: Any, policy: Any) -> str:
    """Return a digest of all code that plays a policy on a problem; ``CannotLower`` if some cannot be followed."""
    loop: Any = loop_for(problem, policy)
    code = class_fingerprint(type(policy), loop.entry, vars(policy))
    world = reachable(type(problem.world()), loop.world_entry)
    rounds = fingerprint({"play": loop.play, **world})
    return f"{code}|{rounds}"


def _source_of_events(problem: Any, policy: Any) -> str:
    """Return the source of the code that skips rounds; it calls libraries, so it cannot be followed."""
    try:
        places: list[Any] = [inspect.getmodule(loop_for(problem, policy).events), type(policy)]
        return "".join(inspect.getsource(place) for place in places)
    except (OSError, TypeError):
        raise CannotLower(f"the source of {type(policy).__name__} cannot be read") from None


def _state_digest(state: dict[str, Any]) -> str:
    return hashed(*(f"{name}={_canonical(name, value)}" for name, value in sorted(state.items())))


def _canonical(name: str, value: Any) -> str:
    """Return a text that is equal only for equal values; ``CannotLower`` for an object of unknown contents."""
    if type(value) is np.ndarray and value.dtype.kind in "biufcSU":
        return f"{value.dtype.str}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return f"{type(value).__name__} {value!r}"
    if type(value) in (list, tuple):
        return f"{type(value).__name__}({','.join(_canonical(name, part) for part in value)})"
    if type(value) is dict:
        return f"dict({','.join(f'{_canonical(name, k)}:{_canonical(name, v)}' for k, v in value.items())})"
    raise CannotLower(f"its field {name!r} is a {type(value).__name__}")
