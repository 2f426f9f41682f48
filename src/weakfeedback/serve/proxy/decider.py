"""The interface between the proxy and the decision service: which models to call, and what their answers taught."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from weakfeedback.serve.invoice import Invoice


@dataclass(frozen=True, slots=True)
class Ruling:
    """Call the stages of ``call`` and answer with ``answer``; ``repeated`` if the key was seen before.

    ``open`` is set if the decision waits for feedback. ``stored`` returns when it is on disk, or raises `Unavailable`:
    the calls may begin earlier, but the client must not be answered before.
    """

    id: int
    call: tuple[int, ...]
    answer: int
    repeated: bool = False
    open: bool = True
    stored: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class NextStage:
    """A step of an adaptive learner: the stage to call next, or None if the last answer is good enough."""

    id: int
    stage: int | None


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of one request: money per stage called, and its total tokens (input, cached, output)."""

    costs: dict[int, float]
    tokens: tuple[int, int, int] = (0, 0, 0)
    more: float = 0.0  # cost of a judge or embeddings

    @property
    def total(self) -> float:
        """The total money."""
        return sum(self.costs.values()) + self.more


class Unavailable(Exception):
    """Nothing can be decided or learned now: the store cannot be written, or too much is pending."""


class Decider(Protocol):
    """The decision service, as far as the proxy needs it. Every method may raise `Unavailable`."""

    async def decide(
        self, learner: str, context: list[float] | None, key: str | None, group: str | None = None
    ) -> Ruling:
        """Decide which stages to call; a key that was seen before gets its earlier decision."""

    async def begin(self, learner: str, group: str | None = None) -> NextStage:
        """Begin a request of an adaptive learner."""

    async def tell_failed(self, learner: str, id: int, stage: int) -> NextStage:
        """Tell that the requested stage gave no answer; for a promise, whose reference answers then."""

    async def unseen(self, learner: str, group: str | None) -> bool:
        """Count an answer that nobody can compare with the reference, which failed; whether it may go out."""

    def risk(self, learner: str, id: int) -> float | None:
        """Return the estimated risk that an answer differs from the reference's, None where none is promised."""

    async def tell(
        self, learner: str, id: int, stage: int, label: int, score: float | None, cost: float
    ) -> NextStage:
        """Tell the answer of the requested stage: its class of equal answers, its score and its price."""

    async def feedback(
        self,
        learner: str,
        id: int,
        differ: Sequence[tuple[int, int]],
        far: Sequence[float] | None,
        digest: str,
        spending: Spending,
        failed: Sequence[int] = (),
    ) -> None:
        """Report which pairs of stages differed, or the distances of all pairs of the call."""

    async def cancel(self, learner: str, id: int, spending: Spending, reason: str) -> None:
        """Cancel a decision; nothing is learned, and its cost counts as wasted."""

    async def serve(self, learner: str, stage: int, spending: Spending) -> None:
        """Count a request that was answered without a decision of its own."""

    async def bill(self, learner: str, bill: dict[str, Any]) -> None:
        """Store a bill; see `weakfeedback.serve.invoice`."""

    def invoice(self, learner: str) -> Invoice:
        """Return the sums of all bills, or an empty invoice if they cannot be read now."""

    async def recost(self, learner: str, prices: list[float]) -> None:
        """Continue with new prices."""

    def gain(self, learner: str, low: int, high: int) -> float:
        """Return what a request gains if a dearer stage answers instead of a cheaper one, as far as it differs."""

    def settled(self, learner: str) -> int:
        """Return the stage that the learner trusts now."""
