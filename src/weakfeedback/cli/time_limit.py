"""A limit on how long a command may take."""

import _thread
import contextlib
import os
import threading
from collections.abc import Iterator

from weakfeedback.cli.output import FAILED, Stop, say


@contextlib.contextmanager
def time_limit(words: str, seconds: float, grace: float = 10.0) -> Iterator[None]:
    """End the block after ``seconds``: by an interrupt and, if that has no effect, by exiting the process."""
    told = f"{words}: not done after {seconds:g} s; --max-seconds gives it longer"
    over, done = threading.Event(), threading.Event()

    def watch() -> None:
        if done.wait(seconds):
            return
        over.set()
        _thread.interrupt_main()
        if not done.wait(grace):  # compiled code ignores interrupts, and some code catches everything
            say(f"weakfeedback: {told}", error=True)
            os._exit(FAILED)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        if over.is_set():
            raise Stop(told, FAILED) from None
        raise
    finally:
        done.set()
