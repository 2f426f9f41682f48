"""Processes that tests start: they hear Ctrl-C, get the time that a busy machine needs, and are always ended."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# Seconds until a test gives up on another process. It only ends what hangs: on a busy machine a start with cold
# caches takes minutes.
PATIENCE = 600.0


COMMAND = [sys.executable, "-m", "weakfeedback"]


def ran(
    *words: Any, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess:
    """Another Python that was started with these words, such as "-c" and a program, and has ended."""
    usual = {"capture_output": True, "text": True, "timeout": PATIENCE}
    env = {**os.environ, **(environment or {})}
    return subprocess.run([sys.executable, *map(str, words)], **{**usual, "env": env, **options})


def printed(*words: Any, **options: Any) -> str:
    """What another Python prints, which must end well."""
    done = ran(*words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def started(words: Sequence[str], **options: Any) -> Iterator[subprocess.Popen]:
    """Start a process, and kill it at the end if it still runs. Its pipes are closed and its status is taken."""
    with _interrupts_on():
        process = subprocess.Popen(words, **options)
    with process:  # closes the pipes and waits
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@contextlib.contextmanager
def _interrupts_on() -> Iterator[None]:
    """Let children hear Ctrl-C also where we do not (in the background, under nohup): what is ignored is inherited."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def wait_until(
    happened: Callable[[], Any], process: subprocess.Popen | None = None, pause: float = 0.02
) -> Any:
    """What ``happened()`` returns once that is true, or the process has ended."""
    deadline = time.monotonic() + PATIENCE
    while not (found := happened()) and (process is None or process.poll() is None):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(pause)
    return found


async def until(happened: Callable[[], Any]) -> None:
    """Wait until something has happened, while others have the loop."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, "it took too long"
        await asyncio.sleep(0.005)
