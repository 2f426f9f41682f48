"""Every Python snippet of the README and the docs runs, and prints what the page says it prints."""

import contextlib
import io
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def squeezed(text):
    return [" ".join(line.split()) for line in text.strip().splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_snippets_run_and_print_what_they_say(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text())
    scope = {"__name__": "snippet"}
    for k, (language, code) in enumerate(blocks):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page.name} block {k}", "exec"), scope)
        following = blocks[k + 1] if k + 1 < len(blocks) else ("", "")
        if following[0] == "text":
            assert squeezed(printed.getvalue()) == squeezed(following[1])


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
def test_examples_run(script, capsys, monkeypatch):
    assert len(script.read_text().splitlines()) < 60
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_the_demo_files_run(tmp_path):
    for file in sorted((ROOT / "examples").glob("*.toml")):
        command = [sys.executable, "-m", "weakfeedback", "run", str(file), "--out", str(tmp_path / file.stem)]
        out = subprocess.run(command, capture_output=True, text=True, check=True)
        assert (tmp_path / file.stem / "report" / "index.html").exists()
        assert "index.html" in out.stdout
