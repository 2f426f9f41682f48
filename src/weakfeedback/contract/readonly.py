"""Arrays that a policy borrows for a call: read-only; a write is reported with method, argument and line."""

import inspect
import linecache
import re
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from weakfeedback.contract.steps import Wrapper


class WritesToLoan(Exception):
    """A policy wrote to an array that it had borrowed."""


class Lender(Wrapper):
    """Wraps a policy and passes it read-only copies of its array arguments."""

    def __init__(self, policy: Any) -> None:
        super().__init__(policy)
        self.lent: list[np.ndarray] = []  # the arrays lent in the last call

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)
        return self._lending(name, found) if callable(found) else found

    def _lending(self, name: str, method: Any) -> Any:
        def lending(*given: Any, **named: Any) -> Any:
            arguments = [read_only(value) if isinstance(value, np.ndarray) else value for value in given]
            self.lent = [value for value in arguments if isinstance(value, np.ndarray)]
            words = list(inspect.signature(method).parameters)
            loans = {word: value for word, value in zip(words, arguments) if isinstance(value, np.ndarray)}
            try:
                result = method(*arguments, **named)
            except ValueError as error:
                if not loans or "read-only" not in str(error):
                    raise
                raise WritesToLoan(_words(type(self.wrapped), name, loans, error.__traceback__)) from None
            for word, before, after in zip(words, given, arguments):
                if isinstance(after, np.ndarray) and before.tobytes() != after.tobytes():
                    raise WritesToLoan(
                        f"{type(self.wrapped).__name__}.{name}() changes its argument {word!r}, which is lent read-only"
                    )
            return result

        return lending


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a copy that is read-only and cannot be made writeable again."""
    kept = array.copy()
    kept.flags.writeable = False
    return kept.view()


def writes_to_loan(error: ValueError, policy: Any) -> str | None:
    """Describe the write, if the error comes from a method of the policy that wrote to a borrowed array."""
    if "read-only" not in str(error):  # as NumPy says it
        return None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        if names and frame.f_locals.get(names[0]) is policy:
            given = {name: frame.f_locals.get(name) for name in names[1:]}
            loans = {
                name: value
                for name, value in given.items()
                if isinstance(value, np.ndarray) and not value.flags.writeable
            }
            written = any(_is_written(trace, array) for array in loans.values())
            return _words(type(policy), frame.f_code.co_name, loans, trace) if written else None
        trace = trace.tb_next
    return None


def frames_of(cls: type, trace: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Return the methods of a class in a traceback, with their lines, innermost last."""
    codes = {
        getattr(value, "__code__", None)
        for base in cls.__mro__
        for value in (getattr(part, "__func__", part) for part in vars(base).values())
    }
    found = []
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            found.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return found


def _words(cls: type, name: str, loans: dict[str, np.ndarray], trace: TracebackType | None) -> str:
    """Describe a write: the innermost method, the name of the argument there, and the line."""
    written = next((word for word in loans if _is_written(trace, loans[word])), next(iter(loans)))
    where, line = name, 0
    argument = written
    for frame, number in frames_of(cls, trace)[-1:]:
        where, line = frame.f_code.co_name, number
        argument = next(iter(_names(frame, loans[written])), written)
    place = f"{cls.__name__}.{where}()" + (f" line {line}" if line else "")
    return f"{place} writes to its argument {argument!r}, which is lent read-only"


def _is_written(trace: TracebackType | None, array: np.ndarray) -> bool:
    """Whether the last line of a traceback appears to write to an array."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    source = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    return _stores(source, trace.tb_frame, array)


def _names(frame: FrameType, array: np.ndarray) -> list[str]:
    """Return the names of an array in a frame."""
    return [
        name
        for name, value in frame.f_locals.items()
        if isinstance(value, np.ndarray) and np.shares_memory(value, array)
    ]


def _stores(source: str, frame: FrameType, array: np.ndarray) -> bool:
    """Whether a line of source looks as if it wrote to an array."""
    return any(
        re.search(
            rf"\b{name}\b\s*(\[.*\]\s*)?([-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)|\b{name}\.\w+\(|=\s*{name}\b",
            source,
        )
        for name in _names(frame, array)
    )
