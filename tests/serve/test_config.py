"""The configuration file: every mistake is one line, and learners in it are made, compared or given new prices."""

from pathlib import Path
from typing import Any

import pytest
from tests.rig.harness import run, serving
from tests.rig.server import Client, Process

from weakfeedback.cli.output import Stop
from weakfeedback.cli.serve import settings_of
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.config import ConfigError, read_settings, settle
from weakfeedback.serve.models import Problem
from weakfeedback.serve.tokens import reload_tokens

GOOD = """
[server]
host = "127.0.0.1"
port = 8471
store = "sqlite:///service.db"
durability = "process"
hosts = ["decide.internal"]

[[server.token]]
name = "web workers"
env = "WF_TOKEN"
scope = "use"

[[learner]]
name = "patrols"
kind = "allocation"
arms = ["north", "south"]
budget = 2.0
policy = "CSB-TS"

[[learner]]
name = "triage"
kind = "cascade"
stages = ["rules", "expert"]
stage_costs = [0.1, 2]
error_cost = 10
compare = { type = "text", casefold = true }
"""
TOKEN = {"WF_TOKEN": "0123456789abcdef"}


def read(tmp_path: Path, text: str, environment: dict[str, str] | None = None) -> Any:
    path = tmp_path / "weakfeedback.toml"
    path.write_text(text)
    return read_settings(path, TOKEN if environment is None else environment)


def test_a_good_file_is_read(tmp_path):
    found = read(tmp_path, GOOD)
    assert (found.port, found.store, found.durability) == (8471, "sqlite:///service.db", "process")
    assert [name for name, _ in found.learners] == ["patrols", "triage"]
    assert found.learners[1][1].compare.casefold
    assert [(token.name, token.level) for token in found.tokens] == [("web workers", 2)]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("port = 8471", 'port = "8471"', "server.port must be an integer from 0 to 65535, got '8471'"),
        ("port = 8471", "prot = 8471", "server.prot is not known; did you mean port?"),
        ("[server]", "[serve]", "serve is not known; did you mean server?"),
        (
            'durability = "process"',
            'durability = "ful"',
            "must be one of full, process, got 'ful'; did you mean full?",
        ),
        (
            "sqlite:///service.db",
            "mysql://x",
            "a store must be sqlite:///FILE or postgresql://USER@HOST/DATABASE",
        ),
        ("sqlite:///service.db", "postgresql://me:hunter2@db/x", "put it into WEAKFEEDBACK_STORE_PASSWORD"),
        (
            'env = "WF_TOKEN"',
            'token = "0123456789abcdef"',
            "server.token[0].token must not stand in this file",
        ),
        ('env = "WF_TOKEN"', 'env = "WF_OTHER"', "the variable must hold at least 16 characters, got 0"),
        (
            'scope = "use"',
            'scope = "all"',
            "server.token[0].scope must be one of read, use, admin, got 'all'",
        ),
        ('host = "127.0.0.1"', "host = 1", "server.host must be a text that is not empty, got 1"),
        ('hosts = ["decide.internal"]', 'hosts = "x"', "server.hosts must be a list of texts, got 'x'"),
        (
            "budget = 2.0",
            "budget = -2.0",
            "learner[0].budget must be >= 1e-15, got -2.0",
        ),
        ("budget = 2.0", "bugdet = 2.0", "learner[0].budget"),
        ("error_cost = 10", "eror_cost = 10", "learner[1].eror_cost is not known; did you mean error_cost?"),
        ('kind = "cascade"', 'kind = "casade"', "learner[1]"),
        (
            'name = "triage"',
            'name = "Triage"',
            "learner[1].name must match [a-z0-9][a-z0-9_-]{0,63}, got 'Triage'",
        ),
        ('name = "triage"', 'name = "patrols"', "learner[1].name must not stand there twice, got 'patrols'"),
        ("[server]", "[server", "is not TOML: Expected"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, old, new, words):
    assert old in GOOD
    with pytest.raises(ConfigError) as found:
        read(tmp_path, GOOD.replace(old, new, 1))
    line = str(found.value)
    assert words in line
    assert "weakfeedback.toml" in line
    assert "\n" not in line.strip()
    assert "hunter2" not in line
    assert "0123456789abcdef" not in line


def test_a_token_may_be_in_a_file(tmp_path):
    text = GOOD.replace('env = "WF_TOKEN"', 'file = "token"')
    with pytest.raises(
        ConfigError, match=r"server.token\[0\].file: .*token cannot be read: FileNotFoundError"
    ):
        read(tmp_path, text)
    for held, words in (
        ("", "is empty"),
        ("too short\n", "file must hold at least 16 characters, got 9"),
        ("the-old-one-12345\nthe-new-one-67890\n", "must hold one secret in one line, got 2 lines"),
    ):
        (tmp_path / "token").write_text(held)
        with pytest.raises(ConfigError, match=words):
            read(tmp_path, text)
    (tmp_path / "token").write_text(TOKEN["WF_TOKEN"] + "\n")  # beside the configuration
    assert read(tmp_path, text, {}).tokens == read(tmp_path, GOOD).tokens
    for both in ('env = "WF_TOKEN"\nfile = "token"', ""):
        with pytest.raises(ConfigError, match=r"server.token\[0\].env must be given, or file instead of it"):
            read(tmp_path, GOOD.replace('env = "WF_TOKEN"', both))


def test_two_tokens_have_two_secrets(tmp_path, monkeypatch):
    """Also the one of the environment, and when they are read anew: the first would decide what both may do."""
    path, other = tmp_path / "weakfeedback.toml", "another-secret-0123"
    twice = '[[server.token]]\nname = "first"\nscope = "read"\nenv = "WF_TOKEN"\n[[server.token]]'
    told = "the token 'web workers' must have a secret of its own, got that of 'first'"
    with pytest.raises(ConfigError, match=told):
        read(tmp_path, GOOD.replace("[[server.token]]", twice, 1)).check()
    read(tmp_path, GOOD).check()
    for name, secret in (*TOKEN.items(), ("WEAKFEEDBACK_ADMIN_TOKEN", other)):
        monkeypatch.setenv(name, secret)
    settings = settings_of(path, None, None, None)
    settings.reload = lambda: settings_of(path, None, None, None)
    auth = Auth(settings.tokens)
    assert reload_tokens(auth, settings) == 2
    monkeypatch.setenv("WEAKFEEDBACK_ADMIN_TOKEN", TOKEN["WF_TOKEN"])
    told = "the token 'admin of the environment' must have a secret of its own, got that of 'web workers'"
    with pytest.raises(Problem, match=told):
        reload_tokens(auth, settings)
    with pytest.raises(Stop, match=told):
        settings_of(path, None, None, None)
    assert len(auth.tokens) == 2


def test_an_address_that_others_reach_needs_a_token(tmp_path):
    with pytest.raises(ConfigError, match=r"needs a \[\[server.token\]\]"):
        read(tmp_path, '[server]\nhost = "0.0.0.0"\n').check()


def test_learners_are_made_compared_and_given_new_prices(tmp_path):
    async def play(text: str) -> dict[str, Any]:
        found = read(tmp_path, text)
        async with serving(tmp_path / "s.db") as (service, _):
            await settle(service, found.learners, found.file)
            return await service.info("triage")

    first = run(play(GOOD))
    assert run(play(GOOD)) == first
    dearer = run(play(GOOD.replace("[0.1, 2]", "[0.1, 3]")))
    assert (dearer["revision"], dearer["config"]["stage_costs"]) == (2, [0.1, 3.0])
    with pytest.raises(ConfigError, match=r"learner triage: stages = .* only prices can change"):
        run(play(GOOD.replace('"expert"', '"doctor"')))
    with pytest.raises(ConfigError, match="learner other: policy must be one of"):
        run(
            play(
                GOOD
                + '[[learner]]\nname = "other"\nkind = "allocation"\narms = ["a"]\nbudget = 1\npolicy = "X"\n'
            )
        )


def test_the_command_reads_the_file_beside_it_and_refuses_a_wrong_one(tmp_path):
    (tmp_path / "weakfeedback.toml").write_text(GOOD.replace("port = 8471", "port = 0"))
    with Process(tmp_path, env=TOKEN) as server:
        call = Client(server.port, {"authorization": f"Bearer {TOKEN['WF_TOKEN']}"})
        assert call("POST", "/v1/learners/triage/decide", {})[0] == 200
        assert call("DELETE", "/v1/learners/triage")[0] == 403
        stranger = Client(server.port)
        assert stranger("GET", "/v1/learners")[0] == 401
        stranger.close()
        call.close()
        assert (tmp_path / "service.db").exists()
        assert server.stop() == 0
    (tmp_path / "weakfeedback.toml").write_text("[server]\nprot = 1\n")
    (tmp_path / "errors").write_text("")
    server = Process(tmp_path, wait=False)
    assert server._end() == 2
    words = (tmp_path / "errors").read_text()
    assert words == "weakfeedback: weakfeedback.toml: server.prot is not known; did you mean port?\n"
