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
    """A player's process, and what its display has shown: (slots played, settled, channel if settled)."""

    process: subprocess.Popen[bytes]
    phase: str = "starting"
    history: list[tuple[int, bool, int]] = field(default_factory=list)
    complaint: str = ""  # its last words on standard error
    readers: list[threading.Thread] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Whether its display says that it has settled."""
        return bool(self.history) and self.history[-1][1]

    def at(self, slots: int) -> tuple[bool, int]:
        """Return whether it had settled after ``slots`` slots, and where."""
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
        self.devices: list[Device] = []
        try:
            for n in range(air.problem.players):
                orders = {
                    "port": air.address[1],
                    "token": air.tokens[n].hex(),
                    "arms": self._arms,
                    "policy": policy,
                    "options": options,
                    "generator": generator(seed, 0, POLICY, n).bit_generator.state,
                    # it waits longer than the air does, so that the air is the first to report who is missing
                    "patience": 2 * air.patience + 10,
                }
                self._start(orders)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, orders: dict[str, Any]) -> None:
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
        device = Device(process)
        self.devices.append(device)
        for work in (self._watch, self._overhear):
            thread = threading.Thread(target=work, args=(device,), daemon=True)
            thread.start()
            device.readers.append(thread)
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin as stdin:  # it may have exited; check() reports that
            stdin.write(json.dumps(orders).encode())

    def _watch(self, device: Device) -> None:
        """Read a display until it is closed."""
        assert device.process.stdout is not None
        with device.process.stdout as lines:
            while line := lines.readline(LONGEST_LINE):
                try:
                    said = json.loads(line)
                    slot = integer("slot", said["slot"], 1)
                    arm = integer("arm", said["arm"], IDLE, self._arms - 1)
                    device.history.append((slot, said["settled"] is True, arm))
                    device.phase = str(said["phase"])
                except (ValueError, KeyError, TypeError):
                    device.phase = "unreadable"

    def _overhear(self, device: Device) -> None:
        assert device.process.stderr is not None
        with device.process.stderr as lines:
            while line := lines.readline(LONGEST_LINE):
                device.complaint = line.decode(errors="replace").strip() or device.complaint

    @property
    def all_settled(self) -> bool:
        """Whether every display says so."""
        return all(device.settled for device in self.devices)

    def check(self) -> None:
        """Raise ChildProcessError if a process has ended."""
        for n, device in enumerate(self.devices):
            if device.process.poll() is not None:
                raise ChildProcessError(f"player {n} {self.fate(n)}")

    def fate(self, n: int) -> str:
        """Describe what happened to a player that disconnected."""
        device = self.devices[n]
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
            with contextlib.suppress(subprocess.TimeoutExpired):
                device.process.wait(max(0.0, deadline - time.monotonic()))
            device.readers[0].join(max(0.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """Kill every process."""
        running = [device.process for device in self.devices if device.process.poll() is None]
        for process in running:
            process.kill()  # it has nothing to save, and a stopped process reacts to no other signal
        for device in self.devices:
            device.process.wait()
            for thread in device.readers:
                thread.join(GRACE)


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
