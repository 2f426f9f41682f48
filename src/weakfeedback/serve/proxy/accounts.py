"""What the proxy notes of its calls, and what the baseline alone would have cost."""

from __future__ import annotations

import math
from typing import Protocol

from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.proxy.prices import PER_TOKEN, Tokens
from weakfeedback.serve.proxy.settings import ProxySettings

OVERHEAD = 100  # tokens around the messages of a request, more or less


class Watch(Protocol):
    """Receives every upstream call, for metrics."""

    def called(
        self,
        learner: str,
        stage: str,
        outcome: str,
        seconds: float,
        first: float | None,
        tokens: Tokens | None,
    ) -> None:
        """Record a call that ended; ``first`` is the time in seconds to the first token of a stream."""


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
