"""The real server as a process, and a plain client over a socket."""

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.rig.processes import PATIENCE


class Process:
    """A running `weakfeedback serve`; its port is that which it printed."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        env: dict[str, str] | None = None,
        wait: bool = True,
        quiet: bool = True,
        descriptors: int | None = None,
    ) -> None:
        self.folder = folder
        command = [
            sys.executable,
            "-m",
            "weakfeedback",
            "serve",
            "--port",
            "0",
            "--interpreted",
            *(["--quiet"] if quiet else []),
            *options,
        ]
        if descriptors is not None:
            command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]
        self.errors = open(folder / "errors", "ab")  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.line = self.process.stdout.readline() if wait else ""
        self.port = int(self.line.rstrip().rstrip("/").rpartition(":")[2]) if self.line else 0

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self._end()

    def stop(self) -> int:
        """Ask it to end, and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        status = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.errors.close()
        return status

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        elif not self.errors.closed:
            self._end()


class Client:
    """One connection, opened again when it breaks."""

    def __init__(self, port: int, headers: dict[str, str] | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.headers = headers or {}

    def __call__(self, method: str, path: str, data: Any = None, **headers: str) -> tuple[int, Any]:
        sent = {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        body = None
        if data is not None:
            body, sent["content-type"] = json.dumps(data), "application/json"
        try:
            self.connection.request(method, path, body, sent)
            reply = self.connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise
        kind = reply.headers.get("content-type", "")
        return reply.status, json.loads(text) if "json" in kind and "ndjson" not in kind else text

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
