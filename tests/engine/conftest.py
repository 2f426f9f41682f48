"""What tests of the engine share."""

import gc

import pytest
from numba.core.runtime import _nrt_python, rtsys


@pytest.fixture
def balance():
    """A function that returns how many pieces of memory compiled code holds."""
    was_on = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()

    def held():
        gc.collect()
        stats = rtsys.get_allocation_stats()
        return stats.alloc - stats.free, stats.mi_alloc - stats.mi_free

    yield held
    if not was_on:
        _nrt_python.memsys_disable_stats()
