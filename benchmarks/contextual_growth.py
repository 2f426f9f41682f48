"""USS-PD: the cost of a round must not grow with the rounds played, although its estimate uses all of them.

Prints the mean time per round over [t/2, t] at t = 10^3, 10^4 and 10^5 and its growth from each to the next: as the
policy plays (it stops earlier as it learns), and with all arms seen in every round (the worst case). CPU time of
one thread, the least of several runs of each window, which other programs disturb least.

    python -m benchmarks.contextual_growth [--repeat N]
"""

import argparse
import copy
import itertools
import time

import numpy as np

from weakfeedback.contextual import UssPd, families
from weakfeedback.engine.replication import Compiled
from weakfeedback.engine.seeds import POLICY, WORLD, generator

ROUNDS = (1_000, 10_000, 100_000)
COSTS = (0.01, 0.02, 0.032, 0.05, 0.6)
ALLOWED = 1.5


def windows(problem, policy, repeat):
    """Microseconds per round over [t/2, t] for each t."""
    player = Compiled(problem, policy)
    best = dict.fromkeys(ROUNDS, np.inf)
    for _ in range(repeat):
        one, world = copy.deepcopy(policy), problem.world()
        rngs = generator(0, 0, WORLD), generator(0, 0, POLICY)
        counts = np.zeros(problem.arms + 2, dtype=np.int64)
        for t in ROUNDS:
            for mark in (t // 2, t):
                table = np.zeros((1, counts.size), dtype=np.int64)
                start = time.process_time()
                _, state = player.play(one, world, *rngs, np.array([mark]), counts, table)
                spent = time.process_time() - start
                vars(one).update(state)
            best[t] = min(best[t], spent / (t - t // 2) * 1e6)
    return [best[t] for t in ROUNDS]


def main():
    """Print the table; end with an error if a round became dearer by more than the factor allowed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    cases = {
        "as it plays": families.synthetic(COSTS),
        "all arms seen": families.synthetic((0.0,) * 5),  # no arm is worth stopping at before the last
    }
    print("USS-PD on the synthetic data, K = 5, d' = 10: microseconds per round over [t/2, t]")
    print(f"{'':15}" + "".join(f"{f't = {t}':>13}" for t in ROUNDS) + f"{'growth':>16}")
    worst = 0.0
    for name, problem in cases.items():
        times = windows(problem, UssPd(problem.costs, problem.dimension), repeat)
        growth = [later / earlier for earlier, later in itertools.pairwise(times)]
        worst = max(worst, *growth, times[-1] / times[0])
        print(
            f"{name:15}" + "".join(f"{value:13.2f}" for value in times) + "".join(f"{g:8.2f}" for g in growth)
        )
    print(f"largest growth {worst:.2f}, allowed {ALLOWED}")
    return int(worst > ALLOWED)


if __name__ == "__main__":
    raise SystemExit(main())
