"""Files and journals of live objects: every change is an event, on disk before it is acknowledged.

The file is a store of `weakfeedback.journal` with one learner, named "main". Its first event, ``create``, holds the
initial state of the object. During recovery the later events are applied in order; each decision is made again and must
be the one in the journal. Occasional snapshots, and one at `close`, make recovery faster; they are never required.
"""

from __future__ import annotations

import inspect
import itertools
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback._version import __version__
from weakfeedback.journal import Event, JournalError, Log
from weakfeedback.journal import fold as folding
from weakfeedback.journal.events import ENDS
from weakfeedback.journal.recover import recover
from weakfeedback.live import storage
from weakfeedback.live.core import GAP, REMEMBERED, Core, Ledger
from weakfeedback.live.errors import DurabilityWarning
from weakfeedback.live.form import Form, as_made_before, check_given, check_options, made_again
from weakfeedback.live.warning import warn_caller
from weakfeedback.plaintext import with_article
from weakfeedback.validate import flag, integer, number

NAME = "main"
SNAPSHOT = 10_000  # events between snapshots
LOOK = 60.0  # seconds between searches for expired decisions
UNANSWERED = {
    "expire": "expired at {}, not answered in time (see pending_ttl and expire)",
    "cancel": "was cancelled at {}",
}


class Journal:
    """Receives the events of one core, and waits for the disk: see `Live.open` for ``every`` and ``pending_ttl``."""

    def __init__(self, core: Core, store: Any, learner: int, every: int, pending_ttl: float | None) -> None:
        self.core, self.store, self.learner = core, store, learner
        self.every, self.pending_ttl = every, pending_ttl
        self.log = Log(store, learner)
        self._synced = self.log.last_seq
        self._pictured = self.log.last_seq  # the event of the last snapshot, or the first event
        self._looked = time.monotonic()
        self._ends: dict[int, tuple[int, str | None]] = {}  # ended decisions not yet stored: seq and digest
        self._owed: set[Any] = set()  # the calls that could not be written because the disk failed

    # -- the sink of the core

    def prepare(
        self, kind: str, id: int | None, body: dict[str, Any], ahead: int = 0, tag: Any = None
    ) -> Any:
        """Return the row of a future event that comes after ``ahead`` others, and the digest of an answer."""
        return self.log.prepare(kind, body, id, ahead=ahead), body.get("digest")

    def put(self, row: Any) -> None:
        """Queue an event; a repetition has no effect."""
        noted, digest = row
        _, seq, _, kind, id, _, _ = noted
        if kind in ENDS and id is not None:
            self._ends[id] = seq, digest
        self.log.put(noted)

    # -- waiting for the disk

    def wait(self, call: Any = None) -> None:
        """Wait until the disk has everything done so far; the caller must not hold the core's lock.

        If the disk fails, the call is remembered, so that repeating it only writes.
        """
        try:
            self.flush()
        except OSError:
            if call is not None:
                self._owed.add(call)
            raise
        self._owed.discard(call)
        if self.core.closed:  # another thread has closed it meanwhile
            return
        if self.log.last_seq - self._pictured >= SNAPSHOT:
            with suppress(OSError):  # recovery works without a snapshot
                self.snapshot()
        ttl, now = self.pending_ttl, time.monotonic()
        if ttl is not None and now - self._looked >= min(LOOK, ttl):
            self._looked = now
            self.expire(ttl)

    def wait_paid(self, done: str) -> None:
        """Wait likewise; an answer that was paid for is returned even if the disk is full."""
        try:
            self.wait()
        except OSError as error:
            words = f"{done} in memory only, the journal could not be written: {error}"
            warn_caller(words, DurabilityWarning)

    def owes(self, call: Any) -> bool:
        """Return whether this call repeats one that was done but not written; if so, it is written now."""
        if not self._owed or call not in self._owed:
            return False
        self.wait(call)
        return True

    def forgive(self) -> None:
        """Forget calls that were not written: their caller goes on and repeats nothing."""
        self._owed.clear()

    def flush(self) -> None:
        """Wait until all events so far are on disk or, with ``every`` > 1, would survive the end of the process."""
        seq = self.log.last_seq
        sync = seq - self._synced >= self.every
        self.log.flush(seq, sync=sync)
        if sync:
            self._synced = seq
        for id in [id for id, (stored, _) in list(self._ends.items()) if stored <= seq]:
            self._ends.pop(id, None)

    def snapshot(self) -> None:
        """Store the state of the object, so that recovery can begin there."""
        body, seq = self.core.run(lambda: (_picture(self.core, self.every), self.log.last_seq))
        self.log.flush(seq)
        if seq > self._pictured:
            self.store.add_snapshot(self.learner, seq, time.time_ns() // 1000, body)
            self._pictured = seq

    # -- what the ledger asks

    def digest_of_end(self, decision: int) -> str | None:
        """Return the digest of the answer to a decision, or None if it was cancelled."""
        known = self._ends.get(decision)
        return _end_in(self.store, self.learner, decision) if known is None else known[1]

    def end_in_words(self, decision: int) -> str | None:
        """Return how and when a decision that was never answered ended; None if the journal does not have it."""
        end = self.store.end_of(self.learner, decision)
        if end is None or end.kind not in UNANSWERED:
            return None
        at = datetime.fromtimestamp(end.at // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return UNANSWERED[end.kind].format(at)

    # -- decisions that are never answered

    def expire(self, seconds: float) -> list[int]:
        """Expire the decisions that were made at least ``seconds`` ago; return their ids."""
        before = time.time_ns() // 1000 - int(seconds * 1e6)
        old = []
        for id in self.core.pending():
            event = self.store.decided(self.learner, id)
            if event is not None and event.at <= before:
                old.append(id)
        if old:
            old = self.core.close(old, 0.0, "expire")
            self.wait()
        return old


class Replayed:
    """A live object that events are folded into."""

    def __init__(self, live: Any) -> None:
        self.live = live
        self._core: Core = live._core

    def apply(self, event: Event, same: bool, where: str) -> str | None:
        """Apply an event."""
        return folding.apply(self._core, event, same, where)

    def picture(self) -> dict[str, Any]:
        """Return everything as the journal stores it."""
        return self._core.run(lambda: _picture(self._core, self._core.every))


def replayed(cls: Any, body: dict[str, Any], code: dict[str, Any], store: Any, learner: int) -> Replayed:
    """Return the object of a snapshot or of the first event; the caller must apply the later events."""
    live = cls.from_state(body["state"], **code)
    core: Core = live._core
    core.seed, core.every = body["seed"], body["every"]
    # Answers from before the journal began are remembered; all later answers are in the journal.
    core.ledger.archive = lambda id: _end_in(store, learner, id)
    return Replayed(live)


def _picture(core: Core, every: int) -> dict[str, Any]:
    """Return everything that recovery starts from; the caller must hold the lock."""
    told = {"kind": core.game.kind, "package": __version__, "seed": core.seed, "every": every}
    return {**told, "state": core._state()}


def _end_in(store: Any, learner: int, id: int) -> str | None:
    end = store.end_of(learner, id)
    return str(end.body.get("digest")) if end is not None and end.kind == "feedback" else None


# -- opening


def opened(
    cls: Any, path: Path, arguments: tuple[Any, ...], named: dict[str, Any], every: Any, pending_ttl: Any
) -> Any:
    """Return the live object whose journal is at ``path``: a new one, or the recovered one if the journal exists."""
    step = integer("every", every, 1)
    ttl = None if pending_ttl is None else number("pending_ttl", pending_ttl, above=0.0)
    given = _given(cls, arguments, named)
    fresh = not path.exists()
    made = cls(*arguments, **named) if fresh else None  # invalid arguments must leave no file behind
    from weakfeedback.journal.sqlite import SqliteStore

    store = SqliteStore.open(path)
    try:
        learners = store.learners()
        if not learners or store.last(learners[0].id)[0] < 0:  # new, or the process ended before it had begun
            live = cls(*arguments, **named) if made is None else made
            _begin(live, store, step, ttl)
        else:
            live = _recover(cls, store, learners, given, str(path), exact=True)
            _attach(live, Journal(live._core, store, learners[0].id, step, ttl))
            _resume(live, given)
    except BaseException:
        store.close()
        raise
    return live


def _begin(live: Any, store: Any, every: int, pending_ttl: float | None) -> None:
    """Start the journal of a new object in an empty store."""
    core: Core = live._core
    core.ledger.remember = 0  # the journal remembers all answers
    core.check(core.state())
    known = [learner.id for learner in store.learners() if learner.name == NAME]
    learner = known[0] if known else store.create_learner(NAME, time.time_ns() // 1000)
    journal = Journal(core, store, learner, every, pending_ttl)
    journal.log.append("create", core.run(_picture, core, every))
    journal.log.flush()
    core.every = every
    _attach(live, journal)


def _attach(live: Any, journal: Journal) -> None:
    """Connect the changes of the object to the journal."""
    ledger = live._core.ledger
    ledger.archive, ledger.ending = journal.digest_of_end, journal.end_in_words
    live._journal = live._core.sink = journal


def _recover(
    cls: Any, store: Any, learners: list[Any], given: dict[str, Any], where: str, exact: bool = False
) -> Any:
    """Return the object that the journal describes; if ``exact``, a policy object must have the same options."""
    if len(learners) != 1 or learners[0].name != NAME:
        raise JournalError(f"{where} is the store of a service, with {len(learners)} learners: open it there")

    def make(body: dict[str, Any], _seq: int, _at: int | None) -> Replayed:
        if body["kind"] != cls.kind:
            found, wanted = with_article(str(body["kind"])), with_article(cls.kind)
            raise JournalError(f"{where} is the journal of {found}, not of {wanted}")
        form: Form = cls._form(body["state"])
        check_given(form, given, body["state"], body["seed"], where)
        code = {
            one.name: given[one.name] for one in form.arguments if one.role != "data" and one.name in given
        }
        if form.counted is not None and hasattr(cls, "seat"):  # their number may change
            code.pop(form.arguments[0].name, None)
        if given.get("timeout") is not None and "timeout" in body["state"]:
            body["state"]["timeout"] = given["timeout"]
        if "compiled" in given:
            code["compiled"] = given["compiled"]
        policy = given.get("policy")
        if policy is not None and not isinstance(policy, str):
            if exact:
                check_options(cls._setting(body["state"]), body["state"]["core"], policy, where)
            code["policy"] = as_made_before(policy, body["state"])
        return replayed(cls, body, code, store, learners[0].id)

    found = recover(store, learners[0], make, where)
    for words in found.warnings:
        warn_caller(f"{where}: {words}")
    for words in found.stands:
        warn_caller(words)
    live = found.fold.live
    if hasattr(cls, "seat"):
        live.seat(given.get("models"))
    _check_made_for(given.get("policy"), given, live)
    return live


def _forfeit(live: Any) -> None:
    """Of a copy: a promise does not know which of its allowance was used up since."""
    if getattr(live._core.terms, "promise", None) is not None:
        live.forfeit()


def _resume(live: Any, given: dict[str, Any]) -> None:
    """Continue after recovery: skip ids that may have been issued, take new prices, expire old decisions."""
    core, journal = live._core, live._journal
    lost = journal.store.surprise()
    if lost is not None:
        warn_caller(f"{lost}; ids go on after a gap", DurabilityWarning)
    if lost is not None or journal.store.is_moved():  # a copy does not know which ids were given out since
        core.skip(core.ledger.next + 1 + secrets.randbelow(GAP), core.every)
        journal.wait()
        _forfeit(live)
        journal.store.accept()
    if core.every > 1 or journal.every != core.every:
        # After a power loss the journal may lack the last decisions, whose ids may already be in use.
        core.skip(core.ledger.next + (core.every if core.every > 1 else 0), journal.every)
        journal.wait()
    if given.get("names") is not None:  # the reference may be one of them
        live.speak(given["names"])
    changes: list[Callable[[], None]] = []
    stated = live._stated_prices() if any(one.priced for one in core.game.form.arguments) else None
    wanted = None if stated is None else _prices(core.game.form, given, *stated)
    if wanted is not None and wanted != stated:
        changes.append(lambda: live.recost(*wanted))
    promised = {
        one.name: given[one.name]
        for one in core.game.form.arguments
        if one.promised and given.get(one.name) is not None
    }
    if promised:
        changes.append(lambda: live.promise(**promised))
    if wanted is not None and promised and wanted[0][live.promised.reference] == 0.0:
        changes.reverse()  # before it costs nothing, another reference takes its place
    for change in changes:
        change()
    if journal.pending_ttl is not None:
        journal.expire(journal.pending_ttl)


def _prices(
    form: Form, given: dict[str, Any], stated: list[float], error: float | None
) -> tuple[list[float], float | None]:
    """Return the given prices, or the stated ones where they are left out."""
    named = {
        one.name: given[one.name] for one in form.arguments if one.priced and given.get(one.name) is not None
    }
    chosen = named.pop("error_cost", error)
    wanted = [float(price) for price in next(iter(named.values()), stated)]
    return wanted, None if chosen is None else float(chosen)


def _check_made_for(policy: Any, given: dict[str, Any], live: Any) -> None:
    """Reject a policy object that was not made for the current prices."""
    form: Form = live._core.game.form
    if policy is None or isinstance(policy, str) or not any(one.priced for one in form.arguments):
        return
    wanted, error = _prices(form, given, *live._stated_prices())
    for name, total in zip(("C", "c"), (np.cumsum(wanted), np.array(wanted))):
        costs, built = total / (1.0 if error is None else error), getattr(policy, name, None)
        if isinstance(built, np.ndarray) and built.shape == costs.shape:
            if not np.allclose(built, costs, rtol=1e-9, atol=1e-12):
                raise ValueError(
                    f"policy must be made for the costs {costs.tolist()}, got one for {built.tolist()}"
                )


def _given(cls: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, without those left at their defaults."""
    try:
        bound = inspect.signature(cls).bind_partial(*arguments, **named)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.open: {error}") from None
    given = dict(bound.arguments)
    options = given.pop("options", {})
    return {**given, **options}


# -- loading


def load(
    cls: Any, path: str | os.PathLike[str], code: dict[str, Any], policy: Any, compiled: bool, fresh_ids: bool
) -> Any:
    """Return the object in a file, either a state or a journal; ``code`` is what files do not store."""
    file = storage.file_at(path)
    if is_journal(file):
        live = _read_journal(cls, file, {**code, "policy": policy, "compiled": compiled})
    else:
        live = made_again(cls, storage.read(file, cls.kind), code, policy, compiled, str(file))
    if flag("fresh_ids", fresh_ids):
        live._core.ledger.leap()
        _forfeit(live)
    return live


def _read_journal(cls: Any, path: Path, code: dict[str, Any]) -> Any:
    """Return the object that a journal describes; it continues without a journal."""
    from weakfeedback.journal.sqlite import SqliteStore

    store = SqliteStore.open(path, read_only=True)
    try:
        live = _recover(cls, store, store.learners(), code, str(path))
        live._core.ledger.recall(_digests(store, store.learners()[0].id, live._core.ledger))
        return live
    finally:
        store.close()


def _digests(store: Any, learner: int, ledger: Ledger) -> dict[int, str]:
    """Return the digests of the last answers, the oldest first, as an object without a journal remembers them."""
    found = []
    for id in itertools.islice(ledger.forgotten(), REMEMBERED):
        end = store.end_of(learner, id)
        if end is not None and end.kind == "feedback":
            found.append((end.seq, id, str(end.body.get("digest"))))
    return {id: digest for _, id, digest in sorted(found)}


def is_journal(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a store."""
    from weakfeedback.journal.sqlite import MAGIC, start_of

    try:
        return start_of(path) == MAGIC
    except OSError:
        return False
