"""Answers that are numbers: a bounded metric is a coin, a tolerance is refused."""

import functools
import math
import re

import numpy as np
import pytest
from tests.live import inside

from weakfeedback import Cascade
from weakfeedback.cascade import UssTs
from weakfeedback.live.answers import sample_disagreements

RNG = np.random.default_rng(5)
TABLE = np.clip(RNG.random((400, 1)) + RNG.normal(0.0, [0.3, 0.1, 0.05], size=(400, 3)), 0.0, 1.0)
COSTS = [1.0, 4.0, 10.0]


def stage(k):
    return lambda row: float(TABLE[row, k])


STAGES = [stage(0), stage(1), stage(2)]


def absolute(a, b):
    return abs(a - b)


def numbers(**changes):
    return Cascade(
        STAGES, **{"stage_costs": COSTS, "error_cost": 50, "seed": 3, "metric": absolute, **changes}
    )


def raw(rows):
    """USS-TS with a coin for every pair, in the order (0, 1), (0, 2), (1, 2), from its own generator."""
    policy, rng = UssTs(np.cumsum(COSTS) / 50), np.random.Generator(np.random.PCG64(3))
    arms = []
    for row in rows:
        arm = policy.select(rng)
        differ = np.zeros((arm + 1, arm + 1), dtype=bool)
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                differ[i, j] = rng.random() < abs(TABLE[row, i] - TABLE[row, j])
        policy.update_pairs(arm, differ, rng)
        arms.append(arm)
    return policy, arms, rng


@pytest.mark.parametrize("way", ["call", "by hand", "saved"])
def test_a_metric_tosses_coins_from_the_policys_generator(way, tmp_path):
    policy, arms, rng = raw(range(300))
    cascade = numbers(policy="USS-TS")
    found = []
    for row in range(300):
        if way == "by hand":
            decision = cascade.decide()
            cascade.feedback(decision.id, [s(row) for s in STAGES[: decision.arm + 1]])
            assert cascade.feedback(decision.id, [s(row) for s in STAGES[: decision.arm + 1]]) == "duplicate"
            found.append(decision.arm)
        else:
            found.append(cascade(row).arm)
        if way == "saved" and row % 25 == 0:
            cascade.save(tmp_path / "state")
            cascade = Cascade.load(tmp_path / "state", STAGES, metric=absolute)
    assert found == arms
    assert np.array_equal(cascade.policy.S, policy.S)
    assert np.array_equal(cascade.policy.F, policy.F)
    assert inside.rng(cascade).bit_generator.state == rng.bit_generator.state
    report = cascade.report()
    assert np.array_equal(report.comparisons[0, 1:], (policy.S + policy.F)[0, 1:] - 2)
    assert (report.disagreement * report.comparisons)[0, 1] == pytest.approx(policy.S[0, 1] - 1)


def test_a_coin_for_every_pair_whatever_its_bias():
    class Listed:
        def __init__(self, draws):
            self.draws = list(draws)

        def random(self):
            return self.draws.pop(0)

    far = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    rng = Listed([0.0, 0.999, 0.5])
    assert sample_disagreements(far, rng)[0].tolist() == [False, False, True]
    assert rng.draws == []
    assert sample_disagreements(far, Listed([0.0, 0.0, 0.499]))[1].tolist() == [False, False, True]


def test_rejected_outputs_toss_no_coin():
    cascade = numbers(metric=lambda a, b: 3 * abs(a - b))
    decision = cascade.decide()
    while decision.arm < 1:
        cascade.feedback(decision.id, [0.5])
        decision = cascade.decide()
    before = inside.rng(cascade).bit_generator.state, cascade.rounds
    with pytest.raises(
        ValueError, match=r"metric must give a number from 0 to 1, got 3\.0 for 0\.0 and 1\.0"
    ):
        cascade.feedback(decision.id, [0.0, 1.0, 0.0][: decision.arm + 1])
    with pytest.raises(ValueError, match="metric must give a number from 0 to 1, got nan"):
        cascade.feedback(decision.id, [0.0, math.nan, 0.0][: decision.arm + 1])
    assert (inside.rng(cascade).bit_generator.state, cascade.rounds) == before
    cascade = numbers(metric=lambda a, b: "far")
    with pytest.raises(ValueError, match="metric must give a number from 0 to 1, got 'far'"):
        cascade.warm_start([[0.1, 0.2, 0.3]])


def test_a_warm_start_tosses_them_row_by_row():
    cascade, rng = numbers(policy="USS-TS"), np.random.Generator(np.random.PCG64(3))
    assert cascade.warm_start(TABLE) == 400
    expected = np.zeros((3, 3))
    for row in TABLE:
        for i, j in ((0, 1), (0, 2), (1, 2)):
            expected[i, j] += rng.random() < abs(row[i] - row[j])
    assert np.array_equal(cascade.policy.S - 1, expected)
    assert inside.rng(cascade).bit_generator.state == rng.bit_generator.state


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": 0.1}, "metric must be a callable or None, got 0.1"),
        ({"compare": lambda a, b: a == b}, "metric must not be given together with compare"),
        ({"policy": "USS-WD"}, "metric must not be given with USS-WD, which is for labels"),
        ({"policy": "Q-USS", "label_price": 1}, "metric must not be given with Q-USS, which is for labels"),
    ],
)
def test_wrong_arguments_are_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        numbers(**changes)


def test_the_metric_is_given_again_on_loading(tmp_path):
    numbers().save(tmp_path / "state")
    with pytest.raises(ValueError, match="metric must be given if and only if it was"):
        Cascade.load(tmp_path / "state", STAGES)
    with pytest.raises(ValueError, match="an audit is for labels"):
        numbers().audit([0, 1], [0.1, 0.2], arm=0)


# -- tolerances

COUNTEREXAMPLE = "let the truth be 0 and two stages answer 1.2 tol and 0.6 tol"


@pytest.mark.parametrize("name", ["tolerance", "tol", "atol", "rtol", "abs_tol", "rel_tol"])
def test_a_tolerance_by_name_is_refused_with_the_counterexample(name):
    with pytest.raises(ValueError, match=f"^{name}=0.1: a tolerance must not be used: {COUNTEREXAMPLE}"):
        Cascade(STAGES, COSTS, error_cost=50, **{name: 0.1})


@pytest.mark.parametrize(
    "compare", [math.isclose, np.isclose, np.allclose, functools.partial(math.isclose, abs_tol=0.1)]
)
def test_known_functions_are_refused(compare):
    with pytest.raises(ValueError, match=COUNTEREXAMPLE):
        Cascade(STAGES, COSTS, error_cost=50, compare=compare)


@pytest.mark.parametrize(
    "compare",
    [
        lambda a, b: abs(a - b) <= 0.1,
        lambda a, b: abs(a - b) < 0.1,
        lambda a, b: abs(a - b) <= 0.1 * max(abs(a), abs(b), 0.1),
        lambda a, b: math.isclose(a, b, rel_tol=0.2),
    ],
)
@pytest.mark.parametrize("second", [0.51, 0.5 + 1e-9, 0.46])
def test_a_tolerance_is_found_out_by_the_first_answers_that_it_takes_for_the_same(compare, second):
    cascade = Cascade([lambda x: 0.5, lambda x: second], [1, 1], policy="Fixed", arm=1, compare=compare)
    with pytest.raises(ValueError, match=rf"compare takes .* for the same.*{COUNTEREXAMPLE}"):
        cascade(0)
    assert (cascade.rounds, cascade.pending) == (0, [])


@pytest.mark.parametrize(
    "compare",
    [
        lambda a, b: round(a, 1) == round(b, 1),
        lambda a, b: (a > 0.2) == (b > 0.2),
        lambda a, b: int(a / 0.3) == int(b / 0.3),
        lambda a, b: True,
        lambda a, b: a == b,
    ],
)
def test_classes_of_numbers_are_fine(compare):
    cascade = Cascade(STAGES, COSTS, policy="Fixed", arm=2, compare=compare)
    for row in range(100):
        cascade(row)
    assert cascade.rounds == 100


def test_other_things_may_be_compared_in_any_way():
    """For labels that are not numbers nothing can be tried out: whether two texts mean the same is not ours to say."""
    calls = []

    def alike(a, b):
        calls.append((a, b))
        return abs(len(a) - len(b)) <= 1

    cascade = Cascade([str, lambda x: "12"], [1, 1], policy="Fixed", arm=1, compare=alike)
    cascade(1)
    assert calls == [("1", "12")]
