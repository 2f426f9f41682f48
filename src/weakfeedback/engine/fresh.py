"""Copies of policies and worlds, made once per replication and therefore quick."""

import copy
from typing import Any

import numpy as np


def fresh(obj: Any) -> Any:
    """A copy of a plain object: its arrays are copied, those that cannot be written are shared."""
    made = object.__new__(type(obj))
    known: dict[int, Any] = {id(obj): made}  # two names of one thing stay two names of one thing
    for name, value in vars(obj).items():
        if type(value) is np.ndarray:
            if not value.flags.writeable:
                made.__dict__[name] = value
            else:
                if id(value) not in known:
                    known[id(value)] = value.copy(order="C")
                made.__dict__[name] = known[id(value)]
        elif type(value) in (int, float, bool):
            made.__dict__[name] = value
        else:
            made.__dict__[name] = copy.deepcopy(value, known)
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
