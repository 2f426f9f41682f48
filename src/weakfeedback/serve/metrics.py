"""Prometheus metrics. Counters of learners are read on request, so that they cost nothing per round."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.utils import floatToGoString

from weakfeedback._version import __version__

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
EVENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
PREFIX = "weakfeedback_"
PIECE = 20  # learners that are read at once


class Buckets:
    """A histogram for one thread, without a lock."""

    def __init__(self, limits: Sequence[float]) -> None:
        self._limits, self._counts, self._sum = limits, [0] * (len(limits) + 1), 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._limits, value)] += 1
        self._sum += value

    def told(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative counts up to each limit, and the sum."""
        names = [*(floatToGoString(limit) for limit in self._limits), "+Inf"]
        return list(zip(names, accumulate(self._counts))), self._sum


class Metrics:
    """The metrics of one service."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._commit_seconds, self._commit_events = Buckets(SECONDS), Buckets(EVENTS)
        self._differences = Counter(
            f"{PREFIX}replay_differences",
            "Decisions that fell otherwise in a replay.",
            registry=self.registry,
        )
        self._routes: dict[tuple[str, int], Buckets] = {}
        self._replay = (0, 0.0)
        self._service: Any = None
        self._turn = asyncio.Lock()
        self._read: list[Any] | None = None  # of learners, while their text is made

    def watch(self, service: Any) -> None:
        """Report the learners of this service."""
        self._service = service
        self.registry.register(self)

    def committed(self, seconds: float, events: int) -> None:
        """Count a commit."""
        self._commit_seconds.observe(seconds)
        self._commit_events.observe(events)

    def replayed(self, events: int, seconds: float, differences: int) -> None:
        """Count a recovery."""
        self._replay = (events, seconds)
        self._differences.inc(differences)

    def requested(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        known = self._routes.get((route, status))
        if known is None:
            known = self._routes[route, status] = Buckets(SECONDS)
        known.observe(seconds)

    def text(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        return generate_latest(self.registry)

    async def text_beside(self) -> bytes:
        """Return the same while requests are served: learners are read in pieces, the text is made in a thread."""
        service, found = self._service, list[Any]()
        async with self._turn:
            for one in self._of_learners(list(service.learners.values()), service.options.clock()):
                if one is None:
                    await asyncio.sleep(0)
                else:
                    found.append(one)
            self._read = found
            try:
                return await asyncio.to_thread(self.text)
            finally:
                self._read = None

    def collect(self) -> Iterable[Any]:
        """Yield the current metrics of the service and its learners."""
        service = self._service
        yield from self._histograms()
        yield _gauge("owner", "Whether this process owns the store.", float(service.state == "ready"))
        if service.sharing is not None:
            yield _gauge("shards", "Shards whose learners are served here.", len(service.sharing.shards))
        yield _gauge("kept_out", "Learners that cannot be read, and are not served.", len(service.kept_out))
        yield _gauge("replay_events", "Events of the last recovery.", self._replay[0])
        yield _gauge("replay_seconds", "What the last recovery took.", self._replay[1])
        yield _gauge("store_bytes", "Size of the store's file.", _size(service.store))
        build = GaugeMetricFamily(f"{PREFIX}build_info", "The version.", labels=["version"])
        build.add_metric([__version__], 1.0)
        yield build
        if self._read is None:
            now = service.options.clock()
            yield from (
                one for one in self._of_learners(list(service.learners.values()), now) if one is not None
            )
        else:
            yield from self._read

    def _histograms(self) -> Iterable[Any]:
        for name, words, buckets in (
            ("commit_seconds", "What a commit took.", self._commit_seconds),
            ("commit_events", "Events of a commit.", self._commit_events),
        ):
            counts, total = buckets.told()
            yield HistogramMetricFamily(f"{PREFIX}{name}", words, buckets=counts, sum_value=total)
        requests = HistogramMetricFamily(
            f"{PREFIX}request_seconds", "What a request took.", labels=["route", "status"]
        )
        for (route, status), buckets in list(self._routes.items()):
            counts, total = buckets.told()
            requests.add_metric([route, str(status)], counts, total)
        yield requests

    def _of_learners(self, learners: list[Any], now: int) -> Iterable[Any]:
        """Yield the metrics of learners, and before that a None after each piece of the work."""
        decided = CounterMetricFamily(f"{PREFIX}decisions", "Decisions.", labels=["learner", "stage"])
        fed = CounterMetricFamily(f"{PREFIX}feedback", "Feedbacks by result.", labels=["learner", "result"])
        pending = GaugeMetricFamily(f"{PREFIX}pending", "Decisions that wait.", labels=["learner"])
        oldest = GaugeMetricFamily(
            f"{PREFIX}oldest_pending_seconds", "Age of the oldest.", labels=["learner"]
        )
        step = GaugeMetricFamily(
            f"{PREFIX}step_seconds",
            "What a step of the heaviest kind takes, per decision or row.",
            labels=["learner"],
        )
        share = GaugeMetricFamily(
            f"{PREFIX}disagreement_share", "How often two stages differed.", labels=["learner", "pair"]
        )
        settled = GaugeMetricFamily(f"{PREFIX}settled_stage", "Where rounds stop now.", labels=["learner"])
        money = {
            name: GaugeMetricFamily(f"{PREFIX}{name}_total", words, labels=["learner", "currency"])
            for name, words in (("spent", "Money spent."), ("saved", "Saved, signed."), ("wasted", "Wasted."))
        }
        promise = {
            name: GaugeMetricFamily(f"{PREFIX}promise_{name}", words, labels=["learner"])
            for name, words in (
                ("differ", "Share of answers unlike the reference's, estimated."),
                ("differ_at_most", "The same, at most, with 95 %."),
                ("allowance", "Answers that may still differ."),
            )
        }
        alarms = CounterMetricFamily(f"{PREFIX}drift_alarms", "Changes found.", labels=["learner", "pair"])
        for k, learner in enumerate(learners):
            if k % PIECE == PIECE - 1:
                yield None
            name, live = learner.name, learner.live
            for (i, j), detector in list(learner.observers["watch"].drift.detectors.items()):
                alarms.add_metric([name, f"{i}-{j}"], detector.total)
            for stage, count in learner.stops.items():
                decided.add_metric([name, stage], count)
            for result, count in learner.results().items():
                fed.add_metric([name, result], count)
            pending.add_metric([name], len(learner.opened))
            first = next(iter(learner.opened.values()), now)
            oldest.add_metric([name], max(0.0, (now - first) / 1e6))
            step.add_metric([name], learner.step_seconds)
            counts = learner.core.counts
            if hasattr(counts, "differed") and not learner.lock.locked():
                settled.add_metric([name], live.settled())
                compared = counts.compared
                for i in range(len(compared)):
                    for j in range(i + 1, len(compared)):
                        if compared[i, j]:
                            share.add_metric([name, f"{i}-{j}"], counts.differed[i, j] / compared[i, j])
                if getattr(learner.core.terms, "promise", None) is not None:
                    kept = live.report()
                    for what, family in promise.items():
                        if getattr(kept, what) is not None:
                            family.add_metric([name], getattr(kept, what))
                currency = learner.config.currency or ""
                sums = (counts.spent, counts.alone - counts.spent, counts.wasted)
                if learner.invoice.terms is not None:
                    bills = learner.invoice
                    sums = bills.spent, bills.saved, bills.money["lost"]
                for family, amount in zip(money.values(), sums):
                    family.add_metric([name, currency], amount)
        yield from (
            decided,
            fed,
            pending,
            oldest,
            step,
            share,
            settled,
            alarms,
            *money.values(),
            *promise.values(),
        )


def _gauge(name: str, words: str, value: float) -> Any:
    return GaugeMetricFamily(f"{PREFIX}{name}", words, value=value)


def _size(store: Any) -> float:
    try:
        return float(store.path.stat().st_size)
    except (AttributeError, OSError):
        return 0.0
