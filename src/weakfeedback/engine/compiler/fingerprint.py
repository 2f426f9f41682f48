"""A digest of the code that a method can run; what cannot be followed is refused by name.

A compiled loop is reused only while none of its sources has changed: the code of each method that
it can reach, their helpers, and the constants these read from their modules or closures. Values that
can change without a trace (a dict, a list, an object, a function reached through a module) are refused.
"""

import builtins
import dis
import functools
import hashlib
import inspect
import itertools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

OPEN_MODULES = ("math", "numpy", "cmath", "operator")  # their contents are the compiler's own
# methods that Python calls implicitly, but never between the first and the last round
UNUSED_IN_ROUNDS = {
    *("__init__", "__new__", "__post_init__", "__init_subclass__", "__class_getitem__", "__eq__", "__hash__"),
    *(
        "__repr__",
        "__str__",
        "__format__",
        "__dir__",
        "__sizeof__",
        "__copy__",
        "__deepcopy__",
        "__replace__",
    ),
    *("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__"),
}
_MISSING = object()


class CannotLower(Exception):
    """A class cannot be compiled; the message is one line that says which method and why."""


def name_of(cls: type) -> str:
    """Return the full name of a class, the same in a script and in the processes that a script starts."""
    module = "__main__" if cls.__module__ == "__mp_main__" else cls.__module__
    return f"{module}.{cls.__qualname__}"


def methods_of(cls: type) -> dict[str, types.FunctionType]:
    """Return all plain methods of a class, including inherited ones unless something else took their name."""
    found = _contents(cls).items()
    return {k: v for k, v in found if isinstance(v, types.FunctionType) and not k.startswith("__")}


def _contents(cls: type) -> dict[str, Any]:
    """Return what a class defines or inherits, except from ``object``."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        found.update(vars(base))
    return found


def reachable(cls: type, entry: tuple[str, ...]) -> dict[str, types.FunctionType]:
    """Return the methods that can be called from the methods named in ``entry``."""
    methods = methods_of(cls)
    wanted, found = list(entry), {}
    while wanted:
        name = wanted.pop()
        if name in found or name not in methods:
            continue
        found[name] = methods[name]
        wanted.extend(_names_in([methods[name]]))
    return dict(sorted(found.items()))


def fingerprint(functions: dict[str, types.FunctionType]) -> str:
    """Return a digest of what these functions compile to; raise ``CannotLower`` for what cannot be followed."""
    return _hash_parts(_all_parts(functions, {}))


def class_fingerprint(cls: type, entry: tuple[str, ...], fields: Iterable[str]) -> str:
    """Return a digest of all the code that the methods named in ``entry`` can run in the interpreter.

    Besides the code that compiles, this includes static methods, class methods, properties and constants of the class,
    and methods that Python calls implicitly (``__len__``). Raise ``CannotLower`` for what cannot be followed.
    """
    methods = reachable(cls, entry)
    stores = any(stored for function in methods.values() for stored, _ in attributes(function.__code__))
    found: dict[str, Any] = dict(methods)
    for name, value in _contents(cls).items():
        if name.startswith("__") and isinstance(value, types.FunctionType) and name not in UNUSED_IN_ROUNDS:
            if stores or name not in ("__setattr__", "__delattr__"):
                found[name] = value
    looked: set[str] = set(found) | set(fields)
    parts = [type(cls).__qualname__]
    while True:
        names = (
            _names_in([value for value in found.values() if isinstance(value, types.FunctionType)]) - looked
        )
        if not names:
            break
        looked |= names
        for name in sorted(names):
            value = inspect.getattr_static(cls, name, _MISSING)
            if value is not _MISSING and name not in vars(object):
                found.update(_functions_behind(name, value, parts))
    return _hash_parts(iter([*parts, *_all_parts(dict(sorted(found.items())), {})]))


def _functions_behind(name: str, value: Any, parts: list[str]) -> dict[str, types.FunctionType]:
    """Return the functions behind a method of any kind; a constant is added to ``parts``."""
    inner = {
        "": value,
        " function": getattr(value, "__func__", None),
        " getter": getattr(value, "fget", None),
        " setter": getattr(value, "fset", None),
        " cached": getattr(value, "func", None) if isinstance(value, functools.cached_property) else None,
    }
    functions = {f"{name}{key}": part for key, part in inner.items() if isinstance(part, types.FunctionType)}
    if not functions:
        parts.append(f"{name}={_constant(name, value, 'the class', False)}")
    return functions


@functools.cache
def package_digest(name: str) -> str:
    """Return a digest of the text of all modules of a package and of its subpackages."""
    from importlib.resources import files

    return _hash_parts(_texts(files(name), ""))


def _texts(folder: Any, place: str) -> Iterator[str]:
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.is_dir():
            yield from _texts(path, f"{place}{path.name}/")
        elif path.name.endswith(".py"):
            yield f"{place}{path.name}"
            yield path.read_text(encoding="utf-8")


def _hash_parts(parts: Iterable[str]) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part.encode())
        hasher.update(b"\0")
    return hasher.hexdigest()[:16]


def _all_parts(functions: dict[str, types.FunctionType], seen: dict[int, int]) -> Iterator[str]:
    for name, function in functions.items():
        yield f"\n{name}:"
        yield from _parts(function, name, seen)


def _reached(functions: Iterable[types.FunctionType]) -> Iterator[types.CodeType]:
    """Yield the code of these functions, of the functions inside them, and of their helpers."""
    waiting, seen = list(functions), set()
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        yield from _codes(function.__code__)
        helpers = (helper_of(value) for _, value, _ in constants_of(function))
        waiting.extend(helper for helper in helpers if helper is not None)


def _names_in(functions: list[types.FunctionType]) -> set[str]:
    """All names that these functions and their helpers mention."""
    return {name for code in _reached(functions) for name in code.co_names}


@functools.lru_cache(maxsize=4096)
def attributes(code: types.CodeType) -> list[tuple[bool, str]]:
    """Return the attribute names that a function stores (True) or loads (False)."""
    return [
        (instruction.opname == "STORE_ATTR", instruction.argval)
        for instruction in dis.get_instructions(code)
        if instruction.opname in ("STORE_ATTR", "LOAD_ATTR", "LOAD_METHOD")
    ]


def assigned(functions: Iterable[types.FunctionType]) -> set[str]:
    """Return the attributes that functions, the functions inside them, or their helpers assign."""
    return {name for code in _reached(functions) for stored, name in attributes(code) if stored}


def constants_of(function: types.FunctionType) -> Iterator[tuple[str, Any, bool]]:
    """Yield the names that a function reads from outside, with their values and whether they are in its closure."""
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name], False
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents, True
        except ValueError:  # an empty cell: the name is not bound yet
            yield name, None, True


@functools.lru_cache(maxsize=4096)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """Return the names that a function and the functions inside it load from their module."""
    instructions = (instruction for inner in _codes(code) for instruction in dis.get_instructions(inner))
    return tuple(sorted({found.argval for found in instructions if found.opname == "LOAD_GLOBAL"}))


def helper_of(value: Any) -> types.FunctionType | None:
    """Return the plain function behind a helper, whether or not it is compiled already."""
    value = getattr(value, "py_func", value)
    if not isinstance(value, types.FunctionType) or value.__module__ in OPEN_MODULES:
        return None
    return value


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _parts(function: types.FunctionType, method: str, seen: dict[int, int]) -> Iterator[str]:
    if id(function) in seen:
        yield f"number {seen[id(function)]}"
        return
    seen[id(function)] = len(seen)
    for code in _codes(function.__code__):
        plain = tuple(c for c in code.co_consts if not isinstance(c, types.CodeType))
        # the first constant is the docstring, if there is one: it compiles to nothing
        if code is function.__code__ and function.__doc__ is not None and plain[:1] == (function.__doc__,):
            plain = plain[1:]
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        yield repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, counts))
        yield _text(plain)
    _refuse_global_draws(function, method)
    defaults = list(enumerate(function.__defaults__ or ())) + sorted((function.__kwdefaults__ or {}).items())
    for key, value in defaults:
        yield f"{key}={_default(key, value, method, function)}"
    for name, value, enclosed in sorted(constants_of(function), key=lambda item: item[0]):
        helper = helper_of(value)
        if helper is not None:
            yield f"{name} is"
            yield from _parts(helper, method, seen)
        else:
            try:
                yield f"{name}={_constant(name, value, method, enclosed)}"
            except CannotLower as refused:
                raise CannotLower(f"{refused}{place(function.__code__, name, method)}") from None


def _default(key: Any, value: Any, method: str, function: types.FunctionType) -> str:
    """Return the text of a default, or raise ``CannotLower``."""
    try:
        return _constant(f"default {key}", value, method, False)
    except CannotLower:
        kind, line = type(value).__name__, function.__code__.co_firstlineno
        raise CannotLower(
            f"{method}() has a {kind} for the default of an argument: use numbers, and call functions by their names "
            f"(line {line})"
        ) from None


def place(code: types.CodeType, name: str, method: str) -> str:
    """Return the line in which a function first uses a name, as the end of a message."""
    line = line_of(code, name)
    if line is None:
        return ""
    return f" (line {line})" if code.co_name == method else f" (line {line}, in {code.co_name}())"


def line_of(code: types.CodeType, name: str) -> int | None:
    """Return the line in which a function, or one inside it, first uses a name."""
    for inner in _codes(code):
        for step in dis.get_instructions(inner):
            if step.argval == name and step.positions is not None and step.positions.lineno is not None:
                return step.positions.lineno
    return None


def _refuse_global_draws(function: types.FunctionType, method: str) -> None:
    """Refuse ``np.random``: its state is global, and compiled code has another one."""
    if any(function.__globals__.get(name) is np for name in _owners_of_random(function.__code__)):
        where = place(function.__code__, "random", method)
        raise CannotLower(f"{method}() draws from np.random: use the generator it is given{where}")


@functools.lru_cache(maxsize=4096)
def _owners_of_random(code: types.CodeType) -> set[str]:
    """Return the globals whose attribute ``random`` is used."""
    owners: set[str] = set()
    for inner in _codes(code):
        steps = list(dis.get_instructions(inner))
        for before, step in itertools.pairwise(steps):
            taken = step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval == "random"
            if taken and before.opname == "LOAD_GLOBAL":
                owners.add(before.argval)
    return owners


def _constant(name: str, value: Any, method: str, enclosed: bool) -> str:
    """Return the text of a constant, or raise ``CannotLower``."""
    if isinstance(value, types.ModuleType):
        if value.__name__ in OPEN_MODULES:
            return value.__name__
        if value.__name__ == "numpy.random":
            raise CannotLower(f"{method}() draws from np.random: use the generator it is given")
        raise CannotLower(
            f"{method}() reaches into the module {value.__name__!r}: import the function or constant itself"
        )
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        return f"{value.dtype.str}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if _plain(value):
        try:
            return repr(value)
        except Exception:  # of a subclass of the user's own
            raise CannotLower(f"{method}() uses {name!r}, which cannot be written down") from None
    if isinstance(value, np.dtype) and value.kind in "biuf":
        return f"dtype {value.str}"
    if isinstance(value, type) and value.__module__ in ("builtins", "numpy"):
        return f"{value.__module__}.{value.__qualname__}"
    if getattr(builtins, name, None) is value:
        return name
    for module in OPEN_MODULES:  # by its own name: the name used here may be bound to another one later
        own = getattr(value, "__name__", None)
        if own is not None and getattr(sys.modules.get(module), own, None) is value:
            return f"{module}.{own}"
    kind = type(value).__name__
    if name == "__class__":
        raise CannotLower(f"{method}() uses super(): call the base class's method under a name of its own")
    where = "enclosing variable" if enclosed else "global"
    raise CannotLower(
        f"{method}() uses the {where} {name!r}, a {kind}: make it a field, a number, an array or a plain function"
    )


def _text(constant: Any) -> str:
    """Return ``repr``, made the same in every process: the order of a set is not."""
    if isinstance(constant, (tuple, frozenset)):
        words = [_text(part) for part in constant]
        return (
            f"{type(constant).__name__}({', '.join(words if isinstance(constant, tuple) else sorted(words))})"
        )
    return repr(constant)


def _plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_plain(part) for part in value)
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic))
