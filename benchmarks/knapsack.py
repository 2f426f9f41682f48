"""The knapsack of 50 items against OR-Tools: inside compiled code, and called from Python."""

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from numba import njit
from ortools.algorithms.python import knapsack_solver

from benchmarks.timing import Timing, alternate
from weakfeedback.allocation import knapsack
from weakfeedback.allocation.compiled import compiled
from weakfeedback.kernels.knapsack import pack

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


def each(work: Callable[[], object], times: int) -> Callable[[], float]:
    """CPU ns of one of so many."""

    def measure() -> float:
        before = process_time()
        work()
        return (process_time() - before) / times * 1e9

    return measure


def knapsacks(kind: str, repetitions: int) -> dict[str, Timing]:
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
        "ours": each(lambda: solve_all(values, weights, capacities, 500), 500 * CASES),
        "from Python": each(from_python, 50 * CASES),
    }
    for name, solver in SOLVERS.items():

        def theirs(solver=solver):
            for one in cases:
                with_ortools(solver, *one)

        candidates[name] = each(theirs, CASES)
    return alternate(candidates, repetitions)


def measure(repetitions: int) -> dict[str, Any]:
    """All kinds of cases."""
    return {
        kind: {name: round(timing.best) for name, timing in knapsacks(kind, repetitions).items()}
        for kind in KINDS
    }


def text(found: dict[str, Any]) -> str:
    """The table in words."""
    parts = [
        "CPU ns per knapsack of 50 items; OR-Tools is called from Python, from arrays to the set of items"
    ]
    for kind, times in found.items():
        ours, called = times["ours"], times["from Python"]
        ratios = [f"{name} {times[name] / ours:.0f}x, {times[name] / called:.0f}x" for name in SOLVERS]
        parts.append(f"  {kind:14} compiled {ours}, from Python {called}; these against {'; '.join(ratios)}")
    return "\n".join(parts)
