"""`[sweep]` in an experiment file: one key, several values, one page; the rows say which value they are of."""

import json
import os

import pandas as pd
import pytest
from tests.rig.pictures import undrawn  # noqa: F401

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb
from weakfeedback.experiments.userfile import read_experiment

HEAD = """
setting = "cascade"
policies = ["USS-TS", "USS-UCB", { policy = "USS-UCB", alpha = 2.0 }]
horizon = 60
replications = 3
marks = 5
seed = 1
"""
PROBLEM = "[problem]\nerrors = [0.4, 0.2]\ncosts = [0.1, 0.3]\n"


def problem(costs=(0.1, 0.3), slip=0.05):
    return CascadeProblem.bsc([0.4, 0.2], list(costs), slip)


@pytest.fixture
def run(folder, call):
    """Run a file with a sweep into the folder `out`."""

    def done(text, *words):
        (folder / "many.toml").write_text(text)
        result = call("run", "many.toml", "--out", "out", *words)
        assert result.exit_code == 0, result.stderr
        return result

    return done


@pytest.mark.usefixtures("undrawn")
def test_a_swept_horizon(run, folder):
    run(HEAD + PROBLEM + "[sweep]\nhorizon = [40, 80]\n")
    rows = pd.read_parquet(folder / "out" / "results.parquet")
    assert set(rows["swept"]) == {"horizon"}
    policies = {
        "USS-TS": UssTs(problem().costs),
        "USS-UCB": UssUcb(problem().costs),
        "USS-UCB(alpha=2.0)": UssUcb(problem().costs, alpha=2.0),
    }
    for value in (40, 80):
        direct = simulate(problem(), policies, horizon=value, replications=3, seed=1, marks=5).frame
        some = rows[rows["swept_value"] == value].reset_index(drop=True)
        pd.testing.assert_frame_equal(some[direct.columns], direct)


@pytest.mark.usefixtures("undrawn")
def test_a_swept_option_goes_to_the_policies_that_do_not_set_it(run, folder):
    run(HEAD + PROBLEM + "[sweep]\nalpha = [0.6, 1.5]\n")
    rows = pd.read_parquet(folder / "out" / "results.parquet")
    assert list(rows["policy"].cat.categories) == ["USS-TS", "USS-UCB", "USS-UCB(alpha=2.0)"]
    last = rows[rows["round"] == 60]
    for label, alphas in (("USS-UCB", {0.6: 0.6, 1.5: 1.5}), ("USS-UCB(alpha=2.0)", {0.6: 2.0, 1.5: 2.0})):
        for value, alpha in alphas.items():
            policies = {"x": UssUcb(problem().costs, alpha=alpha)}
            direct = simulate(problem(), policies, horizon=60, replications=3, seed=1, marks=5)
            some = last[(last["policy"] == label) & (last["swept_value"] == value)]
            assert some["regret"].tolist() == direct.values("x")[:, -1].tolist()
    told = rows.drop_duplicates(["policy", "swept_value"])
    given = {json.loads(words)["alpha"] for words in told[told["policy"] == "USS-UCB"]["parameters"]}
    assert given == {0.6, 1.5}


@pytest.mark.parametrize(
    ("sweep", "made"),
    [
        ("slip = [0.0, 0.1]", [{"slip": 0.0}, {"slip": 0.1}]),
        ("costs = [[0.1, 0.3], [0.1, 0.5]]", [{"costs": (0.1, 0.3)}, {"costs": (0.1, 0.5)}]),
    ],
)
def test_a_swept_argument_of_the_problem(folder, sweep, made):
    (folder / "many.toml").write_text(HEAD + PROBLEM + f"[sweep]\n{sweep}\n")
    found = read_experiment(folder / "many.toml").sweep
    assert [one.problem.digest() for one in found.experiments] == [problem(**some).digest() for some in made]


def test_the_page_has_the_swept_figure_and_report_builds_it_again(run, folder, call):
    shown = run(HEAD + PROBLEM + "[sweep]\nslip = [0.0, 0.1]\n").stdout
    for words in ("slip", "0.1", "USS-UCB(alpha=2.0)", "3 replications, seed 1", "out/report/index.html"):
        assert words in shown
    report = folder / "out" / "report"
    names = sorted(path.name for path in report.iterdir())
    figures = ("many-1", "many-2", "many-by-slip")
    assert names == ["index.html", *(f"{name}.{kind}" for name in figures for kind in ("png", "svg"))]
    page = (report / "index.html").read_text()
    assert page.count('class="chart"') == 3
    # above the sections, not in the first one
    assert (
        page.index("Mean regret in the last round against slip") < page.index("<nav") < page.index("<section")
    )
    assert "slip = 0.1" in page
    before = {path.name: path.read_bytes() for path in report.iterdir()}
    for path in report.iterdir():
        path.unlink()
    again = call("report", "out")
    assert (again.exit_code, again.stderr) == (0, "")
    assert {path.name: path.read_bytes() for path in report.iterdir()} == before


@pytest.mark.usefixtures("undrawn")
def test_what_is_no_number_is_shown_by_its_place(run, folder):
    run(HEAD + PROBLEM + "[sweep]\ncosts = [[0.1, 0.3], [0.1, 0.5]]\n")
    rows = pd.read_parquet(folder / "out" / "results.parquet")
    assert list(rows["swept_value"].unique()) == ["[0.1, 0.3]", "[0.1, 0.5]"]
    page = (folder / "out" / "report" / "index.html").read_text()
    assert "costs, by its place in the list" in page


@pytest.mark.usefixtures("undrawn")
def test_json_has_numbers_for_each_value(run):
    found = json.loads(run(HEAD + PROBLEM + "[sweep]\nhorizon = [40, 80]\n", "--json").stdout)
    assert (found["swept"], [one["value"] for one in found["runs"]]) == ("horizon", [40, 80])
    for one in found["runs"]:
        assert (one["horizon"], one["replications"]) == (one["value"], 3)
        assert one["problem"]["costs"] == [0.1, 0.3]
        assert len(one["final"]) == len(one["comparisons"]) == 3
        assert isinstance(one["final"][0]["mean"], float)


@pytest.mark.usefixtures("undrawn")
def test_a_run_without_a_sweep_is_refused_its_folder_and_the_other_way_round(run, folder, call):
    plain, swept = HEAD + PROBLEM, HEAD + PROBLEM + "[sweep]\nhorizon = [40, 80]\n"
    for first, second, kind in ((plain, swept, "without"), (swept, plain, "with")):
        run(first, "--overwrite")
        before = (folder / "out" / "results.parquet").read_bytes()
        (folder / "many.toml").write_text(second)
        result = call("run", "many.toml", "--out", "out")
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        words = f"out has the results of a run {kind} a sweep; give another folder with --out, or --overwrite"
        assert words in result.stderr
        assert (folder / "out" / "results.parquet").read_bytes() == before


@pytest.mark.usefixtures("undrawn")
def test_fewer_values_leave_nothing_of_the_others(run, folder, call):
    run(HEAD + PROBLEM + "[sweep]\nalpha = [0.6, 1.5, 1.7]\n")
    run(HEAD + PROBLEM + "[sweep]\nalpha = [0.6, 1.5]\n")
    assert sorted(os.listdir(folder / "out" / "values")) == ["1", "2"]
    found = json.loads(call("report", "out", "--json").stdout)
    assert [one["value"] for one in found["runs"]] == [0.6, 1.5]


BAD = {
    "no table": ('sweep = 3\n' + HEAD + PROBLEM, ["sweep must be a table with one key", "got 3"]),
    "two keys": (HEAD + PROBLEM + "[sweep]\nhorizon = [1, 2]\nslip = [0, 0.1]\n", ["sweep must be a table with one"]),
    "one value": (HEAD + PROBLEM + "[sweep]\nhorizon = [10]\n", ["sweep.horizon must be a list of 2 to 100 values"]),
    "no list": (HEAD + PROBLEM + "[sweep]\nhorizon = 10\n", ["sweep.horizon must be a list", "got 10"]),
    "one value twice": (HEAD + PROBLEM + "[sweep]\nhorizon = [10, 20, 10]\n", ["sweep.horizon must be different"]),
    "unknown key": (HEAD + PROBLEM + "[sweep]\nslipp = [0, 1]\n", ["sweep.slipp is neither", "did you mean slip?"]),
    "no argument": (
        HEAD + 'instance = "bsc-1"\n[sweep]\nslip = [0, 1]\n',
        ["sweep.slip is neither one of horizon nor an option"],
    ),
    "wrong value": (HEAD + PROBLEM + "[sweep]\nhorizon = [10, 0]\n", ["sweep.horizon = 0: horizon must be"]),
    "wrong option": (HEAD + PROBLEM + "[sweep]\nalpha = [1, -1]\n", ["sweep.alpha = -1: policies[1]: alpha must be"]),
    "wrong argument": (HEAD + PROBLEM + "[sweep]\nslip = [0.1, 9]\n", ["sweep.slip = 9: problem: slip"]),
    "too many rows": (
        HEAD.replace("= 60", "= 60000").replace("marks = 5", "marks = 60000").replace("= 3\n", "= 60\n")
        + PROBLEM + "[sweep]\nslip = [0.0, 0.01, 0.02, 0.03, 0.04]\n",
        ["must be at most 50,000,000", "5 values"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_sweep_is_one_line_and_leaves_nothing(case, folder, call):
    text, words = BAD[case]
    (folder / "bad.toml").write_text(text)
    result = call("run", "bad.toml", "--out", "out")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    for word in words:
        assert word in result.stderr
    assert os.listdir(folder) == ["bad.toml"]


@pytest.mark.usefixtures("undrawn")
def test_rows_of_a_sweep_without_its_parts_are_refused(run, folder, call):
    run(HEAD + PROBLEM + "[sweep]\nhorizon = [40, 80]\n")
    (folder / "out" / "values" / "2" / "results.parquet").unlink()
    result = call("report", "out")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "values/2/results.parquet" in result.stderr
