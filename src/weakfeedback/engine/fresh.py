"""Copies of policies and worlds, made once per replication and therefore quick."""

import copy
from typing import Any

import numpy as np


def fresh(obj: Any) -> Any:
    """A copy of a plain object: its arrays are copied, those that cannot be written are shared."""
    made = object.__new__(type(obj))
    known: dict[int, Any] = {id(obj): made}  # two names of one thing stay two names of one thing
    fields = made.__dict__
    for name, value in vars(obj).items():
        kind = type(value)
        if kind is int or kind is float or kind is bool or (kind is np.ndarray and not value.flags.writeable):
            fields[name] = value
        elif kind is not np.ndarray:
            fields[name] = copy.deepcopy(value, known)
        else:
            if id(value) not in known:
                known[id(value)] = value.copy(order="C")
            fields[name] = known[id(value)]
    return made


def nan_field(state: dict[str, Any]) -> str | None:
    """The name of a field that holds NaN, or None."""
    for name, value in state.items():
        if type(value) is int or type(value) is bool:
            continue
        if isinstance(value, np.ndarray):
            if value.dtype.kind != "f" or not value.size:
                continue
            value = value.min()  # NaN if one of them is
        if isinstance(value, (float, np.floating)) and value != value:
            return name
    return None
