"""The floor of a work: its random draws alone, or what a policy without draws must compute, in a tight loop."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from benchmarks.cases import Case
from weakfeedback.cascade import UssUcb
from weakfeedback.contextual import UssPd
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.replication import Interpreted, cast, streams
from weakfeedback.engine.seeds import POLICY, WORLD, generator

Work = tuple[Callable[[], object], int]


class Recorder:
    """A generator that notes what is drawn from it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.uniform = 0
        self.parameters: list[tuple[float, float]] = []

    def random(self) -> float:
        """One uniform number."""
        self.uniform += 1
        return self.rng.random()

    def beta(self, a: float, b: float) -> float:
        """One draw from Beta(a, b)."""
        self.parameters.append((a, b))
        return self.rng.beta(a, b)


def recorded(case: Case, replication: int) -> tuple[int, int, np.ndarray]:
    """The rounds really played, the uniform draws and the parameters of the Beta draws of a replication.

    The interpreter plays it: its draws are those of the compiled run.
    """
    problem, loop = case.problem, loop_for(case.problem, case.policy)
    world_rng, rng = streams(problem, case.policy, 0, replication)
    world = Recorder(world_rng)
    policy = [Recorder(one) for one in rng] if isinstance(rng, list) else Recorder(rng)
    width = len(loop.counters(problem))
    counts, table = np.zeros(width, dtype=np.int64), np.zeros((1, width), dtype=np.int64)
    marks = np.array([case.horizon])
    player = cast(problem, case.policy)
    Interpreted(problem).play(player, problem.world(), world, policy, marks, counts, table)
    notes = [world, *policy] if isinstance(policy, list) else [world, policy]
    pairs = [pair for note in notes for pair in note.parameters]
    rounds = rounds_played(case, dict(zip(loop.counters(problem), counts)))
    return rounds, sum(note.uniform for note in notes), np.array(pairs, dtype=float).reshape(-1, 2)


def rounds_played(case: Case, counts: dict[str, Any]) -> int:
    """Rounds until all players had settled; after that nothing is simulated."""
    return int(counts.get("settled_at", 0)) or case.horizon


# forceinline reaches the functions of the generator, which are a third faster for it
@njit(nogil=True, error_model="numpy", forceinline=True)
def draw(uniform, parameters, world_rng, rng):
    """The draws and nothing else."""
    total = 0.0
    for _ in range(uniform):
        total += world_rng.random()
    for k in range(parameters.shape[0]):
        total += rng.beta(parameters[k, 0], parameters[k, 1])
    return total


def draws(case: Case) -> Work:
    """The draws of all replications."""
    notes = [recorded(case, r) for r in range(case.replications)]
    draw(1, np.ones((1, 2)), generator(0, 0, WORLD), generator(0, 0, POLICY))

    def run() -> None:
        for r, (_, uniform, parameters) in enumerate(notes):
            draw(uniform, parameters, generator(0, r, WORLD), generator(0, r, POLICY))

    return run, sum(rounds for rounds, _, _ in notes)


@njit(nogil=True, error_model="numpy")
def ucb_by_hand(rows, order, costs, alpha, horizon, drawn, world_rng, pulls):
    """USS-UCB without any object, written out for speed; rows are known, the world's numbers are drawn all the same."""
    K = costs.size
    total = 0.0
    D, N = np.zeros((K, K)), np.zeros((K, K))
    for t in range(1, horizon + 1):
        if drawn:
            total += world_rng.random()
        row = order[t - 1]
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
    return total


def optimism(case: Case) -> Work:
    """The hand-written loop, which must play as ours does."""
    from weakfeedback import simulate

    world, pulls = case.problem.world(), np.zeros(case.problem.arms, dtype=np.int64)
    drawn, orders = not hasattr(world, "served"), []
    for r in range(case.replications):
        rng, world = generator(0, r, WORLD), case.problem.world()
        world.begin(rng)
        orders.append(np.array([world.draw(rng) for _ in range(case.horizon)]))

    def run() -> None:
        pulls[:] = 0
        for r, order in enumerate(orders):
            rng = generator(0, r, WORLD)
            ucb_by_hand(world.rows, order, case.problem.costs, 0.5, case.horizon, drawn, rng, pulls)

    run()
    results = simulate(case.problem, {"a": case.policy}, case.horizon, case.replications)
    ours = [results.values("a", f"pulls_{k}")[:, -1].sum() for k in range(case.problem.arms)]
    assert np.array_equal(ours, pulls), (ours, pulls)
    return run, case.horizon * case.replications


@njit(nogil=True, error_model="numpy")
def pairs_by_hand(features, arms, stops, slots, learned):
    """What USS-PD cannot do without: widths and rank-one updates of V^-1, and one Newton step for each pair seen.

    No refits, no history, no decisions: arms are those that were chosen, estimates start where ``learned`` rounds end.
    """
    d, M, S = features.shape[1], stops.size, slots.size
    W, Q = np.zeros((S, d, d)), np.zeros((M, d, d))
    gradient, theta, v = np.zeros((M, d)), np.zeros((M, d)), np.zeros(d)
    for s in range(S):
        for k in range(d):
            W[s, k, k] = 1.0
    for m in range(M):
        for k in range(d):
            Q[m, k, k] = 1.0
    total = 0.0
    for t in range(learned, arms.size):
        x = features[t % features.shape[0]]
        for s in range(S):  # the width, and the inverse with one more row if it is seen
            c = 0.0
            for i in range(d):
                v[i] = 0.0
            for j in range(d):
                for i in range(d):
                    v[i] += x[j] * W[s, j, i]
            for i in range(d):
                c += x[i] * v[i]
            total += math.sqrt(c)
            if slots[s] <= arms[t]:
                for i in range(d):
                    for j in range(d):
                        W[s, i, j] -= v[i] * v[j] / (1.0 + c)
        for m in range(M):
            if stops[m] <= arms[t]:
                c = 0.0
                z = 0.0
                for i in range(d):
                    v[i] = 0.0
                for j in range(d):
                    for i in range(d):
                        v[i] += x[j] * Q[m, j, i]
                for i in range(d):
                    c += x[i] * v[i]
                    z += x[i] * theta[m, i]
                p = 1.0 / (1.0 + math.exp(-z))
                w = p * (1.0 - p)
                for i in range(d):
                    gradient[m, i] += (0.3 - p) * x[i]
                    for j in range(d):
                        Q[m, i, j] -= w * v[i] * v[j] / (1.0 + w * c)
                for i in range(d):
                    theta[m, i] = 0.0
                for j in range(d):
                    for i in range(d):
                        theta[m, i] += gradient[m, j] * Q[m, j, i]
    return total


def disagreement(case: Case) -> Work:
    """The linear algebra of USS-PD after its forced phase, for the arms it chose; counted over all rounds."""
    from weakfeedback.engine.replication import Compiled

    player, loop = Compiled(case.problem, case.policy), loop_for(case.problem, case.policy)
    width = len(loop.counters(case.problem))
    states = []
    for r in range(case.replications):
        counts, table = np.zeros(width, dtype=np.int64), np.zeros((1, width), dtype=np.int64)
        rngs = generator(0, r, WORLD), generator(0, r, POLICY)
        policy, marks = cast(case.problem, case.policy), np.array([case.horizon])
        states.append(player.play(policy, case.problem.world(), *rngs, marks, counts, table)[1])
    learned = 500  # USS-PD makes no estimate in its forced phase

    def run() -> None:
        for state in states:
            arms = state["arms"][: state["t"]]
            pairs_by_hand(case.problem.features, arms, state["stop"], state["reach"], learned)

    return run, case.horizon * case.replications


def floor(case: Case) -> Work:
    """The floor of a case."""
    if isinstance(case.policy, UssUcb):
        return optimism(case)
    if isinstance(case.policy, UssPd):
        return disagreement(case)
    return draws(case)
