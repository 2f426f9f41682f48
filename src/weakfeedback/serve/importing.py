"""Import a saved live object into a store, as a learner."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from weakfeedback.journal import Store
from weakfeedback.live import storage
from weakfeedback.serve.kinds import kind_of
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.limits import NAME, is_name
from weakfeedback.serve.models import CONFIG, Problem
from weakfeedback.serve.outbox import now


def import_state(
    store: Store,
    name: str,
    path: str | os.PathLike[str],
    parts: Sequence[str] | None = None,
) -> Learner:
    """Create a learner from a file written by ``save`` of a live object; it continues where that object stopped.

    Arguments:
        parts: the names of its stages, models or arms; by default the names in the file, or numbers.

    Raises ValueError with one line for a file that cannot become a learner, and for a name that is taken.
    """
    if not is_name(name):
        raise ValueError(f"a name must match {NAME[1:-1]}, got {name!r:.70}")
    kind, body = storage.read_one_of(path, tuple(CONFIGURED))
    try:
        config = CONFIG.validate_python(CONFIGURED[kind](body, parts))
        live = kind_of(config).again(body, False)
    except Problem as problem:
        raise ValueError(f"{path} cannot become a learner: {problem.detail}") from None
    except ValueError as error:
        words = " ".join(str(error).split())
        raise ValueError(f"{path} cannot become a learner: {words}") from None
    if any(one.name == name for one in store.learners()):
        raise ValueError(f"{store.place} has a learner named {name!r} already")
    at = now()
    learner = Learner(name, store.create_learner(name, at), config, live)
    learner.created = at
    learner.opened = dict.fromkeys(live.pending, at)
    learner.begin()
    learner.write_to(store)
    return learner


def _named(given: Sequence[str] | None, known: Any, count: int) -> list[str]:
    names = list(given) if given is not None else list(known or map(str, range(count)))
    if len(names) != count:
        raise ValueError(f"there must be {count} names, one for each, got {len(names)}")
    return names


def _policy(body: dict[str, Any]) -> dict[str, Any]:
    core = body["core"]
    if core["policy"] is None:
        raise ValueError("its policy is an object of your own, which a service cannot make")
    for name in ("combine", "compare", "metric", "label"):
        if body.get(name) is True:
            raise ValueError(f"it has a {name} function of your own, which a service cannot call")
    options = {name: storage.decode(value) for name, value in core["options"].items()}
    return {"policy": core["policy"], "options": options}


def _staged(body: dict[str, Any], parts: Sequence[str] | None) -> dict[str, Any]:
    costs = body["stage_costs"]
    return {"stages": _named(parts, None, len(costs)), "stage_costs": costs, "error_cost": body["error_cost"]}


def _cascade(body: dict[str, Any], parts: Sequence[str] | None) -> dict[str, Any]:
    told = {**_staged(body, parts), **_policy(body)}
    if "setting" in body:  # it decides after every answer
        return {"kind": "adaptive", **told}
    return {"kind": "cascade", **told, "label_price": body["purse"].get("price")}


def _contextual(body: dict[str, Any], parts: Sequence[str] | None) -> dict[str, Any]:
    return {"kind": "contextual", **_staged(body, parts), "keep": body["keep"], **_policy(body)}


def _router(body: dict[str, Any], parts: Sequence[str] | None) -> dict[str, Any]:
    told = {"models": _named(parts, None, len(body["prices"])), "prices": body["prices"]}
    return {"kind": "router", **told, "error_cost": body["error_cost"], **_policy(body)}


def _allocation(body: dict[str, Any], parts: Sequence[str] | None) -> dict[str, Any]:
    names = body["names"] = _named(parts, body["names"], body["arms"])
    told = {"arms": names, "budget": body["budget"], "setting": body["setting"]}
    return {"kind": "allocation", **told, **_policy(body)}


CONFIGURED: dict[str, Callable[[dict[str, Any], Sequence[str] | None], dict[str, Any]]] = {
    "Cascade": _cascade,
    "ContextualCascade": _contextual,
    "Router": _router,
    "Allocator": _allocation,
}
