"""Stores that earlier versions have written: opened, migrated after a checked copy, or refused in words.

Each was written by the service of its time, with learners of all kinds that it had, and is never made anew.
"""

import gzip
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.journal.stores import InPostgres
from tests.rig.harness import quick, run, serving
from tests.rig.histories import LEARNERS

from weakfeedback._version import __version__
from weakfeedback.journal import JournalError, SqliteStore
from weakfeedback.journal.admin import copy_store
from weakfeedback.serve.verify import check_store

FOLDER = Path(__file__).with_name("older")
COPIED = ("meta", "learner", "event", "snapshot", "owner")
READ = ("without-index", "other-columns", "with-index", "with-invoice")
WITHOUT_INDEX = READ[:2]


def brought(name, folder):
    path = folder / "s.db"
    path.write_bytes(gzip.decompress((FOLDER / f"{name}.db.gz").read_bytes()))
    return path


def has_index(path):
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'event_open'").fetchone()
    connection.close()
    return found == (1,)


async def go_on(path):
    async with serving(path, quick()) as (service, call):
        assert sorted(service.learners) == sorted(LEARNERS)
        for name, config in LEARNERS.items():
            place = f"/v1/learners/{name}"
            before = (await call("GET", place)).data["rounds"]
            body = {"context": [1.0]} if config["kind"] == "contextual" else {}
            opening = "begin" if config["kind"] == "adaptive" else "decide"
            assert (await call("POST", f"{place}/{opening}", body)).status == 200
            assert (await call("GET", f"{place}/report")).status == 200
            assert before > 0 or config["kind"] in ("adaptive", "allocation")


@pytest.mark.parametrize("name", READ)
def test_an_older_store_is_read_and_goes_on(tmp_path, name):
    path = brought(name, tmp_path)
    with SqliteStore.open(path, read_only=True) as store:
        found = list(check_store(store))
        assert [line for line in found if isinstance(line, str)] == []
        assert [one.problems for one in found] == [[]] * len(LEARNERS)
        assert sum(one.differences for one in found) == 0
    assert has_index(path) == (name not in WITHOUT_INDEX)  # who only reads changes nothing
    run(go_on(path))
    assert has_index(path)
    with SqliteStore.open(path, read_only=True) as store:
        assert all(not one.problems for one in check_store(store))
        events = {learner.name: store.last(learner.id)[0] for learner in store.learners()}
    # the tables were changed after a copy was made and read
    copy = tmp_path / f"s.db.before-{__version__}"
    assert copy.exists() == (name in WITHOUT_INDEX)
    if copy.exists():
        assert not has_index(copy)
        with SqliteStore.open(copy, read_only=True) as store:
            assert all(events[learner.name] > store.last(learner.id)[0] for learner in store.learners())


def test_a_store_whose_copy_is_not_sound_stays_as_it_is(tmp_path):
    path = brought("without-index", tmp_path)
    connection = sqlite3.connect(path)
    connection.execute(
        "UPDATE event SET body = replace(body, 'stage', 'stagf') WHERE learner = 1 AND seq = 3"
    )
    connection.commit()
    connection.close()
    with pytest.raises(
        JournalError, match=r"earlier version, and stays as it is, for its copy is not sound: .*event 3"
    ):
        SqliteStore.open(path)
    assert not has_index(path)


def test_states_of_another_version_are_kept_out_in_words(tmp_path, caplog):
    path = brought("states-of-before", tmp_path)

    async def look():
        async with serving(path, quick()) as (service, _):
            assert service.learners == {}
            stored = sorted(learner.name for learner in service.store.learners())
            assert [name for name, _ in service.kept_out.reasons()] == stored

    run(look())
    words = r"learner uss-ts: event .* was written by version .* with a state that this one"
    assert any(re.search(words, one.message) for one in caplog.records)
    with SqliteStore.open(path, read_only=True) as store:
        found = [one for one in check_store(store) if not isinstance(one, str)]
    assert all("was written by version" in one.problems[0] for one in found)


def test_a_newer_store_is_named_as_newer(tmp_path):
    path = brought("with-index", tmp_path)
    shutil.copy(path, tmp_path / "before.db")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")
    connection.commit()
    connection.close()
    with pytest.raises(
        JournalError, match=r"was written by a later version .its schema is 2, this version reads 1"
    ):
        SqliteStore.open(path)


# -- in PostgreSQL


@pytest.fixture
def older(server, tmp_path):
    """A store of an earlier version in a schema: the address, and what another program does to it."""
    place = InPostgres(server)
    with (
        SqliteStore.open(brought("without-index", tmp_path), read_only=True) as source,
        place.open() as target,
    ):
        copy_store(source, target)
    place.raw("DROP INDEX event_open")
    return place


def tables(place):
    return {name: place.raw(f"SELECT one::text FROM {name} AS one ORDER BY 1") for name in COPIED}


def schema_of(place):
    return place.raw("SELECT current_schema()")[0][0]


def test_a_schema_is_changed_after_it_was_copied_into_another(older, caplog):
    before, name = tables(older), f"{schema_of(older)}_before_{__version__}"
    with older.open(read_only=True) as store:  # who only reads changes nothing
        assert len(list(check_store(store))) == len(LEARNERS)
    assert older.raw("SELECT to_regclass('event_open') IS NULL")[0][0]
    with older.open() as store:
        assert all(not one.problems for one in check_store(store))
    assert older.raw("SELECT to_regclass('event_open') IS NOT NULL")[0][0]
    assert f"copied into the schema {name}" in caplog.text
    copied = {
        table: older.raw(f'SELECT one::text FROM "{name}".{table} AS one ORDER BY 1') for table in COPIED
    }
    assert copied == before
    assert older.raw("SELECT to_regclass(?) IS NULL", f'"{name}".event_open')[0][0]
    # it is a store of the earlier version, and stays when the changed one is opened again
    copy = InPostgres(older.server)
    copy.address = re.sub(r"search_path%3D\w+", f"search_path%3D{name}", older.address)
    assert schema_of(copy) == name
    with copy.open(read_only=True) as store:
        assert all(not one.problems for one in check_store(store))
    with older.open():
        pass
    assert (
        len(older.raw("SELECT 1 FROM pg_namespace WHERE nspname LIKE ?", f"{schema_of(older)}_before%")) == 1
    )
    # a second change meets another copy: nothing is changed, nothing is thrown away
    older.raw("DROP INDEX event_open")
    with pytest.raises(
        JournalError, match=f"stays as it is, for there is a schema {name} that is not a copy of it"
    ):
        older.open()
    assert older.raw("SELECT to_regclass('event_open') IS NULL")[0][0]
    older.raw(f'DROP SCHEMA "{name}" CASCADE')
    with older.open():
        pass


def test_a_schema_whose_copy_is_not_sound_or_not_allowed_stays_as_it_is(older):
    older.raw("UPDATE event SET body = replace(body, 'stage', 'stagf') WHERE learner = 1 AND seq = 3")
    with pytest.raises(JournalError, match=r"stays as it is, for its copy is not sound: .*event 3"):
        older.open()
    older.raw("UPDATE event SET body = replace(body, 'stagf', 'stage') WHERE learner = 1 AND seq = 3")
    schema, role = schema_of(older), f"r{schema_of(older)}"
    older.raw(f"CREATE ROLE {role} LOGIN")
    older.raw(f"GRANT ALL ON SCHEMA {schema} TO {role}")
    for table in COPIED:
        older.raw(f"ALTER TABLE {table} OWNER TO {role}")
    older.address = older.server.url(schema, role)
    with pytest.raises(
        JournalError, match=r"stays as it is, for no copy can be made in a schema .*: permission denied"
    ):
        older.open()
    assert older.raw("SELECT to_regclass('event_open') IS NULL")[0][0]
    assert older.raw("SELECT 1 FROM pg_namespace WHERE nspname LIKE ?", f"{schema}_before%") == []
