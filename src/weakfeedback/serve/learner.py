"""One learner: a live object, the queue of its events, and the service's own counters.

Every change is an event. When it happens, the live object makes the change and `Learner.see` counts it. When the
store is read again, `Learner.apply` lets the live object repeat the change, and the same `see` counts it. Nothing
else changes a learner, so both ways lead to the same state.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

from weakfeedback._version import __version__
from weakfeedback.engine.compiler.cache import loading_only
from weakfeedback.journal import Event, Store, fold
from weakfeedback.journal.events import ENDS, OPENS, Row
from weakfeedback.live.core import GAP, Core
from weakfeedback.live.errors import PendingDecision, Refused
from weakfeedback.live.live import Live
from weakfeedback.live.promise import tossed
from weakfeedback.live.rounds import checks_self
from weakfeedback.serve.activity import RESULTS, Activity
from weakfeedback.serve.commit import Committer
from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.kinds import Kind, kind_of
from weakfeedback.serve.models import (
    AgainRequest,
    CalibrateRequest,
    FeedbackRequest,
    ModelsRequest,
    Problem,
    TellRequest,
    WarmStartRequest,
    stored_config,
)
from weakfeedback.serve.outbox import Clock, Outbox, Tag, now
from weakfeedback.serve.promised import settings_of
from weakfeedback.words import Words, prices_told_elsewhere, saving_warning

SNAPSHOT = 10_000  # events between snapshots; a quarter for a learner whose events take long to replay
UNKNOWN = 32  # the first steps of a kind, this many, run in a thread and are timed
SAMPLED = 32  # then one in this many light ones is timed
HEAVY = 0.0005  # expected seconds of a step above which it runs in a thread
WEIGHT = 0.1  # of the latest timed step in the moving average
TOGETHER = 64  # events that are shown to the observers together
LONG = ("warm",)  # events that they look at for long: the step shows them at once, in its thread
AGAIN = 1000  # second calls of a reference that are waited for
AUDITS = 100  # that are kept in memory
ITEM = "\x1f"  # separates an idempotency key from the number of the decision within a batch
OWN = ("archive", "audit", "serve", "terms", "bill")  # kinds of events that only the service writes
# parts of the bodies of events that only the service reads
EXTRA = {
    "decide": ("clock",),
    "begin": ("clock",),
    "feedback": ("outputs", "spent", "tokens"),
    "warm": ("digest",),
    "calibrate": ("digest",),
    "models": ("digest",),
}


class Observer(Protocol):
    """An observer of a learner's events, such as sums by minute and drift detectors."""

    def see(self, event: Event) -> None:
        """Observe an event, new or replayed."""

    def state(self) -> Any:
        """Return everything as plain JSON data, for a snapshot."""

    def restore(self, state: Any) -> None:
        """Continue from a result of ``state``."""


# by name, made for each learner
OBSERVERS: dict[str, Callable[[Learner], Observer]] = {"watch": Activity.of, "invoice": Invoice.of}


class Weight:
    """How long steps of one kind take, per unit of work: decisions, rows."""

    def __init__(self) -> None:
        self.steps = 0  # since the start
        self.seconds = 0.0  # moving average

    def is_heavy(self, units: int) -> bool:
        """Whether a step should run in a thread: its weight is not known yet, or too much for the loop."""
        return self.steps < UNKNOWN or units * self.seconds > HEAVY

    def is_timed(self) -> bool:
        """Whether to time the next step: the first ones, then a sample."""
        self.steps += 1
        return self.steps <= UNKNOWN or self.steps % SAMPLED == 0

    def timed(self, seconds: float, units: int) -> None:
        """Record how long a step took; the first one sets the average."""
        each, known = seconds / units, self.seconds
        self.seconds = known + WEIGHT * (each - known) if known else each


class Learner:
    """A named live object with its configuration, counters and times."""

    def __init__(self, name: str, id: int, config: Any, live: Live, clock: Clock = now) -> None:
        self.name, self.id, self.clock = name, id, clock
        self._set_live(live)
        self.kind: Kind = kind_of(config)
        self.config = config
        self.lock = asyncio.Lock()
        self.in_thread = False  # a step that is not handed over yet
        self.outbox = Outbox(id, (-1, 0), clock)
        self.created = 0
        self.revision = 1
        self.archived = False
        self.counts = dict.fromkeys(("decided", "feedback", "cancelled", "expired"), 0)
        self.refused = dict.fromkeys(RESULTS, 0)  # or repeated, since the start: these are not events
        self.again: dict[
            int, tuple[float, int] | bool
        ] = {}  # second calls of a reference: its chance and number, then whether it differed
        self.former: list[tuple[int, list[str]]] = []  # names of models before the events that changed them
        self.stops: dict[str, int] = {}  # decisions by the stage that answers
        self.opened: dict[int, int] = {}  # when each pending decision was made, by the log, oldest first
        self.clocks: dict[int, int] = {}  # and by the clock, where it was behind the log
        self._noticed: dict[int, int] = {}  # when decisions were noticed that were made ahead of the clock
        self.audits: dict[int, dict[str, Any]] = {}
        self.weights: dict[str, Weight] = {}  # of its steps, by kind
        self.torn = False  # a step failed halfway: it is being read again
        self.moved = False  # another instance has it, though it may come back as another object
        self.stuck = False  # its decisions could not expire
        self._observers = {name: make(self) for name, make in OBSERVERS.items()}
        self._observing = threading.Lock()
        self._unobserved: list[Event] = []  # what the observers have not seen yet
        self._fault: Exception | None = None  # of an observer
        # what is not in the store yet
        self._committer: Committer | None = None  # receives its events
        self.committed = -1
        self.ends: dict[int, Event] = {}
        self.keys: dict[str, Event] = {}
        self._keeping: dict[str, int] = {}  # keys that so many look for now: their events stay in ``keys``
        self.pictured = -1  # the event of the last snapshot
        self._batch: list[Row] = []
        self._events: list[Event] = []
        self._seen = -1  # the last event that was counted

    def _set_live(self, live: Live) -> None:
        self.live = live
        self.core: Core = live.core  # what decides and learns

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self.outbox.last_seq

    @property
    def step_seconds(self) -> float:
        """What a step of the heaviest kind takes, on average, per unit of work."""
        return max((one.seconds for one in list(self.weights.values())), default=0.0)

    def weight(self, kind: str) -> Weight:
        """Return what is known about the weight of steps of this kind."""
        known = self.weights.get(kind)
        if known is None:
            known = self.weights[kind] = Weight()
        return known

    # -- creation and recovery

    def begin(self) -> None:
        """Queue the event that creates the learner."""
        self.outbox.append("create", self.picture())
        self.attach()
        self._settle()

    def write_to(self, store: Store) -> None:
        """Store what is queued, where no committer does."""
        store.write(self._batch)

    def attach(self) -> None:
        """Queue the changes of the live object from now on."""
        self.core.sink = self.outbox

    def become(self, live: Live) -> None:
        """Continue with another object of the same state; keep the explanations of the last decisions."""
        core = live.core
        core.seed, core.every, core.kept = self.core.seed, self.core.every, self.core.kept
        self._set_live(live)
        self.attach()

    def compiled(self) -> Live:
        """Return a live object of the same state whose policy is compiled; ValueError if it cannot be."""
        with prices_told_elsewhere():
            return self.kind.again(self.live.state(), True)

    def picture(self) -> dict[str, Any]:
        """Return everything that recovery starts from, for a snapshot or the first event."""
        self._observe()
        live = self.live
        told = {"kind": live.kind, "package": __version__, "seed": self.core.seed, "every": 1}
        own = {
            "created": self.created,
            "revision": self.revision,
            "archived": self.archived,
            "counts": dict(self.counts),
            "stops": dict(self.stops),
            "opened": [[id, at] for id, at in self.opened.items()],
            **({"clocks": [[id, at] for id, at in self.clocks.items()]} if self.clocks else {}),
            "audits": [[id, dict(audit)] for id, audit in self.audits.items()],
            **({"former": [[seq, [*names]] for seq, names in self.former]} if self.former else {}),
            "observers": {name: observer.state() for name, observer in self._observers.items()},
        }
        return {**told, "state": live.state(), "config": self.config.model_dump(mode="json"), "service": own}

    @classmethod
    def of(
        cls,
        name: str,
        id: int,
        body: dict[str, Any],
        seq: int,
        clock: Clock = now,
        warnings: list[str] | None = None,
        compiled: Callable[[Kind], bool] = lambda _: False,
    ) -> Learner:
        """Return the learner of a picture, as it was after event ``seq``, not yet attached.

        It is compiled where ``compiled`` says so, if that takes only to load what was compiled before.
        """
        config = stored_config(body["config"], [] if warnings is None else warnings, f"learner {name}")
        kind, live = kind_of(config), None
        if compiled(kind):
            with contextlib.suppress(ValueError), loading_only():
                live = kind.again(body["state"], True)
        if live is None:
            live = kind.again(body["state"], False)
        live.core.seed, live.core.every = body["seed"], body["every"]
        learner = cls(name, id, config, live, clock)
        own = body["service"]
        learner.created, learner.revision, learner.archived = own["created"], own["revision"], own["archived"]
        learner.counts |= own["counts"]
        learner.stops = own["stops"]
        learner.opened = dict(own["opened"])
        learner.clocks = dict(own.get("clocks", ()))
        learner.audits = dict(own["audits"])
        learner.former = [(seq, names) for seq, names in own.get("former", ())]
        for key, observer in learner._observers.items():
            if key in own["observers"]:
                observer.restore(own["observers"][key])
        learner.outbox.last_seq = learner.committed = learner.pictured = learner._seen = seq
        return learner

    def apply(self, event: Event, same: bool, where: str) -> str | None:
        """Apply an event; return a line about it if the logged decision stands against the one made now."""
        words = None
        if event.kind not in OWN:
            told, extra = event, EXTRA.get(event.kind, ())
            if any(name in event.body for name in extra):
                told = event._replace(body={k: v for k, v in event.body.items() if k not in extra})
            words = fold.apply(self.core, told, same, where)
        self.see(event)
        self._observe()
        self.outbox.last_seq = self.committed = self._seen = event.seq
        self.outbox.begin_at(event.at)
        return words

    def see(self, event: Event) -> None:
        """Count an event, new or replayed."""
        kind, id = event.kind, event.decision
        if kind == "create":
            self.created = event.at
            return
        if kind in OPENS and id is not None:
            self.counts["decided"] += 1
            if kind == "decide":
                self._stop(self.kind.stage(event.body))
            if self.kind.waits(event.body):
                self.opened[id] = event.at
                if "clock" in event.body:
                    self.clocks[id] = event.body["clock"]
        elif kind == "tell":
            if event.body["next"] is None:
                self._stop(self.kind.names[self.kind.answering(event.body)])
        elif kind in ENDS and id is not None:
            self.opened.pop(id, None)
            if self.clocks or self._noticed:
                self.clocks.pop(id, None)
                self._noticed.pop(id, None)
            self.counts[_COUNTED[kind]] += 1
        elif kind in ("recost", "promise"):
            self.revision += 1
        elif kind == "models":
            self._take_models(event)
        elif kind == "archive":
            self.archived = True
        elif kind == "audit":
            self._keep_audit(event.body)
        self._unobserved.append(event)
        if len(self._unobserved) >= TOGETHER or kind in LONG or self._fault is not None:
            self._observe()

    def _observe(self) -> None:
        """Show the observers what they have not seen yet: code that is used again at once takes half the time.

        After one has failed nothing is shown, or others would see an event twice: the next step fails.
        """
        with self._observing:  # a step in a thread may be about to show more
            self._show()

    def _show(self) -> None:
        if self._fault is not None:
            raise RuntimeError("what observes the events has failed") from self._fault
        seen = 0
        try:
            for event in self._unobserved[:]:
                for observer in self._observers.values():
                    observer.see(event)
                seen += 1
        except Exception as error:
            self._fault = error
            raise
        finally:
            del self._unobserved[:seen]

    @property
    def observers(self) -> dict[str, Observer]:
        """What observes the events, by name. It has seen all of them, unless it fails or a step shows it some just now.

        The loop looks, and does not wait for a step in a thread.
        """
        if self._unobserved and self._observing.acquire(blocking=False):
            try:
                with contextlib.suppress(Exception):
                    self._show()
            finally:
                self._observing.release()
        return self._observers

    def _take_models(self, event: Event) -> None:
        """Go on with other models."""
        kind: Any = self.kind
        self.revision += 1
        self.former.append((event.seq, kind.names))
        self.config = kind.with_models(event.body)
        self.kind, live = kind_of(self.config), cast(Any, self.live)
        live.seat(len(self.kind.names))
        self.kind.named(live)

    def answer(self, event: Event) -> dict[str, Any]:
        """Return what a client is told about a decision, also if its models have changed since."""
        then = (names for changed, names in self.former if event.seq < changed)
        return self.kind.answer(event.body, next(then, self.kind.names))

    def _stop(self, stage: str) -> None:
        self.stops[stage] = self.stops.get(stage, 0) + 1

    # -- steps: each changes the learner, or raises a Problem and changes nothing

    def decide(self, contexts: Sequence[Any], key: str | None = None) -> list[Event]:
        """Make one decision for each context, all or none."""
        return self._open("decide", "decides after every answer: use begin and tell", contexts, key)

    def begin_round(self, group: str | None = None, key: str | None = None) -> list[Event]:
        """Begin a round of a learner that decides after every answer."""
        return self._open("begin", "decides at once: use decide and feedback", [group], key)

    def _open(self, opening: str, instead: str, contexts: Sequence[Any], key: str | None) -> list[Event]:
        if self.archived:
            raise Problem("archived", f"learner {self.name} is archived and makes no more decisions")
        core, kind = self.core, self.kind
        if kind.opening != opening:
            raise Problem("not_offered", f"a {kind.name} learner {instead}")
        inputs = [kind.checked_context(self.live, context) for context in contexts]
        if kind.takes_context and len({len(context) for context in contexts}) > 1:
            raise Problem("wrong_context", "contexts must all have the same length", field="contexts")
        self._check_room(len(inputs))
        try:
            if len(inputs) == 1:
                core.decide(inputs[0], tag=Tag(key))
            else:
                keys = [None if key is None else f"{key}{ITEM}{n}" if n else key for n in range(len(inputs))]
                core.decide_many(inputs, tags=[Tag(one) for one in keys])
        except PendingDecision as error:
            raise Problem("too_many_pending", str(error), retry_after=1) from None
        return self._settle()

    def _check_room(self, count: int) -> None:
        """Refuse decisions beyond the limit of open ones."""
        waiting = self.core.ledger.waiting
        if self.core.ledger.one_at_a_time and (waiting or count > 1):
            if waiting:
                open_id = next(iter(waiting))
                raise Problem("decision_open", f"decision {open_id} is open, and this policy learns in order")
            raise Problem("not_offered", "count must be 1: this policy learns in order", field="count")
        if len(waiting) + count > self.config.pending_limit:
            raise Problem(
                "too_many_pending",
                f"{len(waiting)} decisions wait for feedback, at most {self.config.pending_limit} may",
                retry_after=1,
            )

    def tell(self, id: int, given: TellRequest) -> tuple[int | None, int | None]:
        """Tell an output of an open round; return the next stage, or the one whose answer counts."""
        kind: Any = self.kind
        step: tuple[int | None, int | None] = kind.tell(self.live, id, given)
        self._settle()
        if step[0] is None:
            self._draw_again(id)
        return step

    def _draw_again(self, id: int) -> None:
        """Draw by lot whether the reference shall be asked a second time for a request that was compared."""
        if not checks_self(self.core.terms):
            return
        live: Any = self.live
        chance = live.checks_again(id)
        if chance is not None and tossed(chance):
            self.again[id] = chance, live.promised.reference
            while len(self.again) > AGAIN:
                del self.again[next(iter(self.again))]

    def asks_again(self, id: int) -> dict[str, Any]:
        """Return the name of the reference, if it shall be asked a second time for a request."""
        known = self.again.get(id)
        return {"again": self.kind.names[known[1]]} if isinstance(known, tuple) else {}

    def check_again(self, id: int, given: AgainRequest) -> tuple[bool, bool]:
        """Count a second answer of the reference; return whether it differs, and whether it was told before."""
        known, kind = self.again.get(id), cast(Any, self.kind)
        if isinstance(known, bool):
            return known, True
        if known is None or not checks_self(self.core.terms) or self.core.terms.promise.reference != known[1]:
            raise Problem(
                "forgotten", f"the reference is not asked a second time for decision {id}, or no more"
            )
        found: bool = kind.check_again(self.live, id, given, known[0])
        self._settle()
        self.again[id] = found
        return found, False

    def calibrate(self, given: CalibrateRequest, key: str | None, digest: str | None) -> list[Event]:
        """Learn from labelled rows."""
        kind: Any = self.kind
        with self.outbox.tagged(key, _digest(digest)):
            kind.calibrate(self.live, given)
        return self._settle()

    def feedback(
        self, id: int, given: FeedbackRequest, digest: str, extra: dict[str, Any] | None = None
    ) -> Event:
        """Learn the feedback of a pending decision; ``extra`` is stored with it, under the names in `EXTRA`."""
        if self.config.keep_outputs and given.outputs is not None:
            extra = {**(extra or {}), "outputs": given.outputs}
        if extra:
            with self.outbox.tagged(None, extra):
                self.kind.learn(self.live, id, given, digest)
        else:
            self.kind.learn(self.live, id, given, digest)
        end = self._settle()[-1]
        self._draw_again(id)
        return end

    def cancel(self, id: int, cost: float, reason: str) -> list[Event]:
        """Cancel a decision; return no events if that is not possible."""
        self.core.close([id], cost, "cancel", reason)
        return self._settle()

    def expire(self, most: int) -> list[Event]:
        """Expire pending decisions that have waited too long, the oldest first, at most so many."""
        self.core.close(self._old(most), 0.0, "expire")
        return self._settle()

    def older(self, most: int) -> int:
        """Return how many decisions `expire` would end."""
        return len(self._old(most))

    def _old(self, most: int) -> list[int]:
        now, ttl = self.clock(), int(self.config.pending_ttl * 1e6)
        ahead = self.outbox.ahead > 0
        old: list[int] = []
        for id, at in self.opened.items():
            if len(old) == most:
                break
            if self._since(id, at, now) <= now - ttl:
                old.append(id)
            elif not ahead:
                break  # the later ones are younger
        return old

    def _since(self, id: int, at: int, now: int) -> int:
        """Return when a decision was made, by the clock.

        If the clock was ahead at an event, all later times in the log are, too. Then the clock's own time of a decision
        counts; and for one that was made while it was ahead, the time at which this was noticed.
        """
        if at <= now:
            return at
        made = self.clocks.get(id, at)
        return made if made <= now else self._noticed.setdefault(id, now)

    def expires(self, event: Event) -> int:
        """Return when the decision of an event expires."""
        made: int = event.body.get("clock", event.at)
        return made + int(self.config.pending_ttl * 1e6)

    def skip_ids(self) -> list[Event]:
        """Leave a random gap: the store is a copy, and does not know which ids were given out since.

        Nor does a promise know how much of its allowance was used up.
        """
        self.core.skip(self.core.ledger.next + 1 + secrets.randbelow(GAP), 1)
        if getattr(self.core.terms, "promise", None) is not None:
            self.live.forfeit()  # type: ignore[attr-defined]
        return self._settle()

    def recost(self, given: dict[str, Any]) -> list[Event]:
        """Continue with new prices."""
        try:
            with prices_told_elsewhere():  # in the log
                self.kind.recost(self.live, given)
        except ValueError as error:
            code = error.code if isinstance(error, Refused) else "invalid"
            raise Problem(code, str(error)) from None
        return self._settle()

    def change_models(self, given: ModelsRequest, key: str | None, digest: str | None) -> list[Event]:
        """Add, remove or replace a model; comparisons under way are cancelled."""
        try:
            with self.outbox.tagged(key, _digest(digest)), prices_told_elsewhere():
                self.kind.change_models(self.live, given)
        except ValueError as error:
            code = error.code if isinstance(error, Refused) else "invalid"
            raise Problem(code, str(error)) from None
        return self._settle()

    def move_conversation(self, conversation: str, model: int) -> list[Event]:
        """Let a conversation go on with the model that answered."""
        self.live.move_conversation(conversation, model)  # type: ignore[attr-defined]
        return self._settle()

    def unseen(self, group: str | None) -> bool:
        """Let an answer go out because the reference failed; False if the promise has no room for it."""
        try:
            self.live.unseen(group)  # type: ignore[attr-defined]
        except Refused:
            return False
        self._settle()
        return True

    def warm(self, given: WarmStartRequest, key: str | None, digest: str | None) -> list[Event]:
        """Learn rows in which all stages ran."""
        try:
            with self.outbox.tagged(key, _digest(digest)):
                self.kind.warm(self.live, given.outputs, given.contexts)
        except PendingDecision as error:
            raise Problem("decision_open", str(error)) from None
        except ValueError as error:
            raise Problem("invalid", str(error), field="outputs") from None
        return self._settle()

    def archive(self) -> list[Event]:
        """Stop making decisions."""
        if not self.archived:
            self.outbox.append("archive", {})
        return self._settle()

    @property
    def invoice(self) -> Invoice:
        """What its upstream models have cost."""
        return cast(Invoice, self.observers["invoice"])

    def money(self) -> tuple[float, float] | None:
        """Return what was spent and saved, as its report says it; None without prices."""
        if self.invoice.terms is not None:
            return self.invoice.spent, self.invoice.saved
        counts = self.core.counts
        if not hasattr(counts, "alone"):
            return None
        promised = getattr(counts, "promise", None)
        spent = counts.spent + (0.0 if promised is None else promised.second.spent)
        return spent, counts.alone - spent

    def note(self, kind: str, body: dict[str, Any], key: str | None = None) -> list[Event]:
        """Record what only the accounts count: a request without comparison ("serve"), "terms" or a "bill"."""
        self.outbox.append(kind, body, key)
        return self._settle()

    def audit(self, body: dict[str, Any], key: str | None = None) -> list[Event]:
        """Record a step of an audit."""
        self.outbox.append("audit", body, key)
        return self._settle()

    def _keep_audit(self, body: dict[str, Any]) -> None:
        known = self.audits.setdefault(body["audit"], {})
        known.update(body)
        while len(self.audits) > AUDITS:
            del self.audits[next(iter(self.audits))]

    def _settle(self) -> list[Event]:
        """Queue all that has happened for the committer, then count it; return it."""
        events = []
        for row, event in self.outbox.take():
            self._batch.append(row)
            self._events.append(event)
            if event.kind in ENDS and event.decision is not None:
                self.ends[event.decision] = event
            if event.key is not None:
                self.keys[event.key] = event
            events.append(event)
        for event in events:
            self.see(event)
            self._seen = event.seq
        return events

    def settle_failed(self) -> bool:
        """Queue and count what a failed step has changed; return False if memory is not what the events say."""
        with contextlib.suppress(Exception):
            self._settle()
        return self._seen == self.seq and self.core.change is None

    # -- committing

    def submit(self, committer: Committer) -> asyncio.Future[Any] | None:
        """Hand all new events to the committer; return a future of their commit."""
        if not self._batch:
            return self.commit()
        rows, self._batch = self._batch, []
        events, self._events = self._events, []
        self._committer = committer
        return committer.commit(rows, lambda: self._drop_stored(events))

    def commit(self) -> asyncio.Future[Any] | None:
        """Return a new future of the commit of everything handed over; None if all of it is stored."""
        if self._committer is None or self.committed == self.seq:
            return None
        return self._committer.commit([])

    def _drop_stored(self, events: list[Event]) -> None:
        """Forget what is kept in memory only until it is in the store."""
        for event in events:
            if event.kind in ENDS:
                self.ends.pop(event.decision, None)  # type: ignore[arg-type]
            if event.key is not None and event.key not in self._keeping:
                self.keys.pop(event.key, None)
        self.committed = events[-1].seq

    @contextlib.contextmanager
    def keeping(self, key: str) -> Iterator[None]:
        """Keep the event of a key in memory: whoever has asked the store for it may have asked too early."""
        self._keeping[key] = self._keeping.get(key, 0) + 1
        try:
            yield
        finally:
            others = self._keeping.pop(key) - 1
            if others:
                self._keeping[key] = others
            elif key in self.keys and self.keys[key].seq <= self.committed:
                del self.keys[key]

    def wants_snapshot(self) -> bool:
        """Whether there are enough events since the last snapshot."""
        apart = SNAPSHOT // 4 if self.kind.is_slow else SNAPSHOT
        return self.seq - self.pictured >= apart and not self.torn

    def continue_counting(self, before: Learner) -> None:
        """Take over what is not in the store from an object of the same learner."""
        self.refused = before.refused
        watch, known = self.observers.get("watch"), before.observers.get("watch")
        if isinstance(watch, Activity) and isinstance(known, Activity):
            watch.noted = known.noted

    # -- what can be seen

    def results(self) -> dict[str, int]:
        """Return the feedbacks by result; those refused or repeated count since the start of the process."""
        return {"accepted": self.counts["feedback"], **self.refused}

    def note_refused(self, result: str) -> None:
        """Count a feedback that changed nothing: a duplicate, a conflict, or a late one."""
        self.refused[result] += 1
        watch = self.observers.get("watch")
        if isinstance(watch, Activity) and not self.lock.locked():  # a running step may be in another thread
            watch.note(self.outbox.clock(), result)

    def warning(self) -> str | None:
        """Say that no stage after the first can ever pay, or which ones save nothing, if that is so."""
        terms, told = self.core.terms, self.settings()
        if getattr(terms, "promise", None) is not None:
            names = Words("model" if self.kind.name == "router" else "stage", tuple(self.kind.names))
            found = saving_warning(terms.prices, terms.promise.reference, terms.promise.least, names)
            return None if found is None else f"learner {self.name}: {found}"
        alone = "prices" in told  # then the second costs only its difference to the first
        prices, error = told.get("prices") or told.get("stage_costs"), told.get("error_cost")
        if not prices or len(prices) < 2 or error is None or prices[1] - alone * prices[0] < error:
            return None
        first, second = self.kind.names[:2]
        more = f"{prices[1] - alone * prices[0]:g}{' more' if alone else ''}"
        words = f"learner {self.name}: {second} costs {more}, and a wrong answer only {error:g}"
        return f"{words}: nothing after {first} can ever pay; is error_cost what you meant?"

    @property
    def paused(self) -> bool:
        """Whether the reference of a promise answers everything, and nothing is learned."""
        promised = getattr(self.core.terms, "promise", None)
        return promised is not None and promised.paused

    def settings(self) -> dict[str, Any]:
        """Return the configuration with the current prices and without the seed, which stays in the log."""
        told: dict[str, Any] = self.config.model_dump(mode="json", exclude={"seed"})
        for field, own in (("stage_costs", "prices"), ("prices", "prices"), ("error_cost", "error_cost")):
            if field in told:
                told[field] = getattr(self.core.terms, own)
        promised = getattr(self.core.terms, "promise", None)
        if promised is not None:
            told |= settings_of(promised, self.kind.names)
            if told["reference"] == self.kind.names[-1] and self.config.reference is None:
                told["reference"] = None  # as it was given
        return told


def _digest(digest: str | None) -> dict[str, Any]:
    return {} if digest is None else {"digest": digest}


_COUNTED = {"feedback": "feedback", "cancel": "cancelled", "expire": "expired"}
