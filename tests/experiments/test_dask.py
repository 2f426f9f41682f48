"""The same tasks on a cluster: a real one, two worker processes, one of which is killed in the middle."""

import os
import signal
import threading

import pytest
from tests.rig.pictures import undrawn  # noqa: F401
from tests.rig.processes import wait_until

distributed = pytest.importorskip("distributed", reason="the extra [distributed] is not installed")

from weakfeedback.reproduce.cluster import NoCluster, executor_of  # noqa: E402
from weakfeedback.reproduce.run import reproduce  # noqa: E402
from weakfeedback.reproduce.stored import rows_of  # noqa: E402

# Chunks of a hundred thousand to a million rounds: long enough to be met in the middle.
WORDS = ["ch2-rho-one*", "ch2-uniform-ucb"]
CHUNKS = 7 * 5 + 3


@pytest.fixture
def cluster():
    """A scheduler and two workers, each a process of its own with one thread."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as running:
        yield running


def kill_one(cluster, store, killed):
    """Kill a worker with SIGKILL once the first chunks have arrived."""
    wait_until(lambda: len(list(store.rglob("*.parquet"))) >= 2, pause=0.01)
    process = next(iter(cluster.workers.values())).process.process
    killed.append((process.pid, len(list(store.rglob("*.parquet")))))
    os.kill(process.pid, signal.SIGKILL)


@pytest.mark.usefixtures("undrawn")
def test_a_killed_worker_changes_nothing(cluster, tmp_path):
    killed = []
    folder = tmp_path / "cluster"
    killer = threading.Thread(target=kill_one, args=(cluster, folder / "store", killed))
    killer.start()
    there = reproduce(WORDS, folder, quick=True, scheduler=cluster.scheduler_address, quiet=True)
    killer.join()
    here = reproduce(WORDS, tmp_path / "here", quick=True, workers=1, quiet=True)
    ((_, before),) = killed
    assert 2 <= before < CHUNKS  # it was in the middle
    assert there.played == here.played == CHUNKS
    for name in here.results:
        assert rows_of(folder, name).read_bytes() == rows_of(tmp_path / "here", name).read_bytes()
    assert repr(there.verdicts) == repr(here.verdicts)


def test_a_scheduler_that_does_not_answer_is_one_line(monkeypatch):
    monkeypatch.setattr("weakfeedback.reproduce.cluster.WAIT", "1s")
    words = r"--scheduler tcp://127\.0\.0\.1:9: cannot be reached"
    with pytest.raises(NoCluster, match=words) as caught, executor_of(scheduler="tcp://127.0.0.1:9"):
        pass
    assert "\n" not in str(caught.value)


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with (
        pytest.raises(NoCluster, match=r"pip install 'weakfeedback\[distributed\]'"),
        executor_of(scheduler="x"),
    ):
        pass
