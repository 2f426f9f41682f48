"""What can be changed on a learner's page by those who may: each action is one request of the API."""

from __future__ import annotations

from typing import Any

from weakfeedback.serve.learner import Learner


def actions_of(learner: Learner, *, chat: bool) -> dict[str, Any]:
    """Return the prices that can be changed, and whether an audit can begin; ``chat`` if prices follow its calls."""
    config, names = learner.settings(), learner.kind.names
    field = next((one for one in ("prices", "stage_costs") if one in config), None)
    prices: list[tuple[str, float]] = []
    if field is not None and not chat:
        prices = list(zip(names, config[field]))
    audited = learner.kind.name in ("cascade", "router") and hasattr(learner.live, "audit_outputs")
    return {
        "field": field,
        "prices": prices,
        "error_cost": config.get("error_cost"),
        "agree": None if config.get("agree") is None else f"{100 * config['agree']:g}",
        "budget": config.get("budget"),
        "reference": config.get("reference") or names[-1],
        "follows": chat,
        "background": bool(config.get("background")),
        "audit": names if audited and config.get("compare", {}).get("type") != "number" else [],
    }
