"""The journal of a live object: every change is an event, on disk before it is acknowledged.

The file is a store of `weakfeedback.journal` with one learner, named "main". Its first event, ``create``, holds the
initial state of the object. `Live._apply` replays the later events in order. During the replay each decision is made
again and must be the one in the journal. Occasional snapshots, and one at `close`, make recovery faster; they are
never required.
"""

from __future__ import annotations

import copy
import inspect
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback._version import __version__
from weakfeedback.journal import Event, JournalError, Log
from weakfeedback.journal.events import ENDS
from weakfeedback.live import storage
from weakfeedback.live.remaking import check_options
from weakfeedback.live.warning import warn_caller
from weakfeedback.plaintext import with_article
from weakfeedback.validate import brief, integer, number, vector

if TYPE_CHECKING:
    from weakfeedback.live.base import Live

NAME = "main"
SNAPSHOT = 10_000  # events between snapshots
LOOK = 60.0  # seconds between searches for expired decisions
FREE = ("timeout", "compiled", "remember")  # arguments that may differ from run to run
SEEDS = (np.random.SeedSequence, np.random.Generator)  # seeds that a journal does not hold
PRICES = ("stage_costs", "prices", "error_cost")
UNANSWERED = {
    "expire": "expired at {}, not answered in time (see pending_ttl and expire)",
    "cancel": "was cancelled at {}",
}
COSTS = ("C", "c")  # fields of policies: total costs of a cascade, or prices of models, in units of an error


class Journal:
    """Receives the events of one live object.

    Parameters
    ----------
    store, learner
        An open store, and the learner in it.
    every : integer >= 1
        How often to wait for the disk: with n, a killed process loses nothing, and a power failure loses at most the
        last n - 1 events.
    pending_ttl : number > 0, or None
        Seconds after which an unanswered decision expires.
    """

    def __init__(self, store: Any, learner: int, every: int, pending_ttl: float | None) -> None:
        self.store, self.learner, self.every, self.pending_ttl = store, learner, every, pending_ttl
        self.log = Log(store, learner)
        self._synced = self.log.last_seq
        self._pictured = self.log.last_seq  # the event of the last snapshot, or the first event
        self._looked = time.monotonic()
        self._ends: dict[int, tuple[int, str | None]] = {}  # ended decisions not yet stored: seq and digest

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

    def flush(self) -> None:
        """Wait until all events so far are on disk or, with ``every`` > 1, would survive the end of the process."""
        seq = self.log.last_seq
        sync = seq - self._synced >= self.every
        self.log.flush(seq, sync=sync)
        if sync:
            self._synced = seq
        for id in [id for id, (stored, _) in list(self._ends.items()) if stored <= seq]:
            self._ends.pop(id, None)

    def wants_snapshot(self) -> bool:
        """Return whether there are many events since the last snapshot."""
        return self.log.last_seq - self._pictured >= SNAPSHOT

    def snapshot(self, live: Live) -> None:
        """Store the state of the object, so that recovery can begin there."""
        with live._ledger.lock:
            body = self.picture(live)  # first: it may finish an interrupted change and queue its event
            seq = self.log.last_seq
        self.log.flush(seq)
        if seq > self._pictured:
            self.store.add_snapshot(self.learner, seq, time.time_ns() // 1000, body)
            self._pictured = seq

    def picture(self, live: Live) -> dict[str, Any]:
        """Return everything that recovery starts from."""
        told = {"kind": live.kind, "package": __version__, "seed": live._seed, "every": self.every}
        return {**told, "state": live.state()}

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

    def expired(self, pending: list[int], seconds: float) -> list[int]:
        """Return the pending decisions that were made at least ``seconds`` ago."""
        before = time.time_ns() // 1000 - int(seconds * 1e6)
        found = []
        for id in pending:
            event = self.store.decided(self.learner, id)
            if event is not None and event.at <= before:
                found.append(id)
        return found

    def is_time_to_look(self) -> bool:
        """Return whether it is time to search for expired decisions, once a minute."""
        if self.pending_ttl is None or time.monotonic() - self._looked < min(LOOK, self.pending_ttl):
            return False
        self._looked = time.monotonic()
        return True


def opened(
    cls: type[Live],
    path: str | os.PathLike[str],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    every: Any,
    pending_ttl: Any,
) -> Any:
    """Return the live object whose journal is at ``path``: a new one, or the recovered one if the journal exists."""
    step = integer("every", every, 1)
    ttl = None if pending_ttl is None else number("pending_ttl", pending_ttl, above=0.0)
    given = _given(cls, arguments, named)
    fresh = not Path(path).exists()
    made = cls(*arguments, **named) if fresh else None  # invalid arguments must leave no file behind
    from weakfeedback.journal.sqlite import SqliteStore

    store = SqliteStore.open(path)
    try:
        learners = store.learners()
        if (
            not learners or store.last(learners[0].id)[0] < 0
        ):  # a new file, or the process ended before the journal had begun
            live = cls(*arguments, **named) if made is None else made
            begin(live, store, step, ttl)
        else:
            live = _recovered(cls, store, learners, given, str(path), exact=True)
            attach(live, Journal(store, learners[0].id, step, ttl))
            _resume(live, given)
    except BaseException:
        store.close()
        raise
    return live


def begin(live: Live, store: Any, every: int, pending_ttl: float | None) -> None:
    """Start the journal of an object in an empty store."""
    with live._ledger.lock:
        live._recover()
        ledger = live._ledger
        if ledger.rounds == 0:
            ledger.remember = 0  # the journal remembers all answers
        ledger.skip_to(ledger.reserved() if ledger.gap else 0)  # ids in a journal have no gaps
        live._check_state(live.state())
        known = [learner.id for learner in store.learners() if learner.name == NAME]
        learner = known[0] if known else store.create_learner(NAME, time.time_ns() // 1000)
        journal = Journal(store, learner, every, pending_ttl)
        journal.log.append("create", journal.picture(live))
        journal.log.flush()
        live._every = every
        attach(live, journal)


def attach(live: Live, journal: Journal) -> None:
    """Connect the object's changes to the journal."""
    live._ledger.archive, live._ledger.ending = journal.digest_of_end, journal.end_in_words
    live._journal, live._log = journal, journal.log


def read_journal(cls: type[Live], path: str | os.PathLike[str], code: dict[str, Any]) -> Any:
    """Return the object that a journal describes; it continues without a journal."""
    from weakfeedback.journal.sqlite import SqliteStore

    store = SqliteStore.open(path, read_only=True)
    try:
        live = _recovered(cls, store, store.learners(), code, str(path))
        live._ledger.archive = None
        return live
    finally:
        store.close()


def is_journal(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a store."""
    from weakfeedback.journal.sqlite import MAGIC, start_of

    try:
        return start_of(path) == MAGIC
    except OSError:
        return False


def _recovered(
    cls: type[Live],
    store: Any,
    learners: list[Any],
    given: dict[str, Any],
    where: str,
    exact: bool = False,
) -> Any:
    """Return the object that the journal describes; if ``exact``, a policy object must have the same options."""
    if len(learners) != 1 or learners[0].name != NAME:
        raise JournalError(f"{where} is the store of a service, with {len(learners)} learners: open it there")
    learner = learners[0].id
    damaged: list[str] = []
    for snapshot in store.snapshots(learner, damaged):
        body, after, package = snapshot.body, snapshot.seq, snapshot.package
        break
    else:
        create = next(iter(store.events(learner, limit=1)), None)
        if create is None or create.kind != "create":
            raise JournalError(f"{where} does not begin with the making of an object")
        body, after, package = create.body, create.seq, create.body["package"]
    if body["kind"] != cls.kind:
        found, wanted = with_article(str(body["kind"])), with_article(cls.kind)
        raise JournalError(f"{where} is the journal of {found}, not of {wanted}")
    for words in damaged:
        warn_caller(f"{where}: a snapshot is damaged and was not used: {words}")
    _check_given(cls, given, body["state"], body["seed"], where)
    if given.get("timeout") is not None and "timeout" in body["state"]:
        body["state"]["timeout"] = given["timeout"]
    code = {name: value for name, value in given.items() if name in cls.code or name == "compiled"}
    if isinstance(code.get("policy"), str):
        del code["policy"]
    elif code.get("policy") is not None:
        if exact:
            check_options(cls.setting, body["state"]["core"], code["policy"], where)
        code["policy"] = _as_made_before(code["policy"], body["state"])
    live = made_again(cls, body, code, store, learner)
    for event in store.events(learner, after=after):
        live._apply(event, package == __version__, where)
    _check_made_for(given.get("policy"), given, live)
    return live


def made_again(cls: type[Live], body: dict[str, Any], code: dict[str, Any], store: Any, learner: int) -> Any:
    """Return the object of a snapshot or of the first event; the caller must apply the later events."""
    made: Any = cls
    live = made.from_state(body["state"], **code)
    live._seed, live._every = body["seed"], body["every"]
    # Answers from before the journal began are remembered; all later answers are in the journal.
    live._ledger.archive = lambda id: _end_in(store, learner, id)
    return live


def _end_in(store: Any, learner: int, id: int) -> str | None:
    end = store.end_of(learner, id)
    return str(end.body.get("digest")) if end is not None and end.kind == "feedback" else None


def _resume(live: Live, given: dict[str, Any]) -> None:
    """Continue after recovery: skip ids that may have been issued, take new prices, expire old decisions."""
    journal = live._journal
    if live._every > 1 or journal.every != live._every:
        # After a power loss the journal may lack the last decisions, whose ids may already be in use.
        live._skip_ids(live._every if live._every > 1 else 0, journal.every)
    if any(given.get(name) is not None for name in PRICES):
        stated, error = live._stage_costs.tolist(), live._error_cost  # type: ignore[attr-defined]
        wanted, wanted_error = _prices(given, stated, error)
        if wanted != stated or wanted_error != error:
            live.recost(wanted, wanted_error)  # type: ignore[attr-defined]
    if journal.pending_ttl is not None:
        live.expire(journal.pending_ttl)


def _prices(given: dict[str, Any], stated: list[float], error: float) -> tuple[list[float], float]:
    """Return the given prices, or the stated ones where they are left out."""
    named = [given[name] for name in PRICES[:2] if given.get(name) is not None]
    wanted = [float(price) for price in (named[0] if named else stated)]
    return wanted, float(error if given.get("error_cost") is None else given["error_cost"])


def _as_made_before(policy: Any, state: dict[str, Any]) -> Any:
    """Return the policy object as if made for the prices at which the replay of the journal begins.

    The user made it for the current prices, which come with later events or after the last one.
    """
    for name in COSTS:
        known, built = state["core"]["fields"].get(name), getattr(policy, name, None)
        if isinstance(known, dict) and isinstance(built, np.ndarray):
            before = storage.decode(known)
            if before.shape == built.shape and not np.array_equal(before, built):
                policy = copy.copy(policy)
                setattr(policy, name, before)
    return policy


def _check_made_for(policy: Any, given: dict[str, Any], live: Any) -> None:
    """Reject a policy object that was not made for the current prices."""
    if policy is None or isinstance(policy, str) or not hasattr(live, "_stage_costs"):
        return
    wanted, error = _prices(given, live._stage_costs.tolist(), live._error_cost)
    for name, total in zip(COSTS, (np.cumsum(wanted), np.array(wanted))):
        costs, built = total / error, getattr(policy, name, None)
        if isinstance(built, np.ndarray) and built.shape == costs.shape:
            if not np.allclose(built, costs, rtol=1e-9, atol=1e-12):
                raise ValueError(
                    f"policy must be made for the costs {costs.tolist()}, got one for {built.tolist()}"
                )


def _given(cls: type[Live], arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, without those left at their defaults."""
    try:
        bound = inspect.signature(cls).bind_partial(*arguments, **named)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.open: {error}") from None
    given = dict(bound.arguments)
    options = given.pop("options", {})
    return {**given, **options}


def _check_given(
    cls: type[Live], given: dict[str, Any], state: dict[str, Any], seed: int | None, where: str
) -> None:
    """Reject arguments that contradict the journal; prices may change, and code is always passed again."""
    stored, fields = {"seed": seed, **cls._arguments_of(state)}, state["core"]["fields"]
    _check_free(given)
    for name, value in given.items():
        named = name == "policy" and isinstance(value, str)
        if value is None or name in FREE or name in PRICES or (name in cls.code and not named):
            continue
        if name == "seed" and seed is None and isinstance(value, SEEDS):
            continue  # the journal has the generator that was made from it
        if named and state["core"]["policy"] is None:
            made = state["core"]["class"]
            raise ValueError(
                f"policy must be a fresh {made}, the object that {where} needs, got {brief(value)}"
            )
        if name in stored:
            known = stored[name]
        elif name in fields:  # an option that was left at its default
            known = storage.decode(fields[name])
        else:
            raise ValueError(f"{name} must be left out: {where} was made without it, got {brief(value)}")
        if named:
            same = isinstance(known, str) and value.lower() == known.lower()
        else:
            same = _is_same(value, known)
        if not same:
            raise ValueError(f"{name} must be {brief(known)}, as in {where}, or left out, got {brief(value)}")


def _check_free(given: dict[str, Any]) -> None:
    """Reject invalid values; `recost` checks the rest of the prices."""
    named = {name: value for name, value in given.items() if value is not None}
    for name in ("stage_costs", "prices"):
        if name in named:
            vector(name, named[name], at_least=0.0)
    if "error_cost" in given:
        number("error_cost", given["error_cost"], above=0.0)
    if "timeout" in named:
        given["timeout"] = number("timeout", named["timeout"], above=0.0)
    if "remember" in named:
        integer("remember", named["remember"], 0)
    if not isinstance(given.get("compiled", False), bool):
        raise ValueError(f"compiled must be True or False, got {brief(given['compiled'])}")


def _is_same(value: Any, known: Any) -> bool:
    value, known = (one.tolist() if isinstance(one, np.ndarray) else one for one in (value, known))
    try:
        return bool(storage.encode(value) == storage.encode(known))
    except ValueError:  # not storable in a journal
        return False


def check_decision(event: Event, found: Any, expected: Any, same: bool, where: str) -> None:
    """Reject a replayed decision that differs from the log; for another version of the package, only warn."""
    if found == expected:
        return
    words = f"{where}: event {event.seq}: decision {event.decision} was {expected}, and is now {found}"
    if same:
        raise JournalError(f"{words}: the journal or the code was changed")
    warn_caller(f"{words}: the logged one stands (another version of the package wrote it)")
