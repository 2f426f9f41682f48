"""The radio from the command line."""

import json
import os
import re
import sys

import pytest
from tests.cli.conftest import at_terminal

from weakfeedback import simulate
from weakfeedback.apps.radio.air import Air
from weakfeedback.cli import radio_view as view
from weakfeedback.multiplayer import Dlc, MultiplayerProblem

SMALL = ["radio", "--players", "2", "--channels", "4"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["radio", "--players", "2"], ["--channels"]),
        (["radio", "--channels", "4"], ["--players"]),
        (["radio", "--players", "6", "--channels", "5"], ["--players must be", "1 to 5", "got 6"]),
        (["radio", "--players", "0", "--channels", "5"], ["--players must be", "got 0"]),
        (["radio", "--players", "two", "--channels", "5"], ["--players", "integer"]),
        (["radio", "--players", "1", "--channels", "1"], ["--channels must be", "got 1"]),
        (["radio", "--players", "65", "--channels", "70"], ["--players must be", "1 to 64", "got 65"]),
        ([*SMALL, "--policy", "dlc-lx"], ["'dlc-lx'", "did you mean DLC-LIX?"]),
        ([*SMALL, "--policy", "USS-TS"], ["'USS-TS'", "DLC, DLC-LIX, Musical-Chairs, SIC-MMAB"]),
        ([*SMALL, "--means", "0.5", "0.4"], ["--means must be 4 numbers", "got 2"]),
        ([*SMALL, "--means", "0.5,0.4,0.3,0.2,0.1"], ["--means must be 4 numbers", "got 5"]),
        ([*SMALL, "--means", "0.5,0.4,x,0.1"], ["--means must be numbers", "'x'"]),
        ([*SMALL, "--means", "0.5,0.4,1.3,0.1"], ["--means must be numbers in [0, 1]", "1.3"]),
        ([*SMALL, "--means", "0.5,0.4,nan,0.1"], ["--means must be numbers in [0, 1]", "nan"]),
        ([*SMALL, "0.5"], ["'0.5'", "--means"]),
        ([*SMALL, "--rewards", "gauss"], ["rewards must be 'bernoulli', 'uniform' or 'beta'", "'gauss'"]),
        ([*SMALL, "--option", "epsilon"], ["NAME=VALUE", "'epsilon'"]),
        ([*SMALL, "--option", "eps=0.2"], ["eps is not an option of DLC-LIX", "epsilon"]),
        ([*SMALL, "--option", "epsilon=-1"], ["epsilon must be", "-1"]),
        ([*SMALL, "--option", "epsilon=1", "--option", "epsilon=2"], ["epsilon", "twice"]),
        ([*SMALL, "--seed", "-1"], ["--seed must be an integer >= 0", "-1"]),
        ([*SMALL, "--max-slots", "0"], ["--max-slots must be", "got 0"]),
        ([*SMALL, "--join", "1@50"], ["DLC-LIX needs that nobody joins, leaves or loses a slot", "claims"]),
        ([*SMALL, "--lose", "0.1"], ["DLC-LIX needs that nobody joins, leaves or loses a slot"]),
        ([*SMALL, "--lose", "1"], ["--lose must be a number from 0 to below 1", "got 1"]),
        ([*SMALL, "--policy", "claims", "--join", "1"], ["--join must be PLAYER@SLOT", "'1'"]),
        ([*SMALL, "--policy", "claims", "--kill", "x@5"], ["--kill must be PLAYER@SLOT", "'x@5'"]),
        ([*SMALL, "--policy", "claims", "--leave", "2@5"], ["player of --leave 2@5", "0 to 1", "got 2"]),
        ([*SMALL, "--policy", "claims", "--join", "1@0"], ["slot of --join 1@0", "got 0"]),
        ([*SMALL, "--policy", "claims", "--join", "1@9", "--leave", "1@9"], ["player 1 must go after", "9"]),
        ([*SMALL, "--policy", "claims", "--kill", "1@9", "--leave", "1@7"], ["player 1 cannot both"]),
        ([*SMALL, "--policy", "claims", "--kill", "1@9", "--kill", "1@7"], ["--kill of player 1", "twice"]),
        ([*SMALL, "--means-file", "nowhere.csv"], ["--means-file nowhere.csv cannot be read"]),
        ([*SMALL, "--max-seconds", "nan"], ["--max-seconds must be", "nan"]),
    ],
    ids=lambda value: " ".join(value[1:]) if value[0] == "radio" else None,
)
def test_wrong_use_is_one_line(words, expected, folder, call):
    result = call(*words)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    for word in expected:
        assert word in result.stderr
    assert os.listdir(folder) == []


OPTIONS = ["--policy", "DLC", "--seed", "7", "--option", "epsilon=.5", "--option", "tolerance=eps"]


def test_json_has_the_measures_of_the_simulation(call):
    result = call(
        *SMALL, *OPTIONS, "--means", "0.2", "0.8", "0.6", "0.4", "--option", "alarm=false", "--json"
    )
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["ended"] == "settled"
    assert found["options"] == {"epsilon": 0.5, "delta": 0.05, "alarm": False, "tolerance": "eps"}
    problem = MultiplayerProblem([0.2, 0.8, 0.6, 0.4], 2, shuffle=False)
    policy = Dlc(4, epsilon=0.5, delta=0.05, tolerance="eps")
    slots = found["slots"]
    frame = simulate(
        problem, {"x": policy}, horizon=slots, replications=1, seed=7, marks=[slots], compiled=False
    ).frame
    names = list(problem.measures(problem_counts(problem)))
    assert {name: found[name] for name in names} == frame[names].iloc[-1].to_dict()
    seats = [player["channel"] for player in found["by_player"]]
    assert len(set(seats)) == found["settled_players"] == 2
    assert [player["mean"] for player in found["by_player"]] == [found["means"][seat] for seat in seats]
    assert found["means"] == [0.2, 0.8, 0.6, 0.4]
    assert (sum(player["mean"] for player in found["by_player"]) == 1.4) == bool(found["optimal"])


def test_means_are_shuffled_when_asked_to(call):
    """The order is that of the simulation with this seed; that of the other seed is another."""
    means = [0.9, 0.2, 0.6, 0.4]
    words = ["--means", *map(str, means), "--max-slots", "3", "--json"]
    assert json.loads(call(*SMALL, *words).stdout)["means"] == means
    orders = []
    for seed in (0, 1):
        with Air(MultiplayerProblem(means, 2, shuffle=True), seed) as air:
            orders.append(air.order.tolist())
        shuffled = json.loads(call(*SMALL, *words, "--seed", str(seed), "--shuffle").stdout)["means"]
        assert shuffled == [means[k] for k in orders[-1]]
    assert orders[0] != orders[1]
    assert [0, 1, 2, 3] not in orders


def test_a_pipe_shows_life(call, monkeypatch):
    monkeypatch.setattr(view, "SOON", 0.05)
    monkeypatch.setattr(view, "PERIOD", 0.05)
    equal = ["--means", "0.5,0.5,0.5,0.5", "--option", "epsilon=0", "--max-seconds"]
    for seconds in (1, 10, 100):  # longer where the machine was busy with others
        shown = call(*SMALL, *equal, str(seconds)).stdout.splitlines()
        assert shown[0] == "starting 2 players on 4 channels"
        signs = r"slot (\d+)   collisions \d+   settled \d of 2   \d+ slots/s"
        lines = list(filter(None, map(re.compile(signs).fullmatch, shown)))
        if len(lines) >= 3:
            break
    slots = [int(line[1]) for line in lines]
    assert len(slots) >= 3
    assert slots == sorted(slots)
    assert slots[-1] > slots[0]
    assert shown.index(lines[-1][0]) < shown.index(next(line for line in shown if "not all settled" in line))
    assert json.loads(call(*SMALL, *equal, "0.2", "--json").stdout)["ended"] == "max-seconds"


def problem_counts(problem):
    import numpy as np

    return np.zeros(len(problem.loop().counters(problem)), dtype=np.int64)


def test_without_a_terminal_a_plain_summary(call):
    result = call(*SMALL, *OPTIONS)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    for words in ("2 players on 4 channels: all settled in slot", "settled players  2 of 2", "optimal end"):
        assert words in result.stdout


def test_one_player_and_one_slot_are_told_in_the_singular(call):
    result = call("radio", "--players", "1", "--channels", "2", "--max-slots", "1")
    assert result.exit_code == 0
    assert "1 player on 2 channels: not all settled within 1 slot," in result.stdout


def test_ends_that_are_not_settled(call):
    result = call(*SMALL, "--max-slots", "20")
    assert result.exit_code == 0
    assert "not all settled within 20 slots" in result.stdout
    equal = ["--means", "0.5,0.5,0.5,0.5", "--option", "epsilon=0"]
    result = call(*SMALL, *equal, "--max-seconds", "0.2")
    assert result.exit_code == 1
    assert "not all settled when time was up" in result.stdout
    assert result.stderr == "weakfeedback: stopped after --max-seconds 0.2: not all players had settled\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_live_view_on_a_terminal(folder):
    text, status = at_terminal(*SMALL, *OPTIONS, TERM="xterm", COLUMNS="100")
    assert status == 0
    assert "collisions" in text.partition("settled players")[0]
    assert "air" in text
    assert "settled 2 of 2" in text
    assert text.index("settled 2 of 2") < text.index("all settled in slot")


def test_players_that_come_go_and_crash(call):
    words = [*SMALL[:1], "--players", "3", "--channels", "4", "--policy", "claims", "--max-slots", "400"]
    moves = ["--join", "2@100", "--leave", "1@200", "--kill", "0@300", "--lose", "0.01"]
    told = call(*words, *moves)
    assert told.exit_code == 0
    for line in (
        "slot     100   player 2 joins",
        "slot     200   player 1 leaves",
        "slot     300   player 0 is killed",
    ):
        assert line in told.stdout
    assert re.search(r"earned +[0-9.]+ % of the best for those present", told.stdout)
    found = json.loads(call(*words, *moves, "--json").stdout)
    assert [event["slot"] for event in found["events"]] == [100, 200, 300]
    assert (found["slots"], found["present"]) == (400, 1)


def test_six_players_on_ten_channels_by_default(call):
    found = json.loads(call("radio", "--policy", "selfish", "--max-slots", "20", "--json").stdout)
    assert (found["players"], found["channels"], found["slots"]) == (6, 10, 20)


def test_players_with_their_own_means(call, tmp_path):
    file = tmp_path / "qualities.csv"
    file.write_text("0.9,0.1,0.2,0.3\n0.9,0.8,0.2,0.3\n")
    words = ["--policy", "match", "--means-file", str(file), "--max-slots", "150", "--json"]
    found = json.loads(call(*SMALL, *words).stdout)
    assert (found["policy"], found["slots"]) == ("Match", 150)
    # sizes of the file
    assert json.loads(call("radio", *words).stdout) | {"seconds": 0} == found | {"seconds": 0}
    wrong = call(*SMALL[:3], "--channels", "5", *words)
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        "weakfeedback: --means-file must have 2 rows of 5 numbers in [0, 1]\n",
    )
