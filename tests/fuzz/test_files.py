"""Experiment files: an experiment that is ready to run, or one line that says what is wrong."""

import copy
import json

import pytest
from hypothesis import strategies as st
from tests.fuzz.values import fuzz, sizes

from weakfeedback.experiments.userfile import read_experiment
from weakfeedback.toml import BadFile

FILES = {
    "instance": {
        "setting": "cascade",
        "instance": "bsc-1",
        "policies": ["USS-TS", {"policy": "USS-UCB", "alpha": 1.0, "label": "USS-UCB(1)"}],
        "horizon": 1000,
        "replications": 10,
        "seed": 0,
        "marks": 20,
        "title": "a title",
    },
    "law": {
        "setting": "cascade",
        "problem": {"outcomes": [[0, 0, 1], [1, 1, 0]], "probabilities": [0.5, 0.5], "costs": [0.1, 0.2]},
        "policies": ["Fixed", {"policy": "Fixed", "arm": 0}],
    },
    "bsc": {
        "setting": "cascade",
        "problem": {"bsc": {"errors": [0.3, 0.2], "slip": 0.1}, "costs": [0.1, 0.2], "tradeoff": 0.5},
        "policies": ["USS-TS"],
    },
    "data": {
        "setting": "cascade",
        "problem": {"truth": [0, 1], "predictions": [[0, 0], [1, 0]], "costs": [0.1, 0.2]},
        "policies": ["USS-TS"],
    },
    "sweep": {
        "setting": "cascade",
        "problem": {"errors": [0.3, 0.2], "costs": [0.1, 0.2], "slip": 0.1},
        "policies": ["USS-UCB", {"policy": "USS-UCB", "alpha": 1.0}],
        "sweep": {"slip": [0.05, 0.1]},
    },
    "context": {
        "setting": "contextual",
        "problem": {
            "contexts": [[0.1, 0.2], [0.3, -0.4]],
            "truth": [0, 1],
            "parameters": [[1.0], [1.0, 2.0]],
            "costs": [0.1, 0.2],
        },
        "policies": [{"policy": "USS-PD", "forced": 10}, "Random"],
    },
    "realizable": {
        "setting": "contextual",
        "problem": {"contexts": [[0.1], [0.3]], "pair_parameters": [[0.1, 0.2]], "costs": [0.1, 0.2]},
        "policies": ["USS-PD"],
    },
    "routing": {
        "setting": "routing",
        "problem": {"outcomes": [[0, 0, 1], [1, 1, 1]], "probabilities": [0.5, 0.5], "prices": [0.1, 0.2]},
        "policies": ["Pay-to-compare", {"policy": "Fixed-model", "model": 1}],
    },
    "routes": {
        "setting": "routing",
        "problem": {"truth": [0, 1], "predictions": [[0, 0], [1, 0]], "prices": [0.1, 0.2]},
        "policies": ["Double-Thompson"],
    },
    "allocation": {
        "setting": "allocation",
        "problem": {"means": [0.9, 0.5], "thresholds": [0.5, 0.5], "budget": 0.7, "setting": "loss"},
        "policies": [{"policy": "CSB-SK", "epsilon": 0.1, "delta": 0.1}, "CSB-SU"],
    },
    "players": {
        "setting": "multiplayer",
        "problem": {"means": [0.9, 0.5, 0.1], "players": 2, "shuffle": False, "rewards": "beta"},
        "policies": [{"policy": "DLC", "epsilon": 0.2, "delta": 0.1, "tolerance": "eps"}],
        "horizon": 100,
    },
}
WORDS = st.sampled_from(
    ["cascade", "allocation", "USS-TS", "DLC", "bsc-1", "pima", "policy", "label", "costs", "loss", "", "ü\n"]
)
INTEGERS = st.one_of(
    st.integers(-3, 30), st.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63), 10**12, 10**25])
)
# What TOML can say: JSON and more of it (infinities), but no null.
SAID = st.recursive(
    st.one_of(WORDS, INTEGERS, st.booleans(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=2)),
    max_leaves=5,
)


def toml(value):
    """A value as TOML; tables in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)  # inf and nan are TOML
    return json.dumps(value)


def written(content):
    return "\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in content.items())


def places(value, path=()):
    """The paths to every part of a document."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


def changed(content, path, action, value):
    """The document with one part replaced, left out, or with something put beside it."""
    document = copy.deepcopy(content)
    place = document
    for key in path[:-1]:
        place = place[key]
    if action == "replace":
        place[path[-1]] = value
    elif action == "drop":
        del place[path[-1]]
    elif isinstance(place, list):
        place.insert(path[-1], value)
    else:
        place[str(value)[:8]] = value
    return document


def read(path):
    """The experiment, None if refused with one line that names the file."""
    try:
        return read_experiment(path)
    except BadFile as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == 1
    assert refusal.startswith(str(path))
    return None


@pytest.mark.parametrize("name", FILES)
def test_the_files_that_are_altered_are_good(name, tmp_path):
    path = tmp_path / "x.toml"
    content = FILES[name]
    if name == "law":  # but one of them lacks an option
        assert read_words(path, written(content)) is None
        content = changed(content, ("policies", 0), "drop", None)
    experiment = read_words(path, written(content))
    assert list(experiment.policies)
    assert experiment.setting.name == content["setting"]


def read_words(path, text):
    path.write_text(text, encoding="utf-8")
    return read(path)


@sizes(20, 1500)
@pytest.mark.parametrize("name", FILES)
def test_altered_files(name, examples, tmp_path):
    path, content = tmp_path / "x.toml", FILES[name]
    changes = st.lists(
        st.tuples(
            st.sampled_from(places(content)), st.sampled_from(["replace", "replace", "drop", "add"]), SAID
        ),
        min_size=1,
        max_size=2,
    )

    @fuzz(examples, edits=changes)
    def check(edits):
        document = content
        for where, action, value in edits:
            if where in places(document):
                document = changed(document, where, action, value)
        experiment = read_words(path, written(document))
        if experiment is not None:
            assert experiment.policies
            assert experiment.horizon >= 1


@sizes(60, 5000)
def test_noise(examples, tmp_path):
    path = tmp_path / "x.toml"
    whole = written(FILES["instance"]).encode()

    @fuzz(
        examples,
        noise=st.one_of(
            st.binary(max_size=200), st.text(max_size=200).map(lambda t: t.encode("utf-8", "ignore"))
        ),
        cut=st.integers(0, len(whole)),
    )
    def check(noise, cut):
        for content in (noise, whole[:cut], whole[:cut] + noise[:3] + whole[cut:]):
            path.write_bytes(content)
            read(path)


def test_what_is_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "none.toml", tmp_path / ("x" * 300)):
        assert read(path) is None
    (tmp_path / "deep.toml").write_text("x = " + "[" * 10_000 + "]" * 10_000)
    assert read(tmp_path / "deep.toml") is None
