"""CSB-TS and CSB-TS-same: the posterior by enumeration, small cases by hand, what must always hold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln
from tests.allocation.grids import Grid, Recorder, Same
from tests.rig.draws import Script

from weakfeedback.allocation import AllocationProblem, CsbTs, CsbTsSame, posterior
from weakfeedback.allocation.instances import load
from weakfeedback.allocation.policies import csb_ts
from weakfeedback.checks import check_policy
from weakfeedback.settings.catalog import SETTINGS

BOTH = ("loss", "reward")


def instance(seed, same):
    """Means, thresholds, a budget and a step of a small problem; every other threshold lies on the grid."""
    rng = np.random.default_rng([seed, 77])
    K = int(rng.integers(1, 6))
    budget = float(rng.choice([0.6, 1.0, 1.7]))
    step = float(rng.choice([0.05, 0.11, 0.2, 0.6]))
    theta = np.minimum(rng.uniform(0.03, 1.0, K), budget)
    theta = np.where(rng.random(K) < 0.5, np.minimum(np.ceil(theta / step) * step, budget), theta)
    if same:
        theta = np.full(K, budget / rng.integers(1, K + 1))
    return rng.uniform(0.05, 0.99, K), theta, budget, step


def battery(kind, seed, setting, law, delay=0, rounds=30):
    """A run in which every decision and, from time to time, the whole belief are compared with the enumeration."""
    same = kind.__name__ == "CsbTsSame"
    mu, theta, budget, step = instance(seed, same)
    problem = AllocationProblem(mu, theta, budget, setting, law)
    policy = kind(mu.size, budget, setting=setting) if same else kind(mu.size, budget, step, setting)
    book = Same(policy) if same else Grid(policy)
    world, x = problem.world(), np.empty(mu.size)
    rng, chance, waiting = Recorder(seed), np.random.default_rng(seed), []
    for t in range(rounds):
        given_ = book.check_select(policy, rng)
        assert given_.sum() <= budget * (1 + 1e-9)
        world.draw(x, chance)
        served = given_ >= theta * (1 - 1e-9)
        waiting.append((given_, np.where(served == (setting == "reward"), x, 0.0)))
        if len(waiting) > delay:
            lesson = waiting.pop(int(chance.integers(len(waiting))))
            policy.update(*lesson, rng)
            book.enter(*lesson, rng.take())
        if t % 10 == 9:
            book.check_belief(policy, book.laws())


CASES = [(setting, law) for setting in BOTH for law in ("bernoulli", "uniform")]


@pytest.mark.parametrize("kind", [CsbTs, CsbTsSame])
@pytest.mark.parametrize(("setting", "law"), CASES)
@given(st.integers(0, 10**6), st.sampled_from([0, 0, 4]))
@settings(max_examples=8, deadline=None)
def test_every_decision_and_belief_is_that_of_the_enumeration(kind, setting, law, seed, delay):
    battery(kind, seed, setting, law, delay)


# ---- the posterior alone, with outcomes that no policy would cause


@pytest.mark.parametrize("setting", BOTH)
@given(data=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
@settings(max_examples=40, deadline=None)
def test_any_outcomes_at_any_levels_give_the_exact_posterior(setting, data):
    policy = CsbTs(1, 0.9, 0.1, setting)
    book = Grid(policy)
    assert policy.C == 9
    for level, positive in data:
        lesson = np.array([level * policy.step]), np.array([float(positive)])
        policy.update(*lesson, None)
        book.enter(*lesson, iter(()))
    book.check_belief(policy, book.laws())


@pytest.mark.parametrize("setting", BOTH)
@given(
    data=st.lists(st.tuples(st.integers(1, 4), st.lists(st.booleans(), min_size=4, max_size=4)), max_size=30)
)
@settings(max_examples=40, deadline=None)
def test_any_outcomes_of_any_sets_give_the_exact_posterior(setting, data):
    policy = CsbTsSame(4, 1.2, setting)
    book = Same(policy)
    for served, outcomes in data:
        lesson = (
            np.array([1.2 / served if i < served else 0.0 for i in range(4)]),
            np.array(outcomes, dtype=float),
        )
        policy.update(*lesson, None)
        book.enter(*lesson, iter(()))
    book.check_belief(policy, book.laws())


def test_weights_keep_their_precision_when_counts_are_large():
    """B(1 + P, 1 + F + z) / B(1 + P, 1 + F) against the product of its factors, on both sides of every switch."""
    for P, F, z in [
        (0, 0, 1),
        (15, 3, 40),
        (16, 3, 16),
        (16, 3, 17),
        (40, 7, 15),
        (500, 900, 60),
        (3, 10**6, 10**5),
    ]:
        if z <= P:
            exact = math.prod((F + j) / (P + F + 1 + j) for j in range(1, z + 1))
        else:
            exact = math.prod((F + j) / (F + z + j) for j in range(1, P + 2))
        assert posterior.fall(float(P), float(F), float(z)) == pytest.approx(exact, rel=1e-11)
    for n in (0, 1, 5, 15, 16, 17, 100, 170):
        assert posterior.log_factorial(float(n)) == pytest.approx(
            math.log(math.factorial(n)), rel=1e-14, abs=1e-14
        )


# ---- small cases by hand


def levels(policy, *numbers):
    rng = Script(*numbers)
    found = np.rint(policy.select(rng) / policy.step).astype(int).tolist()
    assert not rng.numbers
    return found


def feed(policy, given_, observed):
    policy.update(np.array(given_) * policy.step, np.array(observed, dtype=float), Script())


def by_level(policy, arm=0):
    """Probability of every threshold 1, ..., C + 1, and b where it is possible."""
    probability, b = np.zeros(policy.C + 1), np.full(policy.C + 1, math.nan)
    amounts, shares, _, each = policy.belief(arm)
    for ends, share, one in zip(amounts, shares, each):
        low, high = (policy.C + 1 if end == math.inf else round(end / policy.step) for end in ends)
        probability[low - 1 : high], b[low - 1 : high] = share / (high - low + 1), one
    return probability, b


@pytest.fixture
def no_cover(monkeypatch):
    """Decisions by draws from the first round on."""
    monkeypatch.setattr(csb_ts, "may_cover", lambda edge, C: False)


@pytest.mark.usefixtures("no_cover")
def test_a_loss_and_a_zero_by_hand():
    policy = CsbTs(1, 1.0, 0.25)  # theta is one of 1, 2, 3, 4, 5
    feed(policy, [1], [1])  # 1 is too little
    feed(policy, [3], [0])  # a zero: genuine if theta is 4 or 5
    # P = 1: B(2, 1) = 1/2 for 2 and 3, B(2, 2) = 1/6 for 4 and 5
    amounts, probability, a, _ = policy.belief(0)
    assert (amounts.tolist(), probability.tolist()) == (
        [[0.5, 0.75], [1.0, 1.0], [math.inf] * 2],
        [0.75, 0.125, 0.125],
    )
    assert (a.tolist(), by_level(policy)[1][1:].tolist()) == ([2] * 3, [1, 1, 2, 2])
    # up to 4 is .875 of all, so 2 and 3 are raised to it
    assert [levels(policy, u, 0.5) for u in (0.0, 0.37, 0.38, 0.74, 0.76, 0.87)] == [[4]] * 6
    policy.edition = 1
    assert [levels(policy, u, 0.5) for u in (0.0, 0.37, 0.38, 0.74, 0.76, 0.87)] == [
        [2],
        [2],
        [3],
        [3],
        [4],
        [4],
    ]
    # 5 cannot be paid: all that is left is tried instead
    assert levels(policy, 0.88, 0.5) == [4]
    feed(policy, [0], [0])  # genuine whatever theta is
    # B(2, 2) = 1/6 for 2 and 3, B(2, 3) = 1/12 for 4 and 5
    np.testing.assert_allclose(by_level(policy)[0], [0, 1 / 3, 1 / 3, 1 / 6, 1 / 6], atol=1e-15)
    feed(policy, [4], [1])  # a loss at the whole budget
    assert by_level(policy)[0].tolist() == [0, 0, 0, 0, 1]
    assert levels(policy, 0.5, 0.9) == [0]  # it can never be served, and is not probed


def test_a_reward_and_a_zero_by_hand():
    policy = CsbTs(1, 1.0, 0.25, "reward")
    feed(policy, [0], [1])  # nothing was given: it tells nothing
    assert (policy.P[0], policy.F[0]) == (0, 0)
    feed(policy, [3], [1])  # 3 suffices
    feed(policy, [2], [0])  # genuine if theta is 1 or 2
    probability, b = by_level(policy)
    np.testing.assert_allclose(probability, [1 / 5, 1 / 5, 3 / 5, 0, 0], atol=1e-15)
    assert (policy.belief(0)[2].tolist(), b[:3].tolist()) == ([2, 2], [2, 2, 1])
    # drawn from the top: u < .6 is 3; the smaller of two draws, and then raised to the quantile, which is 3
    assert levels(policy, 0.1, 0.5, 0.9) == [3]
    feed(policy, [3], [0])
    feed(policy, [1], [1])
    assert by_level(policy)[0].tolist() == [1, 0, 0, 0, 0]
    assert (policy.F[0], policy.used[0]) == (2, 0)  # the zeros at 2 and 3 were genuine


def test_the_smaller_of_two_draws_is_served_and_what_is_left_is_padded_and_probed():
    policy = CsbTs(3, 1.0, 0.1, "reward")  # levels 0, ..., 10
    for arm, level in ((0, 4), (1, 3)):
        given_, seen = [0, 0, 0], [0, 0, 0]
        given_[arm], seen[arm] = level, 1
        feed(policy, given_, seen)
    # theta_0 in 4, 3, 2, 1 and theta_1 in 3, 2, 1 with equal weights, theta_2 in 11, ..., 1: each drawn twice.
    draws = (0.3, 0.9, 0.6), (0.1, 0.2, 0.7), (0.0, 0.4, 0.0)
    # 3 and 2 for arm 0: 2. 3 and 1 for arm 1: 1. Arm 2 cannot be served with 11. Left: 7. Arm 0 may need 2 more,
    # worth .9 * (1/2) / 2; arm 1 2 more, worth .2 * (2/3) / 2: both are raised, and 3 are left for arm 2.
    assert levels(policy, *(number for arm in draws for number in arm)) == [4, 3, 3]
    # Arm 2 is drawn with 7, and worth it: nothing is left.
    draws = (0.3, 0.9, 0.6), (0.1, 0.2, 0.7), (0.4, 0.9, 0.3)
    assert levels(policy, *(number for arm in draws for number in arm)) == [2, 1, 7]
    # With 6 one is left. It goes where it is worth most per level: arm 2, whose quantile is 11, is worth .9 * 5/11 / 5,
    # arm 1 .2 / 3, and arm 0 .225.
    draws = (0.3, 0.9, 0.6), (0.1, 0.2, 0.7), (0.5, 0.9, 0.3)
    assert levels(policy, *(number for arm in draws for number in arm)) == [3, 1, 6]


def quantile_and_level(kind):
    """The .999-quantile is the top of 30 equally likely thresholds; .3 is level 3 of .1 (a quotient of 2.9999...)."""
    policy = kind(1, 4.0, 0.1, "reward")
    policy.update(np.array([3.0]), np.ones(1), Script())
    assert levels(policy, 0.5, 0.5, 0.9) == [30]  # drawn 3, raised by 27 of 37
    policy.update(np.array([0.3]), np.ones(1), Script())
    assert np.flatnonzero(by_level(policy)[0]).tolist() == [0, 1, 2]


def test_the_quantile_and_the_level_by_hand():
    quantile_and_level(CsbTs)


def padded_losses(kind):
    """Two arms, 10 levels, thresholds 1, ..., 11: up to 9 is 9/11 of all, up to 10 is more than .9."""
    policy = kind(2, 1.0, 0.1)
    policy.edition = 1
    # 3 for arm 0 and 9 for arm 1; arm 0 is worth more, 7 are left, which may serve arm 1
    assert levels(policy, 0.2, 0.9, 0.75, 0.5) == [3, 7]
    policy.edition = 2
    assert levels(policy, 0.2, 0.9, 0.75, 0.5) == [9, 1]  # raised to 9, and what is left is tried
    for _ in range(3):
        feed(policy, [5, 0], [0, 0])  # 1/4 beyond 5: up to 9 is 6 / 6.5 of all, up to 8 is 5.75 / 6.5
    assert levels(policy, 0.2, 0.9, 0.75, 0.5) == [8, 2]
    feed(policy, [1, 8], [1, 1])  # arm 0: 2, ..., 5 with B(2, 1), beyond with B(2, 4), which is a tenth
    # up to 6 is 4.1 / 4.6 of all. Arm 0, worth .9 * 1.6 / 4.6 / 2 a level, is raised by 2; arm 1 needs 9, 10 or 11
    assert levels(policy, 0.5, 0.9, 0.3, 0.5) == [6, 0]
    # 11 for arm 0: arm 1 is chosen, with 9, and raised to 10, which is enough with probability 2/3
    assert levels(policy, 0.999, 0.9, 0.0, 0.5) == [0, 10]
    for _ in range(27):
        feed(policy, [0, 9], [0, 0])  # beyond 9 B(2, 31) / B(2, 4) = 20 / 992: .96 of all are at 9
    assert levels(policy, 0.999, 0.9, 0.0, 0.5) == [0, 9]  # raised no further


@pytest.mark.usefixtures("no_cover")
def test_losses_are_padded():
    padded_losses(CsbTs)


def surprised(kind):
    """A loss where there was none for 25 rounds, though losses had been common below: twice is no accident."""
    policy = kind(1, 1.0, 0.1)
    for level, losses, quiet in ((2, 30, 0), (5, 0, 20), (5, 1, 0), (7, 0, 21), (7, 1, 0), (9, 1, 0)):
        for outcome in [1.0] * losses + [0.0] * quiet:
            feed(policy, [level], [outcome])
    assert policy.surprises == 1  # 20 rounds are too few, and none where nothing was quiet
    policy = kind(1, 1.0, 0.1)
    for outcome in [0.0] * 100 + [1.0]:  # an arm of which nothing is known may be quiet for long
        feed(policy, [5], [outcome])
    assert policy.surprises == 0


def test_outcomes_at_odds_with_thresholds_are_counted():
    surprised(CsbTs)


@pytest.mark.usefixtures("no_cover")
def test_an_arm_is_probed_if_it_may_be_served_at_all():
    policy = CsbTs(2, 1.0, 0.1)
    feed(policy, [0, 7], [0, 1])
    policy.edition = 1
    assert levels(policy, 0.2, 0.9, 0.3, 0.5) == [3, 0]  # 7 is known to be too little
    assert levels(policy, 0.1, 0.9, 0.3, 1e-6) == [2, 0]  # and what 8 is expected to gain is too little
    policy = CsbTs(2, 1.0, 0.1)
    policy.edge[1] = 3
    assert levels(policy, 0.6, 0.9, 0.9, 1e-6) == [7 + 2, 0]  # 1 cannot serve it
    policy.edge[0] = 0
    for _ in range(200):
        feed(policy, [6, 0], [0, 0])
    assert levels(policy, 0.5, 0.9, 0.9, 1e-6) == [6 - 1, 5]  # 5 may


def covering(kind):
    """All arms are served as long as the budget may cover them: levels 0, ..., 12, theta is one of 1, ..., 13."""
    policy = kind(2, 1.2, 0.1)
    assert levels(policy) == [6, 6]  # 12 - 2 levels shared by equal weights, and no draw
    feed(policy, [5, 5], [1, 0])
    # Arm 0 lost at 5: its median is 10 of 6, ..., 13, a weight of 8. Arm 1: 1, ..., 5 are twice as likely as the
    # others, half of 9 is exceeded at 5, a weight of 8.
    assert levels(policy) == [5 + 1 + 2, 0 + 1 + 2]
    # Left 4: the median of 9, ..., 13 is 11, a weight of 4. Arm 1: the median is 4 now, a power of two itself.
    feed(policy, [8, 3], [1, 0])
    assert levels(policy) == [8 + 1 + 1, 0 + 1 + 1]
    feed(policy, [9, 1], [1, 0])  # left 3: a quarter of all, just enough
    assert levels(policy) == [9 + 1 + 0, 0 + 1 + 0]
    feed(policy, [10, 1], [1, 0])  # left 2: draws decide
    assert levels(policy, 0.0, 0.5, 0.0, 0.5) == [11, 1]
    assert levels(kind(1, 1.0, 0.1)) == [10]  # one arm gets all
    policy = kind(2, 4.0, 0.01)
    policy.update(np.array([0.03, 0.0]), np.zeros(2), Script())
    policy.zeros[0, 0] = (
        2000  # almost surely at most 3: the median is 2, the other one's 201, a weight of 256
    )
    assert levels(policy) == [1 + 398 * 64 // 320, 1 + 398 * 256 // 320]  # a quarter of an equal share is 49
    policy.edition = 1
    assert levels(policy) == [1 + 398 * 2 // 258, 1 + 398 * 256 // 258]


def test_all_arms_are_served_as_long_as_the_budget_may_cover_them():
    covering(CsbTs)
    assert CsbTs(3, 0.2, 0.1).select(np.random.default_rng(0)).sum() <= 0.2 + 1e-9  # fewer levels than arms


def test_real_outcomes_lend_their_experience_to_all_arms():
    policy = CsbTs(2, 1.0, 0.1, "reward")
    policy.update(np.array([1.0, 0.0]), np.array([0.7, 0.0]), np.random.default_rng(0))
    for _ in range(8):
        policy.update(np.array([1.0, 0.0]), np.array([0.6, 0.0]), np.random.default_rng(0))
    # Nine rewards of arm 0 and no genuine zero: one zero of arm 1 at level 5 counts B(10, 2) / B(10, 1) = 1/11.
    feed(policy, [0, 5], [0, 0])
    probability, _ = by_level(policy, 1)
    assert probability[0] / probability[10] == pytest.approx(1 / 11)
    for _ in range(9):  # as many ones: half of the outcomes are not between 0 and 1 any more
        feed(policy, [10, 0], [1, 0])
    probability, _ = by_level(policy, 1)
    assert probability[0] / probability[10] == pytest.approx(1 / 2)


def test_the_default_step_follows_the_budget():
    steps = [CsbTs(2, budget).step for budget in (1.0, 9.99, 10.0, 0.065, 1e6)]
    assert steps == pytest.approx([1e-6, 1e-6, 1e-5, 1e-8, 1.0], rel=1e-12)
    assert CsbTs(2, 0.065).C == 6_500_000
    assert CsbTs(2, 0.065, setting="reward").C == 650_000


def test_csb_ts_same_by_hand():
    policy = CsbTsSame(3, 1.2)
    third = np.array([0.4, 0.4, 0.4])
    policy.update(third, np.zeros(3), Script())
    # B(1, 2)^3 = 1/8 for M = 1 and 2, where no arm was served; 1 for M = 3
    np.testing.assert_allclose(policy.belief(0)[1], [0.8, 0.1, 0.1], atol=1e-15)
    assert policy.belief(0)[3].tolist() == [1, 2, 2]
    for u, expected in ((0.79, [0.4] * 3), (0.81, [0.6, 0, 0.6]), (0.91, [1.2, 0, 0])):
        assert policy.select(Script(u, 0.9, 0.2, 0.5)).tolist() == pytest.approx(expected)
    policy.update(third, np.array([0.0, 1.0, 0.0]), Script())
    assert policy.belief(0)[1].tolist() == [0, 0.5, 0.5]
    policy.update(np.array([1.2, 0, 0]), np.array([1.0, 0.0, 0.0]), Script())
    policy.update(np.array([1.2, 0, 0]), np.array([1.0, 0.0, 0.0]), Script())
    assert policy.belief(0)[1].tolist() == [0, 0, 1]  # never less than one arm
    rewards = CsbTsSame(3, 1.2, "reward")
    rewards.update(np.array([0.6, 0.6, 0.0]), np.array([1.0, 0.0, 0.0]), Script())
    np.testing.assert_allclose(rewards.belief(0)[1], [0.5, 0.5, 0.0])  # Q/3, Q/2, Q
    rewards.update(np.array([0.4, 0.4, 0.4]), np.zeros(3), Script())
    # M = 2: B(2, 1) B(1, 2) B(1, 1) = 1/4. M = 3: B(2, 2) B(1, 3) B(1, 2) = 1/36
    np.testing.assert_allclose(rewards.belief(0)[1], [0.1, 0.9, 0.0])


# ---- arguments and conformance


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arms": 0}, "arms must be an integer >= 1, got 0"),
        ({"budget": 0.0}, "budget must be a finite number > 0, got 0.0"),
        ({"step": 0.0}, "step must be a finite number > 0, got 0.0"),
        ({"step": 1.2}, "step must be at most the budget 1, got 1.2"),
        ({"step": 1e-9}, "step must be at least 1e-08 for this budget, got 1e-09"),
        ({"step": 1e-320}, "step must be at least 1e-08"),
        ({"setting": "losses"}, "setting must be 'loss' or 'reward', got 'losses'"),
        ({"setting": None}, "setting must be 'loss' or 'reward', got None"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    given_ = {"arms": 4, "budget": 1.0, **arguments}
    with pytest.raises(ValueError, match=f"^{message}"):
        CsbTs(**given_)
    if "step" not in arguments:
        with pytest.raises(ValueError, match=f"^{message}"):
            CsbTsSame(**given_)


def test_levels_are_counted_with_a_tolerance():
    assert CsbTs(2, 4.2, 0.7).C == 6  # 4.2 / .7 < 6 in doubles
    assert CsbTs(2, 1.0, 0.3).C == 3
    assert CsbTs(2, 0.5, 0.5).C == 1


@pytest.mark.parametrize("setting", BOTH)
def test_a_problem_tells_its_setting(setting):
    problem = AllocationProblem([0.5, 0.6], [0.3, 0.3], 0.5, setting)
    for name in ("CSB-TS", "CSB-TS-same", "Known"):
        options = {"thresholds": [0.3, 0.3]} if name == "Known" else {}
        assert SETTINGS["allocation"].make(name, problem, options).reward == (setting == "reward")
        assert SETTINGS["allocation"].parameters(name, problem, options)["setting"] == setting
    other = SETTINGS["allocation"].make("CSB-TS", problem, {"setting": "loss", "step": 0.1})
    assert (other.reward, other.C) == (False, 5)


# losses of 0 or 1 in tests/checks/test_policies.py
@pytest.mark.parametrize("kind", [CsbTs, CsbTsSame])
@pytest.mark.parametrize(
    ("setting", "law"), [CASES[3], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[1:3])]
)
def test_conformance(kind, setting, law):
    thresholds = [0.5, 0.3, 0.3, 0.7] if kind is CsbTs else [0.4] * 4
    problem = AllocationProblem([0.8, 0.6, 0.5, 0.9], thresholds, 1.2, setting, law)
    check_policy(lambda p: kind(p.arms, p.budget, setting=p.outcome), problem, rounds=100)


# ---- what must always hold


@pytest.mark.parametrize("kind", [CsbTs, CsbTsSame])
@pytest.mark.parametrize("setting", BOTH)
@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_the_true_threshold_is_never_excluded(kind, setting, seed):
    mu, theta, budget, step = instance(seed, same=kind is CsbTsSame)
    problem = AllocationProblem(mu, theta, budget, setting)
    policy = (
        kind(mu.size, budget, setting=setting) if kind is CsbTsSame else kind(mu.size, budget, step, setting)
    )
    world, x, rng = problem.world(), np.empty(mu.size), np.random.default_rng(seed)
    for _ in range(60):
        world.draw(x, rng)
        given_ = policy.select(rng)
        served = given_ >= theta * (1 - 1e-9)
        policy.update(given_, np.where(served == (setting == "reward"), x, 0.0), rng)
    for i in range(mu.size):
        amounts, probability, _, _ = policy.belief(i)
        # the smallest amount that serves it
        true = int(np.searchsorted(amounts[:, 1], theta[i] * (1 - 1e-9)))
        assert probability[true] > 0.0
        assert probability.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("setting", BOTH)
def test_a_full_list_joins_neighbours(setting, monkeypatch):
    monkeypatch.setattr(csb_ts, "LEVELS", 4)
    policy, exact = CsbTs(1, 4.0, 0.1, setting), Grid(CsbTs(1, 4.0, 0.1, setting))
    rng = np.random.default_rng(0)
    for level in rng.permutation(np.repeat(np.arange(1, 41), 2)):
        lesson = np.array([level * 0.1]), np.zeros(1)
        policy.update(*lesson, rng)
        exact.enter(*lesson, iter(()))
        used = policy.levels[0, : policy.used[0]]
        assert used.size <= 4
        assert (np.diff(used) > 0).all()
    zeros = by_level(policy)[1] - 1
    right = np.array([exact.zeros(0, k) for k in range(1, 42)])
    assert (zeros <= right).all()  # never too many
    assert zeros.max() == right.max() == 80


@pytest.mark.parametrize("setting", BOTH)
@pytest.mark.parametrize("positive", [0, 2])
def test_a_full_list_is_nearly_exact(setting, positive, monkeypatch):
    """An arm that hardly ever gives anything: zeros at each of 400 levels, none of which can be ruled out."""
    monkeypatch.setattr(csb_ts, "LEVELS", 64)
    policy, rng = CsbTs(1, 4.0, 0.01, setting), np.random.default_rng(0)
    seen = np.zeros(401, dtype=int)
    sure = 400 if setting == "reward" else 0  # what is seen there rules no threshold out that can be served
    for level in [sure] * positive + rng.permutation(np.repeat(np.arange(1, 401), 3)).tolist():
        observed = float(level == sure and policy.P[0] < positive)
        seen[level] += observed == 0.0
        policy.update(np.array([level * 0.01]), np.array([observed]), rng)
    assert policy.used[0] == 64
    k = np.arange(1, 402)
    below = np.append(0, np.cumsum(seen))[k]
    weight = betaln(1 + positive, 1 + (seen.sum() - below if setting == "reward" else below))
    if setting == "reward" and positive:
        weight[-1] = -np.inf
    right = np.exp(weight - weight.max())
    found, _ = by_level(policy)
    # joining the two farthest would be off by .2 where nothing was ever positive
    assert np.abs(found - right / right.sum()).sum() / 2 < 0.02


def test_the_work_grows_like_the_logarithm_of_the_levels(monkeypatch):
    """Weights computed per arm and round: of 300 and of 30 000 levels, of 10 and of 20 arms. Counted, not timed."""

    def work(setting, step, copies=1):
        calls = []
        monkeypatch.setattr(posterior, "fall", lambda P, F, zeros: calls.append(1) or fall(P, F, zeros))
        known = load("III")
        mu, theta = np.tile(known.means, copies), np.tile(known.thresholds, copies)
        world = AllocationProblem(mu, theta, 3.0 * copies, setting).world()
        policy = CsbTs(mu.size, 3.0 * copies, step, setting)
        x, rng = np.empty(mu.size), np.random.default_rng(1)
        for _ in range(250):
            world.draw(x, rng)
            given_ = policy.select(rng)
            policy.update(given_, np.where((given_ >= theta) == (setting == "reward"), x, 0.0), rng)
        return len(calls) / 250 / mu.size

    fall = posterior.fall
    for setting in BOTH:
        coarse, fine, many = work(setting, 0.01), work(setting, 0.0001), work(setting, 0.01, copies=2)
        assert fine < 4.0 * coarse  # the logarithm grows by 1.8, the number of levels by 100; quantiles move
        assert many < 1.5 * coarse
