"""The limits of requests, learners and the service: one table, for the models, /openapi.json and the documentation.

A number that is finite but extreme (1.7e308) makes sums infinite, and an infinite sum cannot be stored. So amounts and
times are bounded where they come in. A stored configuration of an older version may lie beyond the bounds: `clamped`.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"  # in documents, where $ is the end; use is_name to check
AMOUNT_LIMIT = 1e15  # of money, budgets, scales and scores
SMALLEST = 1e-15  # of what others are divided by
TTL_LIMIT = 100 * 365.25 * 86_400  # seconds
CONTEXT_LIMIT = 198  # numbers: they have n(n+3)/2 + 1 features, of which a policy takes 20,000
MATRIX_LIMIT = 2**25  # numbers in the matrices of a contextual learner, one for each pair of stages
HISTORY_LIMIT = 2**27  # numbers in the observations that it keeps
KEEP_LIMIT = 1_000_000  # observations
PAIRS_LIMIT = 100_000  # comparisons in a warm start, whose event is one text
STAGES_LIMIT = 64
TEXT_LIMIT = 64  # characters of the name of a stage, model or arm
LABEL_LIMIT = 4096  # characters
KEY_LIMIT = 128  # characters
NESTING_LIMIT = (
    128  # levels of lists and objects, so that no recursive code runs out of stack; orjson writes 254
)
REASON_LIMIT = 200  # characters
BATCH_LIMIT = 1000
PENDING_LIMIT = 10_000
LEARNERS_LIMIT = 10_000
IN_FLIGHT_LIMIT = 500
CONNECTIONS_LIMIT = 10_000
BODY_LIMIT = 2**20  # bytes
HEADER_LIMIT = 2**16  # bytes


class Limit(NamedTuple):
    """One row of the table: what is limited, by which number, and the code of the problem beyond it."""

    what: str
    most: float
    unit: str
    code: str

    def __str__(self) -> str:
        """Return the limit in words."""
        shown = f"{self.most:,}" if isinstance(self.most, int) else f"{self.most:g}"
        return f"at most {shown} {self.unit}".rstrip()


LIMITS = {
    "amount": Limit("prices, costs, budgets, scores, numbers of a context", AMOUNT_LIMIT, "", "invalid"),
    "error_cost": Limit("`1 / error_cost`, and the same of a budget or a scale", 1 / SMALLEST, "", "invalid"),
    "pending_ttl": Limit("`pending_ttl`", int(TTL_LIMIT), "seconds (100 years)", "invalid"),
    "context": Limit("a context", CONTEXT_LIMIT, "numbers", "invalid"),
    "matrices": Limit(
        "pairs of stages times (features of a context) squared", MATRIX_LIMIT, "", "wrong_context"
    ),
    "history": Limit("`keep` times features of a context", HISTORY_LIMIT, "", "wrong_context"),
    "keep": Limit("`keep` of a contextual learner", KEEP_LIMIT, "observations", "invalid"),
    "stages": Limit("stages, models or arms", STAGES_LIMIT, "", "too_many_stages"),
    "text": Limit("the name of one of them, printable", TEXT_LIMIT, "characters", "invalid"),
    "label": Limit("a label", LABEL_LIMIT, "characters", "label_too_long"),
    "key": Limit("an idempotency key, printable ASCII", KEY_LIMIT, "characters", "key_too_long"),
    "reason": Limit("the reason of a cancellation", REASON_LIMIT, "characters", "invalid"),
    "batch": Limit("decisions or feedbacks in one request", BATCH_LIMIT, "", "too_many_items"),
    "warm": Limit("rows of a warm start times pairs of stages", PAIRS_LIMIT, "", "too_many_items"),
    "pending": Limit("open decisions of a learner", PENDING_LIMIT, "", "too_many_pending"),
    "learners": Limit("learners", LEARNERS_LIMIT, "", "too_many_learners"),
    "in_flight": Limit("requests under way", IN_FLIGHT_LIMIT, "", "too_many_requests"),
    "connections": Limit(
        "connections, fewer where there are few descriptors", CONNECTIONS_LIMIT, "", "too_many_requests"
    ),
    "body": Limit("a body", BODY_LIMIT, "bytes", "too_large"),
    "headers": Limit("the headers of a request", HEADER_LIMIT, "bytes", "headers_too_large"),
}

_NAME = re.compile(NAME[1:-1])


def is_name(name: Any) -> bool:
    """Whether this is a valid name of a learner."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_deep(raw: bytes, data: Any) -> bool:
    """Whether ``data``, parsed from ``raw``, is nested more deeply than `NESTING_LIMIT`."""
    if raw.count(b"[") + raw.count(b"{") <= NESTING_LIMIT:  # nearly always
        return False
    level = [data]
    for _ in range(NESTING_LIMIT):
        level = [
            item
            for one in level
            if isinstance(one, (list, dict))
            for item in (one if isinstance(one, list) else one.values())
        ]
    return any(isinstance(one, (list, dict)) for one in level)


# fields of a stored configuration, with the smallest and the largest value
_BOUNDS = {
    "pending_ttl": (0.0, TTL_LIMIT),
    "error_cost": (SMALLEST, AMOUNT_LIMIT),
    "stage_costs": (0.0, AMOUNT_LIMIT),
    "prices": (0.0, AMOUNT_LIMIT),
    "label_price": (0.0, AMOUNT_LIMIT),
    "budget": (SMALLEST, AMOUNT_LIMIT),
    "scale": (SMALLEST, AMOUNT_LIMIT),
    "keep": (100, KEEP_LIMIT),
}


def clamped(config: dict[str, Any], warnings: list[str], where: str) -> dict[str, Any]:
    """Return a stored configuration within the limits; a line about each change is added to ``warnings``."""
    found = dict(config)
    for field, value in config.items():
        if isinstance(value, dict) and field != "options":
            found[field] = clamped(value, warnings, f"{where}: {field}")
        elif field in _BOUNDS and value is not None:
            least, most = _BOUNDS[field]
            many = isinstance(value, list)
            bounded = [min(max(one, least), most) for one in (value if many else [value])]
            found[field] = bounded if many else bounded[0]
            if found[field] != value:
                warnings.append(
                    f"{where}: {field} = {value!r:.60} is beyond the limits of this version: "
                    f"{found[field]!r:.60} is used"
                )
    return found
