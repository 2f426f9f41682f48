"""Who used what: requests and money by the name of a token, and the limits of both. Counted since the start."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import CounterMetricFamily

from weakfeedback.serve.models import Problem

DAY = 86_400


@dataclass(slots=True)
class Used:
    """What the holders of the tokens of one name have used."""

    requests: int = 0
    refused: int = 0  # requests beyond a limit
    money: float = 0.0
    today: float = 0.0  # money since midnight (UTC)
    day: int = 0
    room: float = 0.0  # requests that may come at once
    at: float = 0.0  # when that was so


class Usage:
    """Counts requests and money, and refuses what is beyond a limit; it is a collector of metrics, too."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._by_name: dict[str, Used] = {}

    def of(self, name: str) -> Used:
        """Return what was used under a name, until now."""
        found, now = self._by_name.setdefault(name, Used()), self._clock()
        if found.day != now // DAY:
            found.day, found.today = int(now // DAY), 0.0
        return found

    def ask(self, name: str, per_minute: int | None, per_day: float | None) -> None:
        """Count a request; Problem if there were as many in a minute, or as much money was spent today, as may be."""
        used, now = self.of(name), self._clock()
        if per_day is not None and used.today >= per_day:
            used.refused += 1
            left = DAY - now % DAY
            words = f"the money of this token for today is spent: {used.today:.6g} of {per_day:g}"
            raise Problem("too_many_requests", words, retry_after=math.ceil(left))
        if per_minute is not None:
            rate = per_minute / 60.0
            if used.at == 0.0:
                used.room = float(per_minute)
            used.room = min(used.room + max(now - used.at, 0.0) * rate, float(per_minute))
            used.at = now
            if used.room < 1.0:
                used.refused += 1
                words = f"this token allows {per_minute} requests a minute"
                raise Problem("too_many_requests", words, retry_after=math.ceil((1.0 - used.room) / rate))
            used.room -= 1.0
        used.requests += 1

    def spend(self, name: str, money: float) -> None:
        """Count money that was spent for the holder of a token."""
        used = self.of(name)
        used.money += money
        used.today += money

    def collect(self) -> Iterable[Any]:
        """Yield the metrics."""
        families = [
            (CounterMetricFamily(f"weakfeedback_token_{name}", words, labels=["token"]), name)
            for name, words in (
                ("requests", "Requests by token."),
                ("refused", "Requests beyond a limit of their token."),
                ("money", "Money spent on models by token."),
            )
        ]
        for name, used in list(self._by_name.items()):
            for family, field in families:
                family.add_metric([name], getattr(used, field))
        yield from (family for family, _ in families)
