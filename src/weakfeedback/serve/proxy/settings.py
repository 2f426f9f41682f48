"""The proxy's part of the configuration file: ``[upstream.NAME]`` and learners with ``[[learner.stage]]``.

Every mistake is one line that names the key, the value and what is allowed. Addresses of upstreams are given here and
nowhere else. Keys are never given here: only the name of their environment variable is.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from weakfeedback.serve.config import check_url
from weakfeedback.serve.proxy.compare import CompareSettings
from weakfeedback.serve.proxy.price_file import PriceFile
from weakfeedback.serve.proxy.prices import Price, Tokens
from weakfeedback.serve.proxy.upstream import Timeouts, UpstreamSettings, is_private
from weakfeedback.toml import Amount, Flag, Positive, Table, Text, Texts, Wrong, fitted, near, whole
from weakfeedback.validate import brief

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
PASSED_ON = ("policy", "options", "seed", "pending_ttl")  # to the learner, if given
PROMISED = ("agree", "sure", "groups", "shadow", "background", "self_check")
PRICED = ("pay-to-compare", "second-looks", "promise")  # policies that decide by what a request costs
LITERAL = ("key", "api_key", "apikey", "token", "secret", "password", "authorization", "headers", "bearer")

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


class KeylessTable(Table):
    """A table that must not hold the key of an upstream."""

    @model_validator(mode="before")
    @classmethod
    def _hold_no_key(cls, table: Any) -> Any:
        for key in table if isinstance(table, dict) else ():
            if key.lower().replace("-", "_") in LITERAL:
                raise Wrong(
                    key,
                    "must not stand in this file: put the key into an environment variable or a file, and name that in "
                    "key_env or key_file",
                )
        return table


def _check_address(url: str) -> str:
    found = check_url(url, "https://models.example.com/v1")
    parts = urlsplit(found)
    host = parts.hostname or ""
    if parts.scheme == "http":
        literal = re.fullmatch(r"[\d.]+|.*:.*", host) is not None
        named = host == "localhost" or "." not in host or host.endswith((".local", ".internal", ".lan"))
        if not (is_private(host) if literal else named):
            raise ValueError(
                f"must be https, or http to a private address (127.0.0.1, 10.0.0.2, localhost), got {brief(url)}"
            )
    return found


class UpstreamTable(KeylessTable):
    """A table ``[upstream.NAME]``. Values that may be, or hold, the key itself are not shown."""

    url: Annotated[Text, AfterValidator(_check_address)] = Field(
        repr=False, description="an address such as https://models.example.com/v1"
    )
    key_env: str | None = Field(
        default=None,
        pattern=r"^[A-Z_][A-Z0-9_]{0,127}$",
        repr=False,
        description="the name of an environment variable, such as CLOUD_API_KEY",
    )
    key_file: Text | None = Field(default=None, repr=False, description="a file that holds the key alone")
    timeout: Timeouts = Field(default=Timeouts(), description="a table")
    retries: Annotated[int, whole(0, 10)] = 2


class Expect(Table):
    """The tokens and seconds expected of a call, used until enough calls were seen."""

    input: Annotated[int, whole(0, 10**9)] = 500
    cached: Annotated[int, whole(0, 10**9)] = 0
    output: Annotated[int, whole(0, 10**9)] = 200
    seconds: Amount = 0.0

    @model_validator(mode="after")
    def _fit(self) -> Expect:
        if self.cached > self.input:
            raise Wrong("cached", f"must be at most input, got {self.cached}")
        return self


class StageSettings(KeylessTable):
    """A table ``[[learner.stage]]``: a model of an upstream, and its price."""

    upstream: Text
    model: Text
    name: Text = Field(title="the name of the model")
    price: Price = Field(description="a table with input, output and cached, money per million tokens")
    expect: Expect = Field(default=Expect(), description="a table")
    params: dict[str, Any] = Field(default={}, description="a table")
    allow: Texts = Field(default=[])
    images: Flag = False
    logprobs: Flag = True

    @model_validator(mode="before")
    @classmethod
    def _take_the_name_of_the_model(cls, table: Any) -> Any:
        return {"name": table["model"], **table} if isinstance(table, dict) and "model" in table else table

    @model_validator(mode="after")
    def _check_fields(self) -> StageSettings:
        for field in sorted({*self.params, *self.allow}):
            if field in NEVER or field in ("messages", "stream", "stream_options", "n"):
                raise Wrong("", f"{brief(field)} must not be in params or allow")
        return self

    def expected(self, waiting_price: float) -> float:
        """Return the expected cost of a call, used until enough calls were seen."""
        tokens = Tokens(self.expect.input, self.expect.cached, self.expect.output)
        return self.price.of(tokens) + self.expect.seconds * waiting_price


class Feature(Table):
    """A number about a request, mapped to [-1, 1]."""

    name: Literal["prompt_tokens", "messages", "has_code", "has_tools", "has_images", "header"] = Field(
        description="one of prompt_tokens, messages, has_code, has_tools, has_images, header"
    )
    low: Positive = 1.0
    high: Positive = Field(default=50.0, title="50, of prompt_tokens 20,000")
    size: Annotated[int, whole(0, 64)] = 1  # of a header

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        table = {"name": given} if isinstance(given, str) else given
        if isinstance(table, dict) and table.get("name") == "prompt_tokens":
            return {"high": 20_000.0, **table}
        return table

    @model_validator(mode="after")
    def _check(self) -> Feature:
        if self.low >= self.high:
            raise Wrong("low", f"must be below high, got {self.low:g} and {self.high:g}")
        if self.size != 1 and self.name != "header":
            raise Wrong("size", f"must be left out: it is for header, got {self.size}")
        return self


LOOKS = re.compile(r"system|tools|length|header:[A-Za-z0-9-]{1,64}")  # what groups the requests of a router
Look = Annotated[str, Field(pattern=rf"^({LOOKS.pattern})$")]


class Conversation(Table):
    """What makes requests a conversation: a header, or how its messages begin; forgotten after ``ttl`` seconds."""

    key: str = Field(
        pattern=r"^(first|header:[A-Za-z0-9-]{1,64})$", description='"first" or "header:" and its name'
    )
    ttl: Positive = 3600.0

    @property
    def header(self) -> str | None:
        """The name of the header."""
        return self.key.removeprefix("header:").lower() if self.key != "first" else None


class ProxySettings(KeylessTable):
    """A table ``[[learner]]`` whose stages are models of upstreams."""

    name: str = Field(pattern=rf"^{NAME.pattern}$", description="a-z, 0-9, - and _, at most 64")
    mode: Literal["router", "adaptive"] = Field(default="router", description="router or adaptive")
    kind: Literal["router", "adaptive", "cascade", "contextual"] = Field(
        default="router", description="one of router, adaptive, cascade, contextual"
    )
    stages: list[StageSettings] = Field(
        alias="stage", min_length=1, max_length=64, description="1 to 64 tables [[learner.stage]]"
    )
    agree: float | None = Field(
        default=None, gt=0.5, lt=1.0, description="a share above 0.5 and below 1, such as 0.95"
    )
    budget: Positive | None = Field(default=None, description="a number > 0")  # for 1000 requests
    error_cost: Positive | None = Field(default=None, description="a number > 0")
    reference_name: str | None = Field(default=None, alias="reference", description="the name of a stage")
    sure: Flag = False
    groups: Literal["each"] | None = Field(default=None, description='"each"')
    shadow: Flag = False
    background: Flag = False
    self_check: Flag = False
    currency: Text | None = Field(default=None, description="a text that is not empty")
    waiting_price: Amount = 0.0
    fallback_name: str | None = Field(default=None, alias="fallback", description="the name of a stage")
    baseline_name: str | None = Field(default=None, alias="baseline", description="the name of a stage")
    compare: CompareSettings = Field(default=CompareSettings(type="text"), description="a table with a type")
    compare_timeout: Positive = 60.0
    fail_open: Flag = True
    prefix: Literal["always"] | None = Field(
        default=None,
        description='"always", for kind cascade or contextual (kind router compares only while that pays)',
    )
    features: list[Feature | Look] = Field(default=[], max_length=16, description="a list of features")
    policy: Any = Field(default=None, description="as of a learner without upstreams")
    options: dict[str, Any] = Field(default={}, description="a table")
    judge: Literal["last", "score"] | None = Field(default=None, description="last or score, for adaptive")
    seed: Any = Field(default=None, description="as of a learner without upstreams")
    pending_ttl: Any = Field(default=None, description="as of a learner without upstreams")
    conversation: Conversation | None = Field(default=None, description="a table with key and ttl")
    passthrough: Flag = False  # whether clients may name the models of the stages

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, table: Any) -> Any:
        if not isinstance(table, dict):
            return table
        mode = table.get("mode", "router")
        kind = mode if table.get("kind", "router") == "router" else table["kind"]
        if kind == "contextual":
            table = {"features": ["prompt_tokens", "messages", "has_code", "has_tools"], **table}
        return {**table, "kind": kind}

    @model_validator(mode="after")
    def _check(self) -> ProxySettings:
        names, costs = [stage.name for stage in self.stages], self.prices()
        if "mode" in self.model_fields_set and self.mode != self.kind:
            raise Wrong("mode", f"must be left out or fit kind = {self.kind}, got {brief(self.mode)}")
        if self.prefix is not None and self.kind not in ("cascade", "contextual"):
            raise Wrong("prefix", 'must be left out: "always" is for kind cascade or contextual')
        if self.judge is not None and self.kind != "adaptive":
            raise Wrong("judge", f"must be last or score, for adaptive, got {brief(self.judge)}")
        looks = [one for one in self.features if isinstance(one, str)]
        if self.kind == "contextual" and (looks or not self.features):
            raise Wrong("features", "must be a list of features for kind contextual")
        if self.kind != "contextual" and self.features and (self.kind != "router" or looks != self.features):
            words = "must be left out, or for kind router be some of header:NAME, system, tools, length"
            raise Wrong("features", words)
        if self.looks is not None and (self.promises or self.policy is not None):
            raise Wrong("features", "must be left out with a promise, which takes groups, and with a policy")
        if len(set(names)) != len(names):
            raise Wrong("stage", f"must have no name twice, got {brief(names)}")
        self._check_promise()
        for key in ("fallback", "baseline", "reference"):
            name = getattr(self, f"{key}_name")
            if name is not None and name not in names:
                known = ", ".join(names)
                raise Wrong(key, f"must be one of {known}, got {brief(name)}{near(name, names)}")
        for k in range(1, len(costs)):
            if self.kind == "router" and costs[k] < costs[k - 1]:
                raise Wrong(
                    "stage",
                    f"must be in the order of rising price: {names[k]} is expected to cost {costs[k]:g}, "
                    f"less than {names[k - 1]} with {costs[k - 1]:g}",
                )
        if costs[-1] <= 0.0:
            raise Wrong("stage", "the last stage must cost something: give it a price or a waiting_price")
        if self.kind == "adaptive" and self.compare.metric:
            raise Wrong("compare.type", f"must not be {self.compare.type} for adaptive: it needs labels")
        return self

    def _check_promise(self) -> None:
        """Refuse a learner without any limit, and what goes with a promise only."""
        if self.agree is None and self.budget is None and self.error_cost is None:
            raise Wrong(
                "agree",
                "must be given, such as 0.95 (at least 95 % of the answers as from the last stage, as cheaply as "
                "possible), or budget (money for 1000 requests), or error_cost (what a wrong answer costs)",
            )
        if self.budget is not None and (self.agree is not None or self.error_cost is not None):
            raise Wrong("budget", "must stand alone; agree and error_cost may be given together")
        if self.conversation is not None and self.budget is not None:
            raise Wrong("conversation", "must be left out with budget: to keep it, one must go down as well")
        if self.conversation is not None and self.kind not in ("router", "adaptive"):
            words = "calls its first stages in every turn, and no cache of these is lost by going on"
            raise Wrong("conversation", f"is for kind router or adaptive: kind {self.kind} {words}")
        if self.promises and self.kind not in ("router", "adaptive"):
            raise Wrong("agree" if self.agree is not None else "budget", "is for kind router or adaptive")
        if self.background and self.kind != "router":
            raise Wrong(
                "background", "is for kind router, where one answer is known to go out before it is complete"
            )
        only = {"reference": self.reference_name, "sure": self.sure, "groups": self.groups}
        only |= {"shadow": self.shadow, "background": self.background, "self_check": self.self_check}
        for key, value in only.items():
            if value and not self.promises:
                raise Wrong(key, "must be left out: it goes with a promise, agree or budget")

    @property
    def looks(self) -> list[str] | None:
        """What groups the requests of a router with second looks, None if it has none."""
        given = self.kind == "router" and "features" in self.model_fields_set
        return [one for one in self.features if isinstance(one, str)] if given else None

    @property
    def prices_requests(self) -> bool:
        """Whether the learner is told what each request costs."""
        return self.kind == "router" and str(self.policy or PRICED[0]).lower() in PRICED

    @property
    def promises(self) -> bool:
        """Whether the learner keeps a promise."""
        return self.agree is not None or self.budget is not None

    @cached_property
    def reference(self) -> int:
        """The stage whose answers are promised: the last, unless another is named."""
        return self._stage_named(self.reference_name)

    @cached_property
    def fallback(self) -> int:
        """The stage that answers where no decision can be made: the last or the reference, unless another is named."""
        return self._stage_named(self.fallback_name or self.reference_name)

    @cached_property
    def baseline(self) -> int:
        """The stage against which savings are counted: the last or the reference, unless another is named."""
        return self._stage_named(self.baseline_name or self.reference_name)

    def _stage_named(self, name: str | None) -> int:
        return [stage.name for stage in self.stages].index(name or self.stages[-1].name)

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
                "price": {name: getattr(stage.price, name) for name in ("input", "cached", "output")},
            }
            for stage in self.stages
        ]
        found = {"models": models, "baseline": self.baseline, "waiting_price": self.waiting_price}
        if self.promises:  # what "the same" means belongs to what is promised
            found["compare"] = self.compare.model_dump(mode="json", exclude_unset=True) or {"type": "text"}
        return found

    def learner(self) -> dict[str, Any]:
        """Return the learner as the decision service creates it."""
        names, prices = [stage.name for stage in self.stages], self.prices()
        made: dict[str, Any] = {"kind": self.kind}
        if self.error_cost is not None:
            made["error_cost"] = self.error_cost
        if self.promises:
            made |= {key: getattr(self, key) for key in PROMISED}
            made |= {
                "budget": None if self.budget is None else self.budget / 1000.0,
                "reference": self.reference_name,
            }
        made |= {key: getattr(self, key) for key in PASSED_ON if key in self.model_fields_set}
        if self.judge is not None:  # an option of the policy
            made["options"] = {**self.options, "judge": self.judge}
        if self.kind == "router":
            made |= {"models": names, "prices": prices}
            made |= {} if self.looks is None else {"context": self.looks}
            if self.conversation is not None:
                made["conversation_ttl"] = self.conversation.ttl
        else:
            made |= {"stages": names, "stage_costs": prices}
        if self.currency is not None:
            made["currency"] = self.currency
        if self.compare.metric:
            made["compare"] = {"type": "number", "scale": 1.0}
        return made


def read_upstreams(tables: dict[str, Any], folder: Path = Path()) -> dict[str, UpstreamSettings]:
    """Return the upstreams of the table ``upstream``, by name; files of keys are looked for in ``folder``."""
    found = {}
    for name, table in tables.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"upstream.{name} must be named with a-z, 0-9, - and _, got {brief(name)}")
        one = fitted(UpstreamTable, table, f"upstream.{name}")
        if one.key_env is not None and one.key_file is not None:
            raise ValueError(f"upstream.{name}.key_file must be left out beside key_env")
        file = None if one.key_file is None else folder / one.key_file
        found[name] = UpstreamSettings(name, one.url, one.key_env, one.timeout, one.retries, file)
    return found


def read_proxied(
    where: str, table: dict[str, Any], upstreams: Collection[str], prices: PriceFile | None = None
) -> ProxySettings:
    """Return a learner with upstream stages; ``where`` names the table in messages.

    ``prices`` are those of stages without a price of their own.
    """
    if prices is not None and isinstance(table.get("stage"), list):
        stages = [_priced(f"{where}.stage[{k}]", stage, prices) for k, stage in enumerate(table["stage"])]
        table = {**table, "stage": stages}
    found = fitted(ProxySettings, table, where)
    used = {f"stage[{k}]": stage.upstream for k, stage in enumerate(found.stages)}
    if found.compare.remote:
        used["compare"] = found.compare.upstream
    for place, name in used.items():
        if name not in upstreams:
            known = ", ".join(upstreams) or "none is given"
            raise ValueError(
                f"{where}.{place}.upstream must be one of the upstreams ({known}), got {brief(name)}"
                f"{near(name, upstreams)}"
            )
    return found


def _priced(where: str, stage: Any, prices: PriceFile) -> Any:
    if not isinstance(stage, dict) or "price" in stage or not isinstance(stage.get("model"), str):
        return stage
    return {**stage, "price": prices.of(where, stage["model"])}
