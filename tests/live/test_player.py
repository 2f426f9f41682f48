"""The live player: slots, misuse, threads, saved states, and the same choices as in a simulation."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.live import inside
from tests.rig.refusals import refusals
from tests.rig.threads import in_threads

from weakfeedback import simulate
from weakfeedback.engine.seeds import generator
from weakfeedback.live import Player, UnknownDecision, WrongSlot, storage
from weakfeedback.multiplayer import Dlc, DlcLix, MultiplayerProblem
from weakfeedback.settings.catalog import make_policy, policy_class

MEANS = [0.9, 0.3, 0.7, 0.1, 0.5]
FAST = {"epsilon": 0.3, "delta": 0.1, "seating_rounds": 40}
CASES = [
    ("DLC-LIX", FAST),
    ("DLC", FAST),
    ("DLC", {**FAST, "fair": True}),
    ("Musical-Chairs", {"learning_rounds": 200}),
    ("SIC-MMAB", {"horizon": 1000}),
]
IDS = ["-".join([name, *(["fair"] if "fair" in options else [])]) for name, options in CASES]


def snapshot(player):
    return json.dumps(player.state(), sort_keys=True)


def stub(arm=1, settled=False):
    """A policy of known choices."""

    class Known:
        def __init__(self):
            self.arm = arm
            self.settled = settled
            self.heard = 0

        def choose(self, rng):
            return self.arm

        def observe(self, arm, reward, collided, rng):
            self.heard += 1

    return Known()


def meet(players, rewards, slot=None):
    """One slot of several players; return who played what."""
    arms = [player.choose() for player in players]
    for player, arm in zip(players, arms):
        collided = arm >= 0 and arms.count(arm) > 1
        player.observe(0.0 if arm < 0 or collided else float(rewards[arm]), collided, slot=slot)
    return arms


# -- the same as elsewhere


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_chooses_and_learns_as_the_bare_policy(name, options):
    alarm = {"alarm": True} if name.startswith("DLC") else {}
    player = Player(5, name, seed=3, **options)
    policy = make_policy("multiplayer", name, 5, **options, **alarm)
    rng, world = np.random.Generator(np.random.PCG64(3)), np.random.default_rng(0)
    for slot in range(600):
        arm = policy.choose(rng)
        assert (player.choose(), player.slot) == (arm, slot)
        collided = bool(world.random() < 0.3) and arm >= 0
        reward = float(world.random()) if arm >= 0 and not collided else 0.0
        policy.observe(arm, reward, collided, rng)
        player.observe(reward, collided)
        assert (player.settled, player.arm) == (policy.settled, policy.arm)
    assert storage.encode_fields(player.policy) == storage.encode_fields(policy)


CHOICES = []  # of all players of a simulation, in the order in which they chose


def recorded(kind):
    class Recorded(kind):
        def choose(self, rng):
            arm = super().choose(rng)
            CHOICES.append(arm)
            return arm

    return Recorded


@pytest.mark.parametrize("players", [1, 3, 5])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_players_choose_slot_by_slot_as_in_a_simulation(name, options, players):
    problem = MultiplayerProblem(MEANS, players)
    alarm = {"alarm": True} if name.startswith("DLC") else {}
    CHOICES.clear()
    prototype = recorded(policy_class("multiplayer", name))(5, **options, **alarm)
    simulate(problem, {"x": prototype}, horizon=1500, replications=1, seed=8, marks=1, compiled=False)
    slots = len(CHOICES) // players  # once all have settled, the simulation counts without playing
    assert slots > 50
    live = [
        Player(5, name, seed=np.random.SeedSequence(8, spawn_key=(0, 1, n)), **options)
        for n in range(players)
    ]
    world, rng, rewards = problem.world(), generator(8, 0, 0), np.empty(5)
    world.begin(rng)
    for slot in range(slots):
        world.draw(rewards, rng)
        assert meet(live, rewards, slot) == CHOICES[slot * players : (slot + 1) * players]


def test_players_end_on_the_best_arms_each_on_her_own():
    players = [Player(5, "DLC-LIX", seed=n, **FAST) for n in range(3)]
    rng = np.random.default_rng(0)
    while not all(player.settled for player in players):
        meet(players, (rng.random(5) < MEANS).astype(float))
        assert players[0].slot < 20_000
    # epsilon = .3: the total may fall short by so much, which leaves {0, 2, 4} and, of sum .3 less, {0, 1, 2}.
    seats = {player.arm for player in players}
    assert len(seats) == 3
    assert sum(MEANS[arm] for arm in seats) >= 0.9 + 0.7 + 0.5 - 0.3 - 1e-9


# -- defaults


def test_live_players_have_the_alarm_on_and_defaults_that_fit():
    player = Player(4, "DLC-LIX")
    assert isinstance(player.policy, DlcLix)
    assert (player.policy.alarm, player.policy.epsilon, player.policy.delta) == (True, 0.05, 0.05)
    assert Player(4, "dlc", alarm=False).policy.alarm is False
    assert Player(4, "Musical-Chairs", learning_rounds=9).policy.T0 == 9


def test_players_without_a_seed_are_not_alike():
    first, second = (Player(10, "Musical-Chairs", learning_rounds=50) for _ in range(2))
    drawn = []
    for player in (first, second):
        drawn.append([])
        for _ in range(30):
            drawn[-1].append(player.choose())
            player.observe(0.0, True)
    assert drawn[0] != drawn[1]  # equal with probability 10 ** -30


def test_the_alarm_repairs_a_failed_orthogonalisation():
    """Two players of equal seeds collide in all slots of the orthogonalisation; then their draws part."""
    players = [Player(3, "DLC-LIX", seed=0, epsilon=0.4, delta=0.5, seating_rounds=2) for _ in range(2)]
    for _ in range(2):
        meet(players, [1.0] * 3)
    assert [player.report().failed for player in players] == [True, True]
    assert all("failed" in player.description for player in players)
    assert [player.phase for player in players] == ["alarm sweep"] * 2
    inside.set_rng(players[1], np.random.default_rng(1))  # the cause of the failure is gone
    while players[0].slot < 300 and not all(player.settled for player in players):
        meet(players, [0.9, 0.1, 0.2])
    assert players[0].policy.restarts >= 1
    assert not any(player.report().failed for player in players)
    assert players[0].report().players == players[1].report().players == 2


# -- slots


def test_choosing_again_gives_the_same_arm_and_draws_nothing():
    player, twin = (Player(9, "DLC-LIX", seed=4, **FAST) for _ in range(2))
    for _ in range(20):
        assert len({player.choose() for _ in range(5)}) == 1
        assert player.choose() == twin.choose()
        player.observe(0.0, True)
        twin.observe(0.0, True)
    assert snapshot(player) == snapshot(twin)


def test_observing_twice_or_for_another_slot_changes_nothing():
    player = Player(5, "DLC-LIX", seed=0, **FAST)
    before = snapshot(player)
    with pytest.raises(WrongSlot, match="call choose"):
        player.observe(0.5, False)
    assert snapshot(player) == before
    player.choose()
    before = snapshot(player)
    for slot in (1, 7):
        with pytest.raises(WrongSlot, match=f"slot must be 0, .*got {slot}"):
            player.observe(0.5, False, slot=slot)
    assert snapshot(player) == before
    player.observe(0.5, False, slot=0)
    before = snapshot(player)
    for slot in (None, 0, 1):
        with pytest.raises(WrongSlot):
            player.observe(0.5, False, slot=slot)
    assert snapshot(player) == before
    assert issubclass(WrongSlot, UnknownDecision)
    assert issubclass(WrongSlot, ValueError)
    assert (player.slot, player.rounds, player.pending) == (1, 1, [])


@pytest.mark.parametrize(
    ("reward", "collided", "slot", "message"),
    [
        (float("nan"), False, None, "reward"),
        (float("inf"), False, None, "reward"),
        (-0.1, False, None, "reward"),
        (1.1, False, None, "reward must be a number from 0 to 1, got 1.1"),
        (None, False, None, "reward"),
        ("1", False, None, "reward"),
        (True, False, None, "reward"),
        (0.5, 0, None, "collided must be True or False, got 0"),
        (0.5, None, None, "collided"),
        (0.5, "no", None, "collided"),
        (0.5, False, -1, "slot"),
        (0.5, False, 0.0, "slot"),
        (0.5, False, True, "slot"),
    ],
)
def test_what_cannot_be_observed_changes_nothing(reward, collided, slot, message):
    player = Player(5, "DLC-LIX", seed=0, **FAST)
    player.choose()
    before = snapshot(player)
    with pytest.raises(ValueError, match=message):
        player.observe(reward, collided, slot)
    assert snapshot(player) == before
    player.observe(np.float64(0.5), np.bool_(False), np.int64(0))


ANYTHING = st.one_of(st.none(), st.floats(), st.integers(-2, 3), st.booleans(), st.text(max_size=2))


@settings(max_examples=100, deadline=None)
@given(reward=ANYTHING, collided=ANYTHING, slot=ANYTHING)
def test_observations_are_learned_or_refused_and_refused_change_nothing(reward, collided, slot):
    player = Player(5, "DLC-LIX", seed=0, **FAST)
    player.choose()
    player.observe(0.0, True)
    player.choose()
    before = snapshot(player)
    try:
        player.observe(reward, collided, slot)
    except (ValueError, UnknownDecision):
        assert snapshot(player) == before
    else:
        assert (player.slot, player.pending) == (2, [])


def test_nothing_can_happen_while_she_idles():
    player = Player(3, stub(arm=-1))
    assert player.choose() == -1
    before = snapshot(player)
    for reward, collided in ((0.0, True), (0.5, False)):
        with pytest.raises(ValueError, match="slot 0 was one of idling"):
            player.observe(reward, collided)
    assert snapshot(player) == before
    player.observe(0.0, False)
    assert player.report().idle == 1


def test_a_slot_that_did_not_take_place_is_cancelled():
    player = Player(5, "DLC-LIX", seed=0, **FAST)
    player.choose()
    (id,) = player.pending
    player.cancel(id)
    assert (player.slot, player.pending, player.policy.slot) == (0, [], 0)
    player.choose()
    player.observe(1.0, False, slot=0)
    assert player.slot == 1


def test_eight_threads_observe_each_slot_once():
    player = Player(5, "DLC-LIX", seed=0, **FAST)
    learned = []

    def work(_):
        for _ in range(200):
            slot = player.slot
            player.choose()
            try:
                player.observe(0.5, False, slot=slot)
            except WrongSlot:
                continue
            learned.append(slot)

    in_threads(8, work)
    assert sorted(learned) == list(range(player.slot))
    assert player.report().slots == player.slot > 0


test_wrong_arguments_are_named = refusals(
    lambda arguments: Player(**arguments),
    ({"arms": 1}, "arms must be"),
    ({"arms": None}, "arms must be"),
    ({"arms": 5, "policy": "DLC-LIXX"}, "did you mean DLC-LIX"),
    ({"arms": 5, "policy": "DLC-LIX", "delta": 0.9}, "delta must be"),
    ({"arms": 5, "policy": "DLC-LIX", "epsilon": -1}, "epsilon must be"),
    ({"arms": 5, "policy": "Musical-Chairs"}, "needs the option learning_rounds"),
    ({"arms": 5, "policy": "SIC-MMAB", "horizon": 9, "epsilon": 0.1}, "epsilon is not an option"),
    ({"arms": 5, "policy": "DLC-LIX", "alarm": 1}, "alarm must be"),
    ({"arms": 5, "policy": Dlc(4, 0.1, 0.1)}, "policy must be made for 5 arms, got one for 4"),
    ({"arms": 5, "policy": object()}, "policy must be a name or a policy object"),
    ({"arms": 5, "policy": Dlc(5, 0.1, 0.1), "delta": 0.1}, "options go with the name"),
    ({"arms": 5, "seed": "x"}, "seed must be"),
)


def test_policies_of_ones_own_are_checked():
    nowhere = stub()
    del nowhere.settled
    with pytest.raises(ValueError, match="no settled"):
        Player(3, nowhere)
    player = Player(3, stub(arm=3))
    with pytest.raises(ValueError, match="must be an arm from 0 to 2, or -1 to idle, got 3"):
        player.choose()
    assert player.pending == []


# -- words


def test_phases_and_descriptions_follow_the_protocol():
    players = [Player(5, "DLC", seed=n, **FAST) for n in range(3)]
    rng, seen = np.random.default_rng(0), [[] for _ in players]
    while not all(player.settled for player in players):
        meet(players, (rng.random(5) < MEANS).astype(float))
        for phases, player in zip(seen, players):
            if not phases or phases[-1] != player.phase:
                phases.append(player.phase)
            assert player.description.startswith(f"Slot {player.slot}: ")
    for rank, phases in sorted((player.policy.rank, phases) for player, phases in zip(players, seen)):
        middle = ["exploring", "telling"] if rank == 0 else ["polling", "listening"]
        assert phases[:5] == ["orthogonalisation", "alarm sweep", "indexing", *middle]
        assert phases[-1] == "settled"
    assert f"staying on arm {players[0].arm}; 3 players counted" in players[0].description


def test_the_report_counts_slots():
    player = Player(3, stub(arm=2, settled=True))
    for reward, collided in ((1.0, False), (0.7, True), (0.0, False), (0.5, False)):
        player.choose()
        player.observe(reward, collided)
    report = player.report()
    # The reward of a collision does not count.
    assert (report.slots, report.collisions, report.idle, report.earned) == (4, 1, 0, 1.5)
    assert (report.plays.tolist(), report.free.tolist()) == ([0, 0, 4], [0, 0, 3])
    assert report.means[2] == 0.5
    assert np.isnan(report.means[:2]).all()
    assert (report.players, report.rank, report.settled, report.phase) == (None, None, True, "settled")
    assert "4 slots, 1 collisions" in str(report)
    assert str(report).splitlines()[-1].endswith("<- settled")
