"""``weakfeedback serve``. Its dependencies are imported when it runs, so that other commands start fast."""

from __future__ import annotations

import asyncio
import importlib.util
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from weakfeedback.cli.output import App, Commands, Stop, flag, option, say
from weakfeedback.cli.serve_stores import add_commands
from weakfeedback.environment import read_secret
from weakfeedback.plaintext import counted

ADMIN = "WEAKFEEDBACK_ADMIN_TOKEN"
EXTRA = ("starlette", "uvicorn", "httptools", "orjson", "prometheus_client", "aiohttp")

serve_app = App(cls=Commands, name="serve", invoke_without_command=True)
add_commands(serve_app)


@serve_app.callback()
def serve(
    context: typer.Context,
    config: Annotated[
        Path | None,
        option("FILE", "The configuration; ./weakfeedback.toml by default, if it is there.", env="CONFIG"),
    ] = None,
    store: Annotated[
        str | None,
        option(
            "URL", "sqlite:///FILE or postgresql://...; sqlite:///weakfeedback.db by default.", env="STORE"
        ),
    ] = None,
    host: Annotated[
        str | None, option("NAME", "The address to listen at; 127.0.0.1 by default.", env="HOST")
    ] = None,
    port: Annotated[
        int | None, option("N", "The port to listen at; 8470 by default.", min=0, max=65535, env="PORT")
    ] = None,
    hosts: Annotated[
        str | None, option("NAMES", "Names under which clients call it, separated by commas.", env="HOSTS")
    ] = None,
    root_path: Annotated[
        str | None,
        option(
            "PREFIX", "The prefix under which a reverse proxy offers it, such as /decide.", env="ROOT_PATH"
        ),
    ] = None,
    otel: Annotated[
        str | None,
        option(
            "URL",
            "The OpenTelemetry collector that gets spans and metrics, such as http://127.0.0.1:4318.",
            env="OTEL",
        ),
    ] = None,
    proxy_headers: Annotated[
        str | None,
        option(
            "ADDRESSES",
            "Addresses of reverse proxies whose X-Forwarded headers are believed, separated by commas.",
            env="PROXY_HEADERS",
        ),
    ] = None,
    shared: Annotated[
        bool | None,
        flag(
            "--shared",
            "Share the store in PostgreSQL with other instances: each owns some of the learners.",
            env="SHARED",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        option(
            "URL", "Where the other instances reach this one; http://HOST:PORT by default.", env="ADVERTISE"
        ),
    ] = None,
    log: Annotated[str, option("KIND", "How log lines look: human or json.", env="LOG")] = "human",
    quiet: Annotated[bool, flag("--quiet", "Log no requests, only what went wrong.", env="QUIET")] = False,
    trust_log: Annotated[
        bool, flag("--trust-log", "Go on where a logged decision would fall otherwise now.", env="TRUST_LOG")
    ] = False,
    restored: Annotated[
        bool, flag("--restored", "The store was restored from a backup: go on with it, and skip ids.")
    ] = False,
    patience: Annotated[
        int, option("SECONDS", "How long a request may take to arrive, or to finish.", min=1, env="PATIENCE")
    ] = 30,
    interpreted: Annotated[
        bool, flag("--interpreted", "Compile nothing; the decisions are the same.", env="INTERPRETED")
    ] = False,
    demo: Annotated[
        bool,
        flag(
            "--demo", "Show learners at work on made-up models; no key, no network, nothing kept.", env="DEMO"
        ),
    ] = False,
) -> None:
    """Serve learners over HTTP: one for a team, on disk before it answers.

    Examples:

    weakfeedback serve
    weakfeedback serve --demo
    weakfeedback serve --store sqlite:///service.db --port 8471
    weakfeedback serve --config service.toml --log json

    SIGTERM ends it: requests in progress are finished first. Every option but --restored, which is for one start, can
    come from the environment too: WEAKFEEDBACK_PORT for --port. The command line wins over the environment, and the
    environment over the file.
    """
    if context.invoked_subcommand is not None:
        return
    need_extra()
    if log not in ("human", "json"):
        raise Stop(f"--log must be human or json, got {log!r}")
    more = {"root_path": root_path, "shared": shared, "advertise": advertise, "otel": otel}
    read = partial(settings_of, config, store, host, port, hosts, proxy_headers, **more)
    settings = read()
    settings.reload = read
    if settings.shared and restored:
        raise Stop("--restored needs one owner: start once without --shared")
    from weakfeedback.serve.service import Options

    options = Options(
        durability=settings.durability, compiled=not interpreted, trust_log=trust_log, restored=restored
    )
    if demo:
        raise typer.Exit(run_demo(settings, options, log, store is not None))
    raise typer.Exit(run(settings, options, log, quiet, patience=patience))


def run_demo(settings: Any, options: Any, log: str, keep: bool) -> int:
    """Serve demo learners, in a temporary folder unless a store was named."""
    import tempfile

    from weakfeedback.serve.demo import MODELS, PRICES, SKILLS, Clock, extension
    from weakfeedback.serve.proxy.demo import MODELS as CHAT_MODELS

    clock = Clock()
    options.clock, options.steady, options.compiled = clock, lambda: clock() / 1e6, False
    models = [
        f"{name} is right in {skill:.0%} for {price:g}" for name, skill, price in zip(MODELS, SKILLS, PRICES)
    ]
    say(f"made-up models, of which the learners know the prices only: {', '.join(models)}")
    chat = [f"{name} in {skill:.0%}" for name, (skill, _, _) in CHAT_MODELS.items()]
    say(f"and, behind the proxy, language models that are right: {', '.join(chat)}")
    with tempfile.TemporaryDirectory(prefix="weakfeedback-demo-") as folder:
        if not keep:
            settings.store = f"sqlite:///{folder}/demo.db"
        return run(settings, options, log, True, (extension(clock),))


def need_extra() -> None:
    """Stop with one line that says what to install, if a package is missing."""
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise Stop(f"the service needs {', '.join(missing)}: pip install 'weakfeedback[serve]'")


def settings_of(
    config: Path | None,
    store: str | None,
    host: str | None,
    port: int | None,
    hosts: str | None = None,
    proxy_headers: str | None = None,
    **more: Any,
) -> Any:
    """Return the settings of the file, if there is one, and of the command line or the environment."""
    from pydantic import ValidationError

    from weakfeedback.serve.config import FILE, ConfigError, Settings, read_settings
    from weakfeedback.toml import first_mistake

    path = config
    if path is None and Path(FILE).exists():
        path = Path(FILE)
    given = {"store": store, "host": host or None, "port": port, **more}
    for name, names in (("hosts", hosts), ("proxy_headers", proxy_headers)):
        given[name] = None if names is None else split(names)
    try:
        settings = Settings() if path is None else read_settings(path)
        for name, value in given.items():
            if value is None:
                continue
            try:
                setattr(settings, name, value)
            except ValidationError as error:
                option = f"--{name.replace('_', '-')}"
                raise ConfigError(str(first_mistake(error, Settings)._replace(field=option))) from None
        settings.tokens += admin_token()
        settings.check()
        settings.check_shared()
    except ConfigError as error:
        raise Stop(str(error)) from None
    return settings


def split(names: str) -> list[str]:
    """Return the names in a text that commas separate."""
    return [name for name in (word.strip() for word in names.split(",")) if name]


def admin_token() -> list[Any]:
    """Return the token that the environment gives to the administrator, itself or in a file, if it does."""
    from weakfeedback.serve.auth import Token
    from weakfeedback.serve.config import ConfigError

    try:
        secret = read_secret(ADMIN)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    try:
        return [Token.of("admin of the environment", secret, "admin")] if secret else []
    except ValueError as error:
        raise ConfigError(f"{ADMIN}: {error}") from None


def run(
    settings: Any,
    options: Any,
    log: str = "human",
    quiet: bool = False,
    extensions: tuple[Any, ...] = (),
    patience: int = 30,
) -> int:
    """Serve until a signal comes; each mistake is reported in one line."""
    from weakfeedback.journal import JournalError, OwnedElsewhere
    from weakfeedback.serve.config import ConfigError
    from weakfeedback.serve.kept_out import words_of
    from weakfeedback.serve.server import log_to_stderr
    from weakfeedback.serve.server import serve as serve_now

    log_to_stderr(log, quiet)

    def ready(port: int, service: Any) -> None:
        name = f"[{settings.host}]" if ":" in settings.host else settings.host
        if service.sharing is not None and service.state == "ready":
            held = counted(len(service.sharing.shards), "shard")
            say(
                f"weakfeedback serves {counted(len(service.learners), 'learner')} of {held} at http://{name}:{port}/"
            )
        elif service.state == "standby":
            say(f"weakfeedback waits for its store, as a standby, at http://{name}:{port}/")
        else:
            say(f"weakfeedback serves {counted(len(service.learners), 'learner')} at http://{name}:{port}/")
        if service.kept_out:
            names = words_of(name for name, _ in service.kept_out.reasons())
            say(f"kept out, as they cannot be read (503): {names}")
        if service.models:
            names = " or ".join(f'"{model}"' for model in service.models[:3])
            say(f'OpenAI clients: base_url = "http://{name}:{port}/v1", model = {names}')
        if options.durability == "process":
            say("durability = process: what was acknowledged survives kill -9, not a loss of power")

    try:
        work = serve_now(settings, options, ready=ready, extensions=extensions, patience=patience)
        return int(run_loop(work))
    except (ConfigError, OwnedElsewhere, OSError) as error:
        raise Stop(str(error)) from None
    except JournalError as error:
        raise Stop(str(error), status=1) from None


def run_loop(work: Any) -> Any:
    """Run a coroutine to its end, on the faster event loop if it is installed."""
    factory = None
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)
