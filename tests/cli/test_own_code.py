"""A policy of one's own in an experiment file: refused unless code may be run, and then compared like any other."""

import json
import os
import signal
import subprocess
import sys

import pandas as pd
import pytest
from tests.rig.processes import PATIENCE, started

from weakfeedback import simulate
from weakfeedback.cascade import FixedArm, instances

MODULE = """
from pathlib import Path

from weakfeedback.cascade import FixedArm

Path("ran").touch()


class Last(FixedArm):
    def __init__(self, problem, back=0):
        super().__init__(problem.costs, problem.arms - 1 - back)


def first(problem):
    return FixedArm(problem.costs, 0)


def nothing(problem):
    return None


def broken(problem):
    raise RuntimeError("as it goes")


class Wild(FixedArm):
    def __init__(self, problem):
        super().__init__(problem.costs, 0)

    def select(self, rng):
        if self.arm == 0:
            raise ZeroDivisionError("of mine")
        return self.arm
"""
HEAD = 'setting = "cascade"\ninstance = "bsc-2"\nhorizon = 50\nreplications = 3\nmarks = 4\n'


@pytest.fixture
def mine(folder, monkeypatch):
    """A module with policies, found as Python finds modules, and an experiment file that names some."""
    import sys

    (folder / "my_policies.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_policies", raising=False)
    yield lambda policies, more="": (folder / "mine.toml").write_text(
        HEAD + f"policies = [{policies}]\n" + more
    )
    sys.modules.pop("my_policies", None)


OWN = '"Random", "my_policies:first", { policy = "my_policies.py:Last", back = 1 }'


def test_code_is_refused_unless_it_is_allowed(mine, folder, call):
    for more in ("", "[sweep]\nback = [0, 1]\n"):
        mine(OWN, more)
        result = call("run", "mine.toml", "--out", "out")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        for words in ("my_policies:first", "is code that would be run", "--allow-code"):
            assert words in result.stderr
        assert sorted(os.listdir(folder)) == ["mine.toml", "my_policies.py"]  # it was not even imported


def test_allowed_code_runs_like_any_other_policy(mine, folder, call):
    mine(OWN)
    result = call("run", "mine.toml", "--out", "out", "--allow-code")
    assert result.exit_code == 0, result.stderr
    rows = pd.read_parquet(folder / "out" / "results.parquet")
    assert list(rows["policy"].cat.categories) == ["Random", "first", "Last"]
    problem = instances.load("bsc-2")
    arms = {"first": FixedArm(problem.costs, 0), "Last": FixedArm(problem.costs, 1)}
    direct = simulate(problem, arms, horizon=50, replications=3, marks=4).frame
    for label in arms:
        some = rows[rows["policy"] == label]["regret"].tolist()
        assert some == direct[direct["policy"] == label]["regret"].tolist()
    told = rows.drop_duplicates("policy").set_index("policy")["parameters"]
    assert json.loads(told["Last"]) == {"policy": "my_policies.py:Last", "back": 1}
    page = (folder / "out" / "report" / "index.html").read_text()
    assert "weakfeedback run mine.toml --out out --allow-code" in page


def test_an_option_of_ones_own_policy_is_swept(mine, folder, call):
    mine('"my_policies:first", "my_policies:Last"', "[sweep]\nback = [0, 1, 2]\n")
    result = call("run", "mine.toml", "--out", "out", "--allow-code", "--json")
    assert result.exit_code == 0, result.stderr
    runs = json.loads(result.stdout)["runs"]
    gaps = instances.load("bsc-2").gaps
    means = [{row["policy"]: row["mean"] for row in one["final"]} for one in runs]
    assert [mean["first"] for mean in means] == pytest.approx([50 * gaps[0]] * 3)
    assert [mean["Last"] for mean in means] == pytest.approx([50 * gaps[k] for k in (2, 1, 0)])


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ('"nowhere:make"', ["policies[0]", "nowhere cannot be imported", "ModuleNotFoundError"]),
        ('"my_policies:fist"', ["has no function 'fist'", "did you mean first?"]),
        ('"my_policies:"', ["MODULE:FACTORY must be"]),
        ('"my_policies:nothing"', ["my_policies:nothing must return a policy", "got None"]),
        ('"my_policies:broken"', ["it raised RuntimeError: as it goes"]),
        ('{ policy = "my_policies:first", back = 1 }', ["and back it raised TypeError"]),
    ],
)
def test_wrong_code_is_one_line(mine, folder, call, policies, expected):
    mine(policies)
    result = call("run", "mine.toml", "--out", "out", "--allow-code")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    for words in expected:
        assert words in result.stderr
    assert not (folder / "out").exists()


def test_code_that_fails_in_a_round_ends_with_one_line(mine, folder, call):
    mine('"my_policies:Wild"')
    result = call("run", "mine.toml", "--out", "out", "--allow-code", "--json")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "mine.toml: ZeroDivisionError: of mine; `weakfeedback check`" in result.stderr


ENDLESS = """
import sys

class Endless:
    def __init__(self, problem):
        self.K = problem.arms
        self.notes = {}  # so that it runs in the interpreter

    def select(self, rng):
        print("it plays", file=sys.stderr, flush=True)
        while True:
            self.notes["round"] = 1

    def update(self, arm, outputs, rng):
        pass
"""


IMPATIENT = """
from weakfeedback.cli.app import main
from weakfeedback.engine import simulate

simulate.PATIENCE = 0.5
main()
"""


def test_one_interrupt_ends_a_policy_that_never_returns(folder):
    """It is played in a thread, which nobody can stop: the process ends without it."""
    (folder / "endless.py").write_text(ENDLESS)
    (folder / "endless.toml").write_text(HEAD + 'policies = ["endless:Endless"]\n')
    words = [sys.executable, "-c", IMPATIENT, "run", "endless.toml", "--allow-code", "--workers", "2"]
    with started(words, cwd=folder, stderr=subprocess.PIPE, text=True) as child:
        lines = []
        for line in child.stderr:
            lines.append(line)
            if "it plays" in line:
                break
        assert "it plays" in lines[-1]
        assert any("runs in the interpreter" in line for line in lines)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=PATIENCE) == 130
