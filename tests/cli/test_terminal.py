"""What people expect of a command at a terminal: colours there and only there, completion, pipes, Ctrl-C."""

import io
import re
import shutil
import signal
import subprocess
import sys

import pandas as pd
import pytest
from rich.console import Console
from tests.cli.conftest import SMALL, at_terminal, environment
from tests.rig.processes import COMMAND, PATIENCE, ran, started, wait_until

from weakfeedback.cli.listing import NUMBERS, table

COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-9]m|\x1b\[[0-9;]*9[0-7]m")


def piped(*words, **changes):
    return ran("-m", "weakfeedback", *words, env=environment(**changes))


def test_colours_on_a_terminal_only(folder):
    shown, status = at_terminal("--help")
    assert status == 0
    assert COLOUR.search(shown)
    assert not COLOUR.search(at_terminal("--help", NO_COLOR="1")[0])
    assert "\x1b" not in piped("--help").stdout
    words = ["reproduce", "--list", "--only", "ch2-lower-*"]
    assert "\x1b[1m" in at_terminal(*words)[0]
    elsewhere = piped(*words)
    assert (elsewhere.returncode, elsewhere.stderr) == (0, "")
    assert "\x1b" not in elsewhere.stdout


def test_a_reader_that_stops_reading_is_no_error(folder):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started([*COMMAND, "list", "experiments", "--json"], **streams, env=environment()) as process:
        process.stdout.read(10)
        process.stdout.close()  # there is more than a pipe holds
        complaint = process.stderr.read()
        assert process.wait(timeout=PATIENCE) in (0, 1)
    assert complaint == b""


@pytest.fixture
def command(folder):
    """An executable called weakfeedback."""
    path = folder / "bin" / "weakfeedback"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m weakfeedback "$@"\n')
    path.chmod(0o755)
    return path


BASH = """
eval "$("$COMMAND_PATH" --show-completion bash)"
while read -r -a COMP_WORDS; do
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _weakfeedback_completion "$COMMAND_PATH"
    echo "${COMPREPLY[@]}"
done
"""
ASIDE = "reproduce --only ch3,ch2-lower-"  # part of a word
TYPED = {
    "rep": ["reproduce", "report", "replay"],
    "de": ["demo"],
    "list in": ["instances"],
    "list policies USS-TS-": ["USS-TS-drift"],
    "list instances bsc-1": ["bsc-1"],
    "list experiments ch2-lower-": ["ch2-lower-bsc-2", "ch2-lower-bsc-4"],
    "radio --policy dlc": ["dlc", "dlc-lix"],
    "radio --rewards b": ["bernoulli", "beta"],
    "check m:f --setting c": ["cascade", "contextual"],
    "reproduce --only ch4 ch2-lower-": ["ch2-lower-bsc-2", "ch2-lower-bsc-4"],
    ASIDE: ["ch3,ch2-lower-bsc-2", "ch3,ch2-lower-bsc-4"],
    "run sma": [],  # bash itself offers the files
}


def test_what_is_typed_is_completed(call, monkeypatch):
    """What bash asks of the command with each press of the key."""
    monkeypatch.setenv("_WEAKFEEDBACK_COMPLETE", "complete_bash")
    for words, offered in TYPED.items():
        monkeypatch.setenv("COMP_WORDS", f"weakfeedback {words}")
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        assert call().stdout.split() == offered, words


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_what_is_typed(command):
    typed = {words: TYPED[words] for words in ("rep", "radio --policy dlc", ASIDE, "run sma")}
    found = subprocess.run(
        ["bash", "--norc", "-c", BASH],
        input="".join(f"weakfeedback {words}\n" for words in typed),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(COMMAND_PATH=str(command)),
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert dict(zip(typed, map(str.split, found.stdout.splitlines()), strict=True)) == typed


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_installs_itself(command, folder):
    home = folder / "home"
    home.mkdir()
    found = subprocess.run(
        # the shell is the one that calls it: bash, and not what runs the tests
        ["bash", "-c", f"'{command}' --install-completion; exit $?"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(HOME=str(home)),
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert "bash completion installed" in found.stdout
    script = next(home.rglob("weakfeedback.sh"))
    assert "complete -o default -F _weakfeedback_completion weakfeedback" in script.read_text()
    assert str(script) in (home / ".bashrc").read_text()


@pytest.mark.slow
def test_an_interrupted_run_goes_on_to_the_same_results(small):
    """Ctrl-C and the same command again: the rows of a run that was never interrupted, without playing all again."""
    small.write_text(SMALL.replace("horizon = 200", "horizon = 100000").replace("= 4", "= 200"))
    command = ["run", "small.toml", "--out", "out", "--workers", "1"]
    store = small.parent / "out" / "store"
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with started([*COMMAND, *command], **streams, text=True, env=environment()) as process:
        wait_until(lambda: len(list(store.glob("*.parquet"))) >= 2, process, pause=0.01)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, complaint
    kept = {path: path.stat().st_mtime_ns for path in store.glob("*.parquet")}
    assert kept
    assert not (small.parent / "out" / "results.parquet").exists()
    assert piped(*command).returncode == 0
    after = {path: path.stat().st_mtime_ns for path in store.glob("*.parquet")}
    assert len(after) > len(kept)
    assert {path: after[path] for path in kept} == kept  # what was finished is not played again
    assert piped(*command[:2], "--out", "other").returncode == 0
    one, two = (pd.read_parquet(small.parent / name / "results.parquet") for name in ("out", "other"))
    assert one.equals(two)


def test_a_long_label_is_broken_and_its_numbers_are_not():
    shown = table("A run", "policy", *NUMBERS)
    label = "upper confidence bounds with an alpha of one, of 2019"
    shown.add_row(label, "14.21", "14.21 to 14.25")
    written = io.StringIO()
    Console(width=80, file=written).print(shown)
    (first, second) = [line.split("  ")[0].strip() for line in written.getvalue().splitlines()[4:6]]
    assert f"{first} {second}" == label
    assert "   14.21          14.21 to 14.25 \n" in written.getvalue()
