"""Turn a plain Python object into a compiled struct whose methods are the class's own methods.

    object    policy.S, policy.C, policy.select(rng)           plain Python: what you read is what runs
       |      fields.py         vars(policy): numbers, arrays, generators; anything else is refused by name
    fields    (("S", float64 2d), ("C", float64 1d), ...)
       |      fingerprint.py    a digest of all code that the methods reach; what it cannot follow is refused
    struct    one type for each class and digest, its arrays shared with the object     _numba/structs.py
       |      lowering.py       every method that can be reached is attached to it, with its helpers
    methods   struct.select(rng), compiled as a part of what calls it                   _numba/parts.py
       |      compiled_loop     the setting's own play(policy, world, ...), for the structs of both
    loop      one function of machine code, kept on disk under a name made of all digests      cache.py

``write_back`` copies replaced arrays and changed numbers back, so that ``vars(obj)`` is the whole state again. Nothing
here depends on any policy.
"""

import functools
import hashlib
import inspect
import threading
import types
from collections.abc import Callable
from typing import Any

from weakfeedback.engine.compiler._numba import functions, parts, stream, structs
from weakfeedback.engine.compiler._numba.borrowed import borrow, unwrap
from weakfeedback.engine.compiler._numba.functions import entry_point as entry_point
from weakfeedback.engine.compiler.cache import keep
from weakfeedback.engine.compiler.fields import SCALARS, check_names, kind_of, values_of
from weakfeedback.engine.compiler.fingerprint import (
    CannotLower,
    constants_of,
    fingerprint,
    helper_of,
    name_of,
    package_digest,
    reachable,
)

# all code that compiles, and which parts of Numba and NumPy it can use
ENGINE = f"{package_digest(__package__)}|{parts.KNOWN}|{stream.KNOWN}"
INLINE = 400  # bytes of bytecode up to which a helper is inlined
_lock = threading.RLock()
_helpers: dict[tuple[int, str, bool], Any] = {}
OWN = "weakfeedback."  # classes of this package are tested with bounds checks, and compiled without
_kept: list[Any] = []  # functions whose id is a key of _helpers stay alive


class Blueprint:
    """How objects like this one are compiled: created once, then ``twin`` and ``build`` convert each copy.

    ``checked`` says whether indices are checked in its methods, unless the user has said so.
    """

    def __init__(self, obj: Any, entry: tuple[str, ...], checked: bool | None = None) -> None:
        _refuse_if_disabled()
        methods = reachable(type(obj), entry)
        missing = [name for name in entry if name not in methods]
        if missing:
            raise CannotLower(f"{type(obj).__qualname__} has no method {missing[0]}()")
        values = values_of(obj)
        self.cls = type(obj)
        self.methods = methods
        self.fields = tuple(values)
        self._kinds = [kind_of(value) for value in values.values()]
        with _lock:
            fields = tuple((name, structs.type_of(value)) for name, value in values.items())
            checks = checks_bounds(type(obj), checked)
            self._type, self.digest = _struct_type(type(obj), methods, fields, checks)
            build, read = _compile_as(structs.build, self.digest), _compile_as(structs.read, self.digest)
            self._build = entry_point(build, self._type, tuple(values.values()))
            self._read = entry_point(read, self.build(obj))

    def twin(self, obj: Any) -> Any:
        """Return the compiled twin of ``obj`` for a loop: borrowed, unless a method replaces one of its arrays."""
        return borrow(self.build(obj), self.methods.values())

    def build(self, obj: Any) -> Any:
        """Return the struct of ``obj``; its arrays are shared."""
        values = values_of(obj)
        kinds = [type(value) if type(value) in SCALARS else kind_of(value) for value in values.values()]
        if type(obj) is not self.cls or kinds != self._kinds:
            raise TypeError(
                f"{type(obj).__qualname__} has fields of other kinds than the one this was made for"
            )
        return self._build(self._type, tuple(values.values()))

    def read(self, twin: Any) -> dict[str, Any]:
        """Return the state of a compiled twin."""
        return dict(zip(self.fields, self._read(unwrap(twin))))

    def write_back(self, twin: Any, obj: Any) -> None:
        """Make ``vars(obj)`` the state of its compiled twin."""
        for name, value in self.read(twin).items():
            setattr(obj, name, value)


def compiled_loop(function: Callable[..., Any], *blueprints: Blueprint) -> Any:
    """Return the loop compiled for these structs: one dispatcher, so one file in the disk cache, per combination."""
    with _lock:
        return _compile_as(function, "_".join(part.digest for part in blueprints))


def compiled_function(function: Callable[..., Any]) -> Any:
    """Return a plain function compiled with its helpers, for calls from Python; cached on disk."""
    _refuse_if_disabled()
    with _lock:
        source: Any = function
        copy = _make_compilable(source)
        code = fingerprint({source.__name__: source})
        copy.__qualname__ = (
            f"{source.__name__}_{code}"  # the disk cache must not outlive a change of a helper
        )
        copy.__module__ = source.__module__
        return _dispatcher(copy)


def _refuse_if_disabled() -> None:
    if functions.is_disabled():
        raise CannotLower("NUMBA_DISABLE_JIT is set, so nothing is compiled")


def _dispatcher(function: Any) -> Any:
    made = functions.loop(function)
    keep(made, function, ENGINE)
    return made


def _struct_type(
    cls: type, methods: dict[str, types.FunctionType], fields: tuple[tuple[str, Any], ...], checked: bool
) -> tuple[Any, str]:
    """The type of the structs of a class with these fields, and a digest of all that it depends on."""
    code = fingerprint(methods)
    check_names(cls, methods, tuple(name for name, _ in fields))
    name = name_of(cls)
    # a bounds-checked build is another build: the setting has no effect on a warm cache otherwise
    mode = f"{ENGINE}|{checked}|{fields}"
    digest = hashlib.sha256(f"{name}|{code}|{mode}".encode()).hexdigest()[:20]

    def templates() -> dict[str, Callable[..., Any]]:
        return {
            method: _template(method, _make_compilable(code, checked)) for method, code in methods.items()
        }

    return structs.struct_type(name, cls, digest, fields, templates, checked), digest


def checks_bounds(cls: type, checked: bool | None = None) -> bool:
    """Whether indices are checked in a class: as NUMBA_BOUNDSCHECK or else ``checked`` says, or in the user's own."""
    told = functions.checks_bounds()
    if told is None:
        told = checked
    return not cls.__module__.startswith(OWN) if told is None else bool(told)


def _make_compilable(function: types.FunctionType, checked: bool = False) -> types.FunctionType:
    """Return a copy of a function that calls compiled versions of its plain helpers."""
    copy = _copy_function(function)
    _equip(copy, checked)
    return copy


def _helper(function: types.FunctionType, checked: bool) -> Any:
    """Return the compiled helper, shared by all callers as long as its code and everything it reads are the same."""
    key = (id(function), fingerprint({function.__name__: function}), checked)
    if key not in _helpers:
        _kept.append(function)
        copy = _copy_function(function)
        # registered before its own helpers: it may call itself, and is then not inlined
        small = (
            len(function.__code__.co_code) <= INLINE and function.__name__ not in function.__code__.co_names
        )
        _helpers[key] = functions.helper(copy, small, checked)
        _equip(copy, checked)
    return _helpers[key]


def _copy_function(function: types.FunctionType) -> types.FunctionType:
    """Return a copy of a function with its own globals and cells."""
    cells = tuple(types.CellType(*_contents(cell)) for cell in function.__closure__ or ())
    # a module that can always be imported: the cache needs one when it loads, and notebooks have none
    scope = {**function.__globals__, "__name__": __name__}
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _contents(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # empty: the name is not defined yet
        return ()


def _equip(copy: types.FunctionType, checked: bool) -> None:
    """Replace plain helpers by compiled ones."""
    cells = dict(zip(copy.__code__.co_freevars, copy.__closure__ or ()))
    for name, value, enclosed in list(constants_of(copy)):
        helper = helper_of(value)
        if helper is not None and enclosed:
            cells[name].cell_contents = _helper(helper, checked)
        elif helper is not None:
            copy.__globals__[name] = _helper(helper, checked)


def _template(method: str, function: types.FunctionType) -> Callable[..., Any]:
    """Return a function of the same signature that returns ``function``, as ``overload_method`` requires."""
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
    found: Callable[..., Any] = scope["template"]
    return found


@functools.lru_cache(maxsize=4096)
def _compile_as(function: Callable[..., Any], digest: str) -> Any:
    """Return a compiled copy of a function under a name that identifies everything its code depends on.

    So a name in the disk cache never means two things, and processes that write it at the same time write the same.
    """
    source: Any = function
    # the code of this package itself is in the digest
    own = source.__module__.startswith(f"{__package__}.")
    code = "" if own else fingerprint({source.__name__: source})
    if own:
        copy = types.FunctionType(source.__code__, source.__globals__, source.__name__, source.__defaults__)
    else:
        copy = _make_compilable(source)
    all_of_it = f"{digest}|{code}|{functions.VERSION}|{functions.machine()}"
    copy.__qualname__ = f"{source.__name__}_{hashlib.sha256(all_of_it.encode()).hexdigest()[:16]}"
    copy.__module__ = source.__module__
    return _dispatcher(copy)
