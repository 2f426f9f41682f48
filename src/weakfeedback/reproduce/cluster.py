"""The executor of a run: threads of this machine, or a Dask cluster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor

from weakfeedback.plaintext import one_line

WAIT = "10s"  # seconds for the scheduler to answer


class NoCluster(ValueError):
    """A scheduler that cannot be used; the message is one line."""


@contextlib.contextmanager
def executor_of(workers: int | None = None, scheduler: str | None = None) -> Iterator[tuple[Executor, int]]:
    """Yield the executor, and how many tasks it can play at once.

    ``scheduler`` is the address of a Dask scheduler; its workers need this package. Without one: ``workers``
    threads, as many as there are cores by default.
    """
    if scheduler is not None:
        with _connect_dask(scheduler) as both:
            yield both
        return
    count = workers or os.cpu_count() or 1
    executor = ThreadPoolExecutor(count, thread_name_prefix="play")
    try:
        yield executor, count
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _connect_dask(address: str) -> Iterator[tuple[Executor, int]]:
    try:
        from distributed import Client
    except ImportError:
        raise NoCluster(
            "--scheduler needs Dask: pip install 'weakfeedback[distributed]' here and on the workers"
        ) from None
    try:
        client = Client(address, timeout=WAIT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise NoCluster(f"--scheduler {address}: cannot be reached: {one_line(str(error))}") from None
    try:
        threads = sum(client.nthreads().values())
        # a chunk is played again if its worker was lost; results do not depend on the worker
        yield client.get_executor(pure=False), max(threads, 1)
    finally:
        client.close()
