"""Hand-computed cases for the slow twins of the policies beyond the thesis; the arithmetic is in the comments."""

from decimal import Decimal

import pytest
from tests.reference.cascade_beyond import SlowQUss, SlowUssTsDrift, SlowUssWd
from tests.reference.csb_ts import SlowArm, SlowCsbTs, SlowCsbTsSame, above, beta_function, invert, quantile
from tests.rig.draws import NO_DRAWS, Script


def near(*numbers):
    return pytest.approx(numbers, abs=1e-15)


def in_numbers(law):
    return [*map(float, law.values())]


# CSB-TS


def test_the_beta_function():
    assert float(beta_function(0, 0)) == 1
    assert float(beta_function(2, 1)) == pytest.approx(1 / 12)  # 2! 1! / 4!


def test_losses_of_one_arm():
    # Levels 0..3: thresholds 1..4. A zero at 0 and at 2, a loss at 1: 2, 3, 4 are left, with F = 1, 2, 2.
    arm = SlowArm(3, reward=False)
    for level, x in ((0, 0.0), (2, 0.0), (1, 1.0)):
        arm.enter(level, x, NO_DRAWS)
    assert [arm.failures()[k] for k in range(5)] == [0, 1, 1, 2, 2]
    # B(2, 2) = 1/6, B(2, 3) = 1/12: 1/2, 1/4, 1/4.
    assert list(arm.posterior()) == [2, 3, 4]
    assert in_numbers(arm.posterior()) == near(0.5, 0.25, 0.25)
    assert [invert(u, arm.posterior()) for u in (0.0, 0.49, 0.51, 0.74, 0.76, 1.0)] == [2, 2, 3, 3, 4, 4]
    rng = Script(0.3)
    assert arm.mean(3, rng) == 0.3
    assert rng.asked == [(2, 3)]  # 1 + S, 1 + F + P - S


def test_rewards_of_one_arm():
    # Zeros at 1 and twice at 3, a reward of .5 whose coin shows 0 at 2; level 0 teaches nothing.
    arm = SlowArm(3, reward=True)
    for level, x in ((0, 0.0), (0, 1.0), (1, 0.0), (3, 0.0), (3, 0.0)):
        arm.enter(level, x, NO_DRAWS)
    arm.enter(2, 0.5, Script(0.7))
    assert (arm.P, arm.S) == (1, 0)
    # 1, 2 are left: F(2) = 2, F(1) = 3; B(2, 3) = 1/12, B(2, 4) = 1/20: 5/8, 3/8.
    assert list(arm.posterior()) == [2, 1]
    assert in_numbers(arm.posterior()) == near(0.625, 0.375)
    assert float(above(1, arm.posterior())) == pytest.approx(0.625)
    rng = Script(0.3)
    arm.mean(1, rng)
    assert rng.asked == [(1, 5)]


def test_quantiles():
    assert quantile({k: Decimal(1) / 999 for k in range(1, 1000)}) == 999
    assert quantile({k: Decimal(1) / 1000 for k in range(1, 1001)}) == 999  # one of 1000: exactly .001
    assert quantile({k: Decimal(1) / 2500 for k in range(1, 2501)}) == 2498
    assert quantile({7: Decimal(1)}) == 7


def test_csb_ts_packs_and_probes_losses():
    # Q = 1, step .2: C = 5, thresholds 1..6, all as likely. u = .1, .3, .9: k = 1, 2, 6.
    policy = SlowCsbTs(3, 1.0, 0.2)
    rng = Script(0.1, 0.5, 0.3, 0.4, 0.9, 0.8)
    # Arms 1, 2 take 3 of 5. The 2 that are left pad the one with the larger mean, .5 against .4.
    assert policy.serve([arm.posterior() for arm in policy.arms], rng) == {0: 3, 1: 2, 2: 0}
    assert rng.asked == ["u", (1, 1)] * 3
    # But all three are covered at first: one level each, and 2 // 3 more.
    assert policy.select(NO_DRAWS) == pytest.approx([0.2, 0.2, 0.2])


def test_csb_ts_pads_rewards():
    # C = 5, one reward at 4 for arm 1 and at 2 for arm 2. k: u = .6 > 1/2 -> 2, u = .1 -> 4: smaller 2.
    policy = SlowCsbTs(2, 1.0, 0.2, "reward")
    policy.update([0.8, 0.4], [1.0, 1.0], NO_DRAWS)
    rng = Script(0.6, 0.5, 0.1, 0.6, 0.4, 0.7)
    # Arm 1: k = 2 of the order 4, 3, 2, 1 (.6 is in [.5, .75)); arm 2: k = 1 of 2, 1.
    # Left 2. Gains: .5 * 1/2 / 2 = .125 against .4 * 1/2 / 1 = .2: arm 2 to 2, then arm 1 by what is left.
    assert policy.select(rng) == pytest.approx([0.6, 0.4])
    assert rng.asked == ["u", (2, 1), "u"] * 2
    assert policy.route == {"pad", "pad, in part"}


def test_csb_ts_same():
    # K = 2, a loss of an arm given Q / 2 leaves M = 1; then a loss at Q / 1 leaves it too.
    policy = SlowCsbTsSame(2, 1.0)
    assert list(policy.law()) == [2, 1]
    policy.update([1.0, 0.0], [0.0, 0.0], NO_DRAWS)
    # F_1(2) = F_1(1) = 0: theta = Q / M is reached by Q whatever M; F_2 = 1.
    assert [policy.failures(i, M) for i in (0, 1) for M in (1, 2)] == [0, 0, 1, 1]
    policy.update([0.5, 0.5], [0.0, 1.0], NO_DRAWS)
    assert [policy.failures(i, M) for i in (0, 1) for M in (1, 2)] == [1, 0, 1, 1]
    assert policy.candidates == {1}
    policy.update([1.0, 0.0], [1.0, 0.0], NO_DRAWS)
    assert policy.candidates == {1}
    rng = Script(0.9, 0.2, 0.3)
    assert policy.select(rng) == [0.0, 1.0]
    assert rng.asked == ["u", (2, 2), (2, 3)]


def test_csb_ts_same_with_rewards():
    policy = SlowCsbTsSame(2, 1.0, "reward")
    policy.update([0.5, 0.5], [0.0, 0.0], NO_DRAWS)
    policy.update([0.0, 1.0], [1.0, 1.0], NO_DRAWS)  # arm 1 was given nothing
    assert (policy.P, policy.S) == ([0, 1], [0, 1])
    # M = 1: no zeros count. M = 2: one each: B(1, 2) B(2, 2) = 1/12 against B(1, 1) B(2, 1) = 1/2.
    assert list(policy.law()) == [1, 2]
    assert in_numbers(policy.law()) == near(1 / 2, 1 / 12)
    policy.update([0.5, 0.5], [0.0, 1.0], NO_DRAWS)
    assert policy.candidates == {2}


# Cascades


def test_uss_wd():
    policy = SlowUssWd([0.0, 0.25, 0.75])
    assert policy.nodes == [(0,), (0, 0), (0, 1)]
    policy.update(2, (1, 0, 0), NO_DRAWS)  # arm 2 differs from arm 1; arm 3 not from arm 2
    policy.update(1, (1, 1), NO_DRAWS)
    assert (policy.n, policy.d) == ({(0,): 2, (0, 0): 0, (0, 1): 1}, {(0,): 1, (0, 0): 0, (0, 1): 0})
    # q = .2, .5, .5: p_12 = .2; p_13 = .8 * .5 + .2 * .5 = .5; arm 1: .25 > .2 and .75 > .5.
    rng = Script(0.2, 0.5, 0.5)
    assert policy.select(rng) == 0
    assert rng.asked == [(1.5, 2.5), (0.5, 1.5), (0.5, 2.5)]
    # q = .2, .9, .5: p_13 = .72 + .1 = .82; p_23 = .72 + .1 = .82 > .5: the last arm.
    assert policy.select(Script(0.2, 0.9, 0.5)) == 2
    # q = .4, .2, .1: p_12 = .4; p_23 = .12 + .04 = .16 < .5: arm 2.
    assert policy.select(Script(0.4, 0.2, 0.1)) == 1
    # C = 0, .25, .75. q = .2, .9, .5: arm 3 passes, and is worth it: .75 <= p_13 = .82, .5 <= p_23 = .82. One law.
    # q = .1, .7, .0: p_12 = .1, p_13 = .63 + .1 = .73, p_23 = .63: arm 1 passes (.75 > .73). One law.
    # q = .3, .3, .9: p_12 = .3, p_13 = .21 + .03 = .24, p_23 = .21 + .27 = .48: arm 2 (.5 > .48), .25 <= .3. One law.
    assert policy.drawn == [1, 1, 1]
    # q = .3, .1, .9: p_13 = .07 + .03 = .1, p_12 = .3 >= .25, p_23 = .07 + .27 = .34 < .5: arm 2, possible.
    # q = .6, .0, 1.: p_12 = .6, p_13 = 0, p_23 = .6: arm 3, but .75 > p_13: excluded; draw again: q = .4, .2, .1.
    rng = Script(0.6, 0.0, 1.0, 0.4, 0.2, 0.1)
    assert policy.select(rng) == 1
    assert len(rng.asked) == 6
    assert policy.drawn[-1] == 2
    policy.redraws = 2  # the last one decides
    assert policy.select(Script(0.6, 0.0, 1.0, 0.6, 0.0, 1.0)) == 2
    policy.redraws = 1
    assert policy.select(Script(0.6, 0.0, 1.0)) == 2
    with pytest.raises(ValueError, match="more than two labels"):
        policy.update(2, (0, 1, 2), NO_DRAWS)


def test_drifting_uss_ts():
    policy = SlowUssTsDrift([0.0, 0.5], probe=0.1, memory=2)
    for outputs in ((0, 1), (0, 1), (0, 0)):
        policy.update(1, outputs, NO_DRAWS)
    # (1, 1), then N = 1 is not above M - 1: (2, 2); then scaled to (1, 1) before (1, 2).
    assert (policy.D[1, 2], policy.N[1, 2]) == (1, 2)
    assert policy.select(Script(0.05)) == 1
    rng = Script(0.1, 0.49)
    assert policy.select(rng) == 0
    assert rng.asked == ["u", (2, 2)]


def test_q_uss():
    policy = SlowQUss([0.0, 0.25, 0.5], price=1.0, cap=1.0)
    # p = .9 for all. th = .5: bound 0, arm 1. Second: th = .9: .72 > .25, so arm 1 fails; arm 2: th = .5: accepted.
    rng = Script(0.9, 0.9, 0.9, 0.5, 0.5, 0.9, 0.5, 0.5)
    assert policy.select(rng) == 1
    assert rng.asked == [(1, 1)] * 3 + [(6, 1)] * 5
    assert policy.buying  # 1^3 <= 1^2
    assert not policy.wants_label(1, (1, 1), NO_DRAWS)
    assert policy.wants_label(1, (1, 2), NO_DRAWS)
    policy.learn_label(2, (1, 2, 3), 2)
    assert (policy.A[1, 2], policy.B[2, 3], policy.E[1, 3]) == (1, 1, 1)
    policy.update(1, (1, 2), NO_DRAWS)
    assert (policy.t, policy.labels, policy.N[1, 2], policy.D[1, 2], policy.N[2, 3]) == (2, 1, 1, 1, 0)
    # Two labels would cost 2^3 > 2^2. Arms 1 and 2 disagree again: means.
    # Pair (1, 2): p = 2/3, th = 7/8, m = 1: 1/2 > .25. Pair (2, 3): p = 1/2, th = 3/4: .25, a tie. Arm 3.
    rng = Script(0.9, 0.9, 0.9, 0.5, 0.5, 0.9, 0.9, 0.5, 0.9, 0.5)
    assert policy.select(rng) == 2
    assert not policy.buying
    assert rng.asked == [(2, 1), (1, 1), (1, 1)] + 2 * [(7, 1), (6, 1), (1, 1)] + [(6, 2)]
