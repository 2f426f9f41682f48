"""Models of LangChain behind a router, as one runnable. Needs the package ``langchain-core``.

router = Router(2, prices=[1, 20], error_cost=100, context=["task"])
model = runnable(router, [small, large], context=lambda messages: {"task": "classify"})
chain = prompt | model | parser
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from weakfeedback.adapters.elsewhere import Elsewhere
from weakfeedback.live.router import Router


def text_of(output: Any) -> Any:
    """Return what two answers are compared by: the text of a message without white space around it, else the answer.

    >>> text_of(" Paris "), text_of(7)
    ('Paris', 7)
    """
    content = getattr(output, "content", output)
    return content.strip() if isinstance(content, str) else content if content is output else str(content)


def thread_of(request: tuple[Any, Any]) -> str | None:
    """Return the conversation that a config names: its thread, or else its session.

    >>> thread_of(("hello", {"configurable": {"thread_id": 7}})), thread_of(("hello", {}))
    ('7', None)
    """
    named = (request[1] or {}).get("configurable") or {}
    found = named.get("thread_id", named.get("session_id"))
    return None if found is None else str(found) or None


def runnable(
    router: Router,
    models: Sequence[Any],
    *,
    label: Callable[[Any], Any] = text_of,
    context: Callable[[Any], Any] | None = None,
    conversation: Callable[[Any], Any] | None = None,
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
    conversation : callable, optional
        Takes the input and returns the key of its conversation, or None: the first request of a key decides, later ones
        stay with its model or move up. Left out, it is ``config["configurable"]["thread_id"]``, as of LangGraph, or
        ``session_id``, as of a history of messages, if there is one.

    ``invoke`` and ``ainvoke`` pass their config to the models; ``ainvoke`` runs all of a decision at once. If the
    answering model raises, the decision is cancelled and the error goes on. If another one does, its comparison is
    cancelled and the answer stands, as with `Router` itself.
    """
    about = None if context is None else lambda request: context(request[0])
    rounds = Elsewhere(
        router,
        models,
        label,
        about,
        thread_of if conversation is None else lambda request: conversation(request[0]),
        "runnables",
        lambda one: callable(getattr(one, "invoke", None)),
    )

    def invoke(given: Any, config: Any) -> Any:
        return rounds.play((given, config), lambda k: models[k].invoke(given, config))

    async def ainvoke(given: Any, config: Any) -> Any:
        return await rounds.play_async((given, config), lambda k: models[k].ainvoke(given, config))

    made = importlib.import_module("langchain_core.runnables").RunnableLambda
    return made(invoke, afunc=ainvoke, name="weakfeedback")
