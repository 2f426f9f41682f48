"""Folders that no run wrote, or not to their end: status 2 and one line, and nothing is written elsewhere."""

import json
import os
import shutil

import pytest
from tests.report.test_page import results_of
from tests.reproduce.tiny import made, tiny  # noqa: F401
from tests.rig.processes import ran

from weakfeedback.reproduce.stored import NOTE, rows_of


def refused(result):
    """The line that a command ended with."""
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
    assert len(result.stderr) < 3000
    return result.stderr


MANIFESTS = {
    "a list": b"[1]",
    "null": b"null",
    "a number": b"3",
    "not UTF-8": b"\xff\xfe{",
    "half": b'{"format": 1, "sett',
    "nested": b"[" * 100_000,
    "long": json.dumps({"format": "x" * 100_000}).encode(),
    "empty": b"",
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_strange_manifest_of_a_store(small, call, case):
    store = small.parent / "out" / "store"
    store.mkdir(parents=True)
    (store / "store.json").write_bytes(MANIFESTS[case])
    assert "give another folder" in refused(call("run", "small.toml", "--out", "out"))


FILES = {
    "empty": b"",
    "text": b"no Parquet",
    "magic alone": b"PAR1PAR1",
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_no_results(folder, call, case):
    (folder / "results.parquet").write_bytes(FILES[case])
    assert "cannot load results from results.parquet: damaged, or not a file" in refused(call("report", "."))


def test_results_that_are_a_folder_or_damaged(folder, call):
    (folder / "results.parquet").mkdir()
    refused(call("report", "."))
    (folder / "results.parquet").rmdir()
    results_of(["A"]).save(folder / "results.parquet")
    content = (folder / "results.parquet").read_bytes()
    (folder / "results.parquet").write_bytes(content[: len(content) // 2])
    assert "damaged" in refused(call("report", "."))


def test_results_without_a_seed(folder, call):
    results = results_of(["A"])
    del results.about["seed"]
    results.save(folder / "results.parquet")
    assert "does not say with which seed" in refused(call("report", "."))


def test_a_link_in_the_place_of_the_page_is_not_followed(folder, call):
    box, elsewhere = folder / "box", folder / "elsewhere"
    box.mkdir()
    elsewhere.mkdir()
    results_of(["A"]).save(box / "results.parquet")
    (box / "report").symlink_to(elsewhere)
    line = refused(call("report", "box"))
    assert "box/report: is a link to another place" in line
    assert not list(elsewhere.iterdir())


@pytest.fixture
def done(tiny, made, folder):  # noqa: F811
    """A small reproduction."""
    return shutil.copytree(made.paths[0].parents[1], folder / "out")


NOTES = {
    "a list": lambda note: [1],
    "null": lambda note: None,
    "no keys": lambda note: {k: v for k, v in note.items() if k != "keys"},
    "keys a list": lambda note: {**note, "keys": ["ch9-one"]},
    "keys of numbers": lambda note: {**note, "keys": dict.fromkeys(note["keys"], 3)},
    "quick a word": lambda note: {**note, "quick": "yes"},
    "data of others": lambda note: {**note, "data": {"x": ""}},
    "folder a number": lambda note: {**note, "folder": 3},
    "more": lambda note: {**note, "more": 1},
    "format long": lambda note: {**note, "format": "\x1b" * 10_000},
    "an experiment elsewhere": lambda note: {**note, "keys": {"../../x": "y"}},
    "other keys": lambda note: {**note, "keys": dict.fromkeys(note["keys"], "y")},
}


@pytest.mark.parametrize("case", NOTES)
def test_a_strange_note_of_a_reproduction(done, call, case):
    note = json.loads((done / NOTE).read_text())
    (done / NOTE).write_text(json.dumps(NOTES[case](note)))
    refused(call("report", "out"))


def test_a_note_that_is_no_text(done, call):
    (done / NOTE).write_bytes(b"\xff\xfe\x00")
    assert "is not the note of a reproduction" in refused(call("report", "out"))


def test_damaged_or_lost_rows_of_a_reproduction(done, call):
    shutil.rmtree(done / "findings")
    path = rows_of(done, "ch9-one")
    path.write_bytes(path.read_bytes()[:500])
    assert "run `weakfeedback reproduce` again" in refused(call("report", "out"))


@pytest.mark.parametrize("name", ["report", "findings"])
def test_links_in_a_reproduction_are_not_followed(done, folder, call, name):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(done / name)
    (done / name).symlink_to(elsewhere)
    assert "is a link to another place" in refused(call("report", "out"))
    assert not list(elsewhere.iterdir())


def test_a_folder_with_a_colon_in_its_name(small, call):
    result = call("run", "small.toml", "--out", "run:1")
    assert result.exit_code == 0, result.stderr
    assert (small.parent / "run:1" / "report" / "index.html").is_file()
    assert call("report", "run:1").exit_code == 0
    assert call("run", "small.toml", "--out", "run:1").exit_code == 0


@pytest.mark.parametrize("words", [[""], [","], ["", ""]])
def test_only_nothing_is_not_everything(folder, call, words):
    line = refused(call("reproduce", "--only", *words))
    assert "--only must name experiments" in line
    assert os.listdir(folder) == []
    refused(call("reproduce", "--list", "--only", *words))


EXITS = """
import sys
from weakfeedback.cascade import UssTs
count = 0
def make(problem):
    global count
    count += 1
    if count > {times}:
        sys.exit(3)
    return UssTs(problem.costs)
"""
ENDLESS = """
class Endless:
    delay_safe = True
    def __init__(self, costs):
        self.K = len(costs)
    def select(self, rng):
        while True:
            {body}
    def update(self, arm, outputs, rng):
        pass
def make(problem):
    return Endless(problem.costs)
"""


@pytest.mark.parametrize(("times", "status"), [(0, 2), (1, 1), (5, 1)])
def test_a_factory_that_leaves(folder, call, times, status):
    name = f"leaves{times}"
    (folder / f"{name}.py").write_text(EXITS.format(times=times))
    result = call("check", f"{name}.py:make", "--setting", "cascade")
    assert result.exit_code == status, result.stderr
    assert "SystemExit: 3" in result.stderr or "calls sys.exit(3)" in result.stderr


STUBBORN = "try:\n                1 / 0\n            except BaseException:\n                pass"


@pytest.mark.parametrize("body", ["pass", STUBBORN])
def test_a_policy_without_end_is_given_up(folder, body):
    (folder / "endless.py").write_text(ENDLESS.format(body=body))
    words = ["check", "endless.py:make", "--setting", "cascade", "--max-seconds", "1"]
    result = ran("-m", "weakfeedback", *words)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1), result.stderr
    assert "endless.py:make: not done after 1 s" in result.stderr
