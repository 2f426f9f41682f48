"""Finished chunks on disk: one Parquet file each, keyed by everything that determines its numbers.

A store belongs to one problem, horizon, set of marks and seed; it is refused for any other. Policies and
replications may come and go: a chunk is found again only if the policy's code and parameters, the problem,
the range of replications and the versions of NumPy, Numba and this package are the same. Of a policy whose code
or state cannot be followed nothing is kept, with a warning.
"""

import hashlib
import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback._version import __version__
from weakfeedback.engine.chunk import Task
from weakfeedback.engine.digest import CannotLower, class_fingerprint, fingerprint, name_of, reachable
from weakfeedback.engine.loop import loop_for
from weakfeedback.files import write_atomically

FORMAT = 1


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
        self._policies: dict[int, tuple[Any, str | None]] = {}  # by identity; the policy is kept alive
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
            found = json.loads(manifest.read_text())
        except OSError as error:
            raise StoreError(f"store {self.folder} cannot be used: {error.strerror or error}") from None
        except json.JSONDecodeError:
            raise StoreMismatch(
                f"store {self.folder} has an unreadable store.json: give another folder"
            ) from None
        for name, value in self.configuration.items():
            if found.get(name) != value:
                raise StoreMismatch(
                    f"store {self.folder} belongs to another configuration: its {name} is "
                    f"{found.get(name)!r}, not {value!r}; give another folder"
                )

    def path(self, task: Task) -> Path | None:
        """Where the chunk of a task is kept; None when its policy's code cannot be followed."""
        policy = self._policies.get(id(task.policy))
        if policy is None:
            policy = self._policies[id(task.policy)] = (task.policy, self._key(task))
        if policy[1] is None:
            return None
        text = f"{policy[1]}|{task.first}|{task.last}"
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.parquet"

    def _key(self, task: Task) -> str | None:
        """A digest of everything but the range of replications."""
        import numba

        try:
            words = [name_of(type(task.policy)), code_of(self.problem, task.policy)]
            words.append(_state_digest(vars(task.policy)))
            if task.method == "events":
                words.append(_source_of_events(self.problem, task.policy))
        except CannotLower as reason:
            warnings.warn(f"store {self.folder} keeps nothing of {task.label!r}: {reason}", stacklevel=2)
            return None
        words += [
            json.dumps(self.configuration, sort_keys=True),
            np.__version__,
            numba.__version__,
            __version__,
        ]
        return hashlib.sha256("|".join(words).encode()).hexdigest()

    def get(self, task: Task) -> np.ndarray | None:
        """The finished chunk of a task, or None."""
        path = self.path(task)
        if path is None or not path.exists():
            return None
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            names = self._names(task)
            columns = pq.read_table(path, columns=list(names))
        except (OSError, pa.ArrowInvalid):
            return None  # a damaged file is made again
        shape = (task.last - task.first, task.marks.size, len(names))
        if columns.num_rows != shape[0] * shape[1]:
            return None
        flat = np.stack([columns[name].to_numpy() for name in names], axis=-1)
        return flat.reshape(shape)

    def _names(self, task: Task) -> tuple[str, ...]:
        """What is counted for the policy of a task."""
        return loop_for(self.problem, task.policy).counters(self.problem)

    def made(self, task: Task) -> bool | str:
        """How a stored chunk was played: True if compiled, or the reason why it was interpreted."""
        import pyarrow.parquet as pq

        known = pq.read_schema(self.path(task)).metadata or {}
        return known.get(b"interpreted", b"").decode() or True

    def put(self, task: Task, table: np.ndarray, how: bool | str = True) -> None:
        """Keep a finished chunk; ``how`` is True, or the reason why it was interpreted."""
        path = self.path(task)
        if path is None:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        replications = np.repeat(np.arange(task.first, task.last), task.marks.size)
        columns = {"replication": replications, "round": np.tile(task.marks, task.last - task.first)}
        names = self._names(task)
        flat = table.reshape(-1, len(names))
        columns.update((name, flat[:, k]) for k, name in enumerate(names))
        known = {
            "policy": task.label,
            "version": __version__,
            "interpreted": how if isinstance(how, str) else "",
        }
        rows = pa.table(columns).replace_schema_metadata(known)
        write_atomically(path, lambda part: pq.write_table(rows, part))


def code_of(problem: Any, policy: Any) -> str:
    """A digest of all code that plays a policy on a problem; ``CannotLower`` if some cannot be followed."""
    loop: Any = loop_for(problem, policy)
    code = class_fingerprint(type(policy), loop.entry, vars(policy))
    world = reachable(type(problem.world()), loop.world_entry)
    rounds = fingerprint({"play": loop.play, **world})
    return f"{code}|{rounds}"


def _source_of_events(problem: Any, policy: Any) -> str:
    """The text of all that skips rounds; it calls libraries, so that its code cannot be followed."""
    try:
        places: list[Any] = [inspect.getmodule(loop_for(problem, policy).events), type(policy)]
        return "".join(inspect.getsource(place) for place in places)
    except (OSError, TypeError):
        raise CannotLower(f"the source of {type(policy).__name__} cannot be read") from None


def _state_digest(state: dict[str, Any]) -> str:
    words = [f"{name}={_canonical(name, value)}" for name, value in sorted(state.items())]
    return hashlib.sha256("|".join(words).encode()).hexdigest()


def _canonical(name: str, value: Any) -> str:
    """A text that is the same for equal values only; ``CannotLower`` for a thing whose contents are unknown."""
    if type(value) is np.ndarray and value.dtype.kind in "biufcSU":
        return f"{value.dtype.str}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return f"{type(value).__name__} {value!r}"
    if type(value) in (list, tuple):
        return f"{type(value).__name__}({','.join(_canonical(name, part) for part in value)})"
    if type(value) is dict:
        return f"dict({','.join(f'{_canonical(name, k)}:{_canonical(name, v)}' for k, v in value.items())})"
    raise CannotLower(f"its field {name!r} is a {type(value).__name__}")
