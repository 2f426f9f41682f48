"""What the proxy asks the decision service: which models to call, and what their answers taught."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.models import (
    AgainRequest,
    BeginRequest,
    CancelRequest,
    CostsRequest,
    DecideRequest,
    FeedbackRequest,
    Problem,
    TellRequest,
)
from weakfeedback.serve.proxy.settings import ProxySettings
from weakfeedback.serve.service import Service

UNABLE = (
    "store_unavailable",
    "learner_replaying",
    "kept_out",
    "starting",
    "standby",
    "moving",
    "stopping",
    "unknown_learner",
    "archived",
    "decision_open",
    "too_many_pending",
    "not_offered",
)
BILLS = "/v1/bills/{name}"  # where another instance takes them
STORED, REFUSED = 204, 422  # how it answers
ENDED = ("conflict", "expired", "cancelled", "forgotten", "unknown_decision")  # nothing is left to do


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
    turn: str | None = None  # of a conversation: first, same or up
    stored: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class NextStage:
    """A step of an adaptive learner: the stage to call next, or None if the last answer is good enough."""

    id: int
    stage: int | None
    again: bool = False  # ask the reference a second time


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


class Decider:
    """Decides with the learners of the service. Every method may raise `Unavailable`."""

    def __init__(self, service: Service, learners: Iterable[ProxySettings]) -> None:
        self._service = service
        self._settings = {settings.name: settings for settings in learners}
        self._places = {
            settings.name: {stage.name: k for k, stage in enumerate(settings.stages)}
            for settings in self._settings.values()
        }

    async def decide(self, learner: str, key: str | None, told: dict[str, Any]) -> Ruling:
        """Decide which stages to call; a key that was seen before gets its earlier decision.

        ``told`` is what is known of the request, the fields of a `DecideRequest`.
        """
        given = DecideRequest(**told) if told else None
        (found,), future = await self._ask(self._service.decide_ahead(learner, given, key))
        commit = self._service.steps.later(future)
        place = self._places[learner]
        call = tuple(place[name] for name in found["call"])
        waits = found["expires"] is not None and not found["repeated"]

        async def stored() -> None:
            await self._ask(commit())

        turn = found.get("turn")
        return Ruling(found["id"], call, found["stage"], found["repeated"], waits, turn, stored)

    async def begin(self, learner: str, group: str | None = None) -> NextStage:
        """Begin a request of an adaptive learner."""
        found = await self._ask(self._service.begin(learner, BeginRequest(group=group)))
        return NextStage(found["id"], found["stage"])

    async def tell_failed(self, learner: str, id: int, stage: int) -> NextStage:
        """Tell that the requested stage gave no answer; for a promise, whose reference answers then."""
        return await self._tell(learner, id, TellRequest(output=None, failed=True, stage=stage))

    async def unseen(self, learner: str, group: str | None) -> bool:
        """Count an answer that nobody can compare with the reference, which failed; whether it may go out."""
        return bool(await self._ask(self._service.unseen(learner, group)))

    def is_shadowed(self, learner: str) -> bool:
        """Whether a promise is in the shadow now: then what goes out is no part of it."""
        known = self._service.learners.get(learner)
        promised = None if known is None else getattr(known.core.terms, "promise", None)
        return promised is not None and bool(promised.shadow)

    def risk(self, learner: str, id: int) -> float | None:
        """Return the estimated risk that an answer differs from the reference's, None where none is promised."""
        known = self._service.learners.get(learner)
        live: Any = None if known is None else known.live
        if live is None or getattr(live, "promised", None) is None or known is None or known.lock.locked():
            return None
        found: float | None = live.risk(id)
        return found

    async def tell(
        self, learner: str, id: int, stage: int, label: int, score: float | None, cost: float
    ) -> NextStage:
        """Tell the answer of the requested stage: its class of equal answers, its score and its price."""
        return await self._tell(learner, id, TellRequest(output=label, stage=stage, score=score, cost=cost))

    async def _tell(self, learner: str, id: int, given: TellRequest) -> NextStage:
        found = await self._ask(self._service.tell(learner, id, given))
        if found is None:
            raise Unavailable(f"decision {id} has ended")
        return NextStage(id, found["stage"], "again" in found)

    async def check_again(self, learner: str, id: int, differs: bool, cost: float) -> None:
        """Tell whether the second answer of the reference differs from the first, and what it cost."""
        await self._ask(self._service.again(learner, id, AgainRequest(differs=differs, cost=cost)))

    async def feedback(
        self,
        learner: str,
        id: int,
        differ: Sequence[tuple[int, int]],
        far: Sequence[float] | None,
        digest: str,
        spending: Spending,
        failed: Sequence[int] = (),
    ) -> bool:
        """Report which pairs of stages differed, or the distances of all pairs of the call.

        Return whether the reference shall be asked a second time.
        """
        seen: dict[str, Any] = {"differ": [list(pair) for pair in differ]}
        if failed:
            seen["failed"] = list(failed)
        if far is not None:
            seen = {"distance": list(far)}
        if self._settings[learner].kind != "router":
            seen["costs"] = [cost for _, cost in sorted(spending.costs.items())]
        given = FeedbackRequest(**seen)
        extra = {"spent": spending.total, "tokens": list(spending.tokens)}
        found = await self._ask(self._service.feedback(learner, id, given, digest=digest, extra=extra))
        return found is not None and "again" in found

    async def cancel(self, learner: str, id: int, spending: Spending, reason: str) -> None:
        """Cancel a decision; nothing is learned, and its cost counts as wasted."""
        await self._ask(self._service.cancel(learner, id, CancelRequest(cost=spending.total, reason=reason)))

    async def serve(self, learner: str, stage: int, spending: Spending) -> None:
        """Count a request that was answered without a decision of its own; its tokens are counted with its calls."""
        await self._ask(self._service.note(learner, "serve", {"stage": stage, "cost": spending.total}))

    async def bill(self, learner: str, bill: dict[str, Any], key: str, again: bool = False) -> None:
        """Store a bill, ``again`` if it may be stored already under its key; see `weakfeedback.serve.invoice`.

        If another instance owns the learner by now, that one stores it.
        """
        try:
            await self._ask(self._service.note(learner, "bill", bill, key, again))
        except Unavailable:
            sharing = self._service.sharing
            if sharing is None or sharing.passing is None:
                raise
            status = await sharing.passing.tell(
                learner, BILLS.format(name=learner), {"key": key, "bill": bill}
            )
            if status == REFUSED:
                raise ValueError("the owner of the learner refuses the bill") from None
            if status != STORED:
                raise

    def invoice(self, learner: str) -> Invoice:
        """Return the sums of all bills, or an empty invoice if they cannot be read now."""
        known = self._service.learners.get(learner)
        return Invoice(len(self._places[learner])) if known is None else known.invoice

    async def recost(self, learner: str, prices: list[float]) -> None:
        """Continue with new prices."""
        name = "prices" if self._settings[learner].kind == "router" else "stage_costs"
        await self._ask(self._service.recost(learner, CostsRequest(**{name: prices})))  # type: ignore[arg-type]

    def held(self, learner: str, conversation: str) -> int | None:
        """Return the stage that a conversation is on, None if it is not known."""
        found: int | None = self._live(learner).model_of(conversation)
        return found

    async def move(self, learner: str, conversation: str, stage: int) -> None:
        """Let a conversation go on with the stage that answered."""
        await self._ask(self._service.move_conversation(learner, conversation, stage))

    def settled(self, learner: str) -> int:
        """Return the stage that the learner trusts now."""
        try:
            return int(self._live(learner).settled())
        except ValueError as error:  # the learner trusts no single stage
            raise Unavailable(str(error)) from None

    def _live(self, learner: str) -> Any:
        try:
            return self._service.learner(learner).live
        except Problem as problem:
            raise Unavailable(problem.detail) from None

    async def _ask(self, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except Problem as problem:
            if problem.code in ENDED:
                return None
            if problem.code in UNABLE:
                raise Unavailable(problem.detail) from None
            if problem.code == "wrong_outputs":  # nothing can be learned from these answers
                raise ValueError(problem.detail) from None
            raise
