"""Structs that compiled code only borrows: no reference to them, or to their arrays, is counted.

A player is fetched from its team in every round, and its methods read its arrays. Counting references there, up and
down and atomically, took half of the time of a round. A team outlives the loop that plays
with it, and so do its structs; their arrays do as long as no method replaces them. Then a struct can be
borrowed: the address of its fields, and arrays without an owner, which reference counting ignores.
"""

import threading
import types as pytypes
from collections.abc import Iterable
from typing import Any

from numba import types
from numba.core import cgutils, extending
from numba.core.datamodel import default_manager
from numba.core.errors import UnsupportedError
from numba.core.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    lower_setattr_generic,
    models,
)
from numba.core.typing.templates import AttributeTemplate
from numba.experimental import structref

from weakfeedback.engine.compiler.fingerprint import assigned

_overload_method: Any = extending.overload_method
_typeof_impl: Any = extending.typeof_impl
_unbox: Any = extending.unbox
_lock = threading.RLock()
_borrowed: dict[type, type] = {}  # struct class -> class of its borrowed structs
_lendable: dict[type, bool] = {}  # struct class -> whether its structs can be borrowed


def _is_known() -> bool:
    """Whether a struct exposes the address of its fields in Python; if not, nothing is borrowed."""
    return hasattr(structref.StructRefProxy, "_meminfo")


KNOWN = _is_known()


class Borrowed(types.StructRef):
    """Base class of the types of borrowed structs; each has the fields and methods of ``struct``."""

    def __init__(self, struct: Any) -> None:
        super().__init__(struct._fields)
        self.struct = struct
        self.name = f"Borrowed({struct.name})"

    def __reduce__(self) -> Any:
        return borrowed, (self.struct,)


class _Model(models.StructModel):
    """The address of the fields."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("fields", types.voidptr)])


def borrowed(struct: Any) -> Any:
    """The type of structs of this type when they are borrowed."""
    templates = getattr(struct, "templates", None)
    if templates is None:  # the type of a class that is not loaded here, from an index of the disk cache
        return struct
    cls = type(struct)
    with _lock:
        if cls not in _borrowed:
            made = type(f"Borrowed{cls.__name__}", (Borrowed,), {})
            default_manager.register(made, _Model)
            for method, template in templates.items():
                _overload_method(made, method, jit_options=struct.options)(template)
            _borrowed[cls] = made
    return _borrowed[cls](struct)


class Loan:
    """A struct passed to compiled code that borrows it; this object keeps the struct alive."""

    def __init__(self, struct: Any) -> None:
        self.struct = struct
        self.kind = borrowed(struct._numba_type_)
        self.fields = place_of_fields(struct)


def place_of_fields(struct: Any) -> int:
    """The address of the fields of a struct."""
    found: int = struct._meminfo.data
    return found


def borrow(struct: Any, methods: Iterable[pytypes.FunctionType]) -> Any:
    """Return the struct wrapped for borrowing if it can be borrowed, else the struct itself."""
    return Loan(struct) if KNOWN and can_be_borrowed(struct._numba_type_, methods) else struct


def unwrap(twin: Any) -> Any:
    """Return the struct that was passed to ``borrow``."""
    return twin.struct if isinstance(twin, Loan) else twin


@_typeof_impl.register(Loan)
def _typeof_loan(value, _context):
    return value.kind


@_unbox(Borrowed)
def _unbox_loan(kind, obj, c):
    boxed = c.pyapi.object_getattr_string(obj, "fields")
    native = c.unbox(types.uintp, boxed)
    c.pyapi.decref(boxed)
    made = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    made.fields = c.builder.inttoptr(native.value, made.fields.type)
    return NativeValue(made._getvalue(), is_error=native.is_error)


def can_be_borrowed(struct: Any, methods: Iterable[pytypes.FunctionType]) -> bool:
    """Whether none of the methods of a struct, or of their helpers, can replace a field that owns memory."""
    cls = type(struct)  # created for these methods and these fields
    if cls not in _lendable:
        _lendable[cls] = not _replaces(struct, methods)
    return _lendable[cls]


def _replaces(struct: Any, methods: Iterable[pytypes.FunctionType]) -> bool:
    owners = {name for name, kind in struct._fields if not isinstance(kind, (types.Number, types.Boolean))}
    return not owners.isdisjoint(assigned(methods))


@infer_getattr
class _Fields(AttributeTemplate):
    key = Borrowed

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return kind.field_dict.get(name)


def _fields_of(context, builder, kind, value):
    """The fields of a borrowed struct, to be read and written."""
    address = cgutils.create_struct_proxy(kind)(context, builder, value=value).fields
    layout = kind.struct.get_data_type()
    place = builder.bitcast(address, context.get_value_type(layout).as_pointer())
    return cgutils.create_struct_proxy(layout)(context, builder, ref=place)


@lower_getattr_generic(Borrowed)
def _get(context, builder, kind, value, name):
    found = getattr(_fields_of(context, builder, kind, value), name)
    field = kind.field_dict[name]
    if not _owns_memory(context, field):
        return found
    made = cgutils.create_struct_proxy(field)(context, builder, value=found)
    made.meminfo = cgutils.get_null_value(made.meminfo.type)
    return made._getvalue()


@lower_setattr_generic(Borrowed)
def _set(context, builder, signature, arguments, name):
    kind, given = signature.args
    field = kind.field_dict[name]
    if _owns_memory(context, field):
        raise UnsupportedError(f"Unsupported: the field {name!r} of a borrowed struct cannot be replaced")
    setattr(
        _fields_of(context, builder, kind, arguments[0]),
        name,
        context.cast(builder, arguments[1], given, field),
    )


def _owns_memory(context: Any, field: Any) -> bool:
    found: bool = context.data_model_manager[field].contains_nrt_meminfo()
    return found
