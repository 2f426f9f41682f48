"""The proxy's part of the configuration: every mistake is one line, and no key stands in the file."""

import json
import tomllib
from copy import deepcopy

import pytest

from weakfeedback.serve.config import ConfigError, read_settings
from weakfeedback.serve.proxy.settings import read_proxied, read_upstreams
from weakfeedback.serve.proxy.upstream import Upstream, UpstreamSettings

FILE = """
[upstream.local]
url = "http://127.0.0.1:11434/v1"
[upstream.cloud]
url = "https://models.example.com/v1"
key_env = "CLOUD_API_KEY"
timeout = { connect = 5, first_byte = 30, chunk = 30, total = 300 }
retries = 2

[[learner]]
name = "support"
kind = "router"
error_cost = 0.10
currency = "USD"
waiting_price = 0.002
fallback = "large"
compare = { type = "json", fields = ["/category"] }

[[learner.stage]]
name = "small"
upstream = "local"
model = "small-7b"
price = { input = 0.0, output = 0.0 }
expect = { input = 600, output = 80 }
[[learner.stage]]
name = "medium"
upstream = "cloud"
model = "medium-2"
price = { input = 0.25, cached = 0.03, output = 1.0 }
expect = { input = 600, output = 80 }
[[learner.stage]]
name = "large"
upstream = "cloud"
model = "large-5"
price = { input = 3.0, output = 12.0 }
expect = { input = 600, output = 120 }
params = { temperature = 0 }

[[learner]]
name = "patrols"
kind = "allocation"
arms = ["north", "south", "east", "west"]
budget = 2.0
policy = "CSB-TS"
"""


def test_the_file_of_the_manual(tmp_path):
    (tmp_path / "w.toml").write_text(FILE)
    found = read_settings(tmp_path / "w.toml", {})
    assert set(found.upstreams) == {"local", "cloud"}
    assert [name for name, _ in found.learners] == ["patrols"]
    (support,) = found.proxied
    assert support.prices() == pytest.approx([0.0, 0.00023, 0.00324])
    assert support.fallback == 2
    assert support.learner()["models"] == ["small", "medium", "large"]
    assert support.stages[2].params == {"temperature": 0}
    assert "CLOUD" not in repr(support)


def changed(path, value):
    """The tables of the file with one key set, or taken out."""
    tables = deepcopy(tomllib.loads(FILE))
    place = tables
    *steps, last = path
    for step in steps:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return tables


def read(tables):
    upstreams = read_upstreams(tables["upstream"])
    return read_proxied("learner[0]", tables["learner"][0], upstreams)


STAGE = ("learner", 0, "stage", 0)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("upstream", "cloud", "key"), "sk-secret-123", r"upstream.cloud.key must not stand in this file"),
        (("upstream", "cloud", "api_key"), "sk-secret-123", "must not stand in this file"),
        (("upstream", "cloud", "Authorization"), "Bearer sk-secret-123", "must not stand in this file"),
        (("upstream", "cloud", "headers"), {"x": "sk-secret-123"}, "must not stand in this file"),
        (("upstream", "cloud", "key_env"), "sk-secret-123", "must be the name of an environment variable"),
        (
            ("upstream", "cloud", "url"),
            "http://models.example.com/v1",
            "must be https, or http to a private address",
        ),
        (("upstream", "cloud", "url"), "http://8.8.8.8/v1", "must be https, or http to a private address"),
        (("upstream", "cloud", "url"), "http://169.254.169.254/v1", "must be https, or http to a private"),
        (("upstream", "cloud", "url"), "https://user:sk-secret-123@models.example.com", "no user, password"),
        (
            ("upstream", "cloud", "url"),
            "https://models.example.com/?key=sk-secret-123",
            "no user, password, query",
        ),
        (("upstream", "cloud", "url"), "ftp://models.example.com", "must be an address such as"),
        (("upstream", "cloud", "url"), "https://models.example.com:port/", "must be an address such as"),
        (("upstream", "cloud", "retries"), 99, "an integer from 0 to 10, got 99"),
        (("upstream", "cloud", "timeout"), {"first_bite": 3}, r"did you mean first_byte"),
        (("upstream", "cloud", "timeout"), {"chunk": 0}, r"chunk must be a number > 0, got 0"),
        (("upstream", "cloud", "ulr"), "x", "did you mean url"),
        (("upstream", "Cloud!"), {"url": "https://x.example"}, "must be named with"),
        (("learner", 0, "kind"), "rooter", r"did you mean router"),
        (("learner", 0, "mode"), "fast", "must be router or adaptive"),
        (("learner", 0, "judge"), "score", "judge must be last or score, for adaptive, got 'score'"),
        (("learner", 0, "prefix"), "unsure", 'must be "always", for kind cascade'),
        (("learner", 0, "error_cost"), 0, "error_cost must be a number > 0, got 0"),
        (("learner", 0, "error_cost"), None, "agree must be given, such as 0.95"),
        (("learner", 0, "fallback"), "larg", r"got 'larg'; did you mean large\?"),
        (("learner", 0, "baseline"), "huge", "baseline must be one of small, medium, large"),
        (("learner", 0, "compare"), {"type": "number", "tol": 1}, "a tolerance must not be used"),
        (("learner", 0, "features"), ["messages"], "for kind router be some of header:NAME"),
        (("learner", 0, "stage"), [], "must be 1 to 64 tables"),
        (("learner", 0, "api_key"), "sk-secret-123", "must not stand in this file"),
        (("learner", 0, "error_costs"), 1, "did you mean error_cost"),
        (
            (*STAGE, "upstream"),
            "lokal",
            r"one of the upstreams \(local, cloud\), got 'lokal'; did you mean local",
        ),
        ((*STAGE, "price"), {"input": -1, "output": 1}, "input must be a number >= 0, got -1"),
        ((*STAGE, "price"), {"output": 1}, "input must be given: a number >= 0"),
        ((*STAGE, "price"), {"input": 9, "output": 99}, "in the order of rising price: medium"),
        ((*STAGE, "allow"), ["base_url"], "must not be in params or allow"),
        ((*STAGE, "params"), {"model": "x"}, "must not be in params or allow"),
        ((*STAGE, "name"), "medium", "no name twice"),
        ((*STAGE, "expect"), {"input": 5, "cached": 6}, "cached must be at most input"),
        ((*STAGE, "modell"), "x", "did you mean model"),
    ],
)
def test_mistakes_are_one_line(path, value, message, tmp_path):
    with pytest.raises(ValueError, match=message) as caught:
        read(changed(path, value))
    words = str(caught.value)
    assert "\n" not in words
    assert "sk-secret" not in words


def test_a_file_with_a_mistake_is_named(tmp_path):
    (tmp_path / "w.toml").write_text(FILE.replace('upstream = "local"', 'upstream = "lokal"'))
    with pytest.raises(ConfigError, match=r"w.toml: learner\[0\].stage\[0\].upstream must be"):
        read_settings(tmp_path / "w.toml", {})
    (tmp_path / "w.toml").write_text(FILE.replace("key_env", "key"))
    with pytest.raises(ConfigError, match=r"w.toml: upstream.cloud.key must not stand"):
        read_settings(tmp_path / "w.toml", {})


async def test_a_key_may_be_in_a_file(tmp_path):
    (tmp_path / "w.toml").write_text(FILE.replace('key_env = "CLOUD_API_KEY"', 'key_file = "cloud key"'))
    settings = read_settings(tmp_path / "w.toml", {}).upstreams["cloud"]
    with pytest.raises(ValueError, match=r"upstream.cloud.key_file: .*cloud key cannot be read"):
        Upstream(settings)
    for held, words in (("\n", "is empty"), ("sk-sécret", "must hold the key")):
        (tmp_path / "cloud key").write_text(held)
        with pytest.raises(ValueError, match=words):
            Upstream(settings)
    (tmp_path / "cloud key").write_text("sk-secret-123\n")

    upstream = Upstream(settings)
    try:
        found = upstream._client().headers["Authorization"]
    finally:
        await upstream.close()
    assert found == "Bearer sk-secret-123"
    with pytest.raises(ValueError, match="key_file must be left out beside key_env"):
        read(changed(("upstream", "cloud", "key_file"), "cloud key"))


def test_modes_and_kinds():
    assert read(changed(("learner", 0, "mode"), "adaptive")).kind == "adaptive"
    assert read(changed(("learner", 0, "kind"), None)).kind == "router"
    tables = changed(("learner", 0, "kind"), "cascade")
    tables["learner"][0]["mode"] = "adaptive"
    with pytest.raises(ValueError, match="mode must be left out or fit kind = cascade"):
        read(tables)
    tables = changed(("learner", 0, "compare"), {"type": "number", "scale": 1})
    assert read(tables).learner()["compare"] == {"type": "number", "scale": 1.0}
    tables["learner"][0]["mode"] = "adaptive"
    with pytest.raises(ValueError, match="must not be number for adaptive"):
        read(tables)


def test_free_models_need_a_waiting_price():
    tables = changed(("learner", 0, "waiting_price"), 0)
    for entry in tables["learner"][0]["stage"]:
        entry["price"] = {"input": 0, "output": 0}
    with pytest.raises(ValueError, match="the last stage must cost something"):
        read(tables)


@pytest.mark.parametrize("key", [None, "", "sk-ü", "sk\n"])
def test_a_key_must_be_in_the_environment(monkeypatch, key):
    settings = UpstreamSettings("cloud", "https://models.example.com", "CLOUD_API_KEY")
    monkeypatch.delenv("CLOUD_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("CLOUD_API_KEY", key)
    with pytest.raises(ValueError, match="the environment variable CLOUD_API_KEY must hold the key"):
        Upstream(settings)


TABLE = {
    "sample_spec": {"input_cost_per_token": "what a token costs", "mode": "one of: chat, embedding"},
    "small-7b": {"input_cost_per_token": 1.5e-07, "output_cost_per_token": 6e-07, "mode": "chat"},
    "cloud/medium-2": {
        "input_cost_per_token": 2.5e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-06,
    },
    "other/medium-2": {
        "input_cost_per_token": 2.5e-06,
        "output_cost_per_token": 1e-05,
        "cache_read_input_token_cost": 1.25e-06,
    },
    "a/large-5": {"input_cost_per_token": 3e-06, "output_cost_per_token": 1.2e-05},
    "b/large-5": {"input_cost_per_token": 4e-06, "output_cost_per_token": 1.2e-05},
    "no-price": {"mode": "chat", "output_cost_per_token": 1e-5},
    "negative": {"input_cost_per_token": -1.0},
}


def with_prices(folder, *models):
    (folder / "prices.json").write_text(json.dumps(TABLE))
    stages = "".join(f'[[learner.stage]]\nupstream = "local"\nmodel = "{model}"\n' for model in models)
    head = 'prices = "prices.json"\n[upstream.local]\nurl = "http://127.0.0.1:1/v1"\n'
    (folder / "w.toml").write_text(f'{head}[[learner]]\nname = "support"\nerror_cost = 1.0\n{stages}')
    return read_settings(folder / "w.toml").proxied[0]


def test_prices_by_model_come_from_a_file_in_the_format_of_litellm(tmp_path):
    small, medium = with_prices(tmp_path, "small-7b", "medium-2").stages
    assert (small.price.input, small.price.cached, small.price.output) == (0.15, 0.15, 0.6)
    assert (medium.price.input, medium.price.cached, medium.price.output) == (2.5, 1.25, 10.0)
    assert with_prices(tmp_path, "small-7b", "a/large-5").stages[1].price.input == 3.0


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("large-5", "prices of 'large-5' differ in .*prices.json .a/large-5, b/large-5."),
        ("smal-7b", "'smal-7b' is not in .*prices.json; did you mean small-7b"),
        ("no-price", "'no-price' in .* has no input_cost_per_token that is a number >= 0"),
        ("negative", "has no input_cost_per_token"),
        ("sample_spec", "has no input_cost_per_token"),
    ],
)
def test_a_model_without_a_price_in_the_file_is_named(tmp_path, model, words):
    with pytest.raises(ConfigError, match=words) as caught:
        with_prices(tmp_path, "small-7b", model)
    assert "learner[0].stage[1].price must be given" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "does not exist"),
        ("{", "cannot be read"),
        ("[]", "must hold an object"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_a_price_file_that_is_none(tmp_path, text, words):
    if text is not None:
        (tmp_path / "p.json").write_text(text)
    (tmp_path / "w.toml").write_text('prices = "p.json"\n')
    with pytest.raises(ConfigError, match=words):
        read_settings(tmp_path / "w.toml")
