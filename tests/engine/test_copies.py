"""Players made all at once: the same numbers as one by one, the same refusals, and nothing shared that is their own."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import njit
from tests.engine.test_team import ENTRY, OWNED, PROBLEM, K, Lent, Plain, WithStream, drawn

from weakfeedback import InterpretedWarning, simulate
from weakfeedback.engine import copies, stream, team
from weakfeedback.engine.cast import Columns, broken
from weakfeedback.engine.chunk import Compiled, Interpreted
from weakfeedback.engine.copies import Copies
from weakfeedback.engine.lowering import Blueprint
from weakfeedback.engine.seeds import POLICY, generator, states_of_players
from weakfeedback.engine.team import Generators, Seeded
from weakfeedback.multiplayer import MultiplayerProblem

SEED = 5


class Odd(Plain):
    """Arrays that need care: two names of one, no elements, another order in memory; flags between the numbers."""

    def __init__(self):
        super().__init__()
        self.same = self.sums
        self.none = np.zeros((0, 3))
        self.turned = np.arange(6.0).reshape(2, 3).T
        self.flag = True
        self.other_flag = False
        self.shifted = np.arange(12)[3::2]
        self.level = 0.25
        self.grid = np.asfortranarray(np.arange(6).reshape(2, 3) + 0.5)
        self.grid.setflags(write=False)
        self.count = np.int64(3)
        self.odd = np.zeros(3, dtype=np.int8)
        self.last_flag = False

    def more(self, arm, reward):
        self.same[arm] += 0.5  # so sums[arm] is more too
        self.turned[arm % 3, 1] += self.grid[1, arm % 3]
        self.shifted[arm % 5] += 1
        self.level += 0.125 * reward
        self.other_flag = not self.flag
        self.flag = arm > 1
        self.last_flag = self.shifted[4] > 20
        self.count += 1 + self.none.shape[1]
        self.odd[arm % 3] = arm


def game(player, policy, enlisted, rounds=300, problem=PROBLEM):
    """All counts of a game, and the players' fields after it."""
    arms = problem.arms
    marks = np.arange(1, rounds + 1)
    counts = np.zeros(4 + 2 * arms, dtype=np.int64)
    table = np.zeros((rounds, counts.size), dtype=np.int64)
    refused, state = player.play(enlisted[0], problem.world(), *enlisted[1:], marks, counts, table)
    assert refused == 0
    state = state.joined() if isinstance(state, Columns) else state
    return table.tolist(), {name: np.asarray(value).tolist() for name, value in state.items()}


def both(policy, replication=0, problem=PROBLEM):
    """The game of compiled copies, and that of objects."""
    compiled, objects = Compiled(problem, policy), Interpreted(problem)
    copied = compiled.enlist(problem, policy, SEED, replication)
    assert isinstance(copied[0], Copies)
    listed = objects.enlist(problem, policy, SEED, replication)
    return game(compiled, policy, copied, problem=problem), game(objects, policy, listed, problem=problem)


@pytest.mark.parametrize("kind", [Plain, Lent, Odd])
@pytest.mark.parametrize("replication", [0, 7])
def test_copies_play_as_objects_do_in_the_interpreter(kind, replication):
    ours, expected = both(kind(), replication)
    assert ours == expected
    assert list(ours[1]) == list(expected[1])  # in their order


@pytest.mark.parametrize("players", [2, 4])
def test_so_many_copies(players):
    problem = MultiplayerProblem([0.9, 0.7, 0.4, 0.2], players)
    ours, expected = both(Plain(), problem=problem)
    assert ours == expected


def test_the_prototype_is_left_as_it_was():
    policy, untouched = Odd(), Odd()
    both(policy)
    for name, value in vars(untouched).items():
        assert np.array_equal(getattr(policy, name), value)


def test_copies_start_with_the_state_of_the_prototype():
    policy = Odd()
    policy.sums[2] = 7.0
    policy.turned[2, 1] = -1.0
    policy.t, policy.flag, policy.level = 9, False, 0.75
    ours, expected = both(policy)
    assert ours == expected


def test_each_has_arrays_of_her_own_and_all_share_what_cannot_be_written():
    policy = Odd()
    made = Compiled(PROBLEM, policy).enlist(PROBLEM, policy, SEED, 0)[0]
    state = made.state()
    assert np.shares_memory(state["sums"], state["same"])
    assert np.shares_memory(state["grid"], policy.grid)
    for name in ("sums", "pairs", "seen", "small", "turned", "shifted"):
        assert not np.shares_memory(state[name], getattr(policy, name))
        assert not np.shares_memory(state[name][0], state[name][1])


class WritesWhatAllShare(Plain):
    """Writes where she must not, and would tell the others how often she was paid."""

    def __init__(self, turned):
        super().__init__()
        self.grid = np.zeros((2, 3)).T if turned else np.zeros((3, 2))
        self.grid.setflags(write=False)

    def more(self, arm, reward):
        self.grid[arm % 3, 0] += reward


@pytest.mark.parametrize("turned", [False, True])  # what is turned is copied into the order of compiled code
def test_what_all_share_cannot_be_written_whatever_its_order(turned):
    policies = {"a": WritesWhatAllShare(turned)}
    with pytest.raises(ValueError, match="read-only"):
        simulate(PROBLEM, policies, 50, 1, compiled=False)
    with (
        pytest.warns(
            InterpretedWarning, match=r"more\(\) line \d+: writes to an array that is only to be read"
        ),
        pytest.raises(ValueError, match="read-only"),
    ):
        simulate(PROBLEM, policies, 50, 1)


def test_nothing_is_leaked_and_nothing_is_freed_twice(balance):
    policy = Odd()
    player = Compiled(PROBLEM, policy)
    game(player, policy, player.enlist(PROBLEM, policy, SEED, 0))
    before = balance()
    for replication in range(5):
        game(player, policy, player.enlist(PROBLEM, policy, SEED, replication), rounds=1000)
    assert balance() == before


@pytest.mark.parametrize("kind", [*OWNED, WithStream])
def test_others_are_made_one_by_one(kind):
    assert isinstance(Compiled(PROBLEM, kind()).enlist(PROBLEM, kind(), SEED, 0)[0], list)


def test_one_player_is_made_by_herself():
    problem = MultiplayerProblem([0.9, 0.7, 0.4, 0.2], 1)
    assert isinstance(Compiled(problem, Plain()).enlist(problem, Plain(), SEED, 0)[0], list)


def test_fields_of_another_kind_are_refused():
    changed = Plain()
    changed.t = 0.5
    with pytest.raises(TypeError, match="fields of other kinds"):
        Compiled(PROBLEM, Plain()).enlist(PROBLEM, changed, SEED, 0)


class Printing(Plain):
    """Shows an array of her own, and one that all share."""

    def more(self, arm, reward):
        if self.t == 5:
            print(self.pairs, self.weights)


def test_each_prints_her_own_arrays(capfd):
    policy, told = Printing(), []
    for player in (Compiled(PROBLEM, policy), Interpreted(PROBLEM)):
        game(player, policy, player.enlist(PROBLEM, policy, SEED, 0), rounds=5)
        told.append(capfd.readouterr().out.split())
    assert told[0] == told[1]
    assert len(told[0]) > 3 * 2 * K


class TurnsNan(Plain):
    """The first player to play the last arm gets a NaN in a number and in an array; others later."""

    def __init__(self, number, array):
        super().__init__()
        self.first = np.zeros((2, 2))
        self.x = 1.0
        self.zero = 0.0
        self.limits = np.full(2, np.inf)
        self.limits.setflags(write=False)
        self.number, self.array = bool(number), bool(array)

    def more(self, arm, reward):
        if self.t > 4 and arm == K - 1:
            if self.number:
                self.x = self.zero * self.limits[0]
            if self.array:
                self.first[1, 1] = self.zero * self.limits[1]


@pytest.mark.parametrize(("number", "array"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("horizon", [5, 8, 50])
def test_nan_is_refused_in_the_same_words_however_players_are_made(number, array, horizon, monkeypatch):
    def told():
        try:
            simulate(PROBLEM, {"a": TurnsNan(number, array)}, horizon, 12)
        except ValueError as error:
            return str(error)
        return None

    at_once = told()
    monkeypatch.setattr(copies, "mould_for", lambda *_: None)
    assert at_once == told()
    assert at_once is not None
    assert at_once.startswith(f"the field '{'first' if array else 'x'} of player ")


def test_nan_of_the_first_player_is_named_before_that_of_the_first_field():
    state = Columns(2, {"a": np.array([1.0, np.nan]), "b": np.array([[0.0, np.nan], [0.0, 0.0]])})
    assert broken(state) == "b of player 0"
    assert broken(Columns(2, {"a": np.array([1.0, np.nan])})) == "a of player 1"
    assert broken(Columns(2, {"a": np.ones(2), "n": np.arange(2)})) is None


@given(st.integers(0, 2**200), st.integers(0, 2**70), st.integers(1, 9))
@example(2**32 - 1, 2**32, 3)
@example(2**128 - 1, 0, 2)
@example(2**128, 2**64, 2)
def test_states_of_players_are_those_of_their_generators(seed, replication, players):
    states = states_of_players(seed, replication, players)
    for n in range(players):
        expected = generator(seed, replication, POLICY, n).bit_generator.state["state"]
        words = [int.from_bytes(states[32 * n + k : 32 * n + k + 16], "little") for k in (0, 16)]
        assert words == [expected["state"], expected["inc"]]
    assert len(states) == 32 * players


def halves(rngs, numbers):
    """Draws of half a word, of which any will do: NumPy keeps the other half for the next one."""
    for k in range(numbers.shape[0]):
        for n in range(len(rngs)):
            numbers[k, n] = rngs[n].integers(0, 1024, 1, np.uint32)[0]


def by_numpy(rngs, numbers):
    """Draws that are left to NumPy's own functions."""
    for k in range(numbers.shape[0]):
        for n in range(len(rngs)):
            numbers[k, n] = rngs[n].beta(2.0, 3.0, 1)[0] + rngs[n].gamma(2.0, 3.0)


def test_seeded_generators_draw_as_those_of_numpy():
    if not (stream.KNOWN and team.seeds_known()):
        pytest.skip("NumPy keeps its generators in another way here")
    numpys = [generator(3, 4, POLICY, n) for n in range(5)]
    ours = Seeded(states_of_players(3, 4, 5))
    for loop in (halves, drawn, by_numpy, halves):  # on from where the last one stopped
        numbers, expected = np.zeros((21, 15)), np.zeros((21, 15))
        njit(loop)(ours, numbers)
        loop(numpys, expected)
        assert numbers.tolist() == expected.tolist()


def test_other_starts_and_other_places_are_noticed(monkeypatch):
    believed = team.seeds_known.__wrapped__
    assert believed() == team.seeds_known()
    states = states_of_players(2**70, 2**40, 2)
    monkeypatch.setattr(team, "states_of_players", lambda *_: states[:-1] + b"\0")
    assert not believed()


@pytest.mark.parametrize("what", ["seeds", "state"])
def test_where_numpy_is_another_its_own_generators_are_taken(what, monkeypatch):
    expected = both(Plain())[1]
    if what == "seeds":
        monkeypatch.setattr(copies, "seeds_known", lambda: False)
    else:
        monkeypatch.setattr(stream, "KNOWN", False)
    player = Compiled(PROBLEM, Plain())
    enlisted = player.enlist(PROBLEM, Plain(), SEED, 0)
    assert isinstance(enlisted[0], Copies)
    assert type(enlisted[2]) is Generators
    assert game(player, Plain(), enlisted) == expected


def test_the_layout_is_that_of_the_compiler():
    """Every number is found where a struct has it."""
    policy = Odd()
    blueprint = Blueprint(policy, ENTRY)
    mould = copies.mould_for(blueprint, team.Team(blueprint, [policy]), Generators([generator(0, 0, 1)]))
    assert mould is not None
    state = Copies(mould, policy, 2).state()
    assert {name: column[1].tolist() for name, column in state.items()} == {
        name: np.asarray(value).tolist() for name, value in vars(policy).items()
    }
