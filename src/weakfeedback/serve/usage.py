"""Who used what: requests and money by the name of a token, and the limits of both.

Requests are counted since the start. Money is in the bills of the log, which name the token: it is the sum of them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily

from weakfeedback.journal import JournalError
from weakfeedback.serve.invoice import Paid, add_paid
from weakfeedback.serve.models import Problem
from weakfeedback.stats import add_up

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service

DAY = 86_400
PERIOD = 5.0  # seconds between two looks at the bills of other instances

log = logging.getLogger("weakfeedback.serve")


@dataclass(slots=True)
class Used:
    """What the holders of the tokens of one name have used."""

    requests: int = 0
    refused: int = 0  # requests beyond a limit
    room: float = 0.0  # requests that may come at once
    at: float = 0.0  # when that was so


class Usage:
    """Counts requests and money, and refuses what is beyond a limit; it is a collector of metrics, too."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._by_name: dict[str, Used] = {}
        self.accounts: Accounts | None = None  # where money is spent

    def of(self, name: str) -> Used:
        """Return what was used under a name, until now."""
        return self._by_name.setdefault(name, Used())

    def money(self, name: str) -> tuple[float, float]:
        """Return what was spent for the holders of tokens of a name: since midnight (UTC), and ever."""
        found = [] if self.accounts is None else self.accounts.all()
        paid = [one[name] for one in found if name in one]
        today = int(self._clock() // DAY)
        owed = 0.0 if self.accounts is None else self.accounts.owed.get(name, 0.0)
        of_day, ever = [one for day, one, _ in paid if day == today], [total for *_, total in paid]
        return add_up([*of_day, owed]), add_up([*ever, owed])

    def ask(self, name: str, per_minute: int | None, per_day: float | None) -> None:
        """Count a request; Problem if there were as many in a minute, or as much money was spent today, as may be."""
        used, now = self.of(name), self._clock()
        if per_day is not None and (today := self.money(name)[0]) >= per_day:
            used.refused += 1
            left = DAY - now % DAY
            words = f"the money of this token for today is spent: {today:.6g} of {per_day:g}"
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

    def collect(self) -> Iterable[Any]:
        """Yield the metrics; money is that of the learners that are served here."""
        here = [] if self.accounts is None else self.accounts.here()
        money: Counter[str] = Counter()
        for paid in here:
            for name, (*_, total) in paid.items():
                money[name] += total  # type: ignore[assignment]
        known = list(self._by_name.items())
        for metric, words, found in (
            ("requests", "Requests by token.", {name: used.requests for name, used in known}),
            (
                "refused",
                "Requests beyond a limit of their token.",
                {name: used.refused for name, used in known},
            ),
            ("money", "Money spent on models by token.", {**{name: 0.0 for name, _ in known}, **money}),
        ):
            family = CounterMetricFamily(f"weakfeedback_token_{metric}", words, labels=["token"])
            for name, amount in found.items():
                family.add_metric([name], amount)
            yield family


class Accounts:
    """The bills of the learners that call models: of those here as they are, of others on a shared store as read."""

    def __init__(self, service: Service, names: Iterable[str], owed: Mapping[str, float] = {}) -> None:
        self._service, self._names = service, list(names)
        self.owed = owed  # money of bills that are not stored yet, by token
        self._known: dict[str, Paid] = {}  # what was paid when a learner was last here
        self._others: dict[
            str, tuple[int, Paid]
        ] = {}  # by learner: the last event that was read, and what was paid

    def here(self) -> list[Paid]:
        """Return what was paid for the learners that are served here."""
        learners = self._service.learners
        here = {name: learners[name].invoice.paid for name in self._names if name in learners}
        self._known |= here
        return list(here.values())

    def all(self) -> list[Paid]:
        """Return what was paid for all learners, as far as it is known here."""
        learners, here = self._service.learners, self.here()
        known = self._known | {name: paid for name, (_, paid) in self._others.items()}
        return here + [paid for name, paid in known.items() if name not in learners]

    async def watch(self) -> None:
        """Read the bills of other instances, every few seconds."""
        while True:
            await self.look()
            await asyncio.sleep(PERIOD)

    async def look(self) -> None:
        """Read the bills of other instances."""
        try:
            await asyncio.to_thread(self._look)
        except (OSError, JournalError) as error:
            log.warning("the bills of other instances cannot be read: %s", error)

    def _look(self) -> None:
        reader, found = self._service.reader, dict[str, tuple[int, Paid]]()
        if reader is None:
            return
        for stored in reader.learners():
            if stored.name not in self._names or stored.name in self._service.learners:
                continue
            known = self._others.get(stored.name)
            try:
                found[stored.name] = _read_on(reader, stored.id, known or _start(reader, stored.id))
            except (
                LookupError,
                TypeError,
                ValueError,
                AttributeError,
            ):  # whoever owns it says that it is damaged
                found |= {} if known is None else {stored.name: known}
        self._others = found


def _read_on(reader: Any, learner: int, known: tuple[int, Paid]) -> tuple[int, Paid]:
    """Return the last event of a learner, and what was paid until then."""
    seq, paid = known[0], dict(known[1])
    for event in reader.events(learner, after=seq):
        seq = event.seq
        if event.kind == "bill":
            add_paid(paid, event.body, event.at)
    return seq, paid


def _start(reader: Any, learner: int) -> tuple[int, Paid]:
    """Return the last snapshot's event, and what was paid until then."""
    for snapshot in reader.snapshots(learner, []):
        told = snapshot.body["service"]["observers"].get("invoice", {}).get("paid", {})
        return snapshot.seq, {name: tuple(one) for name, one in told.items()}
    return -1, {}
