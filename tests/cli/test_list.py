"""`list` names everything that can be used, with what is known of it."""

import json

import pytest

from weakfeedback.cascade import instances
from weakfeedback.catalog import POLICIES


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


def test_the_tables_name_everything_too(call, found):
    result = call("list")
    assert result.exit_code == 0
    for kind, word in (
        ("settings", "name"),
        ("policies", "name"),
        ("instances", "name"),
        ("experiments", "id"),
    ):
        for row in found[kind]:
            assert row[word] in result.stdout
    assert "no data" in result.stdout
