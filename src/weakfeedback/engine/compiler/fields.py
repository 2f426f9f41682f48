"""The fields of an object as compiled code takes them: which values can be fields, and which names methods may use."""

import types
from typing import Any

import numpy as np

from weakfeedback.engine.compiler._numba.stream import stream_of as stream_of
from weakfeedback.engine.compiler.fingerprint import CannotLower, attributes, place

PYTHON_KIND: dict[type, type] = {np.float64: float, np.int64: int, np.bool_: bool}
LARGE = 2**63
SCALARS = {bool, int, float}  # the most common fields: a team has thousands of them
PLAIN = {np.dtype(kind) for kind in (np.float64, np.int64, np.bool_)}
# With all other types of numbers, the interpreter computes in the same type and compiled code in a wider one. Eight
# bits are allowed to save memory for many labels: to be set and converted, not to be computed with.
SMALL = {np.dtype(np.int8)}


def values_of(obj: Any) -> dict[str, Any]:
    """Return the fields of an object as compiled code sees them, by name; ``CannotLower`` for others."""
    return {
        name: value if type(value) in SCALARS and -LARGE <= value < LARGE else _field(obj, name, value)
        for name, value in vars(obj).items()
    }


def _field(obj: Any, name: str, value: Any) -> Any:
    if type(value) is np.ndarray and (value.dtype in PLAIN or value.dtype in SMALL):
        return value if value.flags.c_contiguous else _in_order(value)
    strange = isinstance(value, np.generic) and type(value) not in PYTHON_KIND
    if isinstance(value, np.random.Generator):
        return stream_of(value)
    if not strange and isinstance(value, (bool, float, np.bool_)):
        return value
    if not strange and isinstance(value, (int, np.int64)) and -LARGE <= value < LARGE:
        return value
    kind = f"a {type(value).__name__}"
    if isinstance(value, np.ndarray):
        kind = f"{'an array' if type(value) is np.ndarray else kind} of {value.dtype}"
    raise CannotLower(
        f"the field {name!r} of {type(obj).__qualname__} is {kind}: use int, float, bool and arrays of them"
    )


def _in_order(array: np.ndarray) -> np.ndarray:
    """Return a copy in C order, writeable if the array is."""
    made = np.ascontiguousarray(array)
    made.flags.writeable = array.flags.writeable
    return made


def kind_of(value: Any) -> Any:
    """Return what two values of a field must share to be interchangeable for compiled code; for a scalar its type."""
    if type(value) is np.ndarray:
        return value.dtype, value.ndim, value.flags.writeable
    return PYTHON_KIND.get(type(value), type(value))


def check_names(cls: type, methods: dict[str, types.FunctionType], fields: tuple[str, ...]) -> None:
    """Refuse fields made outside ``__init__``, constants of the class and attributes that are more than fields."""
    contents = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    for name in fields:
        if hasattr(contents.get(name), "__set__"):
            raise CannotLower(f"the field {name!r} is also a property of {cls.__qualname__}")
    own: Any = cls
    if own.__getattribute__ is not object.__getattribute__:
        raise CannotLower(f"{cls.__qualname__} has a __getattribute__ of its own")
    for method, function in methods.items():
        for stored, name in attributes(function.__code__):
            if stored and name not in fields:
                where = place(function.__code__, name, method)
                raise CannotLower(f"{method}() makes the field {name!r}: make every field in __init__{where}")
            if stored and own.__setattr__ is not object.__setattr__:
                where = place(function.__code__, name, method)
                raise CannotLower(
                    f"{method}() sets {name!r} through a __setattr__ of {cls.__qualname__}: do without it{where}"
                )
            known = name in fields or name in methods
            if not stored and not known and isinstance(contents.get(name), (bool, int, float, np.ndarray)):
                where = place(function.__code__, name, method)
                raise CannotLower(
                    f"{method}() reads {name!r} of the class: make it a field in __init__{where}"
                )
