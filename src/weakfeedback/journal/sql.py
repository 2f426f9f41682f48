"""Base class of the event stores: learners, events in order, snapshots, compaction, and all checks.

All SQL stores have the same five tables. A dialect (`sqlite.py`, `postgres.py`) defines how to connect, what a
transaction is, how rows are inserted, and what the errors of its driver mean. The commands that they
share are in `queries.py`.
"""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, ClassVar, Self, TypeVar

from weakfeedback._version import __version__
from weakfeedback.canonical import json_text_in_pieces
from weakfeedback.journal import queries
from weakfeedback.journal.events import (
    ENDS,
    LARGEST,
    OPENS,
    Event,
    JournalError,
    Row,
    SecondEnd,
    SecondKey,
    checksum,
    event_of,
    row_of,
    seal,
    unseal,
)
from weakfeedback.journal.locks import InterruptSafeLock
from weakfeedback.journal.owner import check_process
from weakfeedback.journal.store import Floor, Learner, Snapshot

T = TypeVar("T")
Tails = dict[int, tuple[int, int]]

SCHEMA = 1
KEPT_SNAPSHOTS = 3
_PAGE = 1000  # events read at once


class SqlStore(ABC):
    """Learners, their events and snapshots in tables.

    Every method may be called from any thread. If the disk or the server refuses, the call raises StoreUnavailable
    (an OSError), has changed nothing, and can be repeated. Damaged data raise JournalError.
    """

    text: ClassVar[str]  # how to read a text column as bytes
    errors: ClassVar[type[Exception]]  # base class of the driver's errors
    shards: Any = None  # those that this process owns, if others share the store

    def __init__(self, place: str, lenient: bool = False) -> None:
        self.place = place  # its name in messages
        self.apart: dict[int, str] = {}  # learners of which nothing is written any more, and why
        self._lenient = lenient
        self._unsure: dict[int, tuple[str, object, object]] = {}  # whose row is not what was stored
        self._reading = queries.Reading(self.text)
        self._pid = os.getpid()
        self._turn = InterruptSafeLock()
        self._names: dict[int, str] = {}
        self._tails: Tails = {}  # last seq and at of learners, if known

    # What a dialect provides

    @abstractmethod
    def _all(self, command: str, *values: object) -> list[Any]:
        """Return the rows of a command's result."""

    @abstractmethod
    def _transaction(self, work: Callable[[], T], sync: bool = True) -> T:
        """Run ``work`` in a transaction: all or nothing."""

    @abstractmethod
    def _insert(self, rows: Sequence[Row], check: Callable[[], Tails], sync: bool) -> Tails:
        """Store rows in a transaction of their own if they pass ``check``; return the result of ``check``."""

    @abstractmethod
    def _put(self, rows: Sequence[Row]) -> None:
        """Store rows within a transaction."""

    @abstractmethod
    def _translated(self, problem: Exception) -> Exception:
        """Return the package's error for an error of the driver."""

    @abstractmethod
    def _check_place(self) -> None:
        """Reject writes that would be lost."""

    def _consistent(self, work: Callable[[], T]) -> T:
        """Return ``work()``, whose reads all see the store as it is at one moment, whoever writes to it."""
        return work()

    def _reserve(self) -> None:  # noqa: B027
        """Let nobody else create a learner until the transaction ends."""

    def _is_mine(self, learner: int) -> bool:
        """Whether this process owns the learner."""
        return True

    def _note_written(self, events: int, sync: bool) -> None:  # noqa: B027
        """Keep the number of events outside of the store, too."""

    @property
    def identity(self) -> str:
        """The random name that the store got when it was made; copies have the same."""
        return self._run(lambda: self._meta("store")) or ""

    def surprise(self) -> str | None:
        """Return one line if less is there than was stored here, or another store; None if all is well."""
        return None

    def is_moved(self) -> bool:
        """Whether this is a copy: ids may have been given out that it does not know."""
        return False

    def accept(self) -> None:  # noqa: B027
        """Go on with what is there, whatever `surprise` and `is_moved` have said."""

    @abstractmethod
    def _look(self) -> list[str]:
        """Return one line for each problem that the database reports about itself."""

    @abstractmethod
    def _close(self) -> None:
        """Release what the store holds, unless that was done."""

    def close(self) -> None:
        """Record the last events and release the store. Closing twice is fine."""
        check_process(self._pid)
        self._turn.run(self._close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Learners

    def learners(self) -> list[Learner]:
        """Return all learners, in the order of their creation."""
        return self._run(lambda: self._consistent(self._learners))

    def _learners(self) -> list[Learner]:
        found = []
        sums = self._metas("learner:")
        for id, text, created, archived in self._all(self._reading.learners):
            name = _decoded(text)
            known = sums.pop(f"learner:{id}", None)
            if known != checksum(id, name, created, archived):
                self._complain(id, f"{self.place}: learner {id}: the checksum of its name is wrong")
                self._unsure[id] = known or "", created, archived
            found.append(Learner(id, name, created, archived))
        if sums or len({learner.name for learner in found}) != len(found):  # who is who?
            raise JournalError(
                f"{self.place} is damaged: there were {len(found) + len(sums)} learners, and {len(found)} are left"
            )
        self._names = {learner.id: learner.name for learner in found}
        return found

    def set_apart(self, learner: int, why: str) -> None:
        """Write nothing of a learner any more, so that it stays as it is until somebody has looked at it."""
        self.apart.setdefault(learner, why)

    def owe_gaps(self, learners: Iterable[int], owed: bool = True) -> None:
        """Note that learners shall skip ids as soon as they are served again; or that they have."""

        def note() -> None:
            for learner in learners:
                self._set_meta(f"gap:{learner}", "owed" if owed else "left")

        self._run(lambda: self._transaction(note))

    def owed_gaps(self) -> set[int]:
        """Return the learners that have yet to skip ids."""
        found = self._run(lambda: self._metas("gap:"))
        return {int(key.partition(":")[2]) for key, value in found.items() if value == "owed"}

    def may_be(self, learner: int, name: str) -> bool:
        """Whether a learner whose row is damaged had this name."""
        known, created, archived = self._unsure.get(learner, ("", 0, None))
        return known == checksum(learner, name, created, archived)

    def _complain(self, learner: int, why: str) -> None:
        """Refuse the store because of one learner; or set that apart, if the store was opened so."""
        if not self._lenient:
            raise JournalError(why)
        self.set_apart(learner, why)

    def _check_whole(self, learner: int) -> None:
        if learner in self.apart:
            raise JournalError(f"nothing of learner {self._name(learner)} is written: {self.apart[learner]}")

    def create_learner(self, name: str, at: int) -> int:
        """Create a learner and return its number; ValueError if the name is taken."""
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"name must be a text without NUL that is not empty, got {name!r}")
        name.encode()  # UnicodeEncodeError, a ValueError, for a lone surrogate
        if type(at) is not int or not 0 <= at <= LARGEST:
            raise ValueError(f"at must be microseconds since 1970, got {at!r}")

        def insert() -> int:
            self._reserve()
            if self._all(queries.LEARNER_NAMED, name):
                raise ValueError(f"{self.place} has a learner named {name!r} already")
            id: int = self._one(queries.NEXT_LEARNER)[0]
            self._add_learner(Learner(id, name, at, None))
            return id

        id = self._run(lambda: self._transaction(insert))
        self._names[id] = name
        return id

    def _add_learner(self, learner: Learner) -> None:
        columns = learner.id, learner.name, learner.created, learner.archived
        self._all(queries.ADD_LEARNER, *columns)
        self._set_meta(f"learner:{learner.id}", checksum(*columns))

    def archive_learner(self, learner: int, at: int) -> None:
        """Record that ``learner`` makes no more decisions from ``at`` on."""

        def update() -> None:
            self._check_whole(learner)
            self._reserve()
            found = {one.id: one for one in self._learners()}[learner]
            self._all(queries.ARCHIVE, at, learner)
            self._set_meta(f"learner:{learner}", checksum(learner, found.name, found.created, at))

        self._run(lambda: self._transaction(update))

    # Events

    def append(self, rows: Sequence[tuple[int, Event]], *, sync: bool = True) -> None:
        """Store events, each with its learner's number, in one transaction: all or none.

        With ``sync`` these and all earlier events survive a loss of power. Without it they survive only the end of
        the process, until the next ``sync``.

        Raises:
            SecondEnd: the decision has ended.
            SecondKey: the key is taken.
            JournalError: ``seq`` is not the next number, or ``at`` is earlier than that of the last event.
        """
        self.write([row_of(learner, event) for learner, event in rows], sync=sync)

    def write(self, rows: Sequence[Row], *, sync: bool = True) -> None:
        """Store rows made by ``row_of``, as ``append`` does."""

        def check() -> Tails:
            tails: Tails = {}
            for learner, seq, at, *_ in rows:
                if self.apart:
                    self._check_whole(learner)
                last, before = tails.get(learner) or self._tails.get(learner) or self._last(learner)
                if seq != last + 1 or at < before:
                    raise JournalError(
                        f"{self._about(learner, seq)} cannot follow event {last}"
                        + (f": its time {at} lies before {before}" if seq == last + 1 else "")
                    )
                tails[learner] = seq, at
            return tails

        def work() -> None:
            self._check_place()
            self._tails.update(self._insert(rows, check, sync))
            self._check_place()  # what was written to a file that is gone must not be acknowledged
            self._note_written(len(rows), sync)

        try:
            self._run(work)
        except BaseException:
            self._tails = {}  # whether the rows were stored is unknown here: read the tails again
            raise

    def sync(self) -> None:
        """Make everything stored so far survive a loss of power."""

        def work() -> None:
            self._check_place()
            # a transaction that changes nothing does not wait for the disk
            self._transaction(lambda: self._all(queries.COUNT_SYNC))
            self._note_written(0, True)

        self._run(work)

    def events(self, learner: int, after: int = -1, limit: int | None = None) -> Iterator[Event]:
        """Yield the events after number ``after``, in order, each checked; JournalError names the first bad one."""
        first = self._run(lambda: self._floor(learner)).seq
        if after + 1 < first:
            raise JournalError(
                f"{self.place}: learner {self._name(learner)}: events before {first} were removed; begin there"
            )
        last, before = after, 0
        while limit is None or limit > 0:
            size = _PAGE if limit is None else min(_PAGE, limit)
            rows = self._run(
                lambda last=last, size=size: self._all(self._reading.events, learner, last, size)  # type: ignore[misc]
            )
            for row in rows:
                if row[1] != last + 1:
                    raise JournalError(f"{self._about(learner, last + 1)} is missing")
                event = self._event(row)
                if event.at < before:
                    raise JournalError(f"{self._about(learner, event.seq)} lies before the one it follows")
                last, before = event.seq, event.at
                yield event
            if len(rows) < size:
                return
            if limit is not None:
                limit -= size

    def last(self, learner: int) -> tuple[int, int]:
        """Return ``seq`` and ``at`` of the last event; (-1, 0) if there is none."""
        return self._run(lambda: self._last(learner))

    def _last(self, learner: int) -> tuple[int, int]:
        rows = self._all(queries.LAST_EVENT, learner)
        if not rows:
            return self._floor(learner).seq - 1, 0
        seq, at = rows[0]
        if type(seq) is not int or type(at) is not int:
            raise JournalError(f"{self._about(learner, seq)}: a number is not an integer")
        return seq, at

    def end_of(self, learner: int, decision: int) -> Event | None:
        """Return the feedback, cancellation or expiry of ``decision``."""
        fits = lambda event: event.decision == decision and event.kind in ENDS  # noqa: E731
        return self._indexed(self._reading.end, learner, decision, fits)

    def by_key(self, learner: int, key: str) -> Event | None:
        """Return the event with this ``key``."""
        return self._indexed(self._reading.by_key, learner, key, lambda event: event.key == key)

    def by_keys(self, asked: Sequence[tuple[int, str]]) -> list[Event | JournalError | None]:
        """Return the events with these learners and keys, each as ``by_key`` does, or the error about it."""
        known = [*dict.fromkeys(asked)]
        rows = {(row[0], _decoded(row[5])): row for row in self._run(lambda: self._all_by_key(known))}
        for learner, key in rows.keys() - set(known):
            raise JournalError(
                f"{self._about(learner, rows[learner, key][1])} stands in the index in a wrong place"
            )
        found: list[Event | JournalError | None] = []
        for one in asked:
            try:
                found.append(self._event(rows[one]) if one in rows else None)
            except JournalError as problem:
                found.append(problem)
        return found

    def _all_by_key(self, asked: Sequence[tuple[int, str]]) -> list[Any]:
        return [row for one in asked for row in self._all(self._reading.by_key, *one)]

    def decided(self, learner: int, decision: int) -> Event | None:
        """Return the event that opened ``decision``."""
        fits = lambda event: event.decision == decision and event.kind in OPENS  # noqa: E731
        return self._indexed(self._reading.opening, learner, decision, fits)

    def _indexed(
        self, command: str, learner: int, value: object, fits: Callable[[Event], bool]
    ) -> Event | None:
        """Return the first event that an index finds, None if there is none."""
        rows = self._run(lambda: self._all(command, learner, value))
        event = self._event(rows[0]) if rows else None
        if event is not None and not fits(event):
            raise JournalError(f"{self._about(learner, event.seq)} stands in the index in a wrong place")
        return event

    def _event(self, row: Sequence[Any]) -> Event:
        try:
            return event_of(row)
        except JournalError as problem:
            raise JournalError(f"{self._about(row[0], row[1])}: {problem}") from None

    # Snapshots

    def add_snapshot(self, learner: int, seq: int, at: int, body: dict[str, Any] | str) -> None:
        """Store the state after event ``seq``, or its ``snapshot_text``; drop all but the newest three snapshots."""
        self.add_snapshots([(learner, seq, at, body)])

    def add_snapshots(self, states: Sequence[tuple[int, int, int, dict[str, Any] | str]]) -> None:
        """Store states as ``add_snapshot`` does, in one transaction: all or none."""

        def insert(learner: int, seq: int, at: int, body: dict[str, Any] | str) -> None:
            self._check_whole(learner)
            if not 0 <= seq <= self._last(learner)[0]:
                raise ValueError(
                    f"there is no event {seq} of learner {self._name(learner)} to take a snapshot of"
                )
            text = body if isinstance(body, str) else snapshot_text(learner, seq, at, body)
            self._add_snapshot(learner, seq, at, __version__, text)
            self._all(queries.FORGET_SNAPSHOTS, learner, learner, KEPT_SNAPSHOTS)
            self._set_meta(f"head:{learner}", str(self._last(learner)[0]))

        def insert_all() -> None:
            for state in states:
                insert(*state)

        def work() -> None:
            self._check_place()
            self._transaction(insert_all)

        self._run(work)

    def _add_snapshot(self, learner: int, seq: int, at: int, package: str, text: str) -> None:
        digest = sha256(text.encode()).hexdigest()
        self._all(queries.ADD_SNAPSHOT, learner, seq, at, package, text, digest)

    def snapshots(self, learner: int, damaged: list[str] | None = None) -> Iterator[Snapshot]:
        """Yield the stored snapshots, newest first, read one at a time.

        Damaged ones are skipped; a line about each is added to ``damaged``.
        """

        def numbers() -> list[tuple[int]]:
            return self._all(queries.SNAPSHOTS, learner)

        for (seq,) in self._run(numbers):
            try:
                snapshot = self._snapshot(learner, seq)
            except JournalError as problem:
                if damaged is not None and (seq,) in self._run(numbers):  # else a newer one replaced it
                    damaged.append(str(problem))
            else:
                yield snapshot

    def _snapshot(self, learner: int, seq: int) -> Snapshot:
        rows = self._run(lambda: self._all(self._reading.snapshot, learner, seq))
        about = f"{self.place}: learner {self._name(learner)}: snapshot {seq}"
        if len(rows) != 1:
            raise JournalError(f"{about} cannot be found")
        seq, at, package, text, digest = rows[0]
        if not isinstance(text, bytes) or sha256(text).hexdigest().encode() != digest:
            raise JournalError(f"{about}: the checksum is wrong")
        try:
            package = package.decode() if isinstance(package, bytes) else ""
            return Snapshot(seq, at, package, unseal(text.decode(), learner, seq, at, package))
        except JournalError as problem:
            raise JournalError(f"{about}: {problem}") from None
        except UnicodeDecodeError:
            raise JournalError(f"{about}: a text is not UTF-8") from None

    # Compaction and checks

    def compact(self, learner: int, before_at: int) -> int:
        """Remove the events older than both the oldest snapshot and ``before_at``; return their number.

        The event of that snapshot stays, so that there is always a last event. ``floor`` keeps what later readers
        must know about the removed events. The file does not shrink: new events reuse the space.
        """
        self._check_whole(learner)
        damaged: list[str] = []
        oldest = None
        for snapshot in self.snapshots(learner, damaged):
            oldest = snapshot.seq
        if damaged:
            raise JournalError(f"nothing was removed, as a snapshot is damaged: {damaged[0]}")
        if oldest is None:
            return 0

        def remove() -> int:
            late = self._all(queries.LATE_EVENT, learner, oldest, before_at)
            first = late[0][0] if late else oldest
            floor = self._floor(learner)
            if first <= floor.seq:
                return 0
            highest = self._one(queries.HIGHEST_DECISION, learner, first)[0]
            if highest is None or (floor.decision is not None and floor.decision > highest):
                highest = floor.decision
            self._all(queries.FORGET_EVENTS, learner, first)
            self._set_floor(learner, Floor(first, highest))
            return first - floor.seq

        return self._run(lambda: self._transaction(remove))

    def floor(self, learner: int) -> Floor:
        """Return the first event that is kept, and the decision number up to which a missing one is forgotten."""
        return self._run(lambda: self._floor(learner))

    def _floor(self, learner: int) -> Floor:
        text = self._meta(f"floor:{learner}")
        if text is None:
            return Floor(0, None)
        try:
            body = unseal(text, "floor", learner)
        except JournalError as problem:
            raise JournalError(
                f"{self.place}: learner {self._name(learner)}: what was removed is not known: {problem}"
            ) from None
        return Floor(body["seq"], body["decision"])

    def _set_floor(self, learner: int, floor: Floor) -> None:
        body = {"seq": floor.seq, "decision": floor.decision}
        self._set_meta(f"floor:{learner}", seal(body, "floor", learner))

    # Whole stores

    def fill(self, source: "SqlStore") -> int:
        """Store everything in ``source`` in one transaction; return the number of events. This store must be empty."""

        def work() -> int:
            if self._learners():
                raise ValueError(f"{self.place} is not empty: copy into a new store")
            return sum(self._fill(source, learner) for learner in source.learners())

        def all_or_nothing() -> int:
            count = self._transaction(work)
            self._note_written(count, True)
            return count

        return self._run(all_or_nothing)

    def _fill(self, source: "SqlStore", learner: Learner) -> int:
        self._add_learner(learner)
        floor = source.floor(learner.id)
        if floor.seq:
            self._set_floor(learner.id, floor)
        count, rows = 0, list[Row]()
        for event in source.events(learner.id, floor.seq - 1):
            rows.append(row_of(learner.id, event))
            if len(rows) == _PAGE:
                self._put(rows)
                count, rows = count + len(rows), []
        self._put(rows)
        for snapshot in source.snapshots(learner.id):
            text = snapshot_text(learner.id, snapshot.seq, snapshot.at, snapshot.body, snapshot.package)
            self._add_snapshot(learner.id, snapshot.seq, snapshot.at, snapshot.package, text)
        return count + len(rows)

    def check_owner(self) -> None:
        """Raise StoreUnavailable if this process no longer owns the store."""
        self._run(self._check_place)

    def integrity(self) -> list[str]:
        """Read and check everything; return one line for each problem."""
        problems = []
        try:
            problems += self._run(self._look)
            if self._run(self._has_rows_of_nobody):
                problems.append(f"{self.place}: there are rows of learners that do not exist")
            self._run(lambda: self._consistent(self._check_ends))
            problems += self.apart.values()
            for learner in self.learners():
                if learner.id in self.apart:
                    continue
                try:
                    for _ in self.events(learner.id, self.floor(learner.id).seq - 1):
                        pass
                except JournalError as problem:
                    problems.append(str(problem))
                for _ in self.snapshots(learner.id, problems):
                    pass
        except JournalError as problem:
            problems.append(str(problem))
        return problems

    def _has_rows_of_nobody(self) -> bool:
        return any(self._all(queries.ROWS_OF_NOBODY.format(table)) for table in ("event", "snapshot"))

    def _check_ends(self) -> None:
        """Check that the first and the last event of every learner are the recorded ones."""
        heads = self._metas("head:")
        ends = {id: (first, last) for id, first, last in self._ends()}
        for learner in self._learners():
            about = f"{self.place}: learner {learner.name}"
            if learner.id not in ends:
                if learner.id in self.apart:
                    continue
                raise JournalError(f"{about} stands in the table of learners and not in its index")
            first, last = ends[learner.id]
            head = heads.get(f"head:{learner.id}")
            if head is not None and not (head.isdecimal() and int(head) <= last):
                words = f"{about}: events behind {last} are missing: there were {head} at least"
                self._complain(learner.id, words)
            try:
                floor = self._floor(learner.id).seq
            except JournalError as problem:
                self._complain(learner.id, str(problem))
                continue
            if last >= 0 and first != floor:
                self._complain(learner.id, f"{about}: the first event is {first} and should be {floor}")

    def _ends(self) -> list[tuple[int, int, int]]:
        """Return every learner with its first and last event, -1 if there is none."""
        found = []
        for id, first, last in self._all(queries.FIRST_AND_LAST):
            if first is None and last is None:
                first = last = -1
            if type(first) is not int or type(last) is not int:
                self._complain(id, f"{self._about(id, last)}: a number is not an integer")
                continue
            found.append((id, first, last))
        return found

    def _lost_of_those_apart(self) -> int:
        """Return how many events the learners that are set apart had, at least, and have no more."""
        heads, ends = self._metas("head:"), {id: last for id, _, last in self._ends()}
        known = {id: heads.get(f"head:{id}", "") for id in self.apart}
        return sum(max(0, int(head) - ends.get(id, -1)) for id, head in known.items() if head.isdecimal())

    def _note_heads(self) -> None:
        heads = self._metas("head:")
        for learner, _, last in self._ends():
            is_old = last >= 0 and heads.get(f"head:{learner}") != str(last)
            if is_old and learner not in self.apart and self._is_mine(learner):
                self._set_meta(f"head:{learner}", str(last))

    # Rows

    def _run(self, work: Callable[[], T]) -> T:
        """Return ``work()``, run by one thread at a time; raise the errors of this package."""
        check_process(self._pid)
        try:
            return self._turn.run(work)
        except self.errors as problem:
            raise self._translated(problem) from problem

    def _one(self, command: str, *values: object) -> Any:
        rows = self._all(command, *values)
        if not rows:
            raise JournalError(f"{self.place} has no such row: {command} {values}")
        return rows[0]

    def _meta(self, key: str) -> str | None:
        rows = self._all(self._reading.meta, key)
        return _decoded(rows[0][0]) if rows else None

    def _metas(self, start: str) -> dict[str, str]:
        """Return the metadata under keys with this prefix."""
        rows = self._all(self._reading.metas, start + "%")
        return {_decoded(key): _decoded(value) for key, value in rows}

    def _set_meta(self, key: str, value: str) -> None:
        self._all(queries.SET_META, key, value)

    def _name(self, learner: int) -> str:
        return self._names.get(learner, str(learner))

    def _about(self, learner: int, seq: int) -> str:
        return f"{self.place}: learner {self._name(learner)}: event {seq}"

    def _create(self, commands: Iterable[str]) -> None:
        """Create the tables of an empty store."""
        for command in commands:
            self._all(command)
        self._set_meta("schema", str(SCHEMA))
        self._set_meta("store", secrets.token_hex(16))
        self._set_meta("package", __version__)

    def _note_package(self) -> None:
        if self._meta("package") != __version__:
            self._transaction(lambda: self._set_meta("package", __version__))


def snapshot_text(learner: int, seq: int, at: int, body: dict[str, Any], package: str = __version__) -> str:
    """Return the text by which a store keeps a state; a thread that makes it lets others run."""
    return seal(body, learner, seq, at, package, encode=json_text_in_pieces)


def check_schema(place: str, known: dict[str, Any] | None, tables: bool) -> None:
    """Refuse a database unless its meta table is that of a store this version reads and ``tables`` are a store's."""
    if not known or "schema" not in known or "store" not in known:
        raise JournalError(f"{place} is not a store: its tables are those of another program")
    number = str(known["schema"])
    if number.isdecimal() and int(number) > SCHEMA:
        raise JournalError(
            f"{place} was written by a later version (its schema is {number[:20]}, this version reads {SCHEMA})"
        )
    if number != str(SCHEMA) or not tables:
        raise JournalError(f"{place} is damaged: its tables are not those of a store")


def refused(place: str, index: str) -> JournalError:
    """Return the error for a row that an index with this name (or these columns) refuses."""
    if "event_end" in index or "event.decision" in index:
        return SecondEnd(f"{place}: a decision that has ended cannot end again")
    if "event_key" in index or "event.key" in index:
        return SecondKey(f"{place}: the key of an event is taken")
    return JournalError(f"{place}: an event of this number is there: another process writes to the store")


def no_learner(place: str) -> JournalError:
    """Return the error for a row of a learner that does not exist."""
    return JournalError(f"{place}: there is no such learner")


def _decoded(text: object) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else ""


Store = SqlStore  # every store keeps its tables in SQL
