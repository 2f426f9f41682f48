"""Exceptions that arrive at a chosen line of the package, as a signal might."""

import contextlib
import inspect
import sys
from pathlib import Path

import weakfeedback

HOME = Path(weakfeedback.__file__).parent
WATCHED = tuple(
    str(HOME / name)
    for name in (
        "live/",
        "adaptive/",
        "cascade/",
        "contextual/",
        "allocation/",
        "multiplayer/",
        "engine/compiler/calls.py",
    )
)


class Interrupted(BaseException):
    """What nobody catches by mistake."""


class Watch:
    """Counts the lines of the package that are executed, and raises at one of them. A context.

    ``at`` is the number of the line event, from 0. With ``after`` a first exception comes when so many functions
    were entered or left, and lines are counted from then on: the interpreter drops a trace function that raises, so
    that the first one comes from a profile function.
    """

    def __init__(self, at=None, after=None):
        self.at, self.after = at, after
        self.lines = 0
        self.calls = 0
        self.raised = 0
        self.places = {}  # (code, line, line of the caller) -> number of the first event there

    def __enter__(self):
        self._before = sys.gettrace(), sys.getprofile()
        if self.after is not None:
            sys.setprofile(self._profile)
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error):
        sys.settrace(self._before[0])
        sys.setprofile(self._before[1])

    def _enter(self, frame, event, argument):
        return self._line if frame.f_code.co_filename.startswith(WATCHED) else None

    def _line(self, frame, event, argument):
        if event == "line" and (self.after is None or self.raised):
            number = self.lines
            self.lines += 1
            self.places.setdefault((frame.f_code, frame.f_lineno, frame.f_back.f_lineno), number)
            if number == self.at:
                self.raised += 1
                raise Interrupted
        return self._line

    def _profile(self, frame, event, argument):
        if frame.f_code.co_flags & inspect.CO_GENERATOR:
            return  # a generator is entered also when it is thrown away, where nobody would hear the exception
        if frame.f_code.co_filename.startswith(WATCHED):
            number = self.calls
            self.calls += 1
            if number == self.after:
                self.raised += 1
                raise Interrupted


def attempt(gesture, thing, at=None, after=None):
    """Make a gesture that is interrupted there; return the watch."""
    return next(_attempt(gesture, thing, at, after))


def _attempt(gesture, thing, at, after):
    """The same as a generator: the interpreter may go on to handle an exception raised at a handler's last line, and
    what is handled in a generator ends with it. Otherwise it would stand before the errors of all later tests, and keep
    what its frames hold.
    """
    with Watch(at, after) as watch, contextlib.suppress(Interrupted):
        gesture(thing)
    yield watch
