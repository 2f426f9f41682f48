"""Turn a plain Python object into a compiled struct whose methods are the class's own methods.

A ``Blueprint`` reads ``vars(obj)``, makes a struct with the same fields and attaches to it the methods that are
reachable from the names in ``entry``. Arrays are shared with the object; ``write_back`` brings replaced arrays and
changed numbers home, so that ``vars(obj)`` is the whole state again. Nothing here knows any policy.
"""

import functools
import hashlib
import inspect
import threading
import types as pytypes
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import njit, types
from numba.core import config, extending
from numba.core.extending import intrinsic
from numba.core.registry import cpu_target
from numba.experimental import structref

from weakfeedback.engine.compiler._numba import stream
from weakfeedback.engine.compiler._numba.kinds import FieldChecked
from weakfeedback.engine.compiler._numba.parts import Whole
from weakfeedback.engine.compiler.cache import kept
from weakfeedback.engine.compiler.fingerprint import (
    CannotLower,
    attributes,
    constants_of,
    fingerprint,
    helper_of,
    name_of,
    package_digest,
    place,
    reachable,
)

# of all that compiles; and of whether generators are drawn from in place
ENGINE = f"{package_digest(__package__)}|{stream.KNOWN}"
PYTHON_KIND: dict[type, type] = {np.float64: float, np.int64: int, np.bool_: bool}
LARGE = 2**63
SCALARS = {bool, int, float}  # most fields: a team has thousands of them
PLAIN = {np.dtype(kind) for kind in (np.float64, np.int64, np.bool_)}
# The interpreter keeps the kind of all other numbers when it computes with them, compiled code widens them. Room for
# many labels may be saved, though: eight bits to be set and converted, not to be computed with.
SMALL = {np.dtype(np.int8)}
INLINE = 400  # bytes of bytecode up to which a helper is inlined
# nobody calls methods and helpers from Python
PART_OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "pipeline_class": FieldChecked,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
METHOD_OPTIONS = {"forceinline": True, **PART_OPTIONS}
_new: Any = structref.new
_overload_method: Any = extending.overload_method
_lock = threading.RLock()
_structs: dict[tuple[str, str], type] = {}  # (class name, digest) -> struct class
_helpers: dict[tuple[int, str], Any] = {}
_kept: list[Any] = []  # functions whose id is a key of _helpers stay alive


class _Absent(types.Opaque):
    """In an index of the disk cache: the struct of a class not loaded here, or of another version of it."""

    def __init__(self, *key: Any) -> None:
        self.parts = key
        super().__init__("{}@{}{}".format(*key))

    def __reduce__(self) -> Any:
        return _rebuild, self.parts


def _rebuild(name: str, digest: str, fields: tuple) -> Any:
    struct = _structs.get((name, digest))
    return struct(fields) if struct else _Absent(name, digest, fields)


class Blueprint:
    """How objects like this one are compiled: made once, then ``build`` turns each copy into its compiled twin."""

    def __init__(self, obj: Any, entry: tuple[str, ...]) -> None:
        if getattr(config, "DISABLE_JIT", 0):
            raise CannotLower("NUMBA_DISABLE_JIT is set, so nothing is compiled")
        methods = reachable(type(obj), entry)
        missing = [name for name in entry if name not in methods]
        if missing:
            raise CannotLower(f"{type(obj).__qualname__} has no method {missing[0]}()")
        values = _values(obj)
        self.cls = type(obj)
        self.methods = methods
        self.fields = tuple(values)
        self._kinds = [_kind(value) for value in values.values()]
        with _lock:
            fields = tuple((name, _typeof(value)) for name, value in values.items())
            struct, self.digest = _struct_class(type(obj), methods, fields)
            self._type = struct(fields)
            self._build = direct(_named(_build, self.digest), self._type, tuple(values.values()))
            self._read = direct(_named(_read, self.digest), self.build(obj))

    def build(self, obj: Any) -> Any:
        """The compiled twin of ``obj``; its arrays are shared."""
        values = _values(obj)
        kinds = [type(value) if type(value) in SCALARS else _kind(value) for value in values.values()]
        if type(obj) is not self.cls or kinds != self._kinds:
            raise TypeError(
                f"{type(obj).__qualname__} has fields of other kinds than the one this was made for"
            )
        return self._build(self._type, tuple(values.values()))

    def read(self, struct: Any) -> dict[str, Any]:
        """The state of a compiled twin."""
        return dict(zip(self.fields, self._read(struct)))

    def write_back(self, struct: Any, obj: Any) -> None:
        """Make ``vars(obj)`` the state of its compiled twin."""
        for name, value in self.read(struct).items():
            setattr(obj, name, value)


def direct(dispatcher: Any, *arguments: Any) -> Any:
    """The compiled function behind a dispatcher for arguments like these, if need be after a first call with them.

    It skips the search for the types of its arguments, a few microseconds each, and trusts that they are the same.
    """
    kinds = tuple(numba.typeof(argument) for argument in arguments)
    if kinds not in dispatcher.overloads:
        dispatcher(*arguments)
    return dispatcher.overloads[kinds].entry_point


def compiled_loop(function: Callable, *parts: Blueprint) -> Any:
    """The loop compiled for these structs: one dispatcher, and so one file in the disk cache, per combination."""
    with _lock:
        return _named(function, "_".join(part.digest for part in parts))


def _values(obj: Any) -> dict[str, Any]:
    return {
        name: value if type(value) in SCALARS and -LARGE <= value < LARGE else _field(obj, name, value)
        for name, value in vars(obj).items()
    }


def _field(obj: Any, name: str, value: Any) -> Any:
    if type(value) is np.ndarray and (value.dtype in PLAIN or value.dtype in SMALL):
        return value if value.flags.c_contiguous else _in_order(value)
    strange = isinstance(value, np.generic) and type(value) not in PYTHON_KIND
    if isinstance(value, np.random.Generator):
        return stream.stream_of(value)
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
    """A copy in C order that can be written if the array can be."""
    made = np.ascontiguousarray(array)
    made.flags.writeable = array.flags.writeable
    return made


def _kind(value: Any) -> Any:
    """What must be equal in two values of a field, so that they are the same to compiled code."""
    if type(value) is np.ndarray:
        return value.dtype, value.ndim, value.flags.writeable
    return PYTHON_KIND.get(type(value), type(value))


@functools.lru_cache(maxsize=4096)
def _array_type(dtype: np.dtype, ndim: int, readonly: bool) -> Any:
    return types.Array(numba.from_dtype(dtype), ndim, "C", readonly=readonly)


def _typeof(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _array_type(value.dtype, value.ndim, not value.flags.writeable)
    return numba.typeof(value)


def _struct_class(
    cls: type, methods: dict[str, pytypes.FunctionType], fields: tuple[tuple[str, Any], ...]
) -> tuple[type, str]:
    code = fingerprint(methods)
    _check_names(cls, methods, tuple(name for name, _ in fields))
    name = name_of(cls)
    # a bounds-checked build is another build: the setting has no effect on a warm cache otherwise
    mode = f"{ENGINE}|{getattr(config, 'BOUNDSCHECK', None)}|{fields}"
    digest = hashlib.sha256(f"{name}|{code}|{mode}".encode()).hexdigest()[:20]
    if (name, digest) in _structs:
        return _structs[name, digest], digest

    templates = {method: _template(method, _compilable(function)) for method, function in methods.items()}

    class Struct(types.StructRef):
        def __init__(self, fields: tuple) -> None:
            super().__init__(fields)
            self.name = f"{name}@{digest}{self._fields}"
            self.templates = templates

        def __reduce__(self) -> Any:
            return _rebuild, (name, digest, self._fields)

    Struct.__name__ = Struct.__qualname__ = cls.__qualname__
    structref.register(Struct)
    structref.define_boxing(Struct, type(cls.__name__, (structref.StructRefProxy,), {}))
    for method, template in templates.items():
        _overload_method(Struct, method, jit_options=METHOD_OPTIONS)(template)
    _structs[name, digest] = Struct
    return Struct, digest


def _check_names(cls: type, methods: dict[str, pytypes.FunctionType], fields: tuple[str, ...]) -> None:
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


def _compilable(function: pytypes.FunctionType) -> pytypes.FunctionType:
    """A copy of a function whose plain helper functions are compiled ones."""
    copy = _shell(function)
    _equip(copy)
    return copy


def _helper(function: pytypes.FunctionType) -> Any:
    """The compiled helper, the same for all who call it as long as its code and all that it reads are the same."""
    key = (id(function), fingerprint({function.__name__: function}))
    if key not in _helpers:
        _kept.append(function)
        copy = _shell(function)
        # known before its own helpers are: it may call itself, and is then not inlined
        small = (
            len(function.__code__.co_code) <= INLINE and function.__name__ not in function.__code__.co_names
        )
        _helpers[key] = njit(forceinline=small, **PART_OPTIONS)(copy)
        _equip(copy)
    return _helpers[key]


def _shell(function: pytypes.FunctionType) -> pytypes.FunctionType:
    """A copy of a function with globals and cells of its own."""
    cells = tuple(pytypes.CellType(*_contents(cell)) for cell in function.__closure__ or ())
    # a module that can always be imported: the cache looks for it when it loads, and notebooks have none
    scope = {**function.__globals__, "__name__": __name__}
    copy = pytypes.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _contents(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # empty: the name is not defined yet
        return ()


def _equip(copy: pytypes.FunctionType) -> None:
    """Put compiled helpers in the place of plain ones."""
    cells = dict(zip(copy.__code__.co_freevars, copy.__closure__ or ()))
    for name, value, enclosed in list(constants_of(copy)):
        helper = helper_of(value)
        if helper is not None and enclosed:
            cells[name].cell_contents = _helper(helper)
        elif helper is not None:
            copy.__globals__[name] = _helper(helper)


def _template(method: str, function: pytypes.FunctionType) -> Callable:
    """A function of the same signature that returns ``function``, as ``overload_method`` wants it."""
    scope: dict[str, Any] = {"function": function}
    words = []
    for k, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise CannotLower(
                f"{method}() takes {parameter} by keyword or position only: make it a plain argument "
                f"(line {function.__code__.co_firstlineno})"
            )
        if parameter.default is inspect.Parameter.empty:
            words.append(parameter.name)
        else:
            scope[f"default{k}"] = parameter.default
            words.append(f"{parameter.name}=default{k}")
    exec(f"def template({', '.join(words)}):\n    return function", scope)
    return scope["template"]


@functools.lru_cache(maxsize=4096)
def _named(function: Callable, digest: str) -> Any:
    """A compiled copy of a function under a name that says all that its code depends on.

    So a name in the disk cache never stands for two things, and processes that write it at once write the same.
    """
    source: Any = function
    copy = pytypes.FunctionType(source.__code__, source.__globals__, source.__name__, source.__defaults__)
    machine = cpu_target.target_context.codegen().magic_tuple()
    # the code of the engine itself is in the digest
    code = "" if source.__module__.startswith(f"{__package__}.") else fingerprint({source.__name__: source})
    all_of_it = f"{digest}|{code}|{numba.__version__}|{machine}"
    copy.__qualname__ = f"{source.__name__}_{hashlib.sha256(all_of_it.encode()).hexdigest()[:16]}"
    copy.__module__ = source.__module__
    options: Any = {"nogil": True, "error_model": "numpy", "boundscheck": None, "pipeline_class": Whole}
    return kept(copy, ENGINE, **options)


# Both go over the fields in one piece: statement by statement they took a sixth of a cold compile of many fields.
@intrinsic
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


@intrinsic
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


def _build(struct, values):
    made = _new(struct)
    _fill(made, values)  # type: ignore[call-arg]
    return made


def _read(struct):
    return _get(struct)  # type: ignore[call-arg]
