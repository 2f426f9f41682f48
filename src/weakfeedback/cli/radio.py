"""The command ``weakfeedback radio``: it parses the options, runs the radio and prints the result."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
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
from weakfeedback.settings.catalog import canonical_name, make_policy
from weakfeedback.validate import integer, number


def radio(
    players: int,
    channels: int,
    policy: str,
    seed: int,
    means: list[str],
    shuffle: bool,
    rewards: str,
    words: list[str],
    max_slots: int,
    max_seconds: float,
    json: bool,
) -> None:
    """Run the radio and print the result."""
    try:
        problem = make_problem(players, channels, means, shuffle, rewards)
        name = canonical_name("multiplayer", policy)
        integer("--seed", seed, 0)
        integer("--max-slots", max_slots, 1, MAX_SLOTS)
        number("--max-seconds", max_seconds, above=0.0)
        options = parse_options(words)
        make_policy("multiplayer", name, channels, **full_options(name, options))
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
        report = play_radio(problem, name, seed, max_slots, max_seconds, watch, **options)
    except RadioError as error:
        raise Stop(f"{error}; all players were ended", FAILED) from None
    except KeyboardInterrupt:
        raise Stop("interrupted; all players were ended", INTERRUPTED) from None
    if json:
        print_json(report.as_json())
    else:
        show(report, out)
    if report.ended == "max-seconds":
        raise Stop(f"stopped after --max-seconds {max_seconds:g}: not all players had settled", FAILED)


def make_problem(
    players: int, channels: int, means: list[str], shuffle: bool, rewards: str
) -> MultiplayerProblem:
    """Return the problem: the means in the order given; by default from 0.9 to 0.1 in equal steps, shuffled."""
    integer("--channels", channels, 2, MAX_CHANNELS)
    integer("--players", players, 1, min(MAX_PLAYERS, channels))
    if not means:
        return MultiplayerProblem(np.linspace(0.9, 0.1, channels).round(6), players, rewards=rewards)
    numbers = parse_means(means)
    if len(numbers) != channels:
        raise ValueError(
            f"--means must be {channels} numbers in [0, 1], one for each channel, got {len(numbers)}"
        )
    return MultiplayerProblem(numbers, players, shuffle=shuffle, rewards=rewards)


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
    ends = {
        "settled": f"all settled in slot {report.slots}",
        "max-slots": f"not all settled within {counted(report.slots, 'slot')}",
        "max-seconds": f"not all settled when time was up, after {counted(report.slots, 'slot')}",
    }
    speed = report.slots / report.seconds if report.seconds > 0 else 0.0
    who = f"{counted(problem.players, 'player')} on {counted(problem.arms, 'channel')}"
    out.print(f"{who}: {ends[report.ended]}, {speed:.0f} slots/s")
    for n, seat in enumerate(report.seats):
        where = "not settled" if seat is None else f"channel {seat:>3}  mean {report.mean_of(seat):.3f}"
        when = f"  since slot {report.settled_at[n]}" if seat is not None else ""
        out.print(f"  player {n:>2}  {where}{when}  collisions {report.collisions[n]}")
    out.print(f"  regret           {measures['regret']:.6g}")
    out.print(f"  collisions       {measures['collisions']}")
    out.print(f"  settled players  {measures['settled_players']} of {problem.players}")
    out.print(f"  optimal end      {'yes' if measures['optimal'] else 'no'}")
