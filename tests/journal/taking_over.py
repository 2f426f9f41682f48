"""Owners of a store in PostgreSQL that are killed at random moments, each with a standby that takes over.

``python -m tests.journal.taking_over URL FOLDER KILLS SEED``: one process imports the package and forks the others. Two
run at any time: one owns the store and appends, the other waits for it. What an owner was told before the kill, it has
written to a file at once, line by line.
"""

import os
import random
import signal
import sys
import threading
import time
import traceback

from tests.rig.killing import wait_for_words

from weakfeedback.journal import Log
from weakfeedback.journal.postgres import PostgresStore


def own(url: str, folder: str, number: int, begun: int) -> None:
    """Wait for the store, then append for ever, in three threads; acknowledge in a file."""
    store = PostgresStore.open(url, wait=True)
    names = {one.name: one.id for one in store.learners()}
    learner = names.get("a") or store.create_learner("a", 0)
    log = Log(store, learner)
    lock = threading.Lock()
    told = os.open(f"{folder}/{number}.told", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def work(thread: int) -> None:
        try:
            while True:
                with lock:
                    seq = log.append("note", {"epoch": store.epoch, "by": number, "thread": thread})
                log.flush(seq)
                os.write(told, f"{seq} {number} {thread} {time.monotonic()}\n".encode())
                if seq % 50 == 0:
                    store.add_snapshot(learner, seq, 0, {"seq": seq})
        except BaseException as problem:
            with open(f"{folder}/{number}.failed", "a") as file:
                file.write(f"{problem!r}\n")
            os._exit(1)

    os.write(begun, f"{number}\n".encode())
    for thread in range(3):
        threading.Thread(target=work, args=(thread,)).start()
    while True:
        time.sleep(60)


def main(url: str, folder: str, kills: int, seed: int) -> None:
    moments = random.Random(seed)
    reading, writing = os.pipe()
    running: dict[int, int] = {}

    def start(number: int) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                own(url, folder, number, writing)
            except BaseException:  # it is said, and ends everything
                traceback.print_exc()
            finally:
                os.write(writing, b"an owner has failed\n")
                os._exit(1)
        running[number] = pid

    try:
        start(0)
        start(1)
        with os.fdopen(reading) as owners:
            for kill in range(kills):
                owner = int(owners.readline())
                pid = running.pop(owner)
                if kill % 4:
                    wait_for_words(f"{folder}/{owner}.told", pid)
                time.sleep(moments.uniform(0.0, 0.4))
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                if kill + 1 < kills:
                    start(kill + 2)
            int(owners.readline())  # the last standby has taken over too
            time.sleep(0.2)
    finally:
        for pid in running.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
