"""``weakfeedback serve check``, ``compact``, ``copy``, ``export`` and ``import``: commands for whole stores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from weakfeedback.cli.output import FAILED, Stop, argument, option, say
from weakfeedback.plaintext import counted

STORE = "A file, sqlite:///FILE or postgresql://USER@HOST/DATABASE."
Address = Annotated[str, argument("STORE", STORE)]


@contextmanager
def opened(address: str, **options: Any) -> Iterator[Any]:
    """Yield an open store; report any problem in one line, with a status that tells damage from misuse."""
    from weakfeedback.journal import JournalError, OwnedElsewhere, open_store

    try:
        with open_store(address, **options) as store:
            yield store
    except JournalError as error:
        raise Stop(str(error), status=FAILED) from None
    except FileNotFoundError as error:
        raise Stop(f"{error.filename}: {error.strerror}") from None
    except (OwnedElsewhere, OSError, ValueError) as error:
        raise Stop(str(error)) from None


def check(store: Address) -> None:
    """Read a store, make every decision again, and compare all states.

    Each learner is made again from its first event and from every snapshot. Nothing is written; a store in use can be
    checked. Ends with 1 if anything is wrong.

    Examples:

    weakfeedback serve check service.db
    weakfeedback serve check postgresql://me@db/weakfeedback
    """
    from weakfeedback.journal.recover import Checked
    from weakfeedback.serve.verify import check_store

    wrong = False
    with opened(store, read_only=True, lenient=True) as source:
        for found in check_store(source):
            say(str(found))
            wrong = wrong or not isinstance(found, Checked) or bool(found.problems)
    if wrong:
        raise Stop(
            f"{store} is damaged, or this version does not read it: nothing was changed", status=FAILED
        )


def compact(
    store: Address,
    before: Annotated[str, option("DATE", "Remove what is older, as 2026-01-31 or 2026-01-31T12:00 (UTC).")],
) -> None:
    """Remove old events that no snapshot needs.

    What was decided then can never be learned twice: the service answers 410, forgotten. The events since the oldest
    of the three snapshots of a learner stay in any case.

    Examples:

    weakfeedback serve compact service.db --before 2026-01-01
    """
    from weakfeedback.journal.admin import compact_store

    try:
        moment = datetime.fromisoformat(before)
    except ValueError:
        raise Stop(f"--before must be a date as 2026-01-31, got {before!r:.40}") from None
    at = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)
    with opened(store, create=False) as source:
        for name, count in compact_store(source, max(at, 0)).items():
            say(f"{name}: {count} events removed")


def copy(
    source: Annotated[str, argument("FROM", STORE)],
    target: Annotated[str, argument("TO", "A new store: a file, or postgresql://...")],
) -> None:
    """Copy a store, from SQLite to PostgreSQL, back, or within one of them, and compare every event.

    Both are owned meanwhile: end the service first. The copy goes on exactly where the original stands; use one of
    them from then on.

    Examples:

    weakfeedback serve copy service.db postgresql://me@db/weakfeedback
    """
    from weakfeedback.journal.admin import copy_store

    with opened(source, create=False) as one, opened(target) as other:
        count = copy_store(one, other)
        say(f"{count} events of {counted(len(one.learners()), 'learner')} copied and compared")


def export(store: Address) -> None:
    """Print every event as a line of JSON.

    Examples:

    weakfeedback serve export service.db > events.ndjson
    """
    from weakfeedback.journal.admin import export_lines

    with opened(store, read_only=True) as source:
        for line in export_lines(source):
            sys.stdout.write(line + "\n")


def bring(
    store: Address,
    state: Annotated[Path, argument("FILE", "What save() of a live object wrote.")],
    learner: Annotated[str, option("NAME", "The name of the learner.")],
    names: Annotated[
        str | None, option("A,B,...", "The names of its stages, models or arms; numbers by default.")
    ] = None,
) -> None:
    """Make a learner of a saved live object, which goes on where that stood.

    Examples:

    weakfeedback serve import service.db state.json --learner triage --names rules,small,expert
    """
    from weakfeedback.serve.importing import import_state

    parts = None if names is None else [name.strip() for name in names.split(",")]
    with opened(store) as target:
        made = import_state(target, learner, state, parts)
        say(f"{learner}: a {made.kind.name} learner with {made.live.rounds} rounds")


COMMANDS: dict[str, Callable[..., None]] = {
    "check": check,
    "compact": compact,
    "copy": copy,
    "export": export,
    "import": bring,
}


def add_commands(app: Any) -> None:
    """Add the commands for stores to the application."""
    for name, command in COMMANDS.items():
        app.command(name)(command)
