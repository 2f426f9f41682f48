"""Chapter 4: the knapsack against OR-Tools, CSB-SU against its draws, CSB-MK against the interpreter, growth with K."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from ortools.algorithms.python import knapsack_solver

from benchmarks.timing import alternate
from weakfeedback import simulate
from weakfeedback.allocation import AllocationProblem, CsbDu, CsbMk, CsbSu, KnownThresholds, knapsack
from weakfeedback.allocation.compiled import compiled
from weakfeedback.engine.chunk import Compiled
from weakfeedback.engine.fresh import fresh
from weakfeedback.engine.seeds import POLICY, WORLD, generator
from weakfeedback.knapsack import pack

ARMS = 50
SCALE = 10**6  # OR-Tools takes integers; the items below have six decimals
KINDS = ("random", "correlated", "equal weights")
CASES = 20
# The default of OR-Tools, and the one made for at most 64 items.
SOLVERS = {
    "OR-Tools": knapsack_solver.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER,
    "OR-Tools, 64 items": knapsack_solver.SolverType.KNAPSACK_64ITEMS_SOLVER,
}
solve = compiled(pack)


def items(kind, seed):
    """Values, weights and the capacity of a case with 50 items."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.05, 1.0, ARMS).round(6)
    values = rng.uniform(0.0, 1.0, ARMS).round(6)
    if kind == "correlated":
        values = (weights + 0.1 * rng.uniform(size=ARMS)).round(6)
    if kind == "equal weights":
        return values, np.full(ARMS, 0.7), 0.7 * 16
    return values, weights, round(0.3 * weights.sum(), 6)


@njit(nogil=True, error_model="numpy")
def solve_all(values, weights, capacities, times):
    """Solve all cases as a compiled policy does, so many times."""
    taken = 0
    for _ in range(times):
        for k in range(capacities.size):
            taken += solve(values[k], weights[k], capacities[k])[0]
    return taken


def with_ortools(kind, values, weights, capacity):
    """From arrays to the set of items taken, which is what ``knapsack`` does."""
    solver = knapsack_solver.KnapsackSolver(kind, "benchmark")
    whole = [np.rint(x * SCALE).astype(np.int64).tolist() for x in (values, weights)]
    solver.init(whole[0], [whole[1]], [round(capacity * SCALE)])
    solver.solve()
    return [solver.best_solution_contains(i) for i in range(values.size)]


def knapsacks(kind):
    """CPU ns per knapsack: ours in compiled code, ours called from Python, OR-Tools called from Python."""
    cases = [items(kind, seed) for seed in range(CASES)]
    values, weights, capacities = (np.array(part) for part in zip(*cases))
    for one in cases:
        best = one[0][knapsack(*one)].sum()
        for solver in SOLVERS.values():
            assert abs(one[0][np.array(with_ortools(solver, *one))].sum() - best) < 1e-4

    def from_python():
        for _ in range(50):
            for one in cases:
                knapsack(*one)

    candidates = {
        "ours": (lambda: solve_all(values, weights, capacities, 500), 500 * CASES),
        "from Python": (from_python, 50 * CASES),
    }
    for name, solver in SOLVERS.items():

        def theirs(solver=solver):
            for one in cases:
                with_ortools(solver, *one)

        candidates[name] = (theirs, CASES)
    return alternate(candidates)


class LoggedCsbSu(CsbSu):
    """CSB-SU that notes the parameters of every Beta draw, so that the floor can draw the same."""

    def __init__(self, arms, budget, rounds):
        super().__init__(arms, budget)
        self.log = np.zeros((rounds, arms, 2))
        self.t = 0

    def select(self, rng):
        for i in range(self.K):
            self.log[self.t, i, 0] = self.S[i]
            self.log[self.t, i, 1] = self.F[i]
        self.t += 1
        return self.choose(rng)

    choose = CsbSu.select


@njit(nogil=True, error_model="numpy")
def draw_only(log, rng):
    """The floor: the same Beta draws and nothing else, not even those of the world."""
    total = 0.0
    for t in range(log.shape[0]):
        for i in range(log.shape[1]):
            total += rng.beta(log[t, i, 0], log[t, i, 1])
    return total


def same_problem(arms):
    """One threshold for all arms; three in ten of them can be served."""
    return AllocationProblem(np.linspace(0.95, 0.3, arms), np.full(arms, 0.7), budget=0.21 * arms + 0.3)


def problem_of(arms):
    """Thresholds that differ, and about half of the arms can be served."""
    rng = np.random.default_rng(1)
    theta = rng.uniform(0.3, 0.7, arms)
    return AllocationProblem(rng.uniform(0.3, 0.95, arms), theta, budget=0.25 * arms)


def played(problem, policy, horizon, replication):
    """The state of a policy after so many rounds."""
    width = problem.arms + 4
    rngs = generator(0, replication, WORLD), generator(0, replication, POLICY)
    counts, table = np.zeros(width, dtype=np.int64), np.zeros((1, width), dtype=np.int64)
    player = Compiled(problem, policy)
    return player.play(fresh(policy), problem.world(), *rngs, np.array([horizon]), counts, table)[1]


def unknown_threshold(horizon=2000, replications=10):
    """CPU ns per round of CSB-SU with 50 arms, its draws alone, and the interpreter."""
    problem = same_problem(ARMS)
    policy = {"a": CsbSu(ARMS, problem.budget)}
    logs = [
        played(problem, LoggedCsbSu(ARMS, problem.budget, horizon), horizon, r)["log"]
        for r in range(replications)
    ]
    with ThreadPoolExecutor(1) as executor:

        def ours():
            simulate(problem, policy, horizon=horizon, replications=replications, executor=executor)

        def floor():
            for r in range(replications):
                draw_only(logs[r], generator(0, r, POLICY))

        def interpreted():
            simulate(problem, policy, horizon=200, replications=1, compiled=False)

        rounds = horizon * replications
        return alternate(
            {"ours": (ours, rounds), "floor": (floor, rounds), "interpreted": (interpreted, 200)}
        )


def several_thresholds(arms=10, horizon=20_000):
    """CPU ns per round of CSB-MK and of the interpreter, from a state in which every round has its knapsack."""
    problem = problem_of(arms)
    policy = CsbMk(arms, problem.budget, epsilon=0.3, delta=0.01, gamma=0.005, wait=3)
    for name, value in played(problem, policy, 5000, 0).items():
        setattr(policy, name, value)
    assert policy.found
    with ThreadPoolExecutor(1) as executor:

        def ours():
            simulate(problem, {"a": policy}, horizon=horizon, replications=5, executor=executor)

        def interpreted():
            simulate(problem, {"a": policy}, horizon=300, replications=1, compiled=False)

        searched = simulate(problem, {"a": policy}, horizon=10, replications=1).values("a", "found_at")
        assert (searched == 0.0).all()
        return alternate({"ours": (ours, 5 * horizon), "interpreted": (interpreted, 300)})


def growth():
    """For each policy and K = 10, 100, 1000: CPU ns per round.

    CSB-DU only to K = 100: the knapsack of a thousand nearly equal estimates is given up.
    """
    makers = {
        "CSB-SU": lambda p: CsbSu(p.arms, p.budget),
        "CSB-DU": lambda p: CsbDu(p.arms, p.budget, gamma=0.05),
        "known thresholds": lambda p: KnownThresholds(p.arms, p.budget, p.thresholds),
    }
    rows = []
    for name, make in makers.items():
        for arms in (10, 100) if name == "CSB-DU" else (10, 100, 1000):
            problem = same_problem(arms) if name == "CSB-SU" else problem_of(arms)
            policy, horizon = {"a": make(problem)}, 200_000 // arms
            with ThreadPoolExecutor(1) as executor:

                def ours(problem=problem, policy=policy, horizon=horizon, executor=executor):
                    simulate(problem, policy, horizon=horizon, replications=2, executor=executor)

                rows.append((name, arms, alternate({"ours": (ours, 2 * horizon)}, 3)["ours"]))
    return rows
