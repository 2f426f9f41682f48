"""A new policy is its file and one line in its setting, a new instance one line: everything else finds them.

Done in a copy of the package, by a second Python.
"""

import json
import shutil
from pathlib import Path

import pytest
from tests.check_policy import missing
from tests.rig.processes import printed

import weakfeedback
from weakfeedback.settings.catalog import SETTINGS

ROOT = Path(__file__).parents[2]
POLICY = '''"""Coin: stops at the first arm or at the last one, by a coin."""

import numpy as np

from weakfeedback.validate import cumulative_costs


class Coin:
    """Stop at the first arm or at the last one, by a coin.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
    chance : number
        Of the first arm.
    """

    in_short = "stops at the first arm or the last, by a coin"
    explained = "Coin tosses a coin, whatever was seen."
    delay_safe = True
    recostable = True

    def __init__(self, costs, chance=0.5):
        self.C = cumulative_costs(costs)
        self.chance = chance

    def select(self, rng):
        """Return the arm."""
        return 0 if rng.random() < self.chance else self.C.size - 1

    def update(self, arm, outputs, rng):
        """Learn nothing."""

    def update_pairs(self, arm, differ, rng):
        """Learn nothing."""
'''
LINE = '            "Coin": "coin:Coin",\n'
INSTANCE = '        *_table("coin", "", _bsc, "channels for a coin", (((0.1, 0.2, 0.3), 0, True),)),\n'
EXPERIMENT = """
setting = "cascade"
instance = "coin-1"
policies = [{ policy = "coin", chance = 0.2 }]
horizon = 50
replications = 2
"""


UNFINISHED = shutil.ignore_patterns("*.pyc.*")  # bytecode that another process is just writing


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the package with the policy, its line and the line of the instance."""
    home = tmp_path_factory.mktemp("house")
    package = home / "src" / "weakfeedback"
    shutil.copytree(Path(weakfeedback.__file__).parent, package, ignore=UNFINISHED)
    (package / "cascade" / "policies" / "coin.py").write_text(POLICY)
    add(package / "cascade" / "setting.py", '            "Random": "baselines:RandomArm",\n', LINE)
    add(package / "cascade" / "instances.py", "        *_SPECIAL,\n", INSTANCE)
    (home / "coin.toml").write_text(EXPERIMENT)
    return home


def add(path, after, line):
    """Put a line behind another."""
    text = path.read_text()
    assert text.count(after) == 1
    path.write_text(text.replace(after, after + line))


COMMANDS = """
import json
from typer.testing import CliRunner
from weakfeedback.cli.app import app

def call(*words):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    return done.stdout

json.dump({
    "policies": json.loads(call("list", "policies", "--json")),
    "instance": json.loads(call("list", "instances", "coin-1", "--json")),
    "list": call("list"),
    "ran": json.loads(call("run", "coin.toml", "--out", "coin", "--json")),
}, open("said.json", "w"))
"""
LIVE = """
from weakfeedback import Cascade
cascade = Cascade([abs, abs], [1, 1], 10, policy="coin", seed=0)
answer = cascade(-3)
print(answer.label, cascade.explain(answer.id))
cascade.save("coin.json")
print(Cascade.load("coin.json", [abs, abs]).decide().id - answer.id)
"""
CHECKS = """
from weakfeedback.settings.catalog import SETTINGS
from weakfeedback.checks import check_policy
setting = SETTINGS["cascade"]
print(check_policy(lambda problem: setting.make("Coin", problem, {}), setting.sample("coin")[0]))
"""
PAGES = """
import sys
sys.path.insert(0, "docs")
from build import main
for page in ("index", "made/cascade-coin"):
    assert main(["out", "--page", f"algorithms/{page}"]) == 0
"""


MISSING = """
import sys
sys.path.insert(0, "tests")
from check_policy import missing
from weakfeedback.settings.catalog import SETTINGS
from weakfeedback.cascade import Coin
assert Coin is SETTINGS["cascade"].policies["Coin"]
print("\\n".join(missing(SETTINGS["cascade"], "Coin")))
"""
API = """
import sys
sys.path.insert(0, "docs")
from build import main
assert main(["out", "--page", "api/cascade"]) == 0
"""


def start(house, code):
    """Run code in the copy; return what it prints."""
    return printed("-c", code, cwd=house, environment={"PYTHONPATH": str(house / "src")}, timeout=1200)


def test_the_list_and_an_experiment_file_have_them(house):
    start(house, COMMANDS)
    said = json.loads((house / "said.json").read_text())
    assert {"setting": "cascade", "name": "Coin"}.items() <= next(
        row for row in said["policies"]["policies"] if row["name"] == "Coin"
    ).items()
    assert [row["name"] for row in said["instance"]["instances"]] == ["coin-1"]
    assert "by a coin" in said["list"]
    assert [row["policy"] for row in said["ran"]["final"]][-1] == "Coin"
    assert (house / "coin" / "report" / "index.html").is_file()


def test_a_live_cascade_plays_explains_and_keeps_it_and_the_checks_take_it(house):
    live, checked = start(house, f"{LIVE}print('--')\n{CHECKS}").split("--\n")
    assert live.startswith("3 Decision")
    assert "Coin tosses a coin" in live
    assert live.strip().endswith("1")
    assert " 0 failed" in checked


def test_the_package_exports_it_and_what_is_missing_is_said(house):
    (house / "tests" / "reference").mkdir(parents=True, exist_ok=True)
    (house / "docs" / "algorithms").mkdir(parents=True, exist_ok=True)
    (house / "tests" / "evidence" / "stored").mkdir(parents=True, exist_ok=True)
    (house / "tests" / "evidence" / "stored" / "simulated.json").write_text("{}")
    (house / "CHANGELOG.md").write_text("")
    shutil.copy(ROOT / "tests" / "check_policy.py", house / "tests")
    words = start(house, MISSING).splitlines()
    assert [line.partition(":")[0] for line in words] == [
        "types", "twin", "mutants", "page", "changelog", "evidence",
    ]  # fmt: skip
    assert "from weakfeedback.cascade.policies.coin import Coin as Coin" in words[0]


@pytest.mark.parametrize("name", ["USS-TS", "Pay-to-compare", "CSB-TS"])
def test_nothing_is_missing_of_a_finished_policy(name):
    (setting,) = (one for one in SETTINGS.values() if name in one.policies)
    assert missing(setting, name) == []


def test_the_documentation_has_a_page_of_it(house):
    shutil.copytree(
        ROOT / "docs",
        house / "docs",
        ignore=shutil.ignore_patterns("made", "__pycache__"),
        dirs_exist_ok=True,
    )
    start(house, PAGES + API)
    pages = house / "out" / "algorithms"
    assert "Stop at the first arm or at the last one" in (house / "out" / "api" / "cascade.html").read_text()
    assert "stops at the first arm or the last, by a coin" in (pages / "index.html").read_text()
    assert "Of the first arm." in (pages / "made" / "cascade-coin.html").read_text()
