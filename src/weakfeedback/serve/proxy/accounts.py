"""What the proxy notes of its calls, and what the baseline alone would have cost."""

from __future__ import annotations

import math
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.metrics import PREFIX
from weakfeedback.serve.proxy.prices import PER_TOKEN, Tokens
from weakfeedback.serve.proxy.settings import ProxySettings
from weakfeedback.serve.service import Service

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
GOOD = ("ok", "cancelled")  # outcomes of upstream calls that are not errors of the upstream
OVERHEAD = 100  # tokens around the messages of a request, more or less


class UpstreamMetrics:
    """Prometheus metrics of upstream calls; labels are configured names only."""

    def __init__(self, registry: CollectorRegistry, service: Service | None = None) -> None:
        self._service = service
        self._children: dict[Any, Any] = {}

        def histogram(name: str, words: str, *labels: str) -> Histogram:
            return Histogram(f"{PREFIX}{name}", words, labels, buckets=SECONDS, registry=registry)

        self._seconds = histogram(
            "upstream_seconds", "What an upstream call took.", "learner", "stage", "outcome"
        )
        self._first = histogram(
            "first_token_seconds", "Until the first token of a stream.", "learner", "stage"
        )
        self._tokens = Counter(
            f"{PREFIX}upstream_tokens",
            "Tokens of upstream calls.",
            ("learner", "stage", "kind"),
            registry=registry,
        )

    def called(
        self,
        learner: str,
        stage: str,
        outcome: str,
        seconds: float,
        first: float | None,
        tokens: Tokens | None,
    ) -> None:
        """Count a call that ended; ``first`` is the time in seconds to the first token of a stream."""
        self._child(self._seconds, learner, stage, outcome).observe(seconds)
        if first is not None:
            self._child(self._first, learner, stage).observe(first)
        for kind in ("input", "cached", "output"):
            if count := getattr(tokens, kind, 0):
                self._child(self._tokens, learner, stage, kind).inc(count)
        self._note(learner, stage, outcome, seconds, first)

    def _child(self, family: Any, *labels: str) -> Any:
        known = self._children.get((family, labels))
        if known is None:
            known = self._children[family, labels] = family.labels(*labels)
        return known

    def _note(self, name: str, stage: str, outcome: str, seconds: float, first: float | None) -> None:
        """Pass a call to the learner's observers that keep sums by minute."""
        learner = None if self._service is None else self._service.learners.get(name)
        if self._service is None or learner is None or stage not in learner.kind.names:
            return
        k, at = learner.kind.names.index(stage), self._service.options.clock()
        amounts = {f"calls_{k}": 1.0, f"seconds_{k}": seconds, f"errors_{k}": float(outcome not in GOOD)}
        if first is not None:
            amounts |= {f"streams_{k}": 1.0, f"first_{k}": first}
        notes = [one.note for one in learner.observers.values() if hasattr(one, "note")]
        for note in notes:
            for column, amount in amounts.items():
                if amount:
                    note(at, column, amount)


def prices_expected(
    settings: ProxySettings, invoice: Invoice, characters: int, turns: int = 1
) -> list[float]:
    """Return what a request of so many characters is expected to cost on each stage, in rising order.

    Its input by what a stage has reported for characters so far, its output and seconds by their means. With ``turns``
    it is the mean over a conversation that goes on from here: only the first turn has nothing cached.
    """
    found: list[float] = []
    for stage, line in zip(settings.stages, invoice.lines):
        share = line.reported / line.characters if line.characters else 1.0 / PER_TOKEN
        made = line.made / line.complete if line.complete else float(stage.expect.output)
        waited = line.seconds / line.complete if line.complete else stage.expect.seconds
        given = math.ceil(characters * share)
        each = (stage.price.of(Tokens(given)) + (turns - 1) * stage.price.of(Tokens(given, given))) / turns
        money = each + made * stage.price.output / 1e6
        found.append(max([money + waited * settings.waiting_price, *found[-1:]]))
    return found


def alone_estimated(settings: ProxySettings, invoice: Invoice, given: int, characters: int | None) -> float:
    """Estimate what the baseline would have cost: the input that another model claims, and its own mean output.

    A claim of more than twice what the baseline would have counted for these characters is not believed.
    """
    stage, line = settings.stages[settings.baseline], invoice.lines[settings.baseline]
    made = line.made / line.complete if line.complete else stage.expect.output
    if characters is not None:
        share = line.reported / line.characters if line.characters else 1.0 / PER_TOKEN
        own = math.ceil(characters * share)
        given = own if given > 2 * own + OVERHEAD else given
    return stage.price.of(Tokens(given, 0, 0)) + made * stage.price.output / 1e6
