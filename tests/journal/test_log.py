"""The log: order, shared transactions, failures, and exceptions that come anywhere."""

import errno
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.rig.pace import pace
from tests.rig.processes import PATIENCE, wait_until
from tests.rig.threads import in_threads

import weakfeedback.journal
from weakfeedback.journal import Log, SqliteStore, StoreUnavailable
from weakfeedback.journal.locks import InterruptSafeLock


@pytest.fixture
def store(tmp_path):
    with SqliteStore.open(tmp_path / "runs.db") as store:
        store.create_learner("a", 0)
        yield store


def test_events_are_queued_then_stored(store):
    log = Log(store, 1)
    assert (log.last_seq, log.pending_writes) == (-1, 0)
    log.flush()
    body = {"stage": 1}
    assert log.append("decide", body, decision=7, key="k") == 0
    body["stage"] = 2  # the log has its own copy
    assert log.append("feedback", {}, decision=7) == 1
    assert (log.last_seq, log.pending_writes) == (1, 2)
    assert store.last(1) == (-1, 0)
    log.flush(0)
    assert log.pending_writes == 0  # all that waits is written
    first, second = store.events(1)
    assert (first.kind, first.decision, first.key, first.body) == ("decide", 7, "k", {"stage": 1})
    assert (second.kind, second.decision, second.key, second.body) == ("feedback", 7, None, {})
    again = Log(store, 1)
    assert again.last_seq == 1
    assert again.append("note", {}) == 2


def test_what_cannot_be_stored_is_refused_before_it_is_queued(store):
    log = Log(store, 1)
    for kind, body, options in (
        ("note", {"x": float("nan")}, {}),
        ("note", {"x": object()}, {}),
        ("note", [], {}),
        ("", {}, {}),
        ("note", {}, {"decision": 1.5}),
        ("note", {}, {"key": "\ud800"}),
    ):
        with pytest.raises((ValueError, TypeError)):
            log.append(kind, body, **options)
    assert log.last_seq == -1
    log.flush(log.append("note", {}))


def test_an_event_that_is_not_there_cannot_be_waited_for(store):
    log = Log(store, 1)
    log.append("note", {})
    with pytest.raises(ValueError, match="there is no event 1: the last one is 0"):
        log.flush(1)


def test_time_never_goes_back(store, monkeypatch):
    log = Log(store, 1)
    for now in (5_000_000, 3_000_000, 4_000_000, 9_000_000):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        log.append("note", {})
    log.flush()
    monkeypatch.setattr(time, "time_ns", lambda: 1)
    log.flush(log.append("note", {}))
    log = Log(store, 1)
    log.flush(log.append("note", {}))
    assert [event.at for event in store.events(1)] == [5000, 5000, 5000, 9000, 9000, 9000]


class Watched:
    """A store that counts its transactions, can be slow, and can fail."""

    def __init__(self, store):
        self.store = store
        self.batches = []
        self.syncs = 0
        self.failing = None
        self.gate = None
        self.entered = threading.Event()

    def write(self, rows, *, sync=True):
        self.entered.set()
        if self.gate is not None:
            assert self.gate.wait(PATIENCE)
        self.batches.append((len(rows), sync))
        if self.failing is not None:
            raise self.failing
        self.store.write(rows, sync=sync)

    def sync(self):
        self.syncs += 1
        self.store.sync()

    def last(self, learner):
        return self.store.last(learner)


def is_waiting(thread):
    """Whether a thread is in the middle of a flush, and knows of no failure."""
    frame = sys._current_frames().get(thread.ident)
    while frame is not None:
        if frame.f_code is Log.flush.__code__ and "pauses" in frame.f_locals:
            return True
        frame = frame.f_back
    return False


def waiters(log, count, results):
    """Threads that append and flush; each puts its result in ``results``."""
    lock = threading.Lock()

    def work():
        with lock:
            seq = log.append("note", {})
        try:
            log.flush(seq)
        except BaseException as problem:
            results.append(problem)
        else:
            results.append(seq)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_threads_that_wait_share_one_transaction(store):
    watched = Watched(store)
    log = Log(watched, 1)
    watched.gate = threading.Event()
    results = []
    threads = waiters(log, 1, results)
    assert watched.entered.wait(PATIENCE)
    threads += waiters(log, 20, results)
    wait_until(lambda: log.last_seq == 20)
    watched.gate.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(results) == list(range(21))
    assert watched.batches == [(1, True), (20, True)]
    assert [event.seq for event in store.events(1)] == list(range(21))


def test_threads_that_go_on_and_on_share_their_transactions(store):
    """Who has just written must not write again, for itself alone, before those who wait."""

    pause = 0.003 * pace()

    class Slow(Watched):
        def write(self, rows, *, sync=True):
            time.sleep(pause)
            super().write(rows, sync=False)

    log = Log(Slow(store), 1)
    lock = threading.Lock()

    def work(_):
        for _ in range(20):
            with lock:
                seq = log.append("note", {})
            log.flush(seq)

    in_threads(24, work)
    assert len(log.store.batches) < 24 * 20 / 5  # half of the threads in each, if all goes well
    assert store.last(1)[0] == 24 * 20 - 1


def test_a_failure_is_told_to_all_who_wait_and_the_next_flush_tries_again(store):
    watched = Watched(store)
    log = Log(watched, 1)
    watched.gate, watched.failing = threading.Event(), StoreUnavailable(errno.ENOSPC, "full")
    results = []
    threads = waiters(log, 20, results)
    wait_until(lambda: all(map(is_waiting, threads)))
    watched.gate.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len({id(problem) for problem in results}) == 20
    assert {(type(problem), str(problem), problem.errno) for problem in results} == {
        (StoreUnavailable, "full", errno.ENOSPC)
    }
    assert len(watched.batches) == 1
    assert log.pending_writes == 20
    with pytest.raises(StoreUnavailable):
        log.flush()
    assert len(watched.batches) == 2
    watched.failing = None
    log.append("note", {})
    log.flush(3)
    assert watched.batches[-1] == (21, True)
    assert [event.seq for event in store.events(1)] == list(range(21))


def test_an_unsynchronised_event_is_synchronised_when_somebody_asks(store):
    watched = Watched(store)
    log = Log(watched, 1)
    seq = log.append("note", {})
    log.flush(seq, sync=False)
    log.flush(seq, sync=False)
    assert (watched.batches, watched.syncs) == ([(1, False)], 0)
    assert store._one("PRAGMA synchronous")[0] == 1
    log.flush(seq)
    log.flush(seq)
    assert watched.syncs == 1
    assert store._one("PRAGMA synchronous")[0] == 2
    log.flush(log.append("note", {}), sync=False)
    log.flush(log.append("note", {}))  # one synchronisation covers both
    log.flush(1)
    assert watched.syncs == 1


def test_a_synchronisation_writes_to_the_log_of_the_database(store):
    wal = Path(f"{store.path}-wal")
    before = wal.stat().st_size
    store.sync()
    assert wal.stat().st_size > before


def test_a_commit_whose_end_was_not_seen_is_not_repeated(store):
    class Late(Watched):
        def write(self, rows, *, sync=True):
            super().write(rows, sync=sync)
            if self.batches == [(2, True)]:
                raise KeyboardInterrupt

    watched = Late(store)
    log = Log(watched, 1)
    log.append("note", {})
    log.append("note", {})
    with pytest.raises(KeyboardInterrupt):
        log.flush()
    log.append("note", {})
    log.flush()
    assert watched.batches == [(2, True), (1, True)]
    assert [event.seq for event in store.events(1)] == [0, 1, 2]


PACKAGE = os.path.dirname(weakfeedback.journal.__file__)


class Injected(KeyboardInterrupt):
    pass


class Injector:
    """Raises at the ``place``-th line (or bytecode) of the journal that the calling thread executes."""

    def __init__(self, place, what):
        self.place, self.what, self.seen = place, what, 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.call)

    def __exit__(self, *_):
        sys.settrace(self.before)

    def call(self, frame, event, argument):
        if os.path.dirname(frame.f_code.co_filename) != PACKAGE:
            return None
        frame.f_trace_opcodes = self.what == "opcode"
        return self.line

    def line(self, frame, event, argument):
        if event == self.what:
            self.seen += 1
            if self.seen == self.place:
                raise Injected(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}")
        return self.line


def in_thread(work):
    """Run ``work`` in another thread, which must not wait for ever."""
    problems = []

    def run():
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    if problems:
        raise problems[0]


def interrupt_everywhere(store, what, sync, step=1, fail=False):
    """Interrupt append and flush at every place; after each, check that the log is right and goes on."""
    log = Log(store, 1)
    for _ in range(2):  # from 3.12 on, Python reports bytecodes from the second time on
        with Injector(0, what):
            log.flush(log.append("note", {"place": 0}), sync)
    expected = [0, 0]  # bodies that must be in the store, in order
    place, where = 1, set()
    while True:
        count = len(expected)
        injector = Injector(place, what)
        if fail:
            store._one("PRAGMA max_page_count=1")  # what it has, and no more
        try:
            with injector:
                log.flush(log.append("note", {"place": place, "text": "x" * (9000 if fail else 1)}), sync)
        except Injected as problem:
            where.add(str(problem))
        except StoreUnavailable:
            assert fail
        done = injector.seen < place
        if fail:
            store._one("PRAGMA max_page_count=1000000000")
        assert log.last_seq in (count - 1, count)
        if log.last_seq == count:
            expected.append(place)
        assert store.last(1)[0] <= log.last_seq
        if place % 2:
            in_thread(lambda: log.flush(sync=sync))
        else:
            log.flush(sync=sync)
            in_thread(lambda: store.last(1))
        assert log.pending_writes == 0
        assert store.last(1)[0] == len(expected) - 1
        if done:
            break
        place += step
    assert [event.body["place"] for event in store.events(1)] == expected
    assert store.integrity() == []
    assert expected[-1] == place  # the last one was not interrupted
    return place, where


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("fail", [False, True])
def test_an_exception_at_any_line_loses_and_repeats_nothing(store, sync, fail):
    places, where = interrupt_everywhere(store, "line", sync, fail=fail)
    assert places > 70
    assert len(where) > 60
    assert {name.split(":")[0] for name in where} >= {
        "log.py",
        "sqlite.py",
        "locks.py",
        "events.py",
        "owner.py",
    }


@pytest.mark.parametrize("fail", [False, True])
def test_an_exception_at_any_bytecode_loses_and_repeats_nothing(store, fail):
    places, _ = interrupt_everywhere(store, "opcode", sync=False, fail=fail)
    assert places > 200  # how many are reported depends on the version of Python


def test_real_signals_lose_and_repeat_nothing(store):
    """A timer whose handler raises, as Ctrl-C does, in the middle of 300 appends in two threads."""
    signal = pytest.importorskip("signal")
    if not hasattr(signal, "setitimer"):
        pytest.skip("there is no timer here")

    def handler(number, frame):
        raise Injected

    log = Log(store, 1)
    lock = threading.Lock()
    stop = threading.Event()
    told = []

    def other():
        while not stop.is_set():
            with lock:
                seq = log.append("note", {"by": "other"})
            log.flush(seq, sync=False)
            told.append(seq)

    thread = threading.Thread(target=other, daemon=True)
    old = signal.signal(signal.SIGALRM, handler)
    interrupted = 0
    thread.start()
    try:
        for i in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + (i % 50) * 2e-6)
                with lock:
                    seq = log.append("note", {"by": "main"})
                log.flush(seq, sync=False)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Injected:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        stop.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    log.flush()
    events = list(store.events(1))
    assert len(events) == log.last_seq + 1
    assert all(events[seq].body == {"by": "other"} for seq in told)
    assert sum(event.body == {"by": "other"} for event in events) == len(told)
    assert interrupted > 30


def test_a_handler_that_comes_back_into_the_store_is_told_so(store):
    """It must neither wait for itself nor see the middle of a transaction."""
    turn = InterruptSafeLock()

    def inside():
        with pytest.raises(RuntimeError, match="signal handler"):
            turn.run(lambda: None)
        return 5

    assert turn.run(inside) == 5
    in_thread(lambda: turn.run(lambda: None))


def test_times_do_not_decrease_within_events_that_are_prepared_together(tmp_path, monkeypatch):
    with SqliteStore.open(tmp_path / "runs.db") as store:
        log = Log(store, store.create_learner("triage", at=0))
        log.append("create", {})
        clock = iter([5_000_000_000_000_000_000, 4_999_999_999_000_000_000])  # it steps back between the two
        monkeypatch.setattr("weakfeedback.journal.log.time.time_ns", lambda: next(clock))
        rows = [log.prepare("decide", {}, decision=n, ahead=n) for n in range(2)]
        for row in rows:
            log.put(row)
        log.flush()
        first, second = (event.at for event in store.events(log.learner, after=0))
        assert first == second
