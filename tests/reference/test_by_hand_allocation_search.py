"""Hand-computed cases for the twins of chapter 4 with a threshold per arm; arms 1-based in the comments."""

import pytest
from tests.reference.allocation import SlowCsbDu, SlowKnownThresholds
from tests.reference.allocation_search import SlowCsbMk, SlowNumMk
from tests.reference.csb_dt import SlowCsbDt
from tests.reference.test_by_hand_allocation import ask, counts, tell
from tests.rig.draws import Script

EPSILON, DELTA = 0.1, 0.1


def test_csb_mk_probes_halves_and_serves_good_arms():
    policy = SlowCsbMk(3, 1.0, EPSILON, DELTA, 0.3, wait=2)
    # Midpoints .5, .5, .5: the third does not fit.
    allocation = ask(policy, 0.9, 0.2, 0.5)
    assert allocation == [0.5, 0.5, 0.0]
    tell(policy, allocation, [0.0, 1.0, 1.0])
    # Arm 2: theta_l = .5, S + 1; arm 3 got 0 and is seen.
    assert counts(policy) == ([1, 2, 2], [1, 1, 1])
    assert (policy.Z, policy.theta_l) == ({1: 1, 2: 0, 3: 0}, {1: 0.0, 2: 0.5, 3: 0.0})
    # Midpoints .5, .75: stop at arm 2, and arm 3 (.5) fails as well although it would fit.
    allocation = ask(policy, 0.9, 0.2, 0.5)
    assert allocation == [0.5, 0.0, 0.0]
    tell(policy, allocation, [0.0, 1.0, 0.0])
    # Arm 1: Z = W, theta_u = .5. Arm 2 got less than theta_l.
    assert policy.theta_u[1] == 0.5
    assert policy.theta_hat == [0.5, 1.0, 1.0]
    assert counts(policy) == ([1, 3, 2], [1, 1, 2])
    # Midpoints .25, .75 fit exactly.
    allocation = ask(policy, 0.9, 0.2, 0.5)
    assert allocation == [0.25, 0.75, 0.0]
    tell(policy, allocation, [1.0, 0.0, 0.0])
    # Arm 1: theta_l = .25, .5 - .25 <= .3: good. Arm 2: Z = 1.
    assert policy.theta_g == {1: True, 2: False, 3: False}
    assert (policy.theta_hat[0], policy.n_i) == (0.5, 2)
    # Bad first: .75 for arm 2, then arm 3 (.5) does not fit; arm 1 needs .5 and gets 0, keeping its estimate.
    allocation = ask(policy, 0.9, 0.2, 0.5)
    assert allocation == [0.0, 0.75, 0.0]
    tell(policy, allocation, [1.0, 0.0, 0.0])
    assert policy.theta_hat == [0.5, 0.75, 1.0]  # arm 2: Z = W, .75 - .5 <= .3: good
    assert counts(policy) == ([3, 3, 2], [1, 1, 4])
    # Arm 3 takes .5; arm 1 (.1 / .5 = .2) before arm 2 (.14 / .75): .5 fits, .75 does not.
    assert ask(policy, 0.1, 0.14, 0.0) == [0.5, 0.0, 0.5]
    # Arm 2 first (.3 / .75 = .4): it fails, and arm 1 is not tried.
    assert ask(policy, 0.1, 0.3, 0.0) == [0.0, 0.0, 0.5]


def test_csb_mk_zeros_count_for_one_probe():
    policy = SlowCsbMk(1, 1.0, EPSILON, DELTA, 0.1, wait=3)
    tell(policy, [0.5], [0.0])
    tell(policy, [0.5], [0.0])
    tell(policy, [0.0], [1.0])  # a pause at 0 teaches the mean and keeps the zeros
    assert (policy.Z[1], counts(policy)) == (2, ([2], [1]))
    tell(policy, [0.25], [0.0])  # another probe
    assert (policy.Z[1], policy.probed[1]) == (1, 0.25)
    tell(policy, [0.25], [1.0])
    assert (policy.theta_l[1], counts(policy)) == (0.25, ([3], [2]))
    for _ in range(3):
        tell(policy, [0.5], [0.0])
    assert (policy.theta_u[1], policy.Z[1]) == (0.5, 0)
    tell(policy, [0.5], [0.0])  # late, known to be enough
    assert policy.Z[1] == 0
    tell(policy, [0.6], [1.0])  # late, and a loss where it should be impossible
    assert (policy.theta_l[1], policy.theta_u[1]) == (0.6, 1.0)


def test_a_width_of_gamma_in_doubles_is_good():
    policy = SlowCsbMk(1, 0.2, EPSILON, DELTA, 0.01, wait=1)
    tell(policy, [0.2 - 0.01], [1.0])
    assert policy.theta_u[1] - policy.theta_l[1] > 0.01  # .2 - (.2 - .01) in doubles
    assert policy.found


def known(policy, *bounds):
    """Good arms from 1 on, with given upper ends."""
    for i, upper in enumerate(bounds, start=1):
        policy.theta_u[i], policy.theta_l[i], policy.theta_g[i] = upper, upper - policy.gamma, True


def test_csb_mk_looks_among_the_known_thresholds():
    policy = SlowCsbMk(5, 1.0, EPSILON, DELTA, 0.05, distinct=3, wait=1)
    known(policy, 0.6, 0.3, 0.6 + 1e-13, 0.4)
    assert policy.n_i == 5
    assert policy.Theta_n == [0.3, 0.4, 0.6]
    assert policy.probe(5) == 0.4  # l = 1, u = 3, j = 2
    policy.theta_l[5] = 0.3
    assert policy.probe(5) == 0.4  # l = 2, u = 3, j = 2
    policy.theta_u[5] = 0.4
    assert policy.probe(5) == pytest.approx(0.35)  # the known one is the upper end: gamma below it
    policy.theta_l[5], policy.theta_u[5] = 0.4, 0.58
    assert policy.probe(5) == pytest.approx(0.49)  # none inside
    policy.many = False
    policy.theta_l[5], policy.theta_u[5] = 0.0, 1.0
    assert policy.probe(5) == 0.5
    # Only the first bad arm looks there.
    policy = SlowCsbMk(3, 1.0, EPSILON, DELTA, 0.05, distinct=2, wait=1)
    known(policy, 0.3)
    assert (policy.probe(2), policy.probe(3)) == (0.3, 0.5)
    assert not SlowCsbMk(3, 1.0, EPSILON, DELTA, 0.05, distinct=3).many


def test_decimals_round_the_estimate_of_a_good_arm_only():
    policy = SlowCsbMk(2, 1.0, EPSILON, DELTA, 0.1, search_max=0.5, wait=1, decimals=1)
    policy.theta_u[1] = policy.theta_u[2] = 0.25
    policy.theta_g[1] = True
    assert policy.theta_hat == [0.3, 0.25]  # 2.5 + .5 = 3
    policy.theta_u[1] = 0.04
    assert policy.theta_hat == [0.0, 0.25]
    # Arm 2 takes .125; arm 1 costs nothing.
    assert ask(policy, 0.5, 0.5) == [0.0, 0.125]
    assert SlowCsbMk(2, 1.0, EPSILON, DELTA, 0.1, search_max=0.5).theta_hat == [0.5, 0.5]


def test_csb_mk_knapsack_phase():
    policy = SlowCsbMk(3, 1.0, EPSILON, DELTA, 0.05, wait=1, every=2)
    known(policy, 0.6, 0.5, 0.5)
    assert policy.found
    # .9 against .4 + .4.
    assert ask(policy, 0.9, 0.4, 0.4) == [0.6, 0.0, 0.0]
    tell(policy, [0.6, 0.0, 0.0], [1.0, 1.0, 0.0])  # a loss at .6 > theta_l is ignored
    assert counts(policy) == ([1, 2, 1], [1, 1, 2])
    assert ask(policy, 0.1, 0.4, 0.4) == [0.6, 0.0, 0.0]  # the kept set
    tell(policy, [0.0, 0.3, 0.0], [0.0, 0.0, 0.0])  # late, from the search: no part of the phase
    assert policy.phase == 1
    assert counts(policy) == ([1, 2, 1], [2, 2, 3])
    tell(policy, [0.6, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert policy.phase == 2
    assert ask(policy, 0.1, 0.4, 0.4) == [0.0, 0.5, 0.5]


def test_num_mk():
    policy = SlowNumMk(2, 1.0, EPSILON, DELTA, 0.3, wait=2)
    allocation = ask(policy, 0.5, 0.5)
    assert allocation == [0.5, 0.5]
    tell(policy, allocation, [0.0, 0.0])
    tell(policy, allocation, [0.0, 1.0])
    # Arm 1: Z = W, theta_l = .5. Arm 2: theta_u = .5, S + 1, F + 1.
    assert (policy.theta_l, policy.theta_u) == ({1: 0.5, 2: 0.0}, {1: 1.0, 2: 0.5})
    assert counts(policy) == ([1, 2], [1, 2])
    assert ask(policy, 0.5, 0.5) == [0.75, 0.25]
    tell(policy, [0.75, 0.25], [1.0, 0.0])
    assert policy.theta_g == {1: True, 2: False}
    tell(policy, [0.75, 0.25], [0.0, 0.0])
    # Arm 1 was given its estimate: F + 1. Arm 2: theta_l = .25, good.
    assert counts(policy) == ([2, 2], [2, 2])
    assert policy.found
    assert policy.theta_hat == [0.75, 0.5]
    assert ask(policy, 0.5, 0.6) == [0.0, 0.5]
    tell(policy, [0.0, 0.5], [0.0, 1.0])
    assert counts(policy) == ([2, 3], [2, 2])


def test_num_mk_late_reward_below_the_lower_end():
    policy = SlowNumMk(1, 1.0, EPSILON, DELTA, 0.1, wait=1)
    tell(policy, [0.5], [0.0])
    assert policy.theta_l[1] == 0.5
    tell(policy, [0.4], [0.0])  # late, known to be too small
    assert (policy.theta_l[1], policy.Z[1]) == (0.5, 0)
    tell(policy, [0.4], [1.0])
    assert (policy.theta_l[1], policy.theta_u[1]) == (0.0, 0.4)
    assert counts(policy) == ([2], [1])


def test_num_mk_rounded_down_estimates_are_learned_from():
    policy = SlowNumMk(1, 1.0, EPSILON, DELTA, 0.1, wait=1, decimals=1)
    known(policy, 0.34)
    assert policy.theta_hat == [0.3]
    tell(policy, [0.3], [0.0])
    assert counts(policy) == ([1], [2])


def test_csb_dt_learns_no_means_before_the_end():
    policy = SlowCsbDt(2, 1.0, EPSILON, DELTA, 0.5, wait=1)
    tell(policy, [0.5, 0.0], [0.0, 1.0])
    assert policy.theta_g == [True, False]
    tell(policy, [0.0, 0.5], [1.0, 1.0])  # ends the search
    assert policy.found
    assert policy.theta_hat == [0.5, 1.0]
    assert counts(policy) == ([1, 1], [1, 1])
    tell(policy, [0.5, 0.0], [1.0, 1.0])
    assert counts(policy) == ([1, 2], [1, 1])


def test_csb_dt_carries_the_budget_from_arm_to_arm():
    """Q = 2, four arms: halves for two, halves for the others; worked out by hand."""
    policy = SlowCsbDt(4, 2.0, EPSILON, DELTA, 0.1, wait=1)
    assert (policy.h, policy.free) == ([0.5, 0.5, 0.5, 0.5], 0.0)
    # A loss of arm 1: l = .5, the middle of (.5, 2] is 1.25; arm 4 gives its half and arm 3 a quarter, unheard.
    tell(policy, [0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 1.0, 0.0])
    # Arm 2 was quiet: u = .5, and half of what it holds is free again.
    assert (policy.h, policy.free) == ([1.25, 0.25, 0.25, 0.0], 0.25)
    assert (policy.theta_l, policy.theta_u) == ([0.5, 0.0, 0.0, 0.0], [2.0, 0.5, 2.0, 2.0])
    assert policy.select(None) == [1.25, 0.25, 0.25, 0.0]
    # All quiet: .375 + .125 + .125 become free besides, and arm 4, which has nothing, takes all without a loss.
    tell(policy, [1.25, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 0.0])
    assert policy.theta_u == [1.25, 0.25, 0.25, 2.0]
    assert (policy.h, policy.free) == ([0.875, 0.125, 0.125, 0.875], 0.0)


def test_csb_dt_serves_known_arms_from_what_is_free():
    policy = SlowCsbDt(3, 1.5, EPSILON, DELTA, 0.2, wait=1)
    assert policy.h == [0.75, 0.375, 0.375]
    policy.interval[1], policy.interval[2] = (0.3, 0.51), (0.4, 0.61)
    tell(policy, [0.45, 0.5, 0.0], [0.0, 0.0, 0.0])
    assert policy.threshold == {1: 0.45, 2: 0.5}
    assert (policy.h, policy.free) == ([0.0, 0.0, 0.375], 1.125)
    assert policy.select(None) == [0.45, 0.5, 0.375]
    tell(policy, [0.45, 0.5, 0.375], [0.0, 0.0, 1.0])  # the middle of (.375, 1.5] is .9375
    assert policy.free == 0.5625
    assert policy.select(None) == [0.45, 0.0, 0.9375]  # .1125 left: too little for arm 2


def test_csb_du():
    policy = SlowCsbDu(3, 1.2, 0.1)
    allocation = ask(policy, 0.5, 0.5, 0.5)
    assert allocation == pytest.approx([0.4, 0.4, 0.4])
    tell(policy, allocation, [0.0, 0.0, 0.0])
    tell(policy, allocation, [0.0, 1.0, 0.0])
    assert counts(policy) == ([1, 2, 1], [1, 2, 1])
    assert policy.L[2] == allocation[1]
    assert {1: {allocation[0]: 2}, 2: {}, 3: {allocation[2]: 2}} == policy.Z
    # Arm 2: .4 + .1; left .7 for two.
    allocation = ask(policy, 0.5, 0.5, 0.5)
    assert allocation == pytest.approx([0.35, 0.5, 0.35])
    tell(policy, allocation, [1.0, 0.0, 1.0])
    # Arm 1: the zeros at .4 are above .35 and stay. Arm 3 the same.
    assert counts(policy) == ([2, 2, 2], [1, 2, 1])
    # .45 + .5 + .45 > 1.2: the best pair; .9 in weight each or .95.
    allocation = ask(policy, 0.3, 0.2, 0.4)
    assert allocation == pytest.approx([0.45, 0.0, 0.45])
    tell(policy, allocation, [1.0, 1.0, 0.0])
    # Arm 1: two zeros at .4 are below .45 now.
    assert counts(policy) == ([3, 3, 2], [3, 2, 1])
    assert policy.phase == 1
    assert policy.theta_hat == pytest.approx([0.55, 0.5, 0.45])


def test_csb_du_solves_again_when_the_kept_set_no_longer_fits():
    policy = SlowCsbDu(2, 1.0, 0.1, every=20)
    tell(policy, [0.4, 0.5], [1.0, 1.0])
    # .5 + .6 > 1: arm 2 alone.
    assert ask(policy, 0.1, 0.2) == pytest.approx([0.0, 0.6])
    tell(policy, [0.0, 0.6], [0.0, 0.0])
    assert ask(policy, 0.9, 0.2) == pytest.approx([0.0, 0.6])
    tell(policy, [0.0, 0.95], [0.0, 1.0])  # arm 2 needs 1.05 from now on
    assert ask(policy, 0.1, 0.9) == pytest.approx([0.5, 0.0])


def test_csb_du_full_list_of_levels():
    policy = SlowCsbDu(1, 1.0, 1.0)
    assert policy.capacity == 4
    for level in (0.2, 0.4, 0.6, 0.8, 0.5, 0.9, 0.4 + 1e-13):
        tell(policy, [level], [0.0])
    # .5 goes to .6; .9 to the highest, .8, which becomes .9: a loss at .85 must not free this zero.
    assert policy.Z[1] == {0.2: 1, 0.4: 2, 0.6: 2, 0.9: 2}
    tell(policy, [0.4], [1.0])
    assert counts(policy) == ([2], [4])


def test_known_thresholds():
    policy = SlowKnownThresholds(4, 1.2, [0.4] * 4)
    assert policy.M == 3  # 1.2 / .4 is 2.9999999999999996 in doubles
    assert ask(policy, 0.1, 0.4, 0.1, 0.2) == [0.4, 0.4, 0.0, 0.4]
    tell(policy, [1.2 / 3, 0.0, 0.39, 0.4], [0.0, 1.0, 0.0, 1.0])
    assert counts(policy) == ([1, 2, 1, 1], [1, 1, 2, 1])
    reward = SlowKnownThresholds(3, 1.0, [0.6, 0.5, 0.5], "reward", every=3)
    assert reward.M == 0
    assert ask(reward, 0.9, 0.5, 0.5) == [0.0, 0.5, 0.5]
    tell(reward, [0.0, 0.5, 0.5], [0.0, 0.0, 1.0])
    assert counts(reward) == ([1, 1, 2], [1, 2, 1])
    assert ask(reward, 1.0, 0.1, 0.1) == [0.0, 0.5, 0.5]
    assert SlowKnownThresholds(2, 1.0, [0.0, 0.0]).M == 0
    assert SlowKnownThresholds(2, 3.0, [0.4, 0.4]).M == 2


def test_real_feedback_in_the_search_is_tested_raw():
    policy = SlowNumMk(1, 1.0, EPSILON, DELTA, 0.6, wait=1)
    rng = Script(0.9)
    policy.update([0.5], [0.2], rng)  # the bit is 0, the reward is seen all the same
    assert rng.asked == ["u"]
    assert counts(policy) == ([1], [2])
    assert policy.found
