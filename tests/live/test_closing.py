"""Closing an object: whatever anybody was told is in the journal, and nobody is told anything afterwards."""

import math
import threading

import pytest
from tests.live import inside
from tests.live.kinds import KINDS
from tests.rig.processes import PATIENCE

from weakfeedback import Cascade
from weakfeedback.journal import SqliteStore
from weakfeedback.journal.events import StoreUnavailable

COSTS = {"stage_costs": [1.0, 4.0, 9.0], "error_cost": 30.0}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


def events(path):
    with SqliteStore.open(path) as store:
        return [(event.kind, event.decision) for event in store.events(1)]


@pytest.mark.parametrize("every", [1, 10])
def test_a_snapshot_has_the_number_of_the_event_that_it_finishes(path, every):
    cascade = Cascade.open(path, 3, **COSTS, seed=0, every=every)
    decision = cascade.decide()
    inside.interrupt_commit(cascade, lambda: cascade.cancel(decision.id))
    cascade.close()
    assert events(path) == [("create", None), ("decide", 1), ("cancel", 1)]
    with Cascade.open(path, 3, every=every) as again:
        assert again.pending == []


def test_what_is_learned_while_another_thread_closes_is_in_the_journal(path):
    cascade = Cascade.open(path, 3, **COSTS, seed=0)
    decision = cascade.decide()
    learned, closed, told = threading.Event(), threading.Event(), []

    def slow_wait(wait):
        learned.set()
        assert closed.wait(PATIENCE)
        wait()

    def answer():
        told.append(cascade.feedback(decision.id, [0] * (decision.arm + 1)))

    thread = threading.Thread(target=answer)

    def slow_snapshot(take):
        take()
        thread.start()
        assert learned.wait(PATIENCE)

    inside.replace_snapshot(cascade, slow_snapshot)
    inside.replace_wait(cascade, slow_wait)
    cascade.close()
    closed.set()
    thread.join(PATIENCE)
    assert told == ["accepted"]
    assert ("feedback", decision.id) in events(path)


def test_a_thread_that_waits_for_the_lock_is_refused_after_closing(path):
    cascade = Cascade.open(path, 3, **COSTS, seed=0)
    lock = inside.lock(cascade)

    class Waited:
        """Taken by a thread that comes just before the object is closed, and has it just after."""

        def __enter__(self):
            inside.set_lock(cascade, lock)
            cascade.close()
            lock.acquire()

        def __exit__(self, *error):
            lock.release()

        def _is_owned(self):
            return False

    inside.set_lock(cascade, Waited())
    with pytest.raises(RuntimeError, match="was closed"):
        cascade.decide()
    assert events(path) == [("create", None)]


def test_closing_tells_that_something_is_lost(path, monkeypatch):
    cascade = Cascade.open(path, 3, **COSTS, seed=0)
    decision = cascade.decide()

    def refuse(self, rows, *, sync=True):
        raise StoreUnavailable(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(SqliteStore, "write", refuse)
        with pytest.raises(OSError, match="No space"):
            cascade.feedback(decision.id, [0] * (decision.arm + 1))
        with pytest.raises(OSError, match="No space"):
            cascade.close()
    cascade.close()
    with Cascade.open(path, 3) as again:
        assert (again.rounds, again.pending) == (0, [decision.id])


def test_closing_that_was_interrupted_can_be_repeated(path, monkeypatch):
    cascade = Cascade.open(path, 3, **COSTS, seed=0)
    with monkeypatch.context() as interrupted:

        def interrupt(self):
            raise KeyboardInterrupt

        interrupted.setattr(SqliteStore, "close", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cascade.close()
    cascade.close()
    Cascade.open(path, 3).close()


def test_what_cannot_be_pictured_does_not_keep_the_journal_open(path):
    cascade = Cascade.open(path, 3, **COSTS, seed=0)
    cascade.cancel(cascade.decide().id, cost=2.0)
    inside.set_counts(cascade, inside.counts(cascade)._replace(wasted=math.inf))  # which no call allows
    with pytest.raises(ValueError, match="JSON"):
        cascade.close()
    inside.kill(Cascade.open(path, 3))


@pytest.mark.parametrize("name", list(KINDS))
def test_a_closed_object_can_still_be_shown(name, tmp_path):
    thing = KINDS[name].open(tmp_path / "j.db")
    thing.close()
    assert repr(thing).startswith(f"<{thing.kind} of")
