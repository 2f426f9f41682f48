"""A live view of the air: who is where, and how many collisions. A picture on a terminal, elsewhere progress lines."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from weakfeedback.apps.radio.wire import IDLE
from weakfeedback.cli.output import say

if TYPE_CHECKING:
    from rich.console import Console

    from weakfeedback.apps.radio.air import Air
    from weakfeedback.apps.radio.crew import Crew

REFRESH = 8  # times a second
ABSENT = ("not there yet", "gone")
SOON, PERIOD = 1.0, 5.0  # seconds before the first line, and between lines


class View:
    """The view, redrawn several times a second from the last slot and the players' displays."""

    def __init__(self, air: Air, crew: Crew) -> None:
        self._air = air
        self._crew = crew
        self._start = time.monotonic()

    def __rich__(self) -> Group:
        """Return the current picture."""
        arms = self._air.latest
        headline_ = Text(headline(self._air, self._crew, self._start))
        return Group(headline_, channels(arms, self._air.problem.arms), self._players(arms))

    def _players(self, arms: list[int]) -> Table:
        table = Table(box=None, pad_edge=False)
        for title in ("player", "channel", "doing"):
            table.add_column(title, justify="left" if title == "doing" else "right")
        for n, (device, arm) in enumerate(zip(self._crew.devices, arms)):
            style = "dim" if device.phase in ABSENT else "green" if device.holds else ""
            table.add_row(str(n), "idle" if arm == IDLE else str(arm), device.phase, style=style)
        return table


def headline(air: Air, crew: Crew, start: float) -> str:
    """Return the progress in a line; ``start`` is the start time."""
    slots, spent = air.slots, max(time.monotonic() - start, 1e-9)
    if air.survives:
        there = sum(device.phase not in ABSENT for device in crew.devices)
        state = f"owning {sum(device.holds for device in crew.devices)} of {there} present"
    else:
        state = f"settled {sum(device.settled for device in crew.devices)} of {len(crew.devices)}"
    return f"slot {slots}   collisions {air.collisions}   {state}   {slots / spent:.0f} slots/s"


def channels(arms: list[int], count: int) -> Text:
    """Return all channels in a line: the player that is alone on each, · for nobody, ✗ for a collision."""
    text = Text("air ")
    for k in range(count):
        there = [n for n, arm in enumerate(arms) if arm == k]
        if len(there) > 1:
            text.append(f" {'✗':>2}", style="bold red")
        elif there:
            text.append(f" {there[0]:>2}", style="bold")
        else:
            text.append(f" {'·':>2}", style="dim")
    return text


@contextlib.contextmanager
def on_terminal(console: Console, air: Air, crew: Crew) -> Any:
    """Draw while the players play; the last picture is cleared."""
    with Live(View(air, crew), console=console, refresh_per_second=REFRESH, transient=True):
        yield


@contextlib.contextmanager
def in_lines(air: Air, crew: Crew) -> Any:
    """Print a progress line from time to time while the players play, the first one soon."""
    start, done = time.monotonic(), threading.Event()

    def tell() -> None:
        pause = SOON
        while not done.wait(pause):
            say(headline(air, crew, start))
            pause = PERIOD

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
