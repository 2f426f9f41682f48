"""Fixtures shared by all tests."""

import asyncio
import gc
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.rig import postgres

# a loaded machine is no fault of what is tested
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# before NumPy is loaded: two workers with threads of their own for each product of small matrices wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# and with the kernels that made the evidence, whatever a machine is set to: their last bits are compared
PROCESSOR = Path("/proc/cpuinfo")
if PROCESSOR.exists() and "avx512vl" in PROCESSOR.read_text():
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX"

# rooms whose tests wait for clocks, browsers, sockets and processes: a busy machine can hold up any of them, so once
# more then, and named in the summary. Not everywhere: the plugin takes 40 ms a test.
AGAIN = pytest.mark.flaky(reruns=1)
WAITING = {"apps", "bench", "cli", "docs", "journal", "live", "report", "serve"}

MEDICAL_FILES = ("pima-indians-diabetes.csv", "heart-disease-cleveland.csv")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs more than the repository, which quick tests leave out, and what waits."""
    for item in items:
        if WAITING & set(item.path.parts):
            item.add_marker(AGAIN)
        if {"medical_data", "server"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("given")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**given))
    return True


def pytest_collection_finish() -> None:
    """Collect garbage less often, and not among the modules: looking through them took a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


@pytest.fixture
def medical_data() -> Path:
    """The folder with the medical data sets, which are not part of the repository."""
    folder = os.environ.get("WEAKFEEDBACK_DATA", "")
    if not folder:
        pytest.skip("the medical data sets are needed: set WEAKFEEDBACK_DATA to their folder")
    lacking = [name for name in MEDICAL_FILES if not (Path(folder) / name).is_file()]
    if lacking:
        pytest.skip(f"WEAKFEEDBACK_DATA={folder} has no {' and no '.join(lacking)}")
    return Path(folder)


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Cluster]:
    """A PostgreSQL server of this session's own."""
    try:
        with postgres.cluster() as cluster:
            yield cluster
    except postgres.Absent as reason:
        pytest.skip(str(reason))
