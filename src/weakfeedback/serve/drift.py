"""Drift detection: a detector for every pair of stages, on the stream of their comparisons.

It is a Shiryaev-Roberts e-detector. The first 300 comparisons of a pair give a Clopper-Pearson interval [l, u] at level
0.001, the baseline. After that, each comparison x (1 if they differed) updates one sum for every alternative q::

    M_q <- (M_q + 1) * (q / p)^x * ((1 - q) / (1 - p))^(1 - x)

with p = u for the alternatives above u, p = l for those below l. The alarm is raised when the mean of the M_q reaches
100,000, and a new baseline begins. While the share of differences stays inside [l, u], the mean number of comparisons
until a false alarm is at least 100,000. Large changes are detected (5 % to 15 % within some hundreds of comparisons),
small ones are not: use USS-TS-drift for these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from scipy.special import betaincinv

BASELINE = 300  # comparisons
LEVEL = 0.001  # of the baseline interval
ALARM = 100_000.0
ABOVE = (0.03, 0.08, 0.2, 0.4)  # q = u + (1 - u) * these
BELOW = (0.8, 0.5, 0.2)  # q = l * these
KEPT = 100  # alarms per pair that are kept with their times

Pair = tuple[int, int]


class Alarm(NamedTuple):
    """An alarm: when it was raised, and whether the pair differed more often than before; None: not known."""

    at: int
    pair: Pair
    more: bool | None


class Detector:
    """The detector of one pair.

    >>> detector = Detector()
    >>> any(detector.add(x % 20 == 0, at=x) for x in range(2000))
    False
    >>> next(x for x in range(2000) if detector.add(x % 2 == 0, at=x)) < 100
    True
    """

    __slots__ = ("_agree", "_differ", "alarms", "count", "differed", "first", "last", "more", "sums")

    def __init__(self) -> None:
        self.count = 0  # comparisons since the baseline began
        self.differed: float = 0  # differences in the baseline
        self.sums: list[float] = []  # M_q; empty while the baseline is being collected
        self._differ: list[float] = []  # the factors for x = 1 and x = 0
        self._agree: list[float] = []
        self.alarms: list[int] = []  # times of the last alarms
        self.more: list[bool | None] = []  # whether each was about more differences; None: not known
        self.first = 0  # number of alarms before these
        self.last: int | None = None  # time of the alarm that began the current baseline

    def add(self, differed: float, at: int) -> bool:
        """Process one comparison made at time ``at``; return whether it raises the alarm.

        Answers that are numbers have a distance from 0 to 1. After the baseline alarms are then no more frequent than
        for labels with this mean, because the factor is convex in x.
        """
        self.count += 1
        if not self._differ:
            self.differed += differed
            if self.count == BASELINE:
                self._freeze()
            return False
        if 0.0 < differed < 1.0:
            factors = [d**differed * a ** (1.0 - differed) for d, a in zip(self._differ, self._agree)]
        else:
            factors = self._differ if differed else self._agree
        sums = self.sums = [(m + 1.0) * factor for m, factor in zip(self.sums, factors)]
        if sum(sums) < ALARM * len(sums):
            return False
        self._note_alarm(at)
        return True

    @property
    def level(self) -> float:
        """The mean of the sums as a share of the alarm threshold, from 0 to 1."""
        return sum(self.sums) / len(self.sums) / ALARM if self.sums else 0.0

    @property
    def watching(self) -> bool:
        """Whether the baseline is complete."""
        return bool(self._differ)

    @property
    def total(self) -> int:
        """The number of alarms so far."""
        return self.first + len(self.alarms)

    def _freeze(self) -> None:
        """Compute the interval of the baseline, and set the sums to zero."""
        low, high = interval(self.differed, BASELINE)
        pairs = [(high + (1.0 - high) * step, high) for step in ABOVE if high < 1.0]
        pairs += [(low * part, low) for part in BELOW if low > 0.0]
        self._differ = [q / p for q, p in pairs]
        self._agree = [(1.0 - q) / (1.0 - p) for q, p in pairs]
        self.sums = [0.0] * len(pairs)

    def _note_alarm(self, at: int) -> None:
        self.alarms.append(at)
        self.more.append(self._differ[self.sums.index(max(self.sums))] > 1.0)
        if len(self.alarms) > KEPT:
            del self.alarms[0], self.more[0]
            self.first += 1
        self.last = at
        self.count = self.differed = 0
        self.sums, self._differ, self._agree = [], [], []

    def state(self) -> list[Any]:
        """Return everything as JSON data."""
        told = [self.count, self.differed, list(self.sums), list(self.alarms), self.first]
        return [*told, list(self.more)] if self.alarms else told

    @classmethod
    def from_state(cls, state: Any) -> Detector:
        """Return the detector that gave ``state``; ValueError for anything else."""
        made = cls()
        try:
            count, differed, sums, alarms, first, *more = state
            made.count, made.first = int(count), int(first)
            made.differed = differed if isinstance(differed, float) else int(differed)
            made.alarms = [int(at) for at in alarms]
            made.more = [
                None if one is None else bool(one) for one in (more[0] if more else [None] * len(alarms))
            ]
            made.last = made.alarms[-1] if made.alarms else None
            if made.count >= BASELINE:
                made._freeze()
            if len(sums) != len(made.sums) or len(made.more) != len(made.alarms):
                raise ValueError
            made.sums = [float(value) for value in sums]
        except (TypeError, ValueError):
            raise ValueError(f"not the state of a detector: {state!r:.80}") from None
        return made


class Drift:
    """The detectors of all pairs of a learner."""

    def __init__(self) -> None:
        self.detectors: dict[Pair, Detector] = {}

    def detector(self, pair: Pair) -> Detector:
        """Return the detector of a pair, a new one if there is none yet."""
        return self.detectors.setdefault(pair, Detector())

    def add(self, stages: Iterable[int], differ: Iterable[Iterable[int]], at: int) -> list[Pair]:
        """Process a comparison of these stages; the pairs ``differ`` differed. Return the pairs that raise an alarm."""
        differed = {(i, j) for i, j in differ}
        called = sorted(stages)
        pairs = [(i, j) for k, j in enumerate(called) for i in called[:k]]
        return [pair for pair in pairs if self.detector(pair).add(pair in differed, at)]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per pair for a report; ``alarm`` is set after an alarm until the new baseline is complete.

        After an alarm ``more_often`` says whether the pair differed more often than before, or less.
        """
        return [
            {
                "pair": list(pair),
                "alarm": detector.last is not None and not detector.watching,
                "since": detector.last,
                "alarms": detector.total,
                "level": detector.level,
                "watching": detector.watching,
                **({"more_often": detector.more[-1]} if detector.more else {}),
            }
            for pair, detector in sorted(self.detectors.items())
        ]

    def marks(self) -> list[Alarm]:
        """Return the alarms that are kept, by time."""
        found = [
            Alarm(at, pair, more)
            for pair, detector in list(self.detectors.items())  # a step in a thread may add one
            for at, more in zip(detector.alarms, detector.more)
        ]
        return sorted(found, key=lambda alarm: alarm[:2])

    def state(self) -> list[Any]:
        """Return everything as JSON data."""
        return [[*pair, detector.state()] for pair, detector in sorted(self.detectors.items())]

    @classmethod
    def from_state(cls, state: Any) -> Drift:
        """Return the detectors that gave ``state``; ValueError for anything else."""
        made = cls()
        try:
            for i, j, inner in state:
                made.detectors[int(i), int(j)] = Detector.from_state(inner)
        except TypeError:
            raise ValueError(f"not the state of detectors: {state!r:.80}") from None
        return made


def interval(count: float, tries: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact Clopper-Pearson interval of a share, with confidence ``1 - level``.

    >>> low, high = interval(15, 300)
    >>> round(low, 4), round(high, 4)
    (0.0183, 0.1052)
    """
    low = float(betaincinv(count, tries - count + 1, level / 2.0)) if count else 0.0
    high = float(betaincinv(count + 1, tries - count, 1.0 - level / 2.0)) if count < tries else 1.0
    return low, high
