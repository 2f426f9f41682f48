"""How DLC, as printed, jams itself.

In the thesis a player that has been told its arm "starts playing the received arm in the subsequent rounds". The
arms it can be told are the N best of all K, and among them are arms on which other players are still
listening for their own word. From that moment on such a listener collides in every slot, and a collision is a 1:
whatever the leader sends, it hears 11...1. With 10 arms that is arm 15, which does not exist.

Run ``python docs/printed/dlc_jam.py`` to see one such conversation slot by slot, and how often runs end on the best
arms: as printed, with served players waiting until all have been served, and with reserved best arms kept.
"""

import argparse

import numpy as np

from weakfeedback import simulate
from weakfeedback.engine.seeds import generator
from weakfeedback.multiplayer import Dlc, MultiplayerProblem

ARMS, PLAYERS, SEATING = 10, 6, 210
MEANS = np.round(np.arange(0.95, 0.45, -0.05), 2)


class PrintedDlc(Dlc):
    """DLC whose players move to their arm as soon as they know it."""

    def starts_at_once(self):
        """Always, as printed."""
        return True


def conversation(seed):
    """Play until all players have heard their word; return the slots of the communication and the players."""
    players = [PrintedDlc(ARMS, 0.3, 0.05, tolerance="eps") for _ in range(PLAYERS)]
    rngs = [generator(seed, 0, 1, n) for n in range(PLAYERS)]
    world = MultiplayerProblem(MEANS, PLAYERS).world()
    world_rng = generator(seed, 0, 0)
    world.begin(world_rng)
    rewards = np.empty(ARMS)
    slots = []
    while not all(player.settled for player in players):
        world.draw(rewards, world_rng)
        arms = [player.choose(rng) for player, rng in zip(players, rngs)]
        talking = any(player.settled or player.stage == 2 for player in players)
        if talking:
            slots.append((players[0].c, arms))
        for player, arm, rng in zip(players, arms, rngs):
            collided = arm >= 0 and arms.count(arm) > 1
            player.observe(arm, 0.0 if collided or arm < 0 else rewards[arm], collided, rng)
    return slots, players


def show(seed):
    """Print one conversation; a star marks a collision."""
    slots, players = conversation(seed)
    print(f"Six players on ten arms, seed {seed}. Arm played in each slot, * where players collide:")
    print("  slot " + "".join(f"  rank {player.rank}" for player in players))
    for slot, arms in slots:
        words = ["   idle" if arm < 0 else f"{arm:6d}{'*' if arms.count(arm) > 1 else ' '}" for arm in arms]
        print(f"{slot:6d} " + " ".join(words))
    for player in sorted(players, key=lambda player: player.rank):
        if player.garbled:
            print(f"rank {player.rank} heard the word {player.word}: there is no such arm")


def first_jam():
    """Return the first seed whose conversation is jammed."""
    seed = 0
    while not any(player.garbled for player in conversation(seed)[1]):
        seed += 1
    return seed


def shares(replications):
    """Return the share of runs that end with all players on the best arms, for each rule."""
    problem = MultiplayerProblem(MEANS, PLAYERS)
    options = {"epsilon": 0.3, "delta": 0.05, "tolerance": "eps"}
    policies = {
        "as printed: move at once": PrintedDlc(ARMS, **options),
        "wait until all have been served": Dlc(ARMS, **options),
        "keep reserved arms that are good": Dlc(ARMS, served="keep", **options),
    }
    results = simulate(problem, policies, horizon=10_000, replications=replications, marks=1)
    return results.final("optimal")["mean"], results.final("collisions")["mean"]


def main():
    """Print the conversation and the shares."""
    parser = argparse.ArgumentParser(description="Show how DLC, as printed, jams itself.")
    parser.add_argument("--replications", type=int, default=200)
    replications = parser.parse_args().replications
    show(first_jam())
    optimal, collisions = shares(replications)
    print(f"\n{replications} runs of 10 000 rounds:")
    for rule in optimal.index:
        print(f"  {rule:34s} best arms {optimal[rule]:.2f}   collisions {collisions[rule]:.0f}")


if __name__ == "__main__":
    main()
