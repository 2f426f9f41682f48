"""The radio of players that come, go, crash and lose slots: the choices of a simulation, and nobody left behind."""

import signal

import numpy as np
import pytest
from tests.apps.devices import MEANS, gone
from tests.rig.processes import wait_until

from weakfeedback import simulate
from weakfeedback.apps.radio import RadioError, play_radio
from weakfeedback.engine.replication import cast, streams
from weakfeedback.multiplayer import MultiplayerProblem
from weakfeedback.multiplayer.world import AWAKE
from weakfeedback.settings.catalog import make_policy


def choices_of(problem, prototype, seed, slots):
    """The choices of replication 0 of a simulation, slot by slot; -1 for those that do not play."""
    world_rng, rngs = streams(problem, prototype, seed, 0)
    world, players = problem.world(), cast(problem, prototype)
    world.begin(world_rng)
    rewards, awake = np.empty((world.means.shape[0], problem.arms)), np.empty(problem.players, dtype=int)
    rows = []
    for slot in range(slots):
        world.draw(rewards, awake, slot, world_rng)
        playing = [n for n in range(problem.players) if awake[n] == AWAKE]
        arms = {n: players[n].choose(rngs[n]) for n in playing}
        for n, arm in arms.items():
            hit = arm >= 0 and list(arms.values()).count(arm) > 1
            reward = 0.0 if hit or arm < 0 else float(rewards[n if len(rewards) > 1 else 0, arm])
            players[n].observe(arm, reward, hit and problem.sensing, rngs[n])
        rows.append([arms.get(n, -1) for n in range(problem.players)])
    return np.array(rows)


@pytest.mark.parametrize(
    ("policy", "problem", "killed"),
    [
        (
            "Claims",
            MultiplayerProblem(MEANS[5], 4, presence=[(0, 300), (0, 200), (120, None), (0, None)], lost=0.02),
            [0],
        ),
        (
            "Selfish",
            MultiplayerProblem(MEANS[5], 3, presence=[(0, None), (50, 250), (0, None)], sensing=False),
            [],
        ),
        ("Match", MultiplayerProblem([[0.9, 0.1, 0.5], [0.8, 0.7, 0.2]], 2), []),
    ],
    ids=["claims", "selfish", "match"],
)
def test_processes_choose_what_the_simulation_chooses(policy, problem, killed):
    report = play_radio(problem, policy, 5, max_slots=400, killed=killed)
    prototype = make_policy("multiplayer", policy, problem.arms, **report.options)
    np.testing.assert_array_equal(report.choices, choices_of(problem, prototype, 5, 400))
    frame = simulate(problem, {"p": prototype}, 400, 1, seed=5, marks=1, compiled=False).frame
    for measure, value in report.measures.items():
        assert value == pytest.approx(frame[measure].iloc[-1]), measure
    assert (report.slots, report.ended) == (400, "max-slots")


def test_who_owns_what_is_told_over_time():
    presence = [(0, 500), (0, None), (300, None)]
    problem = MultiplayerProblem([0.9, 0.7, 0.2, 0.1], 3, presence=presence)
    report = play_radio(problem, "claims", 1, max_slots=1000, killed=[0])
    assert report.events == [(300, "player 2 joins"), (500, "player 0 is killed")]
    assert [slots for slots, _ in report.owners][-1] == 1000
    for slots, channels in report.owners:
        assert len(channels) == 4
        owners = [n for owners in channels for n in owners]
        assert len(owners) == len(set(owners))
        assert all(len(owners) < 2 for owners in channels)
        assert (2 in owners) <= (slots > 300)
        assert (0 in owners) <= (slots <= 500)
    assert sum(len(owners) for owners in report.owners[-1][1]) == 2
    plain = report.as_json()
    assert plain["events"][0] == {"slot": 300, "what": "player 2 joins"}
    assert len(plain["owners"]) == len(report.owners)


class Killing:
    """A watcher that kills the process of a player from outside once some slots were played."""

    def __init__(self, player, slots):
        self.player, self.slots, self.pids = player, slots, []

    def __call__(self, air, crew):
        self.pids = [device.process.pid for device in crew.devices]
        play = air.slot

        def slot():
            if air.slots == self.slots:
                crew.devices[self.player].process.send_signal(signal.SIGKILL)
                crew.devices[self.player].process.wait()
            play()

        air.slot = slot
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize("player", [0, 2])
def test_the_others_go_on_when_a_process_dies(player):
    killing = Killing(player, 150)
    report = play_radio(MultiplayerProblem(MEANS[5], 3), "claims", 2, 400, watch=killing)
    ((slot, words),) = report.events
    assert slot in (150, 151)  # it may have sent its last choice already
    assert words == f"player {player} is lost: was killed by signal 9 (SIGKILL)"
    assert report.slots == 400
    assert (report.choices[slot:, player] == -1).all()
    assert report.problem.presence[player] == (0, slot)
    assert report.measures["present"] == 2
    wait_until(lambda: all(gone(pid) for pid in killing.pids))


def test_a_policy_of_a_fixed_team_ends_when_a_process_dies():
    with pytest.raises(RadioError, match=r"player 1 was killed by signal 9"):
        play_radio(
            MultiplayerProblem(MEANS[5], 3), "dlc-lix", 2, 4000, watch=Killing(1, 20), epsilon=0.0, delta=0.1
        )


def test_only_players_of_the_problem_are_killed():
    with pytest.raises(ValueError, match="killed must be an integer from 0 to 1, got 5"):
        play_radio(MultiplayerProblem(MEANS[5], 2), "claims", killed=[5], max_slots=10)
