"""Stored code is loaded without the tables that Numba fills before it compiles, unless the code needs them."""

import numpy as np
import pytest
from numba import njit
from numba.core.cpu import CPUContext
from tests.engine._numba.drawing import play
from tests.rig.processes import printed

from weakfeedback.engine.compiler import cache
from weakfeedback.engine.compiler._numba import diskcache

TABLES = ("numba.np.arraymath", "numba.np.linalg", "numba.typed.typeddict")  # modules that fill them
ALLOCATE = "NRT_MemInfo_alloc_aligned"
PLAY = f"""
import sys
from tests.engine._numba.drawing import play

found = play()
print(found.compiled["a"], found.values("a").tolist(), [name in sys.modules for name in {TABLES}])
"""


def test_a_second_process_does_not_prepare_to_compile(tmp_path):
    environment = {cache.VARIABLE: str(tmp_path)}
    first, second = (printed("-W", "error", "-c", PLAY, environment=environment) for _ in range(2))
    expected = f"True {play().values('a').tolist()}"
    assert first == f"{expected} [True, True, True]\n"
    assert second == f"{expected} [False, False, False]\n"


def total(values):
    return values.copy().sum()  # memory is allocated by a function outside the code


@pytest.mark.parametrize("unknown", [False, True])
def test_the_tables_are_filled_if_a_name_is_unknown(unknown, tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    asked, filled = [], []

    def call():
        function = type(total)(total.__code__, total.__globals__, "total")
        dispatcher = njit(function)
        cache.keep(dispatcher, function, "stamp")
        assert dispatcher(np.ones(3)) == 3.0
        return sum(dispatcher.stats.cache_hits.values()) == 1

    def address_of_symbol(name):
        asked.append(name)
        return None if unknown and name == ALLOCATE else known(name)

    assert not call()
    known, refresh = diskcache.binding.address_of_symbol, CPUContext.refresh
    monkeypatch.setattr(diskcache.binding, "address_of_symbol", address_of_symbol)
    monkeypatch.setattr(CPUContext, "refresh", lambda self: filled.append(1) or refresh(self))
    assert call()
    assert len(filled) == unknown
    assert ALLOCATE in asked
    assert all(map(known, asked))  # so that nothing of a plain function is unknown


@njit
def even(n):
    return n == 0 or odd(n - 1)


@njit
def odd(n):
    return n > 0 and even(n - 1)


def test_code_with_calls_that_only_this_process_resolves_is_not_stored(tmp_path, monkeypatch):
    """Loaded in another process it would jump to no place in memory."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    for dispatcher in (even, odd):
        cache.keep(dispatcher, dispatcher.py_func, "stamp")
    assert even(4)
    assert not odd(4)
    assert not list(tmp_path.rglob("*.nb[ic]"))
