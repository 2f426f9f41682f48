"""Compiled functions: helpers, the way into a function for arguments of known types, and what they depend on."""

from typing import Any

import numba
from numba import config, njit
from numba.core.registry import cpu_target

from weakfeedback.engine.compiler._numba import pipelines

VERSION: str = numba.__version__


def helper(function: Any, inline: bool, checked: bool) -> Any:
    """A plain function compiled as a part of those that call it, with or without checks of indices."""
    return njit(forceinline=inline, boundscheck=checked, **pipelines.HELPER)(function)


def loop(function: Any) -> Any:
    """A function compiled as a whole, for calls from Python."""
    return njit(**pipelines.LOOP)(function)


def entry_point(dispatcher: Any, *arguments: Any) -> Any:
    """The compiled function behind a dispatcher for arguments like these, compiled or loaded but not called.

    It skips the search for the types of its arguments, a few microseconds each, and trusts that they are the same.
    """
    kinds = tuple(numba.typeof(argument) for argument in arguments)
    if kinds not in dispatcher.overloads:
        dispatcher.compile(kinds)
    return dispatcher.overloads[kinds].entry_point


def machine() -> str:
    """The processor that code is compiled for, with its features."""
    context: Any = cpu_target.target_context
    return str(context.codegen().magic_tuple())


def is_disabled() -> bool:
    """Whether the user has asked that nothing be compiled."""
    settings: Any = config
    return bool(settings.DISABLE_JIT)


def checks_bounds() -> bool | None:
    """Whether the user has asked for checks of indices, or for none; None for neither."""
    settings: Any = config
    return None if settings.BOUNDSCHECK is None else bool(settings.BOUNDSCHECK)
