"""Stores that earlier versions have written: opened, migrated after a checked copy, or refused in words.

Each was written by the service of its time, with learners of all kinds that it had, and is never made anew.
"""

import gzip
import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.rig.harness import quick, run, serving
from tests.rig.histories import LEARNERS

from weakfeedback._version import __version__
from weakfeedback.journal import JournalError, SqliteStore
from weakfeedback.serve.verify import check_store

FOLDER = Path(__file__).with_name("older")
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


def test_states_of_another_version_are_refused_in_words(tmp_path):
    path = brought("states-of-before", tmp_path)
    words = "learner uss-ts: event .* was written by another version .* whose states this one"
    with pytest.raises(JournalError, match=words):
        run(go_on(path))
    with SqliteStore.open(path, read_only=True) as store:
        found = [one for one in check_store(store) if not isinstance(one, str)]
    assert all("was written by another version" in one.problems[0] for one in found)


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
