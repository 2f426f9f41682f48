"""Methods and helpers compiled as parts of a loop: they still print and raise, and are no code of their own."""

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem
from weakfeedback.engine.compiler._numba import parts
from weakfeedback.engine.replication import Compiled

PROBLEM = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])


def refuse(round_, half):
    if round_ == 4:
        raise ValueError("stopped in round", round_, half)


class Loud:
    """Prints an array, and raises an error with values in it, from a helper."""

    def __init__(self):
        self.C = np.array([0.5, 0.25])
        self.t = 0

    def select(self, rng):
        self.t += 1
        if self.t == 2:
            print("round", self.t, self.C)
        refuse(self.t, 1.5)
        return 0

    def update(self, arm, outputs, rng):
        pass


def test_parts_print_and_raise_with_values(capfd):
    with pytest.raises(ValueError) as told:
        simulate(PROBLEM, {"a": Loud()}, horizon=10, replications=1)
    assert told.value.args == ("stopped in round", 4, 1.5)
    assert "round 2 [0.5  0.25]" in capfd.readouterr().out
    # it was the compiled loop that did this
    assert Compiled(PROBLEM, Loud()).loop.signatures


def test_parts_are_not_code_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setenv("WEAKFEEDBACK_CACHE", str(tmp_path))  # what is loaded from a cache is not compiled
    finished = []

    def note(library):
        finished.append(library.name)
        library._finalized = True

    monkeypatch.setattr(parts.Part, "_finalize_final_module", note)

    class Quiet(Loud):
        def select(self, rng):
            self.t += 1
            return self.even()

        def even(self):
            return self.t % 2

    Compiled(PROBLEM, Quiet())
    names = " ".join(finished)
    assert "even" in names
    assert "select" in names
    assert "play" not in names
