"""Random numbers in compiled loops without a call for each: the generator PCG64 as a part of the loop.

Numba draws from a NumPy generator through pointers to NumPy's functions. A ``Stream`` is a generator over PCG64 whose
next number is computed in place, on NumPy's own state, so that it continues where NumPy stopped and stops where
NumPy can continue. Every number is the same to the last bit. All generator methods that Numba supports work on it.
"""

import ctypes
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import boxing, extending
from numba.core.extending import NativeValue, models, overload
from numba.np.random.distributions import random_standard_exponential, random_standard_normal
from numba.np.random.generator_core import next_double, next_uint32, next_uint64

from weakfeedback.engine.compiler._numba import pipelines
from weakfeedback.engine.compiler._numba.pcg64 import (
    BITS,
    BitsType,
    exponential_of,
    foreseen,
    normal_of,
    uniform,
    uniform_of,
    word,
)

_intrinsic: Any = extending.intrinsic
_overload_method: Any = extending.overload_method
_register_model: Any = extending.register_model
_typeof_impl: Any = extending.typeof_impl
_unbox: Any = extending.unbox

APART: Any = pipelines.DRAW
INLINED: Any = {**APART, "forceinline": True}


class Stream:
    """A generator passed to compiled code."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator


def stream_of(generator: Any) -> Any:
    """Return the stream of a generator over PCG64, and any other generator unchanged."""
    return Stream(generator) if KNOWN and type(generator.bit_generator) is np.random.PCG64 else generator


def _is_known() -> bool:
    """Whether the state of PCG64 has the expected memory layout: two numbers of 128 bits, the lower half first.

    NumPy has an address of an address of them, both inside the object. The check reads nothing outside the object.
    """
    bits = np.random.PCG64(1)
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    start, end = id(bits), id(bits) + type(bits).__basicsize__
    place = bits.ctypes.state_address
    if not start <= place <= end - 8:
        return False
    address = ctypes.c_uint64.from_address(place).value
    if not start <= address <= end - 32:
        return False
    words = (ctypes.c_uint64 * 4).from_address(address)
    found = [words[0] | words[1] << 64, words[2] | words[3] << 64]
    state: Any = bits.state["state"]
    return found == [state["state"], state["inc"]]


KNOWN = _is_known()


class StreamType(types.NumPyRandomGeneratorType):
    """The compiler's type of a stream: a generator whose bits come from elsewhere."""

    def __init__(self) -> None:
        super().__init__("weakfeedback.Stream")
        self.name = "weakfeedback.Stream"


STREAM = StreamType()
# of the same shape in memory
NUMPY_BITS, NUMPY_STREAM = types.NumPyRandomBitGeneratorType("bit_generator"), types.npy_rng


@_register_model(StreamType)
class _StreamModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        meminfo = types.MemInfoPointer(types.voidptr)
        members = [("bit_generator", BITS), ("meminfo", meminfo), ("parent", types.pyobject)]
        super().__init__(manager, kind, members)


@_typeof_impl.register(Stream)
def _typeof_stream(_value, _context):
    return STREAM


@_unbox(StreamType)
def _unbox_stream(kind, obj, c):
    generator = c.pyapi.object_getattr_string(obj, "generator")
    native = boxing.unbox_numpy_random_generator(kind, generator, c)
    c.pyapi.decref(generator)  # the native value holds a reference of its own
    return NativeValue(native.value, is_error=native.is_error)


# -- bits


@overload(next_uint64, jit_options=INLINED)
def _next_uint64(bitgen):
    return (lambda bitgen: word(bitgen)) if isinstance(bitgen, BitsType) else None


@overload(next_double, jit_options=INLINED)
def _next_double(bitgen):
    return (lambda bitgen: uniform(bitgen)) if isinstance(bitgen, BitsType) else None


@_intrinsic
def _as_numpy(_typing, value):
    """The same value, a stream or its bits, under Numba's own type."""
    numpys = NUMPY_STREAM if isinstance(value, StreamType) else NUMPY_BITS

    def codegen(context, builder, signature, arguments):
        context.nrt.incref(builder, signature.args[0], arguments[0])
        return arguments[0]

    return numpys(value), codegen


@overload(next_uint32, jit_options=INLINED)
def _next_uint32(bitgen):
    # halves of words, one of them kept in the state
    return (lambda bitgen: next_uint32(_as_numpy(bitgen))) if isinstance(bitgen, BitsType) else None


# -- gamma and beta


TINY = 3e-103  # NumPy's limit: of two parameters below it the draw is 0 or 1
TWELFTH = (1.0 + 1e-9) / 12.0  # a safe overestimate
SLACK = 1e-10
# The scales c of whole shapes 1, 2, ..., such as counts: dividing by a root takes longer than anything else in a draw.
SCALES = 1.0 / np.sqrt(9 * (np.arange(1.0, 1025.0) - 1.0 / 3.0))
two_gammas, after_two_gammas = foreseen(normal_of, uniform_of, normal_of, uniform_of)
exponential_and_gamma, after_exponential_and_gamma = foreseen(exponential_of, normal_of, uniform_of)
normal = njit(**INLINED)(random_standard_normal)
exponential = njit(**INLINED)(random_standard_exponential)


@njit(**INLINED)
def quick_gamma(bits, shape):
    """Draw one gamma variate as NumPy does, but mostly without its logarithms."""
    if shape == 1.0:
        return exponential(bits)
    if shape <= 1.0:
        return small_gamma(bits, shape)
    b = shape - 1.0 / 3.0
    c = scale_of(shape)
    while True:
        x = normal(bits)
        v = 1.0 + c * x
        if not v <= 0.0:  # NumPy returns NaN for NaN
            u = next_double(bits)
            if surely_accepted(x, c, v, u, b) or accepted(x, v * v * v, u, b):
                return b * (v * v * v)


@njit(**INLINED)
def scale_of(shape):
    """c = 1 / sqrt(9 b), b = shape - 1/3, of a shape above 1."""
    if shape <= SCALES.size:
        whole = np.int64(shape)
        if whole == shape:
            return SCALES[np.uint64(whole - 1)]
    return 1.0 / np.sqrt(9 * (shape - 1.0 / 3.0))


@njit(**INLINED)
def surely_accepted(x, c, v, u, b):
    """Whether it is clear without logarithms that ``accepted`` is true; then v > 0.

    For a shape above 1 NumPy takes Marsaglia and Tsang's rejection: with b = shape - 1/3, c = 1 / sqrt(9 b), X normal
    and v = 1 + c X > 0, the draw is b v^3 if log U < R = X^2 / 2 + b (1 - v^3 + 3 log v). With y = c X,

        -R = 3 b (y - y^2/2 + y^3/3 - log(1 + y)) <= (3/4) b y^4 / min(1, 1 + y),

    (for y > 0 the derivative of the difference is 3 b y^4 / (1 + y) > 0, for y < 0 it is a geometric series) and
    log U <= U - 1. So (1 - U) min(1, v) > (3/4) b y^4 = c^2 X^4 / 12 is enough.

    Rounding: 1e-10 b is added to the right side. What passes has (3/4) b y^4 < min(1, v), and b > 2/3. So y^4 < 2,
    0.2 < v < 2.2 and X^2 = 9 b y^2 < 13 b: all terms of R are below 11 b. What rounding does to them, to v in them and
    to log U > -37 is below 1e-13 b.
    """
    square = c * x * x
    least = v if v < 1.0 else 1.0
    return (1.0 - u) * least > TWELFTH * (square * square) + SLACK * b


@njit(**APART)
def accepted(x, v, u, b):
    """The rejection as NumPy decides it; v is the third power."""
    if u < 1.0 - 0.0331 * (x * x) * (x * x):
        return True
    return np.log(u) < 0.5 * x * x + b * (1.0 - v + np.log(v))


@njit(**APART)
def small_gamma(bits, shape):
    """Draw one gamma variate with a shape below 1."""
    if shape == 0.0:
        return 0.0
    while True:
        u = next_double(bits)
        v = exponential(bits)
        if u <= 1.0 - shape:
            x = pow(u, 1.0 / shape)
            if x <= v:
                return x
        else:
            y = -np.log((1 - u) / shape)
            x = pow(1.0 - shape + shape * y, 1.0 / shape)
            if x <= v + y:
                return x


@njit(**INLINED)
def quick_beta(bits, a, b):
    """Draw one beta variate as NumPy does: a gamma draw of shape a against one of shape b.

    Usually both are accepted at the first try. Then all their words are known beforehand, and neither waits for the
    decision about the other; if not, nothing was consumed.
    """
    if a > 1.0 and b > 1.0:
        good, x, u, z, w = two_gammas(bits)
        at_once, first = gamma_at_once(x, u, a)
        also, second = gamma_at_once(z, w, b)
        if good & at_once & also:
            after_two_gammas(bits)
            return first / (first + second)
    elif a == 1.0 and b > 1.0:
        good, first, z, w = exponential_and_gamma(bits)
        also, second = gamma_at_once(z, w, b)
        if good & also:
            after_exponential_and_gamma(bits)
            return first / (first + second)
    elif a <= 0.0 or b <= 0.0:
        # NumPy raises here; a draw that can raise takes a quarter longer, and rejection might never end
        return np.nan
    elif a <= 1.0 and b <= 1.0:
        return small_beta(bits, a, b)
    first = quick_gamma(bits, a)
    return first / (first + quick_gamma(bits, b))


@njit(**INLINED)
def gamma_at_once(x, u, shape):
    """Whether a gamma draw of a shape above 1 accepts these numbers without logarithms; if so, the draw."""
    b = shape - 1.0 / 3.0
    c = scale_of(shape)
    v = 1.0 + c * x
    return surely_accepted(x, c, v, u, b), b * (v * v * v)


@njit(**APART)
def small_beta(bits, a, b):
    """Johnk's algorithm, for two parameters of at most 1."""
    if a < TINY and b < TINY:
        return 1.0 if (a + b) * next_double(bits) < a else 0.0
    while True:
        u = next_double(bits)
        v = next_double(bits)
        x = u if a == 1.0 else pow(u, 1.0 / a)
        y = v if b == 1.0 else pow(v, 1.0 / b)
        if x + y <= 1.0 and u + v > 0.0:
            if x > 0.0 and y > 0.0:
                return x / (x + y)
            more = np.log(u) / a - np.log(v) / b  # logarithms, because x and y underflow
            if more > 0.0:
                return np.exp(-np.log1p(np.exp(-more)))
            return np.exp(more - np.log1p(np.exp(more)))


def _plain(size: Any) -> bool:
    """Whether one number is drawn, not an array."""
    return size is None or isinstance(size, types.NoneType) or getattr(size, "value", 0) is None


@_overload_method(StreamType, "beta", jit_options=INLINED)
def _beta(rng, a, b, size=None):  # noqa: ARG001
    if not _plain(size):
        return lambda rng, a, b, size=None: _as_numpy(rng).beta(a, b, size)
    return lambda rng, a, b, size=None: quick_beta(rng.bit_generator, a, b)  # noqa: ARG005
