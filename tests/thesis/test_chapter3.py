"""Chapter 3 as data: every claim is there, every experiment serves one, and verdicts follow the results."""

import os

import numpy as np
import pandas as pd
import pytest

from weakfeedback import Results
from weakfeedback.contextual import instances
from weakfeedback.experiments import judge, run_experiment, run_experiments
from weakfeedback.reproduce import registry
from weakfeedback.thesis.chapter3 import CLAIMS, EXPERIMENTS, TABLES
from weakfeedback.thesis.chapter3.experiments import (
    PD,
    SUPERVISED,
    last_optimal,
    more_arms,
    settled_arms,
)
from weakfeedback.thesis.chapter3.theory import random_problem

LINES = {
    29: "2439",
    30: "2439",
    31: "2439",
    32: "2439",
    33: "2467",
    34: "2934",
    35: "2934, 2201",
    36: "2895-2901",
    37: "2921-2925",
    38: "2968",
    39: "2979",
    40: "2420-2424",
    41: "2585",
    42: "3002",
    43: "3005",
    44: "2127, 2429",
    45: "2356, 2802",
    46: "2242",
    47: "2383, 2828",
    48: "2393",
    49: "2410, 2868",
}


def some(*numbers):
    return [claim for claim in CLAIMS if claim.number in numbers]


def made_up(slopes, horizon=5000, replications=30, facts=None, measure="regret"):
    """Results whose curves are straight lines, with 2 % noise between replications."""
    rng = np.random.default_rng(3)
    rounds = np.linspace(horizon / 20, horizon, 20).astype(int)
    frames = []
    for policy, slope in slopes.items():
        for r in range(replications):
            values = slope * (1.0 + 0.02 * rng.standard_normal()) * rounds
            frames.append(
                pd.DataFrame(
                    {"policy": policy, "replication": r, "round": rounds, "regret": values, measure: values}
                )
            )
    frame = pd.concat(frames, ignore_index=True)
    frame["policy"] = frame["policy"].astype("category")
    about = {"horizon": horizon, "facts": facts or {}, "stands_in_for": "", "instance": ""}
    return Results(frame, {}, about)


def test_every_claim_is_there_with_its_lines():
    assert {claim.number: claim.lines for claim in CLAIMS} == LINES
    assert len(CLAIMS) == len(LINES)


def test_claims_and_experiments_need_each_other():
    used = {name for claim in CLAIMS for name in claim.experiments}
    assert used == set(EXPERIMENTS)
    assert all(claim.experiments for claim in CLAIMS if claim.how == "simulation")
    assert not [claim.number for claim in CLAIMS if claim.how == "argued only"]


def test_the_chapter_is_registered():
    chapter = next(chapter for chapter in registry.chapters() if chapter.number == 3)
    assert dict(chapter.experiments) == EXPERIMENTS
    assert chapter.tables == TABLES


def test_the_sweep_and_the_cases_are_those_of_the_thesis():
    sweep = [*(f"ch3-synthetic-{k}" for k in range(1, 5)), "ch3-xi-0.75", "ch3-xi-0.8"]
    problems = [EXPERIMENTS[name].problem()[0] for name in sweep]
    assert [round(p.costs[4], 3) for p in problems] == [0.55, 0.6, 0.65, 0.7, 0.75, 0.8]
    assert {p.best_fixed_arm for p in problems} == {3}
    for arms in (4, 5):
        cases = [EXPERIMENTS[f"ch3-realizable-{arms}-{case}"] for case in (1, 2, 3, 4)]
        assert {(e.replications, e.horizon) for e in cases} == {(500, 5000)}


def test_real_data_are_played_with_both_kinds_of_labels_and_four_baselines():
    for data in ("pima", "heart"):
        for labels in ("random", "thresholded"):
            for k in (1, 2, 3):
                experiment = EXPERIMENTS[f"ch3-cost-{data}-{labels}-{k}"]
                assert experiment.needs == instances.describe(experiment.instance).data == data
                assert instances.load(experiment.stand_in).labels == labels
                assert {"I_t = 1", "I_t = 2", "I_t = 3", "Random", PD} == set(experiment.policies)
                assert experiment.measures[0] == "total_cost"


def test_the_example_of_more_arms_by_hand():
    three, four = more_arms(3), more_arms(4)
    assert three.optimal_arms.tolist() == four.optimal_arms.tolist() == [1, 2]
    # p_24 in the first context: .02 * .7 + .98 * .3 = .308, more than .4 - .2
    assert four.disagreement_at(0)[1, 3] == pytest.approx(0.308)
    assert settled_arms(three).tolist() == [1, 2]
    assert settled_arms(four).tolist() == [3, 3]


def test_the_last_arm_is_optimal_but_only_just():
    problem = last_optimal()
    assert set(problem.optimal_arms) == {2}
    assert problem.weak_dominance.all()
    margin = problem.disagreement[:, 1, 2] - (problem.costs[2] - problem.costs[1])
    assert 0.0 < margin.min() < 0.1


def test_random_problems_have_the_dominance_they_are_made_with():
    rng = np.random.default_rng(0)
    plain = [random_problem(rng) for _ in range(20)]
    strong = [random_problem(rng, strong=True) for _ in range(20)]
    assert max(p.strong_dominance_fraction for p in plain) < 1.0
    assert {p.strong_dominance_fraction for p in strong} == {1.0}


def test_supervision_by_made_up_results_and_swapped():
    outcomes = []
    for ours, told in ((0.2, 0.1), (0.1, 0.2), (0.1, 0.1)):
        results = {"ch3-synthetic-3": made_up({PD: ours, SUPERVISED: told})}
        outcomes.append([verdict.outcome for _, verdict in judge(some(31, 32), results)])
    assert outcomes == [
        ["reproduced", "inconclusive"],  # "eventually": 5000 rounds cannot contradict it
        ["not-reproduced", "reproduced"],
        ["not-reproduced", "reproduced"],
    ]


def test_fractions_of_our_classifiers_contradict_nothing():
    """Claim 37: near the printed fraction supports it, far from it decides nothing."""
    stated = instances.describe("heart-contextual-1").stated_weak_dominance_fraction
    for served, outcome in ((stated + 0.01, "reproduced"), (stated + 0.1, "inconclusive")):
        facts = {"wd_served": served, "wd_fixed": 0.0}
        ((_, verdict),) = judge(some(37), {"ch3-cost-heart-random-1": made_up({PD: 1.0}, facts=facts)})
        assert verdict.outcome == outcome


def test_the_bound_is_linear_in_the_features_at_a_fixed_least_eigenvalue():
    """Claim 40: what the norm of features allows is a remark beside it."""
    ((_, verdict),) = judge(some(40), {})
    parts = {part.name: part for part in verdict.parts}
    assert parts["linear in d'"].counts
    assert parts["linear in d'"].outcome == "reproduced"
    assert not parts["linear in d', |Phi| <= 1"].counts
    assert parts["linear in d', |Phi| <= 1"].effect > 3.5
    assert verdict.outcome == "with-reading"


def test_linear_regret_is_measured_by_what_it_tends_to():
    facts = {"limit": 0.04}
    verdicts = [
        judge(some(29), {"ch3-synthetic-1": made_up({PD: slope}, facts=facts)})[0][1].outcome
        for slope in (0.05, 0.002)
    ]
    assert verdicts == ["with-reading", "not-reproduced"]


def test_total_cost_is_judged_with_random_labels_and_the_three_baselines():
    slopes = {PD: 0.4, "I_t = 3": 0.7, "I_t = 2": 0.6, "Random": 0.5, "I_t = 1": 0.3}
    swapped = {**slopes, PD: 0.5, "Random": 0.4}
    for given, outcome in ((slopes, "reproduced"), (swapped, "not-reproduced")):
        results = {
            f"ch3-cost-pima-random-{k}": made_up(given, measure="total_cost", replications=10)
            for k in (1, 2, 3)
        }
        ((_, verdict),) = judge(some(33), results)
        assert verdict.outcome == outcome
        beside = {part.name: part for part in verdict.parts if not part.counts}
        assert beside["pima 1, random labels, against I_t = 1"].outcome == "not-reproduced"


def test_computed_claims():
    verdicts = {claim.number: v for claim, v in judge(some(36, 38, 39, 42), {})}
    assert {number: v.outcome for number, v in verdicts.items()} == {
        36: "with-reading",
        38: "inconclusive",
        39: "reproduced",
        42: "reproduced",
    }
    xis = {part.name: part for part in verdicts[38].parts}
    assert xis["4 arms, our theta_ij"].note == "xi is 0.0205, 0.0305, 0.0405, 0.0505"
    for arms in (4, 5):  # and it can fall, with disagreements that the printed costs allow
        moving = xis[f"{arms} arms, an example where i*(x) moves"]
        assert (moving.outcome, moving.counts) == ("reproduced", False)
        assert moving.note == "xi is 0.0400, 0.0025, 0.0004, 0.0001"
    shares = {part.name: part.effect for part in verdicts[36].parts}
    assert shares["synthetic-1, best fixed arm"] == pytest.approx(0.9972)
    assert shares["synthetic-1, by the definition"] == pytest.approx(0.73, abs=0.01)


def test_quick_run_of_the_example():
    names = ("ch3-arms-3", "ch3-arms-4")
    results = {name: run_experiment(EXPERIMENTS[name], replications=20) for name in names}
    # Weak dominance is lost: regret of a thousand instead of a few units; many standard errors.
    ((_, verdict),) = judge(some(43), results)
    assert verdict.outcome == "reproduced"
    ((_, other),) = judge(some(43), {names[0]: results[names[1]], names[1]: results[names[0]]})
    assert other.outcome == "not-reproduced"


@pytest.mark.slow
def test_all_of_chapter_3_at_full_size():
    """What is known of the claims. Stand-ins serve where the medical data are missing."""
    verdicts = {c.number: v for c, v in judge(CLAIMS, run_experiments(EXPERIMENTS.values()))}
    outcomes = {number: v.outcome for number, v in verdicts.items()}
    failing = {n for n, outcome in outcomes.items() if outcome == "not-reproduced"}
    if os.environ.get("WEAKFEEDBACK_DATA"):
        assert failing == {33, 34, 46}
    else:
        assert outcomes[37] == "skipped"
        assert failing - {33, 34} == {46}
    assert {n for n, outcome in outcomes.items() if outcome == "with-reading"} == {29, 35, 36, 40, 49}
    assert {outcomes[n] for n in (32, 38)} == {"inconclusive"}
    # Against the arm that it mostly plays, USS-PD wins a little with random labels; the others beat it.
    costs = {part.name: part for part in verdicts[33].parts}
    if os.environ.get("WEAKFEEDBACK_DATA"):
        assert costs["pima 1, random labels, against Random"].outcome == "not-reproduced"
        assert costs["pima 1, thresholded labels, against Random"].outcome == "reproduced"
