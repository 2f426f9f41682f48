"""Regrets of the policies that are not in the thesis, as independent experiments had measured them beforehand.

A mean agrees if it lies within 4 standard errors and 5 %: the expected number is a mean itself, of 100 or so
replications, rounded. Seeds are fixed. If the expected number were exact, 4 standard errors alone would give a false
alarm once in 16,000 seeds.
"""

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.cascade import QUss, UssTs, UssTsDrift, UssWd, instances


def regrets(name, policies, replications, horizon=10_000, seed=11):
    problem = instances.load(name)
    made = {label: make(problem.costs) for label, make in policies.items()}
    results = simulate(problem, made, horizon=horizon, replications=replications, seed=seed, marks=1)
    return {label: results.values(label)[:, -1] for label in made}


def agrees(found, expected):
    error = found.std(ddof=1) / np.sqrt(len(found))
    return abs(found.mean() - expected) <= 4 * error + 0.05 * expected


@pytest.mark.slow
def test_labels_save_the_instance_without_weak_dominance():
    """BSC 5: USS-TS 553, Q-USS 68, 128 and 189 at prices .1, 1 and 5, labels paid for."""
    policies = {"USS-TS": UssTs, **{str(price): lambda c, p=price: QUss(c, p) for price in (0.1, 1, 5)}}
    found = regrets("bsc-5", policies, replications=40)
    for label, expected in {"USS-TS": 553, "0.1": 68, "1": 128, "5": 189}.items():
        assert agrees(found[label], expected), label


def test_drift_costs_in_a_world_that_does_not_change():
    """Two to four times the regret of USS-TS."""
    found = regrets("bsc-1", {"USS-TS": UssTs, "drift": UssTsDrift}, replications=40)
    assert 2.0 < found["drift"].mean() / found["USS-TS"].mean() < 5.0


def test_the_joint_policy_on_the_channels():
    """Equal where little is to be won: the paired difference is within 4 standard errors of at most 3."""
    for name in ("bsc-1", "bsc-2", "bsc-3"):
        found = regrets(name, {"USS-TS": UssTs, "joint": lambda c: UssWd(c, redraws=1)}, replications=40)
        more = found["joint"] - found["USS-TS"]
        assert more.mean() <= 3.0 + 4 * more.std(ddof=1) / np.sqrt(len(more)), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "plain", "joint"), [("pima-1", 149, 93), ("pima-3", 104, 51), ("heart-3", 62, 58)]
)
@pytest.mark.usefixtures("medical_data")
def test_the_joint_policy_on_medical_data(name, plain, joint):
    found = regrets(name, {"USS-TS": UssTs, "joint": lambda c: UssWd(c, redraws=1)}, replications=200)
    assert agrees(found["USS-TS"], plain)
    assert agrees(found["joint"], joint)
    more = found["joint"] - found["USS-TS"]
    sure = 4 * more.std(ddof=1) / np.sqrt(len(more))
    assert more.mean() < (sure if name == "heart-3" else -sure)  # a tie there, and a third less on the others


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bsc-5", "bc4-5", "bsc-4"])
def test_q_uss_is_sub_linear(name):
    """Four times the rounds cost less than three times the regret, with weak dominance and without."""
    problem = instances.load(name)
    short, long = (
        simulate(problem, {"Q": QUss(problem.costs, 1.0)}, horizon=T, replications=50, marks=1)
        .values("Q")
        .mean()
        for T in (10_000, 40_000)
    )
    assert long < 3.0 * short
