"""Teams inside compiled code: an array of addresses, and casts of an address back to a struct or a generator."""

import ctypes
import operator
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils, extending
from numba.core.extending import NativeValue, models, overload

from weakfeedback.engine.compiler._numba.borrowed import Borrowed

_intrinsic: Any = extending.intrinsic
_register_model: Any = extending.register_model
_typeof_impl: Any = extending.typeof_impl
_unbox: Any = extending.unbox

ADDRESSES = types.Array(types.int64, 1, "C")
INLINED: Any = {"forceinline": True}
# the first words of ``bitgen_t``, which NumPy documents (numpy/random/bitgen.h)
BITS = ("state", "fnptr_next_uint64", "fnptr_next_uint32", "fnptr_next_double")
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Addresses:
    """Base class of what compiled code treats as a list: ``address`` is an array, ``item`` the type of the items."""

    item: Any
    address: np.ndarray


def place_of_bits(generator: np.random.Generator) -> int:
    """The address at which NumPy keeps the bits of a generator."""
    found: int = _pointer_in(generator.bit_generator.capsule, b"BitGenerator")
    return found


class TeamType(types.Type):
    """The compiler's type of a team: only the type of its items counts."""

    def __init__(self, item: Any) -> None:
        self.item = item
        super().__init__(f"Team({item})")


@_typeof_impl.register(Addresses)
def _typeof_team(value, _context):
    return TeamType(value.item)


@_register_model(TeamType)
class _TeamModel(models.StructModel):
    def __init__(self, manager: Any, team: Any) -> None:
        super().__init__(manager, team, [("address", ADDRESSES)])


@_unbox(TeamType)
def _unbox_team(team, obj, c):
    boxed = c.pyapi.object_getattr_string(obj, "address")
    native = c.unbox(ADDRESSES, boxed)
    c.pyapi.decref(boxed)
    made = cgutils.create_struct_proxy(team)(c.context, c.builder)
    made.address = native.value
    return NativeValue(made._getvalue(), is_error=native.is_error, cleanup=native.cleanup)


def _array_of(context, builder, team_type, team):
    """The array of addresses inside a team."""
    proxy = cgutils.create_struct_proxy(team_type)(context, builder, value=team)
    return cgutils.create_struct_proxy(ADDRESSES)(context, builder, value=proxy.address)


@_intrinsic
def _address_of(_typing, struct):
    """Where a struct is: a pointer to its meminfo."""

    def codegen(context, builder, signature, arguments):
        proxy = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=arguments[0])
        return builder.ptrtoint(proxy.meminfo, cgutils.intp_t)

    return types.intp(struct), codegen


def address(struct):
    """The address of a struct (compiled only)."""
    return _address_of(struct)


@_intrinsic
def _at(_typing, team, n):
    """The struct at ``address[n]``: borrowed, or a new reference to it. No check of bounds."""
    item = team.item

    def codegen(context, builder, signature, arguments):
        data = _array_of(context, builder, signature.args[0], arguments[0]).data
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        address = builder.load(builder.gep(data, [index]))
        proxy = cgutils.create_struct_proxy(item)(context, builder)
        if isinstance(item, Borrowed):
            proxy.fields = builder.inttoptr(address, proxy.fields.type)
            return proxy._getvalue()
        proxy.meminfo = builder.inttoptr(address, cgutils.voidptr_t)
        value = proxy._getvalue()
        context.nrt.incref(builder, item, value)
        return value

    return item(team, n), codegen


@_intrinsic
def _generator_at(_typing, team, n):
    """The generator with the bits at ``address[n]``, without a reference: the team keeps it alive.

    Its meminfo is null, which reference counting ignores.
    """
    item = team.item

    def codegen(context, builder, signature, arguments):
        data = _array_of(context, builder, signature.args[0], arguments[0]).data
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        address = builder.load(builder.gep(data, [index]))
        place = builder.inttoptr(address, cgutils.intp_t.as_pointer())
        kind = context.data_model_manager[item].get_member_fe_type("bit_generator")
        bits = cgutils.create_struct_proxy(kind)(context, builder)
        for k, name in enumerate(BITS):
            setattr(bits, name, builder.load(builder.gep(place, [cgutils.int32_t(k)])))
        bits.state_address = bits.state
        bits.bit_generator = address
        made = cgutils.create_struct_proxy(item)(context, builder)
        made.bit_generator = bits._getvalue()
        return made._getvalue()

    return item(team, n), codegen


@_intrinsic
def _size(_typing, team):
    def codegen(context, builder, signature, arguments):
        return _array_of(context, builder, signature.args[0], arguments[0]).nitems

    return types.intp(team), codegen


@overload(operator.getitem, jit_options=INLINED)
def _getitem(team, n):
    if not isinstance(team, TeamType) or not isinstance(n, types.Integer):
        return None
    if isinstance(team.item, types.NumPyRandomGeneratorType):
        return lambda team, n: _generator_at(team, n)
    return lambda team, n: _at(team, n)


@overload(len, jit_options=INLINED)
def _len(team):
    if not isinstance(team, TeamType):
        return None
    return lambda team: _size(team)
