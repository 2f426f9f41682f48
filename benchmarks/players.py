"""Players of chapter 5: the whole comparison, the interpreter, and SMPyBandits in an environment of its own."""

import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.timing import alternate
from weakfeedback import simulate
from weakfeedback.multiplayer import Dlc, DlcLix, MultiplayerProblem, MusicalChairs, SicMmab, instances

PEER_PYTHONS = ("3.8", "3.9")
PEER_PACKAGES = (
    "numpy<1.20",
    "scipy<1.6",
    "matplotlib<3.4",
    "seaborn",
    "scikit-learn",
    "joblib",
    "SMPyBandits",
)
MEANS = [0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5]
PLAYERS, ROUNDS = 6, 100_000

# Their policies in the leanest loop that lets them play: their own evaluator would only be slower.
PEER = """
import sys, time
import numpy as np
from SMPyBandits.Policies.MusicalChair import MusicalChair
from SMPyBandits.Policies.SIC_MMAB import SIC_MMAB
means, N, T = {means}, {players}, {rounds}
K = len(means)
makers = {{"MusicalChair": lambda: MusicalChair(K, Time0=T), "SIC_MMAB": lambda: SIC_MMAB(K, T)}}
for name, make in makers.items():
    players = [make() for _ in range(N)]
    for player in players:
        player.startGame()
    before = time.process_time()
    for t in range(T):
        rewards = np.random.random(K) < means
        arms = [player.choice() for player in players]
        for player, arm in zip(players, arms):
            if arms.count(arm) > 1:
                player.handleCollision(arm, 0.0)
            else:
                player.getReward(arm, float(rewards[arm]))
    print(name, (time.process_time() - before) / T * 1e9)
"""


def ours():
    """CPU ns per round of each policy while it is still learning, and of the interpreter."""
    problem = MultiplayerProblem(MEANS, PLAYERS)
    work = {}
    for name, policy in (
        ("MusicalChair", MusicalChairs(9, learning_rounds=ROUNDS)),
        ("SIC_MMAB", SicMmab(9, horizon=ROUNDS)),
    ):
        work[name] = (
            lambda p=policy: simulate(problem, {"a": p}, horizon=ROUNDS, replications=10),
            10 * ROUNDS,
        )
        work[f"{name}, interpreted"] = (
            lambda p=policy: simulate(problem, {"a": p}, horizon=1000, replications=1, compiled=False),
            1000,
        )
    return alternate(work, repetitions=3)


def peer():
    """CPU ns per round of SMPyBandits by policy, or the reason why there is none."""
    for version in PEER_PYTHONS:
        found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")) or [f"python{version}"]
        with tempfile.TemporaryDirectory() as folder:
            python = f"{folder}/bin/python"
            script = PEER.format(means=MEANS, players=PLAYERS, rounds=ROUNDS)
            steps = (
                [str(found[0]), "-m", "venv", folder],
                [python, "-m", "pip", "install", "--quiet", *PEER_PACKAGES],
                [python, "-W", "ignore", "-c", script],
            )
            try:
                for step in steps:
                    out = subprocess.run(step, capture_output=True, text=True, check=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            rows = [
                line.split()
                for line in out.stdout.splitlines()
                if line.startswith(("MusicalChair ", "SIC_MMAB "))
            ]
            return {name: float(value) for name, value in rows}
    return f"no Python {' or '.join(PEER_PYTHONS)} in which it can be installed"


def whole_comparison():
    """Seconds of wall time of four policies, 20 replications of 300 000 rounds, K = 9, N = 6, compiled before."""
    problem = instances.load("e2")
    policies = {
        "DLC": Dlc(9, 0.05, 0.05),
        "DLC-LIX": DlcLix(9, 0.05, 0.05),
        "Musical Chairs": MusicalChairs(9, 3000),
        "SIC-MMAB": SicMmab(9, horizon=300_000),
    }
    simulate(problem, policies, horizon=10, replications=1)
    before = time.perf_counter()
    simulate(problem, policies, horizon=300_000, replications=20)
    return time.perf_counter() - before


def main():
    """Print all of it."""
    print(
        f"four policies, 20 replications of 300,000 rounds, K = 9, N = 6: {whole_comparison():.1f} s of wall time"
    )
    mine, theirs = ours(), peer()
    for name in ("MusicalChair", "SIC_MMAB"):
        fast, slow = mine[name].best, mine[f"{name}, interpreted"].best
        told = (
            f"SMPyBandits {theirs[name] / fast:.0f}x"
            if isinstance(theirs, dict)
            else f"SMPyBandits: {theirs}"
        )
        print(f"{name:12} {fast:8.0f} ns per round while learning; interpreted {slow / fast:.0f}x; {told}")


if __name__ == "__main__":
    main()
