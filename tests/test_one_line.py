"""A new policy is its file and one line in its setting, a new instance one line: everything else finds them.

Done in a copy of the package, by a second Python.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weakfeedback

ROOT = Path(__file__).parents[1]
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
policies = ["USS-TS", { policy = "coin", chance = 0.2 }]
horizon = 50
replications = 2
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A copy of the package with the policy, its line and the line of the instance."""
    home = tmp_path_factory.mktemp("house")
    package = home / "src" / "weakfeedback"
    shutil.copytree(Path(weakfeedback.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
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


def start(house, *words):
    """Run a command in the copy."""
    environment = {**os.environ, "PYTHONPATH": str(house / "src")}
    return subprocess.run(
        [sys.executable, *words], cwd=house, env=environment, capture_output=True, text=True, timeout=1200
    )


def test_the_list_has_them(house):
    done = start(house, "-m", "weakfeedback", "list", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"setting": "cascade", "name": "Coin"}.items() <= next(
        row for row in found["policies"] if row["name"] == "Coin"
    ).items()
    assert any(row["name"] == "coin-1" for row in found["instances"])
    assert "by a coin" in start(house, "-m", "weakfeedback", "list").stdout


def test_an_experiment_file_may_name_them(house):
    done = start(house, "-m", "weakfeedback", "run", "coin.toml", "--out", "coin", "--json")
    assert done.returncode == 0, done.stderr
    assert [row["policy"] for row in json.loads(done.stdout)["final"]][-1] == "Coin"
    assert (house / "coin" / "report" / "index.html").is_file()


def test_a_live_cascade_plays_explains_and_keeps_it(house):
    code = """
from weakfeedback import Cascade
cascade = Cascade([abs, abs], [1, 1], 10, policy="coin", seed=0)
answer = cascade(-3)
print(answer.label, cascade.explain(answer.id))
cascade.save("coin.json")
print(Cascade.load("coin.json", [abs, abs]).decide().id - answer.id)
"""
    done = start(house, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 Decision")
    assert "Coin tosses a coin" in done.stdout
    assert done.stdout.strip().endswith("1")


def test_the_checks_take_it(house):
    code = """
from weakfeedback.catalog import SETTINGS
from weakfeedback.checks import check_policy
setting = SETTINGS["cascade"]
print(check_policy(lambda problem: setting.make("Coin", problem, {}), setting.sample("coin")[0]))
"""
    done = start(house, "-c", code)
    assert done.returncode == 0, done.stderr
    assert " 0 failed" in done.stdout


def test_the_documentation_has_a_page_of_it(house):
    shutil.copytree(ROOT / "docs", house / "docs", ignore=shutil.ignore_patterns("made"))
    done = start(house, "docs/build.py", "out", "--page", "algorithms/index")
    assert done.returncode == 0, done.stderr
    assert (
        "stops at the first arm or the last, by a coin"
        in (house / "out" / "algorithms" / "index.html").read_text()
    )
    done = start(house, "docs/build.py", "out", "--page", "algorithms/made/cascade-coin")
    assert done.returncode == 0, done.stderr
    page = (house / "out" / "algorithms" / "made" / "cascade-coin.html").read_text()
    assert "Of the first arm." in page
