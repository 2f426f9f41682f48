"""Plays with a journal in processes that are killed at random moments.

``python -m tests.live.killed FOLDER TRIALS SEED``: one process imports the package and forks a child for each trial, so
that many trials cost one start. What a child was told before the kill, it has written to a log at once, line by line.
``FOLDER`` then holds N.db and N.log.
"""

import os
import threading

from tests.live.kinds import KINDS
from tests.rig.killing import kill_children


def kind_of(trial: int) -> tuple[str, int]:
    """The kind of object of a trial, and its number of threads; a player goes slot by slot."""
    name = list(KINDS)[trial % len(KINDS)]
    return name, 1 if name == "Player" or trial % (2 * len(KINDS)) < len(KINDS) else 3


def child(folder: str, trial: int, begun: int) -> None:
    """Play for ever; acknowledge on the log."""
    name, threads = kind_of(trial)
    kind = KINDS[name]
    thing = kind.open(f"{folder}/{trial}.db")
    log = os.open(f"{folder}/{trial}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def work() -> None:
        while True:
            id, decided = kind.decide(thing)
            os.write(log, f"decided {id}\n".encode())
            kind.feedback(thing, id, kind.content(id, decided))
            os.write(log, f"answered {id}\n".encode())

    os.write(begun, b"x")
    for _ in range(threads):
        threading.Thread(target=work).start()


if __name__ == "__main__":
    kill_children(child, "log", longest=0.4)
