"""`--help` reads well: it fits a terminal, breaks lines where words end, and shows no type names or empty brackets."""

import re

import pytest
import typer

from weakfeedback.cli.app import app

COMMANDS = sorted(typer.main.get_command(app).commands)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_terminal_and_has_no_stray_signs(call, command):
    result = call(*command.split(), "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    for line in result.stdout.splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()
    for sign in ("[]...", "<bool>", "<str>", "<int", "<path>", "<float", "{", "[["):
        assert sign not in result.stdout.partition("A small experiment file")[0]
    assert result.stdout.startswith(f"Usage: weakfeedback {command}".rstrip() + " [OPTIONS]")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_told(call, command):
    shown = call(command, "--help").stdout
    for parameter in typer.main.get_command(app).commands[command].params:
        if not getattr(parameter, "hidden", False):
            assert " ".join((parameter.help or "").split()) in " ".join(shown.split())
            name = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
            assert re.search(rf"^  (-h, )?{re.escape(name)}\b", shown, re.MULTILINE)


def test_paragraphs_are_set_anew_and_examples_stay_in_their_lines(call):
    shown = call("reproduce", "--help").stdout
    assert (
        "\nagain, and a run with nothing to do only writes the page. Without the medical\ndata sets," in shown
    )
    assert "\nExamples:\n  weakfeedback reproduce --quick\n  weakfeedback reproduce --list\n" in shown
    assert "Usage: weakfeedback reproduce [OPTIONS]\n" in shown
    assert "  --out DIR            Where to write. [default: results/reproduction]\n" in shown


def test_the_commands_are_listed(call):
    shown = call().stdout
    assert shown.rstrip() == call("-h").stdout.rstrip()
    told = re.findall(r"^  ([\w-]+)  ", shown.partition("Commands:\n")[2], re.MULTILINE)
    assert sorted(told) == COMMANDS
