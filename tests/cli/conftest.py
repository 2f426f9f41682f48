"""A folder to work in, and a way to run commands in it."""

import os

import pytest
from tests.rig.processes import COMMAND, PATIENCE, started
from typer.testing import CliRunner

from weakfeedback.cli.app import app

SMALL = """
setting = "cascade"
instance = "bsc-1"
policies = ["USS-TS", { policy = "USS-UCB", alpha = 1.0, label = "USS-UCB(1)" }]
horizon = 200
replications = 4
seed = 3
marks = 10
"""


def environment(**changes):
    """Ours without what would force or forbid colours."""
    forcing = ("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "CLICOLOR_FORCE", "TTY_COMPATIBLE")
    kept = {name: value for name, value in os.environ.items() if name not in forcing}
    return {**kept, "TERM": "xterm-256color", "COLUMNS": "120", **changes}


def at_terminal(*words, stdout=None, **changes):
    """Run the command with a terminal for all its streams but one that is given: what it printed, and its status."""
    import pty

    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": stdout or theirs, "stderr": theirs}
    with started([*COMMAND, *words], **streams, env=environment(**changes)) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
        os.close(ours)
        return shown.decode(), process.wait(timeout=PATIENCE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current directory, without the medical data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEAKFEEDBACK_DATA", raising=False)
    monkeypatch.delenv("WEAKFEEDBACK_DEBUG", raising=False)
    return tmp_path


@pytest.fixture
def small(folder):
    """A small experiment file."""
    path = folder / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def call(folder):
    """Run a command in this process."""

    def run(*words):
        return CliRunner().invoke(app, [str(word) for word in words], prog_name="weakfeedback")

    return run
