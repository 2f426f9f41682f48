"""The radio: players as processes choose what they choose in simulations, and no process is left behind."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.apps.devices import MEANS, gone, simulated
from tests.rig.processes import PATIENCE, printed, started, wait_until

from weakfeedback.apps.radio import RadioError, play_radio
from weakfeedback.multiplayer import MultiplayerProblem
from weakfeedback.settings.catalog import make_policy

SHORT = {"epsilon": 0.5, "delta": 0.1, "tolerance": "eps"}
ENDLESS = {"epsilon": 0.0, "delta": 0.1, "alarm": False}
RUNS = {
    "dlc": {**SHORT, "alarm": True},
    "dlc-lix": {**SHORT, "alarm": True},
    "musical-chairs": {"learning_rounds": 300},
    "sic-mmab": {"horizon": 100, "constant": 0.1},
}
SIZES = ((5, 3), (10, 6))


def compare(problem, policy, seed, options):
    """Run both, demand equality slot by slot and of all measures; return the simulated players."""
    report = play_radio(problem, policy, seed, max_slots=4000, **options)
    prototype = make_policy("multiplayer", policy, problem.arms, **options)
    choices, measures, players = simulated(problem, prototype, seed, report.slots)
    # the loop of simulations skips what follows once all have settled, and here the run ends then
    np.testing.assert_array_equal(report.choices, choices)
    assert report.measures == measures
    assert report.ended == "settled"
    assert report.slots == max(report.settled_at) == measures["settled_at"]
    assert sum(report.collisions) == measures["collisions"]
    return players


@pytest.mark.parametrize(
    ("size", "policy"),
    [
        pytest.param(
            size,
            policy,
            id=f"K{size[0]}-N{size[1]}-{policy}",
            marks=[pytest.mark.slow] * (size == SIZES[1] and policy != "dlc-lix"),
        )
        for size in SIZES
        for policy in RUNS
    ],
)
def test_processes_choose_what_the_simulation_chooses(size, policy):
    compare(MultiplayerProblem(MEANS[size[0]], size[1]), policy, seed=3, options=RUNS[policy])


@pytest.mark.parametrize(
    ("policy", "players", "rewards", "options"),
    [
        ("dlc", 3, "uniform", {**SHORT, "alarm": False, "fair": True}),
        ("dlc", 1, "beta", {**SHORT, "alarm": False}),
        ("dlc-lix", 3, "beta", {**SHORT, "seating_rounds": 1, "alarm": True}),
        ("dlc-lix", 5, "bernoulli", {**SHORT, "alarm": False}),
    ],
    ids=["rotating", "alone", "alarm", "full"],
)
def test_other_options_and_rewards(policy, players, rewards, options):
    played = compare(MultiplayerProblem(MEANS[5], players, rewards=rewards), policy, 2, options)
    # one slot is too short for three to sit: the alarm had them repeat it, or this would compare too little
    assert all((player.restarts > 0) == options["alarm"] for player in played)


def test_slots_are_bounded_and_the_alarm_is_on_by_default():
    problem = MultiplayerProblem(MEANS[5], 3)
    report = play_radio(problem, "dlc", seed=1, max_slots=30)
    assert report.options == {"epsilon": 0.1, "delta": 0.05, "alarm": True}
    assert (report.ended, report.slots, report.measures["settled_players"]) == ("max-slots", 30, 0)
    prototype = make_policy("multiplayer", "dlc", 5, **report.options)
    np.testing.assert_array_equal(report.choices, simulated(problem, prototype, 1, 30)[0])
    assert (report.choices != simulated(problem, prototype, 2, 30)[0]).any()


def test_time_is_bounded():
    for seconds in (0.3, 3.0, 30.0):  # longer where the machine was busy with others
        report = play_radio(MultiplayerProblem([0.5] * 5, 2), max_seconds=seconds, **ENDLESS)
        assert report.ended == "max-seconds"
        assert seconds <= report.seconds < PATIENCE
        if report.slots:
            break
    assert report.measures["settled_players"] == 0
    assert report.slots == len(report.choices) > 0


def test_a_players_process_loads_only_what_it_plays_with():
    """There may be 64 of them, and the air waits for the last."""
    code = "import sys, weakfeedback.apps.radio.player; print(*sys.modules)"
    rooms = {name.split(".")[1] for name in printed("-c", code).split() if name.startswith("weakfeedback.")}
    assert "multiplayer" in rooms
    assert not rooms & {"catalog", "engine", "live", "journal", "cascade", "cli"}


def test_wrong_arguments_start_nothing():
    problem = MultiplayerProblem(MEANS[5], 2)
    for words, arguments in (
        ("problem must be a MultiplayerProblem, got 3", {"problem": 3}),
        ("did you mean DLC-LIX?", {"policy": "DLC-LX"}),
        ("epsilon must be", {"epsilon": -1}),
        ("players must be an integer from 1 to 64, got 65", {"problem": MultiplayerProblem([0.5] * 65, 65)}),
        ("max_slots must be", {"max_slots": 0}),
        ("max_seconds must be", {"max_seconds": 0}),
        ("patience must be", {"patience": -1}),
        ("seed must be", {"seed": -1}),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            play_radio(**{"problem": problem, **arguments})


# -- trouble


def run_with(trouble, **how):
    """Run players that would go on for long, and cause trouble in slot 20; return the error and the processes."""
    crews = []

    @contextlib.contextmanager
    def watch(air, crew):
        crews.append(crew)
        thread = threading.Thread(target=cause, args=(air, crew))
        thread.start()
        yield
        thread.join()

    def cause(air, crew):
        while air.slots < 20:
            time.sleep(0.005)
        trouble(crew.devices[1].process)

    with pytest.raises(RadioError) as caught:
        play_radio(MultiplayerProblem([0.5] * 5, 3), watch=watch, max_seconds=PATIENCE, **ENDLESS, **how)
    return str(caught.value), [device.process for device in crews[0].devices]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_killed_player_is_reported_and_the_others_are_ended():
    words, processes = run_with(lambda process: process.send_signal(signal.SIGKILL))
    assert words.startswith("slot ")
    assert words.endswith(": player 1 was killed by signal 9 (SIGKILL)")
    assert all(process.returncode is not None for process in processes)
    assert all(gone(process.pid) for process in processes)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_player_who_stops_is_reported_and_ended():
    words, processes = run_with(lambda process: process.send_signal(signal.SIGSTOP), patience=10.0)
    assert words.endswith(": player 1 was silent for 10 s")
    assert all(gone(process.pid) for process in processes)


def test_players_that_cannot_start_are_reported(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise ImportError('no numbers\\n today')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RadioError, match=r"^player \d ended with status 1: .* before the first slot$"):
        play_radio(MultiplayerProblem(MEANS[5], 2))


@contextlib.contextmanager
def command(*words):
    """Start the command with players that would go on for long; give it and the players' ids, in play."""
    line = [sys.executable, "-m", "weakfeedback", "radio", "--players", "3", "--channels", "5", *words]
    equal = ["--means", "0.5,0.5,0.5,0.5,0.5", "--option", "epsilon=0", "--max-seconds", str(PATIENCE)]
    with started([*line, *equal], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(children(process)) == 3, process, pause=0.1)
        players = children(process)
        try:
            assert len(players) == 3
            yield process, players
        finally:
            process.kill()
            for player in players:
                if not gone(player):
                    os.kill(player, signal.SIGKILL)


def children(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        return [int(word) for word in file.read().split()]


def connected(player):
    """Whether a player has a connection to the air."""
    with contextlib.suppress(FileNotFoundError), os.scandir(f"/proc/{player}/fd") as opened:
        return any(os.readlink(one.path).startswith("socket:") for one in opened)
    return False


def vanish(players):
    wait_until(lambda: all(map(gone, players)), pause=0.05)
    return all(map(gone, players))


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize("words", [[], ["--json"]], ids=["words", "json"])
@pytest.mark.parametrize("playing", [False, True], ids=["starting", "playing"])
def test_ctrl_c_ends_everything_with_status_130(playing, words):
    with command(*words) as (process, players):
        if playing:
            wait_until(lambda: all(map(connected, players)), process)
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        printed, complaint = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        lines = printed.splitlines()
        assert lines[:1] == ([] if words else ["starting 3 players on 5 channels"])
        assert all(line.startswith("slot ") for line in lines[1:])  # signs of life, and no report
        assert complaint == "weakfeedback: interrupted; all players were ended\n"
        assert vanish(players)


@needs_proc
def test_a_killed_player_is_one_line_and_status_1():
    with command("--json") as (process, players):
        os.kill(players[2], signal.SIGKILL)
        printed, complaint = process.communicate(timeout=PATIENCE)
        assert (process.returncode, printed, complaint.count("\n")) == (1, "", 1)
        assert "player 2 was killed by signal 9 (SIGKILL)" in complaint
        assert vanish(players)


@needs_proc
def test_players_do_not_outlive_the_air():
    with command() as (process, players):
        process.kill()
        process.communicate(timeout=PATIENCE)
        assert vanish(players)
