"""Players whom compiled rounds borrow, and players who own what they replace: the same numbers, and no leak."""

import pickle

import numpy as np
import pytest
from numba import njit

from weakfeedback import InterpretedWarning, simulate
from weakfeedback.engine.compiler import team
from weakfeedback.engine.compiler._numba import borrowed, teams
from weakfeedback.engine.compiler._numba.borrowed import Borrowed
from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.engine.compiler.lowering import Blueprint
from weakfeedback.engine.replication import Compiled, Interpreted, cast, streams
from weakfeedback.multiplayer import Dlc, DlcLix, MultiplayerProblem, MusicalChairs, SicMmab

K = 4
PROBLEM = MultiplayerProblem([0.9, 0.7, 0.4, 0.2], 3)
ENTRY = ("choose", "observe")


class Light:
    """An array, of which only elements change; never settles."""

    def __init__(self):
        self.sums = np.zeros(K)
        self.t = 0
        self.arm = 0
        self.settled = False

    def choose(self, rng):
        return int(K * rng.random())

    def observe(self, arm, reward, collided, rng):
        self.t += 1
        self.sums[arm] += reward
        self.arm = arm
        self.more(arm, reward)

    def more(self, arm, reward):
        pass


class Plain(Light):
    """Arrays of several kinds, of which only elements change."""

    def __init__(self):
        super().__init__()
        self.pairs = np.zeros((K, 2), dtype=np.int64)
        self.seen = np.zeros(K, dtype=np.bool_)
        self.small = np.zeros(K, dtype=np.int8)
        self.weights = np.linspace(1.0, 2.0, K)
        self.weights.setflags(write=False)

    def observe(self, arm, reward, collided, rng):
        self.t += 1
        self.sums[arm] += self.weights[arm] * reward
        self.pairs[arm, int(collided)] += 1
        self.seen[arm] = True
        self.small[arm] = 1
        self.arm = arm
        self.more(arm, reward)


def lighten(player, arm):
    """A helper that is given the player itself."""
    player.sums[arm] *= 0.5
    player.t += 1


def first_half(numbers):
    return numbers[: numbers.size // 2]


class Lent(Plain):
    """Hands itself, its arrays and parts of them around, inside a round; has a generator among its fields."""

    def __init__(self):
        super().__init__()
        self.own = np.random.default_rng(3)

    def more(self, arm, reward):
        self.sums[arm] += self.own.random()
        lighten(self, arm)
        table = self.table()
        table[arm] += 1.0
        kept = [table, table.copy()]
        kept.append(first_half(self.sums))
        kept[2][0] += 0.25
        local = self.sums
        if self.t % 3 == 0:
            local = np.ones(K)
        local[0] += 1.0
        self.sums[1] += float(len(kept)) + kept[1][0] / (1.0 + kept[0][0])

    def table(self):
        return self.sums


def renew(player, arm):
    player.sums = np.full(K, float(arm))


def renew_later(player, arm):
    renew(player, arm)


class Replacing(Light):
    """Makes a new array in every round, and reads the old one afterwards; sometimes another one does it."""

    def more(self, arm, reward):
        old = self.sums
        self.sums = np.zeros(K)
        for k in range(K):
            self.sums[k] = 0.5 * old[k]
        old[0] = -1.0
        self.sums[arm] += reward + old[1]
        self.sums += reward  # puts the array into the place of itself
        if self.t % 2 == 0:
            renew_later(self, arm)  # a helper of a helper


class Swapping(Light):
    """Two fields change places; they become the same array in some rounds, and two again in others."""

    def __init__(self):
        super().__init__()
        self.other = np.ones(K)

    def more(self, arm, reward):
        self.sums, self.other = self.other, self.sums
        self.other[arm] += 1.0
        if self.t % 5 == 0:
            self.other = self.sums
        elif self.t % 5 == 2:
            self.other = np.full(K, reward)
        self.other[arm] += 1.0


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


BORROWED = (Lent, Odd)
OWNED = (Replacing, Swapping)


def outcome(player, policy, rounds, replication=0):
    """All counts of a game, and the players' fields after it."""
    marks = np.arange(1, rounds + 1)
    counts = np.zeros(4 + 2 * K, dtype=np.int64)
    table = np.zeros((rounds, counts.size), dtype=np.int64)
    players = cast(PROBLEM, policy)
    generators = streams(PROBLEM, policy, 5, replication)
    refused, state = player.play(players, PROBLEM.world(), *generators, marks, counts, table)
    assert refused == 0
    state = {name: value for name, value in state.items() if not isinstance(value, np.random.Generator)}
    return table.tolist(), {name: np.asarray(value).tolist() for name, value in state.items()}


@pytest.mark.parametrize("kind", BORROWED + OWNED)
def test_compiled_players_play_as_they_do_in_the_interpreter(kind):
    # the fields too: an array that was freed too early would hold other numbers in some round
    assert outcome(Compiled(PROBLEM, kind()), kind(), 300) == outcome(Interpreted(PROBLEM), kind(), 300)


def test_players_start_with_the_state_of_the_prototype_and_leave_it_as_it_was():
    policy = Odd()
    policy.sums[2] = 7.0
    policy.turned[2, 1] = -1.0
    policy.t, policy.flag, policy.level = 9, False, 0.75
    before = {name: np.array(value) for name, value in vars(policy).items()}
    compiled = outcome(Compiled(PROBLEM, policy), policy, 300)
    assert compiled == outcome(Interpreted(PROBLEM), policy, 300)
    assert all(np.array_equal(before[name], value) for name, value in vars(policy).items())


class WritesWhatAllShare(Light):
    """Writes where it must not, and would tell the others how often it was paid."""

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


class TurnsNan(Light):
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
def test_nan_of_a_player_is_refused_with_the_first_field_of_the_first_player(number, array):
    name = "first" if array else "x"
    with pytest.raises(
        ValueError, match=rf"^the field '{name} of player [012]' of 'a' became NaN in replication 0"
    ):
        simulate(PROBLEM, {"a": TurnsNan(number, array)}, 50, 12)


@pytest.mark.parametrize("kind", BORROWED + OWNED)
def test_only_players_who_keep_their_arrays_are_borrowed(kind):
    made = team.Team(Blueprint(kind(), ENTRY), [kind(), kind()])
    assert isinstance(made.item, Borrowed) == (kind in BORROWED)


@pytest.mark.parametrize("kind", [Dlc, DlcLix, MusicalChairs, SicMmab])
def test_the_players_of_the_thesis_are_borrowed(kind):
    words = {Dlc: (0.1, 0.1), DlcLix: (0.1, 0.1), MusicalChairs: (50,), SicMmab: (1000,)}
    player = kind(K, *words[kind])
    assert isinstance(team.Team(Blueprint(player, ENTRY), [player]).item, Borrowed)


@pytest.mark.parametrize("kind", BORROWED + OWNED)
def test_nothing_is_leaked_and_nothing_is_freed_twice(kind, balance):
    player = Compiled(PROBLEM, kind())
    outcome(player, kind(), 10)
    before = balance()
    for replication in range(5):
        outcome(player, kind(), 2000, replication)
    assert balance() == before


def test_the_balance_can_tell(balance):
    blueprint = Blueprint(Lent(), ENTRY)
    before = balance()
    kept = blueprint.build(Lent())
    assert balance() > before
    del kept
    assert balance() == before


def test_state_that_was_read_outlives_the_players(balance):
    player = Compiled(PROBLEM, Lent())
    before = balance()
    generators = streams(PROBLEM, Lent(), 5, 0)
    counts, table = np.zeros(4 + 2 * K, dtype=np.int64), np.zeros((1, 4 + 2 * K), dtype=np.int64)
    _, state = player.play(cast(PROBLEM, Lent()), PROBLEM.world(), *generators, np.array([50]), counts, table)
    copies = {name: np.array(value) for name, value in state.items()}
    del generators
    for _ in range(20):  # what was freed would be used again
        outcome(player, Lent(), 10)
    assert all(np.array_equal(copies[name], value) for name, value in state.items())
    del state
    assert balance() == before


def test_a_borrowed_array_is_never_stored(monkeypatch):
    """If the search for assignments overlooked one, the compiler would refuse it."""
    monkeypatch.setattr(borrowed, "can_be_borrowed", lambda *_: True)

    class Overlooked(Replacing):
        pass

    with pytest.raises(CannotLower, match="'sums' of a borrowed struct cannot be replaced"):
        Compiled(PROBLEM, Overlooked())


def test_assignments_are_found_wherever_they_hide():
    def inside(self):
        def inner(player):
            player.sums = np.zeros(K)

        inner(self)

    def new(self):
        self.sums = np.zeros(K)

    def swapped(self):
        self.t, self.sums = 1, self.sums

    def added(self, reward):
        self.sums += reward

    def one_name_more(self):
        if self.t % 3 == 0:
            self.weights = self.sums

    struct = Blueprint(Lent(), ENTRY)._type
    for replacing in (inside, renew_later, new, swapped, added, one_name_more):
        assert borrowed._replaces(struct, [lighten, replacing])
    assert not borrowed._replaces(struct, [lighten, first_half])


def test_the_kind_of_a_field_is_kept():
    class Changing(Light):
        def more(self, arm, reward):
            self.t = 0.5 * reward

    with pytest.raises(CannotLower, match="the field 't' starts as an int and is assigned a float"):
        Compiled(PROBLEM, Changing())


class Loud(Light):
    """Shows an array of its own, and one that all share; and stops."""

    def __init__(self):
        super().__init__()
        self.pairs = np.zeros((K, 2), dtype=np.int64)
        self.weights = np.linspace(1.0, 2.0, K)
        self.weights.setflags(write=False)

    def more(self, arm, reward):
        self.pairs[arm, int(reward)] += 1
        if self.t == 5:
            print("pairs", self.pairs, "weights", self.weights)
        if self.t == 6:
            raise ValueError("stopped in round", self.t)


def test_borrowed_players_print_their_own_arrays_and_raise(capfd):
    said = []
    for player in (Compiled(PROBLEM, Loud()), Interpreted(PROBLEM)):
        with pytest.raises(ValueError) as told:
            outcome(player, Loud(), 10)
        assert told.value.args == ("stopped in round", 6)
        said.append(capfd.readouterr().out.split())
    assert said[0] == said[1]
    assert len(said[0]) > 3 * 2 * K
    assert said[0].count("weights") == 3


def test_types_of_teams_survive_the_index_of_the_disk_cache():
    made = team.Team(Blueprint(Lent(), ENTRY), [Lent()])
    kind = teams.TeamType(made.item)
    assert pickle.loads(pickle.dumps(kind)) == kind
    assert isinstance(kind.item, Borrowed)
    # another process may not have the class: the type stands for itself, and equals no other
    struct = kind.item.struct
    name, digest, fields = struct.__reduce__()[1]
    absent = struct.__reduce__()[0](name, digest[::-1], fields)
    assert borrowed.borrowed(absent) is absent


def drawn(rngs, numbers):
    for t in range(numbers.shape[0]):
        for n in range(len(rngs)):
            numbers[t, 3 * n] = rngs[n].random()
            numbers[t, 3 * n + 1] = rngs[n].standard_normal()
            numbers[t, 3 * n + 2] = rngs[n].integers(0, 100)


DRAWN = njit(drawn)  # for generators of any kind


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.SFC64])
def test_a_team_of_generators_draws_as_numpy_and_leaves_off_where_numpy_goes_on(bits, balance):
    ours = [np.random.Generator(bits(seed)) for seed in range(4)]
    numpys = [np.random.Generator(bits(seed)) for seed in range(4)]
    compiled, expected = np.zeros((20, 12)), np.zeros((20, 12))
    DRAWN(team.Generators(ours), compiled)
    drawn(numpys, expected)
    assert compiled.tolist() == expected.tolist()
    assert [rng.random() for rng in ours] == [rng.random() for rng in numpys]
    before = balance()
    for _ in range(10):
        DRAWN(team.Generators(ours), compiled)
    assert balance() == before


def test_a_team_has_generators_of_one_kind():
    mixed = [np.random.Generator(np.random.PCG64(1)), np.random.Generator(np.random.MT19937(1))]
    with pytest.raises(TypeError, match="of one kind, not 2"):
        team.Generators(mixed)
