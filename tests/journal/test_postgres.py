"""One owner in PostgreSQL: waiting, taking over, lost sessions, stopped processes, poolers, passwords."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from tests.journal.pooler import Pooler
from tests.journal.stores import InPostgres
from tests.journal.test_owner import in_child, needs_fork, orphan
from tests.rig.processes import PATIENCE, printed, started, wait_until
from tests.rig.threads import in_threads

from weakfeedback.journal import (
    Event,
    JournalError,
    Log,
    OwnedElsewhere,
    OwnershipLost,
    StoreUnavailable,
    open_store,
)
from weakfeedback.journal.events import make_row
from weakfeedback.journal.postgres import _BY_KEYS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(server):
    return InPostgres(server)


@pytest.fixture
def store(place):
    with place.open() as store:
        store.create_learner("a", 0)
        yield store


def note(store, **body):
    log = Log(store, 1)
    log.flush(log.append("note", body))


def bodies(place):
    with place.open(read_only=True) as reader:
        assert reader.integrity() == []
        return [event.body for event in reader.events(1)]


def end_session(place, store):
    """What an administrator, or a network that fails, does to the owner."""
    pid = store._connection.info.backend_pid
    assert place.raw("SELECT pg_terminate_backend(?, 5000)", pid) == [(True,)]


def test_a_second_owner_is_refused_and_a_reader_is_not(place, store):
    with pytest.raises(OwnedElsewhere) as caught:
        place.open()
    moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert caught.match(
        rf"\(schema \w+\) is in use by process {os.getpid()} since {moment}: close it there first"
    )
    note(store)
    assert bodies(place) == [{}]


def test_a_closed_store_can_be_opened_at_once_however_long_its_session_lives(place, monkeypatch):
    first = place.open()
    session = first._connection
    with monkeypatch.context() as patch:
        patch.setattr(type(session), "close", lambda self: None)  # the server has not seen the end yet
        first.close()
    try:
        place.open().close()
    finally:
        session.close()


def test_schemas_have_owners_of_their_own(server, store):
    with InPostgres(server).open() as other:
        assert other.epoch == store.epoch == 1


class Waiting(threading.Thread):
    """A standby in a thread."""

    def __init__(self, place, stop=None):
        super().__init__()
        self.place, self.stop, self.result = place, stop, None
        self.start()
        holders = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: place.raw(holders) != [(0,)])

    def run(self):
        try:
            self.result = self.place.open(wait=True, stop=self.stop)
        except Exception as problem:
            self.result = problem


def test_a_standby_takes_over_when_the_owner_closes(place, store):
    standby = Waiting(place)
    note(store, by="first")
    assert standby.result is None
    store.close()
    standby.join(PATIENCE)
    with standby.result as second:
        assert second.epoch == 2
        note(second, by="second")
    assert bodies(place) == [{"by": "first"}, {"by": "second"}]


def test_a_standby_takes_over_when_the_session_of_the_owner_ends(place, store):
    standby = Waiting(place)
    log = Log(store, 1)
    log.flush(log.append("note", {"by": "first"}))
    end_session(place, store)
    standby.join(PATIENCE)
    with standby.result as second:
        log.append("note", {"by": "late"})
        for _ in range(2):
            with pytest.raises(OwnershipLost, match="must be opened again") as caught:
                log.flush()
            assert "\n" not in str(caught.value)
        with pytest.raises(OSError, match="must be opened again"):
            store.learners()
        store.close()
        note(second, by="second")
    assert bodies(place) == [{"by": "first"}, {"by": "second"}]


def test_waiting_can_be_ended_and_leaves_nothing(place, store):
    stop = threading.Event()
    standby = Waiting(place, stop.is_set)
    stop.set()
    standby.join(PATIENCE)
    assert isinstance(standby.result, OwnedElsewhere)
    assert standby.result.args[0].endswith("and waiting was ended")
    assert place.raw("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == [(0,)]
    note(store)


def test_an_owner_whose_epoch_is_over_cannot_write(place, store):
    """Somebody took over without the lock, as if a server had forgotten it."""
    log = Log(store, 1)
    log.flush(log.append("note", {"by": "first"}))
    place.raw("UPDATE owner SET epoch = epoch + 1")
    log.append("note", {"by": "late"})
    with pytest.raises(OwnershipLost, match="somebody else has taken over"):
        log.flush()
    assert bodies(place) == [{"by": "first"}]
    with place.open() as second:  # the lock was let go with the session
        assert second.epoch == 3


@pytest.mark.parametrize(
    "use", ["create_learner", "add_snapshot", "compact", "sync", "archive_learner", "check_owner"]
)
def test_nothing_at_all_can_be_written_after_the_epoch(place, store, use):
    note(store)
    store.add_snapshot(1, 0, 0, {})
    place.raw("UPDATE owner SET epoch = epoch + 1")
    before = {
        table: place.raw(f"SELECT * FROM {table}") for table in ("meta", "learner", "event", "snapshot")
    }
    uses = {
        "create_learner": lambda: store.create_learner("b", 0),
        "add_snapshot": lambda: store.add_snapshot(1, 0, 1, {}),
        "compact": lambda: store.compact(1, 2**62),
        "sync": store.sync,
        "check_owner": store.check_owner,
        "archive_learner": lambda: store.archive_learner(1, 0),
    }
    with pytest.raises(OwnershipLost):
        uses[use]()
    store.close()
    after = {table: place.raw(f"SELECT * FROM {table}") for table in before}
    assert after == before


def test_a_batch_waits_for_who_takes_over(place, store):
    """The epoch is raised in a transaction: a batch that comes in its middle waits for its end, and is refused."""
    import psycopg

    log = Log(store, 1)
    with psycopg.connect(place.address) as other:
        other.execute("UPDATE owner SET epoch = epoch + 1")
        log.append("note", {})
        result = []

        def flush():
            try:
                log.flush()
            except OSError as problem:
                result.append(problem)

        thread = threading.Thread(target=flush)
        thread.start()
        time.sleep(0.3)
        assert result == []
        other.commit()
        thread.join(PATIENCE)
    assert isinstance(result[0], OwnershipLost)
    assert bodies(place) == []


def test_a_server_that_crashes_has_lost_nothing(place, store, server):
    """Owner, standby and reader are told; the reader goes on by itself."""
    log = Log(store, 1)
    for _ in range(20):
        log.flush(log.append("note", {}))
    standby = Waiting(place)
    with place.open(read_only=True) as reader:
        assert reader.last(1)[0] == 19
        server.stop("immediate")
        standby.join(PATIENCE)
        assert isinstance(standby.result, StoreUnavailable)
        log.append("note", {"late": True})
        with pytest.raises(OwnershipLost):
            log.flush()
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            place.open()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                reader.last(1)
        server.start()
        assert reader.last(1)[0] == 19
        assert reader.learners()[0].name == "a"
    with pytest.raises(OwnershipLost):
        log.flush()
    store.close()
    with place.open() as again:
        assert again.last(1)[0] == 19
        assert again.integrity() == []


STOPPED = """
import sys, time
from weakfeedback.journal import Log, open_store
store = open_store(sys.argv[1])
log = Log(store, 1)
try:
    while True:
        log.flush(log.append("note", {"epoch": store.epoch}))
        print("written", flush=True)
except OSError as problem:
    print(type(problem).__name__, flush=True)
"""


def test_an_owner_that_was_stopped_and_woken_cannot_write(place):
    """Its session was ended while it stood still, and a standby has taken over."""
    with place.open() as store:
        store.create_learner("a", 0)
    with started(
        [sys.executable, "-c", STOPPED, place.address], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as first:
        for _ in range(5):
            assert first.stdout.readline() == "written\n"
        standby = Waiting(place)
        first.send_signal(signal.SIGSTOP)
        time.sleep(random.Random(5).uniform(0, 0.05))
        place.raw(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        )
        standby.join(PATIENCE)
        with standby.result as second:
            log = Log(second, 1)
            log.flush(log.append("note", {"epoch": second.epoch}))
            first.send_signal(signal.SIGCONT)
            assert [line for line in first.stdout if line != "written\n"] == ["OwnershipLost\n"]
            log.flush(log.append("note", {"epoch": second.epoch}))
    epochs = [body["epoch"] for body in bodies(place)]
    assert epochs == sorted(epochs)
    assert epochs[-2:] == [3, 3]
    assert set(epochs) == {2, 3}


@needs_fork
@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_owners_are_killed_and_standbys_lose_nothing(place, kills, tmp_path):
    command = [
        sys.executable,
        "-m",
        "tests.journal.taking_over",
        place.address,
        str(tmp_path),
        str(kills),
        str(kills),
    ]
    subprocess.run(command, check=True, timeout=PATIENCE, cwd=ROOT)
    assert [path.read_text() for path in tmp_path.glob("*.failed")] == []
    with place.open() as store:
        assert store.integrity() == []
        events = {event.seq: event.body for event in store.events(1)}
    moments = []
    for told in tmp_path.glob("*.told"):
        for line in told.read_text().splitlines():
            seq, number, thread, moment = line.split()
            body = events[int(seq)]
            assert (body["by"], body["thread"]) == (int(number), int(thread))
            moments.append((float(moment), int(number)))
    assert len({number for _, number in moments}) >= kills // 2  # most have written something
    assert len(moments) > 5 * kills
    epochs = [events[seq]["epoch"] for seq in range(len(events))]
    assert epochs == sorted(epochs)  # one owner after the other, never two at once
    by = {body["epoch"]: body["by"] for body in events.values()}
    assert all(by[body["epoch"]] == body["by"] for body in events.values())


def test_many_who_begin_a_new_store_at_the_same_moment_have_one_owner(server):
    for _ in range(2):
        place, found = InPostgres(server), []

        def begin(_, place=place, found=found):
            try:
                found.append(place.open())
            except BaseException as problem:
                found.append(problem)

        in_threads(6, begin)
        owners = [one for one in found if not isinstance(one, OwnedElsewhere)]
        assert len(owners) == 1, owners
        owners[0].close()


@pytest.mark.parametrize("in_turn", [False, True])
def test_a_transaction_pooler_is_refused(server, in_turn):
    with tempfile.TemporaryDirectory(prefix="wfpool") as folder:
        pooler = Pooler(server.folder / ".s.PGSQL.5432", Path(folder), in_turn)
        try:
            address = server.url().replace(f"%2F{server.folder.name}", f"%2F{Path(folder).name}")
            with pytest.raises(JournalError, match="behind a pooler that shares sessions") as caught:
                open_store(address)
            assert "\n" not in str(caught.value)
            with pytest.raises(FileNotFoundError):  # a reader may: it needs no lock; and nothing was made
                open_store(address, read_only=True)
        finally:
            pooler.close()


def test_events_wait_for_the_disk_unless_they_are_told_not_to(store):
    def setting():
        return store._all("SHOW synchronous_commit")[0][0]

    store.append([(1, Event(0, 0, "note", None, None, {}))], sync=False)
    assert setting() == b"off"
    store.append([(1, Event(1, 0, "note", None, None, {}))])
    assert setting() == b"on"
    store.append([(1, Event(2, 0, "note", None, None, {}))], sync=False)
    before = store._all("SELECT pg_current_wal_flush_lsn()")
    store.sync()
    assert setting() == b"on"
    assert store._all("SELECT pg_current_wal_flush_lsn()") != before


JOIN = """SELECT event.* FROM unnest(?::bigint[], ?::text[]) AS asked (number, name)
JOIN event ON learner = number AND key = name COLLATE "C" """


@pytest.mark.parametrize(("command", "reads_all"), [(_BY_KEYS, False), (JOIN, True)])
def test_keys_are_looked_for_by_their_index_also_if_that_was_planned_when_there_were_no_events(
    store, command, reads_all
):
    """The plain join is the negative control: each look took longer, the more events there were."""
    database = store._database
    database.execute("SET plan_cache_mode = force_generic_plan")
    numbered = command.replace("?", "$1", 1).replace("?", "$2", 1)
    database.execute(f"PREPARE look (bigint[], text[]) AS {numbered}")
    database.execute("EXECUTE look(ARRAY[1], ARRAY['k1'])")
    store.write([make_row(1, n, n, "note", None, f"k{n}", {}) for n in range(10_000)])
    plan = " ".join(str(line) for line in store._all("EXPLAIN EXECUTE look(ARRAY[1], ARRAY['k1'])"))
    assert ("Seq Scan on event" in plan) == reads_all
    assert ("event_key" in plan) != reads_all


@pytest.mark.parametrize("bitmaps", ["off", "on"])
def test_a_page_of_a_long_log_is_read_without_sorting_all_of_it(store, bitmaps):
    """Before there are statistics. With the settings of the server, the negative control, all are sorted."""
    store.write([make_row(1, n, n, "note", None, None, {}) for n in range(20_000)])
    database = store._database
    if bitmaps == "on":
        database.execute("SET enable_bitmapscan = on")
    page = "SELECT * FROM event WHERE learner = 1 AND seq > -1 ORDER BY seq LIMIT 1000"
    plan = " ".join(str(line) for line in store._all(f"EXPLAIN {page}"))
    assert ("Sort" in plan) == (bitmaps == "on")


def test_a_vanished_machine_is_noticed(store):
    options = store._connection.info.get_parameters()
    idle, pause, count = (int(options[f"keepalives_{name}"]) for name in ("idle", "interval", "count"))
    assert idle + pause * count <= 20
    assert int(options["tcp_user_timeout"]) <= 20_000
    from weakfeedback.journal import session

    told = {name: int(value) for name, value in session._SESSION.items() if name.startswith("tcp_keepalives")}
    assert told["tcp_keepalives_idle"] + told["tcp_keepalives_interval"] * told["tcp_keepalives_count"] <= 20


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_may_not_use_the_session_and_takes_nothing_from_the_parent(place, store):
    def child():
        with pytest.raises(RuntimeError, match="a forked child must open a store of its own"):
            store.learners()
        with pytest.raises(OwnedElsewhere):
            place.open()

    assert in_child(child) == 0
    note(store)
    assert bodies(place) == [{}]


@needs_fork
def test_a_child_that_outlives_its_parent_does_not_hold_the_store(place):
    code = """
import os, sys, time
from weakfeedback.journal import open_store
store = open_store(sys.argv[1])
if os.fork() == 0:
    print("forked", flush=True)
    time.sleep(3600)
    os._exit(0)
time.sleep(3600)
"""
    with orphan(code, place.address):
        place.open(wait=True).close()  # as soon as the server has seen it


def test_passwords_come_from_the_environment_and_are_never_told(place, server, monkeypatch):
    place.raw("DROP ROLE IF EXISTS secret")
    place.raw("CREATE ROLE secret LOGIN PASSWORD 'quite-secret'")
    place.raw("GRANT CREATE ON DATABASE postgres TO secret")
    address = server.url(user="secret")
    with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
        open_store(address)
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("WEAKFEEDBACK_STORE_PASSWORD", "not-that")
    with pytest.raises(StoreUnavailable, match="password authentication failed") as caught:
        open_store(address)
    assert "not-that" not in str(caught.value)
    monkeypatch.setenv("WEAKFEEDBACK_STORE_PASSWORD", "quite-secret")
    with open_store(address) as store:
        assert "quite-secret" not in store.place
        assert store._connection.info.user == "secret"
        with pytest.raises(OwnedElsewhere) as owned:
            open_store(address)
        assert "quite-secret" not in str(owned.value)
    for wrong in (
        "postgresql://secret:quite-secret@localhost/postgres",
        "postgresql://localhost/postgres?password=quite-secret",
        "postgresql://secret:quite-secret@[localhost/postgres",
    ):
        with pytest.raises(JournalError, match=r"password|must look like") as refused:
            open_store(wrong)
        assert "quite-secret" not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_passwords_may_come_from_a_service_file(server, tmp_path, monkeypatch):
    file = tmp_path / "services"
    file.write_text(f"[team]\nhost={server.folder}\nuser=postgres\ndbname=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    with open_store("postgresql://?service=team&options=-csearch_path%3Dby_service") as store:
        assert "service=team" in store.place
        assert "by_service" in store.place


def test_what_cannot_be_opened_is_said_in_one_line(server, tmp_path):
    for address, kind, words in (
        ("mysql://me@host/db", JournalError, "a store is a file, sqlite:///FILE or postgresql://"),
        ("sqlite:///", JournalError, "must name a file"),
        (f"sqlite:///{tmp_path}/none/a.db", StoreUnavailable, "cannot be locked"),
        ("postgresql://127.0.0.1:1/none", StoreUnavailable, "cannot be reached"),
        (server.url().replace("/postgres?", "/nothing?"), StoreUnavailable, "does not exist"),
    ):
        with pytest.raises(kind, match=words) as caught:
            open_store(address)
        assert "\n" not in str(caught.value)
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(FileNotFoundError, match="there is no"):
            open_store(server.url(), **options)
        with pytest.raises(FileNotFoundError, match="there is no store"):
            open_store(server.url("public"), **options)


def test_files_have_addresses_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for address in ("a.db", tmp_path / "b.db", "sqlite:///c.db", f"sqlite:///{tmp_path}/d.db"):
        open_store(address).close()
    assert {name for name in os.listdir(tmp_path) if name.endswith(".db")} == {"a.db", "b.db", "c.db", "d.db"}


def test_without_the_extra_it_says_what_to_install(tmp_path):
    code = """
import sys
sys.modules["psycopg"] = None
from weakfeedback.journal import open_store
open_store("sqlite:///a.db").close()
try:
    open_store("postgresql://localhost/db")
except ValueError as problem:
    print(problem)
"""
    said = printed("-c", code, cwd=tmp_path, environment={"PYTHONPATH": str(ROOT / "src")})
    assert "pip install 'weakfeedback[postgres]'" in said
    assert len(said.splitlines()) == 1


def test_tables_of_another_program_are_refused_and_stay(place):
    with place.open():
        pass
    other = InPostgres(place.server)
    other.raw(f"CREATE SCHEMA {other.address.rpartition('%3D')[2]}")
    other.raw("CREATE TABLE meta (a TEXT, b TEXT)")
    with pytest.raises(JournalError, match="another program"):
        other.open()
    assert other.raw("SELECT count(*) FROM meta") == [(0,)]


def test_the_server_needs_a_disk_that_is_waited_for(place, server):
    conf = server.folder / "data" / "postgresql.conf"
    before = conf.read_text()
    try:
        conf.write_text(f"{before}fsync = off\n")
        server.stop("fast")
        server.start()
        with pytest.warns(UserWarning, match="runs with fsync = off"):
            place.open().close()
    finally:
        conf.write_text(before)
        server.stop("fast")
        server.start()
