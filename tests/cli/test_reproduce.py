"""`reproduce` as people start it: chosen, listed, stopped, taken up again; every mistake one line."""

import json
import shutil
import signal
import subprocess
import sys

import pandas as pd
import pytest
from tests.cli.conftest import at_terminal
from tests.rig.pictures import undrawn  # noqa: F401
from tests.rig.processes import COMMAND, PATIENCE, started, wait_until
from typer.testing import CliRunner

from weakfeedback.cli.app import app
from weakfeedback.reproduce import registry

FAST = ("ch2-four-copies", "ch2-uniform-ts-1000")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two tiny experiments, run once: the folder and what was said."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.delenv("WEAKFEEDBACK_DATA", raising=False)
        words = ["reproduce", "--quick", "--only", *FAST, "--out", "out", "--json"]
        return place / "out", CliRunner().invoke(app, words, prog_name="weakfeedback")


@pytest.fixture
def done(folder, made):
    """A copy of it in this test's folder."""
    place, result = made
    assert (result.exit_code, result.stderr) == (0, "")
    shutil.copytree(place, folder / "out")
    return json.loads(result.stdout)


def contents(folder):
    """Every file below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_json_tells_verdicts_results_and_files(done, folder):
    assert [row["id"] for row in done["experiments"]] == list(FAST)
    assert [row["final"][0]["replications"] for row in done["experiments"]] == [10, 10]
    claims = {row["number"]: row for row in done["claims"]}
    assert set(claims) == {22, 24}
    assert claims[22]["verdict"] == "not-reproduced"
    assert claims[22]["p_value"] < 0.05 < claims[22]["low"]
    assert sum(done["verdicts"].values()) == 2
    assert done["data"] == {"pima": False, "heart": False}
    assert done["chunks_played"] == 2
    for path in (done["page"], *done["figures"], *(row["results"] for row in done["experiments"])):
        assert (folder / path).is_file()


def test_a_second_run_plays_nothing_and_report_builds_the_same_page(done, folder, call):
    before = contents(folder)
    again = call("reproduce", "--quick", "--only", ",".join(FAST), "--out", "out")
    assert again.exit_code == 0
    assert "0 chunks played" in again.stdout
    assert contents(folder) == before
    (folder / done["page"]).unlink()
    result = call("report", "out", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["claims"] == done["claims"]
    assert contents(folder) == before


def test_the_list_has_places_cost_and_data(folder, call):
    result = call("reproduce", "--list", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    rows = {row["id"]: row for row in found["experiments"]}
    assert list(rows) == list(registry.experiments())
    one = rows["ch2-compare-pima-1"]
    assert (one["needs"], one["stand_in"], one["place"]) == ("pima", "bc3-1", "figures dCompare, ts_pima")
    assert all(row["seconds"] > 0 for row in rows.values())
    # every experiment of the thesis serves a claim of it, what goes beyond it none
    assert all(bool(row["claims"]) != name.startswith("beyond-") for name, row in rows.items())
    assert found["seconds"] == pytest.approx(sum(row["seconds"] for row in rows.values()))
    shown = call("reproduce", "--list", "--only", "ch2-xi-*", "--quick").stdout
    assert "ch2-xi-0.17" in shown
    assert "ch2-compare" not in shown
    shown = call("reproduce", "--list", "--quick").stdout.splitlines()
    assert max(map(len, shown)) <= 80
    words = " ".join(" ".join(shown).split())
    for row in rows.values():
        assert f" {row['id']} (" in words
        assert f"{row['title']} ({row['place']})" in words
    assert "(figures dCompare, ts_pima); needs pima, else bc3-1" in words
    assert not (folder / "results").exists()


@pytest.mark.usefixtures("undrawn")
def test_a_killed_run_goes_on_with_the_same_results(folder, call):
    """SIGKILL in the middle: what is on disk is not played again, and the end is as if nothing had happened."""
    words = ["reproduce", "--quick", "--only", "ch2-rho-one*", *FAST, "--workers", "1", "--json"]
    with started([*COMMAND, *words, "--out", "out"], stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: len(list(folder.glob("out/store/*/*.parquet"))) >= 3, process, pause=0.01)
        process.send_signal(signal.SIGKILL)
    kept = len(list(folder.glob("out/store/*/*.parquet")))
    assert 3 <= kept < 37
    assert not (folder / "out" / "report").exists()
    resumed = call(*words, "--out", "out")
    assert resumed.exit_code == 0, resumed.stderr
    whole = call(*words, "--out", "whole")
    assert json.loads(whole.stdout)["chunks_played"] == 37
    assert json.loads(resumed.stdout)["chunks_played"] == 37 - kept
    assert json.loads(resumed.stdout)["claims"] == json.loads(whole.stdout)["claims"]
    for path in (folder / "whole").glob("ch2-*/results.parquet"):
        other = folder / "out" / path.relative_to(folder / "whole")
        assert pd.read_parquet(path).equals(pd.read_parquet(other))


@pytest.fixture
def places(folder):
    """Folders and files that cannot be used."""
    (folder / "empty").mkdir()
    (folder / "wrong").mkdir()
    (folder / "wrong" / "pima-indians-diabetes.csv").write_text("1,2,3,4,5,6,7,8,1\n" * 3)
    (folder / "file").write_text("mine")
    (folder / "other").mkdir()
    (folder / "other" / "reproduction.json").write_text('{"format": 99}')
    store = folder / "strange" / "store" / FAST[0]
    store.mkdir(parents=True)
    (store / "store.json").write_text('{"format": 0}')
    return folder


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--only", "ch2-four-copy"], "did you mean ch2-four-copies"),
        (["--only", "ch2-four"], "did you mean ch2-four*?"),
        (["--list", "--only", "frob"], "'frob' is not known"),
        (["ch2-four-copies"], "--only"),
        (["--only", FAST[0], "--data", "absent"], "absent: No such file"),
        (["--only", FAST[0], "--data", "file"], "file: Not a directory"),
        (["--only", FAST[0], "--data", "empty"], "neither of the medical data sets"),
        (["--only", FAST[0], "--data", "wrong"], "not the PIMA Indians Diabetes data"),
        (["--only", FAST[0], "--out", "file"], "file"),
        (["--only", FAST[0], "--out", "strange"], "its format is 0, not 1; give another folder with --out"),
        (["--only", FAST[0], "--scheduler", "tcp://127.0.0.1:9"], "cannot be reached"),
        (["--only", FAST[0], "--scheduler", "nonsense:port"], "cannot be reached"),
        (["--scheduler", "tcp://127.0.0.1:9", "--workers", "2"], "exclude each other"),
        (["--workers", "0"], "--workers"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_every_mistake_is_one_line_and_leaves_nothing(words, expected, places, call, monkeypatch):
    monkeypatch.setattr("weakfeedback.reproduce.cluster.WAIT", "1s")
    before = contents(places)
    result = call("reproduce", *words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
    assert expected in result.stderr
    assert contents(places) == before


def test_folders_that_cannot_be_reported(places, done, call):
    result = call("report", "other")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "has format 99" in result.stderr
    shutil.rmtree(places / "out" / FAST[0])
    result = call("report", "out")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "run `weakfeedback reproduce` again" in result.stderr


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(28, "No space left on device")]
)
@pytest.mark.parametrize(
    "place", ["engine.store", "engine.results", "reproduce.stored", "reproduce.findings", "report.pictures"]
)
def test_a_full_or_forbidden_disk_is_one_line_wherever_it_is_met(error, place, folder, call, monkeypatch):
    def refuse(path, *_):
        error.filename = str(path)
        raise error

    monkeypatch.setattr(f"weakfeedback.{place}.write_atomically", refuse)
    result = call("reproduce", "--quick", "--only", FAST[1], "--out", "out", "--json")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
    assert error.strerror in result.stderr
    assert not (folder / "out" / "report" / "index.html").exists()
    assert not list(folder.rglob("*.part"))


def test_an_interrupt_is_status_130_and_says_how_to_go_on(folder):
    words = [*COMMAND, "reproduce", "--only", "ch2-rho-one*", "--workers", "1", "--out", "out"]
    with started(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: list(folder.glob("out/store/*/*.parquet")), process, pause=0.01)
        process.send_signal(signal.SIGINT)
        printed, complaint = process.communicate(timeout=PATIENCE)
    assert (process.returncode, printed, complaint.count("\n")) == (130, "", 2), complaint
    assert complaint.startswith("7 experiments: about ")
    assert "run the same command to continue" in complaint


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_shows_bars_and_the_time_left(folder):
    words = ["reproduce", "--quick", "--only", *FAST, "--out", "out"]
    seen, status = at_terminal(*words, stdout=subprocess.DEVNULL)
    assert status == 0
    assert "experiments, " in seen
    assert " left" in seen
    assert FAST[0] in seen
