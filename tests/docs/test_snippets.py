"""Every Python snippet of the README and the docs runs, and prints what the page says it prints; so do the examples."""

import contextlib
import gc
import io
import re
import runpy
import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from weakfeedback.cli.app import app
from weakfeedback.cli.demo import COMPARISON
from weakfeedback.experiments.userfile import read_experiment
from weakfeedback.serve.config import read_settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COLUMN = 114  # characters beside the contents, in a window of 1280 pixels
BLOCK = re.compile(r"^```(\{?[\w-]*\}?)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def squeezed(text):
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def blocks_of(page):
    return BLOCK.findall(page.read_text())


FIRST = ROOT / "docs" / "index.md"  # has the example of the README, which runs there, and no other
WITH_SNIPPETS = [
    page for page in PAGES if page != FIRST and any(language == "python" for language, _ in blocks_of(page))
]


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=[str(page.relative_to(ROOT)) for page in WITH_SNIPPETS])
def test_snippets_run_alone_and_print_what_they_say(page, monkeypatch, tmp_path):
    with served(page) as address:
        run_blocks(blocks_of(page), page.name, address, tmp_path, monkeypatch)


@contextlib.contextmanager
def served(page):
    """The address of what a page talks to at 127.0.0.1:8470; it runs while its snippets do."""
    if page.name != "proxy.md":
        yield "127.0.0.1:8470"
        return
    from tests.rig.proxy_demo import demo_proxy

    with demo_proxy() as address:
        yield address


def run_blocks(blocks, name, address, folder, monkeypatch):
    """Run each block as if it were pasted into a fresh Python in an empty folder."""
    for k, (language, code) in enumerate(blocks):
        if language != "python":
            continue
        code = code.replace("127.0.0.1:8470", address)
        (folder / str(k)).mkdir()
        monkeypatch.chdir(folder / str(k))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{name} block {k}", "exec"), {"__name__": "snippet"})
        if address in code:  # a reader ends Python, and so closes the connections of a client
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                gc.collect()
        following = blocks[k + 1] if k + 1 < len(blocks) else ("", "")
        if following[0] == "text":
            assert squeezed(printed.getvalue()) == squeezed(following[1])


NEEDS_ANOTHER = {
    "a name": ["x = 1\n", "print(x)\n"],
    "a file": ["open('left.txt', 'w').close()\n", "open('left.txt').close()\n"],
}


@pytest.mark.parametrize("blocks", NEEDS_ANOTHER.values(), ids=NEEDS_ANOTHER)
def test_a_block_that_needs_what_another_left_fails(blocks, monkeypatch, tmp_path):
    with pytest.raises((NameError, FileNotFoundError)):
        run_blocks([("python", code) for code in blocks], "page", "127.0.0.1:8470", tmp_path, monkeypatch)


def test_the_first_page_shows_the_example_of_the_readme_with_its_money():
    readme, index = blocks_of(ROOT / "README.md"), blocks_of(FIRST)
    assert readme[:2] == [block for block in index if block[0] in ("python", "text")]
    assert len([line for line in readme[0][1].splitlines() if line.strip()]) <= 20
    assert "saved 0.9956 (47.4 %)" in readme[1][1]
    text = FIRST.read_text()
    for words in (
        "pip install .",
        "weakfeedback demo",
        "](images/regret.png)",
        "results/demo/report/index.html",
    ):
        assert words in text


def test_code_fits_the_column():
    for page in PAGES:
        for language, code in blocks_of(page):
            if language in ("python", "toml", ""):
                longest = max(map(len, code.splitlines()), default=0)
                assert longest <= COLUMN, f"{page.name}: {longest} characters in\n{code[:200]}"


def test_experiment_files_on_pages_are_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = [code for page in PAGES for language, code in blocks_of(page) if language == "toml"]
    assert shown
    names = "label,small,medium,large,small_score,medium_score,large_score"
    rows = [names, "1,1,1,1,.9,.8,.9", "0,1,0,0,.4,.6,.7", "1,1,1,0,.8,.9,.6"]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")  # a recorded file that a page names
    for code in shown:
        (tmp_path / "shown.toml").write_text(code)
        if "[server]" in code:
            assert read_settings(tmp_path / "shown.toml", {}).file
        else:
            assert read_experiment(tmp_path / "shown.toml").policies


def test_no_fence_swallows_a_snippet():
    for page in PAGES:
        starts = len(re.findall(r"^```python$", page.read_text(), re.MULTILINE))
        assert starts == sum(language == "python" for language, _ in blocks_of(page)), page


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
def test_examples_run_and_print_what_their_picture_shows(script, capsys, monkeypatch):
    assert len(script.read_text().splitlines()) < 60
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.strip()
    picture = ElementTree.parse(ROOT / "docs" / "images" / f"{script.stem}.svg")
    shown = [text.text or "" for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert shown[0] == f"$ python examples/{script.name}"
    assert shown[1:] == [line.rstrip() for line in printed.rstrip().splitlines()]


def test_every_example_is_shown():
    page = (ROOT / "docs" / "examples.md").read_text()
    for script in [*SCRIPTS, *(ROOT / "examples").glob("*.toml")]:
        assert f"../examples/{script.name}" in page


def test_the_demo_files_run(tmp_path):
    files = {file.name: file for file in (ROOT / "examples").glob("*.toml")}
    del files[COMPARISON]  # `demo` plays it, and has a test
    assert files
    for file in files.values():
        done = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / file.stem)])
        assert done.exit_code == 0, done.stderr
        assert (tmp_path / file.stem / "report" / "index.html").exists()
        assert "index.html" in done.stdout
