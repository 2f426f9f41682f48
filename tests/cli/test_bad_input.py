"""Every mistake is one line on standard error and exit status 2, and nothing is written."""

import os

import pytest

from weakfeedback.cascade import CascadeProblem
from weakfeedback.experiments.userfile import read_experiment
from weakfeedback.toml import BadFile

TS = 'policies = ["USS-TS"]\n'
HEAD = 'setting = "cascade"\ninstance = "bsc-1"\n'
OWN = 'setting = "cascade"\npolicies = ["USS-TS"]\nhorizon = 10\nreplications = 2\n[problem]\n'
LAW = OWN + "outcomes = [[1, 1, 1], [1, 0, 1]]\nprobabilities = [0.5, 0.5]\ncosts = [0.1, 0.2]\n"
BSC = OWN + "bsc = { errors = [0.4, 0.2] }\ncosts = [0.1, 0.2]\n"
FLAT = OWN + "errors = [0.4, 0.2]\ncosts = [0.1, 0.2]\n"
DATA = OWN + 'truth = ["a", "b"]\npredictions = [["a", "a"], ["a", "b"]]\ncosts = [0.1, 0.2]\n'

CASES = {
    "not TOML": (HEAD + "policies = = 3", ["is not TOML", "line 3"]),
    "unknown key": (HEAD + 'policies = ["USS-TS"]\nhorizn = 5', ["horizn", "is not known; did you mean horizon?"]),
    "no setting": ('instance = "bsc-1"\npolicies = ["USS-TS"]', ["setting must be given", "cascade"]),
    "unknown setting": ('setting = "cascad"\ninstance = "bsc-1"\n' + TS, ["'cascad'", "did you mean cascade?"]),
    "setting of a wrong type": ('setting = 3\ninstance = "bsc-1"\npolicies = ["USS-TS"]', ["setting must be", "3"]),
    "no policies": (HEAD, ["policies must be given"]),
    "empty policies": (HEAD + "policies = []", ["policies must be", "[]"]),
    "policies not a list": (HEAD + 'policies = "USS-TS"', ["policies must be", "'USS-TS'"]),
    "policy of a wrong type": (HEAD + "policies = [3]", ["policies[0] must be", "got 3"]),
    "table without policy": (HEAD + 'policies = [{ label = "x" }]', ["policies[0].policy must be given"]),
    "unknown policy": (HEAD + 'policies = ["USS-TS", "USS-UBC"]', ["policies[1]", "'USS-UBC'", "mean USS-UCB?"]),
    "wrong option": (
        HEAD + 'policies = [{ policy = "USS-UCB", alfa = 1.0 }]',
        ["policies[0]", "alfa is not an option of USS-UCB", "alpha"],
    ),
    "wrong option value": (
        HEAD + 'policies = [{ policy = "USS-UCB", alpha = -1.0 }]',
        ["policies[0]", "alpha must be", "> 0", "-1.0"],
    ),
    "missing option": (HEAD + 'policies = ["Fixed"]', ["policies[0]", "Fixed needs the option arm"]),
    "costs as an option": (HEAD + 'policies = [{ policy = "USS-TS", costs = [1.0] }]', ["costs is not an option"]),
    "arm out of range": (HEAD + 'policies = [{ policy = "Fixed", arm = 3 }]', ["arm must be", "0 to 2", "3"]),
    "one label twice": (HEAD + 'policies = ["USS-TS", "uss-ts"]', ["policies[1]", "'USS-TS' twice"]),
    "empty label": (HEAD + 'policies = [{ policy = "USS-TS", label = "" }]', ["policies[0].label must be", "''"]),
    "label of two lines": (HEAD + 'policies = [{ policy = "USS-TS", label = "a\\nb" }]', ["policies[0].label"]),
    "unknown instance": ('setting = "cascade"\ninstance = "bcs-1"\n' + TS, ["'bcs-1'", "did you mean bsc-1"]),
    "missing data": ('setting = "cascade"\ninstance = "pima-1"\npolicies = ["USS-TS"]', ["WEAKFEEDBACK_DATA"]),
    "neither instance nor problem": ('setting = "cascade"\n' + TS, ["instance", "[problem]", "neither"]),
    "both instance and problem": ('instance = "bsc-1"\n' + LAW, ["instance", "[problem]", "both"]),
    "horizon 0": (HEAD + 'policies = ["USS-TS"]\nhorizon = 0', ["horizon must be an integer from 1", "got 0"]),
    "horizon not whole": (HEAD + 'policies = ["USS-TS"]\nhorizon = 10.5', ["horizon must be", "10.5"]),
    "horizon a word": (HEAD + 'policies = ["USS-TS"]\nhorizon = "10"', ["horizon must be", "'10'"]),
    "horizon true": (HEAD + 'policies = ["USS-TS"]\nhorizon = true', ["horizon must be", "True"]),
    "horizon huge": (HEAD + 'policies = ["USS-TS"]\nhorizon = 99999999999999999999', ["horizon must be", "10^12"]),
    "replications 0": (HEAD + 'policies = ["USS-TS"]\nreplications = 0', ["replications must be", "got 0"]),
    "negative seed": (HEAD + 'policies = ["USS-TS"]\nseed = -1', ["seed must be an integer >= 0", "-1"]),
    "marks 0": (HEAD + 'policies = ["USS-TS"]\nmarks = 0', ["marks must be", "0"]),
    "marks a word": (HEAD + 'policies = ["USS-TS"]\nmarks = "all"', ["marks must be", "'all'"]),
    "marks falling": (HEAD + 'policies = ["USS-TS"]\nmarks = [5, 3]', ["marks must be", "[5, 3]"]),
    "marks past the horizon": (HEAD + 'policies = ["USS-TS"]\nhorizon = 9\nmarks = [10]', ["marks must be", "1 to 9"]),
    "too many rows": (
        HEAD + 'policies = ["USS-TS"]\nhorizon = 1000000\nreplications = 1000\nmarks = 1000000',
        ["replications * marks must be at most"],
    ),
    "marks beyond memory": (
        HEAD + 'policies = ["USS-TS"]\nhorizon = 1000000000000\nreplications = 2\nmarks = 1000000000000',
        ["marks must be at most"],
    ),
    "unknown problem key": (LAW + "tradeof = 2.0", ["problem.tradeof", "did you mean tradeoff?"]),
    "key outside its table": (
        "errors = [0.4, 0.2]\n" + BSC,
        ["errors is not known here: it goes into the table [problem]; allowed: title"],
    ),
    "key of another form": (BSC + "outcomes = [[1, 1]]", ["problem.outcomes is not known", "bsc"]),
    "errors and bsc": (BSC + "errors = [0.4, 0.2]", ["problem.errors is not known", "bsc"]),
    "errors and outcomes": (FLAT + "outcomes = [[1, 1]]", ["problem.outcomes is not known", "slip"]),
    "errors alone": (FLAT.replace("costs = [0.1, 0.2]", ""), ["problem.costs must be given"]),
    "errors above 1": (FLAT.replace("[0.4, 0.2]", "[0.4, 1.2]"), ["problem: errors must lie in [0, 1]", "1.2"]),
    "unknown bsc key": (BSC.replace("[0.4, 0.2]", "[0.4, 0.2], slipp = 0.1"), ["problem.bsc.slipp", "slip"]),
    "bsc not a table": (BSC.replace("{ errors = [0.4, 0.2] }", "3"), ["problem.bsc must be a table", "got 3"]),
    "bsc without errors": (BSC.replace("errors = [0.4, 0.2]", "slip = 0.1"), ["problem.bsc.errors must be given"]),
    "problem without costs": (LAW.replace("costs = [0.1, 0.2]", ""), ["problem.costs must be given"]),
    "problem not a table": ('problem = 3\nsetting = "cascade"\n' + TS, ["problem must be a table", "3"]),
    "probabilities": (LAW.replace("[0.5, 0.5]", "[0.5, 0.6]"), ["problem: probabilities must sum to 1", "1.1"]),
    "falling costs": (BSC.replace("[0.1, 0.2]", "[0.2, 0.1]"), ["problem: costs must be cumulative", "[0.2, 0.1]"]),
    "costs too few": (DATA.replace("[0.1, 0.2]", "[0.1]"), ["problem: costs must be 2 numbers"]),
    "predictions ragged": (DATA.replace('["a", "a"]', '["a"]'), ["problem: predictions"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_bad_file_is_one_line_and_leaves_nothing(case, folder, call):
    text, words = CASES[case]
    (folder / "bad.toml").write_text(text)
    result = call("run", "bad.toml", "--out", "out")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("weakfeedback: bad.toml: ")
    for word in words:
        assert word in result.stderr
    assert os.listdir(folder) == ["bad.toml"]


@pytest.mark.parametrize("text", [LAW, BSC, FLAT, DATA], ids=["law", "bsc", "errors", "data"])
def test_the_forms_that_the_bad_files_spoil_are_good(text, folder):
    (folder / "good.toml").write_text(text)
    assert read_experiment(folder / "good.toml").problem.arms == 2


def test_errors_are_those_of_binary_symmetric_channels(folder):
    for name, text in (("flat", FLAT + "slip = 0.1"), ("bsc", BSC.replace("0.2] }", "0.2], slip = 0.1 }"))):
        (folder / f"{name}.toml").write_text(text)
    flat, bsc = (read_experiment(folder / f"{name}.toml").problem for name in ("flat", "bsc"))
    assert flat.digest() == bsc.digest() == CascadeProblem.bsc([0.4, 0.2], [0.1, 0.2], 0.1).digest()


def test_files_that_cannot_be_read(folder, call):
    (folder / "binary.toml").write_bytes(b"\xff\xfe")
    for name, word in (("absent.toml", "does not exist"), (".", "directory"), ("binary.toml", "UTF-8")):
        with pytest.raises(BadFile, match=word):
            read_experiment(folder / name)
        result = call("run", name, "--out", "out")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert os.listdir(folder) == ["binary.toml"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["frob"], "'frob'"),
        (["lst"], "Did you mean 'list'?"),
        (["run"], "FILE.toml"),
        (["run", "small.toml", "--frob"], "--frob"),
        (["run", "small.toml", "--workers", "0"], "--workers"),
        (["run", "small.toml", "--workers", "many"], "--workers"),
        (["serve", "--port", "many"], "integer, got 'many'; see"),
        (["serve", "--port", "70000"], "65535, got '70000'; see"),
        (["report"], "DIR"),
        (["report", "absent"], "absent: no such folder"),
        (["check", "x:y"], "--setting"),
        (["check", "x:y", "--setting", "cascades"], "one of cascade"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_use_is_one_line(words, expected, small, call):
    result = call(*words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert expected in result.stderr
    assert os.listdir(small.parent) == ["small.toml"]


def test_a_file_where_the_folder_should_be(small, call):
    (small.parent / "out").write_text("mine")
    result = call("run", "small.toml", "--out", "out")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "out" in result.stderr
    assert (small.parent / "out").read_text() == "mine"


def test_a_file_where_the_store_should_be(small, call):
    (small.parent / "out").mkdir()
    (small.parent / "out" / "store").write_text("mine")
    result = call("run", "small.toml", "--out", "out")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert os.listdir(small.parent / "out") == ["store"]


@pytest.mark.given
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(small, call):
    (small.parent / "out").mkdir(mode=0o555)
    result = call("run", "small.toml", "--out", "out")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "Permission denied" in result.stderr


def test_a_folder_without_results_cannot_be_reported(folder, call):
    (folder / "empty").mkdir()
    result = call("report", "empty")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "results.parquet" in result.stderr
    (folder / "empty" / "results.parquet").write_bytes(b"nonsense")
    result = call("report", "empty")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert os.listdir(folder / "empty") == ["results.parquet"]
