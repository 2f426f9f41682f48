"""The output of `--help`: usage, description, arguments, options and commands, in lines that fit a terminal."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import typer

WIDTH, WIDEST = 80, 100  # columns: without a terminal, and the maximum
COLUMN = 24  # columns for the names of options; longer ones get their own line
BREAKS = {"break_long_words": False, "break_on_hyphens": False}

Rows = list[tuple[str, str]]


def help_text(command: Any, context: Any) -> str:
    """Return the help of a command, or of a group of commands."""
    parameters = [p for p in command.get_params(context) if not getattr(p, "hidden", False)]
    arguments = [p for p in parameters if p.param_type_name == "argument"]
    options = [p for p in parameters if p.param_type_name == "option"]
    blocks = [_usage(context.command_path, arguments, command), *_paragraphs(command.help or "")]
    blocks.append(_table("Arguments:", [(_argument(p), _about(p)) for p in arguments if p.help]))
    blocks.append(_table("Options:", [(_option(p), _about(p)) for p in options]))
    blocks.append(_table("Commands:", _commands(command, context)))
    return "\n\n".join(filter(None, blocks)) + "\n"


def _usage(path: str, arguments: list[Any], command: Any) -> str:
    words = [path, "[OPTIONS]"]
    words += [_argument(p) if p.required else f"[{_argument(p)}]" for p in arguments]
    if hasattr(command, "list_commands"):
        words.append("COMMAND ...")
    return f"{_highlight('Usage:')} {' '.join(words)}"


def _paragraphs(text: str) -> Iterator[str]:
    """Re-wrap paragraphs; lines after a line that ends with a colon keep their breaks."""
    before = ""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if before.endswith(":"):
            yield f"{before}\n{textwrap.indent(paragraph, '  ')}"
            before = ""
        else:
            if before:
                yield before
            before = "\n".join(textwrap.wrap(" ".join(paragraph.split()), _width(), **BREAKS))  # type: ignore[arg-type]
    if before:
        yield before


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _option(parameter: Any) -> str:
    names = ", ".join(sorted((*parameter.opts, *parameter.secondary_opts), key=len))
    if getattr(parameter, "is_flag", False):
        return names
    return f"{names} {parameter.metavar or parameter.name.upper().replace('_', '-')}"


def _about(parameter: Any) -> str:
    words, default = parameter.help or "", parameter.default
    if parameter.required and parameter.param_type_name == "option":
        return f"{words} Needed."
    shown = getattr(parameter, "show_default", True) and isinstance(default, (str, int, float, os.PathLike))
    if shown and not isinstance(default, bool) and default != "":
        number = isinstance(default, float) and default.is_integer()
        return f"{words} [default: {int(default) if number else default}]"
    return words


def _commands(group: Any, context: Any) -> Rows:
    if not hasattr(group, "list_commands"):
        return []
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [
        (name, " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split()))
        for name, command in found
        if command is not None and not command.hidden
    ]


def _table(title: str, rows: Rows) -> str:
    if not rows:
        return ""
    column = min(max(len(name) for name, _ in rows), COLUMN)
    lines = [_highlight(title)]
    for name, words in rows:
        wrapped = textwrap.wrap(words, _width() - column - 4, **BREAKS) or [""]  # type: ignore[arg-type]
        if len(name) > column:
            lines.append(f"  {_highlight(name)}")
        else:
            gap = " " * (column - len(name))
            lines.append(f"  {_highlight(name)}{gap}  {wrapped.pop(0)}".rstrip())
        lines += [f"{'':<{column + 4}}{line}" for line in wrapped]
    return "\n".join(lines)


def _width() -> int:
    return min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDEST) if sys.stdout.isatty() else WIDTH


def _highlight(words: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return words
    return typer.style(words, fg=typer.colors.CYAN)
