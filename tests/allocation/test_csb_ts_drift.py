"""CSB-TS-drift: the filter against the sum over all patterns of changes, decisions by hand, mutants, what must hold."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.csb_ts_drift import BINS, DriftTwin, posterior
from tests.rig.draws import Script
from tests.rig.mutants import mutate, survives
from tests.rig.refusals import refusals

from weakfeedback import Allocator
from weakfeedback.allocation import CsbTsDrift
from weakfeedback.allocation.policies import csb_ts_drift

BOTH = ("loss", "reward")


def told(policy, outcomes):
    for level, x in outcomes:
        policy.update(np.array([level * policy.step]), np.array([np.nan if x is None else float(x)]), None)


def filtering(kind, seed, setting, C=3):
    """One arm, two rates, five outcomes that no policy would cause: laws and weights of the rates, to 1e-12."""
    rng = np.random.default_rng(seed)
    rates = (0.0, float(rng.choice([0.25, 0.03]))) if seed % 3 else (0.125, 0.5)
    outcomes = [(int(rng.integers(0, C + 1)), [0, 1, None, 0][rng.integers(4)]) for _ in range(5)]
    policy, weights = kind(1, 1.0, C, rates, setting), [Fraction(1, 2)] * 2
    for n in range(5):
        told(policy, outcomes[n : n + 1])
        found = [posterior(outcomes[: n + 1], Fraction(h), C, setting == "reward") for h in rates if h > 0.0]
        for (law, _), row in zip(found, policy.law[1:] if rates[0] == 0.0 else policy.law):
            for (k, j), mass in law.items():
                place = C + 1 - k if setting == "reward" else k - 1
                assert abs(row[0, place, j] - float(mass)) <= 1e-12
    np.testing.assert_allclose(policy.law.sum(axis=(2, 3)), 1.0, atol=1e-12)
    assert policy.weight.sum() == pytest.approx(1.0, abs=1e-12)
    if rates[0] > 0.0:
        before = [Fraction(1)] * 2
        for n in range(1, 6):
            after = [posterior(outcomes[:n], Fraction(h), C, setting == "reward")[1] for h in rates]
            weights = [w * b / a for w, b, a in zip(weights, after, before)]
            weights = [w / sum(weights) * Fraction(999, 1000) + Fraction(1, 2000) for w in weights]
            before = after
        np.testing.assert_allclose(policy.weight, [float(w) for w in weights], atol=1e-12)


@pytest.mark.parametrize("setting", BOTH)
def test_the_filter_is_the_sum_over_all_patterns_of_changes(setting):
    for seed in range(6):
        filtering(CsbTsDrift, seed, setting)


def deciding(kind, setting):
    """Levels by hand: 4 of them, thresholds 1, ..., 5, two arms of which nothing is known."""
    policy = kind(2, 1.0, 4, (0.0, 0.5), setting)
    # rate; (threshold, bin) and mean of arm 0: cell 30 of 100 is threshold 2, bin 10; of arm 1: cell 70 is 4, bin 10
    draws = (0.1, 0.305, 0.9, 0.705, 0.1)
    levels = np.rint(policy.select(Script(*draws)) * 4).astype(int).tolist()
    # arm 0 has .545 and arm 1 .505; the rest is tried. Rewards: mirrored, thresholds 4 and 2
    assert levels == ([2, 2] if setting == "loss" else [4, 0])
    # threshold 4 (rewards: 2), bin 0 and the mean .045; threshold 4, bin 10 and .505: only one of them fits
    levels = np.rint(policy.select(Script(0.1, 0.605, 0.9, 0.705, 0.1)) * 4).astype(int).tolist()
    assert levels == ([0, 4] if setting == "loss" else [2, 2])


@pytest.mark.parametrize("setting", BOTH)
def test_decisions_by_hand(setting):
    deciding(CsbTsDrift, setting)


def playing(kind, seed, setting, rounds=45):
    """Every decision in a world that changes, against a twin with the same draws; some reports are missing."""
    rng, K, C = np.random.default_rng(seed), 3, 5
    rates = (1e-6, 0.02, 0.2)
    policy, twin = kind(K, 2.0, C, rates, setting), DriftTwin(K, 2.0, C, rates, setting == "reward")
    draws = [np.random.default_rng(seed), np.random.default_rng(seed)]
    for t in range(rounds):
        if t % 20 == 0:
            needs, means = rng.integers(1, C + 1, K), rng.uniform(0.2, 1.0, K)
        allocation, levels = policy.select(draws[0]), twin.select(draws[1])
        assert (allocation / policy.step).tolist() == pytest.approx(levels), f"round {t}"
        shown = (np.array(levels) >= needs) == (setting == "reward")
        outcomes = np.where(rng.random(K) < means, rng.choice([1.0, 1.0, 0.7], K), 0.0) * shown
        missing = rng.random(K) < 0.1
        policy.update(allocation, np.where(missing, np.nan, outcomes), draws[0])
        twin.update(levels, [None if gone else x for gone, x in zip(missing, outcomes.tolist())], draws[1])
    np.testing.assert_allclose(policy.weight, twin.weights, atol=1e-9)
    assert draws[0].random() == draws[1].random()


@pytest.mark.parametrize("setting", BOTH)
def test_every_decision_is_that_of_the_twin(setting):
    for seed in range(2):
        playing(CsbTsDrift, seed, setting)


EDITS = [
    ("leak = h / (rows * bins)", "leak = h / rows"),
    ("((1.0 - h) * law[t, j] + leak)", "(law[t, j] + leak)"),
    ("mean = (j + 0.5) / bins", "mean = (j + 1.0) / bins"),
    ("shared = min(place, rows)", "shared = min(place + 1, rows)"),
    ("factor[j] = mean if positive else 1.0 - mean", "factor[j] = mean"),
    ("below = 0.0 if positive and not missing else 1.0", "below = 1.0"),
    ("            law[t, j] *= inverse\n", "            pass\n"),
    ("self.weight[h] *= total", "pass"),
    ("SHARE = 0.001", "SHARE = 0.01"),
    ("if self.reward and level == 0:", "if level == 0:"),
    ("place = self.levels + 1 - level if self.reward else level", "place = level"),
    ("k[i] = C + 1 - t if self.reward else t + 1", "k[i] = t + 1"),
    ("mu[i] = (j + rng.random()) / BINS", "mu[i] = rng.random()"),
    ("allocation[best] = left * self.step", "pass"),
]


@pytest.mark.parametrize(("old", "new"), EDITS, ids=lambda text: text.strip()[:40])
def test_mutants_are_found_out(old, new):
    mutant = mutate(csb_ts_drift, old, new).CsbTsDrift
    cases = [lambda s=s: deciding(mutant, s) for s in BOTH]
    cases += [lambda n=n, s=s: filtering(mutant, n, s) for n in range(4) for s in BOTH]
    assert any(not survives(case) for case in cases)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, None])), max_size=20), st.sampled_from(BOTH)
)
@settings(max_examples=25, deadline=None)
def test_laws_stay_laws_and_a_missing_report_only_leaks(data, setting):
    policy = CsbTsDrift(1, 1.0, 4, (0.01, 0.2), setting)
    told(policy, data)
    assert np.isfinite(policy.law).all()
    assert (policy.law >= 0.0).all()
    np.testing.assert_allclose(policy.law.sum(axis=(2, 3)), 1.0, atol=1e-9)
    before = policy.law.copy()
    told(policy, [(2, None)])
    rates = np.array([0.01, 0.2])[:, None, None, None]
    np.testing.assert_allclose(policy.law, (1 - rates) * before + rates / (5 * BINS), atol=1e-12)
    amounts, probability, a, b = policy.belief(0)
    assert probability.sum() == pytest.approx(1.0, abs=1e-9)
    assert ((a > 0) & (b > 0)).all()
    assert amounts[-1, 0] == np.inf


test_wrong_rates_are_named = refusals(
    lambda rates: CsbTsDrift(2, 1.0, rates=rates),
    ((), "rates must be numbers from 0 to 1"),
    ((2.0,), "rates must be"),
    (0.1, "rates must be"),
)


def test_a_need_that_falls_is_noticed_and_reported():
    """Live, 3 seeds, fixed: needs .8 and .6 of 1; then .2, so that both places can be quiet."""
    for seed in range(3):
        allocator = Allocator(2, 1.0, "CSB-TS-drift", seed=seed, compiled=True, levels=20)
        rng = np.random.default_rng(seed)
        quiet = []
        for t in range(3000):
            needs = np.array([0.8 if t < 1500 else 0.2, 0.6])
            decision = allocator.decide()
            served = decision.allocation >= needs - 1e-9
            allocator.feedback(decision.id, ((rng.random(2) < 0.9) & ~served).astype(float))
            quiet.append(served.sum())
        assert np.mean(quiet[2700:]) > 1.8
        report = allocator.report()
        assert report.changes is not None
        assert (report.changes >= 0.0).all()
        assert "changes" in str(report)
    assert Allocator(2, 1.0).report().changes is None
