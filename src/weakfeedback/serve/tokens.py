"""Operations on tokens: who used what, and reading them anew."""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime
from typing import Any

from weakfeedback.serve.api import Incoming, Operation, Outgoing
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.models import Problem, ReloadAnswer, TokensAnswer

RELOAD = "/v1/tokens/reload"
READ = "the tokens were read again: there are %d"

log = logging.getLogger("weakfeedback.serve")


def tokens_told(auth: Auth) -> list[dict[str, Any]]:
    """Return the tokens with what was used under their names, without their secrets."""
    told = []
    for token in auth.tokens:
        used, (today, money) = auth.usage.of(token.name), auth.usage.money(token.name)
        end = None if math.isinf(token.expires) else datetime.fromtimestamp(token.expires, UTC)
        told.append(
            {
                "name": token.name,
                "scope": token.scope,
                "expires": None if end is None else f"{end:%Y-%m-%dT%H:%M:%SZ}",
                "requests": used.requests,
                "refused": used.refused,
                "per_minute": token.per_minute,
                "money": money,
                "today": today,
                "per_day": token.per_day,
            }
        )
    return told


def reload_tokens(auth: Auth, settings: Any) -> int:
    """Read the tokens anew, and return how many there are; Problem, and nothing changes, if that fails."""
    if settings is None or settings.reload is None:
        raise Problem("invalid", "there is no configuration to read the tokens from")
    try:
        auth.replace(settings.reload().tokens)
    except Exception as error:  # whatever is wrong with the file
        raise Problem("invalid", str(error)) from None
    return len(auth.tokens)


def token_operations(auth: Auth, settings: Any) -> list[Operation]:
    """Return the operations on the tokens of a service."""

    async def used(_: Incoming) -> Outgoing:
        return Outgoing({"tokens": tokens_told(auth)})

    async def reload(call: Incoming) -> Outgoing:
        count, sharing = reload_tokens(auth, settings), call.service.sharing
        log.warning(READ, count)
        passing = None if sharing is None else sharing.passing
        if passing is not None and not passing.is_passed(call.headers):
            await passing.tell_all(RELOAD)
        return Outgoing({"tokens": count})

    return [
        Operation(
            "GET",
            "/v1/tokens",
            "admin",
            used,
            "Say who used what: requests since the start, money ever.",
            answer=TokensAnswer,
        ),
        Operation(
            "POST",
            RELOAD,
            "admin",
            reload,
            "Read the tokens of the configuration anew, as SIGHUP does.",
            answer=ReloadAnswer,
            problems=("invalid",),
            told=True,
        ),
    ]
