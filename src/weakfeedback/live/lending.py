"""What policies are given is lent to them: who writes to it is told so, in the words of the compiler's reasons."""

from __future__ import annotations

import linecache
import re
from types import FrameType
from typing import Any

import numpy as np


def writes_to_lent(error: ValueError, policy: Any) -> str | None:
    """Return who wrote to what if the error comes from a method of the policy that did, else None."""
    if "read-only" not in str(error):  # as NumPy says it
        return None
    trace = error.__traceback__
    while trace is not None:
        frame, line = trace.tb_frame, trace.tb_lineno
        words = re.findall(r"\w+", linecache.getline(frame.f_code.co_filename, line))
        names = [name for name in _lent_to(frame, policy) if name in words]
        if names:
            method = f"{type(policy).__name__}.{frame.f_code.co_name}() line {line}"
            return f"{method} writes to {names[0]}, an array that is only to be read: write to a field"
        trace = trace.tb_next
    return None


def _lent_to(frame: FrameType, policy: Any) -> list[str]:
    """Return the arguments of a method of the policy that are lent arrays, none for other functions."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    if not names or frame.f_locals.get(names[0]) is not policy:
        return []
    given = ((name, frame.f_locals.get(name)) for name in names[1:])
    return [name for name, value in given if isinstance(value, np.ndarray) and not value.flags.writeable]
