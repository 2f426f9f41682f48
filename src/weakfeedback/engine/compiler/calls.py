"""The methods of one compiled object, called from Python one by one: what a live object needs.

A simulation compiles a whole loop. Here each method is a separate compiled function that takes the object's
struct. The generator is passed in a struct too: unwrapping NumPy's generator at every call would take longer than most
methods do.

The state of such an object may come from a file, and somebody may have forged it. So indices are checked here in every
class: a wrong one is an IndexError, and never a place in memory.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weakfeedback.engine.compiler._numba.functions import entry_point
from weakfeedback.engine.compiler.fields import SCALARS
from weakfeedback.engine.compiler.fingerprint import CannotLower, assigned
from weakfeedback.engine.compiler.lowering import Blueprint, compiled_loop
from weakfeedback.engine.compiler.reasons import reason


class Holder:
    """An object whose only field is a generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng


class Calls:
    """The compiled twin of an object, and its methods. Nothing is called, and nothing drawn, to compile them.

    Parameters
    ----------
    obj : object
        Its arrays are shared with the twin until a method replaces them. Numbers, and arrays that are replaced, belong
        to the twin: `write_back` copies them back.
    methods : mapping of names to tuples
        For each method that will be called, an example of its arguments, without the generator, which comes last.
        Later calls must have arguments of the same types: they are not checked again.
    rng : Generator
        What the methods draw from.
    undrawn : names
        Methods that take no generator.

    Raises ``CannotLower``, with one line, if the object cannot be compiled.
    """

    def __init__(
        self,
        obj: Any,
        methods: Mapping[str, tuple[Any, ...]],
        rng: np.random.Generator,
        undrawn: tuple[str, ...] = (),
    ) -> None:
        self.obj = obj
        self._blueprint = Blueprint(obj, tuple(methods), checked=True)
        self._undrawn = undrawn
        changed = assigned(self._blueprint.methods.values())
        self.shared = not changed  # whether nothing but the contents of arrays changes
        self._numbers = tuple(name for name in self._blueprint.fields if name in changed)
        only_numbers = all(type(getattr(obj, name)) in SCALARS for name in self._numbers)
        holder = Holder(rng)
        source = Blueprint(holder, ())
        self._source = source.twin(holder)
        self._share()
        self._entries = {}
        self._look: Any = None  # reads the numbers alone, if no array is replaced: many fields take long
        if self._numbers and only_numbers:
            look = compiled_loop(_reader(self._numbers), self._blueprint, source)
            self._look = entry_point(look, self._twin, self._source)
        for name, arguments in methods.items():
            function = compiled_loop(_caller(name, len(arguments), name in undrawn), self._blueprint, source)
            try:
                self._entries[name] = entry_point(function, self._twin, self._source, *arguments)
            except Exception as error:  # the compiler raises many kinds of errors
                raise CannotLower(reason(error, self._blueprint.methods, type(obj))) from None

    def method(self, name: str) -> Callable[..., Any]:
        """Return a method as a function of the same arguments; the generator argument is ignored."""
        entry, source = self._entries[name], self._source
        last = None if name in self._undrawn else -1

        def call(*arguments: Any) -> Any:
            return entry(self._twin, source, *arguments[:last])

        return call

    def fields(self) -> dict[str, Any]:
        """Return the state of the twin; its arrays are the twin's own."""
        if not self.shared and self._look is None:
            return self._blueprint.read(self._twin)
        found: dict[str, Any] = vars(self.obj)  # its arrays are shared
        if self._look is not None:
            found.update(zip(self._numbers, self._look(self._twin, self._source)))
        return found

    def write_back(self) -> None:
        """Make ``vars(obj)`` the state of the twin."""
        if not self.shared:
            vars(self.obj).update(self.fields())

    def restart(self) -> None:
        """Continue from ``vars(obj)``."""
        self._share()

    def _share(self) -> None:
        self._twin = self._blueprint.twin(self.obj)


@functools.cache
def _caller(name: str, arguments: int, undrawn: bool) -> Callable[..., Any]:
    """Return a function that calls the method of an object, with the generator of a holder as the last argument."""
    names = [f"a{k}" for k in range(arguments)]
    given = names if undrawn else [*names, "source.rng"]
    return _made(name, ["obj", "source", *names], f"obj.{name}({', '.join(given)})")


@functools.cache
def _reader(names: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function that returns these fields of an object."""
    return _made("look", ["obj", "source"], f"({', '.join(f'obj.{name}' for name in names)},)")


def _made(name: str, arguments: list[str], value: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {"__name__": __name__}
    # under the name of this file, so that the compiler finds its cache
    exec(compile(f"def {name}({', '.join(arguments)}):\n    return {value}\n", __file__, "exec"), scope)
    found: Callable[..., Any] = scope[name]
    return found
