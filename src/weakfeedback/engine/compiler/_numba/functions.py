"""Compiled functions: helpers, entry points for arguments of known types, and what they depend on."""

from typing import Any

import numba
from numba import config, njit, types
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target

from weakfeedback.engine.compiler._numba import pipelines
from weakfeedback.engine.compiler._numba.diskcache import Kept
from weakfeedback.engine.compiler.cache import is_loading_only

VERSION: str = numba.__version__


def helper(function: Any, inline: bool, checked: bool) -> Any:
    """Compile a plain function as a part of its callers, with or without bounds checks."""
    made = njit(forceinline=inline, boundscheck=checked, **pipelines.HELPER)(function)
    _compile_once_for_all_constants(made)
    return made


def _compile_once_for_all_constants(dispatcher: Any) -> None:
    """Make calls with constant numbers use the code for any number of that kind.

    Numba compiles a function again for each constant that it is called with, also for the 0 with which a count
    begins in its caller; where its way to find code is another one, it goes on doing so.
    """
    find, fold = (getattr(dispatcher, name, None) for name in ("get_call_template", "fold_argument_types"))
    if find is None or fold is None:
        return

    def find_for_kinds(args: Any, kws: Any) -> Any:
        try:
            return find(*_kinds_of(args, kws))
        except NumbaError:  # the function needs its constants, such as an axis
            return find(args, kws)

    def fold_kinds(args: Any, kws: Any) -> Any:
        """Make a function that calls itself find the code that is being compiled."""
        return fold(*_kinds_of(args, kws))

    dispatcher.fold_argument_types = fold_kinds
    dispatcher.get_call_template = find_for_kinds


def _kinds_of(args: Any, kws: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(_kind_of, args)), {name: _kind_of(arg) for name, arg in kws.items()}


def _kind_of(arg: Any) -> Any:
    return arg.literal_type if isinstance(arg, (types.IntegerLiteral, types.BooleanLiteral)) else arg


def loop(function: Any) -> Any:
    """Compile a function as a whole, for calls from Python."""
    return njit(**pipelines.LOOP)(function)


def entry_point(dispatcher: Any, *arguments: Any) -> Any:
    """Return the compiled function behind a dispatcher for arguments like these, compiled or loaded but not called.

    It skips type dispatch, a few microseconds per argument, and trusts that the types are the same.
    """
    kinds = tuple(numba.typeof(argument) for argument in arguments)
    if kinds not in dispatcher.overloads:
        if is_loading_only():
            kept = dispatcher._cache
            if not (isinstance(kept, Kept) and kept.holds(kinds, dispatcher.targetctx)):
                raise LookupError("it was never compiled here")
        dispatcher.compile(kinds)
    return dispatcher.overloads[kinds].entry_point


def machine() -> str:
    """Return the target processor, with its features."""
    context: Any = cpu_target.target_context
    return str(context.codegen().magic_tuple())


def is_disabled() -> bool:
    """Whether the user has disabled compilation."""
    settings: Any = config
    return bool(settings.DISABLE_JIT)


def checks_bounds() -> bool | None:
    """Whether the user has switched bounds checks on or off; None if neither."""
    settings: Any = config
    return None if settings.BOUNDSCHECK is None else bool(settings.BOUNDSCHECK)
