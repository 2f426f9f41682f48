"""Read and check the TOML file of a service. Every mistake is one line: file, key, value, what is allowed."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from weakfeedback.journal import Store, open_store
from weakfeedback.serve.auth import LEVELS, LOOPBACK, SHORTEST, Token
from weakfeedback.serve.limits import NAME, is_name
from weakfeedback.serve.models import CONFIG, Problem
from weakfeedback.serve.wording import first_mistake, unlike

FILE = "weakfeedback.toml"
STORE = "sqlite:///weakfeedback.db"
PORT = 8470
SERVER = ("host", "port", "store", "durability", "hosts", "origins", "token", "proxy_headers", "metrics")
TOKEN = ("name", "env", "scope")
SECRETS = ("token", "password", "secret", "key", "api_key", "value")
SCOPES = tuple(scope for scope in LEVELS if scope != "none")
TOP = ("server", "learner", "upstream", "prices")


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line."""


@dataclass
class Settings:
    """The settings of a service."""

    host: str = "127.0.0.1"
    port: int = PORT
    store: str = STORE
    durability: str = "full"
    hosts: list[str] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    proxy_headers: list[str] = field(default_factory=list)
    metrics: str = "token"  # or "open": /metrics needs no token
    tokens: list[Token] = field(default_factory=list)
    learners: list[tuple[str, Any]] = field(default_factory=list)  # name and configuration
    upstreams: dict[str, Any] = field(default_factory=dict)  # upstreams of the proxy, by name
    proxied: list[Any] = field(default_factory=list)  # learners whose stages are models of these upstreams
    file: str = ""

    def check(self) -> None:
        """Reject an address that other machines can reach without a token."""
        if self.host not in LOOPBACK and not self.tokens:
            raise ConfigError(
                f"host = {self.host!r} can be reached by others: it needs a [[server.token]] in the configuration"
            )


def read_settings(path: Path, environment: dict[str, str] | None = None) -> Settings:
    """Return the settings in a file; ConfigError for any mistake."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    reader = _Reader(str(path), dict(os.environ) if environment is None else environment)
    return reader.settings(table)


class _Reader:
    def __init__(self, file: str, environment: dict[str, str]) -> None:
        self.file, self.environment = file, environment
        self.prices: Any = None  # by model, for stages without a price

    def wrong(self, key: str, value: Any, allowed: str) -> ConfigError:
        return ConfigError(f"{self.file}: {key} = {_shown(value)}: {allowed}")

    def known(self, place: str, table: dict[str, Any], keys: Iterable[str]) -> None:
        for key in table:
            if key not in keys:
                near = difflib.get_close_matches(key.lower(), list(keys), n=1)
                hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(keys)}"
                raise ConfigError(f"{self.file}: {place}{key} is not known; {hint}")

    def table(self, key: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(key, value, "must be a table")
        return value

    def settings(self, table: dict[str, Any]) -> Settings:
        self.known("", table, TOP)
        server = self.table("server", table.get("server", {}))
        self.known("server.", server, SERVER)
        found = Settings(file=self.file)
        found.host = self.text("server.host", server.get("host", found.host))
        found.port = self.port("server.port", server.get("port", found.port))
        found.store = self.store("server.store", server.get("store", found.store))
        found.durability = self.one_of(
            "server.durability", server.get("durability", "full"), ("full", "process")
        )
        found.metrics = self.one_of("server.metrics", server.get("metrics", "token"), ("token", "open"))
        for key in ("hosts", "origins", "proxy_headers"):
            setattr(found, key, self.texts(f"server.{key}", server.get(key, [])))
        for address in found.proxy_headers:
            self.network("server.proxy_headers", address)
        for number, entry in enumerate(self.array("server.token", server.get("token", []))):
            found.tokens.append(self.token(f"server.token[{number}]", entry))
        self.upstreams(table.get("upstream", {}), found)
        self.prices = self.price_file("prices", table["prices"]) if "prices" in table else None
        for number, entry in enumerate(self.array("learner", table.get("learner", []))):
            self.learner(f"learner[{number}]", entry, found)
        found.check()
        return found

    def upstreams(self, tables: Any, found: Settings) -> None:
        if tables:
            from weakfeedback.serve.proxy.settings import read_upstreams

            try:
                found.upstreams = read_upstreams(tables)
            except ValueError as error:
                raise ConfigError(f"{self.file}: {error}") from None

    def price_file(self, key: str, value: Any) -> Any:
        """Return the prices by model of a file beside this one."""
        from weakfeedback.serve.proxy.price_file import PriceFile

        try:
            return PriceFile(Path(self.file).parent / self.text(key, value))
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(f"{self.file}: {error}") from None

    def learner(self, place: str, entry: dict[str, Any], found: Settings) -> None:
        name = entry.get("name")
        taken = [name for name, _ in found.learners] + [one.name for one in found.proxied]
        if not isinstance(name, str) or not is_name(name):
            raise self.wrong(f"{place}.name", name, f"must match {NAME[1:-1]}")
        if name in taken:
            raise self.wrong(f"{place}.name", name, "stands there twice")
        if "stage" in entry or "mode" in entry:
            from weakfeedback.serve.proxy.settings import read_proxied

            try:
                found.proxied.append(read_proxied(place, entry, found.upstreams, self.prices))
            except ValueError as error:
                raise ConfigError(f"{self.file}: {error}") from None
            return
        given = {key: value for key, value in entry.items() if key != "name"}
        found.learners.append((name, checked_learner(f"{self.file}: {place}", given)))

    def token(self, place: str, entry: dict[str, Any]) -> Token:
        literal = next((key for key in entry if key.lower() in SECRETS), None)
        if literal is not None:
            raise ConfigError(
                f"{self.file}: {place}.{literal} must not stand in this file: put it into an environment variable, "
                "and name that in env"
            )
        self.known(f"{place}.", entry, TOKEN)
        name = self.text(f"{place}.name", entry.get("name", "token"))
        scope = self.one_of(f"{place}.scope", entry.get("scope", "use"), SCOPES)
        variable = entry.get("env")
        if not isinstance(variable, str) or not variable.isidentifier():
            raise ConfigError(f"{self.file}: {place}.env must be the name of an environment variable")
        secret = self.environment.get(variable, "")
        if len(secret) < SHORTEST:
            raise ConfigError(
                f"{self.file}: {place}.env = {variable!r}: the variable must hold at least {SHORTEST} characters, "
                f"got {len(secret)}"
            )
        return Token.of(name, secret, scope)

    def text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self.wrong(key, value, "must be a text that is not empty")
        return value

    def texts(self, key: str, value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self.wrong(key, value, "must be a list of texts")
        return value

    def array(self, key: str, value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.wrong(key, value, f"must be tables: [[{key}]]")
        return value

    def port(self, key: str, value: Any) -> int:
        if type(value) is not int or not 0 <= value < 2**16:
            raise self.wrong(key, value, "must be an integer from 0 to 65535")
        return value

    def store(self, key: str, value: Any) -> str:
        text = self.text(key, value)
        try:
            check_store(text)
        except ConfigError as error:
            raise ConfigError(f"{self.file}: {key}: {error}") from None
        return text

    def one_of(self, key: str, value: Any, allowed: tuple[str, ...]) -> str:
        if not isinstance(value, str) or value not in allowed:
            near = difflib.get_close_matches(str(value), allowed, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise self.wrong(key, value, f"must be one of {', '.join(allowed)}{hint}")
        return value

    def network(self, key: str, value: str) -> None:
        try:
            ip_network(value, strict=False)
        except ValueError:
            raise self.wrong(key, value, "must be addresses, such as 127.0.0.1") from None


def checked_learner(place: str, given: dict[str, Any]) -> Any:
    """Return the configuration of a learner; ConfigError with one line that begins with ``place``."""
    try:
        return CONFIG.validate_python(given)
    except ValidationError as error:
        found = first_mistake(error, _model_of(given.get("kind")))
        key = f"{place}.{found.field}" if found.field else place
        if found.unknown:
            raise ConfigError(f"{key} {found.words}") from None
        raise ConfigError(f"{key} = {_shown(found.value)}: {found.words}") from None


def _model_of(kind: Any) -> list[str]:
    from weakfeedback.serve import models

    for model in (
        models.CascadeConfig,
        models.ContextualConfig,
        models.AdaptiveConfig,
        models.RouterConfig,
        models.AllocationConfig,
    ):
        if kind in (model.model_fields["kind"].annotation.__args__):  # type: ignore[union-attr]
            return list(model.model_fields)
    return []


def check_store(address: str) -> None:
    """Reject the address of a store of unknown kind, or with a password in it."""
    scheme, _, rest = address.partition("://")
    if not rest or scheme not in ("sqlite", "postgresql", "postgres"):
        raise ConfigError("a store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE")
    if scheme != "sqlite" and ":" in rest.partition("@")[0] and "@" in rest:
        raise ConfigError(
            "a password must not stand in the address of a store: put it into WEAKFEEDBACK_STORE_PASSWORD"
        )


def opener(address: str) -> Callable[..., Store]:
    """Return the function that opens the store at an address, as `Service` expects it."""
    check_store(address)
    return partial(open_store, address)


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
        known = service.learners.get(name)
        if known is None:
            try:
                await service.create(name, config)
            except Problem as problem:
                raise _wrong(problem, file, name) from None
            continue
        await _compare(service, known, name, config, file)


PRICES = ("stage_costs", "prices", "error_cost")


async def _compare(service: Any, known: Any, name: str, config: Any, file: str) -> None:
    from weakfeedback.serve.models import CostsRequest

    wanted, now = config.model_dump(mode="json", exclude={"seed"}), known.settings()
    told = unlike(wanted, now, [key for key in wanted if key not in PRICES])
    if told:
        raise ConfigError(f"{file}: learner {name}: {told}: only prices can change; use another name")
    changed = {key: wanted[key] for key in PRICES if key in wanted and wanted[key] != now.get(key)}
    if changed:
        try:
            await service.recost(name, CostsRequest(**changed))
        except Problem as problem:
            raise _wrong(problem, file, name) from None


def _wrong(problem: Problem, file: str, name: str) -> Exception:
    """Return a ConfigError for a problem of the configuration; return a problem of the store unchanged."""
    if problem.status == 503:
        return problem
    return ConfigError(f"{file}: learner {name}: {problem.detail}")


def _shown(value: Any) -> str:
    return f"{value!r:.60}"
