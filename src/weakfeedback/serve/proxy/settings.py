"""The proxy's part of the configuration file: ``[upstream.NAME]`` and learners with ``[[learner.stage]]``.

Every mistake is one line that names the key, the value and what is allowed. Addresses of upstreams are given here and
nowhere else. Keys are never given here: only the name of their environment variable is.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from weakfeedback.serve.proxy.checks import (
    count_at,
    did_you_mean,
    flag_at,
    known_keys,
    number_at,
    shown,
    table_at,
    text_at,
    texts_at,
)
from weakfeedback.serve.proxy.compare import CompareSettings, read_compare
from weakfeedback.serve.proxy.price_file import PriceFile
from weakfeedback.serve.proxy.prices import Price, Tokens, read_price
from weakfeedback.serve.proxy.upstream import Timeouts, UpstreamSettings, is_private

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
LITERAL = ("key", "api_key", "apikey", "token", "secret", "password", "authorization", "headers", "bearer")
KINDS = ("router", "adaptive", "cascade", "contextual")
FEATURES = ("prompt_tokens", "messages", "has_code", "has_tools", "has_images", "header")

# fields that clients may send upstream
FIELDS = frozenset(
    [
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "n",
        "user",
        "reasoning_effort",
        "stream",
        "stream_options",
        "service_tier",
        "metadata",
    ]
)
# fields that no stage can allow: they could redirect a call, or are reserved for the proxy
NEVER = frozenset(
    [
        "model",
        "base_url",
        "api_base",
        "api_key",
        "url",
        "endpoint",
        "headers",
        "extra_headers",
        "extra_body",
        "extra_query",
        "organization",
    ]
)

UPSTREAM_KEYS = ("url", "key_env", "timeout", "retries")
STAGE_KEYS = ("name", "upstream", "model", "price", "expect", "params", "allow", "images", "logprobs")
LEARNER_KEYS = (
    "name",
    "kind",
    "mode",
    "stage",
    "error_cost",
    "currency",
    "waiting_price",
    "fallback",
    "baseline",
    "compare",
    "compare_timeout",
    "fail_open",
    "prefix",
    "features",
    "policy",
    "options",
    "judge",
    "seed",
    "pending_ttl",
    "passthrough",
)


@dataclass(frozen=True, slots=True)
class StageSettings:
    """A model of an upstream, and its price."""

    name: str
    upstream: str
    model: str
    price: Price
    expect: Tokens
    seconds: float
    params: dict[str, Any]
    allow: frozenset[str]
    images: bool
    logprobs: bool

    def expected(self, waiting_price: float) -> float:
        """Return the expected cost of a call, used until enough calls were seen."""
        return self.price.of(self.expect) + self.seconds * waiting_price


@dataclass(frozen=True, slots=True)
class Feature:
    """A number about a request, mapped to [-1, 1]."""

    name: str
    low: float
    high: float
    size: int


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """A learner whose stages are models of upstreams."""

    name: str
    kind: str
    stages: tuple[StageSettings, ...]
    compare: CompareSettings
    error_cost: float
    currency: str | None
    waiting_price: float
    fallback: int
    baseline: int
    compare_timeout: float
    fail_open: bool
    features: tuple[Feature, ...]
    passthrough: bool  # whether clients may name the models of the stages
    more: dict[str, Any]  # policy, options, seed, pending_ttl, if given

    def prices(self) -> list[float]:
        """Return the expected cost of a call of each stage."""
        return [stage.expected(self.waiting_price) for stage in self.stages]

    def terms(self) -> dict[str, Any]:
        """Return what the models are called and cost, for the invoice."""
        models = [
            {
                "name": stage.name,
                "model": stage.model,
                "upstream": stage.upstream,
                "price": {
                    "input": stage.price.input,
                    "cached": stage.price.cached,
                    "output": stage.price.output,
                },
            }
            for stage in self.stages
        ]
        return {"models": models, "baseline": self.baseline, "waiting_price": self.waiting_price}

    def learner(self) -> dict[str, Any]:
        """Return the learner as the decision service creates it."""
        names, prices = [stage.name for stage in self.stages], self.prices()
        made: dict[str, Any] = {"kind": self.kind, "error_cost": self.error_cost, **self.more}
        if self.kind == "router":
            made |= {"models": names, "prices": prices}
        else:
            made |= {"stages": names, "stage_costs": prices}
        if self.currency is not None:
            made["currency"] = self.currency
        if self.compare.metric:
            made["compare"] = {"type": "number", "scale": 1.0}
        return made


def read_upstreams(table: Any) -> dict[str, UpstreamSettings]:
    """Return the upstreams of the table ``upstream``, by name."""
    found = {}
    for name, entry in table_at("upstream", table).items():
        where = f"upstream.{name}"
        if not NAME.fullmatch(name):
            raise ValueError(f"{where} must be named with a-z, 0-9, - and _, got {shown(name)}")
        found[name] = _upstream(where, name, table_at(where, entry))
    return found


def _upstream(where: str, name: str, table: dict[str, Any]) -> UpstreamSettings:
    _refuse_literal(where, table)
    known_keys(where, table, UPSTREAM_KEYS)
    key_env = table.get("key_env")
    if key_env is not None and not (isinstance(key_env, str) and VARIABLE.fullmatch(key_env)):
        # do not show the value: it may be the key itself
        raise ValueError(
            f"{where}.key_env must be the name of an environment variable, such as CLOUD_API_KEY"
        )
    limits = table_at(f"{where}.timeout", table.get("timeout", {}))
    known_keys(f"{where}.timeout", limits, ("connect", "first_byte", "chunk", "total"))
    default = Timeouts()
    timeouts = Timeouts(
        *(
            number_at(f"{where}.timeout", limits, key, getattr(default, key), above=True)
            for key in ("connect", "first_byte", "chunk", "total")
        )
    )
    retries = count_at(where, table, "retries", 2, 10)
    return UpstreamSettings(name, _address(where, text_at(where, table, "url")), key_env, timeouts, retries)


def _refuse_literal(where: str, table: dict[str, Any]) -> None:
    for key in table:
        if key.lower().replace("-", "_") in LITERAL:
            raise ValueError(
                f"{where}.{key} must not stand in this file: put the key into an environment variable and name it "
                "in key_env"
            )


def _address(where: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError(f"{where}.url must be an address such as https://models.example.com/v1")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(f"{where}.url must hold no user, password, query or fragment")
    if parts.scheme == "http":
        literal = re.fullmatch(r"[\d.]+|.*:.*", host) is not None
        named = host == "localhost" or "." not in host or host.endswith((".local", ".internal", ".lan"))
        if not (is_private(host) if literal else named):
            raise ValueError(
                f"{where}.url must be https, or http to a private address (127.0.0.1, 10.0.0.2, localhost), "
                f"got {shown(url)}"
            )
    return url.rstrip("/")


def read_proxied(
    where: str, table: Any, upstreams: Collection[str], prices: PriceFile | None = None
) -> ProxySettings:
    """Return a learner with upstream stages; ``where`` names the table in messages.

    ``prices`` are those of stages without a price of their own.
    """
    table = table_at(where, table)
    _refuse_literal(where, table)
    known_keys(where, table, LEARNER_KEYS)
    name = text_at(where, table, "name")
    if not NAME.fullmatch(name):
        raise ValueError(f"{where}.name must be a-z, 0-9, - and _, at most 64, got {shown(name)}")
    kind = _kind(where, table)
    given = table.get("stage")
    if not isinstance(given, list) or not 1 <= len(given) <= 64:
        raise ValueError(f"{where}.stage must be 1 to 64 tables [[learner.stage]], got {shown(given)}")
    stages = tuple(_stage(f"{where}.stage[{k}]", entry, upstreams, prices) for k, entry in enumerate(given))
    names = [stage.name for stage in stages]
    if len(set(names)) != len(names):
        raise ValueError(f"{where}.stage must have no name twice, got {shown(names)}")
    waiting = number_at(where, table, "waiting_price", 0.0)
    costs = [stage.expected(waiting) for stage in stages]
    for k in range(1, len(costs)):
        if kind == "router" and costs[k] < costs[k - 1]:
            raise ValueError(
                f"{where}.stage must be in the order of rising price: {names[k]} is expected to cost {costs[k]:g}, "
                f"less than {names[k - 1]} with {costs[k - 1]:g}"
            )
    if costs[-1] <= 0.0:
        raise ValueError(
            f"{where}.stage: the last stage must cost something: give it a price or a waiting_price"
        )
    compare = read_compare(f"{where}.compare", table.get("compare", {"type": "text"}))
    if compare.remote and compare.upstream not in upstreams:
        raise ValueError(_no_upstream(f"{where}.compare", compare.upstream, upstreams))
    if kind == "adaptive" and compare.metric:
        raise ValueError(f"{where}.compare.type must not be {compare.type} for adaptive: it needs labels")
    return ProxySettings(
        name=name,
        kind=kind,
        stages=stages,
        compare=compare,
        error_cost=number_at(where, table, "error_cost", above=True),
        currency=text_at(where, table, "currency") if "currency" in table else None,
        waiting_price=waiting,
        fallback=_stage_named(where, table, "fallback", names),
        baseline=_stage_named(where, table, "baseline", names),
        compare_timeout=number_at(where, table, "compare_timeout", 60.0, above=True),
        fail_open=flag_at(where, table, "fail_open", True),
        features=_features(where, table, kind),
        passthrough=flag_at(where, table, "passthrough", False),
        more=_more(where, table, kind),
    )


def _more(where: str, table: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the settings passed on to the learner; the judge of an adaptive learner is an option of its policy."""
    found: dict[str, Any] = {k: table[k] for k in ("policy", "options", "seed", "pending_ttl") if k in table}
    if "judge" in table:
        if kind != "adaptive" or table["judge"] not in ("last", "score"):
            raise ValueError(
                f"{where}.judge must be last or score, for adaptive, got {shown(table['judge'])}"
            )
        found["options"] = {**table_at(f"{where}.options", table.get("options", {})), "judge": table["judge"]}
    return found


def _kind(where: str, table: dict[str, Any]) -> str:
    mode = table.get("mode", "router")
    if mode not in ("router", "adaptive"):
        raise ValueError(f"{where}.mode must be router or adaptive, got {shown(mode)}")
    kind = table.get("kind", mode)
    if kind not in KINDS:
        hint = did_you_mean(str(kind), KINDS)
        raise ValueError(f"{where}.kind must be one of {', '.join(KINDS)}, got {shown(kind)}{hint}")
    if "mode" in table and mode != kind:
        if kind != "router":
            raise ValueError(f"{where}.mode must be left out or fit kind = {kind}, got {shown(mode)}")
        kind = mode
    if "prefix" in table and (kind not in ("cascade", "contextual") or table["prefix"] != "always"):
        raise ValueError(
            f'{where}.prefix must be "always", for kind cascade or contextual, got {shown(table["prefix"])}; '
            "kind router compares only while that pays"
        )
    return str(kind)


def _stage(where: str, value: Any, upstreams: Collection[str], prices: PriceFile | None) -> StageSettings:
    table = table_at(where, value)
    _refuse_literal(where, table)
    known_keys(where, table, STAGE_KEYS)
    upstream = text_at(where, table, "upstream")
    if upstream not in upstreams:
        raise ValueError(_no_upstream(where, upstream, upstreams))
    model = text_at(where, table, "model")
    expect = table_at(f"{where}.expect", table.get("expect", {"input": 500, "output": 200}))
    known_keys(f"{where}.expect", expect, ("input", "cached", "output", "seconds"))
    tokens = Tokens(
        count_at(f"{where}.expect", expect, "input", 500, 10**9),
        count_at(f"{where}.expect", expect, "cached", 0, 10**9),
        count_at(f"{where}.expect", expect, "output", 200, 10**9),
    )
    if tokens.cached > tokens.input:
        raise ValueError(f"{where}.expect.cached must be at most input, got {tokens.cached}")
    if "price" in table or prices is None:
        price = read_price(f"{where}.price", table.get("price"))
    else:
        price = prices.of(where, model)
    params = table_at(f"{where}.params", table.get("params", {}))
    allow = frozenset(texts_at(where, table, "allow", []))
    for field in sorted({*params, *allow}):
        if field in NEVER or field in ("messages", "stream", "stream_options", "n"):
            raise ValueError(f"{where}: {shown(field)} must not be in params or allow")
    return StageSettings(
        name=text_at(where, table, "name", model),
        upstream=upstream,
        model=model,
        price=price,
        expect=tokens,
        seconds=number_at(f"{where}.expect", expect, "seconds", 0.0),
        params=params,
        allow=allow,
        images=flag_at(where, table, "images", False),
        logprobs=flag_at(where, table, "logprobs", True),
    )


def _no_upstream(where: str, name: str, upstreams: Collection[str]) -> str:
    known = ", ".join(upstreams) or "none is given"
    return f"{where}.upstream must be one of the upstreams ({known}), got {shown(name)}{did_you_mean(name, upstreams)}"


def _stage_named(where: str, table: dict[str, Any], key: str, names: list[str]) -> int:
    if key not in table:
        return len(names) - 1
    value = table[key]
    if value not in names:
        hint = did_you_mean(str(value), names)
        raise ValueError(f"{where}.{key} must be one of {', '.join(names)}, got {shown(value)}{hint}")
    return names.index(value)


def _features(where: str, table: dict[str, Any], kind: str) -> tuple[Feature, ...]:
    given = table.get("features")
    if kind != "contextual":
        if given is not None:
            raise ValueError(f"{where}.features must be left out: they are for kind contextual")
        return ()
    given = ["prompt_tokens", "messages", "has_code", "has_tools"] if given is None else given
    if not isinstance(given, list) or not given:
        raise ValueError(f"{where}.features must be a list of features, got {shown(given)}")
    return tuple(_feature(f"{where}.features[{k}]", entry) for k, entry in enumerate(given))


def _feature(where: str, value: Any) -> Feature:
    table = {"name": value} if isinstance(value, str) else table_at(where, value)
    known_keys(where, table, ("name", "low", "high", "size"))
    name = text_at(where, table, "name")
    if name not in FEATURES:
        raise ValueError(
            f"{where}.name must be one of {', '.join(FEATURES)}, got {shown(name)}{did_you_mean(name, FEATURES)}"
        )
    low = number_at(where, table, "low", 1.0, above=True)
    high = number_at(where, table, "high", 20_000.0 if name == "prompt_tokens" else 50.0, above=True)
    if low >= high:
        raise ValueError(f"{where}.low must be below high, got {low:g} and {high:g}")
    size = count_at(where, table, "size", 1, 64) if name == "header" else 1
    return Feature(name, low, high, size)
