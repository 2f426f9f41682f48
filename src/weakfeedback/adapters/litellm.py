"""Models of LiteLLM behind a router, as one model of a provider of its own. Needs the package ``litellm``.

router = Router(2, prices=[0.0003, 0.005], error_cost=0.05, context=["task"])
plug_in(router, ["openai/gpt-4o-mini", "openai/gpt-4o"])
litellm.completion(model="weakfeedback/router", messages=[...], metadata={"task": "classify"})
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from weakfeedback.adapters.elsewhere import Elsewhere
from weakfeedback.live.router import Router


def answer_of(response: Any) -> Any:
    """Return what two answers are compared by: the text of the first choice, and the tools that it calls."""
    message = response.choices[0].message
    tools = [
        (one.function.name, one.function.arguments) for one in getattr(message, "tool_calls", None) or ()
    ]
    return (message.content or "").strip(), tuple(tools)


def plug_in(
    router: Router,
    models: Sequence[str],
    *,
    provider: str = "weakfeedback",
    label: Callable[[Any], Any] = answer_of,
    context: Callable[[dict[str, Any]], Any] | None = None,
    conversation: Callable[[dict[str, Any]], Any] | None = None,
) -> Any:
    """Register a provider whose models are those of the router; return its handler.

    Parameters
    ----------
    router : Router
        Made for a number of models that run elsewhere, ``Router(2, ...)``; it may have a journal. Prices are per call.
    models : K names
        As LiteLLM knows them, from the cheapest to the most expensive.
    provider : str
        Requests for ``"provider/anything"`` are then decided by the router. Registering it again replaces it.
    label : callable
        Takes a response and returns what two of them are compared by.
    context : callable, optional
        Takes a request, a dict with ``messages`` and the parameters, and returns what is known of it. Left out, the
        features are looked up in the ``metadata`` of the request.
    conversation : callable, optional
        Takes a request and returns the key of its conversation, or None: the first request of a key decides, later ones
        stay with its model or move up. Left out, it is ``session_id`` in the ``metadata``, if there is one.

    ``completion`` and ``acompletion`` are offered, not streams. Parameters such as ``temperature`` are passed on. If
    the answering model raises, the decision is cancelled and the error goes on. If another one does, its comparison is
    cancelled and the answer stands.
    """
    litellm: Any = importlib.import_module("litellm")
    features = getattr(router, "features", ())  # what is no router is refused below

    def known(request: dict[str, Any]) -> Any:
        told = request.get("metadata") or {}
        return {name: told[name] for name in features if name in told}

    def session(request: dict[str, Any]) -> Any:
        found = (request.get("metadata") or {}).get("session_id")
        return None if found is None else str(found) or None

    chosen = context if context is not None else known if features else None
    talk = session if conversation is None else conversation
    rounds = Elsewhere(
        router, models, label, chosen, talk, "names of models", lambda one: isinstance(one, str)
    )

    def completion(_: Any, *, model: str, messages: Any, optional_params: Any = None, **more: Any) -> Any:
        request = _request(model, messages, optional_params, more)
        passed = _passed(request)
        return rounds.play(
            request, lambda k: litellm.completion(model=models[k], messages=messages, **passed)
        )

    async def acompletion(
        _: Any, *, model: str, messages: Any, optional_params: Any = None, **more: Any
    ) -> Any:
        request = _request(model, messages, optional_params, more)
        passed = _passed(request)
        return await rounds.play_async(
            request, lambda k: litellm.acompletion(model=models[k], messages=messages, **passed)
        )

    methods = {"completion": completion, "acompletion": acompletion}
    handler = type("RouterOfModels", (litellm.CustomLLM,), methods)()
    others = [one for one in litellm.custom_provider_map if one["provider"] != provider]
    litellm.custom_provider_map = [*others, {"provider": provider, "custom_handler": handler}]
    litellm.utils.custom_llm_setup()
    return handler


def _request(model: str, messages: Any, optional: Any, more: dict[str, Any]) -> dict[str, Any]:
    """Return a request as its caller made it, as far as LiteLLM tells."""
    inner = more.get("litellm_params") or {}
    return {**(optional or {}), "model": model, "messages": messages, "metadata": inner.get("metadata")}


def _passed(request: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that the models get."""
    return {name: value for name, value in request.items() if name not in ("model", "messages", "metadata")}
