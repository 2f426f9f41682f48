"""Routing on the command line: listed, run from a file, checked."""

import json

import numpy as np
import pandas as pd
import pytest

from weakfeedback import simulate
from weakfeedback.routing import FixedModel, PayToCompare, RoutingProblem
from weakfeedback.routing.instances import load, names

FILE = """
setting = "routing"
{problem}
policies = ["Pay-to-compare", {{ policy = "fixed-model", model = 1, label = "last" }}]
horizon = 150
replications = 2
seed = 3
marks = 5
"""
LAW = {
    "instance": 'instance = "prices-1-3"',
    "law": "problem = { outcomes = [[1, 1, 1], [1, 0, 1]], probabilities = [0.8, 0.2], prices = [0.05, 0.3] }",
    "data": "problem = { truth = [1, 0], predictions = [[1, 1], [1, 0]], prices = [0.05, 0.3] }",
}
ONE_ROW = "problem = { outcomes = [[1, 1, 1]], probabilities = [1.0], "
PROBLEMS = {
    "instance": lambda: load("prices-1-3"),
    "law": lambda: RoutingProblem([[1, 1, 1], [1, 0, 1]], [0.8, 0.2], [0.05, 0.3]),
    "data": lambda: RoutingProblem.from_predictions([1, 0], [[1, 1], [1, 0]], [0.05, 0.3]),
}


@pytest.mark.parametrize("form", LAW)
def test_an_experiment_in_a_file(folder, call, form):
    (folder / "route.toml").write_text(FILE.format(problem=LAW[form]))
    result = call("run", "route.toml", "--out", "out")
    assert result.exit_code == 0, result.stderr
    problem = PROBLEMS[form]()
    policies = {"Pay-to-compare": PayToCompare(problem.prices), "last": FixedModel(problem.prices, 1)}
    direct = simulate(problem, policies, horizon=150, replications=2, seed=3, marks=5).frame
    rows = pd.read_parquet(folder / "out" / "results.parquet")
    pd.testing.assert_frame_equal(rows[direct.columns], direct)
    assert {"cost", "calls_0", "calls_1", "answers_0", "answers_1"} <= set(direct.columns)
    assert np.array_equal(
        direct["calls_0"] + direct["calls_1"] >= direct["answers_0"] + direct["answers_1"],
        [True] * len(direct),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ONE_ROW + "prices = [0.3, 0.1] }", "prices must be sorted"),
        (ONE_ROW + "costs = [0.1, 0.3] }", "problem.costs is not known"),
        ('instance = "prices-1-4"', "instance 'prices-1-4' is not known; did you mean"),
    ],
)
def test_a_wrong_file_is_one_line(folder, call, text, expected):
    (folder / "route.toml").write_text(FILE.format(problem=text))
    result = call("run", "route.toml")
    assert result.exit_code == 2
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1


def test_policies_and_instances_are_listed(call):
    found = json.loads(call("list", "--json").stdout)
    rows = {row["name"]: row for row in found["policies"] if row["setting"] == "routing"}
    assert set(rows) == {"Pay-to-compare", "Second-looks", "Double-Thompson", "Fixed-model"}
    assert rows["Pay-to-compare"]["options"]["rho"] == 0.05
    assert rows["Fixed-model"]["required"] == ["model"]
    instances = {row["name"]: row for row in found["instances"] if row["setting"] == "routing"}
    assert tuple(instances) == names()
    assert instances["prices-1-2"]["weak_dominance"] is False


def test_a_policy_of_ones_own_is_checked(folder, call):
    good = (
        "from weakfeedback.routing import PayToCompare\n\ndef make(p):\n    return PayToCompare(p.prices)\n"
    )
    (folder / "good.py").write_text(good)
    result = call("check", "good.py:make", "--setting", "routing")
    assert result.exit_code == 0, result.stderr
    assert "all 15 checks passed" in result.stdout
    bad = (
        "from weakfeedback.routing import PayToCompare\n\n"
        "class Counting(PayToCompare):\n    def select(self, rng):\n        self.t += 1\n"
        "        return super().select(rng)\n\ndef make(p):\n    return Counting(p.prices)\n"
    )
    (folder / "bad.py").write_text(bad)
    result = call("check", "bad.py:make", "--setting", "routing")
    assert result.exit_code != 0
    assert "select learns nothing" in result.stdout + result.stderr
