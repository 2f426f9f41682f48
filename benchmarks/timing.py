"""Measuring ratios: candidates run in alternation, in CPU time, best of several."""

import os
import resource
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

UNSTEADY = 0.15  # a spread above this is marked


@dataclass(frozen=True)
class Timing:
    """Nanoseconds of CPU time per round."""

    best: float
    median: float
    spread: float  # (median - best) / best

    @classmethod
    def of(cls, times: list[float]) -> "Timing":
        """Sum up repeated measurements."""
        best, median = min(times), statistics.median(times)
        return cls(best, median, (median - best) / best)


@dataclass(frozen=True)
class Ratio:
    """How many times longer ``a`` takes than ``b``, by their best runs; marked if one of the two was unsteady."""

    value: float
    spread: float
    marked: bool

    @classmethod
    def of(cls, a: Timing, b: Timing) -> "Ratio":
        """Compare two timings of one run."""
        spread = max(a.spread, b.spread)
        return cls(a.best / b.best, spread, spread > UNSTEADY)

    def __str__(self) -> str:
        digits = 2 if self.value < 10 else 0
        return f"{self.value:.{digits}f}{'?' if self.marked else ''}"


def alternate(candidates: Mapping[str, Callable[[], float]], repetitions: int = 5) -> dict[str, Timing]:
    """Call each candidate in turn, once for nothing and then so many times; each returns ns per round."""
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for repetition in range(repetitions + 1):
        for name, measure in candidates.items():
            value = measure()
            if repetition:
                taken[name].append(value)
    return {name: Timing.of(times) for name, times in taken.items()}


def peak_mb() -> float:
    """The largest memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def machine() -> dict[str, Any]:
    """What disturbs a measurement, or explains it."""
    return {"cores": os.cpu_count(), "load": [round(value, 2) for value in os.getloadavg()]}


def plain(value: Any) -> Any:
    """A timing or ratio as data for the file."""
    return {
        name: round(entry, 4) if isinstance(entry, float) else entry for name, entry in asdict(value).items()
    }
