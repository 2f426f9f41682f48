"""Drivers of a live object's policy: interpreted or compiled, with bit-identical draws."""

from __future__ import annotations

import copy
import dis
import functools
import types
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.engine.replication import fresh

if TYPE_CHECKING:
    from weakfeedback.live.form import Origin

Examples = Mapping[str, tuple[Any, ...]]
Backup = tuple[dict[str, Any], list[tuple[np.ndarray, np.ndarray]]]  # fields, and arrays with their copies
PLAIN = (bool, int, float, str, type(None))


class Interpreted:
    """Runs the policy in the interpreter."""

    compiled = False
    origin: Origin  # how the policy was given
    born: Any  # the policy as it was then, which a state must match

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.history = tuple(getattr(policy, "history", ()))  # tables that only grow, row by row
        slotted = any("__slots__" in vars(kind) for kind in type(policy).__mro__[:-1])
        self._plain = hasattr(policy, "__dict__") and not slotted
        self._arrays: list[str] | None = None  # those that a backup must copy, if that is known beforehand
        self.known: tuple[dict[str, Any], list[str]] | None = (
            None  # with all fields, if these are the policy's own
        )

    def method(self, name: str) -> Callable[..., Any]:
        """Return a method of the policy."""
        found: Callable[..., Any] = getattr(self.policy, name)
        return found

    def draws(self, name: str) -> bool:
        """Return whether a method may draw; a method of the catalogue that does not use its generator does not."""
        code = getattr(getattr(type(self.policy), name, None), "__code__", None)
        if self.origin.name is None or code is None:
            return True
        return _uses_last(code)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the policy as they are now."""
        found: dict[str, Any] = self.policy.__dict__ if self._plain else fields_of(self.policy)
        return found

    def write_back(self) -> Any:
        """Return the policy, with all fields up to date."""
        return self.policy

    def alter(self, change: Callable[[Any], None]) -> None:
        """Apply ``change`` to the policy object itself, outside its compiled methods."""
        change(self.write_back())

    def plan(self) -> None:
        """Find out which fields a backup must copy: a policy of the catalogue never changes the types of its fields."""
        fields = vars(self.policy) if self._plain else {"slots": ()}
        if all(isinstance(value, (np.ndarray, *PLAIN)) for value in fields.values()):
            self._arrays = self._changing(fields)
            self.known = fields, self._arrays

    def _changing(self, fields: dict[str, Any]) -> list[str]:
        """Return the arrays that may change; of a table that only grows (``policy.history``) no row in use does."""
        return [
            name
            for name, value in fields.items()
            if type(value) is np.ndarray and name not in self.history and value.flags.writeable
        ]

    def backup(self, only: Collection[str] | None = None) -> Backup:
        """Return what `restore` needs to undo what a method of the policy does next; ``only`` these arrays change."""
        now, arrays = self.fields().copy(), self._arrays
        if arrays is None:
            arrays = self._changing(now)
            for name, value in now.items():
                if type(value) is not np.ndarray and not isinstance(value, PLAIN):
                    now[name] = copy.deepcopy(value)
        return now, [(now[one], now[one].copy()) for one in arrays if only is None or one in only]

    def restore(self, kept: Backup) -> None:
        """Undo everything done since the backup; this may be repeated, also after an interruption."""
        fields, arrays = kept
        for array, saved in arrays:
            array[...] = saved
        for name, value in fields.items():
            setattr(self.policy, name, value)
        for name in self.history:  # the rows of the change; the last one may be partly written
            getattr(self.policy, name)[self.policy.t :] = 0


class Compiled(Interpreted):
    """Runs the compiled twin of the policy. The constructor compiles it, or loads it from the cache.

    ``examples`` has for each method an example of its arguments, without the generator. Methods in ``undrawn`` take
    no generator. Raises ``CannotLower`` if the policy cannot be compiled.
    """

    compiled = True

    def __init__(
        self, policy: Any, rng: np.random.Generator, examples: Examples, undrawn: tuple[str, ...] = ()
    ) -> None:
        from weakfeedback.engine.compiler.calls import Calls

        super().__init__(policy)
        self._calls = Calls(policy, examples, rng, undrawn)

    def method(self, name: str) -> Callable[..., Any]:
        """Return a compiled method."""
        return self._calls.method(name)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the compiled twin."""
        return self._calls.fields()

    def write_back(self) -> Any:
        """Return the policy, after updating its fields."""
        self._calls.write_back()
        return self.policy

    def plan(self) -> None:
        """Find out which fields a backup must copy, of the policy if its twin shares all that changes."""
        super().plan()
        if not self._calls.shared:
            self.known = None

    def alter(self, change: Callable[[Any], None]) -> None:
        """Apply ``change`` to the policy object itself, and rebuild the twin."""
        super().alter(change)
        self._calls.restart()

    def restore(self, kept: Backup) -> None:
        """Undo everything done since the backup, and rebuild the twin."""
        super().restore(kept)
        self._calls.restart()


def driver_of(
    policy: Any, origin: Origin, game: Any, compiled: bool, rng: np.random.Generator
) -> Interpreted:
    """Return the driver of a policy in a game."""
    driver = Interpreted(policy)
    if compiled:
        examples, undrawn = game.methods(policy)
        try:
            driver = Compiled(policy, rng, examples, undrawn)
        except CannotLower as reason:
            raise ValueError(
                f"compiled must be False for {type(policy).__name__}, which cannot be compiled: {reason}"
            ) from None
    if origin.name is not None:
        driver.plan()
    driver.origin = origin
    driver.born = fresh(policy) if hasattr(policy, "__dict__") else policy
    return driver


def has(policy: Any, method: str) -> bool:
    """Whether a policy has a method that not all have."""
    return callable(getattr(policy, method, None))


def learns_by_choosing(driver: Interpreted) -> bool:
    """Return whether choosing may change what the policy knows.

    Policies of the catalogue guarantee that it changes nothing but ``scratch``; others do not.
    """
    return driver.origin.name is None or bool(getattr(driver.policy, "scratch", ()))


def fields_of(policy: Any) -> dict[str, Any]:
    """Return the fields of an object, whether in its dict or in slots."""
    found = dict(getattr(policy, "__dict__", {}))
    for kind in type(policy).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(policy, name):
                found[name] = getattr(policy, name)
    return found


@functools.lru_cache(maxsize=1024)
def _uses_last(code: types.CodeType) -> bool:
    """Whether a function loads its last argument."""
    last = code.co_varnames[code.co_argcount - 1]
    return any(one.argval == last for one in dis.get_instructions(code) if one.opname.startswith("LOAD"))
