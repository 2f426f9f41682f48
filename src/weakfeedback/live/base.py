"""What the objects that people hold have in common: a policy, its generator, the ledger, saving and loading."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from weakfeedback import catalog
from weakfeedback.files import remove_leftovers
from weakfeedback.live import storage
from weakfeedback.live.ledger import Ledger
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import brief, integer


class Live:
    """A policy in use: ids, pending decisions, lock and saved states. Subclasses know what feedback is."""

    kind: ClassVar[str]  # what the files say that they hold
    setting: ClassVar[str]  # where the catalogue lists the policies

    def __init__(
        self,
        policy: Any,
        make: Callable[..., Any],
        methods: tuple[str, ...],
        seed: Any,
        options: dict[str, Any],
    ) -> None:
        if isinstance(policy, str):
            self._policy_name: str | None = catalog.canonical_name(self.setting, policy)
            self._options: dict[str, Any] | None = dict(options)
            self._policy = make(self._policy_name, **options)
        else:
            if options:
                raise ValueError(
                    f"options go with the name of a policy, not with an object: {', '.join(options)}"
                )
            for method in methods:
                if isinstance(policy, type) or not callable(getattr(policy, method, None)):
                    raise ValueError(f"policy must be a name or a policy object, got {brief(policy)}")
            self._policy_name = catalog.policy_name(self.setting, policy)
            self._options = _options_of(self.setting, self._policy_name, policy)
            self._policy = policy
        self._rng = generator_of(seed)
        self._delay_safe = bool(getattr(self._policy, "delay_safe", False))
        self._ledger = Ledger(one_at_a_time=not self._delay_safe)
        self._saving = threading.Lock()
        self._autosave: tuple[Path, int] | None = None
        self._on_disk = 0  # so many changes of the ledger are in the file of autosave

    @property
    def policy(self) -> Any:
        """The policy object itself: look, but leave the learning to this object."""
        return self._policy

    @property
    def rounds(self) -> int:
        """The number of feedbacks accepted so far."""
        return self._ledger.rounds

    @property
    def pending(self) -> list[int]:
        """The ids decided but not yet answered."""
        return self._ledger.pending

    def cancel(self, id: int) -> None:
        """Take a pending decision back: nothing is learned from it."""
        self._ledger.cancel(id)
        self._acknowledge()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to ``path``, atomically. What is loaded decides as this object would have."""
        # A lock of its own: a slow disk stops no decision, and of two savers the later state stays.
        with self._saving:
            self._write(path)

    def autosave(self, path: str | os.PathLike[str] | None, every: int = 1) -> None:
        """Save to ``path`` now, and from now on by itself; with None no longer.

        Every decision, feedback and cancellation is on disk (whole, and synchronised) before the call that made it
        returns, so that a process killed at any moment has lost nothing that anybody was told. Threads that wait for
        the disk share one write. With ``every`` = n it is written only when n of them are new, and at most n - 1 are
        lost. A batch is one write. `load` does not turn it on again.

        If the file cannot be written the call raises OSError. A decision is then cancelled. Feedback is learned, but
        in memory only; repeat it, and it is a "duplicate" that tries to write again.
        """
        if path is None:
            with self._saving:
                self._autosave = None
            return
        step, target = integer("every", every, 1), Path(path).absolute()
        remove_leftovers(target)
        with self._saving:
            self._on_disk = self._write(target)
            self._autosave = target, step

    def _write(self, path: str | os.PathLike[str]) -> int:
        """Write the state, and return how many changes it holds."""
        with self._ledger.lock:
            changes, body = self._ledger.changes, self._body()
        storage.write(path, self.kind, body)
        return changes

    def _acknowledge(self) -> None:
        """Return when autosave has what was changed so far; not to be called with the ledger's lock held."""
        if self._autosave is None:
            return
        made = self._ledger.changes
        with self._saving:  # whoever waited here finds his change written by another thread
            if self._autosave is not None and made - self._on_disk >= self._autosave[1]:
                self._on_disk = self._write(self._autosave[0])

    def _give_out(self, id: int) -> None:
        """Autosave a decision before anybody is told of it; take it back if that fails."""
        try:
            self._acknowledge()
        except BaseException:
            self._ledger.cancel(id)
            raise

    def _body(self) -> dict[str, Any]:
        """Return everything that a file holds."""
        with self._ledger.lock:
            return {"core": self._core(), **self._state()}

    def _state(self) -> dict[str, Any]:
        raise NotImplementedError

    def _encode_decision(self, decided: Any) -> Any:
        raise NotImplementedError

    def _decode_decision(self, data: Any) -> Any:
        raise NotImplementedError

    @property
    def _label(self) -> str:
        return self._policy_name or type(self._policy).__name__

    def _core(self) -> dict[str, Any]:
        options = self._options or {}
        return {
            "policy": self._policy_name if self._options is not None else None,
            "class": type(self._policy).__qualname__,
            "options": {name: storage.encode(value) for name, value in options.items()},
            "fields": storage.encode_fields(self._policy),
            "generator": storage.encode_generator(self._rng),
            "ledger": self._ledger.state(self._encode_decision),
        }

    def _restore_core(self, core: dict[str, Any]) -> None:
        """Go on where the saved object stopped; called on an object that nobody else has seen yet."""
        policy = storage.restore_fields(self._policy, core["fields"])
        rng = storage.restore_generator(core["generator"])
        ledger = Ledger.from_state(core["ledger"], self._decode_decision, one_at_a_time=not self._delay_safe)
        self._policy, self._rng, self._ledger = policy, rng, ledger


def saved_policy(core: Any, policy: Any) -> tuple[Any, dict[str, Any]]:
    """Return the policy (a name or the given object) and the options with which to make the object again."""
    keys = {"class": str, "options": dict, "fields": dict, "generator": dict, "ledger": dict}
    require("core", core, {"policy": (str, type(None)), **keys})
    if policy is not None:
        if type(policy).__qualname__ != core["class"]:
            raise ValueError(f"policy must be a {core['class']}, as the file holds, got {brief(policy)}")
        return policy, {}
    if core["policy"] is None:
        raise ValueError(
            f"the file holds a policy that was given as an object: pass policy=, a fresh {core['class']}"
        )
    return core["policy"], {name: storage.decode(value) for name, value in core["options"].items()}


def remade(make: Callable[[], Any]) -> Any:
    """Return ``make()``; what it finds wrong with saved values is the fault of the file."""
    try:
        return make()
    except StateError:
        raise
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise StateError(f"the saved state is not usable: {error}") from None


def generator_of(seed: Any) -> np.random.Generator:
    """Return the generator of a seed: an integer, a SeedSequence, a Generator over PCG64, or None for fresh entropy."""
    if isinstance(seed, np.random.Generator):
        if not isinstance(seed.bit_generator, np.random.PCG64):
            raise ValueError(
                f"seed must be a Generator over PCG64, whose state can be saved, got {brief(seed)}"
            )
        return seed
    if seed is None or isinstance(seed, np.random.SeedSequence):
        return np.random.Generator(np.random.PCG64(seed))
    return np.random.Generator(np.random.PCG64(integer("seed", seed, 0)))


def _options_of(setting: str, name: str | None, policy: Any) -> dict[str, Any] | None:
    """Return the options of a policy of the catalogue, None unless its fields have the names of all of them."""
    if name is None:
        return None
    options = catalog.option_names(setting, name)
    fields = vars(policy)
    return {option: fields[option] for option in options} if set(options) <= set(fields) else None
