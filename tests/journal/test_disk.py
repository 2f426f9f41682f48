"""What the disk refuses: one line, nothing changed, and it can be repeated."""

import errno
import os
import sqlite3
from pathlib import Path

import pytest
from tests.rig.processes import printed

from weakfeedback.journal import Event, Log, SqliteStore, StoreUnavailable

resource = pytest.importorskip("resource")


@pytest.fixture
def store(tmp_path):
    with SqliteStore.open(tmp_path / "runs.db") as store:
        store.create_learner("a", 0)
        yield store


def event(seq, size):
    return Event(seq, seq, "note", None, None, {"text": "x" * size})


def set_room(store, pages):
    """Let the file have ``pages`` more than it has."""
    count = store._one("PRAGMA page_count")[0]
    store._one(f"PRAGMA max_page_count={count + pages}")


def test_a_full_disk_changes_nothing_and_goes_on_after_room_is_made(store):
    store.append([(1, event(0, 10))])
    set_room(store, 2)
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="the disk is full") as caught:
            store.append([(1, event(1, 10)), (1, event(2, 100_000))])
        assert caught.value.errno == errno.ENOSPC
        assert "\n" not in str(caught.value)
        assert store.last(1) == (0, 0)
        with pytest.raises(OSError, match="full"):
            store.add_snapshot(1, 0, 0, {"text": "x" * 100_000})
        assert list(store.snapshots(1)) == []
    store.append([(1, event(1, 10))])  # a small one still fits
    set_room(store, 10_000)
    store.append([(1, event(2, 100_000))])
    assert [one.seq for one in store.events(1)] == [0, 1, 2]
    assert store.integrity() == []


def test_the_queue_of_a_log_waits_for_room(store):
    log = Log(store, 1)
    set_room(store, 2)
    for _ in range(5):
        seq = log.append("note", {"text": "x" * 50_000})
        with pytest.raises(StoreUnavailable, match="full"):
            log.flush(seq)
    assert (log.last_seq, log.pending_writes) == (4, 5)
    set_room(store, 10_000)
    log.flush(4)
    assert log.pending_writes == 0
    assert [one.seq for one in store.events(1)] == [0, 1, 2, 3, 4]


def test_the_operating_system_refuses_to_write(tmp_path):
    code = """
import resource, sys
from weakfeedback.journal import Log, SqliteStore, StoreUnavailable
store = SqliteStore.open(sys.argv[1])
log = Log(store, store.create_learner("a", 0))
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
told = 0
while True:
    seq = log.append("note", {"text": "x" * 10_000})
    try:
        log.flush(seq)
    except StoreUnavailable as problem:
        print(problem)
        break
    told = seq
try:
    log.flush(seq)
    sys.exit("written all the same")
except OSError:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert store.last(1)[0] == told
log.flush(seq)
assert store.last(1)[0] == seq > 5
assert store.integrity() == []
store.close()
"""
    said = printed("-B", "-c", code, tmp_path / "a.db", cwd=Path(__file__).parents[2])
    assert len(said.splitlines()) == 1
    with SqliteStore.open(tmp_path / "a.db") as store:
        assert store.integrity() == []


@pytest.mark.parametrize("remove", [True, False])
def test_a_file_that_was_removed_or_replaced_takes_no_more_events(tmp_path, remove):
    path = tmp_path / "runs.db"
    store = SqliteStore.open(path)
    log = Log(store, store.create_learner("a", 0))
    log.flush(log.append("note", {}))
    away = tmp_path / "away.db"
    path.rename(away)
    if not remove:
        path.write_bytes(away.read_bytes())
    log.append("note", {})
    with pytest.raises(StoreUnavailable, match="was removed or replaced"):
        log.flush()
    with pytest.raises(StoreUnavailable, match="was removed or replaced"):
        store.sync()
    path.unlink(missing_ok=True)
    away.rename(path)
    log.flush()
    assert log.pending_writes == 0
    store.close()


def test_another_program_that_writes_is_waited_for_then_named(store, monkeypatch):
    store._all("PRAGMA busy_timeout=50")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another program is writing") as caught:
        store.append([(1, event(0, 5))])
    assert caught.value.errno == errno.EBUSY
    other.execute("ROLLBACK")
    other.close()
    store.append([(1, event(0, 5))])


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no such rights here")
def test_a_folder_that_cannot_be_written(tmp_path_factory, tmp_path):
    """As another user if this one may do everything."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with SqliteStore.open(folder / "runs.db") as store:
        store.create_learner("a", 0)
        store.append([(1, event(0, 5))])
    code = """
import os, sys, urllib.parse  # now: the library may be out of reach of the other user
from pathlib import Path
from weakfeedback.journal import OwnedElsewhere, SqliteStore, StoreUnavailable
folder = Path(sys.argv[1])
os.chdir(folder)
if os.geteuid() == 0:
    os.seteuid(65534)
for name in ("new.db", "runs.db"):
    try:
        SqliteStore.open(name)
    except StoreUnavailable as problem:
        print(problem)
os.seteuid(os.getuid())
Path("runs.db.lock").chmod(0o666)
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    SqliteStore.open("runs.db")
except StoreUnavailable as problem:
    print(problem)
with SqliteStore.open("runs.db", read_only=True) as store:
    print(store.last(1), store.integrity())
"""
    (folder / "runs.db").chmod(0o444)
    for above in (folder, *folder.parents):
        if (
            os.access(above, os.X_OK)
            and above.stat().st_uid == os.geteuid()
            and above.stat().st_mode & 0o1 == 0
        ):
            above.chmod(above.stat().st_mode | 0o111)
    folder.chmod(0o555)
    try:
        said = printed("-c", code, folder, cwd=Path(__file__).parents[2])
    finally:
        folder.chmod(0o755)
    new, locked, written, read = said.splitlines()
    assert "new.db cannot be locked" in new
    assert "runs.db cannot be locked" in locked
    assert "runs.db" in written
    assert read == "(0, 0) []"
    assert sorted(os.listdir(folder)) == ["runs.db", "runs.db.lock"]
