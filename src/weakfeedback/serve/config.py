"""Read and check the TOML file of a service. Every mistake is one line: file, key, value, what is allowed."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from weakfeedback.environment import secret_in
from weakfeedback.journal import Store, open_store
from weakfeedback.serve.auth import LOOPBACK, SHORTEST, Token
from weakfeedback.serve.limits import NAME, is_name
from weakfeedback.serve.models import CONFIG, CONFIGS, CostsRequest, ModelPrice, ModelsRequest, Problem
from weakfeedback.serve.wording import unlike
from weakfeedback.toml import BadFile, Positive, Table, Text, Wrong, first_mistake, fitted, read_toml, whole
from weakfeedback.validate import brief

FILE = "weakfeedback.toml"
STORE = "sqlite:///weakfeedback.db"
PORT = 8470
SECRETS = ("token", "password", "secret", "key", "api_key", "value")
PRICES = ("stage_costs", "prices", "error_cost")
PROMISES = ("agree", "budget", "reference", "shadow", "self_check")


class ConfigError(BadFile):
    """A configuration that cannot be used; the message is one line."""


def check_store(address: str) -> str:
    """Reject the address of a store of unknown kind, or with a password in it."""
    scheme, _, rest = address.partition("://")
    if not rest or scheme not in ("sqlite", "postgresql", "postgres"):
        raise ConfigError("a store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")
    if scheme != "sqlite" and ":" in rest.partition("@")[0] and "@" in rest:
        raise ConfigError(
            "a password must not stand in the address of a store: put it into WEAKFEEDBACK_STORE_PASSWORD"
        )
    return address


def check_root(path: str) -> str:
    """Reject what is no prefix of paths."""
    if path and not re.fullmatch(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+", path):
        raise ValueError("must be a prefix such as /decide, without a / at its end")
    return path


def check_url(url: str, like: str = "http://127.0.0.1:4318") -> str:
    """Reject what is no address of another server, or holds more than that."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError(f"must be an address such as {like}")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("must hold no user, password, query or fragment")
    return url.rstrip("/")


def check_address(address: str) -> str:
    """Reject what is no address of a service."""
    if not re.fullmatch(r"https?://[^/?#@\s]+", address):
        raise ValueError("must be an address such as http://10.0.0.5:8470")
    return address


def check_network(address: str) -> str:
    """Reject what is no address, nor a network of them."""
    try:
        ip_network(address, strict=False)
    except ValueError:
        raise ValueError("must be addresses, such as 127.0.0.1") from None
    return address


def _check_end(end: Any) -> date:
    if not isinstance(end, date):
        raise ValueError("must be a date or a time, such as 2027-01-31 or 2027-01-31T18:00:00Z")
    return end


class TokenTable(Table):
    """A table ``[[server.token]]``: the environment variable or file that holds a token, and what the token allows."""

    name: Text = "token"
    scope: Literal["read", "use", "admin"] = Field(default="use", description="one of read, use, admin")
    env: str | None = Field(
        default=None, pattern=r"^[^\W\d]\w*$", repr=False, description="the name of an environment variable"
    )
    file: Text | None = Field(default=None, repr=False, description="a file that holds the token alone")
    expires: Annotated[Any, AfterValidator(_check_end)] = Field(
        default=None, description="a date or a time, such as 2027-01-31 or 2027-01-31T18:00:00Z"
    )
    per_minute: Annotated[int, whole(1, 10**6)] | None = Field(
        default=None, description="an integer from 1 to 1000000"
    )
    per_day: Positive | None = Field(default=None, description="a number > 0")

    @model_validator(mode="before")
    @classmethod
    def _hold_no_secret(cls, table: Any) -> Any:
        for key in table if isinstance(table, dict) else ():
            if key.lower() in SECRETS:
                raise Wrong(
                    key,
                    "must not stand in this file: put it into an environment variable or a file, and name that in env "
                    "or file",
                )
        return table

    @model_validator(mode="after")
    def _have_one_source(self) -> TokenTable:
        if (self.env is None) == (self.file is None):
            raise Wrong("env", "must be given, or file instead of it")
        return self

    def token(self, place: str, environment: dict[str, str], folder: Path) -> Token:
        """Return the token with its secret; a file is looked for in ``folder``."""
        if self.file is not None:
            secret, source = secret_in(f"{place}.file", folder / self.file), f"{place}.file: the file"
        else:
            secret, source = environment.get(self.env or "", ""), f"{place}.env = {self.env!r}: the variable"
        if len(secret) < SHORTEST:
            raise ValueError(f"{source} must hold at least {SHORTEST} characters, got {len(secret)}")
        return Token.of(
            self.name,
            secret,
            self.scope,
            expires=_seconds(self.expires),
            per_minute=self.per_minute,
            per_day=self.per_day,
        )


def _seconds(end: date | None) -> float:
    """Return an end in seconds since 1970; a date is its beginning, and times without a zone are UTC."""
    if end is None:
        return math.inf
    found = end if isinstance(end, datetime) else datetime(end.year, end.month, end.day)
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


Networks = list[Annotated[str, AfterValidator(check_network)]]


class ServerTable(Table):
    """The table ``[server]``."""

    host: Text = "127.0.0.1"
    port: Annotated[int, whole(0, 65535)] = PORT
    store: Annotated[Text, AfterValidator(check_store)] = Field(
        default=STORE, repr=False, description="sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    )
    durability: Literal["full", "process"] = Field(default="full", description="one of full, process")
    shared: bool = False  # with other instances, which own the other learners
    advertise: Annotated[str, AfterValidator(check_address)] | None = Field(
        default=None, description="an address such as http://10.0.0.5:8470, for the other instances"
    )
    root_path: Annotated[str, AfterValidator(check_root)] = Field(
        default="", description="a prefix such as /decide, without a / at its end"
    )
    otel: Annotated[Text, AfterValidator(lambda url: check_url(url))] | None = Field(
        default=None, repr=False, description="the address of a collector, such as http://127.0.0.1:4318"
    )
    hosts: list[Text] = Field(default=[], description="a list of texts")
    origins: list[Text] = Field(default=[], description="a list of texts")
    proxy_headers: Networks = Field(default=[], description="a list of addresses, such as 127.0.0.1")
    # open: without a token
    metrics: Literal["token", "open"] = Field(default="token", description="one of token, open")
    token: list[TokenTable] = Field(default=[], description="tables [[server.token]]")


class ServeFile(Table):
    """The file of a service."""

    server: ServerTable = Field(default=ServerTable(), description="a table")
    learner: list[dict[str, Any]] = Field(default=[], description="tables [[learner]]")
    upstream: dict[str, Any] = Field(default={}, description="tables [upstream.NAME]")
    prices: Text | None = Field(default=None, description="a file of prices by model, beside this one")


class Settings(ServerTable):
    """The settings of a service: those of its table, and what the rest of the file says, checked."""

    model_config = ConfigDict(frozen=False, validate_assignment=True)
    tokens: list[Any] = Field(default=[])
    learners: list[tuple[str, Any]] = Field(default=[])  # name and configuration
    upstreams: dict[str, Any] = Field(default={})  # upstreams of the proxy, by name
    proxied: list[Any] = Field(default=[])  # learners whose stages are models of these upstreams
    file: str = ""
    reload: Any = None  # a function that returns the settings read anew, for their tokens

    def check(self) -> None:
        """Reject an address that other machines can reach without a token, and two tokens with one secret."""
        if self.host not in LOOPBACK and not self.tokens:
            raise ConfigError(
                f"host = {self.host!r} can be reached by others: it needs a [[server.token]] in the configuration"
            )
        known = dict[bytes, str]()
        for token in self.tokens:
            if token.digest in known:
                words = f"must have a secret of its own, got that of {known[token.digest]!r}"
                raise ConfigError(f"the token {token.name!r} {words}")
            known[token.digest] = token.name

    def check_shared(self) -> None:
        """Reject what cannot be shared, or would not be found by those who share it."""
        if not self.shared:
            return
        if self.store.startswith("sqlite:"):
            raise ConfigError("a store can be shared in PostgreSQL only: a file has one owner")
        if self.advertise is None and self.host in ("0.0.0.0", "::"):
            raise ConfigError(
                f"host = {self.host!r} does not tell the other instances where to reach this one: advertise must do so"
            )


def read_settings(path: Path, environment: dict[str, str] | None = None) -> Settings:
    """Return the settings in a file; ConfigError for any mistake. More may come from elsewhere: `Settings.check`."""
    try:
        file = fitted(ServeFile, read_toml(path)[1])
        found = _settings(file, path, dict(os.environ) if environment is None else environment)
    except BadFile as error:
        raise ConfigError(str(error)) from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    return found


def _settings(file: ServeFile, path: Path, environment: dict[str, str]) -> Settings:
    found = Settings(file=str(path), **dict(file.server))
    found.tokens = [
        entry.token(f"server.token[{k}]", environment, path.parent)
        for k, entry in enumerate(file.server.token)
    ]
    prices: Any = None  # by model, for stages without a price
    if file.upstream:
        from weakfeedback.serve.proxy.settings import read_upstreams

        found.upstreams = read_upstreams(file.upstream, path.parent)
    if file.prices is not None:
        from weakfeedback.serve.proxy.price_file import PriceFile

        prices = PriceFile(path.parent / file.prices)
    names = set[str]()
    for k, entry in enumerate(file.learner):
        place, name = f"learner[{k}]", entry.get("name")
        if not isinstance(name, str) or not is_name(name):
            raise ValueError(f"{place}.name must match {NAME[1:-1]}, got {brief(name)}")
        if name in names:
            raise ValueError(f"{place}.name must not stand there twice, got {brief(name)}")
        names.add(name)
        if "stage" in entry or "mode" in entry:
            from weakfeedback.serve.proxy.settings import read_proxied

            found.proxied.append(read_proxied(place, entry, found.upstreams, prices))
        else:
            given = {key: value for key, value in entry.items() if key != "name"}
            found.learners.append((name, checked_learner(f"{path}: {place}", given)))
    return found


def checked_learner(place: str, given: dict[str, Any]) -> Any:
    """Return the configuration of a learner; ConfigError with one line that begins with ``place``."""
    try:
        return CONFIG.validate_python(given)
    except ValidationError as error:
        raise ConfigError(str(first_mistake(error, CONFIGS.get(str(given.get("kind"))), place))) from None


def opener(address: str) -> Callable[..., Store]:
    """Return the function that opens the store at an address, as `Service` expects it."""
    check_store(address)
    return partial(open_store, address, lenient=True)


def is_loopback(host: str) -> bool:
    """Whether an address can be reached only from this machine."""
    if host in LOOPBACK:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def settle(service: Any, learners: Iterable[tuple[str, Any]], file: str) -> None:
    """Create the learners of a configuration, or compare them with existing ones.

    Changed prices apply from now on; any other difference is a ConfigError that names it.
    """
    for name, config in learners:
        if not service.is_arriving(name):
            continue
        known = service.learners.get(name)
        if known is None:
            with _named(file, name):
                await service.create(name, config)
            continue
        await _compare(service, known, name, config, file)


async def _compare(service: Any, known: Any, name: str, config: Any, file: str) -> None:
    wanted = config.model_dump(mode="json", exclude={"seed"})
    await _change_models(service, known, name, wanted, file)
    now = known.settings()
    told = unlike(wanted, now, [key for key in wanted if key not in PRICES + PROMISES])
    if told:
        raise ConfigError(f"{file}: learner {name}: {told}: only prices can change; use another name")
    for keys in (PRICES, PROMISES):
        changed = {
            key: wanted[key] for key in keys if key in wanted and wanted[key] not in (None, now.get(key))
        }
        if changed:
            with _named(file, name):
                await service.recost(name, CostsRequest(**changed))


async def _change_models(service: Any, known: Any, name: str, wanted: dict[str, Any], file: str) -> None:
    """Add the models that a router has not, then remove those that it shall have no more."""
    models = wanted.get("models")
    if models is None or wanted["kind"] != known.kind.name or models == known.kind.names:
        return
    new = [k for k, one in enumerate(models) if one not in known.kind.names]
    gone = [one for one in known.kind.names if one not in models]
    promised = known.settings().get("agree") is not None or known.settings().get("budget") is not None
    reference = wanted.get("reference") or models[-1]
    with _named(file, name):
        for k in new:
            added = ModelPrice(name=models[k], price=wanted["prices"][k])
            await service.change_models(name, ModelsRequest(add=added))
        if promised and reference != known.settings()["reference"]:
            await service.recost(name, CostsRequest(reference=reference))
        for one in gone:
            await service.change_models(name, ModelsRequest(remove=one))


@contextmanager
def _named(file: str, name: str) -> Iterator[None]:
    """Turn a problem of a learner's configuration into a ConfigError; one of the store stays what it is."""
    try:
        yield
    except Problem as problem:
        if problem.status == 503:
            raise
        raise ConfigError(f"{file}: learner {name}: {problem.detail}") from None
