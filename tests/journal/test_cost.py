"""What one durable event costs, beside one synchronised write to the same disk."""

import os
import statistics
import time

import pytest

from weakfeedback.journal import Log, SqliteStore

SAME = 0.0005  # seconds of computing that are allowed where the disk takes no time (a file system in memory)


def durable_append(log):
    decision = log.last_seq + 1
    log.flush(log.append("decide", {"stage": 1}, decision, f"key {decision}"))


def seconds(work, times):
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return found


def costs(folder, stored, rounds=12, times=25):
    """Seconds of a synchronised write and of a durable event after ``stored`` others, measured by turns."""
    raw = os.open(folder / f"raw{stored}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    synchronise = getattr(os, "fdatasync", os.fsync)

    def write():
        os.write(raw, b"x" * 120)
        synchronise(raw)

    plain, durable = [], []
    with SqliteStore.open(folder / f"runs{stored}.db") as store:
        log = Log(store, store.create_learner("a", 0))
        while log.last_seq < stored - 1:
            for _ in range(min(20_000, stored)):
                decision = log.last_seq + 1
                log.append("decide", {"stage": 1}, decision, f"key {decision}")
            log.flush(sync=False)
        log.flush()
        for _ in range(rounds):  # by turns: other programs use the disk too
            plain += seconds(write, times)
            durable += seconds(lambda: durable_append(log), times)
    os.close(raw)
    return plain, durable


@pytest.mark.slow
@pytest.mark.parametrize("stored", [0, 200_000])
def test_a_durable_event_costs_at_most_three_synchronised_writes(stored, tmp_path):
    plain, durable = costs(tmp_path, stored)
    assert statistics.median(durable) <= 3 * statistics.median(plain) + SAME
    assert statistics.mean(durable) <= 3 * statistics.mean(plain) + 2 * SAME


def test_the_pages_written_for_an_event_do_not_grow_with_the_store(tmp_path):
    """The same promise without a clock: bytes in the log of the database per durable event."""
    grown = []
    for stored in (100, 20_000):
        with SqliteStore.open(tmp_path / f"runs{stored}.db") as store:
            log = Log(store, store.create_learner("a", 0))
            for _ in range(stored):
                decision = log.last_seq + 1
                log.append("decide", {"stage": 1}, decision, f"key {decision:09}")
            log.flush(sync=False)
            store._all("PRAGMA wal_checkpoint(TRUNCATE)")
            for _ in range(50):
                decision = log.last_seq + 1
                log.flush(log.append("decide", {"stage": 1}, decision, f"key {decision:09}"), sync=False)
            grown.append(os.path.getsize(f"{store.path}-wal") / 50)
    assert grown[1] <= grown[0] + 4200  # at most one page more
    assert grown[1] <= 4 * 4200
