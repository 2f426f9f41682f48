"""Saving and loading a player."""

import json

import numpy as np
import pytest
from tests.live.test_player import CASES, FAST, IDS, MEANS, meet, snapshot

from weakfeedback.live import Player, StateError, storage
from weakfeedback.multiplayer import MusicalChairs


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_stopping_in_the_middle_makes_no_difference(tmp_path, name, options):
    through, stopped = ([Player(5, name, seed=n, **options) for n in range(3)] for _ in range(2))
    rng = np.random.default_rng(0)
    for slot in range(600):
        rewards = (rng.random(5) < MEANS).astype(float)
        if slot % 75 == 74:
            for n, player in enumerate(stopped):
                if slot % 2:
                    player.choose()  # saved in the middle of a slot
                player.save(tmp_path / f"{n}.json")
            stopped = [Player.load(tmp_path / f"{n}.json") for n in range(3)]
            assert [len(player.pending) for player in stopped] == [slot % 2] * 3
        assert meet(stopped, rewards, slot) == meet(through, rewards)
    assert [snapshot(player) for player in stopped] == [snapshot(player) for player in through]
    assert [str(player.report()) for player in stopped] == [str(player.report()) for player in through]


def test_players_given_as_objects_are_given_again(tmp_path):
    path = tmp_path / "p.json"
    player = Player(5, MusicalChairs(5, learning_rounds=9), seed=1)
    for _ in range(4):
        player.choose()
        player.observe(0.0, True)
    player.save(path)
    with pytest.raises(ValueError, match="pass policy=, a fresh MusicalChairs"):
        Player.load(path)
    loaded = Player.load(path, policy=MusicalChairs(5, learning_rounds=1))
    assert (loaded.policy.T0, loaded.policy.slot, loaded.slot) == (9, 4, 4)


def test_forged_files_are_refused(tmp_path):
    path = tmp_path / "p.json"
    player = Player(5, "DLC-LIX", seed=0, **FAST)
    for _ in range(10):
        player.choose()
        player.observe(0.25, False)
    player.choose()
    player.save(path)
    good = storage.read(path, "Player")
    for change in (
        lambda body: body.update(arms=6),
        lambda body: body.update(arms=None),
        lambda body: body["counts"].update(idle=1),
        lambda body: body["counts"].update(idle=-1),
        lambda body: body["counts"]["earned"]["data"].__setitem__(0, 99.0),
        lambda body: body["counts"].pop("met"),
        lambda body: body["core"]["ledger"]["pending"][0].__setitem__(1, 5),
        lambda body: body["core"]["ledger"]["pending"].append([12, 1]),
        lambda body: body["core"].update(policy="DLC"),
        lambda body: body["core"]["options"].update(alarm=None),
        lambda body: body["core"]["fields"].update(settled=0),
    ):
        body = json.loads(json.dumps(good))
        change(body)
        storage.write(path, "Player", body)
        with pytest.raises(StateError):
            Player.load(path)
