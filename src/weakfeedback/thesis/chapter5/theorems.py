"""Claims of chapter 5 that its theorems make: constant regret, rounds and collisions, epsilon-optimal ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from weakfeedback.engine.results import Results
from weakfeedback.experiments.evidence import beside, decided, last, lower
from weakfeedback.experiments.model import ClaimList, Finding, Part, Run
from weakfeedback.multiplayer import Dlc, MultiplayerProblem, theory
from weakfeedback.thesis.chapter5.evidence import (
    ARMS,
    DISTINCT,
    E1,
    E2,
    ENDS,
    FAIR,
    GAPS,
    LEARNED,
    LONG,
    ROUNDING,
    SLACK,
    each,
    ended,
    lower_on,
    pooled,
    since,
)
from weakfeedback.thesis.chapter5.experiments import DLC, DLC_N, LIX, LIX_N, ROUNDED, ROUNDED_N
from weakfeedback.thesis.chapter5.experiments import FAIR as ROTATING
from weakfeedback.thesis.chapter5.protocol import Trace, follow, traces

ONCE, TWICE = 0.95, 0.90  # 1 - delta and 1 - 2 delta at the thesis's delta = .05
BOUNDED = (*DISTINCT, E2, LONG)  # where the tolerance eps/N lets the search finish
SHARED = (*ARMS, *LEARNED[1:], *GAPS)  # with more than one player, and fewer than arms


CLAIMS = ClaimList()


@CLAIMS.tested(84, "4212, 4264, 4732", (*BOUNDED, ENDS))
def constant(run: Run) -> Finding:
    """algorithms whose regret is constant with high probability, i.e., the algorithm incurs regret only for finitely
    many rounds"""

    def still(policy: str, r: Results) -> np.ndarray:
        found: np.ndarray = ended(r, policy) & (
            np.abs(since(r, policy, "regret", 0.75)) < SLACK * r.about["horizon"]
        )
        return found

    return Finding(
        (
            pooled(DLC_N, run, BOUNDED, partial(still, DLC_N), TWICE),
            pooled(LIX_N, run, BOUNDED, partial(still, LIX_N), TWICE),
            *(
                beside(
                    pooled(f"{policy} on e1", run, [ENDS], partial(still, policy), TWICE), "eps above the gap"
                )
                for policy in (DLC, LIX, ROUNDED)
            ),
        ),
        reading="with a tolerance below the gap, and enough rounds to end. An end that is only epsilon-optimal "
        "costs up to epsilon in every later round.",
        summary="No regret in the last quarter of the run, in more than a share 1 - 2 delta of the runs.",
    )


def _optimal(policy: str, results: Results) -> np.ndarray:
    found: np.ndarray = last(results, policy, "optimal") == 1
    return found


@CLAIMS.tested(85, "4167", GAPS)
def without_the_gap(run: Run) -> Finding:
    """it requires no information about the difference of the means of the channel gains"""
    return Finding(
        tuple(pooled(policy, run, GAPS, partial(_optimal, policy), TWICE) for policy in (DLC_N, LIX_N)),
        summary="The same players, without knowing the gap, end on the best arms at gaps from .02 to .1.",
    )


@CLAIMS.tested(90, "4398", BOUNDED)
def explored_in_time(run: Run) -> Finding:
    """T_AE <= C_0(alpha) H_{eps,c} log(k_1 K (H_{eps,c})^alpha / delta)"""

    def within(fact: str, r: Results) -> np.ndarray:
        rounds = last(r, DLC_N, "settled_at") - r.about["facts"]["opening"]
        found: np.ndarray = ended(r, DLC_N) & (rounds <= r.about["facts"][fact])
        return found

    ids = tuple(name for name in BOUNDED if not name.endswith("-10") or name.startswith("ch5-arms"))
    return Finding(
        (
            pooled("eps/N in H", run, ids, partial(within, "explored"), ONCE),
            beside(
                pooled("eps in H, as printed, on e1", run, [LONG], partial(within, "explored_printed"), ONCE)
            ),
        ),
        reading="H has the tolerance eps/N of the stopping rule, where eps is printed.",
        summary="All rounds after indexing, so also those of communication.",
    )


@CLAIMS.tested(93, "4370-4376, 4434, 4443", BOUNDED)
def dlc_bounds(run: Run) -> Finding:
    """the sample complexity of DLC is bounded with probability at least 1-2delta [...] the total collisions in DLC is
    bounded [...] Regret(DLC) <= N T(DLC)"""

    def rounds(r: Results) -> np.ndarray:
        facts = r.about["facts"]
        waiting = max(facts["dlc_regret"] / facts["N"] - facts["dlc_rounds"], 0.0)
        found: np.ndarray = ended(r, DLC_N) & (last(r, DLC_N, "settled_at") <= facts["dlc_rounds"] + waiting)
        return found

    def collisions(r: Results) -> np.ndarray:
        return last(r, DLC_N, "collisions") <= _printed_collisions(r)

    def regret(r: Results) -> np.ndarray:
        found: np.ndarray = last(r, DLC_N) <= r.about["facts"]["dlc_regret"]
        return found

    def printed(r: Results) -> np.ndarray:
        facts = r.about["facts"]
        bound = facts["opening"] + facts["explored_printed"] + facts["telling"]
        found: np.ndarray = ended(r, DLC_N) & (last(r, DLC_N, "settled_at") <= bound)
        return found

    return Finding(
        (
            pooled("rounds", run, BOUNDED, rounds, TWICE),
            pooled("collisions, as printed", run, BOUNDED, collisions, TWICE),
            pooled("regret", run, BOUNDED, regret, TWICE),
            beside(pooled("rounds as printed, on e1", run, [LONG], printed, TWICE)),
        ),
        reading="H has the tolerance eps/N, the bracket closes after the logarithm, and players that wait for the "
        "others to be served add T_P. The bound on collisions holds as printed because N T_RP is so large; its "
        "other terms count meetings.",
    )


def _printed_collisions(results: Results) -> float:
    facts = results.about["facts"]
    n, k = facts["N"], facts["K"]
    return float(n * (facts["opening"] - 2 * k + 1) + (n - 1) * (n / 2 + math.ceil(math.log2(k)) + 1))


@CLAIMS.tested(99, "4351", (FAIR,))
def fair_rotation(run: Run) -> Finding:
    """they can sequentially hop on the N arms, which ensures no collision and optimal allocation in every round"""

    def quiet(name: str, r: Results) -> Part:
        late = since(r, ROTATING, "collisions", 0.5)
        regret = np.abs(since(r, ROTATING, "regret", 0.5))
        right = ended(r, ROTATING)
        note = f"{int(right.sum())} of {right.size} runs settled in time"
        fine = bool(right.any() and (late[right] == 0).all() and (regret[right] < 1e-6).all())
        return decided(f"no collision and no regret once settled on {name}", fine, n=right.size, note=note)

    return Finding((*each(run, [FAIR], quiet), _equal_turns()))


def _equal_turns() -> Part:
    """Count how often each of four players has each arm in a hundred turns."""
    problem = MultiplayerProblem([0.9, 0.8, 0.85, 0.95, 0.2, 0.1], 4)
    trace = follow(lambda: Dlc(6, 0.4, 0.05, "eps", fair=True), problem, 99, after=399)
    played = np.array(trace.plays)
    turns = [[int((played[:, n] == arm).sum()) for arm in np.unique(played)] for n in range(4)]
    equal = played.shape[0] == 400 and all(row == [100] * 4 for row in turns)
    best = {trace.order[arm] for arm in np.unique(played)} == {0, 1, 2, 3}
    return decided("each player has each of the N arms equally often", equal and best, n=len(played))


@CLAIMS.tested(100, "4461, 4604", (E1, E2, *SHARED))
def better_use(run: Run) -> Finding:
    """the non-Leaders do not need to be idle [...] which allows efficient utilization of arms resulting in the improved
    regret performance"""
    parts = [lower_on(run, name, LIX, DLC) for name in (E1, E2)]
    parts += each(run, SHARED, lambda name, r: lower(f"less regret on {name}", r, LIX, DLC))
    parts += [beside(lower_on(run, name, LIX_N, DLC_N)) for name in (E1, E2)]
    return Finding(
        (
            *parts,
            _inequality("the theorem's inequality, for all but the leader", lambda trace: trace.others),
            beside(_inequality("the theorem's inequality, as stated", lambda trace: trace.earned)),
        ),
        reading="the theorem counts what the other players gain. It ignores that the two leaders explore different "
        "arms, which can cost DLC-LIX more than the others gain beyond the bound.",
        summary="Final regret, wherever there are players besides the leader and arms to choose from.",
    )


def _inequality(name: str, earned: Callable[[Trace], list[float]]) -> Part:
    """Test whether DLC-LIX saves as much as the theorem says while both explore, from the same seats."""
    lacks = []
    for problem, one, two in traces():
        rounds = min(one.slots["learning"], two.slots["learning"])
        gained = math.fsum(earned(two)[:rounds]) - math.fsum(earned(one)[:rounds])
        reserved = [float(problem.means[one.order[arm]]) for arm in one.seats[1:]]
        lacks.append(theory.regret_saved(rounds, problem.arms, reserved) - gained)
    broken = sum(lack > SLACK for lack in lacks)
    note = f"{broken} exceptions in {len(lacks)} random problems, largest lack {max(lacks):.3g}"
    return decided(name, broken == 0, broken, len(lacks), note)


@CLAIMS.tested(101, "4525, 4557-4583", (*BOUNDED, E1, ROUNDING))
def lix_bounds(run: Run) -> Finding:
    """the sample complexity of DLC-LIX with probability at least 1-2delta is bounded [...] the maximum number of
    collisions that can occur in DLC-LIX is C(DLC-LIX)"""

    def rounds(policy: str, r: Results) -> np.ndarray:
        found: np.ndarray = ended(r, policy) & (
            last(r, policy, "settled_at") <= r.about["facts"]["lix_rounds"]
        )
        return found

    def regret(policy: str, r: Results) -> np.ndarray:
        found: np.ndarray = last(r, policy) <= r.about["facts"]["lix_regret"]
        return found

    def collisions(r: Results) -> np.ndarray:
        facts = r.about["facts"]
        n, k = facts["N"], facts["K"]
        word = math.ceil(math.log2(2 / facts["epsilon"])) + math.ceil(math.log2(k))
        bound = n * (facts["opening"] - 2 * k + 1) + n * (n - 1) / 2 + (n - 1) * word
        found: np.ndarray = last(r, ROUNDED, "collisions") <= bound
        return found

    ours = (E2, LONG, ROUNDING)
    return Finding(
        (
            pooled("rounds", run, BOUNDED, partial(rounds, LIX_N), TWICE),
            pooled("regret", run, BOUNDED, partial(regret, LIX_N), TWICE),
            pooled("collisions, as printed", run, (*DISTINCT, E1, E2), collisions, TWICE),
            beside(pooled("rounds, means to eps/2", run, ours, partial(rounds, ROUNDED_N), TWICE)),
            beside(pooled("regret, means to eps/2", run, ours, partial(regret, ROUNDED_N), TWICE)),
        ),
        reading="H has the tolerance eps/N, and the N-1 rounds of the signals are added. The bound on collisions "
        "counts meetings, and holds as printed because N T_RP is so large.",
    )


@CLAIMS.tested(102, "4339, 4521", (*BOUNDED, ROUNDING))
def nearly_optimal(run: Run) -> Finding:
    """AdaptiveExplore finds (eps,delta)-optimal allocation [...] the ALC phase of DLC-LIX terminates with
    (eps,delta)-optimal allocation"""

    def near(policy: str, r: Results) -> np.ndarray:
        found: np.ndarray = ended(r, policy) & (
            last(r, policy, "shortfall") <= r.about["facts"]["epsilon"] + SLACK
        )
        return found

    return Finding(
        (
            pooled(DLC_N, run, BOUNDED, partial(near, DLC_N), ONCE),
            pooled(f"{LIX_N}, exact sums", run, (*BOUNDED, ROUNDING), partial(near, LIX_N), ONCE),
            pooled(f"{ROUNDED_N}, as printed", run, [ROUNDING], partial(near, ROUNDED_N), ONCE),
            beside(pooled(f"{ROUNDED_N} elsewhere", run, (E2, LONG), partial(near, ROUNDED_N), ONCE)),
        ),
        summary="Rounding each mean down by up to eps/2 misleads the leader by as much per player, and errors of "
        "N players add up. With exact sums, or means to eps/(2N), no run contradicted it.",
    )
