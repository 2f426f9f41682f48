"""Whole stores: copied between dialects, compacted, written out."""

import json
from itertools import pairwise

import pytest
from tests.journal.stores import InFile, InPostgres

from weakfeedback.journal import JournalError, Log, open_store
from weakfeedback.journal.admin import compact_store, copy_store, export_lines
from weakfeedback.live import Cascade


def fill(store):
    """Two learners with keys, ends, snapshots and, for one, removed events."""
    for name in ("first", "zweite é"):
        log = Log(store, store.create_learner(name, 5))
        for i in range(1200):
            log.append("decide", {"stage": i % 3, "phi": [i / 7, 1e-300, 0.1]}, i, f"key é {i}")
            log.append("feedback", {"differ": [[0, 1]], "text": 'é"\\\x00\n'}, i)
            if i % 300 == 299:
                log.flush(sync=False)
                store.add_snapshot(log.learner, log.last_seq, i, {"i": i})
    store.compact(1, 2**62)
    store.create_learner("empty", 7)
    store.archive_learner(2, 9)


def contents(store):
    return [
        (
            learner,
            store.floor(learner.id),
            list(store.events(learner.id, store.floor(learner.id).seq - 1)),
            list(store.snapshots(learner.id)),
            store.last(learner.id),
        )
        for learner in store.learners()
    ]


def test_a_round_trip_through_postgres_changes_nothing(server, tmp_path):
    (tmp_path / "other").mkdir()
    places = InFile(tmp_path), InPostgres(server), InFile(tmp_path / "other")
    with places[0].open() as store:
        fill(store)
        expected = contents(store)
    assert expected[0][1].seq > 0
    for source, target in pairwise(places):
        with source.open(read_only=True) as one, target.open() as other:
            assert copy_store(one, other) == sum(len(events) for _, _, events, _, _ in expected)
        with target.open() as other:
            assert contents(other) == expected
            assert other.integrity() == []
            log = Log(other, 2)
            log.flush(log.append("note", {}))  # and it goes on
            assert other.by_key(2, "key é 1199").decision == 1199
        target.raw("DELETE FROM event WHERE kind = 'note'")
        target.raw("UPDATE meta SET value = '2399' WHERE key = 'head:2'")


def test_a_cascade_decides_after_the_round_trip_as_it_would_have(server, tmp_path):
    with Cascade.open(tmp_path / "a.db", 3, [1, 2, 3], 10, seed=5) as cascade:
        for i in range(40):
            made = cascade.decide()
            cascade.feedback(made.id, [i % 2] * (made.arm + 1))
    middle = InPostgres(server)
    with open_store(tmp_path / "a.db") as source, middle.open() as target:
        copy_store(source, target)
    with middle.open() as source, open_store(tmp_path / "b.db") as target:
        copy_store(source, target)
    with Cascade.open(tmp_path / "a.db", 3) as one, Cascade.open(tmp_path / "b.db", 3) as other:
        assert one.state() == other.state()
        for i in range(40):
            made = one.decide()
            assert other.decide() == made
            for cascade in (one, other):
                cascade.feedback(made.id, [i % 3] * (made.arm + 1))


def test_a_copy_goes_only_into_an_empty_store(place, tmp_path):
    with place.open() as source, open_store(tmp_path / "copy.db") as target:
        source.create_learner("a", 0)
        target.create_learner("b", 0)
        with pytest.raises(ValueError, match="is not empty: copy into a new store"):
            copy_store(source, target)
        assert [one.name for one in target.learners()] == ["b"]


def test_a_copy_that_fails_leaves_nothing(place, tmp_path):
    with open_store(tmp_path / "source.db") as source:
        fill(source)
    damaged = InFile(tmp_path)
    damaged.address = str(tmp_path / "source.db")
    damaged.raw("UPDATE event SET body = replace(body, '1', '2') WHERE learner = 2 AND seq = 2300")
    with open_store(tmp_path / "source.db", read_only=True) as source, place.open() as target:
        with pytest.raises(JournalError, match="learner zweite é: event 2300: the checksum is wrong"):
            copy_store(source, target)
        assert target.learners() == []
        assert target.integrity() == []


def test_a_copy_is_compared_with_what_was_stored(place, tmp_path, monkeypatch):
    with open_store(tmp_path / "source.db") as source, place.open() as target:
        log = Log(source, source.create_learner("a", 0))
        for _ in range(5):
            log.append("note", {})
        log.flush()
        put = type(target)._put
        monkeypatch.setattr(type(target), "_put", lambda store, rows: put(store, rows[:-1]))
        with pytest.raises(JournalError, match="learner a: event 4 is not the same"):
            copy_store(source, target)


def test_compaction_keeps_what_snapshots_need(place):
    with place.open() as store:
        fill(store)
        before = store.floor(1).seq
        assert compact_store(store, 2**62) == {"first": 0, "zweite é": before, "empty": 0}
        assert store.floor(2).decision == store.floor(1).decision
        assert store.integrity() == []


def test_events_are_written_out_line_by_line(place):
    with place.open() as store:
        log = Log(store, store.create_learner("é", 0))
        log.append("decide", {"stage": 1, "phi": [0.1]}, 7, "k")
        log.append("feedback", {}, 7)
        log.flush()
        lines = list(export_lines(store))
        first, second = map(json.loads, lines)
        at = first.pop("at")
        assert first == {"learner": "é", "seq": 0, "kind": "decide", "decision": 7, "key": "k"} | {
            "body": {"stage": 1, "phi": [0.1]}
        }
        assert second["seq"] == 1
        assert second["at"] >= at
        assert all(line.isascii() and "\n" not in line for line in lines)
