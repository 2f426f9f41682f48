"""`list` names everything that can be used, with what is known of it."""

import json

import pytest
from tests.rig.processes import printed

from weakfeedback.cascade import instances
from weakfeedback.settings.catalog import POLICIES, SETTINGS


@pytest.fixture
def found(call):
    """What `list --json` prints."""
    result = call("list", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_every_policy_setting_and_instance_is_listed(found):
    assert {row["name"] for row in found["settings"]} == set(POLICIES)
    listed = {(row["setting"], row["name"]) for row in found["policies"]}
    assert listed == {(setting, name) for setting, names in POLICIES.items() for name in names}
    names = [row["name"] for row in found["instances"] if row["setting"] == "cascade"]
    assert names == list(instances.names())
    assert "ch2" in found["experiments"][0]["id"]


def test_policies_tell_their_options(found):
    rows = {row["name"]: row for row in found["policies"]}
    assert (rows["USS-UCB"]["options"], rows["USS-UCB"]["required"]) == ({"alpha": 0.5}, [])
    assert rows["Fixed"]["required"] == ["arm"]


def test_instances_tell_what_is_known_of_them(found):
    rows = {row["name"]: row for row in found["instances"]}
    assert (rows["bsc-2"]["weak_dominance"], rows["bsc-2"]["optimal_arm"]) == (True, 1)
    assert rows["bsc-2"]["xi"] == pytest.approx(instances.load("bsc-2").xi)
    assert (rows["bsc-4"]["weak_dominance"], rows["bsc-4"]["xi"]) == (True, None)  # xi is infinite
    assert rows["bsc-5"]["weak_dominance"] is False
    assert (rows["pima-1"]["available"], rows["pima-1"]["weak_dominance"]) == (False, None)
    assert "WEAKFEEDBACK_DATA" in rows["pima-1"]["unavailable"]


def lines(call, *words):
    """What `list` prints with these words: lines that fit a terminal."""
    result = call("list", *words)
    assert (result.exit_code, result.stderr) == (0, "")
    found = result.stdout.splitlines()
    assert max(map(len, found)) <= 80
    assert not any(line.endswith(("…", "...")) for line in found)
    return found


def test_the_overview_has_a_line_for_every_setting_and_policy(call, found):
    shown = lines(call)
    for row in found["settings"]:
        (line,) = [line for line in shown if line.startswith(f"  {row['name']} ")]
        assert line.endswith(row["summary"].partition(" (")[0])
    for setting, names in POLICIES.items():
        first = shown.index(f"Policies: {setting}") + 1
        for name, line in zip(names, shown[first:], strict=False):
            assert line.split() == [name, *SETTINGS[setting].words_of(name).split()]
    assert "  weakfeedback list experiments 'ch2-*'             of the thesis" in shown


@pytest.mark.parametrize("kind", ["settings", "policies", "instances", "experiments"])
def test_a_kind_is_named_in_full(call, found, kind):
    shown = " ".join(" ".join(lines(call, kind)).split())
    for row in found[kind]:
        for word in ("name", "summary", "id", "title", "place"):
            assert row.get(word, "") in shown
        for option in row.get("options", ()):
            assert option in shown


def test_policies_of_a_setting_with_their_options(call):
    shown = lines(call, "policies", "--setting", "cascade")
    assert shown[0] == "Policies: cascade"
    names = [line.split()[0] for line in shown if line.startswith("  ") and line[2] != " "]
    assert names == list(POLICIES["cascade"])
    assert "                options: probe=0.02, memory=100" in shown
    assert "                options: price (needed), cap=0.2" in shown


def test_instances_by_a_pattern(call):
    shown = lines(call, "instances", "BSC-*")
    assert shown[2].split()[:5] == ["bsc-1", "yes", "0.0706", "0", "binary"]
    assert [line.split()[0] for line in shown[2:-1]] == [f"bsc-{k}" for k in range(1, 6)]
    shown = lines(call, "instances", "pima-1")
    assert "no data" in shown[1]
    assert shown[-1] == "Not found: the data of pima; set WEAKFEEDBACK_DATA to their folder."


def test_words_of_instances_stand_in_one_column(call, found):
    for setting in SETTINGS:
        shown = lines(call, "instances", "--setting", setting)
        rows = [row for row in found["instances"] if row["setting"] == setting and row["available"]]
        columns = set()
        for row in rows:
            places = [k for k, line in enumerate(shown) if f"{line} ".startswith(f"  {row['name']} ")]
            at = places[-1 if setting == "routing" else 0]  # recorded answers are instances of two settings
            line = shown[at] if row["summary"][:12] in shown[at] else shown[at + 1]
            columns.add(line.index(row["summary"][:12]))
        assert len(columns) == 1, (setting, columns)


def test_experiments_by_a_pattern_and_as_data(call, found):
    shown = lines(call, "experiments", "ch2-lower-*")
    assert [line.split()[0] for line in shown if "ch2-" in line] == ["ch2-lower-bsc-2", "ch2-lower-bsc-4"]
    some = json.loads(call("list", "experiments", "ch2-lower-*", "--json").stdout)
    rows = [row for row in found["experiments"] if row["id"].startswith("ch2-lower-")]
    assert some == {"experiments": rows}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["instance"], ["KIND must be one of settings, policies", "'instance'"]),
        (["policies", "--setting", "cascades"], ["--setting must be one of cascade", "'cascades'"]),
        (["policies", "USS-TX"], ["no policies called 'USS-TX'"]),
        (["instances", "nix*", "--setting", "cascade"], ["no instances of setting cascade called 'nix*'"]),
        (["experiments", "ch2-lower"], ["did you mean ch2-lower*?"]),
    ],
)
def test_wrong_words_are_one_line(call, words, expected):
    result = call("list", *words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    for word in expected:
        assert word in result.stderr


def test_the_overview_loads_nothing_heavy():
    code = "import sys; from weakfeedback.cli import listing; list(listing.overview()); print(*sys.modules)"
    loaded = set(printed("-c", code).split())
    assert "weakfeedback.settings.catalog" in loaded
    assert not loaded & {"numba", "scipy", "pandas", "pyarrow", "sklearn", "matplotlib", "plotly", "rich"}
