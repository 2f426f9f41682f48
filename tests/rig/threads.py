"""The same work in several threads at once."""

import threading
from collections.abc import Callable

import pytest


def too_late(act: Callable[[], object], but: str) -> str:
    """What the TimeoutError of ``act`` says: again where a busy machine held up the one who is quick, ``but``."""
    said = but
    while but in said:
        with pytest.raises(TimeoutError) as caught:
            act()
        said = str(caught.value)
    return said


def in_threads(count: int, work: Callable[[int], None], *barriers: threading.Barrier) -> None:
    """Run ``work(n)`` for n = 0, ..., count - 1 in a thread each, all begun together; raise what one of them raised.

    Then nobody waits any longer at the ``barriers``.
    """
    start, failures = threading.Barrier(count), list[BaseException]()

    def run(n: int) -> None:
        try:
            start.wait()
            work(n)
        except BaseException as error:
            failures.append(error)
            for barrier in barriers:
                barrier.abort()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
