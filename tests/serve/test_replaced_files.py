"""Files that are removed or replaced under a running service: noticed, named, and never gone on with in silence."""

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.rig.harness import CASCADE, Caller, opener, quick, serving
from tests.rig.processes import PATIENCE, until, wait_until
from tests.rig.server import Client, Process

from weakfeedback.journal import JournalError, SqliteStore
from weakfeedback.serve import service as service_module
from weakfeedback.serve.service import Service

PLACE = "/v1/learners/t"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "BACK_OFF", (0.01, 0.02))


def backup(file: Path, target: Path) -> None:
    """As the documentation says."""
    database = sqlite3.connect(file)
    database.execute("VACUUM INTO ?", (str(target),))
    database.close()


async def rounds(call: Caller, count: int) -> list[int]:
    """Decisions with feedback; return their ids."""
    ids = []
    for _ in range(count):
        made = (await call("POST", PLACE + "/decide", {})).data
        fed = {"outputs": ["x"] * (made["stage"] + 1)}
        assert (await call("POST", f"{PLACE}/decisions/{made['id']}/feedback", fed)).status == 200
        ids.append(made["id"])
    return ids


@pytest.mark.parametrize("noticed_by", ["a request", "the clock"])
async def test_a_log_that_is_removed_is_noticed_and_nothing_is_lost(tmp_path, noticed_by):
    """The open file still has everything: it is carried over into the store before that is read again."""
    options = quick(tick=0.01) if noticed_by == "the clock" else quick()
    async with serving(tmp_path / "s.db", options) as (service, call):
        await call("PUT", PLACE, CASCADE)
        ids = await rounds(call, 20)
        learner = service.learners["t"]
        os.unlink(tmp_path / "s.db-wal")
        if noticed_by == "a request":
            reply = await call("POST", PLACE + "/decide", {})
            assert (reply.status, reply.data["code"]) == (503, "store_unavailable")
            assert "was removed or replaced while it was in use" in reply.data["detail"]
        await until(lambda: service.state == "ready" and service.learners.get("t") not in (None, learner))
        assert (await rounds(call, 1))[0] == len(ids) + 1
        assert (await call("GET", PLACE)).data["rounds"] == 21
    async with serving(tmp_path / "s.db") as (_, call):
        assert (await call("GET", PLACE)).data["rounds"] == 21


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_log_that_is_removed_before_a_kill_is_named_at_the_start(tmp_path, checkpointed):
    """It answered 200, lost everything, and started with an empty store without a word."""
    with Process(tmp_path) as server:
        call = Client(server.port)
        assert call("PUT", PLACE, CASCADE)[0] == 201
        for _ in range(20):
            assert call("POST", PLACE + "/decide", {})[0] == 200
        if checkpointed:
            database = sqlite3.connect(tmp_path / "weakfeedback.db")
            database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            database.close()
            assert call("POST", PLACE + "/decide", {})[0] == 200
        call.close()
        server.process.send_signal(19)  # it must not notice
        os.unlink(tmp_path / "weakfeedback.db-wal")
        server.kill()
    with Process(tmp_path, wait=False) as server:
        assert server.process.wait(PATIENCE) == 1
    words = (tmp_path / "errors").read_text()
    if checkpointed:
        assert "holds 21 events, and 22 were stored here" in words
        assert "--restored" in words
    else:
        assert "holds no tables: its log weakfeedback.db-wal is missing" in words


async def test_an_older_copy_moved_over_the_file_ends_the_service(tmp_path):
    """Ids were given out a second time, and late feedback was taken for another decision."""
    file, old = tmp_path / "s.db", tmp_path / "backup.db"
    service = Service(opener(file), quick())
    from weakfeedback.serve.app import make_app

    await service.start()
    call = Caller(make_app(service))
    await call("PUT", PLACE, CASCADE)
    await rounds(call, 4)
    backup(file, old)
    given = await rounds(call, 6)
    os.replace(old, file)
    assert (await call("POST", PLACE + "/decide", {})).status == 503
    await until(service.ended.is_set)
    assert isinstance(service.fatal, JournalError)
    assert "learner t had 21 events, and has 9: an older copy was put in its place" in str(service.fatal)
    await service.stop()
    # a supervisor starts it again: it is refused, until somebody says that it was meant
    again = Service(opener(file), quick())
    with pytest.raises(JournalError, match="holds 9 events, and 21 were stored here"):
        await again.start()
    await again.stop()
    async with serving(file, quick(restored=True)) as (service, call):
        fresh = await rounds(call, 3)
        assert not set(fresh) & set(given)
        assert min(fresh) > max(given)
        for id in given:  # a late answer for a decision that is gone
            reply = await call("POST", f"{PLACE}/decisions/{id}/feedback", {"outputs": ["x"]})
            assert reply.status in (404, 410)
    async with serving(file) as (_, call):  # and then it is the store
        assert (await rounds(call, 1))[0] == fresh[-1] + 1


async def test_another_store_moved_over_the_file_ends_the_service(tmp_path):
    async with serving(tmp_path / "other.db") as (_, call):
        await call("PUT", PLACE, CASCADE)
        await rounds(call, 20)
    service = Service(opener(tmp_path / "s.db"), quick())
    from weakfeedback.serve.app import make_app

    await service.start()
    call = Caller(make_app(service))
    await call("PUT", PLACE, CASCADE)
    await rounds(call, 2)
    os.replace(tmp_path / "other.db", tmp_path / "s.db")
    assert (await call("POST", PLACE + "/decide", {})).status == 503
    await until(service.ended.is_set)
    assert "another store was put in its place while it was in use" in str(service.fatal)
    await service.stop()
    with pytest.raises(JournalError, match="is another store than the one that was in use here"):
        await Service(opener(tmp_path / "s.db"), quick()).start()


def test_the_server_ends_with_a_line_when_its_file_is_replaced(tmp_path):
    with Process(tmp_path) as server:
        call = Client(server.port)
        assert call("PUT", PLACE, CASCADE)[0] == 201
        backup(tmp_path / "weakfeedback.db", tmp_path / "backup.db")
        assert call("POST", PLACE + "/decide", {})[0] == 200
        os.replace(tmp_path / "backup.db", tmp_path / "weakfeedback.db")
        wait_until(lambda: server.process.poll() is not None)  # without a request
        assert server.process.returncode == 1
        call.close()
    assert "the service has ended" in (tmp_path / "errors").read_text()


@pytest.mark.parametrize("how", ["copy", "vacuum"])
async def test_a_store_restored_elsewhere_skips_ids(tmp_path, how, caplog):
    """A backup has another file than the store it was made of: that is how it is known."""
    async with serving(tmp_path / "s.db") as (_, call):
        await call("PUT", PLACE, CASCADE)
        await rounds(call, 3)
        if how == "vacuum":
            backup(tmp_path / "s.db", tmp_path / "restored.db")
    if how == "copy":
        shutil.copy(tmp_path / "s.db", tmp_path / "restored.db")
    async with serving(tmp_path / "s.db") as (_, call):
        given = await rounds(call, 5)
        assert given == [4, 5, 6, 7, 8]  # the store itself skips nothing
    assert not caplog.records
    async with serving(tmp_path / "restored.db") as (_, call):
        fresh = await rounds(call, 5)
        assert min(fresh) > 8
    assert [one.message for one in caplog.records if "the ids of its learners go on" in one.message]
    async with serving(tmp_path / "restored.db") as (service, call):
        assert (await rounds(call, 1))[0] == fresh[-1] + 1
        state = service.learners["t"].picture()
        service.learners["t"].pictured = service.learners["t"].seq
    os.rename(tmp_path / "restored.db", tmp_path / "renamed.db")  # the same file
    async with serving(tmp_path / "renamed.db") as (service, call):
        assert service.learners["t"].picture() == state
        assert (await rounds(call, 1))[0] == fresh[-1] + 2


def test_what_was_not_synced_may_be_gone_after_a_loss_of_power(tmp_path, monkeypatch):
    """With durability = process the mark may be ahead of the store after the machine has lost its power."""
    from weakfeedback.journal import sqlite

    def fill(boot: str) -> None:
        monkeypatch.setattr(sqlite, "_boot", lambda: boot)
        with SqliteStore.open(tmp_path / "s.db") as store:
            id = store.create_learner("t", 0)
            store.write([row(id, 0)], sync=True)
            store.write([row(id, 1)], sync=False)

    def row(id: int, seq: int) -> Any:
        from weakfeedback.journal.events import Event, row_of

        return row_of(id, Event(seq, 0, "x", None, None, {}))

    fill("one")
    lock = (tmp_path / "s.db.lock").read_text()
    assert " 2 2 one" in lock  # closed: all is synced
    for marked, boot, refused in (
        ("2 3 one", "one", True),  # killed, the same run of the machine
        ("2 3 one", "two", False),  # the power failed
        ("3 3 one", "two", True),  # it was synced
        ("2 3 -", "-", False),  # a system that does not tell
        ("garbage", "one", False),
    ):
        words = lock.replace("2 2 one", marked) if marked != "garbage" else lock[:100] + "\0" * 60
        (tmp_path / "s.db.lock").write_text(words)
        monkeypatch.setattr(sqlite, "_boot", lambda boot=boot: boot)
        with SqliteStore.open(tmp_path / "s.db") as store:
            assert (store.surprise() is not None) == refused, (marked, boot)
            assert not store.is_moved()


def test_a_store_that_was_being_made_when_the_process_was_killed_is_new(tmp_path):
    file = tmp_path / "s.db"
    SqliteStore.open(file).close()
    for leave in (0, 4096):
        lock = (tmp_path / "s.db.lock").read_text()
        database = sqlite3.connect(tmp_path / "empty.db")
        database.execute("PRAGMA journal_mode=WAL").fetchall()
        database.close()
        shutil.copy(tmp_path / "empty.db", file)
        os.truncate(file, leave)
        (tmp_path / "s.db.lock").write_text(lock[:128] + "creating\n")
        SqliteStore.open(file).close()
        shutil.copy(tmp_path / "empty.db", file)
        with pytest.raises(JournalError, match="holds no tables"):
            SqliteStore.open(file)
        (tmp_path / "s.db.lock").write_text(lock[:128])  # of a version without marks
        with pytest.raises(JournalError, match="holds no tables"):
            SqliteStore.open(file)
        os.unlink(file)
