"""How slow this machine is, beside the one on which the limits of CPU time in tests were set."""

import time

REFERENCE = 0.0007  # seconds of CPU that `_work` took there


def _work() -> float:
    """Seconds of CPU that a piece of plain Python takes now."""
    began, found = time.thread_time(), dict[int, str]()
    for k in range(10_000):
        found[k % 97] = str(k)
    return time.thread_time() - began


def pace() -> float:
    """How many times slower this machine is now, at least 1: the worst of some looks, as limits are upper ones."""
    return max(1.0, max(_work() for _ in range(5)) / REFERENCE)
