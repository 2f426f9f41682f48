"""The compiler's structs: a type for each class of objects, construction, and reading of fields."""

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import extending
from numba.experimental import structref

from weakfeedback.engine.compiler._numba import pipelines

_intrinsic: Any = extending.intrinsic
_overload_method: Any = extending.overload_method
_new: Any = structref.new
_structs: dict[tuple[str, str], type] = {}  # (class name, digest) -> struct class


class _Absent(types.Opaque):
    """In an index of the disk cache: the struct of a class not loaded here, or of another version of it."""

    def __init__(self, *key: Any) -> None:
        self.parts = key
        super().__init__("{}@{}{}".format(*key))

    def __reduce__(self) -> Any:
        return _rebuild, self.parts


def _rebuild(name: str, digest: str, fields: tuple[Any, ...]) -> Any:
    struct = _structs.get((name, digest))
    return struct(fields) if struct else _Absent(name, digest, fields)


@functools.lru_cache(maxsize=4096)
def _array_type(dtype: np.dtype, ndim: int, readonly: bool) -> Any:
    return types.Array(numba.from_dtype(dtype), ndim, "C", readonly=readonly)


def type_of(value: Any) -> Any:
    """The compiler's type of a value."""
    if isinstance(value, np.ndarray):
        return _array_type(value.dtype, value.ndim, not value.flags.writeable)
    return numba.typeof(value)


def struct_type(
    name: str,
    cls: type,
    digest: str,
    fields: tuple[tuple[str, Any], ...],
    templates: Callable[[], dict[str, Callable[..., Any]]],
    checked: bool,
) -> Any:
    """The type of structs of a class; ``templates`` is called only if it is new, to attach its methods.

    ``checked`` says whether indices are checked in its methods.
    """
    if (name, digest) not in _structs:
        _structs[name, digest] = _struct_class(name, cls, digest, templates(), checked)
    return _structs[name, digest](fields)


def _struct_class(
    name: str, cls: type, digest: str, templates: dict[str, Callable[..., Any]], checked: bool
) -> type:
    how = {**pipelines.METHOD, "boundscheck": checked}

    class Struct(types.StructRef):
        def __init__(self, fields: tuple[Any, ...]) -> None:
            super().__init__(fields)
            self.name = f"{name}@{digest}{self._fields}"
            self.templates = templates
            self.options = how

        def __reduce__(self) -> Any:
            return _rebuild, (name, digest, self._fields)

    Struct.__name__ = Struct.__qualname__ = cls.__qualname__
    structref.register(Struct)
    structref.define_boxing(Struct, type(cls.__name__, (structref.StructRefProxy,), {}))
    for method, template in templates.items():
        _overload_method(Struct, method, jit_options=how)(template)
    return Struct


# Both handle all fields in one intrinsic: statement by statement they took a sixth of a cold compile of many fields.
@_intrinsic
def _fill(typing, struct, values):  # noqa: ARG001
    """Set every field of a new struct (compiled only)."""

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        fields = _fields_of(context, builder, struct, arguments[0])
        for k, (name, field) in enumerate(struct._fields):
            given = builder.extract_value(arguments[1], k)
            value = context.cast(builder, given, values.types[k], field)
            context.nrt.incref(builder, field, value)
            setattr(fields, name, value)
        return context.get_dummy_value()

    return types.none(struct, values), generate


@_intrinsic
def _get(typing, struct):  # noqa: ARG001
    """All fields of a struct as a tuple (compiled only)."""
    found = types.Tuple([field for _, field in struct._fields])

    def generate(context, builder, signature, arguments):  # noqa: ARG001
        fields = _fields_of(context, builder, struct, arguments[0])
        values = [getattr(fields, name) for name, _ in struct._fields]
        for value, (_, field) in zip(values, struct._fields, strict=True):
            context.nrt.incref(builder, field, value)
        return context.make_tuple(builder, found, values)

    return found(struct), generate


def _fields_of(context, builder, struct, value):
    return structref._Utils(context, builder, struct).get_data_struct(value)


def build(struct, values):
    """A new struct with these fields (compiled only)."""
    made = _new(struct)
    _fill(made, values)
    return made


def read(struct):
    """The fields of a struct (compiled only)."""
    return _get(struct)
