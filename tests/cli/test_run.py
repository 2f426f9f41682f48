"""`run` writes rows, page and figures, goes on where it was stopped, and `report` builds the page again."""

import json

import pandas as pd
import pytest
from tests.cli.conftest import SMALL
from tests.rig.pictures import undrawn  # noqa: F401

from weakfeedback import Results, simulate
from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb


@pytest.fixture
def done(small, call):
    """The small experiment, run."""
    result = call("run", "small.toml", "--out", "out")
    assert result.exit_code == 0, result.stderr
    return small.parent / "out"


@pytest.mark.usefixtures("undrawn")
def test_the_rows_are_those_of_simulate(done):
    problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])
    policies = {"USS-TS": UssTs(problem.costs), "USS-UCB(1)": UssUcb(problem.costs, alpha=1.0)}
    direct = simulate(problem, policies, horizon=200, replications=4, seed=3, marks=10).frame
    rows = pd.read_parquet(done / "results.parquet")
    pd.testing.assert_frame_equal(rows[direct.columns], direct)
    assert set(rows["experiment"]) == {"small"}
    assert set(rows["instance"]) == {"bsc-1"}
    first = rows.drop_duplicates("policy")
    parameters = {row.policy: json.loads(row.parameters) for row in first.itertuples()}
    assert parameters["USS-TS"] == {"policy": "USS-TS"}
    assert parameters["USS-UCB(1)"] == {"policy": "USS-UCB", "alpha": 1.0}
    assert Results.load(done / "results.parquet").compare("USS-TS", "USS-UCB(1)").replications == 4


def test_the_page_and_its_figures_stand_beside_the_rows(done):
    assert sorted(path.name for path in done.iterdir()) == ["report", "results.parquet", "store"]
    names = sorted(path.name for path in (done / "report").iterdir())
    assert names == ["index.html", "small.png", "small.svg"]
    assert (done / "report" / "small.png").read_bytes().startswith(b"\x89PNG")
    page = (done / "report" / "index.html").read_text()
    for words in ("USS-UCB(1)", "weakfeedback run small.toml --out out", "seed 3", "Weak dominance", "numba"):
        assert words in page


@pytest.mark.usefixtures("undrawn")
def test_json_tells_what_was_measured_and_written(small, call):
    result = call("run", "small.toml", "--out", "out", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert (found["horizon"], found["replications"], found["seed"]) == (200, 4, 3)
    assert [row["policy"] for row in found["final"]] == ["USS-TS", "USS-UCB(1)"]
    assert all(row["compiled"] is True for row in found["final"])
    assert found["final"][0]["low"] < found["final"][0]["mean"] < found["final"][0]["high"]
    (pair,) = found["comparisons"]
    assert pair["mean"] == pytest.approx(found["final"][0]["mean"] - found["final"][1]["mean"])
    assert pair["p_holm"] == pair["p_value"]
    assert (small.parent / found["page"]).is_file()


@pytest.mark.usefixtures("undrawn")
def test_one_replication_has_no_interval_and_json_says_null(small, call):
    small.write_text(SMALL.replace("replications = 4", "replications = 1"))
    found = json.loads(call("run", "small.toml", "--json").stdout)
    assert (found["final"][0]["low"], found["comparisons"][0]["p_value"]) == (None, None)
    assert found["page"] == "results/small/report/index.html"
    shown = call("run", "small.toml")
    assert shown.exit_code == 0
    assert "200 rounds, 1 replication, seed 3\n" in shown.stdout


@pytest.mark.usefixtures("undrawn")
def test_a_second_run_takes_up_finished_chunks(done, call):
    before = {path: path.stat().st_mtime_ns for path in (done / "store").iterdir()}
    rows, page = (done / "results.parquet").read_bytes(), (done / "report" / "index.html").read_bytes()
    assert call("run", "small.toml", "--out", "out", "--workers", "1").exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in (done / "store").iterdir()} == before
    assert (done / "results.parquet").read_bytes() == rows
    assert (done / "report" / "index.html").read_bytes() == page


@pytest.mark.usefixtures("undrawn")
def test_another_configuration_is_refused_and_changes_nothing(done, small, call):
    before = {path: path.read_bytes() for path in done.rglob("*") if path.is_file()}
    small.write_text(SMALL.replace("horizon = 200", "horizon = 300"))
    result = call("run", "small.toml", "--out", "out")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "horizon is 200, not 300" in result.stderr
    assert {path: path.read_bytes() for path in done.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("undrawn")
def test_overwrite_takes_the_place_of_another_experiment(done, small, call):
    small.write_text(SMALL.replace("horizon = 200", "horizon = 300"))
    assert "or --overwrite" in call("run", "small.toml", "--out", "out").stderr
    (done / "store" / "mine.txt").write_text("stays")
    result = call("run", "small.toml", "--out", "out", "--overwrite")
    assert (result.exit_code, result.stderr) == (0, "")
    assert pd.read_parquet(done / "results.parquet")["round"].max() == 300
    assert (done / "store" / "mine.txt").read_text() == "stays"
    before = {path: path.stat().st_mtime_ns for path in (done / "store").iterdir()}
    assert call("run", "small.toml", "--out", "out", "--overwrite").exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in (done / "store").iterdir()} == before  # nothing again


@pytest.mark.usefixtures("undrawn")
def test_overwrite_removes_nothing_behind_a_link(done, small, call):
    elsewhere = (done / "store").rename(done.parent / "elsewhere")
    (done / "store").symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    small.write_text(SMALL.replace("horizon = 200", "horizon = 300"))
    result = call("run", "small.toml", "--out", "out", "--overwrite")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "is a link" in result.stderr
    assert sorted(elsewhere.iterdir()) == before


@pytest.mark.usefixtures("undrawn")
def test_json_gives_numbers_of_the_problem_as_numbers(done, call):
    problem = json.loads(call("report", "out", "--json").stdout)["problem"]
    assert (problem["arms"], problem["optimal_arm"], problem["weak_dominance"]) == (3, 0, True)
    assert problem["costs"] == [0.05, 0.285, 0.45]
    assert problem["errors"] == pytest.approx([0.3937, 0.2899, 0.1358])
    assert problem["xi"] == pytest.approx(0.07057)


def test_report_builds_the_same_page_from_the_rows(done, call):
    before = {path.name: path.read_bytes() for path in (done / "report").iterdir()}
    for path in (done / "report").iterdir():
        path.unlink()
    result = call("report", "out", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["page"] == "out/report/index.html"
    assert {path.name: path.read_bytes() for path in (done / "report").iterdir()} == before


@pytest.mark.usefixtures("undrawn")
def test_output_without_a_terminal_has_no_colours(done, call):
    for words in (["report", "out"], ["--help"], ["run", "--help"]):
        result = call(*words)
        assert result.exit_code == 0
        assert "\x1b" not in result.stdout


@pytest.mark.parametrize("words", [[], ["list"], ["run"], ["reproduce"], ["report"], ["check"], ["warm-up"]])
def test_help_has_examples(words, call):
    result = call(*words, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    assert f"weakfeedback {' '.join(words)}".strip() in result.stdout.split("Examples:")[1]


@pytest.mark.usefixtures("undrawn")
def test_an_experiment_by_events(small, call):
    text = SMALL.replace("horizon = 200", "horizon = 1_000_000_000\nmethod = 'events'")
    small.write_text(text)
    refused = call("run", "small.toml", "--out", "out")
    assert refused.exit_code == 2
    assert "method must be 'rounds' for policies['USS-UCB(1)']" in refused.stderr
    assert not (small.parent / "out").exists()
    small.write_text(
        "\n".join(["policies = ['USS-TS']" if "policies" in k else k for k in text.splitlines()])
    )
    result = call("run", "small.toml", "--out", "out")
    assert result.exit_code == 0, result.stderr
    page = (small.parent / "out" / "report" / "index.html").read_text()
    assert "1,000,000,000 rounds" in page
    assert "simulated by events" in page
    assert "ran in the interpreter" not in page
