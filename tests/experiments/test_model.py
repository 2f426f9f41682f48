"""The machinery of claims: tests, correction, verdicts, stand-ins. Results are made up, so that the truth is known."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from tests.rig.refusals import refusals

from weakfeedback import Results
from weakfeedback.cascade import FixedArm, RandomArm, UssTs
from weakfeedback.datasets import DataMissing
from weakfeedback.experiments import Claim, Experiment, Finding, Part, judge, run_experiment, run_experiments
from weakfeedback.experiments.evidence import (
    above,
    below,
    beside,
    decided,
    linear,
    lower,
    reverse,
    same,
    skipped,
    sublinear,
)
from weakfeedback.experiments.judge import conclude
from weakfeedback.stats import holm

MARKS = 200


def made_up(curves):
    """Results with the given regret curves, one array (replications, marks) per policy."""
    parts = []
    for policy, regret in curves.items():
        replications, marks = regret.shape
        parts.append(
            pd.DataFrame(
                {
                    "policy": pd.Categorical([policy] * regret.size, categories=list(curves)),
                    "replication": np.repeat(np.arange(replications), marks),
                    "round": np.tile(np.arange(1, marks + 1) * 50, replications),
                    "regret": regret.ravel(),
                }
            )
        )
    return Results(pd.concat(parts, ignore_index=True), {}, {"horizon": 50 * MARKS})


def growing(shape, scale=100.0, replications=30, noise=0.02, seed=0):
    """Curves of a given shape on (0, 1], each scaled by a noisy factor."""
    factors = 1.0 + noise * np.random.default_rng(seed).standard_normal(replications)
    return scale * factors[:, None] * shape(np.arange(1, MARKS + 1) / MARKS)


def claim(test, number=1, **options):
    return Claim(number, "A is lower than B", "1", "simulation", test, ("e",), **options)


def verdict_of(*parts, **options):
    finding = Finding(tuple(parts), **options)
    return judge([claim(lambda run: finding)], {})[0][1]


def verdict_on(results):
    return judge([claim(lambda run: Finding((lower("e", run["e"], "A", "B"),)))], {"e": results})[0][1]


def test_holm_by_hand():
    # Sorted .005 .01 .03 .04 by 4, 3, 2, 1: .02 .03 .06 .04, and the last may not be below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_never_exceeds_one_and_leaves_out_missing_values():
    adjusted = holm([0.6, math.nan, 0.5])
    assert adjusted[[0, 2]].tolist() == [1.0, 1.0]
    assert math.isnan(adjusted[1])
    assert holm([]).size == 0


def test_one_sided_tests_agree_with_scipy():
    values = np.random.default_rng(1).normal(-0.3, 1.0, 25)
    part = below("x", values, values + 0.2)
    assert part.p_for == pytest.approx(scipy_stats.ttest_1samp(values, 0.0, alternative="less").pvalue)
    assert part.p_against == pytest.approx(
        scipy_stats.ttest_1samp(values + 0.2, 0.0, alternative="greater").pvalue
    )
    interval = scipy_stats.t.interval(0.95, 24, values.mean(), scipy_stats.sem(values))
    assert (part.low, part.high) == pytest.approx(interval)
    mirrored = above("x", -values, -values - 0.2)
    assert (mirrored.p_for, mirrored.p_against) == pytest.approx((part.p_for, part.p_against))
    assert (mirrored.effect, mirrored.low) == pytest.approx((-part.effect, -part.high))


def test_swapping_the_policies_changes_the_verdict():
    a, b = growing(np.sqrt, 100.0), growing(np.sqrt, 150.0, seed=1)
    assert verdict_on(made_up({"A": a, "B": b})).outcome == "reproduced"
    swapped = verdict_on(made_up({"A": b, "B": a}))
    assert swapped.outcome == "not-reproduced"
    assert swapped.effect == pytest.approx(b[:, -1].mean() - a[:, -1].mean())
    assert swapped.n == 30


def test_equal_regret_contradicts_lower_and_noise_decides_nothing():
    a = growing(np.sqrt)
    assert verdict_on(made_up({"A": a, "B": a.copy()})).outcome == "not-reproduced"
    noisy = made_up({"A": growing(np.sqrt, noise=2.0), "B": growing(np.sqrt, noise=2.0, seed=1)})
    assert verdict_on(noisy).outcome == "inconclusive"


def test_a_small_but_certain_difference_is_still_lower():
    a = growing(np.sqrt, 100.0, noise=0.5)
    assert verdict_on(made_up({"A": a * 0.999, "B": a})).outcome == "reproduced"


def test_few_replications_decide_nothing():
    a = growing(np.sqrt, 100.0, replications=4, noise=0.0)
    result = verdict_on(made_up({"A": a, "B": 2 * a}))
    assert result.outcome == "inconclusive"
    assert "fewer than 5" in result.reason


def test_verdict_over_several_parts():
    good, bad, open_ = decided("g", True), decided("b", False), Part("o", outcome="inconclusive")
    assert verdict_of(good, good).outcome == "reproduced"
    assert verdict_of(good, bad, open_).outcome == "not-reproduced"
    assert verdict_of(good, open_).outcome == "inconclusive"
    assert verdict_of(bad, good, rule="any").outcome == "reproduced"
    assert verdict_of(bad, open_, rule="any").outcome == "inconclusive"
    assert verdict_of(bad, bad, rule="any").outcome == "not-reproduced"
    assert verdict_of(good, beside(bad)).outcome == "reproduced"
    assert verdict_of(skipped("s"), skipped("t")).outcome == "skipped"
    assert verdict_of(good, reading="arms are sorted").outcome == "with-reading"
    assert verdict_of(bad, reading="arms are sorted").outcome == "not-reproduced"
    assert "fails in b; undecided in o" in verdict_of(good, bad, open_).reason
    assert "no data for s" in verdict_of(good, skipped("s")).reason


@pytest.mark.parametrize(
    ("holds", "rule", "outcome"),
    [
        (True, "every", "inconclusive"),
        (False, "every", "not-reproduced"),
        (True, "any", "reproduced"),
        (False, "any", "inconclusive"),
    ],
)
def test_a_part_of_the_experiments_decides_only_what_it_can(holds, rule, outcome):
    one = Claim(1, "A is lower than B", "1", "simulation", lambda run: None, ("a", "b"))
    found = Finding((decided("a", holds), skipped("b")), rule=rule)
    (_, verdict), *_ = conclude([one], [found], {"a"})
    assert verdict.outcome == outcome
    assert ("1 of 2 were not requested" in verdict.reason) == (outcome == "inconclusive")
    (_, whole), *_ = conclude([one], [found], {"a", "b"})
    assert whole.outcome == ("reproduced" if holds else "not-reproduced")


def test_the_correction_runs_over_all_claims():
    part = Part("x", p_for=0.02, p_against=0.98)
    alone = judge([claim(lambda run: Finding((part,)))], {})
    assert alone[0][1].outcome == "reproduced"
    assert alone[0][1].p_value == pytest.approx(0.04)  # of two p-values
    many = judge([claim(lambda run: Finding((part,)), number=k) for k in range(10)], {})
    assert {v.outcome for _, v in many} == {"inconclusive"}


def test_the_shown_numbers_are_those_of_the_weakest_part_that_had_to_hold():
    strong, weak = Part("s", effect=-5.0, p_for=1e-9), Part("w", effect=-1.0, p_for=1e-4)
    assert verdict_of(strong, weak).effect == -1.0
    assert verdict_of(strong, weak, rule="any").effect == -5.0


def test_same_needs_an_interval_inside_the_margin():
    values = np.random.default_rng(3).normal(0.0, 1.0, 100)
    assert verdict_of(same("x", values, 1.0)).outcome == "reproduced"
    assert verdict_of(same("x", values, 0.05)).outcome == "inconclusive"
    assert verdict_of(same("x", values + 3.0, 1.0)).outcome == "not-reproduced"


@pytest.mark.parametrize(
    ("shape", "outcome"),
    [
        (np.sqrt, "reproduced"),
        (lambda x: np.log1p(10_000 * x), "reproduced"),
        (lambda x: x ** (2 / 3), "reproduced"),
        (lambda x: x**0.9, "inconclusive"),
        (lambda x: x, "not-reproduced"),
        (lambda x: x**1.2, "not-reproduced"),
    ],
)
def test_sublinear(shape, outcome):
    results = made_up({"A": growing(shape)})
    part = sublinear("e", results, "A")
    assert verdict_of(part).outcome == outcome
    turned = {"reproduced": "not-reproduced", "not-reproduced": "reproduced"}
    assert verdict_of(reverse(part)).outcome == turned.get(outcome, outcome)


def test_linear_is_measured_by_the_gap():
    results = made_up({"A": growing(lambda x: x, scale=1000.0), "B": growing(np.log1p, scale=20.0)})
    assert verdict_of(linear("e", results, "A", gap=0.1)).outcome == "reproduced"  # 1000 in 10 000 rounds
    assert verdict_of(linear("e", results, "A", gap=0.5)).outcome == "inconclusive"
    assert verdict_of(linear("e", results, "B", gap=0.1)).outcome == "not-reproduced"


def test_argued_only_is_skipped_with_its_reason():
    argued = Claim(3, "obvious", "7", "argued only", why="nothing can be run.")
    result = judge([argued], {})[0][1]
    assert (result.outcome, result.reason) == ("skipped", "Argued only: nothing can be run.")


def test_a_test_sees_only_the_experiments_of_its_claim():
    seen = []

    def test(run):
        seen.append(sorted(run))
        return Finding((decided("x", True),))

    judge([claim(test)], {"e": made_up({"A": growing(np.sqrt)}), "other": made_up({"A": growing(np.sqrt)})})
    assert seen == [["e"]]


POLICIES = {"first": lambda problem: FixedArm(problem.costs, 0), "random": lambda p: RandomArm(p.costs)}


test_experiments_are_checked = refusals(
    lambda options: Experiment("e", "t", "p", "cascade", **{"policies": POLICIES, **options}),
    ({}, "an instance or a make function"),
    ({"instance": "bsc-1", "make": list}, "an instance or a make function"),
    ({"instance": "bsc-1", "policies": {}}, "must not be empty"),
    ({"make": list, "needs": "pima"}, "must name an instance"),
)


test_claims_are_checked = refusals(
    lambda options: Claim(
        **{"number": 1, "words": "w", "lines": "1", "how": "simulation", "test": list, **options}
    ),
    ({"how": "guess"}, "how must be one of"),
    ({"test": None}, "must have a test"),
    ({"how": "argued only"}, "must have a test"),
    ({"how": "argued only", "test": None}, "must say why"),
    ({"level": 0.0}, "level must lie between"),
)


def test_parts_and_findings_are_checked():
    with pytest.raises(ValueError, match="outcome must be one of"):
        Part("x", outcome="maybe")
    with pytest.raises(ValueError, match="rule must be one of"):
        Finding((Part("x"),), rule="most")
    with pytest.raises(ValueError, match="at least one that counts"):
        Finding((beside(Part("x")),))


def an_experiment(**options):
    return Experiment("e", "t", "p", "cascade", POLICIES, **{"horizon": 50, "replications": 3, **options})


@pytest.fixture
def _no_data(monkeypatch):
    monkeypatch.delenv("WEAKFEEDBACK_DATA", raising=False)


def test_results_tell_what_was_played():
    results = run_experiment(
        an_experiment(instance="bsc-2", facts=lambda p: {"arms": p.arms}), replications=2
    )
    assert results.final()["replications"].tolist() == [2, 2]
    about = results.about
    assert (about["experiment"], about["instance"], about["stands_in_for"]) == ("e", "bsc-2", "")
    assert about["facts"] == {"arms": 3}


@pytest.mark.usefixtures("_no_data")
def test_a_stand_in_is_played_and_named_when_data_are_missing(tmp_path):
    experiment = an_experiment(instance="pima-1", needs="pima", stand_in="bc3-1")
    results = run_experiment(experiment, store=tmp_path)
    assert (results.about["instance"], results.about["stands_in_for"]) == ("bc3-1", "pima-1")
    assert [folder.name for folder in tmp_path.iterdir()] == ["e-on-bc3-1"]
    part = lower("pima-1", results, "first", "random")
    assert "stand-in bc3-1 for pima-1" in part.note
    assert "instead of the missing medical data" in verdict_of(part).reason


@pytest.mark.usefixtures("_no_data")
def test_without_data_and_stand_in_an_experiment_is_left_out():
    missing = an_experiment(instance="heart-1", needs="heart")
    with pytest.raises(DataMissing):
        run_experiment(missing)
    assert run_experiments([missing]) == {}


def test_a_store_gives_the_same_numbers_again(tmp_path):
    experiment = Experiment(
        "e",
        "t",
        "p",
        "cascade",
        {"TS": lambda p: UssTs(p.costs)},
        instance="bsc-1",
        horizon=100,
        replications=3,
    )
    first, again = (run_experiment(experiment, store=tmp_path) for _ in range(2))
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert list((tmp_path / "e").glob("*.parquet"))
