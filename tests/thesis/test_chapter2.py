"""Chapter 2 as data: every claim is there, every experiment serves one, and the variants are what they say."""

import itertools
import math
import os

import numpy as np
import pytest

from weakfeedback import Results
from weakfeedback.cascade import CascadeProblem, UssUcb, instances
from weakfeedback.cascade.policies.variants import ForcedComparison, UssLcb, UssUcbExploring
from weakfeedback.cascade.problem import sampled_rows
from weakfeedback.experiments import judge, run_experiment, run_experiments
from weakfeedback.thesis.chapter2 import CLAIMS, EXPERIMENTS
from weakfeedback.thesis.chapter2.theorems import intransitive_rounds, prior_intransitivity

LINES = {
    1: "632",
    2: "632",
    3: "1263",
    4: "1211-1224",
    5: "1239-1252",
    6: "1256",
    7: "1281, 4726",
    8: "1281",
    9: "1301",
    10: "1301",
    11: "1301",
    12: "1318",
    13: "1318, 732",
    14: "860, 1413",
    15: "963",
    16: "715",
    17: "724",
    18: "622, 784, 835",
    19: "779",
    20: "932",
    21: "919-939, 956, 969",
    22: "984-988",
    23: "1160",
    24: "1175-1179",
    25: "626, 998, 1192",
    26: "773, 1008",
    27: "747, 809, 819",
    28: "628",
}
STEPS = [
    0.17,
    0.20,
    0.23,
    0.26,
    0.29,
    0.31,
    0.32,
    0.326,
    0.33,
    0.34,
    0.36,
    0.38,
    0.40,
    0.43,
    0.48,
    0.55,
    0.65,
]


def some(*numbers):
    return [claim for claim in CLAIMS if claim.number in numbers]


def test_every_claim_is_there_with_its_lines():
    assert {claim.number: claim.lines for claim in CLAIMS} == LINES
    assert len(CLAIMS) == len(LINES)


def test_claims_and_experiments_need_each_other():
    used = {name for claim in CLAIMS for name in claim.experiments}
    assert used == set(EXPERIMENTS)
    assert all(claim.experiments for claim in CLAIMS if claim.how == "simulation")


def test_only_what_cannot_be_run_is_argued():
    assert [claim.number for claim in CLAIMS if claim.how == "argued only"] == [25, 28]


def test_every_table_instance_is_compared_as_in_the_thesis():
    tables = [name for name in instances.names() if name.startswith(("bsc", "pima", "heart"))]
    for name in tables:
        experiment = EXPERIMENTS[f"ch2-compare-{name}"]
        assert (experiment.horizon, experiment.replications, experiment.instance) == (10_000, 100, name)
        assert experiment.needs == instances.describe(name).data
    assert len([name for name in EXPERIMENTS if name.startswith("ch2-compare-")]) == len(tables)


def test_stand_ins_have_the_role_of_what_they_replace():
    for experiment in EXPERIMENTS.values():
        if experiment.stand_in:
            printed, other = instances.describe(experiment.instance), instances.describe(experiment.stand_in)
            assert other.data == "built-in"
            assert other.stated_weak_dominance == printed.stated_weak_dominance
            last = [i.stated_optimal_arm == len(i.costs) - 1 for i in (printed, other)]
            assert last[0] == last[1]


def test_the_sweep_passes_through_zero_at_the_same_optimal_arm():
    problems = [EXPERIMENTS[f"ch2-xi-{step:g}"].problem()[0] for step in STEPS]
    assert [round(p.costs[2] - p.costs[1], 3) for p in problems] == STEPS
    assert {p.optimal_arm for p in problems} == {1}
    xis = [p.xi for p in problems]
    assert xis == sorted(xis)
    assert xis[0] < -0.1
    assert xis[-1] > 0.3


def test_random_cascades_are_the_same_in_every_run_and_dominant():
    for name, experiment in EXPERIMENTS.items():
        if name.startswith(("ch2-random-", "ch2-dominant-")):
            problem, again = experiment.problem()[0], experiment.problem()[0]
            assert problem.digest() == again.digest()
            assert problem.weak_dominance
            assert problem.strong_dominance or name.startswith("ch2-random-")
    places = {
        (p.optimal_arm > 0) + (p.optimal_arm == p.arms - 1)
        for p in (EXPERIMENTS[f"ch2-random-{k}"].problem()[0] for k in range(12))
    }
    assert places == {0, 1, 2}  # first, inside, last


def test_prior_intransitivity_against_sampling():
    costs = np.array([0.05, 0.10, 0.53])
    rng = np.random.default_rng(5)
    p12, p13, p23 = rng.random((3, 100_000))
    prefers = {(0, 1): p12 < costs[1] - costs[0], (0, 2): p13 < costs[2] - costs[0]}
    prefers[1, 2] = p23 < costs[2] - costs[1]
    for i, j in itertools.combinations(range(3), 2):
        prefers[j, i] = ~prefers[i, j]
    broken = np.zeros(100_000, dtype=bool)
    for i, j, k in itertools.permutations(range(3)):
        broken |= prefers[i, j] & prefers[j, k] & ~prefers[i, k]
    # Four standard errors: a false alarm once in 16 000 seeds.
    assert broken.mean() == pytest.approx(prior_intransitivity(costs), abs=4 * math.sqrt(0.2 / 100_000))


def test_intransitive_rounds_start_at_the_prior_and_fall():
    problem = instances.load("bsc-2")
    first = intransitive_rounds(problem, 1, 2_000)
    # Four standard errors of a share of .27 in 2000 draws.
    assert first == pytest.approx(prior_intransitivity(problem.costs), abs=0.04)
    assert intransitive_rounds(problem, 500, 4) < first / 2


def play(policy, problem, rounds, seed=0):
    rng, arms = np.random.default_rng(seed), []
    for row in sampled_rows(problem, rounds, rng):
        arm = policy.select(rng)
        policy.update(arm, row[1 : arm + 2], rng)
        arms.append(arm)
    return arms


def test_the_lower_bound_of_uss_lcb_by_hand():
    policy = UssLcb([0.0, 0.3], alpha=0.5)
    assert policy.select(None) == 1
    for outputs in ([0, 1], [1, 1], [1, 0], [0, 1]):
        policy.update(1, np.array(outputs), None)
    # 3 disagreements in 4 comparisons, t = 5: .75 - sqrt(.5 log(5) / 4) = .75 - .4485 = .3015 > .3
    assert policy.select(None) == 1
    policy.update(1, np.array([1, 1]), None)
    # 3 in 5, t = 6: .6 - sqrt(.5 log(6) / 5) = .6 - .4233 = .1767 < .3
    assert policy.select(None) == 0


def test_the_lower_confidence_variant_never_comes_back():
    arms = play(UssLcb(instances.load("bsc-4").costs), instances.load("bsc-4"), 2_000)
    left = next(t for t, arm in enumerate(arms) if arm == 0)
    assert left < 100
    assert set(arms[left:]) == {0}


def test_exploration_functions():
    problem = instances.load("bsc-2")
    plain = play(UssUcb(problem.costs, alpha=0.5), problem, 800)
    assert play(UssUcbExploring(problem.costs, 0.5), problem, 800) == plain
    # alpha log(t^2) = 2 alpha log t
    squared = play(UssUcbExploring(problem.costs, 0.5, power=2.0), problem, 800)
    assert squared == play(UssUcb(problem.costs, alpha=1.0), problem, 800)
    assert squared != plain


def test_forced_comparisons_are_made():
    problem = CascadeProblem([[1, 1, 1], [1, 0, 1], [1, 1, 0]], [0.75, 0.125, 0.125], [0.0, 0.25])
    arms = play(ForcedComparison(problem.costs), problem, 1_000)
    explored = np.cumsum(np.array(arms) == 1)
    rounds = np.arange(1, 1_001)
    assert (explored >= np.floor((rounds - 1e-9) ** (2 / 3))).all()
    assert arms[-1] == 0
    assert ForcedComparison([0.1]).select(None) == 0


@pytest.mark.parametrize("make", [UssLcb, UssUcbExploring, ForcedComparison])
def test_variants_run_compiled(make):
    from weakfeedback import simulate

    problem = instances.load("bsc-2")
    policies = {"v": make(problem.costs)}
    compiled = simulate(problem, policies, horizon=300, replications=2)
    assert compiled.compiled == {"v": True}
    interpreted = simulate(problem, policies, horizon=300, replications=2, compiled=False)
    assert (compiled.values("v") == interpreted.values("v")).all()


def test_sampled_rows_follow_the_law_and_cycle_the_data():
    law = instances.load("bsc-1")
    rows = sampled_rows(law, 100_000, np.random.default_rng(0))
    # Four standard errors of a share in 100 000 rows are below .0064.
    assert (rows[:, 1:] != rows[:, :1]).mean(axis=0) == pytest.approx(law.errors, abs=0.0064)
    data = instances.load("bc3-1")
    whole = sampled_rows(data, 2 * 569, np.random.default_rng(0))
    assert (whole[:, 1:] != whole[:, :1]).mean(axis=0) == pytest.approx(data.errors)


def test_computed_claims():
    verdicts = {claim.number: v for claim, v in judge(some(4, 11, 17, 19, 26, 27), {})}
    outcomes = {number: v.outcome for number, v in verdicts.items()}
    assert outcomes == {
        4: "with-reading",
        11: "reproduced",
        17: "not-reproduced",
        19: "reproduced",
        26: "reproduced",
        27: "with-reading",
    }
    assert {p.name: p.outcome for p in verdicts[17].parts} == {
        "2 arms, rho < 1": "reproduced",
        "2 arms, rho = 1": "not-reproduced",
        "3 arms, B not empty": "reproduced",
        "3 arms, B empty": "not-reproduced",
        "4 arms, B not empty": "reproduced",
        "4 arms, B empty": "not-reproduced",
    }
    assert all(p.counts for p in verdicts[17].parts)


def test_an_empty_b_is_never_met_under_weak_dominance_but_without_it():
    """The cascade behind claim 17, by hand: B^l and B^h have no arm in common."""
    # p_12 = .2, p_13 = .2, p_23 = 0 against extra costs .1, .3 and .2: arm 1 fails against 2, arm 2 is worth it
    # and beats 3; so B = {2}. With p_23 = .4 and p_13 = .2, arm 2 fails against 3 and 3 is not worth it over 1.
    law = {(1, 1, 0, 1): 0.2, (1, 1, 0, 0): 0.0, (1, 1, 1, 0): 0.2, (1, 1, 1, 1): 0.6}
    problem = CascadeProblem(list(law), list(law.values()), [0.0, 0.1, 0.4])
    assert problem.disagreement[0].tolist() == pytest.approx([0.0, 0.2, 0.2])
    assert problem.disagreement[1, 2] == pytest.approx(0.4)
    assert set(problem.lower_set) & set(problem.upper_set) == set()
    assert not problem.weak_dominance


def test_an_empty_b_by_hand_with_falling_error_rates():
    """Two more cascades without weak dominance whose disagreements no cascade with weak dominance has."""
    # Y^1 = Y^3, differing from Y^2 half of the time; Y a fair coin where they differ
    fair = CascadeProblem([[1, 1, 1, 1], [1, 1, 0, 1], [1, 0, 1, 0]], [0.5, 0.25, 0.25], [0.0, 0.3, 0.6])
    assert fair.errors.tolist() == [0.25, 0.25, 0.25]
    # outputs (a, a', a) .46 with Y fair, (a, a', a') .04 and (a, a, a') .03 with Y = a', else all right
    rows = [[1, 1, 0, 1], [1, 0, 1, 0], [1, 0, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]]
    falling = CascadeProblem(rows, [0.23, 0.23, 0.04, 0.03, 0.47], [0.0, 0.3, 0.6])
    assert falling.errors == pytest.approx([0.30, 0.26, 0.23])
    for problem in (fair, falling):
        assert problem.optimal_arm == 0
        assert problem.rho == pytest.approx(0.6)
        assert not set(problem.lower_set) & set(problem.upper_set)


def test_the_exact_rule_on_random_cascades():
    """Weak dominance implies one arm in B, the optimal one; B never has two; a twin exists unless B is empty."""
    from weakfeedback.thesis.chapter2.theorems import _has_twin, _make_clearly_without
    from weakfeedback.thesis.random_cascades import random_problems

    for problem in random_problems(400, 5):
        both = set(problem.lower_set) & set(problem.upper_set)
        assert len(both) <= 1
        assert not problem.weak_dominance or both == {problem.optimal_arm}
    for problem in _make_clearly_without(4)[:100]:
        assert _has_twin(problem) == bool(set(problem.lower_set) & set(problem.upper_set))


def test_forced_comparison_contradicts_claim_16_only_below_its_bound():
    """At every epsilon regret must be below the bound; one instance above it would support the claim."""
    name = "ch2-rho-one-0.03"
    results = run_experiment(EXPERIMENTS[name], replications=5)
    ((_, verdict),) = judge(some(16), {name: results})
    assert {p.outcome for p in verdict.parts} == {"not-reproduced", "skipped"}
    assert "regret 2.97e+04, bound 1.118e+05" in next(p.note for p in verdict.parts if p.n)
    facts = {**results.about["facts"], "forced": 1e4}
    other = Results(results.frame, results.compiled, {**results.about, "facts": facts})
    ((_, verdict),) = judge(some(16), {name: other})
    assert verdict.outcome == "reproduced"


def test_margins_count_only_where_there_is_something_to_gain(monkeypatch):
    """Claim 3: the last arm is optimal on heart-4, weak dominance fails on pima-5; stand-ins play their roles."""
    monkeypatch.delenv("WEAKFEEDBACK_DATA", raising=False)
    wanted = [EXPERIMENTS[f"ch2-compare-{name}"] for name in ("heart-1", "heart-4", "pima-5")]
    ((_, verdict),) = judge(some(3), run_experiments(wanted, replications=6))
    counted = {part.name: part.counts for part in verdict.parts if part.outcome != "skipped"}
    assert counted == {"heart-1": True, "heart-4": False, "pima-5": False}


def test_the_bound_on_uss_ts_counts_with_two_arms_only():
    """Claim 23: the counterexample has three arms, so it stands beside."""
    names = ("ch2-two-arms", "ch2-intransitive", "ch2-random-2", "ch2-random-0")
    results = {name: run_experiment(EXPERIMENTS[name], replications=20) for name in names}
    ((_, verdict),) = judge(some(23), results)
    parts = {part.name: part for part in verdict.parts if part.outcome != "skipped"}
    assert {name for name, part in parts.items() if part.counts} == {"two-arms", "random-2"}
    assert parts["two-arms"].outcome == "reproduced"  # 115 against 1.5 * 124, standard error 12 in 20 runs
    assert parts["intransitive"].outcome == "not-reproduced"  # 48 against 2 * 12, standard error 4


@pytest.fixture(scope="module")
def quick():
    names = ("ch2-compare-bsc-1", "ch2-compare-bsc-4")
    return {name: run_experiment(EXPERIMENTS[name], replications=8) for name in names}


def test_quick_comparison(quick):
    """TS below UCB with i* first, not with i* last; differences are many standard errors."""
    ((_, verdict),) = judge(some(2), quick)
    outcomes = {part.name: part.outcome for part in verdict.parts}
    assert (outcomes["bsc-1"], outcomes["bsc-4"], outcomes["bsc-2"]) == (
        "reproduced",
        "not-reproduced",
        "skipped",
    )
    assert verdict.outcome == "not-reproduced"


def test_swapping_rows_of_a_real_run_changes_the_verdict(quick):
    original = quick["ch2-compare-bsc-1"]
    names = {"USS-TS": "USS-UCB", "USS-UCB": "USS-TS"}
    frame = original.frame.assign(policy=original.frame["policy"].cat.rename_categories(names))
    swapped = Results(frame, original.compiled, original.about)
    outcomes = [
        judge(some(2), {"ch2-compare-bsc-1": results})[0][1].outcome for results in (original, swapped)
    ]
    assert outcomes == ["reproduced", "not-reproduced"]


def test_without_data_claims_are_judged_on_stand_ins_or_skipped(monkeypatch):
    monkeypatch.delenv("WEAKFEEDBACK_DATA", raising=False)
    wanted = [EXPERIMENTS["ch2-compare-heart-1"], EXPERIMENTS["ch2-compare-pima-3"]]
    results = run_experiments(wanted, replications=6)
    assert list(results) == ["ch2-compare-heart-1"]
    (_, three), (_, five) = judge(some(3, 5), results)
    notes = {part.name: part.note for part in three.parts}
    assert "stand-in bc4-1 for heart-1" in notes["heart-1"]
    assert "instead of the missing medical data" in three.reason
    assert five.outcome == "skipped"


@pytest.mark.slow
def test_all_of_chapter_2_at_full_size():
    """What is known of the claims. Stand-ins serve where the medical data are missing."""
    verdicts = {c.number: v for c, v in judge(CLAIMS, run_experiments(EXPERIMENTS.values()))}
    outcomes = {number: v.outcome for number, v in verdicts.items()}
    failing = {1, 2, 16, 17, 21, 22, 24}
    if os.environ.get("WEAKFEEDBACK_DATA"):
        failing.add(5)
    assert {n for n, outcome in outcomes.items() if outcome == "not-reproduced"} == failing
    assert {n for n, outcome in outcomes.items() if outcome == "with-reading"} == {3, 4, 8, 9, 10, 12, 23, 27}
    assert not [n for n, outcome in outcomes.items() if outcome == "inconclusive"]
    # USS-TS is not below USS-UCB exactly where the last arm is optimal.
    outcome = {part.name: part.outcome for part in verdicts[2].parts}
    assert {n for n, word in outcome.items() if word == "not-reproduced"} >= {"bsc-4", "pima-4", "heart-4"}
