"""One request to a router whose models run elsewhere: decide, call, compare, tell; nothing is left open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from weakfeedback.live.router import Router, RouterDecision
from weakfeedback.validate import brief


class Elsewhere:
    """A router, how many models it calls, what two answers are compared by, and what is known of a request."""

    def __init__(
        self,
        router: Router,
        models: Sequence[Any],
        label: Callable[[Any], Any],
        context: Callable[[Any], Any] | None,
        conversation: Callable[[Any], Any] | None,
        kind: str,
        fits: Callable[[Any], bool],
    ) -> None:
        if not isinstance(router, Router):
            raise ValueError(f"router must be a Router, got {brief(router)}")
        count = len(router.report().prices) if router.promised is None else len(models)
        if len(models) != count or not all(fits(model) for model in models):
            raise ValueError(
                f"models must be {count} {kind}, one per model of the router, got {brief(models)}"
            )
        self.router, self.label, self.context, self.conversation = router, label, context, conversation

    def play(self, given: Any, call: Callable[[int], Any]) -> Any:
        """Return the answer to one request, for which ``call(k)`` calls model k.

        If the answering model raises, the decision is cancelled and the error goes on. If another one does, its
        comparison is cancelled and the answer stands.
        """
        decision = self._decide(given)
        outputs: dict[int, Any] = {}
        try:
            outputs[decision.answer] = call(decision.answer)
        except BaseException:
            self.router.cancel(decision.id)
            raise
        for k in decision.call[:-1]:
            try:
                outputs[k] = call(k)
            except Exception:  # the answer stands, and the comparison is cancelled
                break
        return self._answer(decision, outputs)

    async def play_async(self, given: Any, call: Callable[[int], Awaitable[Any]]) -> Any:
        """Do the same, with all models of the decision at once."""
        decision = self._decide(given)
        try:
            found = await asyncio.gather(*(call(k) for k in decision.call), return_exceptions=True)
        except BaseException:
            self.router.cancel(decision.id)
            raise
        last = found[-1]
        if isinstance(last, BaseException):
            self.router.cancel(decision.id)
            raise last
        outputs = {k: one for k, one in zip(decision.call, found) if not isinstance(one, BaseException)}
        return self._answer(decision, outputs)

    def _decide(self, given: Any) -> RouterDecision:
        context = None if self.context is None else self.context(given)
        talk = None if self.conversation is None else self.conversation(given)
        return self.router.decide(context=context, conversation=talk)

    def _answer(self, decision: RouterDecision, outputs: dict[int, Any]) -> Any:
        """Give the outputs as feedback, or cancel a comparison of which one is missing; return the answer."""
        if len(decision.call) > 1 and len(outputs) < len(decision.call):
            self.router.cancel(decision.id)
        elif len(decision.call) > 1:
            try:
                self.router.feedback(decision.id, [self.label(outputs[k]) for k in decision.call])
            except BaseException:  # answers that cannot be compared
                self.router.cancel(decision.id)
                raise
        return outputs[decision.answer]
