"""A compiler pass that checks that a field keeps the kind of number it started as.

Interpreted, ``self.x = 1.5`` makes an int field a float; compiled, it would silently become 1. Here it is an error.
"""

from typing import Any

from numba import types
from numba.core import ir
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.errors import TypingError


@register_pass(mutates_CFG=False, analysis_only=True)
class FieldKinds(AnalysisPass):
    """Reject assignments that would change the kind of a field."""

    _name = "weakfeedback_field_kinds"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for statement in block.find_insts(ir.SetAttr):
                owner = state.typemap[statement.target.name]
                if isinstance(owner, types.StructRef):
                    field = dict(owner._fields)[statement.attr]
                    value = types.unliteral(state.typemap[statement.value.name])
                    if not _same_kind(field, value):
                        raise TypingError(
                            f"the field {statement.attr!r} starts as {_word(field)} and is assigned "
                            f"{_word(value)}: start it in __init__ as what it will be",
                            loc=statement.loc,
                        )
        return False


def _same_kind(field: Any, value: Any) -> bool:
    if field == value:
        return True
    if isinstance(field, types.Float):
        return isinstance(value, (types.Float, types.Integer))
    if isinstance(field, types.Integer):
        return isinstance(value, types.Integer)
    if isinstance(field, types.Array) and isinstance(value, types.Array):
        return field.dtype == value.dtype and field.ndim == value.ndim
    return False


def _word(kind: Any) -> str:
    for numba_type, word in ((types.Boolean, "a bool"), (types.Integer, "an int"), (types.Float, "a float")):
        if isinstance(kind, numba_type):
            return word
    return str(kind)
