"""Children that are killed at random moments, forked from one process that has imported all they need."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable


def kill_children(child: Callable[[str, int, int], None], longest: float, opening: int = 0) -> None:
    """Run ``child(folder, trial, begun)`` for the arguments FOLDER TRIALS SEED, each until it is killed.

    It writes a byte to ``begun`` when it has begun, and is killed within ``longest`` seconds after that; every
    ``opening``-th one at any moment of its beginning.
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
        time.sleep(moments.uniform(0.0, longest / 10 if early else longest))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)
