"""Stores: operations a second of 64 threads that all wait for the disk, in SQLite and in PostgreSQL.

Wall time, as the disk is what is waited for. PostgreSQL is a private cluster in a temporary folder on the same disk.
The other way to share a learner is to keep its state in a row: every request locks it (``SELECT ... FOR UPDATE``),
writes it and its event, and commits.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.rig.postgres import Absent, Cluster, cluster

from benchmarks.timing import Ratio, Timing, alternate, plain
from weakfeedback.journal import Log, SqlStore, open_store

THREADS = 64
SECONDS = 2.0
OVER_LOCKS = 5.0  # times a row that is locked, at least
OF_SQLITE = 0.4  # of SQLite, at least
OPERATION = {"stage": 1, "digest": "0" * 32}
STATE = "x" * 2000  # what a learner's state takes without its answers


def together(step: Callable[[int], None], threads: int, seconds: float) -> float:
    """Nanoseconds per step of threads that take steps for so many seconds."""
    counts = [0] * threads
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        while time.perf_counter() < end:
            step(number)
            counts[number] += 1

    began = time.perf_counter()
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return (time.perf_counter() - began) * 1e9 / sum(counts)


def logged(store: SqlStore) -> Callable[[int], None]:
    """An event of one learner, and the wait for its commit; who comes first writes for all who wait."""
    log = Log(store, store.create_learner("bench", 0))
    lock = threading.Lock()

    def step(_: int) -> None:
        with lock:
            seq = log.append("note", OPERATION)
        log.flush(seq)

    return step


@contextmanager
def locked(server: Cluster, threads: int) -> Iterator[Callable[[int], None]]:
    """The state of a learner in a row that every operation locks."""
    import psycopg

    address = server.url("locked")
    with ExitStack() as stack:
        first = stack.enter_context(psycopg.connect(address, autocommit=True))
        first.execute("CREATE SCHEMA locked")
        first.execute("CREATE TABLE state (id BIGINT PRIMARY KEY, seq BIGINT, body TEXT)")
        first.execute("CREATE TABLE event (seq BIGINT PRIMARY KEY, body TEXT)")
        first.execute("INSERT INTO state VALUES (1, 0, %s)", (STATE,))
        sessions = [stack.enter_context(psycopg.connect(address)) for _ in range(threads)]

        def step(number: int) -> None:
            with sessions[number].transaction():
                seq, body = sessions[number].execute(
                    "SELECT seq, body FROM state WHERE id = 1 FOR UPDATE"
                ).fetchone()  # fmt: skip
                sessions[number].execute("INSERT INTO event VALUES (%s, %s)", (seq, str(OPERATION)))
                sessions[number].execute("UPDATE state SET seq = %s, body = %s WHERE id = 1", (seq + 1, body))

        yield step


def measure(repetitions: int, threads: int = THREADS, seconds: float = SECONDS) -> dict[str, Any]:
    """All ways in alternation; without PostgreSQL only SQLite, and why."""
    found: dict[str, Any] = {"threads": threads, "skipped": ""}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        steps = {"SQLite": logged(stack.enter_context(open_store(folder / "runs.db")))}
        try:
            server = stack.enter_context(cluster())
            steps["PostgreSQL"] = logged(stack.enter_context(open_store(server.url())))
            steps["locked rows"] = stack.enter_context(locked(server, threads))
        except (Absent, ImportError, ValueError) as reason:
            found["skipped"] = str(reason)
        timings = alternate(
            {name: lambda step=step: together(step, threads, seconds) for name, step in steps.items()},
            repetitions,
        )
    found["ways"] = {name: {**plain(timing), "per_second": _rate(timing)} for name, timing in timings.items()}
    if not found["skipped"]:
        found["over_locked_rows"] = plain(Ratio.of(timings["locked rows"], timings["PostgreSQL"]))
        found["of_sqlite"] = plain(Ratio.of(timings["SQLite"], timings["PostgreSQL"]))
    return found


def _rate(timing: Timing) -> int:
    return round(1e9 / timing.best)


def text(found: dict[str, Any]) -> str:
    """A table with the goals."""
    lines = [f"stores, {found['threads']} threads that wait for the disk"]
    lines += [f"  {name:12} {way['per_second']:7d} operations/s" for name, way in found["ways"].items()]
    if found["skipped"]:
        return "\n".join([*lines, f"  PostgreSQL left out: {found['skipped']}"])
    for name, words, goal in (
        ("over_locked_rows", "PostgreSQL over SELECT ... FOR UPDATE", OVER_LOCKS),
        ("of_sqlite", "PostgreSQL over SQLite", OF_SQLITE),
    ):
        ratio = found[name]["value"]
        lines.append(f"  {words}: {ratio:.2f}, goal {goal:g}{'' if ratio >= goal else ': MISSED'}")
    return "\n".join(lines)
