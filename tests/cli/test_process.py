"""The command as people start it: a process with an exit status."""

import os
import signal
import subprocess

import pytest
from tests.cli.conftest import SMALL, environment
from tests.rig.processes import COMMAND, PATIENCE, printed, ran, started, wait_until

from weakfeedback import __version__
from weakfeedback.cli import listing
from weakfeedback.settings.catalog import POLICIES


def start(*words, **options):
    """Run the command to its end."""
    return ran("-m", "weakfeedback", *words, **options)


def test_version_and_status_of_wrong_use(folder):
    result = start("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"weakfeedback {__version__}\n", "")
    (folder / "bad.toml").write_text('setting = "cascade"\nhorizn = 3\n')
    result = start("run", "bad.toml")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert os.listdir(folder) == ["bad.toml"]


def test_the_command_line_is_light_to_import():
    heavy = ("numpy", "numba", "pandas", "scipy", "sklearn", "matplotlib", "plotly", "pydantic", "jinja2")
    code = f"import sys, weakfeedback.cli.app; print([name for name in {heavy!r} if name in sys.modules])"
    assert printed("-c", code).strip() == "[]"


def test_shell_completion_offers_the_commands(folder):
    words = {"_WEAKFEEDBACK_COMPLETE": "complete_bash", "COMP_WORDS": "weakfeedback rep", "COMP_CWORD": "1"}
    result = start(env={**os.environ, **words})
    assert sorted(result.stdout.split()) == ["replay", "report", "reproduce"]


def test_an_interrupted_run_can_be_resumed_and_keeps_earlier_results(small, call):
    """Ctrl-C: status 130, the earlier results untouched, finished chunks kept."""
    out = small.parent / "out"
    text = SMALL.replace("horizon = 200", "horizon = 200000")
    small.write_text(text)
    assert call("run", "small.toml", "--out", "out").exit_code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    small.write_text(text.replace("replications = 4", "replications = 2000"))
    words = [*COMMAND, "run", "small.toml", "--out", "out"]
    with started(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(list((out / "store").iterdir())) > len(before) - 2, process)
        process.send_signal(signal.SIGINT)
        printed, complaint = process.communicate(timeout=PATIENCE)
    assert (process.returncode, printed, complaint.count("\n")) == (130, "", 1)
    assert "run the same command to continue" in complaint
    kept = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert {path: kept.get(path) for path in before} == before
    assert not [path for path in kept if path.suffix == ".part"]
    new = {path for path in kept if path not in before}
    assert new
    assert {path.parent for path in new} == {out / "store"}
    small.write_text(text.replace("replications = 4", "replications = 8"))
    resumed = start("run", "small.toml", "--out", "out", env=environment())
    assert resumed.returncode == 0, resumed.stderr
    assert "\x1b" not in resumed.stdout + resumed.stderr  # which are no terminal
    assert "USS-UCB(1)" in resumed.stdout


def test_anything_else_is_status_1_with_a_hint(call, monkeypatch):
    def broken():
        raise RuntimeError("the roof\nfell in")

    monkeypatch.setattr(listing, "overview", broken)
    result = call("list")
    assert (result.exit_code, result.stdout) == (1, "")
    first, hint = result.stderr.splitlines()
    assert first == "weakfeedback: RuntimeError: the roof fell in"
    assert "WEAKFEEDBACK_DEBUG=1" in hint
    monkeypatch.setenv("WEAKFEEDBACK_DEBUG", "1")
    assert "Traceback" in call("list").stderr


def test_interrupting_any_command_is_status_130(call, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "overview", interrupted)
    result = call("list")
    assert (result.exit_code, result.stderr) == (130, "weakfeedback: interrupted\n")


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(28, "No space left on device")]
)
def test_a_full_or_forbidden_disk_is_one_line(error, small, call, monkeypatch):
    def refuse(*_):
        raise error

    monkeypatch.setattr("weakfeedback.engine.results.write_atomically", refuse)
    result = call("run", "small.toml", "--out", "out")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert error.strerror in result.stderr
    assert not (small.parent / "out" / "results.parquet").exists()


@pytest.mark.slow
def test_warm_up_names_every_policy(folder):
    result = start("warm-up", "--workers", "1")
    assert result.returncode == 0, result.stderr
    assert "not compiled" not in result.stdout
    for setting, names in POLICIES.items():
        for name in names:
            assert any(line.split()[:2] == [setting, name] for line in result.stdout.splitlines())
