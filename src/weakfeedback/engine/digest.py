"""What a method compiles to, as a digest; what would make that digest a lie is refused by name.

A compiled loop is reused only while nothing it was made of has changed: the code of each method that
it can reach, their helpers, and the constants these read from their modules or closures. Values that
can change without a trace (a dict, a list, an object, a function reached through a module) are refused.
"""

import builtins
import dis
import functools
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

OPEN_MODULES = ("math", "numpy", "numpy.random", "cmath", "operator")  # their contents are the compiler's own


class CannotLower(Exception):
    """A class cannot be compiled; the message is one line that says which method and why."""


def methods_of(cls: type) -> dict[str, types.FunctionType]:
    """All plain methods of a class, inherited ones included."""
    found: dict[str, types.FunctionType] = {}
    for base in reversed(cls.__mro__):
        own = {k: v for k, v in vars(base).items() if isinstance(v, types.FunctionType)}
        found.update((name, function) for name, function in own.items() if not name.startswith("__"))
    return found


def reachable(cls: type, entry: tuple[str, ...]) -> dict[str, types.FunctionType]:
    """The methods that can be called from the methods named in ``entry``."""
    methods = methods_of(cls)
    wanted, found = list(entry), {}
    while wanted:
        name = wanted.pop()
        if name in found or name not in methods:
            continue
        found[name] = methods[name]
        for code in _codes(methods[name].__code__):
            wanted.extend(code.co_names)
    return dict(sorted(found.items()))


def fingerprint(functions: dict[str, types.FunctionType]) -> str:
    """A digest of what these functions compile to; raise ``CannotLower`` for what cannot be followed."""
    hasher = hashlib.sha256()
    seen: set[int] = set()
    for name, function in functions.items():
        hasher.update(f"\n{name}:".encode())
        for part in _parts(function, name, seen):
            hasher.update(part.encode())
            hasher.update(b"\0")
    return hasher.hexdigest()[:16]


def constants_of(function: types.FunctionType) -> Iterator[tuple[str, Any, bool]]:
    """Names a function reads from outside itself, with their values and whether they come by its closure."""
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name], False
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents, True
        except ValueError:  # an empty cell: the name is not defined yet
            yield name, None, True


@functools.lru_cache(maxsize=4096)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """The names that a function and the functions inside it load from their module."""
    instructions = (instruction for inner in _codes(code) for instruction in dis.get_instructions(inner))
    return tuple(sorted({found.argval for found in instructions if found.opname == "LOAD_GLOBAL"}))


def helper_of(value: Any) -> types.FunctionType | None:
    """The plain function behind a helper, whether or not somebody has compiled it already."""
    value = getattr(value, "py_func", value)
    return value if isinstance(value, types.FunctionType) else None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _parts(function: types.FunctionType, method: str, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        return
    seen.add(id(function))
    for code in _codes(function.__code__):
        plain = tuple(c for c in code.co_consts if not isinstance(c, types.CodeType))
        # the first constant is the docstring, when there is one: it compiles to nothing
        if code is function.__code__ and function.__doc__ is not None and plain[:1] == (function.__doc__,):
            plain = plain[1:]
        yield repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, plain))
    yield repr((function.__defaults__, function.__kwdefaults__))
    for name, value, enclosed in sorted(constants_of(function), key=lambda item: item[0]):
        helper = helper_of(value)
        if helper is not None:
            yield f"{name} is"
            yield from _parts(helper, method, seen)
        else:
            yield f"{name}={_constant(name, value, method, enclosed)}"


def _constant(name: str, value: Any, method: str, enclosed: bool) -> str:
    """The text of a constant, or ``CannotLower``."""
    if isinstance(value, types.ModuleType):
        if value.__name__ in OPEN_MODULES:
            return value.__name__
        raise CannotLower(
            f"{method}() reaches into the module {value.__name__!r}: import the function or constant itself"
        )
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return f"{value.dtype.str}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if _plain(value):
        return repr(value)
    if isinstance(value, type) and value.__module__ in ("builtins", "numpy"):
        return f"{value.__module__}.{value.__qualname__}"
    if getattr(builtins, name, None) is value or getattr(value, "__module__", None) in OPEN_MODULES:
        return name
    kind = type(value).__name__
    if name == "__class__":
        raise CannotLower(f"{method}() uses super(): call the base class's method under a name of its own")
    where = "enclosing variable" if enclosed else "global"
    raise CannotLower(
        f"{method}() uses the {where} {name!r}, a {kind}: make it a field, a number, an array or a plain function"
    )


def _plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_plain(part) for part in value)
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic))
