"""A list of compiled players whose type does not contain their number: one compilation serves every N.

``Team`` keeps the structs of N players of one class (or N generators) and an array of their addresses. In compiled
code ``players[n]`` casts an address back to a struct and ``len(players)`` is the size of the array, so that a round
loop reads the same for a list of plain objects and for a team of compiled ones.
"""

import hashlib
import operator
import pkgutil
from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import typeof, types
from numba.core import cgutils, extending
from numba.core.extending import NativeValue, models, overload

from weakfeedback.engine.lowering import Blueprint, compiled_loop

_intrinsic: Any = extending.intrinsic
_register_model: Any = extending.register_model
_typeof_impl: Any = extending.typeof_impl
_unbox: Any = extending.unbox

ADDRESSES = types.Array(types.int64, 1, "C")
INLINED: Any = {"forceinline": True}


class Code:
    """Stands among the parts of a compiled loop, so that a loop compiled with another version is not reused."""

    digest = hashlib.sha256(pkgutil.get_data(__name__, "team.py") or b"").hexdigest()[:20]


class Team:
    """The compiled twins of a list of objects of one class; it keeps them alive."""

    def __init__(self, blueprint: Blueprint, objects: Iterable[Any]) -> None:
        self.objects = list(objects)  # their arrays are shared with the structs
        self.structs = [blueprint.build(one) for one in self.objects]
        self.item = typeof(self.structs[0])
        address = compiled_loop(_address, blueprint, Code)  # type: ignore[arg-type]
        self.address = np.array([address(struct) for struct in self.structs], dtype=np.int64)


class Holder:
    """An object with one generator, which is how generators travel in a team."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng


def generators_team(generators: list[np.random.Generator]) -> Team:
    """The team of N generators; ``rngs[n]`` is the n-th."""
    holders = [Holder(rng) for rng in generators]
    return Team(Blueprint(holders[0], ()), holders)


class TeamType(types.Type):
    """The compiler's type of a team: only the type of its items counts."""

    def __init__(self, item: Any) -> None:
        self.item = item
        super().__init__(f"Team({item})")


@_typeof_impl.register(Team)
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
    def codegen(context, builder, signature, arguments):
        proxy = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=arguments[0])
        return builder.ptrtoint(proxy.meminfo, cgutils.intp_t)

    return types.intp(struct), codegen


def _address(struct):
    return _address_of(struct)


@_intrinsic
def _at(_typing, team, n):
    """The struct at ``address[n]``: a new reference, no check of bounds."""
    item = team.item

    def codegen(context, builder, signature, arguments):
        data = _array_of(context, builder, signature.args[0], arguments[0]).data
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        proxy = cgutils.create_struct_proxy(item)(context, builder)
        proxy.meminfo = builder.inttoptr(builder.load(builder.gep(data, [index])), cgutils.voidptr_t)
        value = proxy._getvalue()
        context.nrt.incref(builder, item, value)
        return value

    return item(team, n), codegen


@_intrinsic
def _generator_at(_typing, team, n):
    """The generator inside the struct at ``address[n]``, without a reference: the team keeps it alive.

    Its meminfo is null, which the counting of references passes over. Two counts up and two down for each generator
    that is fetched took most of the time of a round.
    """
    item = team.item
    kind = item.field_dict["rng"]

    def codegen(context, builder, signature, arguments):
        data = _array_of(context, builder, signature.args[0], arguments[0]).data
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        address = builder.inttoptr(builder.load(builder.gep(data, [index])), cgutils.voidptr_t)
        payload = context.get_data_type(item.get_data_type()).as_pointer()
        fields = builder.bitcast(context.nrt.meminfo_data(builder, address), payload)
        model = cgutils.create_struct_proxy(item.get_data_type(), kind="data")(context, builder, ref=fields)
        made = cgutils.create_struct_proxy(kind)(context, builder, value=model.rng)
        made.meminfo = cgutils.get_null_value(made.meminfo.type)
        return made._getvalue()

    return kind(team, n), codegen


@_intrinsic
def _size(_typing, team):
    def codegen(context, builder, signature, arguments):
        return _array_of(context, builder, signature.args[0], arguments[0]).nitems

    return types.intp(team), codegen


@overload(operator.getitem, jit_options=INLINED)
def _getitem(team, n):
    if not isinstance(team, TeamType) or not isinstance(n, types.Integer):
        return None
    if [name for name, _ in team.item._fields] == ["rng"]:
        return lambda team, n: _generator_at(team, n)
    return lambda team, n: _at(team, n)


@overload(len, jit_options=INLINED)
def _len(team):
    if not isinstance(team, TeamType):
        return None
    return lambda team: _size(team)
