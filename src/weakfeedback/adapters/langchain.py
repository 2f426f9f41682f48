"""Models of LangChain behind a router, as one runnable. Needs the package ``langchain-core``.

router = Router(2, prices=[1, 20], error_cost=100, context=["task"])
model = runnable(router, [small, large], context=lambda messages: {"task": "classify"})
chain = prompt | model | parser
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from weakfeedback.live.router import Router, RouterDecision
from weakfeedback.validate import brief


def text_of(output: Any) -> Any:
    """Return what two answers are compared by: the text of a message without white space around it, else the answer.

    >>> text_of(" Paris "), text_of(7)
    ('Paris', 7)
    """
    content = getattr(output, "content", output)
    return content.strip() if isinstance(content, str) else content if content is output else str(content)


def runnable(
    router: Router,
    models: Sequence[Any],
    *,
    label: Callable[[Any], Any] = text_of,
    context: Callable[[Any], Any] | None = None,
) -> Any:
    """Return a runnable that asks the router which models to invoke, and returns the answer of the last of them.

    Parameters
    ----------
    router : Router
        Made for a number of models that run elsewhere, ``Router(2, ...)``; it may have a journal. Prices are per call.
    models : K runnables
        From the cheapest to the most expensive: chat models, chains, agents.
    label : callable
        Takes an output and returns what two of them are compared by.
    context : callable, optional
        Takes the input and returns what is known of it, for a router with ``context=[...]``.

    ``invoke`` and ``ainvoke`` pass their config to the models; ``ainvoke`` runs all of a decision at once. If the
    answering model raises, the decision is cancelled and the error goes on. If another one does, its comparison is
    cancelled and the answer stands, as with `Router` itself.
    """
    if not isinstance(router, Router):
        raise ValueError(f"router must be a Router, got {brief(router)}")
    count = len(router.report().prices) if router.promised is None else len(models)
    if len(models) != count or not all(callable(getattr(model, "invoke", None)) for model in models):
        raise ValueError(
            f"models must be {count} runnables, one per model of the router, got {brief(models)}"
        )

    def decided(given: Any) -> RouterDecision:
        return router.decide(context=None if context is None else context(given))

    def tell(decision: RouterDecision, outputs: dict[int, Any]) -> None:
        """Give the outputs as feedback, or cancel a comparison of which one is missing."""
        if len(decision.call) < 2:
            return
        if len(outputs) < len(decision.call):
            router.cancel(decision.id)
            return
        try:
            router.feedback(decision.id, [label(outputs[k]) for k in decision.call])
        except BaseException:  # answers that cannot be compared
            router.cancel(decision.id)
            raise

    def invoke(given: Any, config: Any) -> Any:
        decision = decided(given)
        outputs: dict[int, Any] = {}
        try:
            outputs[decision.answer] = models[decision.answer].invoke(given, config)
        except BaseException:
            router.cancel(decision.id)
            raise
        for k in decision.call[:-1]:
            try:
                outputs[k] = models[k].invoke(given, config)
            except Exception:  # the answer stands, and the comparison is cancelled
                break
        tell(decision, outputs)
        return outputs[decision.answer]

    async def ainvoke(given: Any, config: Any) -> Any:
        decision = decided(given)
        calls = [models[k].ainvoke(given, config) for k in decision.call]
        try:
            found = await asyncio.gather(*calls, return_exceptions=True)
        except BaseException:
            router.cancel(decision.id)
            raise
        if isinstance(found[-1], BaseException):
            router.cancel(decision.id)
            raise found[-1]
        outputs = {k: one for k, one in zip(decision.call, found) if not isinstance(one, BaseException)}
        tell(decision, outputs)
        return outputs[decision.answer]

    made = importlib.import_module("langchain_core.runnables").RunnableLambda
    return made(invoke, afunc=ainvoke, name="weakfeedback")
