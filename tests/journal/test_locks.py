"""The locks of SQLite itself: while a process writes to a store, no other program may remove its log."""

import os
import sqlite3
import subprocess
import sys

import pytest

from weakfeedback.journal import Event, OwnedElsewhere, SqliteStore
from weakfeedback.live import Cascade

READ = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM event'); c.close()"


def other_program_reads(path):
    subprocess.run([sys.executable, "-c", READ, str(path)], check=True)


def log_of(path):
    return path.with_name(path.name + "-wal")


def opened_again(path):
    with pytest.raises(OwnedElsewhere):
        SqliteStore.open(path)


LOOKS = {
    "open": opened_again,
    "read": lambda path: SqliteStore.open(path, read_only=True).close(),
    "load": lambda path: Cascade.load(path, 3),
}


@pytest.mark.parametrize("look", LOOKS)
def test_to_look_at_a_store_in_use_does_not_let_go_of_its_locks(tmp_path, look):
    path = tmp_path / "journal.db"
    with Cascade.open(path, 3, [1, 2, 3], 10, seed=0) as cascade:
        LOOKS[look](path)
        other_program_reads(path)
        assert log_of(path).exists()
        cascade.decide()
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT count(*) FROM event").fetchone() == (2,)
        connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_cannot_own_what_was_open_before(tmp_path):
    path, other = tmp_path / "runs.db", tmp_path / "other.db"
    store = SqliteStore.open(path)
    store.append([(store.create_learner("triage", at=0), Event(0, 5, "decide", 1, None, {}))])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        words = "opened"
        try:
            SqliteStore.open(other).close()
            SqliteStore.open(path)
        except OwnedElsewhere as error:
            words = str(error)
        os.write(writing, words.encode())
        os._exit(0)
    store.close()
    os.write(writing, b"x")
    os.waitpid(child, 0)
    assert b"forked" in os.read(reading, 1000)
    SqliteStore.open(path).close()
