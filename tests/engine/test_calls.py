"""Methods called from Python one by one: indices are checked in every class, for a state may have been forged."""

import numpy as np
import pytest

from weakfeedback.engine.compiler.calls import Calls
from weakfeedback.engine.compiler.lowering import Blueprint, checks_bounds


def read(numbers, place):
    return numbers[place]


class Forged:
    """Looks where its state says."""

    def __init__(self):
        self.numbers = np.zeros(2)
        self.place = 0

    def select(self, rng):
        return self.numbers[self.place]

    def look(self, rng):
        return read(self.numbers, self.place)


Forged.__module__ = "weakfeedback.forged"  # the package's own classes are not checked in a simulation


@pytest.mark.parametrize("method", ["select", "look"])
def test_a_wrong_index_in_a_state_is_an_error_and_no_place_in_memory(method):
    assert not checks_bounds(Forged)
    forged = Forged()
    forged.place = 2  # one past the end, which does no harm if it is read
    calls = Calls(forged, {method: ()}, np.random.default_rng(0))
    with pytest.raises(IndexError, match="out of bounds"):
        calls.method(method)(None)


def test_checked_and_unchecked_builds_are_two(monkeypatch):
    builds = {Blueprint(Forged(), ("select",), checked).digest for checked in (None, False, True)}
    assert len(builds) == 2
    monkeypatch.setattr("numba.config.BOUNDSCHECK", 0)
    assert not checks_bounds(Forged, checked=True)  # the user has switched it off
