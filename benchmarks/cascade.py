"""USS-TS and USS-UCB against the floor of their random draws, a hand-written loop and the interpreter."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from benchmarks.timing import alternate
from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb
from weakfeedback.engine.chunk import Compiled
from weakfeedback.engine.fresh import fresh
from weakfeedback.engine.seeds import POLICY, WORLD, generator

HORIZON, REPLICATIONS = 10_000, 100


class LoggedUssTs(UssTs):
    """USS-TS that notes the parameters of every Beta draw, so that the floor can draw the same."""

    def __init__(self, costs, room):
        super().__init__(costs)
        self.log = np.zeros((room, 2))
        self.drawn = 0

    def is_best(self, i, rng):
        best = True
        for j in range(i + 1, self.K):
            self.log[self.drawn, 0] = self.S[i, j]
            self.log[self.drawn, 1] = self.F[i, j]
            self.drawn += 1
            p = rng.beta(self.S[i, j], self.F[i, j])
            if self.C[j] - self.C[i] <= p:
                best = False
        return best


def logged_draws(problem, replications):
    """The Beta parameters of each replication, in order."""
    pairs = problem.arms * (problem.arms - 1) // 2
    policy = LoggedUssTs(problem.costs, HORIZON * pairs)
    player = Compiled(problem, policy)
    logs = []
    for r in range(replications):
        counts, table = np.zeros(problem.arms, dtype=np.int64), np.zeros((1, problem.arms), dtype=np.int64)
        rngs = generator(0, r, WORLD), generator(0, r, POLICY)
        _, state = player.play(fresh(policy), problem.world(), *rngs, np.array([HORIZON]), counts, table)
        logs.append(state["log"][: state["drawn"]].copy())
    return logs


@njit(nogil=True, error_model="numpy")
def draw_only(parameters, rounds, world_rng, rng):
    """The floor: one uniform number a round for the world, and the same Beta draws."""
    total = 0.0
    for _ in range(rounds):
        total += world_rng.random()
    for k in range(parameters.shape[0]):
        total += rng.beta(parameters[k, 0], parameters[k, 1])
    return total


@njit(nogil=True, error_model="numpy")
def hand_written_ucb(rows, cumulative, costs, alpha, horizon, world_rng, pulls):
    """USS-UCB without any object, written out for speed."""
    K = costs.size
    D, N = np.zeros((K, K)), np.zeros((K, K))
    for t in range(1, horizon + 1):
        u = world_rng.random()
        row = 0
        while row < cumulative.size - 1 and cumulative[row] <= u:
            row += 1
        arm = K - 1
        if t > 1:
            width = alpha * math.log(t)
            for i in range(K - 1):
                chosen = True
                for j in range(i + 1, K):
                    if costs[j] - costs[i] <= D[i, j] / N[i, j] + math.sqrt(width / N[i, j]):
                        chosen = False
                        break
                if chosen:
                    for j in range(i):
                        if costs[i] - costs[j] > D[j, i] / N[j, i] + math.sqrt(width / N[j, i]):
                            chosen = False
                            break
                if chosen:
                    arm = i
                    break
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                if rows[row, i + 1] != rows[row, j + 1]:
                    D[i, j] += 1.0
                N[i, j] += 1.0
        pulls[arm] += 1


def problems():
    """K = 3 (the thesis's first instance), and larger cascades of the same kind."""
    yield 3, CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])
    for arms in (10, 15):
        errors = np.linspace(0.39, 0.13, arms)
        yield arms, CascadeProblem.bsc(errors, np.linspace(0.05, 0.6, arms))


def thompson(arms, problem):
    """CPU ns per round of USS-TS, its draws alone, and the interpreter."""
    replications = REPLICATIONS if arms == 3 else 10
    parameters, policy = logged_draws(problem, replications), {"a": UssTs(problem.costs)}
    with ThreadPoolExecutor(1) as executor:

        def ours():
            simulate(problem, policy, horizon=HORIZON, replications=replications, executor=executor)

        def floor():
            for r in range(replications):
                draw_only(parameters[r], HORIZON, generator(0, r, WORLD), generator(0, r, POLICY))

        def interpreted():
            simulate(problem, policy, horizon=HORIZON // 10, replications=2, compiled=False)

        rounds = HORIZON * replications
        return alternate(
            {"ours": (ours, rounds), "floor": (floor, rounds), "interpreted": (interpreted, HORIZON // 5)}
        )


def optimism(problem):
    """CPU ns per round of USS-UCB, the hand-written loop, and the interpreter; the two must play alike."""
    policy = {"a": UssUcb(problem.costs)}
    world = problem.world()
    with ThreadPoolExecutor(1) as executor:

        def ours():
            return simulate(problem, policy, horizon=HORIZON, replications=REPLICATIONS, executor=executor)

        def by_hand():
            pulls = np.zeros((REPLICATIONS, problem.arms), dtype=np.int64)
            for r in range(REPLICATIONS):
                rng = generator(0, r, WORLD)
                hand_written_ucb(world.rows, world.cumulative, problem.costs, 0.5, HORIZON, rng, pulls[r])
            return pulls

        def interpreted():
            simulate(problem, policy, horizon=HORIZON // 10, replications=2, compiled=False)

        played = [ours().values("a", f"pulls_{k}")[:, -1] for k in range(problem.arms)]
        assert np.array_equal(np.stack(played, axis=1), by_hand())
        rounds = HORIZON * REPLICATIONS
        return alternate(
            {"ours": (ours, rounds), "floor": (by_hand, rounds), "interpreted": (interpreted, HORIZON // 5)}
        )
