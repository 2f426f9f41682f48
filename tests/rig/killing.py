"""Children that are killed at random moments, forked from one process that has imported all they need."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable


def wait_for_words(path: str, pid: int, least: int = 300) -> None:
    """Wait until a process has said so many bytes in a file, however slow the machine is, or has ended."""
    while not os.path.exists(path) or os.path.getsize(path) < least:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.002)


def kill_children(
    child: Callable[[str, int, int], None], says: str, longest: float, opening: int = 0
) -> None:
    """Run ``child(folder, trial, begun)`` for the arguments FOLDER TRIALS SEED, each until it is killed.

    It writes a byte to ``begun`` when it has begun, and what it has done to the file ``TRIAL.says``. It is killed
    within ``longest`` seconds after that, three times in four after it has done something; every ``opening``-th one at
    any moment of its beginning.
    """
    folder, trials, moments = sys.argv[1], int(sys.argv[2]), random.Random(int(sys.argv[3]))
    for trial in range(trials):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            child(folder, trial, writing)
            return
        early = opening and trial % opening == 0
        if not early:
            os.read(reading, 1)
            if trial % 4:
                wait_for_words(f"{folder}/{trial}.{says}", pid)
        time.sleep(moments.uniform(0.0, longest / 10 if early else longest))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)
