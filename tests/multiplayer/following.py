"""Players of the package and their slow twins at the same table, slot by slot."""

import numpy as np
from tests.reference import players as slow
from tests.reference.players_baselines import slow_musical_chairs, slow_sic_mmab
from tests.reference.players_dlc import DlcRules, slow_dlc
from tests.reference.players_lix import LixRules, slow_dlc_lix

from weakfeedback.multiplayer.policies import sic_mmab

TWINS = {
    "Dlc": lambda **inputs: slow_dlc(DlcRules(inputs.pop("arms"), **inputs)),
    "DlcLix": lambda **inputs: slow_dlc_lix(LixRules(inputs.pop("arms"), **inputs)),
    "MusicalChairs": lambda **inputs: slow_musical_chairs(inputs["arms"], inputs["learning_rounds"]),
    "SicMmab": lambda **inputs: slow_sic_mmab(inputs.pop("arms"), **inputs),
}

CALM = 3  # rounds of all arms that are watched after everybody has settled


def means_of(arms):
    """Well separated, none 0 or 1."""
    return np.linspace(0.95, 0.05, arms)


def told_by_the_twin(name, inputs, means, players, seed, rounds, replication=0, **law):
    """The table and the rows of a twin's run."""
    world = slow.SlowWorld(means, slow.stream(seed, replication, 0), **law)
    return slow.slow_run(TWINS[name](**inputs), world, players, seed, replication, rounds)


def agree(player, diary, opened):
    """What both know of themselves, field by field."""
    assert bool(player.settled) == diary.settled
    if diary.settled:
        assert player.arm == diary.arm
    if opened and diary.N:
        assert (player.N, player.rank) == (diary.N, diary.rank)
        assert bool(player.failed) == diary.failed
        assert player.restarts == diary.restarts
        assert bool(getattr(player, "garbled", False)) == diary.garbled
        if diary.c == 1:  # later a leader may note who has moved
            assert list(player.seats[: diary.N]) == diary.seats
    for arm, pulls in diary.pulls.items():
        assert player.pulls[arm] == pulls
        assert player.sums[arm] == diary.sums[arm]
    if diary.told and player.stage != sic_mmab.TALKING:
        assert player.sums.tolist() == [diary.told[k] for k in range(player.K)]


def follow(kind, name, inputs, means, players, seed, rounds, **law):
    """Both play the same slots: the same choices, the same knowledge. Return the twins' table.

    The end is ``rounds``, or earlier when all have been settled for so long that whoever takes turns has taken them.
    """
    world = slow.SlowWorld(means, slow.stream(seed, 0, 0), **law)
    rngs = [slow.stream(seed, 0, 1, n) for n in range(players)]
    table = slow.SlowTable(TWINS[name](**inputs), [slow.stream(seed, 0, 1, n) for n in range(players)])
    mine, calm = [kind(**inputs) for _ in range(players)], 0
    for t in range(1, rounds + 1):
        rewards = world.draw()
        arms = [player.choose(rng) for player, rng in zip(mine, rngs, strict=True)]
        assert arms == table.coming, f"slot {t}"
        table.slot(rewards)
        for player, rng, arm, hit in zip(mine, rngs, arms, table.hits[-1], strict=True):
            player.observe(arm, 0.0 if arm < 0 or hit else rewards[arm], hit, rng)
        for player, diary in zip(mine, table.diaries, strict=True):
            agree(player, diary, name != "MusicalChairs")
        calm = calm + 1 if table.settled() else 0
        if calm == CALM * len(means):
            break
    return table


def alone(kind, name, inputs, seed, rounds, chance):
    """One player and its twin among ghosts: collisions and rewards come at random, whatever they play.

    It ends as with ``follow``.
    """
    ghosts, rng = np.random.default_rng(seed), slow.stream(seed, 0, 1, 0)
    table = slow.SlowTable(TWINS[name](**inputs), [slow.stream(seed, 0, 1, 0)])
    (twin,), (diary,) = table.players, table.diaries
    player, coming, calm = kind(**inputs), table.coming[0], 0
    for t in range(1, rounds + 1):
        arm = player.choose(rng)
        assert arm == coming, f"slot {t}"
        hit = arm != slow.IDLE and bool(ghosts.random() < chance)
        reward = 0.0 if arm == slow.IDLE or hit else float(ghosts.random())
        player.observe(arm, reward, hit, rng)
        coming = twin.send((reward, hit))
        agree(player, diary, name != "MusicalChairs")
        calm = calm + 1 if diary.settled else 0
        if calm == CALM * inputs["arms"]:
            break
    return diary
