"""The store: what is appended can be read, in order, by its keys, after closing and after compaction."""

import os
import sqlite3
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.journal.stores import InFile, InPostgres
from tests.rig.threads import in_threads

from weakfeedback import __version__
from weakfeedback.journal import Event, JournalError, Learner, SecondEnd, SecondKey, SqliteStore
from weakfeedback.journal.events import ENDS
from weakfeedback.journal.sqlite import network_file_system


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def store(place):
    """An open and empty store, in every dialect."""
    with place.open() as store:
        yield store


@pytest.fixture
def in_file(path):
    with SqliteStore.open(path) as store:
        yield store


def event(seq, kind="note", decision=None, key=None, at=None, **body):
    return Event(seq, seq * 10 if at is None else at, kind, decision, key, body)


def fill(store, learner, rounds):
    """Two events per round: a decision with a key, and its end."""
    events = []
    for i in range(rounds):
        events.append(event(2 * i, "decide", i + 1, f"key{i}", stage=i % 3))
        events.append(event(2 * i + 1, ENDS[i % 3], i + 1, share=i / 7))
    store.append([(learner, one) for one in events], sync=False)
    return events


def raw(path, command, *values):
    """What another program does to the file."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(command, values).fetchall()
    finally:
        connection.close()


def test_events_come_back_after_closing(place):
    with place.open() as store:
        first = store.create_learner("first", at=1)
        second = store.create_learner("second", at=2)
        events = fill(store, first, 700)
        store.append([(second, event(0, x=1)), (second, event(1, x=2))])
    with place.open() as store:
        assert store.learners() == [Learner(first, "first", 1, None), Learner(second, "second", 2, None)]
        assert list(store.events(first)) == events
        assert list(store.events(first, after=9, limit=5)) == events[10:15]
        assert list(store.events(first, limit=1200)) == events[:1200]
        assert list(store.events(first, after=1399)) == []
        assert [one.body for one in store.events(second)] == [{"x": 1}, {"x": 2}]
        assert store.last(first) == (1399, 13990)
        assert store.integrity() == []


def test_single_events_are_found(store):
    learner = store.create_learner("a", 0)
    assert store.last(learner) == (-1, 0)
    events = fill(store, learner, 300)
    for i in (0, 1, 150, 298, 299):
        assert store.decided(learner, i + 1) == events[2 * i]
        assert store.end_of(learner, i + 1) == events[2 * i + 1]
        assert store.by_key(learner, f"key{i}") == events[2 * i]
    assert store.decided(learner, 301) is None
    assert store.end_of(learner, 301) is None
    assert store.by_key(learner, "key300") is None
    assert store.by_key(learner + 1, "key1") is None


@given(st.lists(st.integers(0, 30), unique=True), st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[*HealthCheck])
def test_decisions_are_found_in_any_order_of_their_numbers(store, numbers, data):
    learner = store.create_learner(f"n{len(store.learners())}", 0)
    events = []
    for number in numbers:
        for _ in range(data.draw(st.integers(0, 2))):
            events.append(event(len(events), data.draw(st.sampled_from(["note", "tell", "warm"]))))
        events.append(event(len(events), "decide", number))
        if data.draw(st.booleans()):
            events.append(event(len(events), "cancel", number))
    store.append([(learner, one) for one in events], sync=False)
    opened = {one.decision: one for one in events if one.kind == "decide"}
    for number in range(31):
        assert store.decided(learner, number) == opened.get(number)


def test_single_events_are_found_by_an_index(in_file):
    for where in (
        "learner = 1 AND decision = 2 AND kind IN ('feedback', 'cancel', 'expire')",
        "learner = 1 AND key = 'x'",
        "learner = 1 AND decision = 2 AND kind IN ('decide', 'begin')",
    ):
        plan = raw(
            in_file.path, f"EXPLAIN QUERY PLAN SELECT body FROM event WHERE {where} ORDER BY seq LIMIT 1"
        )
        assert "USING INDEX event_" in plan[0][3]


def steps_of(store, work):
    """How many hundreds of instructions SQLite runs for some work, and what that gives."""
    steps = []
    store._database.set_progress_handler(lambda: steps.append(1), 100)
    try:
        found = work()
        return len(steps), found
    finally:
        store._database.set_progress_handler(None, 0)


def test_decided_reads_few_rows_however_many_there_are(in_file):
    learner = in_file.create_learner("a", 0)
    events = fill(in_file, learner, 5000)
    count, found = steps_of(in_file, lambda: in_file.decided(learner, 4000))
    assert found == events[7998]
    assert count < 5  # 100 instructions each; a scan needs about 500 of these


def test_decided_reads_few_rows_for_what_was_removed_or_never_there(in_file):
    learner = in_file.create_learner("a", 0)
    fill(in_file, learner, 3000)
    in_file.append([(learner, event(6000 + n, "serve")) for n in range(5000)], sync=False)
    for seq in (3000, 5999, 10999):
        in_file.add_snapshot(learner, seq, seq * 10, {})
    assert in_file.compact(learner, 10**9) == 3000
    for decision in (1, 1500, 3001, 10**9):
        count, found = steps_of(in_file, lambda decision=decision: in_file.decided(learner, decision))
        assert found is None
        assert count < 5
    count, found = steps_of(in_file, lambda: in_file.decided(learner, 3000))
    assert (found.seq, count < 5) == (5998, True)


def test_a_store_without_the_index_of_decisions_gets_it(place):
    with place.open() as store:
        events = fill(store, store.create_learner("a", 0), 30)
    place.raw("DROP INDEX event_open")
    for read_only in (True, False):  # who only reads does without
        with place.open(read_only=read_only) as store:
            assert store.decided(1, 7) == events[12]
            assert store.integrity() == []
    catalogue = {
        "sqlite": "SELECT count(*) FROM sqlite_master WHERE name = 'event_open'",
        "postgres": "SELECT count(*) FROM pg_indexes WHERE indexname = 'event_open' AND schemaname = current_schema()",
    }
    assert place.raw(catalogue[place.name]) == [(1,)]


def test_groups_of_any_size_are_stored_in_order_by_few_statements(in_file):
    learner, stored, statements = in_file.create_learner("a", 0), [], []
    in_file._database.set_trace_callback(statements.append)
    for size in (1, 2, 3, 64, 127, 128, 129, 300):
        begun = len(statements)
        group = [event(len(stored) + n, "decide", len(stored) + n, stage=n) for n in range(size)]
        in_file.append([(learner, one) for one in group], sync=False)
        stored += group
        inserts = [text for text in statements[begun:] if text.startswith("INSERT")]
        assert len(inserts) == -(-size // 128)
    assert list(in_file.events(learner)) == stored
    wrong = [event(len(stored) + n, "feedback", n % 129) for n in range(130)]  # the last one is
    with pytest.raises(SecondEnd):
        in_file.append([(learner, one) for one in wrong])
    assert list(in_file.events(learner)) == stored


@pytest.mark.parametrize("kind", ENDS)
def test_a_decision_ends_once(store, kind):
    learner = store.create_learner("a", 0)
    store.append([(learner, event(0, "decide", 1)), (learner, event(1, "feedback", 1))])
    with pytest.raises(SecondEnd) as caught:
        store.append([(learner, event(2, "decide", 2)), (learner, event(3, kind, 1))])
    assert "\n" not in str(caught.value)
    assert store.last(learner)[0] == 1  # all or nothing
    store.append([(learner, event(2, "decide", 2)), (learner, event(3, kind, 2))])


def test_a_key_is_used_once_within_a_learner(store):
    a, b = store.create_learner("a", 0), store.create_learner("b", 0)
    store.append([(a, event(0, "decide", 1, "k")), (b, event(0, "decide", 1, "k"))])
    with pytest.raises(SecondKey):
        store.append([(a, event(1, "decide", 2, "k"))])


def test_gaps_are_not_written(store):
    learner = store.create_learner("a", 0)
    store.append([(learner, event(0))])
    for wrong in ([event(2)], [event(0)], [event(1), event(3)], [event(1), event(1)]):
        with pytest.raises(JournalError, match=r"learner a: event \d cannot follow event"):
            store.append([(learner, one) for one in wrong])
    with pytest.raises(JournalError, match="its time 4 lies before 10"):
        store.append([(learner, event(1, at=10)), (learner, event(2, at=4))])
    assert store.last(learner) == (0, 0)
    store.append([(learner, event(1))])


def test_an_unknown_learner_is_refused(store):
    with pytest.raises(JournalError, match="no such learner"):
        store.append([(5, event(0))])
    assert list(store.events(5)) == []


def test_learners_have_their_own_names(store):
    a = store.create_learner("a", 5)
    with pytest.raises(ValueError, match="has a learner named 'a' already"):
        store.create_learner("a", 6)
    for wrong in ("", "x\0", 5, "\ud800"):
        with pytest.raises(ValueError):
            store.create_learner(wrong, 6)
    store.archive_learner(a, 9)
    assert store.learners() == [Learner(a, "a", 5, 9)]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("DELETE FROM event WHERE seq = 4", "learner a: event 4 is missing"),
        ("UPDATE event SET body = replace(body, '1', '2') WHERE seq = 5", "learner a: event 5: the checksum"),
        ("UPDATE event SET at = at + 1 WHERE seq = 6", "learner a: event 6: the checksum"),
        ("UPDATE event SET kind = 'warm' WHERE seq = 6", "learner a: event 6: the checksum"),
        ("UPDATE event SET decision = 99 WHERE seq = 6", "learner a: event 6: the checksum"),
        ("UPDATE event SET kind = 'é' WHERE seq = 7", "learner a: event 7: the checksum"),
        ("UPDATE event SET body = '{}' WHERE seq = 8", "learner a: event 8: the body has no seal"),
        ("UPDATE event SET seq = seq + 100 WHERE seq = 59", "learner a: event 59 is missing"),
        (
            "UPDATE event SET body = (SELECT body FROM event e WHERE e.seq = 13 - event.seq) WHERE seq IN (6, 7)",
            "learner a: event 6: the checksum",
        ),
    ],
)
def test_changed_rows_are_named(place, command, words):
    changed_rows(place, command, words)


def test_texts_that_are_none_are_named(tmp_path):
    """PostgreSQL does not let anybody store such a text."""
    command = "UPDATE event SET body = CAST(x'ff' AS TEXT) WHERE seq = 7"
    changed_rows(InFile(tmp_path), command, "learner a: event 7: a text is not UTF-8")


def changed_rows(place, command, words):
    with place.open() as store:
        learner = store.create_learner("a", 0)
        fill(store, learner, 30)
    place.raw(command)
    with place.open() as store:
        with pytest.raises(JournalError, match=words):
            list(store.events(learner))
        assert any(words in line for line in store.integrity())


def test_many_keys_are_looked_for_at_once(place):
    with place.open() as store:
        learners = [store.create_learner(name, 0) for name in ("a", "b")]
        events = [fill(store, learner, 20 + learner) for learner in learners]
    place.raw("UPDATE event SET body = replace(body, 'stage', 'stagf') WHERE learner = 2 AND key = 'key4'")
    with place.open() as store:
        asked = [
            (2, "key3"),
            (1, "key3"),
            (1, "none"),
            (2, "key3"),
            (2, "key4"),
            (9, "key1"),
            (1, "key20"),
            (2, "key21"),
        ]
        found = store.by_keys(asked)
        assert isinstance(found[4], JournalError)
        assert "learner b: event 8: the checksum is wrong" in str(found.pop(4))
        three, other, last = events[1][6], events[0][6], events[1][42]
        assert found == [three, other, None, three, None, events[0][40], last]
        assert store.by_keys([]) == []


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("DELETE FROM event WHERE seq = 59", "events behind 58 are missing"),
        ("DELETE FROM event", "events behind -1 are missing"),
        ("DELETE FROM event WHERE seq = 0", "the first event is 1 and should be 0"),
        ("UPDATE learner SET name = 'b'", "the checksum of its name is wrong"),
        ("UPDATE learner SET created = 7", "the checksum of its name is wrong"),
        ("UPDATE meta SET value = 'x' WHERE key = 'head:1'", "events behind 59 are missing"),
        ("DELETE FROM meta WHERE key = 'store'", "another program"),
        ("UPDATE meta SET value = '0' WHERE key = 'schema'", "not those of a store"),
        (
            "UPDATE meta SET value = '2' WHERE key = 'schema'",
            "written by a later version .its schema is 2, this",
        ),
        ("DROP INDEX event_end", "not those of a store"),
        ("DROP TABLE snapshot", "not those of a store"),
    ],
)
def test_changed_ends_and_tables_are_found_at_opening(place, command, words):
    with place.open() as store:
        learner = store.create_learner("a", 0)
        fill(store, learner, 30)
    refused_at_opening(place, command, words)


def refused_at_opening(place, command, words):
    with place.open(read_only=True) as store:
        name = store.place
    place.raw(command)
    for read_only in (True, False):
        with pytest.raises(JournalError, match=words) as caught:
            place.open(read_only=read_only)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM meta; END",
        "CREATE VIEW v AS SELECT 1",
    ],
)
def test_code_in_the_file_is_found_at_opening(path, command):
    SqliteStore.open(path).close()
    refused_at_opening(InFile(path.parent), command, "not those of a store")


@pytest.mark.parametrize(
    "command",
    [
        "CREATE RULE r AS ON INSERT TO event DO ALSO DELETE FROM meta",
        "CREATE RULE r AS ON INSERT TO owner DO INSTEAD NOTHING",
        "ALTER TABLE event ADD CHECK (seq < 1000)",
        "ALTER TABLE event ADD COLUMN more TEXT",
        "ALTER TABLE event ALTER COLUMN at TYPE NUMERIC",
        "ALTER TABLE event ALTER COLUMN body DROP NOT NULL",
        "ALTER TABLE event DROP CONSTRAINT event_learner_fkey",
        "DROP INDEX event_key; CREATE UNIQUE INDEX event_key ON event (learner, body)",
        "CREATE UNIQUE INDEX more ON event (at)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
        "CREATE TRIGGER t BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION f()",
        "DROP TABLE owner",
    ],
)
def test_changed_tables_of_a_schema_are_found_at_opening(server, command):
    place = InPostgres(server)
    place.open().close()
    refused_at_opening(place, command, "not those of a store")


def test_what_else_is_in_the_schema_does_not_matter(server):
    place = InPostgres(server)
    place.open().close()
    place.raw("CREATE TABLE other (id BIGINT)")
    place.raw("CREATE VIEW seen AS SELECT 1")
    place.open().close()


def test_integrity_finds_rows_of_nobody_and_a_wrong_index(place):
    with place.open() as store:
        learner = store.create_learner("a", 0)
        fill(store, learner, 3)
    place.raw("INSERT INTO snapshot VALUES (9, 0, 0, 'x', 'y', 'z')")
    with place.open() as store:
        assert any("learners that do not exist" in line for line in store.integrity())


def test_times_that_go_back_are_found_even_with_a_right_seal(place, monkeypatch):
    with place.open() as store:
        learner = store.create_learner("a", 0)
        store.append([(learner, event(0, at=5)), (learner, event(1, at=6))])
        store._tails = {learner: (1, 0)}
        store.append([(learner, event(2, at=4))])
        with pytest.raises(JournalError, match="event 2 lies before the one it follows"):
            list(store.events(learner))


def test_the_file_is_as_the_service_describes_it(path):
    with SqliteStore.open(path) as store:
        learner = store.create_learner("a", 0)
        store.append([(learner, event(0, "decide", 1, "k", stage=1))])
        assert raw(path, "PRAGMA journal_mode") == [("wal",)]
        assert store._one("PRAGMA synchronous")[0] == 2
        assert store._one("PRAGMA foreign_keys")[0] == 1
        assert store._one("PRAGMA journal_size_limit")[0] == 64 * 2**20
    meta = dict(raw(path, "SELECT key, value FROM meta"))
    assert meta["schema"] == "1"
    assert meta["package"] == __version__
    assert len(meta["store"]) == 32
    columns = {
        table: [row[1:4] for row in raw(path, f"PRAGMA table_info({table})")]
        for table in ("meta", "learner", "event", "snapshot")
    }
    assert columns["event"] == [
        ("learner", "INTEGER", 1),
        ("seq", "BIGINT", 1),
        ("at", "BIGINT", 1),
        ("kind", "TEXT", 1),
        ("decision", "BIGINT", 0),
        ("key", "TEXT", 0),
        ("body", "TEXT", 1),
    ]
    assert [name for name, *_ in columns["snapshot"]] == [
        "learner",
        "seq",
        "at",
        "package",
        "body",
        "checksum",
    ]
    assert [name for name, *_ in columns["learner"]] == ["id", "name", "created", "archived"]
    assert raw(path, "SELECT learner, seq, at, kind, decision, key FROM event") == [
        (1, 0, 0, "decide", 1, "k")
    ]
    assert sorted(os.listdir(path.parent)) == ["runs.db", "runs.db.lock"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_new_files_are_private_and_old_modes_are_kept(path):
    with SqliteStore.open(path) as store:
        store.create_learner("a", 0)
        modes = {name: stat.S_IMODE((path.parent / name).stat().st_mode) for name in os.listdir(path.parent)}
        assert set(modes) == {"runs.db", "runs.db-wal", "runs.db-shm", "runs.db.lock"}
        assert set(modes.values()) == {0o600}
    path.chmod(0o640)
    with SqliteStore.open(path) as store:
        store.create_learner("b", 0)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert stat.S_IMODE((path.parent / "runs.db-wal").stat().st_mode) == 0o640
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_the_version_of_the_last_writer_is_noted(place):
    place.open().close()
    place.raw("UPDATE meta SET value = '0.0.1' WHERE key = 'package'")
    with place.open(read_only=True):
        pass
    assert place.raw("SELECT value FROM meta WHERE key = 'package'") == [("0.0.1",)]
    place.open().close()
    assert place.raw("SELECT value FROM meta WHERE key = 'package'") == [(__version__,)]


def test_a_store_that_is_missing_is_made_only_if_told(path):
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(FileNotFoundError, match=r"there is no store: .*runs\.db"):
            SqliteStore.open(path, **options)
    assert os.listdir(path.parent) == []
    path.touch()  # a process that died while making it leaves an empty file
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(JournalError, match="is empty"):
            SqliteStore.open(path, **options)
    with SqliteStore.open(path) as store:
        assert store.learners() == []


def test_foreign_files_are_refused_and_stay_as_they_are(path):
    for content in (b"hello", b"x" * 5000, b"SQLite format 2\0" + b"\0" * 5000):
        path.write_bytes(content)
        with pytest.raises(JournalError, match="not an SQLite file"):
            SqliteStore.open(path)
        assert path.read_bytes() == content
        assert os.listdir(path.parent) == ["runs.db"]
    path.unlink()
    raw(path, "CREATE TABLE meta (a, b)")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="another program"):
        SqliteStore.open(path)
    assert path.read_bytes() == before
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        SqliteStore.open(path)


def test_names_with_strange_characters(tmp_path):
    path = tmp_path / "a b?mode=memory#%41é.db"
    with SqliteStore.open(path) as store:
        store.create_learner("é", 0)
    assert path.exists()
    with SqliteStore.open(path, read_only=True) as store:
        assert store.learners()[0].name == "é"


def test_a_link_leads_to_the_same_lock_and_a_second_name_is_refused(path, tmp_path):
    SqliteStore.open(path).close()
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with SqliteStore.open(link) as store:
        assert store.path == path.resolve()
        with pytest.raises(RuntimeError, match="in use"):
            SqliteStore.open(path)
    os.link(path, tmp_path / "twin.db")
    with pytest.raises(JournalError, match="has 2 names"):
        SqliteStore.open(path)


def test_a_reader_sees_what_the_owner_writes_and_cannot_write(place, store):
    learner = store.create_learner("a", 0)
    with place.open(read_only=True) as reader:
        store.append([(learner, event(0, x=1))])
        assert [one.body for one in reader.events(learner)] == [{"x": 1}]
        with pytest.raises(OSError, match="cannot be written"):
            reader.append([(learner, event(1))])
        assert reader.integrity() == []
    store.append([(learner, event(1))])


def test_a_closed_store_says_so(place):
    store = place.open()
    store.close()
    store.close()
    # after the colon stands what clients are told
    with pytest.raises(ValueError, match=": the store is closed"):
        store.learners()


def test_a_forgotten_store_is_free(path):
    store = SqliteStore.open(path)
    store._connection.close()
    del store
    SqliteStore.open(path).close()


def test_snapshots_newest_first_three_kept(store):
    learner, other = store.create_learner("a", 0), store.create_learner("b", 0)
    fill(store, learner, 10)
    fill(store, other, 10)
    store.add_snapshot(other, 3, 30, {"other": True})
    for seq in (2, 9, 5, 19, 19):
        store.add_snapshot(learner, seq, seq * 10, {"seq": seq, "x": [0.1, None]})
    found = list(store.snapshots(learner))
    assert [one.seq for one in found] == [19, 9, 5]
    assert found[0].body == {"seq": 19, "x": [0.1, None]}
    assert (found[0].at, found[0].package) == (190, __version__)
    assert [one.body for one in store.snapshots(other)] == [{"other": True}]
    with pytest.raises(ValueError, match="there is no event 20"):
        store.add_snapshot(learner, 20, 0, {})


@pytest.mark.parametrize(
    "change",
    [
        "body = replace(body, '9', '8')",
        "seq = 8",
        "at = 5",
        "package = '9'",
        "checksum = '0'",
        "learner = 1 + learner",
        "body = 'é'",
        "body = ''",
    ],
)
def test_damaged_snapshots_are_left_out_and_reported(place, change):
    with place.open() as store:
        learner, other = store.create_learner("a", 0), store.create_learner("b", 0)
        fill(store, learner, 10)
        for seq in (3, 9):
            store.add_snapshot(learner, seq, seq * 10, {"seq": seq})
    place.raw(f"UPDATE snapshot SET {change} WHERE seq = 9")
    with place.open() as store:
        damaged = []
        assert [one.seq for one in store.snapshots(learner, damaged)] == [3]
        assert list(store.snapshots(other, damaged)) == []
        assert len(damaged) == 1
        assert "snapshot" in damaged[0]
        assert damaged[0] in store.integrity()
        if "learner" not in change:
            with pytest.raises(JournalError, match="nothing was removed"):
                store.compact(learner, 10**9)
        assert store._all("SELECT count(*) FROM event")[0][0] == 20


def test_a_snapshot_that_a_newer_one_replaced_is_not_damaged(store):
    learner = store.create_learner("a", 0)
    fill(store, learner, 10)
    for seq in (1, 2, 3):
        store.add_snapshot(learner, seq, seq * 10, {"seq": seq})
    damaged = []
    found = store.snapshots(learner, damaged)
    assert next(found).seq == 3
    store.add_snapshot(learner, 4, 40, {"seq": 4})
    assert [one.seq for one in found] == [2]
    assert damaged == []


def test_compaction_keeps_what_the_oldest_snapshot_needs(place):
    with place.open() as store:
        learner, other = store.create_learner("a", 0), store.create_learner("b", 0)
        events = fill(store, learner, 50)
        fill(store, other, 50)
        assert store.compact(learner, 10**9) == 0  # no snapshot
        for seq in (40, 60, 99):
            store.add_snapshot(learner, seq, seq * 10, {})
        assert store.floor(learner).seq == 0
        assert store.compact(learner, 155) == 16
        assert store.floor(learner).seq == 16
        assert store.floor(learner).decision == 8
        assert store.compact(learner, 155) == 0
        assert store.compact(learner, 10**9) == 24
    with place.open() as store:
        assert store.floor(learner).seq == 40
        assert store.floor(learner).decision == 20
        with pytest.raises(JournalError, match="events before 40 were removed"):
            list(store.events(learner))
        assert list(store.events(learner, after=39)) == events[40:]
        assert store.decided(learner, 20) is None
        assert store.decided(learner, 21) == events[40]
        assert len(list(store.events(other))) == 100
        assert store.integrity() == []
        store.append([(learner, event(100))])
        for seq in (98, 99, 100):
            store.add_snapshot(learner, seq, seq * 10, {})
        assert store.compact(learner, 10**9) == 58
        assert store.last(learner) == (100, 1000)
    place.raw("UPDATE meta SET value = replace(value, '9', '8') WHERE key LIKE 'floor%'")
    with pytest.raises(JournalError, match="what was removed is not known"):
        place.open()


kinds = st.sampled_from(["decide", "feedback", "cancel", "warm", "recost"])
steps = st.lists(st.tuples(kinds, st.integers(0, 5), st.integers(0, 3)), max_size=40)


@given(steps, st.integers(1, 10))
@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
def test_any_sequence_of_events_reads_as_it_was_written(store, steps, size):
    learner = store.create_learner(f"n{len(store.learners())}", 0)
    model, ended, keys = [], set(), set()
    for kind, decision, later in steps:
        at = (model[-1].at if model else 0) + later
        key = f"{decision}{later}" if kind == "decide" else None
        new = Event(len(model), at, kind, decision, key, {"later": later})
        refused = (kind in ENDS and decision in ended) or (key in keys)
        if refused:
            with pytest.raises((SecondEnd, SecondKey)):
                store.append([(learner, new)], sync=False)
            continue
        store.append([(learner, new)], sync=False)
        model.append(new)
        keys |= {key} - {None}
        if kind in ENDS:
            ended.add(decision)
    assert list(store.events(learner)) == model
    assert list(store.events(learner, after=size, limit=size)) == model[size + 1 : 2 * size + 1]
    assert store.last(learner) == ((model[-1].seq, model[-1].at) if model else (-1, 0))
    for decision in range(6):
        ends = [one for one in model if one.decision == decision and one.kind in ENDS]
        assert store.end_of(learner, decision) == (ends[0] if ends else None)


def test_many_threads_share_a_store(store):
    learners = [store.create_learner(f"t{i}", 0) for i in range(4)]

    def work(n):
        for seq in range(100):
            store.append([(learners[n], event(seq, "decide", seq, x=seq))], sync=False)
            assert store.decided(learners[n], seq).seq == seq

    in_threads(4, work)
    assert [len(list(store.events(learner))) for learner in learners] == [100] * 4
    assert store.integrity() == []


def test_network_file_systems_are_recognised(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nhost:/x /net nfs4 rw 0 0\n/dev/sdb /net/local\\040disk ext4 rw 0 0\n"
        "sshfs# /home/me/far fuse.sshfs rw 0 0\nbroken\n"
    )

    def kind(path):
        return network_file_system(type(tmp_path)(path), mounts)

    assert kind("/net/a.db") == "nfs4"
    assert kind("/network/a.db") is None
    assert kind("/net/local disk/a.db") is None
    assert kind("/home/me/far/away/a.db") == "fuse.sshfs"
    assert network_file_system(tmp_path, tmp_path / "none") is None


def test_a_store_on_a_network_file_system_is_refused(path, monkeypatch):
    monkeypatch.setattr("weakfeedback.journal.sqlite.network_file_system", lambda file: "nfs4")
    with pytest.raises(JournalError, match=r"network file system \(nfs4\)"):
        SqliteStore.open(path)
    assert os.listdir(path.parent) == []
