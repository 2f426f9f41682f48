"""A participant of a comparison: a process that waits for requests, so that repetitions can alternate."""

import json
import os
import subprocess
import sys
from typing import Any

OURS = [sys.executable, "-m", "benchmarks.ours"]
# CPU time is that of all threads, and the threads of a linear algebra wait for each other by spinning
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB")}


class Failed(RuntimeError):
    """A participant could not do the work, for the reason given."""


class Participant:
    """Started with a command; ready for one work after ``prepare``."""

    def __init__(self, command: list[str], **request: Any) -> None:
        self.peak_mb = 0.0
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | ONE_THREAD,
        )
        try:
            self.rounds = self._ask(request)["rounds"]
        except Failed:
            self.close()
            raise

    def measure(self) -> float:
        """Run the work once: nanoseconds of CPU time per round."""
        answer = self._ask({"run": True})
        self.peak_mb = answer["peak_mb"]
        return answer["ns"]

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            while line and not line.startswith("{"):  # what a library prints when it is imported
                line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise Failed("the process ended")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> "Participant":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
