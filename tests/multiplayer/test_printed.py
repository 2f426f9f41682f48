"""The script that shows how DLC, as printed, jams itself."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "docs" / "printed" / "dlc_jam.py"


def load():
    spec = importlib.util.spec_from_file_location("dlc_jam", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_listener_is_jammed_by_a_served_player(capsys):
    script = load()
    seed = script.first_jam()
    slots, players = script.conversation(seed)
    jammed = next(player for player in players if player.garbled)
    k = players.index(jammed)
    # it is told by the leader, but in each of its slots somebody who has settled sits on its arm
    listening = [arms for c, arms in slots if jammed.signal < c <= jammed.signal + 4]
    intruders = [{n for n in range(6) if n != k and arms[n] == arms[k]} for arms in listening]
    assert all(intruders)
    script.show(seed)
    assert "there is no such arm" in capsys.readouterr().out


def test_the_printed_rule_rarely_ends_on_the_best_arms():
    optimal, _ = load().shares(60)
    # about .26 against .92 over many runs; 60 runs each, so these limits fail with probability below 1e-4
    assert optimal.iloc[0] < 0.5
    assert optimal.iloc[1] > 0.7
    assert optimal.iloc[2] > 0.7
