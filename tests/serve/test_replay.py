"""What the log says is what the memory was; and whatever is wrong with a log is named, with learner and event."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.rig.harness import opener, quick, replayed, run, serving
from tests.rig.histories import EVERY, make_history, states_of

from weakfeedback.journal import JournalError, SqliteStore
from weakfeedback.journal.events import Event, row_of
from weakfeedback.serve import learner as learner_module
from weakfeedback.serve.recover import recover_all


def recovered(path: Path) -> dict[str, Any]:
    """The learners of a store, read anew."""
    store = SqliteStore.open(path, read_only=True)
    try:
        return {learner.name: learner.picture() for learner in recover_all(store).learners}
    finally:
        store.close()


def test_every_kind_is_made_again_to_the_bit_from_the_beginning_and_from_snapshots(tmp_path, monkeypatch):
    path = tmp_path / "s.db"
    states = run(make_history(path, 90, EVERY))
    assert set(states) == set(EVERY)
    assert recovered(path) == states
    monkeypatch.setattr(learner_module, "SNAPSHOT", 37)
    other = tmp_path / "snapshots.db"
    assert {name: state["state"] for name, state in run(make_history(other, 90, EVERY)).items()} == {
        name: state["state"] for name, state in states.items()
    }
    with SqliteStore.open(other, read_only=True) as store:
        learners = store.learners()
        assert all(len(list(store.snapshots(one.id))) >= 1 for one in learners)
    # and with the snapshots taken away: the same
    whole = recovered(other)
    with sqlite3.connect(other) as database:
        database.execute("DELETE FROM snapshot")
    database.close()
    assert recovered(other) == whole


@pytest.mark.slow
def test_a_million_events_are_made_again_to_the_bit(tmp_path):
    path = tmp_path / "s.db"
    states = run(make_history(path, 50_000))
    with SqliteStore.open(path, read_only=True) as store:
        assert sum(store.last(one.id)[0] + 1 for one in store.learners()) >= 10**6
    assert recovered(path) == states  # the last events, from the newest snapshots
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM snapshot")
    database.close()
    assert recovered(path) == states


def test_the_next_decisions_are_the_same_after_a_restart(tmp_path):
    path, copy = tmp_path / "s.db", tmp_path / "copy.db"
    run(make_history(path, 20, ["uss-ts", "double", "csb-ts"]))
    copy.write_bytes(path.read_bytes())

    async def go_on(file: Path, again: bool) -> list[Any]:
        told = []
        for _ in range(4):
            async with serving(file, quick(durability="process")) as (service, call):
                for _ in range(1 if again else 4):
                    for name in ("uss-ts", "double", "csb-ts"):
                        data = (await call("POST", f"/v1/learners/{name}/decide", {})).data
                        # a copy skips ids
                        told.append({key: data.get(key) for key in ("call", "allocation")})
                assert states_of(service)
            if not again:
                break
        return told

    assert run(go_on(path, again=False)) == run(go_on(copy, again=True))


def forge(path: Path, learner: int, event: Event, **changes: Any) -> None:
    """Put another event in the place of one, with a seal that holds."""
    fields = {name: getattr(event, name) for name in ("seq", "at", "kind", "decision", "key", "body")}
    row = row_of(learner, Event(**{**fields, **changes}))
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM event WHERE learner = ? AND seq = ?", (learner, event.seq))
        database.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    database.close()


def events_of(path: Path) -> tuple[int, list[Event]]:
    with SqliteStore.open(path, read_only=True) as store:
        id = store.learners()[0].id
        return id, list(store.events(id))


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "s.db"
    run(make_history(path, 30, ["uss-ts"]))
    return path


@pytest.fixture
def store(history: Path, tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    path.write_bytes(history.read_bytes())
    return path


def test_a_changed_byte_is_named(store):
    with sqlite3.connect(store) as database:
        database.execute("UPDATE event SET body = '[' || substr(body, 2) WHERE seq = 11")
    database.close()
    with pytest.raises(JournalError, match=r"learner uss-ts: event 11: the checksum is wrong"):
        recovered(store)


def test_a_missing_event_is_named(store):
    with sqlite3.connect(store) as database:
        database.execute("DELETE FROM event WHERE seq = 12")
    database.close()
    with pytest.raises(JournalError, match=r"learner uss-ts: event 12 is missing"):
        recovered(store)


def test_a_swapped_pair_is_named(store):
    with sqlite3.connect(store) as database:
        for was, becomes in ((13, -1), (14, 13), (-1, 14)):
            database.execute("UPDATE event SET seq = ? WHERE seq = ?", (becomes, was))
    database.close()
    with pytest.raises(JournalError, match=r"learner uss-ts: event 13"):
        recovered(store)


async def test_a_forged_decision_is_named_with_what_it_was_and_is_now(store):
    id, events = events_of(store)
    chosen = next(event for event in events if event.seq > 20 and event.kind == "decide")
    stage = chosen.body["stage"]
    forge(store, id, chosen, body={"stage": (stage + 1) % 3})
    words = rf"learner uss-ts: event {chosen.seq}: decision {chosen.decision} was .*{(stage + 1) % 3}.*, and is now"
    with pytest.raises(JournalError, match=words):
        recovered(store)

    async with serving(store, quick(trust_log=True)) as (service, call):
        differences = replayed(service, "differences_total")
        assert differences >= 1
        text = (await call("GET", "/metrics")).body.decode()
        assert f"weakfeedback_replay_differences_total {differences}" in text
        found = (await call("GET", "/v1/learners/uss-ts")).status
    assert found == 200


def test_an_unknown_kind_and_an_end_without_a_beginning_are_named(store):
    id, events = events_of(store)
    forge(store, id, events[9], kind="surprise")
    with pytest.raises(JournalError, match=r"learner uss-ts: event 9 \(surprise\) cannot be applied"):
        recovered(store)
    forge(store, id, events[9], kind="cancel", decision=999, body={"cost": 0.0, "reason": ""})
    with pytest.raises(JournalError, match=r"learner uss-ts: event 9 \(cancel\) cannot be applied"):
        recovered(store)


def test_the_process_says_one_line_about_a_damaged_learner(store):
    """It serves, without that learner, even if there is no other."""
    from tests.rig.server import Process

    with sqlite3.connect(store) as database:
        database.execute("UPDATE event SET body = replace(body, 'stage', 'stagf') WHERE kind = 'decide'")
    database.close()
    with Process(store.parent, "--store", f"sqlite:///{store}") as server:
        assert server.stop() == 0
    words = (store.parent / "errors").read_text()
    assert words.count("kept out") == 1
    assert "learner uss-ts: event 1: the checksum is wrong" in words


def test_a_damaged_snapshot_is_not_used_and_told(tmp_path, monkeypatch):
    monkeypatch.setattr(learner_module, "SNAPSHOT", 20)
    path = tmp_path / "s.db"
    states = run(make_history(path, 30, ["uss-ts"]))
    with sqlite3.connect(path) as database:
        database.execute("UPDATE snapshot SET body = replace(body, '1', '2')")
    database.close()
    store = opener(path)(read_only=True)
    found = recover_all(store)
    store.close()
    assert found.learners[0].picture() == states["uss-ts"]
    assert "a snapshot is damaged and was not used" in found.warnings[0]
