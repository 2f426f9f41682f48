"""How commands end and what they print: one line for a mistake, and a reliable exit status."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from weakfeedback.cli.helptext import help_text
from weakfeedback.plaintext import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console

DONE, FAILED, BAD_USE, INTERRUPTED = 0, 1, 2, 130
F = TypeVar("F", bound=Callable[..., Any])


class Stop(Exception):
    """Ends a command with a message on standard error and an exit status."""

    def __init__(self, message: str, status: int = BAD_USE) -> None:
        super().__init__(message)
        self.status = status


def option(metavar: str, help: str, *names: str, env: str = "", **more: Any) -> Any:
    """Return an option with a value; it may come from the variable ``env`` of our part of the environment too."""
    return typer.Option(*names, metavar=metavar, help=help, envvar=_variable(env), **more)


def flag(name: str, help: str, env: str = "") -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help, envvar=_variable(env))


def argument(metavar: str, help: str, **more: Any) -> Any:
    """Return an argument, which has a place and no name."""
    return typer.Argument(metavar=metavar, help=help, show_default=False, **more)


def _variable(name: str) -> str | None:
    return f"WEAKFEEDBACK_{name}" if name else None


class Command(TyperCommand):
    """A command with our help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(help_text(self, ctx))


class App(typer.Typer):
    """An application all of whose commands have our help."""

    def command(self, *args: Any, **options: Any) -> Callable[[F], F]:
        """Add a command."""
        return super().command(*args, **{"cls": Command, **options})


class Commands(TyperGroup):
    """A group of commands whose errors are one line and an exit status, never a traceback."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(help_text(self, ctx))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run; with ``standalone_mode`` leave the process with the exit status."""
        run = functools.partial(
            super().main, args, prog_name, complete_var, False, windows_expand_args, **extra
        )
        if not standalone_mode:
            return run()
        return _leave(self._status(run))

    def _status(self, run: Callable[[], Any]) -> int:
        try:
            status = run()
        except Stop as stop:
            _complain(str(stop))
            return stop.status
        except (KeyboardInterrupt, typer.Abort):
            status = INTERRUPTED
        except Exception as error:
            if hasattr(error, "format_message"):  # errors of the argument parser
                return _wrong_use(error)
            show_traceback()
            words = _words_of(error)
            _complain(f"{type(error).__name__}: {words}" if words else type(error).__name__)
            if not _is_debugging():
                _complain("internal error; set WEAKFEEDBACK_DEBUG=1 to see the traceback")
            return FAILED
        if status == INTERRUPTED:
            _complain("interrupted")
        return status if isinstance(status, int) else DONE


def _leave(status: int) -> NoReturn:
    """End the process; immediately if it was interrupted while a thread runs that cannot be stopped."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if status == INTERRUPTED and any(not thread.daemon for thread in others):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)
    sys.exit(status)


def _wrong_use(error: Any) -> int:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "weakfeedback"
    words = " ".join(error.format_message().split()).rstrip(".")
    checked = error.__cause__
    if hasattr(checked, "errors"):  # it says what is allowed, not what was given
        words += f", got {one_line(repr(checked.errors()[0]['input']), 120)}"
    _complain(f"{words}; see `{where} --help`")
    return BAD_USE


def _complain(message: str) -> None:
    print(f"weakfeedback: {one_line(message)}", file=sys.stderr)


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a user-defined exception
        return ""


def say(text: str, error: bool = False) -> None:
    """Print text that may come from users, line by line."""
    print(visible(text, keep="\n"), file=sys.stderr if error else sys.stdout, flush=True)


def _is_debugging() -> bool:
    return os.environ.get("WEAKFEEDBACK_DEBUG", "") not in ("", "0")


def show_traceback() -> None:
    """Print the traceback if it was requested."""
    if _is_debugging():
        say(traceback.format_exc(), error=True)


@contextlib.contextmanager
def tidy_warnings() -> Iterator[None]:
    """Show warnings as one line each, without the place in the code that raised them."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _complain(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def running_in(folder: Path) -> Iterator[None]:
    """Turn an interruption of work that can be continued into one line, and file system errors, too."""
    try:
        with tidy_warnings(), writing_to(folder):
            yield
    except KeyboardInterrupt:
        words = f"interrupted; what is finished is kept in {folder}: run the same command to continue"
        raise Stop(words, INTERRUPTED) from None


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn file system errors (no permission, a full disk, a file in the way) into one line."""
    try:
        yield
    except OSError as error:
        show_traceback()
        raise Stop(f"{error.filename or folder}: {error.strerror or error}") from None


def make_writable(folder: Path) -> None:
    """Create a folder and check that it is writeable, before any work is done."""
    import tempfile

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def console() -> Console:
    """Return standard output: colours only on a terminal, no truncated lines elsewhere, text printed unchanged."""
    from rich.console import Console

    class Plain(Console):
        def print(self, *things: Any, **options: Any) -> None:
            shown = (visible(thing, keep="\n") if isinstance(thing, str) else thing for thing in things)
            super().print(*shown, **options)

    width = None if sys.stdout.isatty() else 160
    return Plain(highlight=False, markup=False, emoji=False, soft_wrap=True, width=width)


def print_json(value: Any) -> None:
    """Print machine-readable JSON; infinity and NaN are null."""
    text = json.dumps(_to_plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    print(
        text if visible(text, keep="\n") == text else json.dumps(_to_plain(value), indent=2, allow_nan=False)
    )


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    return value
