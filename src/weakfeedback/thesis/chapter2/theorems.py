"""Claims of chapter 2 that are theorems: bounds against simulated regret, learnability against twins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import numpy as np

from weakfeedback.cascade import CascadeProblem
from weakfeedback.cascade.problem import law_of, sampled_rows
from weakfeedback.engine.results import Results
from weakfeedback.experiments.evidence import below, beside, decided, last, reverse, skipped
from weakfeedback.experiments.model import Claim, ClaimList, Finding, Part, Run
from weakfeedback.thesis.chapter2 import experiments as ch2
from weakfeedback.thesis.chapter2.claims import each
from weakfeedback.thesis.chapter2.experiments import FORCED, TS, UCB
from weakfeedback.thesis.random_cascades import random_problems

RANDOM = tuple(f"ch2-random-{k}" for k in range(ch2.RANDOM))
DOMINANT = tuple(f"ch2-dominant-{k}" for k in range(ch2.DOMINANT))
RHO_ONE = ("ch2-rho-one", *(f"ch2-rho-one-{epsilon:g}" for epsilon in ch2.EPSILONS))
UNIFORM_TS = tuple(f"ch2-uniform-ts-{horizon}" for horizon in ch2.UNIFORM_HORIZONS)
# The bound on USS-TS has no constants, only a leading term in log T. Growth over the last decade of rounds of up to 1.5
# times that term (epsilon = 1/2) supports it, more than twice contradicts it. Both factors were set after a pilot run;
# the verdict is the same with 1.5 for both.
SUPPORTS, CONTRADICTS = 1.5, 2.0
INTRANSITIVE = 0.2
TWINS = 300


CLAIMS = ClaimList()


@CLAIMS.tested(16, "715", RHO_ONE)
def boundary_not_learnable(run: Run) -> Finding:
    """The set {P in USS : rho >= 1} is not learnable"""
    # contradicted if one policy stays below its bound on all instances of the proof.

    def part(name: str, r: Results) -> Part:
        regret, bound = last(r, FORCED), r.about["facts"]["forced"]
        return reverse(below(name, regret - bound, note=f"regret {regret.mean():.4g}, bound {bound:.4g}"))

    return Finding(
        tuple(each(run, RHO_ONE, part)),
        rule="any",
        summary="One policy, forced comparison, learns the whole set: on every instance with rho >= 1 its regret is "
        "at most Delta_max (T^(2/3) + 2 + K^2 (1 + log T)) + 3 T^(2/3) sqrt(log T). This is proved in the code, and "
        "the pair of the proof satisfies it at every epsilon tried. At epsilon = .01 and .03 a million rounds are "
        "still too few to see the regret flatten; the bound covers them. An arm i that ties, C_j - C_i = p_ij, "
        "loses nothing to j; if p_ij is larger by epsilon, choosing i loses at most epsilon per round. So a policy "
        "need not decide which of the two cases it faces.",
    )


@CLAIMS.tested(17, "724", how="property")
def maximal(_run: Run) -> Finding:
    """The set P_WD is a maximal learnable set"""
    # an instance without weak dominance can be added if and only if B is empty, ties apart.
    # It cannot be added if it has a twin with weak dominance, the same outputs and no optimal arm in common. B never
    # has two arms, and is not empty under weak dominance. So where it is empty there is no twin.
    two, tied = _make_clearly_without(2), _make_tied()
    found = sum(_has_twin(problem) for problem in two)
    apart = sum(problem.gaps[0] + _as_truth(problem, 1).gaps[0] > 1e-9 for problem in tied)
    note = f"arm 1 loses nothing in {len(tied) - apart} of {len(tied)} cascades and their twins"
    parts = [
        decided(
            "2 arms, rho < 1",
            found == len(two),
            found,
            len(two),
            f"a twin for {found} of {len(two)} cascades",
        ),
        decided("2 arms, rho = 1", apart == len(tied), len(tied) - apart, len(tied), note),
    ]
    for arms in (3, 4):
        some = _make_clearly_without(arms)
        full = [problem for problem in some if set(problem.lower_set) & set(problem.upper_set)]
        twins, lonely = sum(_has_twin(problem) for problem in full), len(some) - len(full)
        words = f"a twin for {twins} of {len(full)} cascades"
        parts.append(decided(f"{arms} arms, B not empty", twins == len(full), twins, len(full), words))
        words = f"no twin is possible for {lonely} of {len(some)} random cascades"
        parts.append(decided(f"{arms} arms, B empty", lonely == 0, lonely, len(some), words))
    return Finding(
        tuple(parts),
        summary="Learnable is a property of sets, as we read Hanawal et al. (2017), from whom the thesis takes it: "
        "one policy has sub-linear regret on every instance of the set. Maximal means that this holds for no larger "
        "set. The exact rule, apart from ties: a cascade without weak dominance can be added if and only if no arm "
        "passes both tests (B is empty). If B = {i}, the same outputs with Y = Y^i are a twin that has weak "
        "dominance and shares no optimal arm, so no policy is sub-linear on both. If B is empty, no cascade with "
        "weak dominance has these disagreements (claim 26), and a policy can see that. With 2 arms B is never "
        "empty, but ties, rho = 1, can be added (claim 16), for any number of arms. From 3 arms on there are many "
        "maximal sets, none of them canonical.",
    )


def _make_tied() -> list[CascadeProblem]:
    """Return random cascades of 2 arms whose extra cost equals their disagreement, the first arm being better."""
    tied = []
    for problem in random_problems(4 * TWINS, 170, lambda p: p.arms == 2 and p.disagreement[0, 1] > 0.01):
        outcomes, law = law_of(problem)
        tie = CascadeProblem(outcomes, law, [0.0, problem.disagreement[0, 1]])
        if tie.gaps[1] > 0.01:
            tied.append(tie)
    return tied[:TWINS]


def _make_clearly_without(arms: int) -> list[CascadeProblem]:
    """Return random cascades with rho < 1 and one optimal arm, in which no comparison is nearly a tie."""

    def wanted(problem: CascadeProblem) -> bool:
        if problem.arms != arms or problem.xi > -0.01 or np.sort(problem.gaps)[1] < 0.01:
            return False
        margin = problem.costs[None, :] - problem.costs[:, None] - problem.disagreement
        return bool((np.abs(margin[np.triu_indices(arms, 1)]) > 0.01).all())

    return random_problems(TWINS, 17, wanted)


def _as_truth(problem: CascadeProblem, arm: int) -> CascadeProblem:
    """Return the same outputs and costs, with one of the arms as the truth."""
    outcomes, law = law_of(problem)
    rows = outcomes.copy()
    rows[:, 0] = rows[:, arm + 1]
    return CascadeProblem(rows, law, problem.costs)


def _has_twin(problem: CascadeProblem) -> bool:
    """Whether B has one arm, and with that arm as the truth dominance holds and no arm is optimal in both."""
    both = set(problem.lower_set) & set(problem.upper_set)
    if len(both) != 1:
        return False
    twin = _as_truth(problem, both.pop())
    return bool(twin.weak_dominance and (problem.gaps + twin.gaps > 1e-12).all())


def _pulls_below(name: str, results: Results, arms: Iterable[int]) -> list[Part]:
    bound = results.about["facts"]["ucb_pulls"]
    parts = []
    for j in arms:
        pulls = last(results, UCB, f"pulls_{j}")
        note = f"{pulls.mean():.4g} pulls, bound {bound[j]:.4g}"
        parts.append(below(f"arm {j + 1} of {name}", pulls - bound[j], note=note))
    return parts


@CLAIMS.tested(20, "932", RANDOM)
def finitely_many_pulls(run: Run) -> Finding:
    """the mean number of times a arm j < i* is selected, is finite"""

    def part(name: str, r: Results) -> list[Part]:
        return _pulls_below(name, r, range(r.about["facts"]["optimal_arm"]))

    parts = each(run, RANDOM, part)
    return Finding(
        tuple(parts), summary="Pulls after 10 000 rounds against the bound, which does not grow with T."
    )


@CLAIMS.tested(21, "919-939, 956, 969", (*RANDOM, "ch2-empty-set"))
def ucb_dependent_bound(run: Run) -> Finding:
    """for any P in P_WD, the expected regret of USS-UCB in T rounds is bounded as below"""

    def part(name: str, r: Results) -> list[Part]:
        facts, regret = r.about["facts"], last(r, UCB)
        bound, repaired = facts["ucb_regret"], facts["ucb_repaired"]
        note = f"{regret.mean():.4g}, bound {bound:.4g}"
        sound = f"{regret.mean():.4g}, bound {repaired:.4g}"
        return [
            *_pulls_below(name, r, range(facts["optimal_arm"] + 1, len(facts["gaps"]))),
            below(f"regret on {name}", regret - bound, note=note),
            beside(below(f"regret on {name}, repaired bound", regret - repaired, note=sound)),
        ]

    parts = each(run, (*RANDOM, "ch2-empty-set"), part)
    return Finding(
        tuple(parts),
        summary="With three or more arms the last arm is also played when no arm passes its tests, which says "
        "nothing about its own disagreement with the optimal arm; the bound leaves these rounds out. Only the "
        "theorem with each arm's own xi_j fails. With the smallest xi the regret is logarithmic in T, as its "
        "corollary says, and the repaired bound (a part that does not count) is proved.",
    )


@CLAIMS.tested(22, "984-988", (*RANDOM, *DOMINANT, "ch2-uniform-ucb", "ch2-four-copies"))
def ucb_uniform_bounds(run: Run) -> Finding:
    """for any instance in P_WD is bounded as 3 (3 alpha K log f(T))^{1/3} T^{2/3} [...] for any instance in P_SD is
    bounded as 4 (alpha K T log f(T))^{1/2}"""

    def against(key: str) -> Callable[[str, Results], Part]:
        def part(name: str, r: Results) -> Part:
            regret, bound = last(r, UCB), r.about["facts"][key]
            words = "weak" if key == "ucb_uniform" else "strong"
            return below(
                f"{name} ({words})", regret - bound, note=f"regret {regret.mean():.6g}, bound {bound:.6g}"
            )

        return part

    parts = each(run, (*RANDOM, "ch2-uniform-ucb"), against("ucb_uniform"))
    parts += each(run, (*DOMINANT, "ch2-four-copies"), against("ucb_strong"))
    return Finding(
        tuple(parts),
        summary="The weak-dominance bound does not hold uniformly: for a tiny xi the proof optimises over a xi that "
        "it may not choose. The strong-dominance bound fails from four arms on, with regret linear in T; for three "
        "arms its order holds.",
    )


@CLAIMS.tested(23, "1160", ("ch2-two-arms", *RANDOM, "ch2-intransitive"))
def ts_dependent_bound(run: Run) -> Finding:
    """Let P in P_WD and satisfies the transitivity property. [...] the expected regret of USS-TS in T rounds is bounded
    by [...]"""
    # only two arms count, where its condition holds.

    def part(name: str, r: Results) -> Part:
        regret, known = r.values(TS), r.about["facts"]
        decade = known["ts_decade"]
        growth = regret[:, -1] - regret[:, regret.shape[1] // 10 - 1]
        # one unit of regret: where i* = K the leading term is 0 and the bound is a constant
        note = f"last tenfold of rounds adds {growth.mean():.4g}, leading term {decade:.4g}"
        found = below(name, growth - SUPPORTS * decade - 1.0, growth - CONTRADICTS * decade - 1.0, note)
        arms = len(known["gaps"])
        return found if arms == 2 else beside(found, f"{arms} arms: the theorem says nothing about it")

    parts = each(run, ("ch2-two-arms", *RANDOM, "ch2-intransitive"), part)
    rate = prior_intransitivity([0.05, 0.10, 0.53])
    during = intransitive_rounds(CascadeProblem.bsc(ch2.BSC_ERRORS, [0.05, 0.10, 0.53]), 2_000, 5)
    measured = (
        f"{rate:.1%} of prior draws and {during:.1%} of the first 2000 rounds on bsc-2 are intransitive"
    )
    parts.append(beside(decided("transitive samples on bsc-2", rate < INTRANSITIVE, rate, note=measured)))
    return Finding(
        tuple(parts),
        summary="The theorem is not refuted. With three or more arms and independent draws USS-TS never satisfies its "
        f"condition ({measured}), so there it says nothing. Without the condition the bound does fail: where a skipped "
        "arm leads to a worse one (the part intransitive, which does not count), regret grows several times faster "
        "than the leading term.",
        reading="with two arms, where the samples are always transitive.",
    )


def prior_intransitivity(costs: Iterable[float]) -> float:
    """Return the exact share of prior draws (uniform, independent) in which the preferences of three arms form a cycle.

    >>> round(prior_intransitivity([0.05, 0.10, 0.53]), 3)
    0.271
    """
    first, second, third = costs
    p12, p23, p13 = (min(gap, 1.0) for gap in (second - first, third - second, third - first))
    return p12 * p23 * (1.0 - p13) + (1.0 - p12) * (1.0 - p23) * p13


def intransitive_rounds(problem: CascadeProblem, horizon: int, replications: int, seed: int = 0) -> float:
    """Return the share of rounds of USS-TS in which one draw for each pair of arms gives preferences with a cycle.

    The policy plays as usual; another generator samples its posteriors a second time, for all pairs.
    """
    from weakfeedback.cascade import UssTs
    from weakfeedback.engine.seeds import generator

    cyclic = 0
    for replication in range(replications):
        world_rng, rng, other = (generator(seed, replication, stream) for stream in (0, 1, 2))
        policy = UssTs(problem.costs)
        for row in sampled_rows(problem, horizon, world_rng):
            prefers = problem.costs[None, :] - problem.costs[:, None] > other.beta(policy.S, policy.F)
            cyclic += _has_cycle(prefers)
            arm = policy.select(rng)
            policy.update(arm, row[1 : arm + 2], rng)
    return cyclic / (horizon * replications)


def _has_cycle(prefers: np.ndarray) -> bool:
    """Whether three arms i < j < k are preferred in a circle; only prefers[i, j] with i < j is read."""
    for i, j, k in itertools.combinations(range(len(prefers)), 3):
        if prefers[i, j] == prefers[j, k] != prefers[i, k]:
            return True
    return False


@CLAIMS.tested(24, "1175-1179", (*UNIFORM_TS, *DOMINANT))
def ts_uniform_bounds(run: Run) -> Finding:
    """for any instance in P_SD is bounded as O(sqrt(K T ln T)) [...] for any instance in P_WD is bounded as O((K ln
    T)^{1/3} T^{2/3})"""
    # regret over the claimed order must not grow with T.
    parts: list[Part] = []
    if all(name in run for name in UNIFORM_TS):
        few, many = run[UNIFORM_TS[0]], run[UNIFORM_TS[-1]]
        a, b = (r.values(TS)[:, -1] / r.about["facts"]["ts_uniform"] for r in (few, many))
        note = (
            f"regret over (K log T)^(1/3) T^(2/3): {a.mean():.3g} at T = 1000, {b.mean():.3g} at T = 100 000"
        )
        parts.append(below("weak dominance, xi = 1 / (2 sqrt T)", b - 1.2 * a, b - 1.5 * a, note))
    else:
        parts.append(skipped("weak dominance"))

    def part(name: str, r: Results) -> Part:
        regret, facts = r.values(TS), r.about["facts"]
        early = regret[:, regret.shape[1] // 10 - 1] / facts["ts_uniform_before"]
        late = regret[:, -1] / facts["ts_uniform"]
        note = f"regret over sqrt(K T log T): {early.mean():.3g} at T / 10, {late.mean():.3g} at T"
        return below(f"{name} (strong)", late - 1.2 * early, late - 1.5 * early, note)

    parts += each(run, DOMINANT, part)
    return Finding(
        tuple(parts),
        summary="On the two-arm family with xi = 1 / (2 sqrt T) regret is linear in T, so no constant covers it; with "
        "two arms samples are transitive, so no condition of the theorem is violated.",
    )


CLAIMS.append(
    Claim(
        25,
        "We thus conclude that the regret bound of USS-UCB is near-optimal in T",
        "626, 998, 1192",
        "argued only",
        why="it relies on the classification of partial monitoring games by their rates, which no run can show, and "
        "on the uniform bounds of claims 22 and 24, which do not hold.",
    )
)
