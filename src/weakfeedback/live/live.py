"""What all live objects share: a core that runs a game, a journal, and saved states."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np

from weakfeedback.live import persistence, storage
from weakfeedback.live.core import Core
from weakfeedback.live.driver import driver_of
from weakfeedback.live.errors import Refused, UnknownDecision
from weakfeedback.live.form import Form, code_of, from_state, origin_of
from weakfeedback.live.game import EXPLAINED, Game
from weakfeedback.live.hooks import Hook, Hooks
from weakfeedback.live.storage import StateError
from weakfeedback.plaintext import with_article
from weakfeedback.validate import brief, flag, integer, number
from weakfeedback.words import STAGES, Words, currency_of, names_of

Self = TypeVar("Self", bound="Live")


class Live:
    """A policy in use. A subclass makes the game, and offers what users call."""

    kind: ClassVar[str]  # the kind of object that files declare
    setting: ClassVar[str]  # where the catalogue lists the policies
    form: ClassVar[Form]

    _core: Core
    _words: Words = STAGES
    _game: Any
    _journal: persistence.Journal | None = None

    def _begin(
        self,
        game: Game,
        policy: Any,
        make: Callable[..., Any],
        seed: Any,
        options: dict[str, Any],
        compiled: Any,
        remember: int | None,
        counts: Any,
        terms: Any,
        in_order: bool = False,
    ) -> None:
        """Make the core; with ``in_order`` a decision must be answered before the next, whatever the policy says."""
        origin, chosen = origin_of(game.setting, policy, make, game.needs, options)
        compiled = flag("compiled", compiled)
        if remember is not None:
            remember = integer("remember", remember, 0)
        rng, known = generator_of(seed)
        driver = driver_of(chosen, origin, game, compiled, rng)
        game.check(chosen, terms)
        order = in_order or not getattr(chosen, "delay_safe", False)
        self._game = game
        self._core = Core(game, driver, rng, known, counts, terms, order, remember)

    @classmethod
    def _form(cls, body: Any) -> Form:  # noqa: ARG003
        """Return the form of an object with this state."""
        return cls.form

    @classmethod
    def _setting(cls, body: Any) -> str:  # noqa: ARG003
        """Return where the catalogue lists the policies of an object with this state."""
        return cls.setting

    @property
    def _size(self) -> int:
        """The number of stages, models or arms."""
        return int(self._game.K)

    def speak(self, names: Sequence[str] | None = None, currency: str | None = None) -> None:
        """Use these names of stages, models or arms, and this currency, in reports, explanations and errors.

        What is left out stays as it is. A state holds neither: say them again after `load`.
        """
        size, noun = self._size, self._words.noun
        currency, known = currency_of(currency), self._words
        self._use(Words(noun, names_of(names, size, noun) or known.names, currency or known.currency))

    def _use(self, words: Words) -> None:
        """Use these words here and in the game."""
        self._words = self._game.words = words

    # -- what can be seen

    @property
    def core(self) -> Core:
        """What decides and learns: for programs that hold it themselves, such as a service."""
        return self._core

    @property
    def policy(self) -> Any:
        """The policy object itself, up to date: read it, but leave the learning to this object."""
        return self._core.view(lambda view: view.policy)

    @property
    def compiled(self) -> bool:
        """Whether the policy's methods run compiled; the decisions are the same either way."""
        return self._core.driver.compiled

    @property
    def rounds(self) -> int:
        """The number of feedbacks accepted so far."""
        return self._core.view(lambda view: view.rounds)

    @property
    def pending(self) -> list[int]:
        """The ids decided but not yet answered."""
        return self._core.pending()

    @property
    def _label(self) -> str:
        return self._core.label

    def _offer(self, operation: str) -> None:
        """Refuse what the game does not offer."""
        if operation in self._game.refuses:
            raise Refused(self._game.refuses[operation].format(self._label))

    def _explained(self, id: int) -> Any:
        """Return what was kept of a decision."""
        number = integer("id", id, 0)
        why = self._core.view(lambda view: view.kept.get(number))
        if why is None:
            raise UnknownDecision(
                f"decision {id} cannot be explained: this is kept for the last {EXPLAINED} decisions, and not saved"
            )
        return why

    # -- rounds

    def _give_out(self, id: int) -> None:
        """Wait for the journal before a decision is returned; cancel it if that fails."""
        try:
            self._wait()
        except BaseException:
            self._core.close([id], 0.0, reason="the journal could not be written")
            raise

    def _wait(self, call: Any = None) -> None:
        """Wait until the journal, if there is one, has everything done so far."""
        journal = self._journal
        if journal is not None:
            journal.wait(call)

    def _owes(self, call: Any) -> bool:
        """Return whether this call repeats one that was done but not written; if so, it is written now."""
        return self._journal is not None and self._journal.owes(call)

    def _alter(self, kind: str, body: dict[str, Any], call: Any = None) -> None:
        """Make an alteration of the game, unless the call repeats one that only has to be written."""
        if call is None or not self._owes(call):
            self._core.alter(kind, body)
            self._wait(call)

    def cancel(self, id: int, cost: float = 0.0) -> None:
        """Cancel a pending decision: nothing is learned from it. ``cost`` was spent on it anyway."""
        spent = number("cost", cost, at_least=0.0)
        call = ("cancel", str(id))
        if not self._owes(call):
            self._core.cancel(id, spent)
            self._wait(call)

    def expire(self, seconds: float) -> list[int]:
        """Expire decisions that were made at least ``seconds`` ago and not answered; return their ids.

        Nothing is learned from them, and a late answer is refused. This needs a journal, which records their times.
        """
        age = number("seconds", seconds, at_least=0.0)
        self._core.pending()  # a closed object refuses
        if self._journal is None:
            raise ValueError("decisions expire only with a journal, which knows their age: see open()")
        return self._journal.expire(age)

    # -- hooks

    def on_decision(self, hook: Hook) -> Hook:
        """Call ``hook(event)`` after every decision: a dict with ``kind``, ``id`` and what the journal holds of it.

        It is called in the thread of the decision, without a lock, before the caller has its result. An exception is
        logged and harms nothing. Hooks are not saved. It can be a decorator:

        >>> from weakfeedback import Router
        >>> router, heard = Router(2, prices=[1, 20], error_cost=100), []
        >>> @router.on_decision
        ... def hear(event):
        ...     heard.append((event["id"], event["call"]))
        >>> decision = router.decide()
        >>> heard
        [(1, [0, 1])]
        """
        return self._hook("decision", hook)

    def on_feedback(self, hook: Hook) -> Hook:
        """Call ``hook(event)`` after every feedback that was learned, as `on_decision` does."""
        return self._hook("feedback", hook)

    def _hook(self, kind: str, hook: Hook) -> Hook:
        hooks = self._core.hooks or Hooks()
        hooks.add(kind, hook)
        self._core.hooks = hooks
        return hook

    # -- the journal

    @classmethod
    def open(
        cls: type[Self],
        path: str | os.PathLike[str],
        *arguments: Any,
        every: int = 1,
        pending_ttl: float | None = None,
        **named: Any,
    ) -> Self:
        """Return the object whose journal is at ``path``: a new one, or the recovered one if the journal exists.

        Every decision, feedback and cancellation is in the journal before its call returns. So nothing that a caller
        was told is lost when the process is killed or the power fails. Threads that wait for the disk share one write.

        Parameters
        ----------
        path : file
            On a local disk. Only one process may have it open; a second one is refused (`OwnedElsewhere`) until the
            first has closed it or died.
        *arguments, **named
            As for the class. When the object is recovered, arguments left out come from the journal. Different prices
            apply from now on (see ``recost``), and so does another promise; any other difference raises ValueError.
        every : integer >= 1
            How often to wait for the disk. With n, a killed process still loses nothing, and a power failure loses at
            most the last n - 1 events; even then no id is issued twice.
        pending_ttl : number > 0, optional
            Seconds after which a decision without an answer expires: nothing is learned from it, and a late answer is
            refused.

        If the disk fails, a decision raises OSError and is cancelled. Feedback, cancellations and similar calls raise
        OSError, and repeating them writes them. An answer that was paid for is returned with a `DurabilityWarning`.
        `close` the object, or use it in a ``with`` block, to let other processes open the file.
        """
        found: Self = persistence.opened(cls, storage.file_at(path), arguments, named, every, pending_ttl)
        return found

    def close(self) -> None:
        """Close the journal, if there is one: the object becomes unusable, and the file can be opened again.

        If the last events cannot be written, they are lost: OSError is raised, and the journal is closed anyway.
        """
        journal, core = self._journal, self._core
        if journal is None:
            return
        if not core.closed:  # otherwise an earlier call of close was interrupted
            core.pending()  # raises in a signal handler, and in a forked child
        try:
            if not core.closed:
                self._finish(journal, f"this {self.kind} was closed: open {journal.store.place} again")
            journal.log.flush()  # other threads may have added events since, and wait for them
        finally:
            journal.store.close()
            self._journal = None

    def _finish(self, journal: persistence.Journal, words: str) -> None:
        """Take a final snapshot, and refuse further changes."""
        try:
            with suppress(OSError):  # recovery works without a snapshot
                journal.snapshot()
        finally:
            self._core.shut(words)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- states

    def state(self) -> dict[str, Any]:
        """Return everything as plain data, as `save` writes it; `from_state` makes an object of it."""
        return self._core.state()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to ``path``, atomically. The loaded object decides as this one would have.

        A state that could not be loaded again is refused, and so is the path of a journal; the file is then unchanged.
        """
        file = storage.file_at(path)
        self._core.pending()  # raises in a forked child, which must not wait for what another thread was loading
        if persistence.is_journal(file):
            raise ValueError(f"path must not be a journal, which holds more than a state, got {str(path)!r}")
        with self._core.saving:  # so that the last state written is the latest
            self._core.run(self._core.ledger.adopt)
            body = self.state()
            try:
                self._core.check(body)
            except StateError as error:
                raise ValueError(
                    f"{path} is not written, because it could not be loaded again: {error}"
                ) from None
            storage.write(file, self.kind, body)

    @classmethod
    def load(
        cls: type[Self],
        path: str | os.PathLike[str],
        *called: Any,
        policy: Any = None,
        compiled: bool = False,
        fresh_ids: bool = False,
        **code: Any,
    ) -> Self:
        """Return the object that was saved to ``path``; it decides as if it had never stopped.

        The stages or models, ``combine``, ``compare``, ``metric``, ``label`` and ``features`` of your own are code and
        not in the file: pass them again, the stages or models first, the others by name. So is a policy of your own:
        pass a fresh object as ``policy``. A file that cannot be used raises `StateError`.

        The file does not record ids that were issued after it was written. If there may be any (after a crash, or if
        a second object was loaded from the same file), pass ``fresh_ids=True``: ids then continue after a random gap,
        so that a late answer to one of those decisions is refused and not taken for another. `open` does not need this.
        """
        given = code_of(cls.form, called, code, needed=True)
        found: Self = persistence.load(cls, path, given, policy, compiled, fresh_ids)
        return found

    @classmethod
    def from_state(
        cls: type[Self],
        state: dict[str, Any],
        *called: Any,
        policy: Any = None,
        compiled: bool = False,
        **code: Any,
    ) -> Self:
        """Return the object that gave ``state``; stages or models that are left out run elsewhere. See `load`."""
        given = code_of(cls.form, called, code, needed=False)
        found: Self = from_state(cls, state, given, policy, compiled)
        return found

    # -- unsupported operations

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{with_article(self.kind)} cannot be pickled: "
            "use save(path) and load(path), or state() and from_state(state)"
        )

    def __copy__(self) -> NoReturn:
        raise TypeError(
            f"{with_article(self.kind)} cannot be copied, for two would give out the same ids: "
            "use state() and from_state(state) for one that goes its own way"
        )

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__copy__()


def generator_of(seed: Any) -> tuple[np.random.Generator, int | None]:
    """Return the generator of a seed, and the seed if it is an integer or was drawn as one.

    A seed is an integer, a SeedSequence, a Generator over PCG64, or None for fresh entropy.
    """
    if isinstance(seed, np.random.Generator):
        if not isinstance(seed.bit_generator, np.random.PCG64):
            raise ValueError(
                f"seed must be a Generator over PCG64, whose state can be saved, got {brief(seed)}"
            )
        return seed, None
    if isinstance(seed, np.random.SeedSequence):
        return np.random.Generator(np.random.PCG64(seed)), None
    known = int.from_bytes(os.urandom(16)) if seed is None else integer("seed", seed, 0)
    return np.random.Generator(np.random.PCG64(known)), known
