"""Numbers beyond all measure, masked arrays, bytes and strange objects: one line that names the argument."""

import inspect
import time

import numpy as np
import pytest
from tests.rig.pace import pace

from weakfeedback import Results, simulate
from weakfeedback.allocation import AllocationProblem, knapsack
from weakfeedback.allocation.theory import wait_multiple, wait_program, wait_same
from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.checks import PolicyCheckError, check_policy
from weakfeedback.contextual import ContextualProblem, RealizableProblem
from weakfeedback.settings.catalog import POLICIES, SETTINGS
from weakfeedback.validate import brief, vector

EXTREME = [5e-324, 1e-300, 1e300, 1e308, 2**31, 2**31 + 0.5, 2**62, 2**63, 2**64, 10**400, -(10**400), 1e-17]
PROBLEM = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])


def complaint(function, *arguments, **options):
    """What a ValueError says, "" if there is none."""
    said = ""
    try:
        function(*arguments, **options)
    except ValueError as error:
        said = str(error)
    assert len(said.splitlines()) <= 1
    assert len(said) < 1000
    return said


@pytest.mark.parametrize(
    ("setting", "name"), [(setting, name) for setting in POLICIES for name in POLICIES[setting]]
)
def test_extreme_numbers_are_taken_or_refused_by_name(setting, name):
    cls, known = POLICIES[setting][name], SETTINGS[setting]
    problem, _ = known.sample(name)
    parameters = inspect.signature(cls).parameters
    given = dict(zip(parameters, known.arguments(problem)))
    given |= known._options(name, problem, getattr(cls, "sample_options", {}))
    for parameter in parameters:
        for value in EXTREME:
            said = complaint(cls, **{**given, parameter: value})
            assert not said or parameter in said, (parameter, value, said)


@pytest.mark.parametrize("value", EXTREME)
def test_extreme_numbers_in_formulas(value):
    for function, given in (
        (wait_same, {"arms": 5, "epsilon": 0.1, "delta": 0.1}),
        (wait_multiple, {"arms": 5, "epsilon": 0.1, "delta": 0.1, "search_max": 2.0, "gamma": 0.1}),
        (wait_program, {"arms": 5, "budget": 1.0, "epsilon": 0.1, "delta": 0.1}),
    ):
        for name in given:
            said = complaint(function, **{**given, name: value})
            assert not said or name in said or "epsilon" in said, (name, value, said)


def test_a_huge_number_of_replications_is_refused_at_once():
    start = time.process_time()
    for options in (
        {"replications": 10**9},
        {"replications": 10**400},
        {"replications": 10**8, "horizon": 10**7, "marks": 1},
        {"replications": 10**6, "marks": 10**4},
    ):
        said = complaint(simulate, PROBLEM, {"p": UssTs(PROBLEM.costs)}, **options)
        assert "replications must be at most" in said
    assert time.process_time() - start < 10 * pace()


def test_a_large_number_of_replications_is_not():
    few = {"horizon": 2, "marks": 1, "compiled": False}
    assert simulate(PROBLEM, {"p": UssTs(PROBLEM.costs)}, replications=2000, **few).policies == ["p"]


MASKED = np.ma.masked_array([0.1, 0.2], mask=[True, False])
STRANGE = [MASKED, bytearray(b"ab"), b"ab", memoryview(b"ab"), [MASKED, MASKED]]


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
def test_masked_arrays_and_bytes_are_refused_everywhere(value):
    good = [[0.1, 0.2], [0.3, 0.4]]
    calls = {
        "costs": lambda: CascadeProblem([[1, 1, 1], [1, 0, 1]], [0.6, 0.4], costs=value),
        "probabilities": lambda: CascadeProblem([[1, 1, 1], [1, 0, 1]], value, costs=[0.1, 0.2]),
        "outcomes": lambda: CascadeProblem(value, [0.6, 0.4], costs=[0.1]),
        "errors": lambda: CascadeProblem.bsc(value, costs=[0.1, 0.2]),
        "truth": lambda: CascadeProblem.from_predictions(value, [[0, 1], [1, 1]], [0.1, 0.2]),
        "predictions": lambda: CascadeProblem.from_predictions([0, 1], value, [0.1, 0.2]),
        "means": lambda: AllocationProblem(value, [0.5, 0.5], 0.7),
        "contexts": lambda: ContextualProblem(value, [0, 1], [[1.0, 1.0], [1.0, 2.0]], [0.1, 0.2]),
        "truth ": lambda: ContextualProblem(good, value, [[1.0, 1.0], [1.0, 2.0]], [0.1, 0.2]),
        "pair_parameters": lambda: RealizableProblem(good, value, [0.1, 0.2]),
        "marks": lambda: simulate(PROBLEM, {"p": UssTs(PROBLEM.costs)}, marks=value),
        "values": lambda: knapsack(value, [0.5, 0.5], 1.0),
        "weights": lambda: knapsack([0.5, 0.5], value, 1.0),
        "x": lambda: vector("x", value),
    }
    for name, call in calls.items():
        assert name.strip() in complaint(call), name


@pytest.mark.parametrize(
    "given",
    [
        ("0.5", [0.5], 1.0),
        (["0.5"], [0.5], 1.0),
        ([0.5 + 0j], [0.5], 1.0),
        ([True], [0.5], 1.0),
        ([0.5], [None], 1.0),
        ([0.5], [0.5], "1.0"),
        ([0.5], [0.5], True),
        ([0.5], [0.5], b"1"),
        ([0.5], [0.5], 1j),
        ([0.5], [10**400], 1.0),
        (None, [0.5], 1.0),
    ],
)
def test_knapsack_takes_numbers_only(given):
    assert "values, weights and capacity must be numbers" in complaint(knapsack, *given)


def test_knapsack_takes_every_kind_of_real_number():
    from fractions import Fraction

    for one in (np.float32(0.5), np.int64(1), Fraction(1, 2), 1):
        assert knapsack([one, one], [one, one], one).tolist() in ([True, False], [False, True])
    assert knapsack([], [], 1.0).tolist() == []


class Silent:
    def __repr__(self):
        raise RuntimeError("no words")


class Talkative:
    def __repr__(self):
        return "line\n" * 5000 + "\x1b[31m"


@pytest.mark.parametrize("thing", [Silent(), Talkative(), "x" * 100_000], ids=["silent", "talkative", "long"])
def test_messages_are_one_short_line_whatever_the_value(thing):
    assert len(brief(thing)) <= 120
    assert brief(thing).isprintable()
    results = simulate(PROBLEM, {"p": UssTs(PROBLEM.costs)}, horizon=5, replications=1, compiled=False)
    calls = [
        lambda: simulate(PROBLEM, {"p": thing}),
        lambda: simulate(PROBLEM, thing),
        lambda: simulate(thing, {}),
        lambda: simulate(PROBLEM, {"p": UssTs(PROBLEM.costs)}, executor=thing),
        lambda: AllocationProblem([0.5], [0.5], 1.0, setting=thing),
        lambda: results.values(thing),
        lambda: results.values("p", thing),
        lambda: UssTs(thing),
        lambda: Results.load(f"/nowhere/{'x' * 200}"),
    ]
    for call in calls:
        assert complaint(call)


def test_a_check_survives_an_error_without_words():
    class Wordless(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    class Failing(UssTs):
        def select(self, rng):
            raise Wordless

    with pytest.raises(PolicyCheckError, match="an error whose message cannot be read"):
        check_policy(lambda problem: Failing(problem.costs), PROBLEM, compiled=False)
