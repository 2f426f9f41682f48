"""The players' processes: started together, monitored by what they print, and always ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from weakfeedback.apps.radio.air import Air
from weakfeedback.apps.radio.wire import IDLE
from weakfeedback.engine.seeds import POLICY, generator
from weakfeedback.validate import integer

LONGEST_LINE = 1000  # of a display
GRACE = 5.0  # seconds for a player's process to exit by itself before it is killed


@dataclass
class Device:
    """A player's process, and what its display has shown: (slots played, settled, channel if it owns one)."""

    process: subprocess.Popen[bytes] | None = None  # None: it has not come yet
    phase: str = "not there yet"
    ended: str = ""  # "leaves" or "killed"
    holds: bool = False  # whether it owns a channel
    history: list[tuple[int, bool, int]] = field(default_factory=list)
    complaint: str = ""  # its last words on standard error
    readers: list[threading.Thread] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether its display says that it has settled."""
        return bool(self.history) and self.history[-1][1]

    def at(self, slots: int) -> tuple[bool, int]:
        """Return whether it had settled after ``slots`` of its slots, and the channel it owned, or -1."""
        for slot, settled, arm in reversed(self.history):
            if slot <= slots:
                return settled, arm
        return False, IDLE

    def settled_at(self) -> int | None:
        """Return the number of slots after which it settled."""
        return next((slot for slot, settled, _ in self.history if settled), None)


class Crew:
    """One process for each player of an ``Air``; leaving the ``with`` block ends all of them.

    Player n gets the state of the generator that player n of replication 0 of ``simulate(seed=seed)`` has.
    """

    def __init__(self, air: Air, policy: str, options: dict[str, Any], seed: int) -> None:
        self._air = air
        self._arms = air.problem.arms
        self._orders = {"port": air.address[1], "arms": self._arms, "policy": policy, "options": options}
        self._seed = seed
        self.devices = [Device() for _ in range(air.problem.players)]
        try:
            self.start(n for n in range(air.problem.players) if air.problem.present(0)[n])
        except BaseException:
            self.stop()
            raise

    def start(self, players: Iterable[int]) -> None:
        """Start the processes of players."""
        for n in players:
            orders = {
                **self._orders,
                "token": self._air.tokens[n].hex(),
                "generator": generator(self._seed, 0, POLICY, n).bit_generator.state,
                # it waits longer than the air does, so that the air is the first to report who is missing
                "patience": 2 * self._air.patience + 10,
            }
            self._start(self.devices[n], orders)

    def kill(self, player: int) -> None:
        """Kill the process of a player, without a word to anybody."""
        process = self.devices[player].process
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, device: Device, orders: dict[str, Any]) -> None:
        # A session of its own: Ctrl-C in the terminal reaches the air alone, which then ends the players.
        apart: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "weakfeedback.apps.radio.player"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            **apart,
        )
        device.process, device.phase = process, "starting"
        for work in (self._watch, self._overhear):
            thread = threading.Thread(target=work, args=(device,), daemon=True)
            thread.start()
            device.readers.append(thread)
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin as stdin:  # it may have exited; check() reports that
            stdin.write(json.dumps(orders).encode())

    def _watch(self, device: Device) -> None:
        """Read a display until it is closed."""
        assert device.process is not None
        assert device.process.stdout is not None
        with device.process.stdout as lines:
            while line := lines.readline(LONGEST_LINE):
                try:
                    said = json.loads(line)
                    slot = integer("slot", said["slot"], 1)
                    arm = integer("arm", said["arm"], IDLE, self._arms - 1)
                    device.history.append((slot, said["settled"] is True, arm))
                    device.holds = said["holds"] is True
                    device.phase = str(said["phase"])
                except (ValueError, KeyError, TypeError):
                    device.phase = "unreadable"

    def _overhear(self, device: Device) -> None:
        assert device.process is not None
        assert device.process.stderr is not None
        with device.process.stderr as lines:
            while line := lines.readline(LONGEST_LINE):
                device.complaint = line.decode(errors="replace").strip() or device.complaint

    @property
    def all_settled(self) -> bool:
        """Whether every display says so."""
        return all(
            device.settled or device.ended or n in self._air.lost for n, device in enumerate(self.devices)
        )

    def check(self) -> None:
        """Raise ChildProcessError if a process has ended."""
        for n, device in enumerate(self.devices):
            expected = device.process is not None and not device.ended and n not in self._air.lost
            if expected and device.process.poll() is not None:  # type: ignore[union-attr]
                raise ChildProcessError(f"player {n} {self.fate(n)}")

    def fate(self, n: int) -> str:
        """Describe what happened to a player that disconnected."""
        device = self.devices[n]
        assert device.process is not None
        try:
            status = device.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return "disconnected, but its process is still running"
        device.readers[1].join(GRACE)
        if status < 0:
            return f"was killed by {_signal_name(-status)}"
        return f"ended with status {status}" + (f": {device.complaint}" if device.complaint else "")

    def finish(self) -> None:
        """After the air is closed: let the players exit, and read their displays to the end."""
        deadline = time.monotonic() + self._air.patience
        for device in self.devices:
            if device.process is None:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                device.process.wait(max(0.0, deadline - time.monotonic()))
            device.readers[0].join(max(0.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """Kill every process."""
        started = [device for device in self.devices if device.process is not None]
        for device in started:
            assert device.process is not None
            if device.process.poll() is None:
                device.process.kill()  # it has nothing to save, and a stopped process reacts to no other signal
        for device in started:
            assert device.process is not None
            device.process.wait()
            for thread in device.readers:
                thread.join(GRACE)


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
