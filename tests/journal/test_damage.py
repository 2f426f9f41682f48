"""A damaged file: either it is refused, or what is read is what was written, or the beginning of it."""

import random
import shutil
from pathlib import Path

import pytest

from weakfeedback.journal import JournalError, Log, SqliteStore, StoreUnavailable


def make(folder):
    """A store with two learners and snapshots, copied while in use: half of it is in the write-ahead log."""
    path = folder / "runs.db"
    with SqliteStore.open(path) as store:
        logs = [Log(store, store.create_learner(name, 0)) for name in ("first", "second")]

        def play(rounds):
            for i in range(rounds):
                for log in logs:
                    decision = log.last_seq + 1
                    log.append("decide", {"stage": i % 3, "phi": [i / 7, 0.5]}, decision, f"key {decision}")
                    log.append("feedback", {"differ": [[0, 1]], "digest": "ab" * 16}, decision)
            for log in logs:
                log.flush(sync=False)
                store.add_snapshot(
                    log.learner, log.last_seq, 0, {"counts": list(range(600)), "seq": log.last_seq}
                )

        play(60)
        play(60)
        store._all("PRAGMA wal_checkpoint(TRUNCATE)")
        play(10)
        play(60)
        kept = folder / "kept"
        kept.mkdir()
        for name in ("runs.db", "runs.db-wal"):
            shutil.copy(folder / name, kept / name)
        truth = read(store)
    return kept, truth


def read(store):
    """Everything that a store gives back."""
    found = {}
    for learner in store.learners():
        events = list(store.events(learner.id))
        damaged = []
        snapshots = {one.seq: one for one in store.snapshots(learner.id, damaged)}
        found[learner.id] = (learner, events, snapshots, damaged)
    return found


def damage(data, moments):
    """One random damage of ``data``, and its name."""
    place = moments.randrange(len(data))
    length = moments.choice([1, 1, 8, 100, 512, 4096])
    kind = moments.choice(
        ["flip", "flip", "flip", "cut", "zero", "insert", "delete", "noise", "page", "swap"]
    )
    page = place // 4096 * 4096
    other = moments.randrange(len(data)) // 4096 * 4096
    if kind == "flip":
        return kind, data[:place] + bytes([data[place] ^ 1 << moments.randrange(8)]) + data[place + 1 :]
    if kind == "cut":
        return kind, data[:place]
    if kind == "zero":
        return kind, data[:place] + bytes(len(data[place : place + length])) + data[place + length :]
    if kind == "insert":
        return kind, data[:place] + moments.randbytes(length) + data[place:]
    if kind == "delete":
        return kind, data[:place] + data[place + length :]
    if kind == "noise":
        return kind, data[:place] + moments.randbytes(len(data[place : place + length])) + data[
            place + length :
        ]
    if kind == "page":
        return kind, data[:page] + data[other : other + 4096] + data[page + 4096 :]
    low, high = sorted((page, other))
    first, second = data[low : low + 4096], data[high : high + 4096]
    if low == high:
        return kind, data
    return kind, data[:low] + second + data[low + 4096 : high] + first + data[high + 4096 :]


def judge(path, truth, read_only):
    """What a reader of the damaged store meets: "refused", "right", "shorter", or an assertion fails."""
    try:
        with SqliteStore.open(path, read_only=read_only) as store:
            found = read(store)
            problems = store.integrity()
            if not problems:
                for id, (_, events, _, _) in found.items():
                    for event in events[:: max(1, len(events) // 5)]:
                        assert store.by_key(id, event.key) == event if event.key else True
                        if event.kind == "feedback":
                            assert store.end_of(id, event.decision) == event
                        else:
                            assert store.decided(id, event.decision) == event
    except (JournalError, StoreUnavailable) as problem:
        return (
            "refused"
            if str(path) in str(problem) and "\n" not in str(problem)
            else f"badly refused: {problem}"
        )
    result = "right"
    for id, (learner, events, snapshots, _) in found.items():
        whole, all_events, all_snapshots, _ = truth[id]
        assert learner == whole
        assert events == all_events[: len(events)]
        for seq, snapshot in snapshots.items():
            if seq in all_snapshots:
                assert snapshot == all_snapshots[seq]
            assert snapshot.body == {"counts": list(range(600)), "seq": seq}
        if len(events) < len(all_events):
            result = "shorter"
    if len(found) < len(truth):
        assert found == {}
        result = "shorter"
    return result if not problems else "reported"


@pytest.mark.parametrize("trials", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_nothing_is_silently_wrong_after_any_damage(trials, tmp_path):
    kept, truth = make(tmp_path)
    moments = random.Random(trials)
    results = {}
    folder = tmp_path / "damaged"
    for trial in range(trials):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        name = ["runs.db", "runs.db", "runs.db-wal"][trial % 3]
        kind, data = damage((kept / name).read_bytes(), moments)
        (folder / name).write_bytes(data)
        result = judge(folder / "runs.db", truth, read_only=trial % 2 == 0)
        if name == "runs.db":
            # what is missing at the end can only have been in the log of the database
            assert result != "shorter", (trial, kind)
        assert result in ("right", "refused", "reported", "shorter")
        results[name, result] = results.get((name, result), 0) + 1
    assert results["runs.db", "refused"] > trials / 20
    assert results["runs.db-wal", "shorter"] > trials / 20


def test_a_store_without_its_log_is_shorter_or_refused(tmp_path):
    kept, truth = make(tmp_path)
    (kept / "runs.db-wal").unlink()
    assert judge(kept / "runs.db", truth, read_only=False) == "shorter"


def test_a_clean_store_has_no_end_that_can_be_lost(tmp_path):
    """After a clean end everything is in one file, and every damage of it is found or harmless."""
    kept, truth = make(tmp_path)
    with SqliteStore.open(kept / "runs.db"):
        pass
    assert sorted(path.name for path in kept.iterdir()) == ["runs.db", "runs.db.lock"]
    moments = random.Random(7)
    path = tmp_path / "runs2.db"
    results = set()
    for trial in range(150):
        kind, data = damage(Path(kept / "runs.db").read_bytes(), moments)
        for leftover in tmp_path.glob("runs2.db*"):
            leftover.unlink()
        path.write_bytes(data)
        result = judge(path, truth, read_only=trial % 2 == 0)
        assert result in ("right", "refused", "reported"), (trial, kind)
        results.add(result)
    assert "refused" in results
