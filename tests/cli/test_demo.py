"""`demo` leads from an installed package to a first page, and `make demo` uses it."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from weakfeedback.cli import demo

ROOT = Path(__file__).parents[2]


def test_the_demo_prints_what_was_learned_and_where_the_page_is(folder, call):
    result = call("demo", "--out", "first", "--workers", "2")
    assert result.exit_code == 0, result.stderr
    page = folder / "first" / "report" / "index.html"
    for words in ("Cascade of 3 stages, USS-WD", "spent ", "USS-UCB(1)", "10,000 rounds, 100 replications"):
        assert words in result.stdout
    page_line, _, promise, last = result.stdout.splitlines()[-4:]
    assert page_line.startswith("Open first/report/index.html in a browser.")
    assert page_line.endswith(str(ROOT / "examples"))
    cost, alone, less, differ = map(
        float, re.findall(r"(\d+(?:\.\d+)?)(?= dollars|: | ?% less|% differ)", promise)
    )
    assert alone == 2.10  # 6,000 calls at 3.50 for 10,000
    assert less == pytest.approx(100 * (1 - cost / alone), abs=1)
    assert 40 < less < 65
    assert 0 < differ <= 5
    assert last.startswith("Would it save you money? weakfeedback replay")
    assert "weakfeedback demo --out first" in page.read_text()


def test_a_folder_that_is_in_the_way_is_one_line(folder, call):
    (folder / "first").write_text("mine")
    result = call("demo", "--out", "first")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "first" in result.stderr
    assert (folder / "first").read_text() == "mine"


def test_the_examples_come_with_the_wheel(tmp_path, monkeypatch):
    """The wheel has the folder inside the package, and there it is looked for first."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"examples": "weakfeedback/examples"}
    installed = tmp_path / "lib" / "site-packages" / "weakfeedback"
    installed.mkdir(parents=True)
    monkeypatch.setattr(demo, "__file__", str(installed / "cli" / "demo.py"))
    with pytest.raises(FileNotFoundError, match="install the package again"):
        demo.examples_folder()
    shutil.copytree(ROOT / "examples", tmp_path / "lib" / wheel["force-include"]["examples"].split("/")[1])
    shutil.move(tmp_path / "lib" / "examples", installed)
    assert demo.examples_folder() == installed / "examples"


def test_make_demo_says_how_to_go_on():
    text = (ROOT / "Makefile").read_text()
    lines = re.search(r"^demo: .*\n((?:\t.*\n)+)", text, re.MULTILINE)[1].splitlines()
    assert "$(BIN)/weakfeedback list" in lines[0]
    assert "$(BIN)/activate" in lines[0]
    # its last words are those that somebody would like to read
    assert "-m weakfeedback demo --out" in lines[-1]
