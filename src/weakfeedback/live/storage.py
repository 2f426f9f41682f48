"""Saved states: versioned JSON with a checksum, written atomically.

Nothing is executed on loading (no pickle). A file that is truncated, altered, of another kind or of a later
format raises `StateError`; nothing is restored from it.
"""

from __future__ import annotations

import copy
import json
import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from weakfeedback._version import __version__
from weakfeedback.canonical import hashed, json_text
from weakfeedback.files import write_atomically
from weakfeedback.validate import brief

FORMAT = 3
OLDER = (1, 2)  # formats that were never released
# The JSON types of the items of an array, by the kind of its dtype.
ITEMS: dict[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}


class StateError(ValueError):
    """A saved state cannot be restored."""


def file_at(path: Any) -> Path:
    """Return the path of a file, or raise ValueError if it is not a path."""
    try:
        name = os.fspath(path)
    except TypeError:
        name = None
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"path must be the name of a file, a str or Path, got {brief(path)}")
    return Path(name)


def write(path: str | os.PathLike[str], kind: str, body: dict[str, Any]) -> None:
    """Write the state of an object, atomically: ``path`` always holds a whole file, the old or the new one."""
    target = Path(path).resolve()
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o600
    # The keys are sorted, as in `_dump`, so that the body, which may be large, is dumped only once.
    head = f'{{"body":{json_text(body)},'
    tail = json_text({"kind": kind, "format": FORMAT, "package": __version__})[1:]
    text = f'{head}"checksum":"{hashed(head + tail)}",{tail}'

    def fill(part: Path) -> None:
        part.chmod(mode)
        part.write_text(text, encoding="ascii")

    write_atomically(target, fill)


def read(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Return the body of a state that `write` wrote, or raise `StateError`."""
    return read_one_of(path, (kind,))[1]


def read_one_of(path: str | os.PathLike[str], kinds: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """Return the kind, one of ``kinds``, and the body of a state that `write` wrote, or raise `StateError`."""
    try:
        document = json.loads(Path(path).read_bytes().decode("ascii"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise StateError(f"{path} is not a saved state: it is damaged or of another origin") from None
    keys = {"kind", "format", "package", "body", "checksum"}
    if not isinstance(document, dict) or not keys <= set(document):
        raise StateError(f"{path} is not a saved state: it is damaged or of another origin")
    kind = document["kind"]
    if kind not in kinds:
        raise StateError(f"{path} holds the state of {kind!r:.60}, not of {' or '.join(map(repr, kinds))}")
    if document["format"] in OLDER:
        raise StateError(
            f"{path} has format {document['format']}, of a version before the first release, which is read no more; "
            f"this version, {__version__}, reads format {FORMAT}: begin anew, and learn from your logs by warm_start"
        )
    if type(document["format"]) is int and document["format"] > FORMAT:
        raise StateError(
            f"{path} has format {document['format']}, written by version {document['package']}; "
            f"this version, {__version__}, reads up to format {FORMAT}"
        )
    checksum = document.pop("checksum")
    if (
        document["format"] != FORMAT
        or set(document) != keys - {"checksum"}
        or checksum != _checksum(document)
    ):
        raise StateError(f"{path} is damaged: its checksum does not match")
    if not isinstance(document["body"], dict):
        raise StateError(f"{path} holds no state")
    return kind, document["body"]


def checked_copy(state: Any) -> dict[str, Any]:
    """Return an independent copy of what `state()` returned, or of its JSON form, or raise `StateError`."""
    if not isinstance(state, dict):
        raise StateError(f"a state must be a dict, as state() gives it, got {state!r:.60}")
    try:
        return dict(json.loads(json_text(state)))
    except (TypeError, ValueError, RecursionError):
        raise StateError("the state holds what is no JSON data: give what state() gave") from None


def _checksum(document: Any) -> str:
    # Python writes floats so that they can be read back exactly: parsed data dumps to the same text.
    try:
        return hashed(json_text(document))
    except (ValueError, RecursionError):
        return "a number that cannot be dumped"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def require(what: str, value: Any, keys: Mapping[str, type | tuple[type, ...]]) -> None:
    """Raise `StateError` unless ``value`` is a dict of exactly these keys and types (True is no integer)."""
    if not isinstance(value, dict) or set(value) != set(keys):
        raise StateError(f"the {what} must hold exactly: {', '.join(keys)}")
    for key, kinds in keys.items():
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        if type(value[key]) not in allowed:
            raise StateError(f"{key} of the {what} is of the wrong type: {value[key]!r:.60}")


def encoded_counts(counts: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return these fields of counts as JSON data."""
    return {name: encode(getattr(counts, name)) for name in names}


def restored_counts(state: Any, fresh: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `encoded_counts` was given, with the types of ``fresh``, or raise `StateError`."""
    if not isinstance(state, dict) or set(state) != set(fresh):
        raise StateError(f"the counts must hold exactly: {', '.join(fresh)}")
    return {name: restored(name, born, state[name]) for name, born in fresh.items()}


def integer_ids(values: list[Any]) -> list[int]:
    """Return the ids that a ledger holds, or raise `StateError`."""
    if not all(type(value) is int for value in values):
        raise StateError("the ids of the ledger must be integers")
    return values


def id_pairs(values: list[Any]) -> list[tuple[int, Any]]:
    """Return pairs that start with an id, or raise `StateError`."""
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in values):
        raise StateError("the ledger must list pairs that start with an id")
    integer_ids([pair[0] for pair in values])
    return [(pair[0], pair[1]) for pair in values]


def count_of(body: Any, key: str) -> int:
    """Return the length of a list in a state; raise `StateError` if there is no such list."""
    value = body.get(key) if isinstance(body, dict) else None
    if not isinstance(value, list):
        raise StateError(f"{key} of the state is of the wrong type: {value!r:.60}")
    return len(value)


def encode(value: Any) -> Any:
    """Return None, a bool, a number, a string, an array or a list of these as JSON data."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": repr(value)} if not math.isfinite(value) else value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        flat = value.ravel().tolist()
        if value.dtype.char == "g" or not np.isfinite(value).all():  # long doubles are refused
            flat = [encode(item) for item in flat]
        return {"dtype": value.dtype.name, "shape": list(value.shape), "data": flat}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    raise ValueError(f"only numbers, bools, strings and arrays of numbers can be saved, got {value!r:.80}")


def decode(data: Any) -> Any:
    """Return what `encode` was given; tuples come back as lists."""
    if isinstance(data, list):
        return [decode(item) if isinstance(item, (list, dict)) else item for item in data]
    if not isinstance(data, dict):
        return data
    if set(data) == {"float"} and data["float"] in ("inf", "-inf", "nan"):
        return float(data["float"])
    require("array", data, {"dtype": str, "shape": list, "data": list})
    values = decode(data["data"])
    try:
        dtype = np.dtype(data["dtype"])
        # NumPy would silently truncate 1.5 to an integer.
        fits = set(map(type, values)) <= ITEMS.get(dtype.kind, set())
        array = np.array(values if fits else None, dtype=dtype).reshape(data["shape"])
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits or list(array.shape) != data["shape"]:
        raise StateError(f"an array of {data['dtype']!r:.40} and shape {data['shape']!r:.60} is damaged")
    return array


def encode_fields(policy: Any) -> dict[str, Any]:
    """Return the fields of a policy as JSON data."""
    if not hasattr(policy, "__dict__"):
        raise ValueError(f"{type(policy).__name__} has no fields that can be saved (it uses __slots__)")
    arrays = [(name, value) for name, value in vars(policy).items() if isinstance(value, np.ndarray)]
    for k, (name, value) in enumerate(arrays):
        for other, before in arrays[:k]:
            if value.size and before.size and np.shares_memory(value, before):
                raise ValueError(
                    f"the fields {other} and {name} of {type(policy).__name__} share memory, which no file can tell: "
                    "copy one of them"
                )
    added: dict[str, Any] = getattr(type(policy), "before", {})
    encoded = {}
    for name, value in vars(policy).items():
        if name in added and np.all(added[name] == value):
            continue  # as in states from before the field was added
        try:
            encoded[name] = encode(value)
        except ValueError as error:
            raise ValueError(f"the field {name} of {type(policy).__name__}: {error}") from None
    return encoded


def restore_fields(fresh: Any, fields: Any) -> Any:
    """Return a copy of the new policy ``fresh`` with the saved fields, each with the type it has in ``fresh``.

    A field that was added to the policy since the save keeps its initial value, or gets the one in its ``before``, so
    that the policy goes on as it did. Arrays of a policy that keeps its history (``keeps_history = True``) may be
    longer, all by the same number of rows.
    """
    born = vars(fresh)
    if not isinstance(fields, dict) or not fields.keys() <= born.keys() or (born and not fields):
        found = ", ".join(sorted(fields)) if isinstance(fields, dict) else repr(fields)
        raise StateError(
            f"{type(fresh).__name__} has the fields {', '.join(sorted(born))}, the file has {found}"
        )
    policy = copy.copy(fresh)
    grows = bool(getattr(fresh, "keeps_history", False))
    # of the class: policies have fields of this name
    added: dict[str, Any] = getattr(type(fresh), "before", {})
    for name, value in added.items():
        first = born[name]
        vars(policy)[name] = np.full_like(first, value) if isinstance(first, np.ndarray) else value
    for name, value in fields.items():
        vars(policy)[name] = restored(name, born[name], value, grows)
    arrays = [(vars(policy)[name], first) for name, first in born.items() if isinstance(first, np.ndarray)]
    if len({len(array) for array, first in arrays if array.shape != first.shape}) > 1:
        raise StateError(f"the arrays in which {type(fresh).__name__} keeps its history differ in length")
    return policy


def restored(name: str, born: Any, data: Any, grows: bool = False) -> Any:
    """Return the saved value of a field, with the type of ``born``, its initial value.

    If ``grows`` is true, an array may have more rows than initially.
    """
    value = decode(data)
    if isinstance(born, np.ndarray):
        fits = isinstance(value, np.ndarray) and value.dtype == born.dtype and value.ndim == born.ndim
        longer = grows and fits and born.ndim > 0 and len(value) > len(born)
        fits = fits and (value.shape == born.shape or (longer and value.shape[1:] == born.shape[1:]))
    elif isinstance(born, (bool, np.bool_)):
        fits = type(value) is bool
    elif isinstance(born, (int, np.integer)):
        fits = type(value) is int
    elif isinstance(born, (float, np.floating)):
        fits = type(value) in (int, float)
    else:
        raise StateError(f"the field {name} is a {type(born).__name__}, which cannot be restored")
    if not fits:
        raise StateError(
            f"the field {name} does not fit: the policy has {_word(born)}, the file {_word(value)}"
        )
    try:
        return value if isinstance(born, np.ndarray) else type(born)(value)
    except (ValueError, OverflowError):
        raise StateError(f"the field {name} does not fit {_word(born)}: {value!r:.60}") from None


def _word(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype.name} and shape {value.shape}"
    return f"a value of type {type(value).__name__}"


def encode_generator(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator over PCG64 as JSON data."""
    return dict(json.loads(json.dumps(rng.bit_generator.state)))


def restore_generator(state: Any) -> np.random.Generator:
    """Return a generator that continues where the saved one stopped."""
    require("generator", state, {"bit_generator": str, "state": dict, "has_uint32": int, "uinteger": int})
    require("generator", state["state"], {"state": int, "inc": int})
    small = state["has_uint32"] in (0, 1) and 0 <= state["uinteger"] < 2**32
    if (
        state["bit_generator"] != "PCG64"
        or not small
        or not all(0 <= x < 2**128 for x in state["state"].values())
    ):
        raise StateError("the generator's state is damaged")
    bits = np.random.PCG64(0)
    bits.state = state
    return np.random.Generator(bits)


def is_consistent(
    state: dict[str, Any], waiting: dict[int, Any], answered: Mapping[int, Any], limit: int, most_runs: int
) -> bool:
    """Return whether the parts of the state of a ledger agree with each other."""
    ids, runs = [*waiting, *answered], state["runs"]
    following, rounds, floor = state["next"], state["rounds"], state["floor"]
    forgotten = sum(last - first + 1 for first, last in runs)

    def was_forgotten(id: int) -> bool:
        k = bisect_right(runs, id, key=lambda run: run[0])
        return k > 0 and runs[k - 1][1] >= id

    return (
        len(set(ids)) == len(state["pending"]) + len(state["answered"])
        and 0 <= floor < following
        and len(runs) <= most_runs
        and all(floor < first <= last < following for first, last in runs)
        and all(before[1] + 1 < after[0] for before, after in pairwise(runs))
        and all(0 < id < following and not was_forgotten(id) for id in ids)
        and list(waiting) == sorted(waiting)
        and all(isinstance(digest, str) for digest in answered.values())
        and len(waiting) <= limit
        and len(answered) <= state["remember"]
        and 0 <= rounds - forgotten - len(answered) <= floor
        and rounds + len(waiting) < following
    )


def intervals_without(intervals: list[tuple[int, int]], ids: list[int]) -> list[tuple[int, int]]:
    """Return increasing intervals of ids without some of their ids, which increase too."""
    found = []
    for first, last in intervals:
        for id in ids[bisect_left(ids, first) : bisect_right(ids, last)]:
            if first < id:
                found.append((first, id - 1))
            first = id + 1
        if first <= last:
            found.append((first, last))
    return found
