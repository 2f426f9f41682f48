"""Measuring ratios: candidates run in alternation, in CPU time, best of several."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Nanoseconds of CPU time per round."""

    best: float
    median: float
    spread: float  # (median - best) / best


def alternate(
    candidates: dict[str, tuple[Callable[[], object], int]], repetitions: int = 5
) -> dict[str, Timing]:
    """Time each candidate (a function and its number of rounds) in turn, after one run that does not count."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for repetition in range(repetitions + 1):
        for name, (work, rounds) in candidates.items():
            before = time.process_time()
            work()
            if repetition:
                taken[name].append((time.process_time() - before) / rounds * 1e9)
    return {name: _summary(times) for name, times in taken.items()}


def _summary(times: list[float]) -> Timing:
    best, median = min(times), statistics.median(times)
    return Timing(best, median, (median - best) / best)
