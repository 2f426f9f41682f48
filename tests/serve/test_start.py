"""How long a start takes: as the docs say; and compiled code, where there is some, makes the same of the events."""

import contextlib
import re
import time
from pathlib import Path

import pytest
from tests.rig.harness import Caller, run, serving
from tests.rig.histories import LEARNERS, make_history
from tests.rig.pace import pace

from weakfeedback.engine.compiler.cache import loading_only
from weakfeedback.journal import SqliteStore
from weakfeedback.serve import recover
from weakfeedback.serve.app import SPOKEN, make_app
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.kinds import CascadeKind
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.page.routes import page_of

DOCS = Path(__file__).parents[2] / "docs"
HISTORIES = {"cascade": "uss-ts", "allocation": "csb-su", "router": "pay", "adaptive": "within"} | {
    "contextual": "context"
}


def stated() -> dict[str, int]:
    """Events a second of each kind, as the docs have it."""
    page = (DOCS / "howto" / "operate.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| start, from the last snapshot")]
    found = re.findall(r"([\d,]+)(?: events a second)? of an? (\w+)", row)
    return {kind: int(number.replace(",", "")) for number, kind in found if kind in HISTORIES}


def rate(path: Path, name: str, compiled: bool = False) -> float:
    """Events that a second of the processor replays; the best of three."""
    with SqliteStore.open(path, read_only=True) as store:
        seconds = []
        for _ in range(3):
            began = time.process_time()
            found = recover.recover_all(store, compiled=compiled)
            seconds.append(time.process_time() - began)
    assert all(one.live.compiled == compiled for one in found.learners)
    return found.events / min(seconds)


@pytest.mark.parametrize("kind", HISTORIES)
def test_a_start_is_as_fast_as_the_docs_say(tmp_path, kind):
    name = HISTORIES[kind]
    run(make_history(tmp_path / "s.db", 200, (name,)))
    assert LEARNERS[name]["kind"] == kind
    # a third, because machines differ and others work beside
    assert rate(tmp_path / "s.db", name) > stated()[kind] / 3 / pace()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["within", "context"])
def test_compiled_code_replays_slow_kinds_faster(tmp_path, name, monkeypatch):
    path = tmp_path / "s.db"
    states = run(make_history(path, 1_000, (name,)))
    plain = rate(path, name)
    with SqliteStore.open(path, read_only=True) as store:
        (one,) = recover.recover_all(store).learners
        one.kind.again(one.live.state(), True)  # into the cache
    monkeypatch.setattr(recover, "LONG", 1_000)
    assert rate(path, name, compiled=True) > 1.5 * plain
    with SqliteStore.open(path, read_only=True) as store:
        assert {
            one.name: one.picture() for one in recover.recover_all(store, compiled=True).learners
        } == states


def is_in_memory(learner: Learner) -> bool:
    with contextlib.suppress(ValueError), loading_only():
        return learner.kind.again(learner.live.state(), True).compiled
    return False


def test_a_start_loads_what_was_compiled_and_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(CascadeKind, "is_slow", True)
    monkeypatch.setattr(recover, "LONG", 100)
    path = tmp_path / "s.db"
    states = run(make_history(path, 60, ("uss-ts",)))
    with SqliteStore.open(path, read_only=True) as store:
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("WEAKFEEDBACK_CACHE", str(tmp_path / "cache"))
            (fresh,) = recover.recover_all(store, compiled=True).learners
            assert fresh.live.compiled is is_in_memory(fresh)  # if another test compiled it in this process
            fresh.kind.again(fresh.live.state(), True)
            (loaded,) = recover.recover_all(store, compiled=True).learners
        assert loaded.live.compiled
        assert loaded.picture() == states["uss-ts"]
        (interpreted,) = recover.recover_all(store, compiled=False).learners
        assert not interpreted.live.compiled


async def test_only_what_the_docs_name_as_open_needs_no_token(tmp_path):
    page = (DOCS / "api" / "service.md").read_text()
    rows = re.findall(r"^\| `(\w+) (\S+)` \| .* \| (.*) \|$", page, re.MULTILINE)
    open_ones = {path for _, path, scope in rows if scope == "no token"}
    assert open_ones == {"/health/live", "/health/ready", "/openapi.json", "/docs"}
    words = " ".join((DOCS / "howto" / "service.md").read_text().split())
    assert (
        "(it and `/docs` are open without a token, as `/health/*`: they say nothing about your learners)"
        in words
    )

    async with serving(tmp_path / "s.db") as (service, call):
        made = await call(
            "PUT", "/v1/learners/secret-name", {**LEARNERS["uss-ts"], "stages": ["x-ray", "b", "c"]}
        )
        assert made.status == 201
        auth = Auth([Token.of("t", "s" * 32, "read")])
        stranger = Caller(make_app(service, auth, **page_of(service, auth)))
        for n, (method, path, _) in enumerate(rows):
            if path.startswith(tuple(SPOKEN)):  # only there if a learner answers as a model
                continue
            target = path.replace("{name}", "secret-name").replace("{id}", "1")
            reply = await stranger.raw(method, target, client=(f"10.0.0.{n}", 1))
            refused = reply.status == 401 or reply.headers.get("location", "").startswith("/login?")
            assert refused == (path not in open_ones), (path, reply.status)
            assert b"secret-name" not in reply.body
            assert b"x-ray" not in reply.body
