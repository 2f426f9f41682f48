"""What a policy may decide: one judge and one line, interpreted and compiled alike."""

import math

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.allocation import AllocationProblem
from weakfeedback.cascade import CascadeProblem, FixedArm
from weakfeedback.contextual import FixedArm as ContextualFixedArm
from weakfeedback.contract.decisions import WrongDecision, checked_allocation, checked_arm, checked_choice
from weakfeedback.engine import replication
from weakfeedback.engine.plan import InterpretedWarning
from weakfeedback.multiplayer import MultiplayerProblem
from weakfeedback.settings.catalog import SETTINGS

CASCADE = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])
ALLOCATION = AllocationProblem([0.9, 0.7], [0.5, 0.5], budget=1.0)
PLAYERS = MultiplayerProblem([0.9, 0.5, 0.2], players=2)


class Somebody:
    pass


@pytest.mark.parametrize("value", [0, 2, np.int64(1), np.uint8(2), True, np.False_, np.array(1)])
def test_integers_are_arms(value):
    assert checked_arm(Somebody(), value, 3) == int(value)
    assert type(checked_arm(Somebody(), value, 3)) is int
    assert checked_choice(Somebody(), value, 3) == int(value)


@pytest.mark.parametrize("value", [-1, 3, 1.0, np.float64(1.0), None, "1", [1], np.array([1, 2]), 2**80, 1j])
def test_everything_else_is_not(value):
    with pytest.raises(
        WrongDecision, match=r"it must be an arm from 0 to 2, got .* from Somebody.select\(\)"
    ):
        checked_arm(Somebody(), value, 3)


def test_a_player_may_idle():
    assert checked_choice(Somebody(), -1, 3) == -1
    assert checked_choice(Somebody(), np.int64(-1), 3) == -1
    with pytest.raises(
        ValueError, match=r"from 0 to 2, or -1 to idle, got -2 from Somebody.choose\(\)"
    ) as caught:
        checked_choice(Somebody(), -2, 3)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("value", [np.array([0.25, 0.75]), np.array([1, 0]), np.array([0.0, 1.0 + 1e-10])])
def test_allocations_that_the_budget_can_pay(value):
    assert checked_allocation(Somebody(), value, 2, 1.0) is value


@pytest.mark.parametrize(
    "value",
    [
        np.array([0.5, 0.6]),
        np.array([-0.1, 0.5]),
        np.array([math.nan, 0.5]),
        np.array([math.inf, 0.5]),
        np.array([0.5]),
        np.zeros((1, 2)),
        np.array(["a", "b"]),
        [0.5, 0.5],
        0.5,
        None,
    ],
)
def test_allocations_that_are_refused(value):
    with pytest.raises(WrongDecision) as caught:
        checked_allocation(Somebody(), value, 2, 1.0)
    said = str(caught.value)
    assert "it must be an array of 2 numbers >= 0 with a sum of at most 1, got " in said
    assert said.endswith("from Somebody.select()")
    assert len(said.splitlines()) == 1


class TooFar(FixedArm):
    """Chooses an arm that does not exist, in the third round or a little later."""

    delay_safe = True

    def __init__(self, costs):
        super().__init__(costs, 0)
        self.seen = 0

    def select(self, rng):
        return 0 if self.seen < 2 or rng.random() < 0.5 else 7

    def update(self, arm, outputs, rng):
        self.seen += 1


class TooFarInContext(ContextualFixedArm):
    def select(self, phi, rng):
        return -2 if rng.random() < 0.5 else 0


class Spends:
    """Gives more than there is."""

    def __init__(self):
        self.K = 2

    def select(self, rng):
        return np.array([0.5, rng.random()])

    def update(self, allocation, observed, rng):
        pass


class Wanders:
    """A player who leaves the room."""

    def __init__(self):
        self.K = 3
        self.arm = 0
        self.settled = False

    def choose(self, rng):
        return int(6 * rng.random())

    def observe(self, arm, reward, collided, rng):
        pass


@pytest.mark.parametrize(
    ("problem", "policy", "words"),
    [
        (CASCADE, TooFar(CASCADE.costs), r"it must be an arm from 0 to 2, got 7 from TooFar.select\(\)$"),
        (
            SETTINGS["contextual"].default_problem(),
            TooFarInContext([0.05, 0.15, 0.35], 0),
            r"it must be an arm from 0 to 2, got -2 from TooFarInContext.select\(\)$",
        ),
        (
            ALLOCATION,
            Spends(),
            r"with a sum of at most 1, got array\(\[0.5 *, 0.\d+\]\) from Spends.select\(\)$",
        ),
        (PLAYERS, Wanders(), r"or -1 to idle, got [345] from Wanders.choose\(\)$"),
    ],
    ids=["cascade", "contextual", "allocation", "players"],
)
def test_interpreted_and_compiled_say_the_same(problem, policy, words):
    said = []
    for compiled in (True, False):
        with pytest.raises(ValueError, match=words) as caught:
            simulate(problem, {"mine": policy}, horizon=50, replications=3, seed=4, compiled=compiled)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert said[0].startswith("'mine' decided something impossible in round ")
    assert len(said[0].splitlines()) == 1


def test_a_late_mistake_is_told_without_the_value(monkeypatch):
    monkeypatch.setattr(replication, "REPLAYED", 2)
    with pytest.raises(ValueError, match=r"it must be an arm from 0 to 2$"):
        simulate(CASCADE, {"mine": TooFar(CASCADE.costs)}, horizon=50, replications=1)


@pytest.mark.parametrize("value", [1.5, None, "1", (1,)])
def test_what_is_no_integer_is_refused_in_the_same_words(value):
    class Odd(FixedArm):
        def select(self, rng):
            return value

    with pytest.raises(ValueError, match=r"round 1 of replication 0: it must be an arm from 0 to 2, got "):
        simulate(CASCADE, {"odd": Odd(CASCADE.costs, 0)}, horizon=5, replications=1, compiled=False)


def test_a_float_does_not_compile_and_is_refused():
    class Half(FixedArm):
        def select(self, rng):
            return 0.5

    with (
        pytest.warns(InterpretedWarning, match="the loop cannot use what a method returns: .* float"),
        pytest.raises(ValueError, match=r"got 0.5 from Half.select\(\)"),
    ):
        simulate(CASCADE, {"half": Half(CASCADE.costs, 0)}, horizon=5, replications=1)
