"""Helpers are compiled once for each kind of arguments, and for constants only where they need them."""

import numpy as np
import pytest

from weakfeedback.engine.compiler import cache, lowering
from weakfeedback.engine.compiler._numba import functions
from weakfeedback.engine.compiler.lowering import compiled_function


def scaled(values, count, upwards):
    return values[count] * (1.0 if upwards else -1.0)


def count_and_scale(values):
    """The count is the constant 0 at first, and two calls have two other constants."""
    count = 0
    for value in values:
        if value > 0:
            count += 1
    return scaled(values, count, True) + scaled(values, 1, False)


def pick(pair, k):
    return pair[k]  # of another kind for each k, so k must be a constant


def picked(values):
    return pick((values, 2.0), 0)[0] * pick((values, 2.0), 1)


def halvings(n, below):
    return below if n <= 1 else 1 + halvings(n // 2, 0)


def counted(values):
    return halvings(values.size, 0)


def kinds_of(helper):
    """The arguments for which a helper is compiled."""
    made = next(made for (place, *_), made in lowering._helpers.items() if place == id(helper))
    return [[str(kind) for kind in signature] for signature in made.signatures]


@pytest.fixture(autouse=True)
def nothing_stored(tmp_path, monkeypatch):
    """What is found on disk is not compiled."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))


def test_constants_share_the_code_of_their_kind():
    values = np.array([3.0, -2.0, 4.0])
    assert compiled_function(count_and_scale)(values) == count_and_scale(values)
    assert kinds_of(scaled) == [["array(float64, 1d, C)", "int64", "bool"]]


def test_a_helper_that_needs_a_constant_has_it():
    assert compiled_function(picked)(np.array([3.0])) == 6.0
    assert [kinds[-1] for kinds in kinds_of(pick)] == ["Literal[int](0)", "Literal[int](1)"]


def test_a_helper_may_call_itself_with_a_constant():
    """It finds the code that is being compiled, which is that for any number."""
    values = np.zeros(9)
    assert compiled_function(counted)(values) == counted(values) == 3
    assert kinds_of(halvings) == [["int64", "int64"]]


def test_where_code_is_found_in_another_way_nothing_is_changed():
    class Other:
        pass

    other = Other()
    functions._compile_once_for_all_constants(other)
    assert vars(other) == {}
