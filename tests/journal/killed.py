"""Appends to a store in processes that are killed at random moments.

``python -m tests.journal.killed FOLDER TRIALS SEED``: one process imports the package and forks a child for each
trial, all on the same store. What a child was told before the kill, it has written to a file at once, line by line.
"""

import os
import threading

from tests.rig.killing import kill_children

from weakfeedback.journal import Log, SqliteStore


def child(folder: str, trial: int, begun: int) -> None:
    """Append for ever, in three threads; acknowledge in a file. Take snapshots and compact now and then."""
    store = SqliteStore.open(f"{folder}/runs.db")
    name = f"trial{trial % 5}"
    learner = {one.name: one.id for one in store.learners()}.get(name) or store.create_learner(name, 0)
    log = Log(store, learner)
    lock = threading.Lock()
    told = os.open(f"{folder}/{trial}.told", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def work(number: int) -> None:
        try:
            play(number)
        except BaseException as problem:
            with open(f"{folder}/{trial}.failed", "a") as file:
                file.write(f"{problem!r}\n")
            raise

    def play(number: int) -> None:
        while True:
            with lock:
                seq = log.append("note", {"trial": trial, "by": number, "text": "x" * (log.last_seq % 700)})
            log.flush(seq, sync=seq % 4 > 0)
            os.write(told, f"{learner} {seq} {number}\n".encode())
            if seq % 50 == 0:
                store.add_snapshot(learner, seq, 0, {"seq": seq})
            if seq % 333 == 0:
                store.compact(learner, 2**62)

    os.write(begun, b"x")
    for number in range(3):
        threading.Thread(target=work, args=(number,)).start()


if __name__ == "__main__":
    kill_children(child, "told", longest=0.3, opening=5)
