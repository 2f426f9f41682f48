"""One owner per store: a second process, a dead one, a forked one."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.rig.processes import PATIENCE, printed
from tests.rig.threads import in_threads

from weakfeedback.journal import Event, Log, OwnedElsewhere, SqliteStore, StoreUnavailable
from weakfeedback.journal.owner import Owner

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from weakfeedback.journal import Log, SqliteStore
store = SqliteStore.open(sys.argv[1])
log = Log(store, store.learners()[0].id)
log.flush(log.append("note", {}))
print("held", flush=True)
time.sleep(3600)
"""


def hold(path):
    """A process that owns the store at ``path``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def path(tmp_path):
    with SqliteStore.open(tmp_path / "runs.db") as store:
        store.create_learner("a", 0)
    return tmp_path / "runs.db"


def test_a_second_process_is_refused_until_the_first_is_killed(path):
    with hold(path) as process:
        with pytest.raises(OwnedElsewhere) as caught:
            SqliteStore.open(path)
        moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
        line = (
            f"{re.escape(str(path))} is in use by process {process.pid} since {moment}: close it there first"
        )
        assert re.fullmatch(line, str(caught.value))
        with SqliteStore.open(path, read_only=True) as reader:
            assert reader.last(1)[0] == 0
        process.send_signal(signal.SIGKILL)
    with SqliteStore.open(path) as store:
        assert store.last(1)[0] == 0
        assert f"process {os.getpid()} since" in (path.parent / "runs.db.lock").read_text()
    with hold(path) as process:
        process.send_signal(signal.SIGKILL)


def test_the_same_process_is_refused_too(path):
    with SqliteStore.open(path), pytest.raises(OwnedElsewhere, match=f"by process {os.getpid()} since"):
        SqliteStore.open(path)
    SqliteStore.open(path).close()


def test_a_refused_owner_leaves_the_words_of_the_first(path):
    with SqliteStore.open(path):
        words = (path.parent / "runs.db.lock").read_text()
        with pytest.raises(OwnedElsewhere):
            Owner(path)
        assert (path.parent / "runs.db.lock").read_text() == words


def test_a_lock_file_with_other_content_is_only_a_lock_file(path):
    lock = path.parent / "runs.db.lock"
    with SqliteStore.open(path):
        for content in (b"", b"\x1b]0;x\x07", b"process \x1b[31m", b"x" * 10_000, b"\xff\xfe"):
            lock.write_bytes(content)
            with pytest.raises(OwnedElsewhere, match="in use by another process: close it there first"):
                SqliteStore.open(path)
    SqliteStore.open(path).close()
    assert lock.read_text().startswith(f"process {os.getpid()} since")


def test_a_folder_that_is_missing(tmp_path):
    with pytest.raises(StoreUnavailable, match="cannot be locked"):
        SqliteStore.open(tmp_path / "none" / "runs.db")


def in_child(work):
    """The exit status of a forked child that does ``work`` and leaves as a program does."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@needs_fork
def test_a_child_may_not_use_the_store_and_takes_nothing_from_the_parent(path):
    store = SqliteStore.open(path)
    log = Log(store, 1)
    words = f"this object belongs to process {os.getpid()}; a forked child must open a store of its own"
    uses = [
        lambda: log.append("note", {}),
        lambda: log.flush(),
        lambda: store.append([(1, Event(0, 0, "note", None, None, {}))]),
        lambda: store.last(1),
        lambda: list(store.events(1)),
        store.learners,
        store.integrity,
        store.sync,
        store.close,
    ]

    def child():
        for use in uses:
            with pytest.raises(RuntimeError) as caught:
                use()
            assert str(caught.value) == words
        with pytest.raises(OwnedElsewhere):
            SqliteStore.open(path)

    assert in_child(child) == 0
    with pytest.raises(OwnedElsewhere):  # the child has not let go of the lock
        SqliteStore.open(path)
    log.flush(log.append("note", {}))
    assert store.integrity() == []
    store.close()

    def own():
        with SqliteStore.open(path) as mine:
            assert mine.last(1)[0] == 0

    assert in_child(own) == 0


FORK = """
import os, sys, threading, time
from weakfeedback.journal import Log, SqliteStore

store = SqliteStore.open(sys.argv[1])
log = Log(store, 1)
lock = threading.Lock()
stop = False

def work():
    while not stop:
        with lock:
            seq = log.append("note", {"text": "x" * 3000})
        log.flush(seq, sync=False)

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(int(sys.argv[2])):
    time.sleep(0.003)
    pid = os.fork()
    if pid == 0:
        try:
            log.flush(log.last_seq)
        except RuntimeError as problem:
            assert "forked child" in str(problem), problem
        else:
            os._exit(3)
        del store, log, threads
        sys.exit(0)  # not _exit: what is left is torn down, connections too
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
stop = True
for thread in threads:
    thread.join()
assert store.integrity() == [], store.integrity()
print(log.last_seq)
store.close()
"""


@needs_fork
def test_children_forked_in_the_middle_of_commits_neither_hang_nor_harm(path):
    said = printed("-W", "ignore", "-c", FORK, path, 40, cwd=ROOT)
    with SqliteStore.open(path) as store:
        assert store.last(1)[0] == int(said)
        assert store.integrity() == []


@contextmanager
def orphan(code, place):
    """A process whose program forks and says so: it is killed, and its child goes on until the end of the block."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-W", "ignore", "-c", code, str(place)]
    with subprocess.Popen(command, **pipes, cwd=ROOT, start_new_session=True) as process:
        try:
            assert process.stdout.readline() == "forked\n"
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@needs_fork
def test_a_child_that_outlives_its_parent_does_not_hold_the_store(path):
    code = """
import os, sys, time
from weakfeedback.journal import SqliteStore
store = SqliteStore.open(sys.argv[1])
if os.fork() == 0:
    print("forked", flush=True)
    time.sleep(3600)
    os._exit(0)
time.sleep(3600)
"""
    with orphan(code, path):
        SqliteStore.open(path).close()


@needs_fork
def test_the_late_end_of_a_child_removes_nothing_of_later_owners(path):
    """SQLite, closing the connection that the child was born with, would remove the log that somebody else left."""
    code = """
import os, sys, time
from weakfeedback.journal import Log, SqliteStore
store = SqliteStore.open(sys.argv[1])
log = Log(store, 1)
log.flush(log.append("note", {}))
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.readline()
    del log, store
    sys.exit(0)  # not _exit: what is left is torn down, connections too
time.sleep(3600)
"""
    with orphan(code, path) as process:
        SqliteStore.open(path).close()
        with hold(path) as later:
            later.send_signal(signal.SIGKILL)
        assert Path(f"{path}-wal").stat().st_size > 0
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.read() == ""  # until the child has ended
    with SqliteStore.open(path) as store:
        assert store.last(1)[0] == 1


def test_a_dropped_owner_lets_go(path):
    owner = Owner(path)
    del owner
    Owner(path).release()


def test_two_owners_by_force_cannot_write_the_same_number(path):
    """Somebody removed the lock file of a store in use."""
    first = SqliteStore.open(path)
    os.unlink(path.parent / "runs.db.lock")
    with SqliteStore.open(path) as second:
        one, two = Log(first, 1), Log(second, 1)
        one.flush(one.append("note", {"by": 1}))
        two.append("note", {"by": 2})
        with pytest.raises(ValueError, match=r"cannot follow event 0|another process writes"):
            two.flush()
        with pytest.raises(ValueError, match="stored by somebody else"):
            two.flush()
        assert [event.body for event in second.events(1)] == [{"by": 1}]
    first.close()


def test_waiting_for_a_turn_is_not_a_deadlock_between_threads(path):
    with SqliteStore.open(path) as store:
        log = Log(store, 1)
        lock = threading.Lock()

        def work(_):
            for _ in range(50):
                with lock:
                    seq = log.append("note", {})
                log.flush(seq, sync=False)
                assert store.last(1)[0] >= seq

        in_threads(8, work)
        assert store.last(1)[0] == 399
