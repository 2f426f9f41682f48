"""The round loop of several players: what is counted, what is told, what is compiled."""

import copy

import numpy as np
import pytest
from tests.multiplayer.arena import Arena

from weakfeedback import simulate
from weakfeedback.engine.replication import Compiled, Interpreted, cast, streams
from weakfeedback.engine.seeds import generator
from weakfeedback.multiplayer import Dlc, DlcLix, MultiplayerProblem, MusicalChairs, SicMmab
from weakfeedback.multiplayer.play import play

MEANS = [0.9, 0.3, 0.8, 0.5, 0.7, 0.1]


class Scripted:
    """Plays given arms, then stays on the last; settles when it says so."""

    def __init__(self, arms, settles_after=10**9):
        self.plan = np.array(arms)
        self.settles_after = settles_after
        self.t = 0
        self.arm = -1
        self.settled = False

    def choose(self, rng):
        return self.plan[min(self.t, self.plan.size - 1)]

    def observe(self, arm, reward, collided, rng):
        self.t += 1
        self.arm = int(self.plan[min(self.t, self.plan.size - 1)])
        self.settled = self.t >= self.settles_after


def counts_of(problem, players, rounds, marks=None):
    counts = np.zeros(4 + 2 * problem.arms, dtype=np.int64)
    marks = np.array([rounds] if marks is None else marks)
    table = np.zeros((marks.size, counts.size), dtype=np.int64)
    rngs = [generator(0, 0, 1, n) for n in range(len(players))]
    refused = play(players, problem.world(), generator(0, 0, 0), rngs, marks, counts, table)
    return refused, table


def test_collisions_count_once_per_player_and_idling_never_collides():
    problem = MultiplayerProblem([0.5, 0.5, 0.5], 3, shuffle=False)
    players = [Scripted([0, 1, -1, 2]), Scripted([0, 1, -1, 0]), Scripted([0, 2, 1, 1])]
    _, table = counts_of(problem, players, 4, [1, 2, 3, 4])
    # slot 1: three on arm 0; slot 2: two on arm 1, one on arm 2; slot 3: two idle, one on arm 1; slot 4: all alone
    assert table[:, 1].tolist() == [3, 5, 5, 5]
    assert table[:, 4:7].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 2, 2]]


def test_counts_are_by_true_arm():
    problem = MultiplayerProblem([0.1, 0.2, 0.3, 0.4], 1)
    world = problem.world()
    world.begin(generator(0, 0, 0))
    _, table = counts_of(problem, [Scripted([2, 2, 0], settles_after=3)], 3)
    expected = [0, 0, 0, 0]
    expected[world.order[2]] += 2
    expected[world.order[0]] += 1
    assert world.order.tolist() != [0, 1, 2, 3]  # or this test shows nothing
    assert table[0, 4:8].tolist() == expected
    assert table[0, 8:].tolist() == [int(k == world.order[0]) for k in range(4)]


def test_players_are_told_scalars_about_themselves():
    problem = MultiplayerProblem([1.0, 1.0, 1.0], 3, shuffle=False)
    told = []

    class Curious(Scripted):
        def observe(self, arm, reward, collided, rng):
            told.append((arm, reward, collided))
            super().observe(arm, reward, collided, rng)

    counts_of(problem, [Curious([0]), Curious([0]), Curious([-1, 1])], 2)
    collided = (0, 0.0, True)
    assert told == [collided, collided, (-1, 0.0, False), collided, collided, (1, 1.0, False)]
    # plain numbers: nothing to follow to where they came from, as a view of an array would allow
    assert {tuple(map(type, row)) for row in told} == {(int, float, bool)}


@pytest.mark.parametrize(
    "prototype",
    [
        Dlc(6, 0.6, 0.1, seating_rounds=30),
        Dlc(6, 0.6, 0.1, seating_rounds=30, fair=True, alarm=True),
        DlcLix(6, 0.6, 0.1, seating_rounds=30),
        MusicalChairs(6, 300),
        SicMmab(6, 30),
    ],
    ids=["dlc", "dlc-fair", "dlc-lix", "chairs", "sic"],
)
def test_a_player_depends_on_nothing_but_her_own_observations(prototype):
    """Replay each player alone, from what it was told: it decides the same, and ends in the compiled state."""
    problem = MultiplayerProblem(MEANS, 4)
    world = problem.world()
    world_rng, rngs = streams(problem, prototype, 3, 0)
    world.begin(world_rng)

    def rewards(_):
        row = np.empty(problem.arms)
        world.draw(row, world_rng)
        return row

    arena = Arena([copy.deepcopy(prototype) for _ in range(4)], rewards, rngs).play(1500)
    # the compiled run leaves out rounds after all have settled, and with them the players' clocks
    rounds = max(arena.settled_at) if all(arena.settled_at) else 1500
    counts = np.zeros(4 + 2 * problem.arms, dtype=np.int64)
    table = np.zeros((1, counts.size), dtype=np.int64)
    _, state = Compiled(problem, prototype).play(
        cast(problem, prototype),
        problem.world(),
        *streams(problem, prototype, 3, 0),
        np.array([rounds]),
        counts,
        table,
    )
    for n in range(4):
        player, rng = copy.deepcopy(prototype), generator(3, 0, 1, n)
        for t in range(rounds):
            assert player.choose(rng) == arena.arms[t][n]
            player.observe(arena.arms[t][n], arena.earned[t][n], arena.hits[t][n], rng)
        for name, value in vars(player).items():
            assert np.array_equal(value, state[f"{name} of player {n}"]), name
    assert counts[1] == arena.collisions(1, rounds)


def test_an_arm_that_does_not_exist_is_refused():
    problem = MultiplayerProblem([0.5, 0.5], 1, shuffle=False)
    assert counts_of(problem, [Scripted([0, 1, 2])], 5)[0] == 3
    assert counts_of(problem, [Scripted([0, -2])], 5)[0] == 2
    wild = MusicalChairs(2, 10)
    wild.settled, wild.arm = True, 7
    with pytest.raises(
        ValueError, match="round 1 of replication 0: it must be an arm from 0 to 1, or -1 to idle"
    ):
        simulate(problem, {"wild": wild}, horizon=5, replications=1)


def test_a_policy_of_another_setting_is_refused():
    with pytest.raises(ValueError, match="Dlc was made for 4 arms, the problem has 3"):
        simulate(MultiplayerProblem([0.5, 0.4, 0.3], 1), {"d": Dlc(4, 0.1, 0.1)}, horizon=5, replications=1)

    class Fieldless:
        def choose(self, rng):
            return 0

        def observe(self, arm, reward, collided, rng):
            pass

    with pytest.raises(ValueError, match=r"Fieldless must have the fields settled \(a bool\) and arm"):
        simulate(MultiplayerProblem([0.5, 0.4], 1), {"d": Fieldless()}, horizon=5, replications=1)


@pytest.mark.parametrize("compiled", [True, False])
def test_rounds_after_settling_are_counted_as_if_played(compiled):
    """Marks at every round forbid nothing, but round-by-round calls play every round."""
    problem = MultiplayerProblem(MEANS, 3)
    prototype = Dlc(6, 0.9, 0.2, seating_rounds=20)
    player = Compiled(problem, prototype) if compiled else Interpreted(problem)
    tables = []
    for calls in (1, 900):
        counts = np.zeros(4 + 2 * problem.arms, dtype=np.int64)
        players, world = cast(problem, prototype), problem.world()
        generators = streams(problem, prototype, 8, 0)
        rows = []
        for part in np.array_split(np.arange(1, 901), calls):
            table = np.zeros((part.size, counts.size), dtype=np.int64)
            _, state = player.play(players, world, *generators, part, counts, table)
            for n, one in enumerate(players):
                vars(one).update({name: state[f"{name} of player {n}"] for name in vars(one)})
            rows.append(table)
        tables.append(np.concatenate(rows))
    assert tables[0][-1, 2] == 3  # all have settled long before the end
    assert tables[0][-1, 3] < 800
    assert np.array_equal(*tables)


def test_players_who_settle_on_one_arm_collide_for_ever():
    problem = MultiplayerProblem([0.5, 0.5], 2, shuffle=False)
    _, table = counts_of(problem, [Scripted([1], 2), Scripted([0, 1], 2)], 1000)
    assert table[0].tolist() == [1000, 2 * 999, 2, 2, 1, 1, 0, 2]


def test_a_settled_player_who_moves_keeps_the_loop_playing():
    problem = MultiplayerProblem([0.5, 0.5], 1, shuffle=False)
    _, table = counts_of(problem, [Scripted([0, 1] * 500, settles_after=1)], 1000)
    assert table[0, 4:6].tolist() == [500, 500]


def test_one_compilation_serves_every_number_of_players():
    prototype = Dlc(50, 0.9, 0.2, seating_rounds=40)
    for n in (1, 3, 6, 50):
        problem = MultiplayerProblem(np.linspace(0.9, 0.1, 50), n)
        results = [
            simulate(problem, {"DLC": prototype}, 300, replications=2, marks=7, compiled=compiled)
            for compiled in (True, False)
        ]
        assert results[0].compiled["DLC"] is True
        assert results[0].frame.equals(results[1].frame)
        assert len(Compiled(problem, prototype).loop.signatures) == 1


@pytest.mark.parametrize(
    "prototype",
    [
        Dlc(6, 0.3, 0.1),
        Dlc(6, 0.3, 0.1, served="keep", tolerance="eps"),
        Dlc(6, 0.3, 0.1, fair=True, alarm=True, seating_rounds=5),
        DlcLix(6, 0.3, 0.1),
        DlcLix(6, 0.3, 0.1, transfer="eps/2", tolerance="eps", alarm=True, seating_rounds=5),
        MusicalChairs(6, 500),
        SicMmab(6, 5000),
    ],
    ids=["dlc", "dlc-keep", "dlc-fair", "dlc-lix", "dlc-lix-eps/2", "chairs", "sic"],
)
def test_compiled_equals_interpreted(prototype):
    for n, law in ((1, "bernoulli"), (2, "uniform"), (5, "beta"), (6, "bernoulli")):
        problem = MultiplayerProblem(MEANS, n, rewards=law)
        frames = [
            simulate(problem, {"p": prototype}, 3000, replications=2, marks=20, compiled=compiled).frame
            for compiled in (True, False)
        ]
        assert frames[0].equals(frames[1])


def test_every_player_has_a_generator_of_her_own():
    """Two players who shared a stream would choose the same arms for ever."""
    problem = MultiplayerProblem([0.5] * 4, 2)
    world, rngs = streams(problem, MusicalChairs(4, 10), 5, 7)
    expected = [np.random.SeedSequence(5, spawn_key=key) for key in ((7, 0), (7, 1, 0), (7, 1, 1))]
    drawn = [rng.random() for rng in (world, *rngs)]
    assert drawn == [np.random.Generator(np.random.PCG64(sequence)).random() for sequence in expected]


def test_all_policies_meet_the_same_world():
    """The order of the arms and the rewards do not depend on what is played."""
    problem = MultiplayerProblem(MEANS, 1)
    uses = []
    for arm in (0, 3):
        results = simulate(problem, {"s": Scripted([arm])}, 50, replications=40, marks=1, compiled=False)
        uses.append(results.values("s")[:, -1])
    order = [problem.world() for _ in range(40)]
    for r, world in enumerate(order):
        world.begin(generator(0, r, 0))
        for regrets, arm in zip(uses, (0, 3)):
            assert regrets[r] == pytest.approx(50 * (0.9 - MEANS[world.order[arm]]))
