"""How much memory compiled code holds, as Numba counts it."""

import contextlib
import gc

from numba.core.runtime import _nrt_python, rtsys


@contextlib.contextmanager
def counted():
    """While this lasts Numba counts; what is given is a function of nothing that returns how many pieces are held."""
    was_on = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    gc.freeze()  # what was there before need not be searched each time

    def held():
        gc.collect()
        stats = rtsys.get_allocation_stats()
        return stats.alloc - stats.free, stats.mi_alloc - stats.mi_free

    try:
        yield held
    finally:
        gc.unfreeze()
        if not was_on:
            _nrt_python.memsys_disable_stats()
