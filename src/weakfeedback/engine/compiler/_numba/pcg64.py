"""The generator PCG64 inside compiled code: its words, and the numbers that NumPy derives from them."""

import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, extending
from numba.np.random import generator_core
from numba.np.random.distributions import ke_double, ki_double, we_double, wi_double

_intrinsic: Any = extending.intrinsic
_register_model: Any = extending.register_model

MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645  # as NumPy has it
WORD, STATE, FLOAT = ir.IntType(64), ir.IntType(128), ir.DoubleType()


class BitsType(types.Type):
    """The compiler's type of PCG64, not derived from that of any bit generator: its ``next_double`` would be taken."""

    def __init__(self) -> None:
        super().__init__("weakfeedback.Pcg64")


BITS = BitsType()
_register_model(BitsType)(generator_core.NumPyRngBitGeneratorModel)


# -- words


def _next_words(context, builder, bits, count):
    """The address of the state, the state after ``count`` steps, and the words of these steps."""
    struct = cgutils.create_struct_proxy(BITS)(context, builder, value=bits)
    place = builder.load(builder.inttoptr(struct.state, STATE.as_pointer().as_pointer()))
    increment = builder.load(builder.gep(place, [cgutils.int32_t(1)]), align=8)
    state, words = builder.load(place, align=8), []
    for _ in range(count):
        state = builder.add(builder.mul(state, ir.Constant(STATE, MULTIPLIER)), increment)
        words.append(_word_of(builder, state))
    return place, state, words


def _word_of(builder, state):
    """XSL RR 128/64: the halves of the state are mixed and turned."""
    high = builder.trunc(builder.lshr(state, ir.Constant(STATE, 64)), WORD)
    mixed = builder.xor(high, builder.trunc(state, WORD))
    turn = builder.module.declare_intrinsic("llvm.fshr", [WORD], ir.FunctionType(WORD, [WORD] * 3))
    return builder.call(turn, [mixed, mixed, builder.lshr(high, ir.Constant(WORD, 58))])


def _next_word(context, builder, bits):
    place, state, words = _next_words(context, builder, bits, 1)
    builder.store(state, place, align=8)
    return words[0]


@_intrinsic
def word(_typing, bits):
    """The next word."""

    def codegen(context, builder, _signature, arguments):
        return _next_word(context, builder, arguments[0])

    return types.uint64(bits), codegen


@_intrinsic
def uniform(_typing, bits):
    """The next uniform number."""

    def codegen(context, builder, _signature, arguments):
        return uniform_of(builder, _next_word(context, builder, arguments[0]))[1]

    return types.float64(bits), codegen


# -- numbers of one word each
#
# Normal and exponential numbers are drawn by the ziggurat method: some bits of a word choose a layer, others times the
# width of the layer are the number, if they are below its limit. 99 in 100 are; all others need more words.


def uniform_of(builder, word):
    """Return True and the number that a word gives."""
    number = builder.uitofp(builder.lshr(word, ir.Constant(WORD, 11)), FLOAT)
    return cgutils.true_bit, builder.fmul(number, ir.Constant(FLOAT, 2.0**-53))


def normal_of(builder, word):
    """Whether a word is enough for a normal number, and the number: 8 bits for the layer, 1 for the sign, 52."""
    layer = builder.and_(word, ir.Constant(WORD, 511))  # the sign chooses among twice the layers
    steps = builder.and_(builder.lshr(word, ir.Constant(WORD, 9)), ir.Constant(WORD, 2**52 - 1))
    widths, limits = np.append(wi_double, -wi_double), np.append(ki_double, ki_double)
    return _in_layer(builder, "normal", layer, steps, widths, limits)


def exponential_of(builder, word):
    """Whether a word is enough for an exponential number, and the number: 3 unused bits, 8 for the layer, 53."""
    layer = builder.and_(builder.lshr(word, ir.Constant(WORD, 3)), ir.Constant(WORD, 255))
    steps = builder.lshr(word, ir.Constant(WORD, 11))
    return _in_layer(builder, "exponential", layer, steps, we_double, ke_double)


def _in_layer(builder, name, layer, steps, widths, limits):
    width = _entry(builder, f"weakfeedback.{name}.widths", FLOAT, widths, layer)
    limit = _entry(builder, f"weakfeedback.{name}.limits", WORD, limits, layer)
    # as signed numbers, which are converted faster
    return builder.icmp_signed("<", steps, limit), builder.fmul(builder.sitofp(steps, FLOAT), width)


def _entry(builder, name, kind, values, index):
    """Return an entry of a table of constants."""
    table = builder.module.globals.get(name)
    if table is None:
        table = ir.GlobalVariable(builder.module, ir.ArrayType(kind, len(values)), name)
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(table.value_type, values.tolist())
    return builder.load(builder.gep(table, [ir.Constant(WORD, 0), index]))


def foreseen(*kinds):
    """Two functions of the bits: the next numbers of these kinds if each takes one word; and a commit.

    The first returns whether each does, and the numbers, and consumes nothing. After it the second costs nothing: the
    compiler has the state already.
    """
    numbers = types.Tuple([types.boolean] + [types.float64] * len(kinds))

    @_intrinsic
    def foresee(_typing, bits):
        def codegen(context, builder, signature, arguments):
            words = _next_words(context, builder, arguments[0], len(kinds))[2]
            enough, found = zip(*(kind(builder, word) for kind, word in zip(kinds, words)))
            every = functools.reduce(builder.and_, enough)
            return context.make_tuple(builder, signature.return_type, [every, *found])

        return numbers(bits), codegen

    @_intrinsic
    def go_on(_typing, bits):
        def codegen(context, builder, _signature, arguments):
            place, state, _ = _next_words(context, builder, arguments[0], len(kinds))
            builder.store(state, place, align=8)
            return context.get_dummy_value()

        return types.void(bits), codegen

    return foresee, go_on
