"""The progress of a reproduction: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from weakfeedback.experiments.model import Experiment
from weakfeedback.plaintext import counted

SHOWN = 6  # running experiments that the live view names


class View:
    """Counts the work done; shows nothing.

    ``seconds`` is the estimated work of each experiment by id; only its proportions matter for the time left.
    """

    def __init__(self, seconds: Mapping[str, float], at_once: int = 1) -> None:
        self.seconds = dict(seconds)
        self._prior = 1.0 / at_once  # the pace assumed at the beginning: waiting time per second of work
        self.total = sum(self.seconds.values())
        self.done = 0.0  # estimated seconds of work that is done
        self.count = 0
        self._played = 0.0  # the part of it that was played in this run
        self._steps: dict[str, tuple[float, int]] = {}
        self._start = time.monotonic()
        self._silent = type(self) is View or not self.seconds

    def begun(self, experiment: Experiment, missing: int, tasks: int) -> None:
        """Note that an experiment is planned; ``missing`` of its chunks have to be played. The first says how long."""
        if not self._silent:
            expected = clock(self.total * self._prior)
            words = f"{counted(len(self.seconds), 'experiment')}: about {expected} if none is stored yet"
            print(words, file=sys.stderr, flush=True)
            self._silent = True
        step = self.seconds[experiment.id] / tasks
        self.done += step * (tasks - missing)
        self._steps[experiment.id] = (step, missing)

    def advanced(self, experiment: Experiment) -> None:
        """Note that a chunk has been played."""
        step, left = self._steps[experiment.id]
        self._steps[experiment.id] = (step, left - 1)
        self.done += step
        self._played += step

    def finished(self, experiment: Experiment) -> None:
        """Note that all of an experiment is done, or that there was nothing to do."""
        if experiment.id not in self._steps:
            self.done += self.seconds[experiment.id]
        self._steps.pop(experiment.id, None)
        self.count += 1

    def left(self) -> float:
        """Return the remaining seconds: by the pace so far, at the beginning by the estimate."""
        weight = 0.05 * self.total
        pace = (time.monotonic() - self._start + weight * self._prior) / (self._played + weight)
        return max(0.0, self.total - self.done) * pace


class Lines(View):
    """Writes a line when an experiment is finished, at most once per second, and for the last one."""

    def __init__(self, seconds: Mapping[str, float], at_once: int, stream: TextIO) -> None:
        super().__init__(seconds, at_once)
        self.stream = stream
        self._last = 0.0

    def finished(self, experiment: Experiment) -> None:
        """Write the line."""
        super().finished(experiment)
        now = time.monotonic()
        if now - self._last < 1.0 and self.count < len(self.seconds):
            return
        self._last = now
        words = "" if self.count == len(self.seconds) else f", about {clock(self.left())} left"
        print(f"[{self.count}/{len(self.seconds)}] {experiment.id}{words}", file=self.stream, flush=True)


class Live(View):
    """Progress bars on a terminal: the total, and the running experiments."""

    def __init__(self, seconds: Mapping[str, float], at_once: int, bar: Any) -> None:
        super().__init__(seconds, at_once)
        self.bar = bar
        self._whole = bar.add_task("reproduction", total=self.total or 1.0, words="")
        self._lines: dict[str, Any] = {}

    def begun(self, experiment: Experiment, missing: int, tasks: int) -> None:
        """Show the experiment."""
        super().begun(experiment, missing, tasks)
        if missing and len(self._lines) < SHOWN:
            line = self.bar.add_task(f"  {experiment.id}", total=tasks, completed=tasks - missing, words="")
            self._lines[experiment.id] = line
        self._update()

    def advanced(self, experiment: Experiment) -> None:
        """Move the bars."""
        super().advanced(experiment)
        if experiment.id in self._lines:
            self.bar.advance(self._lines[experiment.id])
        self._update()

    def finished(self, experiment: Experiment) -> None:
        """Remove the experiment's bar."""
        super().finished(experiment)
        if experiment.id in self._lines:
            self.bar.remove_task(self._lines.pop(experiment.id))
        self._update()

    def _update(self) -> None:
        words = f"{self.count} of {len(self.seconds)} experiments, {clock(self.left())} left"
        self.bar.update(self._whole, completed=self.done, words=words)


@contextlib.contextmanager
def shown(seconds: Mapping[str, float], at_once: int, quiet: bool) -> Iterator[View]:
    """Yield the view that suits standard error: a terminal, a file or nothing."""
    if quiet:
        yield View(seconds, at_once)
    elif not sys.stderr.isatty():
        yield Lines(seconds, at_once, sys.stderr)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[words]}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield Live(seconds, at_once, bar)


def clock(seconds: float) -> str:
    """Return a time in words.

    >>> clock(3.2), clock(75), clock(7300)
    ('4 s', '1 min 15 s', '2 h 1 min')
    """
    whole = int(-(-seconds // 1))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
