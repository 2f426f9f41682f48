"""Recorded stages from tables and files: what would a policy have done, and saved?"""

import inspect
import json

import numpy as np
import pandas as pd
import pytest
from tests.adaptive.following import random_table
from typer.testing import CliRunner

from weakfeedback.adaptive import AdaptiveProblem
from weakfeedback.adaptive.records import read_problem
from weakfeedback.adaptive.setting import SETTING
from weakfeedback.cli.app import app
from weakfeedback.experiments.userfile import read_experiment
from weakfeedback.toml import BadFile

COSTS = [0.01, 0.03, 0.08]
COLUMNS = {"truth": "truth", "outputs": ["small", "medium", "large"], "scores": ["s", "m", "l"]}


@pytest.fixture
def recorded():
    truth, outputs, scores, chances = random_table(1, rows=150)
    columns = {"truth": truth}
    columns.update(zip(COLUMNS["outputs"], outputs.T))
    columns.update(zip(COLUMNS["scores"], scores.T))
    columns.update((f"p{c}", chances[:, c]) for c in range(3))
    return pd.DataFrame(columns), AdaptiveProblem(truth, outputs, scores, COSTS, chances)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_is_the_same_problem(recorded, tmp_path, kind):
    frame, problem = recorded
    path = tmp_path / f"log.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    found = read_problem(path, **COLUMNS, costs=COSTS, chances={"0": "p0", "1": "p1", "2": "p2"})
    assert found.fixed_costs.tolist() == problem.fixed_costs.tolist()
    assert np.abs(found._chances - problem._chances).max() < 1e-12
    assert found._scores.tolist() == problem._scores.tolist()


def test_words_and_missing_scores(recorded, tmp_path):
    frame, _ = recorded
    words = np.array(["cat", "dog", "cow"])
    for name in ("truth", *COLUMNS["outputs"]):
        frame[name] = words[frame[name]]
    frame.loc[3, "m"] = np.nan
    frame.to_csv(tmp_path / "log.csv", index=False)
    found = read_problem(str(tmp_path / "log.csv"), **COLUMNS, costs=COSTS)
    assert np.isnan(found._scores[3, 1])
    assert found.labels == 3
    assert read_problem(tmp_path / "log.csv", **{**COLUMNS, "scores": None}, costs=COSTS).arms == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"truth": "wahrheit"}, r"truth must name a column of the file \(truth, small, .*got 'wahrheit'"),
        ({"outputs": "small"}, "outputs must be a list of names of columns"),
        ({"outputs": []}, "outputs must be a list"),
        ({"scores": ["s", "m", 3]}, "scores must name a column"),
        ({"scores": ["s", "m"]}, "scores must be finite numbers"),
        ({"chances": {"0": "p0"}}, "all labels that occur"),
        ({"chances": {"a": "p0"}}, "whole numbers, got 'a'"),
        ({"chances": ["p0"]}, "chances must be a table"),
        ({"costs": [1]}, "costs must be 3 numbers"),
        ({"file": "log.txt"}, r"ends in .csv or .parquet or .pq, got 'log.txt'"),
        ({"file": "nowhere.csv"}, "cannot be read"),
        ({"file": "broken.parquet"}, "is not a table"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_in_one_line(recorded, tmp_path, monkeypatch, changed, message):
    monkeypatch.chdir(tmp_path)
    recorded[0].to_csv("log.csv", index=False)
    (tmp_path / "broken.parquet").write_text("no parquet")
    given = {"file": "log.csv", **COLUMNS, "costs": COSTS, **changed}
    with pytest.raises(ValueError, match=message) as error:
        read_problem(**given)
    assert "\n" not in str(error.value)


def test_empty_labels_are_refused(recorded, tmp_path):
    frame = recorded[0].astype({"small": float})
    frame.loc[7, "small"] = np.nan
    frame.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(ValueError, match="column 'small' is empty in row 7"):
        read_problem(tmp_path / "log.csv", **COLUMNS, costs=COSTS)
    frame["small"] = 1
    frame["s"] = "much"
    frame.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(ValueError, match="column 's' must hold numbers"):
        read_problem(tmp_path / "log.csv", **COLUMNS, costs=COSTS)


FILE = """
setting = "adaptive"
policies = [{ policy = "USS-A", judge = "score" }, "USS-next", "Agreement", { policy = "Fixed", arm = 2 }]
horizon = 300
replications = 2
marks = 3
[problem]
file = "log.csv"
truth = "truth"
outputs = ["small", "medium", "large"]
scores = ["s", "m", "l"]
costs = [0.01, 0.03, 0.08]
"""


def test_an_experiment_file_with_recorded_stages(recorded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded[0].to_csv("log.csv", index=False)
    (tmp_path / "mine.toml").write_text(FILE)
    experiment = read_experiment("mine.toml")
    assert experiment.parameters["USS-A"]["labels"] == 3  # told by the problem
    ran = CliRunner().invoke(app, ["run", "mine.toml", "--out", "out", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert [row["policy"] for row in found["final"]] == list(experiment.policies)
    assert (tmp_path / "out" / "results.parquet").is_file()
    assert found["problem"]["Regret"].startswith("cost against the best fixed arm")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('file = "log.csv"', 'file = "other.csv"', "problem: file 'other.csv' cannot be read"),
        ('truth = "truth"', "", "problem.truth must be given"),
        ('file = "log.csv"', "file = 3", "problem: file must be a path that ends in .csv or .parquet"),
        ("[problem]", '[problem]\nfiel = "x"', "problem.fiel is not known"),
        ('judge = "score"', 'judge = "best"', r"policies\[0\]: judge must be one of"),
        ('judge = "score"', 'judge = "calibrated"', r"policies\[0\]: .*calibrate"),
        ('scores = ["s", "m", "l"]', "", r"policies\[0\]: judge 'score' needs a score of the last stage"),
    ],
)
def test_bad_experiment_files(recorded, tmp_path, monkeypatch, old, new, message):
    monkeypatch.chdir(tmp_path)
    recorded[0].to_csv("log.csv", index=False)
    (tmp_path / "mine.toml").write_text(FILE.replace(old, new))
    with pytest.raises(BadFile, match=message):
        read_experiment("mine.toml")


def test_a_table_in_the_file_itself(tmp_path):
    text = FILE[: FILE.index("[problem]")] + (
        "[problem]\ntruth = [0, 1, 1]\noutputs = [[0, 0, 0], [0, 1, 1], [1, 1, 1]]\ncosts = [0.1, 0.1, 0.1]\n"
        "scores = [[0.9, 0.9, 0.9], [0.5, 0.9, 0.9], [0.9, 0.9, 0.9]]\n"
    )
    (tmp_path / "mine.toml").write_text(text)
    assert read_experiment(tmp_path / "mine.toml").problem.errors.tolist() == pytest.approx([1 / 3, 0.0, 0.0])


def test_groups_and_order_in_an_experiment_file(recorded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded[0].assign(topic=["law", "art", "art"] * 50).to_csv("log.csv", index=False)
    promise = 'policies = [{ policy = "Promise", agree = 0.9, groups = "each" }]\n[problem]\n'
    more = 'groups = "topic"\norder = "shuffled"\n'
    table = 'truth = [0, 1]\noutputs = [[0, 0], [0, 1]]\ncosts = [0.1, 0.2]\ngroups = ["b", "a"]\norder = "given"\n'
    for text, groups, order in (
        (FILE.replace("[problem]\n", "[problem]\n" + more), ("art", "law"), "shuffled"),
        ('setting = "adaptive"\n' + promise + table, ("a", "b"), "given"),
    ):
        (tmp_path / "mine.toml").write_text(text)
        problem = read_experiment("mine.toml").problem
        assert (problem.groups, problem.order) == (groups, order)
    (tmp_path / "mine.toml").write_text(FILE.replace("[problem]\n", '[problem]\ngroups = "kind"\n'))
    with pytest.raises(BadFile, match="groups must name a column of the file"):
        read_experiment("mine.toml")


def test_every_argument_of_a_problem_can_stand_in_an_experiment_file():
    taken = {key for form in SETTING.forms for key in form.keys}
    assert set(inspect.signature(AdaptiveProblem).parameters) <= taken


def test_the_list_and_the_check_know_the_setting(tmp_path, monkeypatch):
    ran = CliRunner().invoke(app, ["list", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert "adaptive" in [row["name"] for row in found["settings"]]
    assert {row["name"] for row in found["policies"] if row["setting"] == "adaptive"} == {
        *("USS-A", "USS-next", "Promise", "Agreement", "Thresholds", "Fixed")
    }
    assert "digits-adaptive-3" in [row["name"] for row in found["instances"]]
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    good = CliRunner().invoke(app, ["check", "own.py:make", "--setting", "adaptive"])
    assert good.exit_code == 0, good.output
    bad = CliRunner().invoke(app, ["check", "own.py:forgetful", "--setting", "adaptive"])
    assert bad.exit_code != 0
    assert "only feedback may teach" in bad.output


OWN = """
class Sure:
    delay_safe = True

    def __init__(self, costs):
        self.K = len(costs)
        self.asked = 0

    def go_on(self, k, outputs, scores, rng):
        return bool(scores[k] < 0.8)

    def update(self, arm, outputs, scores, chances, rng):
        self.asked += 1


class Counts(Sure):
    def go_on(self, k, outputs, scores, rng):
        self.asked += 1
        return bool(scores[k] < 0.8)


def make(problem):
    return Sure(problem.costs)


def forgetful(problem):
    return Counts(problem.costs)
"""
