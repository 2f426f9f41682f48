"""The command ``weakfeedback radio``: it parses the options, runs the radio and prints the result."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.apps.radio.run import (
    MAX_CHANNELS,
    MAX_PLAYERS,
    MAX_SLOTS,
    RadioError,
    RadioReport,
    full_options,
    play_radio,
)
from weakfeedback.cli.output import FAILED, INTERRUPTED, Stop, console, print_json, say
from weakfeedback.multiplayer.problem import MultiplayerProblem
from weakfeedback.plaintext import counted
from weakfeedback.settings.catalog import canonical_name, make_policy, policy_class
from weakfeedback.validate import integer, number


def radio(
    players: int | None,
    channels: int | None,
    policy: str,
    seed: int,
    means: list[str],
    shuffle: bool,
    rewards: str,
    words: list[str],
    max_slots: int | None,
    max_seconds: float,
    json: bool,
    moves: dict[str, list[str]] | None = None,
    lose: float = 0.0,
    means_file: Path | None = None,
) -> None:
    """Run the radio and print the result; ``moves`` are the words of --join, --leave and --kill."""
    try:
        rows = None if means_file is None else read_means(means_file)
        players, channels = sizes(players, channels, rows)
        presence, killed = parse_moves(players, moves or {})
        kind = {"presence": presence, "lost": share("--lose", lose)}
        problem = make_problem(players, channels, means, shuffle, rewards, rows, **kind)
        name = canonical_name("multiplayer", policy)
        integer("--seed", seed, 0)
        number("--max-seconds", max_seconds, above=0.0)
        options = parse_options(words)
        made = make_policy("multiplayer", name, channels, **full_options(name, options))
        survives = bool(getattr(made, "survives", False))
        if (presence or lose) and not survives:
            raise ValueError(f"{name} needs that nobody joins, leaves or loses a slot: use claims or selfish")
        latest = max((slot for pair in presence or () for slot in pair if slot is not None), default=0)
        default = max(10_000, latest + 5000) if hasattr(made, "holds") or survives else 200_000
        max_slots = integer("--max-slots", default if max_slots is None else max_slots, 1, MAX_SLOTS)
    except ValueError as error:
        raise Stop(str(error)) from None
    out = console()
    watch: Callable[[Any, Any], Any] | None = None
    if not json:
        from weakfeedback.cli.radio_view import in_lines, on_terminal

        if out.is_terminal:
            watch = functools.partial(on_terminal, out)
        else:
            say(f"starting {counted(players, 'player')} on {counted(channels, 'channel')}")
            watch = in_lines
    try:
        report = play_radio(problem, name, seed, max_slots, max_seconds, watch, killed=killed, **options)
    except RadioError as error:
        raise Stop(f"{error}; all players were ended", FAILED) from None
    except KeyboardInterrupt:
        raise Stop("interrupted; all players were ended", INTERRUPTED) from None
    if json:
        print_json(report.as_json())
    else:
        show(report, out)
    if report.ended == "max-seconds":
        rest = f"{report.slots} of {max_slots} slots" if survives else "not all players had settled"
        raise Stop(f"stopped after --max-seconds {max_seconds:g}: {rest}", FAILED)


def make_problem(
    players: int,
    channels: int,
    means: list[str],
    shuffle: bool,
    rewards: str,
    rows: list[list[float]] | None = None,
    presence: Any = None,
    lost: float = 0.0,
) -> MultiplayerProblem:
    """Return the problem: the means in the order given; by default from 0.9 to 0.1 in equal steps, shuffled."""
    integer("--channels", channels, 2, MAX_CHANNELS)
    integer("--players", players, 1, MAX_PLAYERS if presence else min(MAX_PLAYERS, channels))
    open_part = {"rewards": rewards, "presence": presence, "lost": lost}
    if rows is not None:
        if means:
            raise ValueError("--means and --means-file cannot be given together")
        if len(rows) != players or {len(row) for row in rows} != {channels}:
            raise ValueError(f"--means-file must have {players} rows of {channels} numbers in [0, 1]")
        return MultiplayerProblem(rows, players, shuffle=shuffle, **open_part)
    if not means:
        return MultiplayerProblem(np.linspace(0.9, 0.1, channels).round(6), players, **open_part)
    numbers = parse_means(means)
    if len(numbers) != channels:
        raise ValueError(
            f"--means must be {channels} numbers in [0, 1], one for each channel, got {len(numbers)}"
        )
    return MultiplayerProblem(numbers, players, shuffle=shuffle, **open_part)


def sizes(players: int | None, channels: int | None, rows: list[list[float]] | None) -> tuple[int, int]:
    """Return the numbers of players and channels: both as given, those of the file, or 6 and 10."""
    if rows:
        return len(rows) if players is None else players, len(rows[0]) if channels is None else channels
    if players is None and channels is None:
        return 6, 10
    if players is None or channels is None:
        absent = "--players" if players is None else "--channels"
        raise ValueError(f"{absent} is missing: give both, or none for 6 players on 10 channels")
    return players, channels


def share(name: str, value: float) -> float:
    """Validate a probability below 1."""
    found = number(name, value, at_least=0.0)
    if found >= 1.0:
        raise ValueError(f"{name} must be a number from 0 to below 1, got {value:g}")
    return found


def read_means(path: Path) -> list[list[float]]:
    """Read a row of means for each player."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"--means-file {path} cannot be read") from None
    return [parse_means([line]) for line in lines if line.strip()]


def parse_moves(players: int, moves: dict[str, list[str]]) -> tuple[Any, list[int]]:
    """Parse who joins, leaves and is killed when, each as PLAYER@SLOT; return the presence and those killed.

    >>> parse_moves(3, {"--join": ["2@5000"], "--leave": ["1@8000"], "--kill": ["0@9000"]})
    ([(0, 9000), (0, 8000), (5000, None)], [0])
    """
    times: dict[str, dict[int, int]] = {}
    for option, words in moves.items():
        times[option] = {}
        for word in words:
            player, at, slot = word.partition("@")
            if not (player.isdecimal() and at and slot.isdecimal()):
                raise ValueError(f"{option} must be PLAYER@SLOT, such as 2@5000, got {word!r}")
            n = integer(f"the player of {option} {word}", int(player), 0, players - 1)
            if n in times[option]:
                raise ValueError(f"{option} of player {n} is given twice")
            times[option][n] = integer(f"the slot of {option} {word}", int(slot), 1, MAX_SLOTS)
    joins, leaves, kills = (times.get(option, {}) for option in ("--join", "--leave", "--kill"))
    both = leaves.keys() & kills.keys()
    if both:
        raise ValueError(f"player {min(both)} cannot both --leave and be given to --kill")
    goes = {**leaves, **kills}
    for n in joins.keys() & goes.keys():
        if goes[n] <= joins[n]:
            raise ValueError(f"player {n} must go after it joins in slot {joins[n]}, got {goes[n]}")
    if not joins and not goes:
        return None, []
    return [(joins.get(n, 0), goes.get(n)) for n in range(players)], sorted(kills)


def parse_means(words: list[str]) -> list[float]:
    """Parse numbers, separated by commas or spaces.

    >>> parse_means(["0.9,0.5", "0.1"])
    [0.9, 0.5, 0.1]
    """
    found = []
    for word in (part for text in words for part in text.replace(",", " ").split()):
        try:
            found.append(float(word))
        except ValueError:
            raise ValueError(f"--means must be numbers in [0, 1], got {word!r}") from None
    if not all(0.0 <= mean <= 1.0 for mean in found):
        raise ValueError(f"--means must be numbers in [0, 1], got {', '.join(f'{mean:g}' for mean in found)}")
    return found


def parse_options(words: list[str]) -> dict[str, Any]:
    """Parse options of a policy, each as NAME=VALUE; a value that is not a number, true or false is a word.

    >>> parse_options(["epsilon=0.2", "alarm=false", "tolerance=eps"])
    {'epsilon': 0.2, 'alarm': False, 'tolerance': 'eps'}
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier() or not text:
            raise ValueError(f"--option must be NAME=VALUE, such as epsilon=0.2, got {word!r}")
        if name in found:
            raise ValueError(f"--option {name} is given twice")
        found[name] = _value(text)
    return found


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def show(report: RadioReport, out: Any) -> None:
    """Print which player has which channel, and the measures of a simulation."""
    options = ", ".join(f"{name}={value}" for name, value in report.options.items())
    problem, measures = report.problem, report.measures
    out.print(f"{report.policy}({options}), seed {report.seed}")
    never = getattr(policy_class("multiplayer", report.policy), "survives", False)
    ends = {
        "settled": f"all settled in slot {report.slots}",
        "max-slots": f"not all settled within {counted(report.slots, 'slot')}",
        "max-seconds": f"not all settled when time was up, after {counted(report.slots, 'slot')}",
    }
    if never:
        ends = dict.fromkeys(ends, counted(report.slots, "slot"))
    speed = report.slots / report.seconds if report.seconds > 0 else 0.0
    who = f"{counted(problem.players, 'player')} on {counted(problem.arms, 'channel')}"
    out.print(f"{who}: {ends[report.ended]}, {speed:.0f} slots/s")
    if never:
        show_owners(report, out)
    else:
        for n, seat in enumerate(report.seats):
            where = "not settled" if seat is None else f"channel {seat:>3}  mean {report.mean_of(seat):.3f}"
            when = f"  since slot {report.settled_at[n]}" if seat is not None else ""
            out.print(f"  player {n:>2}  {where}{when}  collisions {report.collisions[n]}")
    out.print(f"  regret           {measures['regret']:.6g}")
    out.print(f"  collisions       {measures['collisions']}")
    if never or problem.is_open:
        out.print(f"  earned           {100 * measures['share']:.1f} % of the best for those present")
    if not never:
        out.print(f"  settled players  {measures['settled_players']} of {problem.players}")
        out.print(f"  optimal end      {'yes' if measures['optimal'] else 'no'}")


def show_owners(report: RadioReport, out: Any) -> None:
    """Print who owned which channel over time, and who came and went."""
    K = report.problem.arms
    out.print("  channel       " + "".join(f"{k:>4}" for k in range(K)))
    out.print("  mean          " + "".join(f"{report.mean_of(k):>4.1f}" for k in range(K)))
    events = list(report.events)
    for slots, channels in report.owners:
        while events and events[0][0] < slots:
            slot, words = events.pop(0)
            out.print(f"  slot {slot:>7}   {words}")
        cells = ("+".join(map(str, owners)) or "·" for owners in channels)
        out.print(f"  slot {slots:>7}  " + "".join(f"{cell:>4}" for cell in cells))
    for slot, words in events:
        out.print(f"  slot {slot:>7}   {words}")
