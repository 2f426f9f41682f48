"""Where an inner part of Numba or NumPy is missing, something else takes its place, and the numbers stay the same."""

import sys

import numpy as np
import pytest
from numba import njit
from numba.core import environment
from numba.experimental import structref
from tests.engine._numba.drawing import Drawing, play
from tests.engine.test_team import DRAWN, Odd, drawn, outcome
from tests.engine.test_team import PROBLEM as TEAM_PROBLEM
from tests.rig.processes import printed

from weakfeedback.engine.compiler import cache, team
from weakfeedback.engine.compiler._numba import borrowed, parts, stream
from weakfeedback.engine.compiler._numba.borrowed import Loan
from weakfeedback.engine.compiler.lowering import Blueprint
from weakfeedback.engine.replication import Compiled, Interpreted


def regret(compiled=True):
    return play(compiled).values("a").tolist()


# -- parts: functions are compiled as Numba does it


@pytest.mark.parametrize("name", parts.METHODS)
def test_a_missing_step_of_the_code_library_is_noticed(name, monkeypatch):
    assert parts._is_known()
    monkeypatch.setattr(parts.LIBRARY, name, None)
    assert not parts._is_known()


def test_missing_functions_of_the_compiler_are_noticed(monkeypatch):
    monkeypatch.setattr(parts.numba, "_dynfunc", None)
    assert not parts._is_known()
    monkeypatch.undo()
    monkeypatch.delattr(environment, "lookup_environment")
    assert not parts._is_known()


def test_libraries_of_older_compilers_have_nothing_to_do_again():
    class Older:
        pass

    class Newer:
        _reload_init = ("something",)

    assert parts.reload_of(Older()) == ()
    assert parts.reload_of(Newer()) == ("something",)


PLAY = """
import warnings
from tests.engine._numba.drawing import play

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    found = play()
print(found.values("a").tolist())
print([str(warning.message) for warning in told])
"""
CHOOSE = """
from weakfeedback.allocation import knapsack

print(knapsack([0.9, 0.6, 0.4], [0.6, 0.55, 0.45], 1.0).tolist())
"""


def run_without(missing, program, tmp_path):
    """What a program prints in a process in which something is missing from the start."""
    environment = {"WEAKFEEDBACK_CACHE": str(tmp_path)}
    return printed("-W", "error", "-c", f"{missing}\n{program}", environment=environment).splitlines()


def test_the_same_numbers_where_methods_cannot_be_parts(tmp_path):
    missing = """
import numba; del numba._dynfunc
from weakfeedback.engine.compiler._numba import parts
print(parts.KNOWN)
"""
    known, numbers, warned = run_without(missing, PLAY, tmp_path)
    assert known == "False"
    assert numbers == str(regret(compiled=False))
    assert warned == "[]"


@pytest.mark.parametrize(
    "missing",
    [
        "import sys, numba; sys.modules['numba.core.typed_passes'] = None",
        "import numba; del numba.core.extending.overload_method",
        "import sys; sys.modules['numba'] = None",
    ],
)
def test_policies_are_interpreted_where_too_much_is_missing(missing, tmp_path):
    numbers, warned, chosen = run_without(missing, PLAY + CHOOSE, tmp_path)
    assert numbers == str(regret(compiled=False))
    assert "runs in the interpreter" in warned
    assert "this version of Numba or NumPy cannot be used: " in warned
    assert chosen == "[False, True, True]"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# -- borrowed: references are counted


def test_a_struct_that_does_not_say_where_its_fields_are_is_not_borrowed(monkeypatch):
    assert borrowed._is_known()

    class Other:
        pass

    monkeypatch.setattr(structref, "StructRefProxy", Other)
    assert not borrowed._is_known()


def test_the_same_numbers_where_nothing_is_borrowed(monkeypatch, balance):
    expected = regret(compiled=False)
    monkeypatch.setattr(borrowed, "KNOWN", False)
    blueprint = Blueprint(Drawing(), ("select", "update"))
    assert not isinstance(blueprint.twin(Drawing()), Loan)
    assert regret() == expected
    before = balance()
    regret()
    assert balance() == before


# -- stream: numbers are drawn by calls of NumPy


OTHER_STATE = np.random.PCG64(2).state


class Elsewhere:
    """Keeps its state in another object."""

    def __init__(self, seed):
        self.bits = np.random.SFC64(seed)
        self.ctypes = self.bits.ctypes


class Otherwise(np.random.PCG64):
    """Has other numbers in its memory than it says."""

    @property
    def state(self):
        """The numbers of another seed."""
        return OTHER_STATE


class Pointing(np.random.PCG64):
    """Has something else where the address of the state was."""

    @property
    def ctypes(self):
        """An address inside the object, where there is a number."""
        return self.Ctypes(id(self))

    class Ctypes:
        """The count of references comes first in an object."""

        def __init__(self, address):
            self.state_address = address


@pytest.mark.parametrize("other", [Elsewhere, Otherwise, Pointing])
def test_another_state_of_the_generator_is_noticed(other, monkeypatch):
    assert stream._is_known()
    monkeypatch.setattr(np.random, "PCG64", other)
    assert not stream._is_known()


def test_the_same_numbers_where_the_state_is_another_one(monkeypatch):
    expected = regret(compiled=False)
    monkeypatch.setattr(stream, "KNOWN", False)
    assert regret() == expected


def test_a_team_draws_the_same_where_the_state_is_another_one(monkeypatch):
    monkeypatch.setattr(stream, "KNOWN", False)
    ours, numpys = ([np.random.Generator(np.random.PCG64(k)) for k in range(4)] for _ in range(2))
    compiled, expected = np.zeros((20, 12)), np.zeros((20, 12))
    generators = team.Generators(ours)
    assert generators.item != stream.STREAM
    DRAWN(generators, compiled)
    drawn(numpys, expected)
    assert compiled.tolist() == expected.tolist()


def test_a_team_plays_the_same_where_no_player_is_borrowed_and_the_state_is_another_one(monkeypatch):
    monkeypatch.setattr(borrowed, "KNOWN", False)
    monkeypatch.setattr(stream, "KNOWN", False)
    player = Compiled(TEAM_PROBLEM, Odd())
    made = team.Team(player.policy, [Odd()])
    assert not isinstance(made.item, borrowed.Borrowed)
    assert outcome(player, Odd(), 100) == outcome(Interpreted(TEAM_PROBLEM), Odd(), 100)


# -- diskcache: nothing is kept


@pytest.mark.parametrize("how", ["module", "attribute"])
def test_code_that_cannot_be_kept_is_compiled_each_time(how, monkeypatch, tmp_path):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(cache, "lost", [])
    if how == "module":
        monkeypatch.setitem(sys.modules, "weakfeedback.engine.compiler._numba.diskcache", None)
        monkeypatch.delattr("weakfeedback.engine.compiler._numba.diskcache", raising=False)
    else:
        from weakfeedback.engine.compiler._numba import diskcache

        monkeypatch.delattr(diskcache, "Kept")
        monkeypatch.setattr(diskcache, "attach", lambda *_: diskcache.missing)

    def double(x):
        return 2.0 * x

    dispatcher = njit(double)
    cache.keep(dispatcher, double, "stamp")
    assert dispatcher(1.5) == 3.0
    assert len(cache.lost) == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
