"""The policies of chapter 4 step by step: small cases by hand."""

import numpy as np
import pytest
from tests.rig.draws import NO_DRAWS, Script

from weakfeedback.allocation import (
    CsbDt,
    CsbDu,
    CsbMk,
    CsbSk,
    CsbSt,
    CsbSu,
    KnownThresholds,
    NumMk,
    NumSk,
)


def feed(policy, allocation, observed, rng=NO_DRAWS):
    policy.update(np.array(allocation, dtype=float), np.array(observed, dtype=float), rng)


# ---- CSB-SK: K = 4, Q = 1, candidates 1/4, 1/3, 1/2, 1 (j = 1, ..., 4); the search starts at j = floor(5 / 2) = 2


def test_csb_sk_gives_a_third_to_the_top_three():
    policy = CsbSk(4, 1.0, 0.1, 0.1, wait=2)
    assert policy.select(Script(0.2, 0.9, 0.2, 0.5)).tolist() == [1 / 3, 1 / 3, 0.0, 1 / 3]  # tie: the first
    assert not policy.found


def test_csb_sk_loss_raises_the_candidate_and_makes_zeros_genuine():
    policy = CsbSk(4, 1.0, 0.1, 0.1, wait=3)
    third = 1 / 3
    feed(policy, [third, third, third, 0], [0, 0, 0, 1])  # quiet in A_t; arm 4 lost
    assert (policy.C, policy.Z.tolist()) == (1, [1, 1, 1, 0])
    assert (policy.S.tolist(), policy.F.tolist()) == ([1, 1, 1, 2], [1, 1, 1, 1])
    feed(policy, [third, third, 0, third], [0, 1, 0, 0])  # arm 2 lost: everything is genuine
    assert (policy.l, policy.u, policy.j, policy.C) == (3, 4, 3, 0)
    assert policy.Z.tolist() == [0, 0, 0, 0]
    assert policy.S.tolist() == [1, 2, 1, 2]
    assert policy.F.tolist() == [3, 2, 3, 2]  # 1 + Z_i, and 1 - X_i
    assert policy.theta_hat.tolist() == [0.5] * 4


def test_csb_sk_quiet_rounds_lower_the_upper_end():
    policy = CsbSk(4, 1.0, 0.1, 0.1, wait=2)
    third = 1 / 3
    for _ in range(2):
        feed(policy, [third, third, third, 0], [0, 0, 0, 0])
    assert (policy.l, policy.u, policy.j) == (1, 2, 1)
    assert policy.F.tolist() == [1, 1, 1, 3]  # the zeros of A_t are forgotten
    feed(policy, [0.25] * 4, [0, 0, 1, 0])  # too little: j = u = 2
    assert policy.found
    assert policy.theta_hat.tolist() == [third] * 4
    before = policy.S.copy()
    feed(policy, [third, third, third, 0], [1, 0, 0, 1])  # a loss in A_t is ignored
    assert (policy.S - before).tolist() == [0, 0, 0, 1]
    feed(policy, [0.25] * 4, [0, 0, 0, 1])  # late, from before: a true sample of every arm
    assert (policy.S - before).tolist() == [0, 0, 0, 2]
    assert policy.F[0] == 3  # 1 of the loss at 1/4, 1 now


def test_csb_st_learns_no_means_before_the_threshold():
    policy = CsbSt(2, 1.0, 0.1, 0.1, wait=1)  # candidates 1/2 and 1; starts at 1/2
    feed(policy, [0.5, 0.5], [1, 0])
    assert policy.found
    assert policy.theta_hat.tolist() == [1.0, 1.0]
    assert policy.S.tolist() == policy.F.tolist() == [1, 1]
    feed(policy, [1.0, 0.0], [0, 1])
    assert (policy.S.tolist(), policy.F.tolist()) == ([1, 2], [1, 1])


def test_num_sk_reward_lowers_the_upper_end():
    policy = NumSk(4, 1.0, 0.1, 0.1, wait=2)
    third = 1 / 3
    feed(policy, [third, third, third, 0], [0, 0, 0, 0])
    assert policy.Z.tolist() == [1, 1, 1, 0]
    feed(policy, [third, third, 0, third], [0, 1, 0, 0])  # a reward: 1/3 suffices
    assert (policy.l, policy.u, policy.j) == (1, 2, 1)
    assert (policy.S.tolist(), policy.F.tolist()) == ([1, 2, 1, 1], [3, 2, 2, 2])
    for _ in range(2):
        feed(policy, [0.25] * 4, [0, 0, 0, 0])  # 1/4 does not
    assert policy.found
    assert policy.theta_hat.tolist() == [third] * 4
    assert (policy.S.tolist(), policy.F.tolist()) == ([1, 2, 1, 1], [3, 2, 2, 2])
    feed(policy, [third, 0, third, third], [1, 0, 0, 0])
    assert (policy.S.tolist(), policy.F.tolist()) == ([2, 2, 1, 1], [3, 2, 3, 3])


def test_real_rewards_are_searched_raw_and_learned_as_bits():
    policy = NumSk(4, 1.0, 0.1, 0.1, wait=1)
    third = 1 / 3
    # one coin for each reward strictly between 0 and 1, in index order: .3 < .4 is a 1, .9 >= .8 a 0
    feed(policy, [third, third, 0, third], [0.4, 0.8, 0, 1.0], Script(0.3, 0.9))
    assert policy.u == 2
    assert (policy.S.tolist(), policy.F.tolist()) == ([2, 1, 1, 2], [1, 2, 1, 1])


# ---- CSB-SU


def test_csb_su_serves_fewer_arms_after_each_loss():
    policy = CsbSu(3, 1.2)
    assert policy.select(Script(0.1, 0.2, 0.3)).tolist() == pytest.approx([0.4] * 3)
    feed(policy, [0.4] * 3, [0, 0, 0])
    assert policy.Z.tolist() == [1, 1, 1]
    feed(policy, [0.4] * 3, [0, 1, 0])
    assert (policy.L, policy.Z.tolist()) == (2, [0, 0, 0])
    assert (policy.S.tolist(), policy.F.tolist()) == ([1, 2, 1], [3, 2, 3])
    feed(policy, [0.6, 0.6, 0], [0, 0, 1])
    feed(policy, [0.6, 0, 0.6], [0, 0, 1])  # the printed algorithm forgets the zero of arm 2
    assert policy.L == 1
    assert (policy.S.tolist(), policy.F.tolist()) == ([1, 2, 3], [5, 3, 3])
    feed(policy, [1.2, 0, 0], [1, 0, 0])
    assert policy.L == 1  # never below


def test_csb_su_does_not_collapse_under_late_losses():
    policy = CsbSu(5, 1.0)
    for _ in range(4):
        feed(policy, [0.2] * 5, [1, 1, 1, 1, 1])  # decided while L was 5
    assert policy.L == 4
    assert policy.S.tolist() == [5] * 5


# ---- CSB-MK: two arms, Q = 1, gamma = .25


def test_csb_mk_halves_the_interval():
    policy = CsbMk(2, 1.0, 0.1, 0.1, 0.25, wait=2)
    assert policy.select(Script(0.5, 0.5)).tolist() == [0.5, 0.5]
    feed(policy, [0.5, 0.5], [1, 0])
    assert (policy.theta_l.tolist(), policy.theta_u.tolist()) == ([0.5, 0], [1, 1])
    assert policy.select(Script(0.5, 0.5)).tolist() == [0.75, 0.0]  # .75 + .5 do not fit
    feed(policy, [0.75, 0.0], [0, 1])
    assert policy.Z.tolist() == [1, 1]  # arm 2 pauses and keeps its zero
    assert policy.S.tolist() == [2, 2]
    feed(policy, [0.75, 0.0], [0, 0])
    assert (policy.theta_u.tolist(), policy.theta_g.tolist()) == ([0.75, 1], [True, False])
    # arm 1 is known and gets .75 only if arm 2's .5 leaves it
    assert policy.select(Script(0.5, 0.5)).tolist() == [0.0, 0.5]
    feed(policy, [0.0, 0.5], [1, 0])
    assert policy.theta_hat[0] == 0.75  # the estimate outlives a round without anything
    assert policy.theta_u[1] == 0.5  # the second zero at .5
    feed(policy, [0.0, 0.25], [0, 1])
    assert policy.found
    assert policy.theta_hat.tolist() == [0.75, 0.5]
    # KP of two arms that do not fit together: the larger draw
    assert policy.select(Script(0.9, 0.5)).tolist() == [0.75, 0.0]
    assert policy.select(Script(0.4, 0.5)).tolist() == [0.0, 0.5]


def test_csb_mk_forgets_zeros_of_another_amount():
    policy = CsbMk(2, 1.0, 0.1, 0.1, 0.1, wait=5)
    feed(policy, [0.5, 0.5], [0, 0])
    feed(policy, [0.3, 0.5], [1, 0])
    assert policy.F[0] == 1  # the zero at .5 is not known to be genuine
    assert policy.Z.tolist() == [0, 2]


def test_csb_mk_tries_known_thresholds_first():
    policy = CsbMk(3, 2.0, 0.1, 0.1, 0.1, distinct=2, wait=1)
    policy.theta_u[:] = [0.5, 0.8, 2.0]
    policy.theta_hat[:] = policy.theta_u
    policy.theta_l[:] = [0.45, 0.75, 0.0]
    policy.theta_g[:] = [True, True, False]
    policy.advance()
    assert policy.n_i == 2
    assert policy.Theta_n[: policy.known].tolist() == [0.5, 0.8]
    assert policy.probe(2) == 0.5  # both lie in (0, 2]: the first, floor((1 + 2) / 2) = 1
    feed(policy, [0, 0, 0.5], [0, 0, 1])
    assert policy.probe(2) == 0.8
    feed(policy, [0, 0, 0.8], [0, 0, 0])  # W = 1: .8 suffices
    assert policy.probe(2) == pytest.approx(0.7)  # the upper end itself: one gamma below, to be sure
    feed(policy, [0, 0, 0.7], [0, 0, 1])  # .8 - .7 > .1 in doubles, and yet it is known
    assert 0.8 - 0.7 > 0.1
    assert policy.found
    assert policy.theta_hat[2] == 0.8


def test_csb_mk_late_loss_reopens_the_search():
    policy = CsbMk(1, 1.0, 0.1, 0.1, 0.01, wait=1)
    feed(policy, [0.5], [0])
    assert policy.theta_u[0] == 0.5
    feed(policy, [0.5], [1])
    assert (policy.theta_l[0], policy.theta_u[0]) == (0.5, 1.0)


def test_csb_mk_rounds_only_if_asked():
    rounded = CsbMk(1, 1.0, 0.1, 0.1, 0.01, wait=1, decimals=1)
    plain = CsbMk(1, 1.0, 0.1, 0.1, 0.01, wait=1)
    for policy in (rounded, plain):
        while not policy.found:
            amount = policy.probe(0)
            feed(policy, [amount], [amount < 0.3])
    assert rounded.theta_hat[0] == 0.3
    assert 0.3 < plain.theta_hat[0] < 0.31


def test_csb_mk_keeps_its_set_for_some_rounds():
    policy = CsbMk(2, 1.0, 0.1, 0.1, 0.5, wait=1, every=3)
    feed(policy, [0.5, 0.5], [1, 1])
    assert policy.found
    assert policy.theta_hat.tolist() == [1.0, 1.0]
    given = []
    for draws in ((0.9, 0.1), (0.1, 0.9), (0.1, 0.9), (0.1, 0.9), (0.9, 0.1)):
        allocation = policy.select(Script(*draws))
        feed(policy, allocation, [0, 0])
        given.append(int(allocation.argmax()))
    assert given == [0, 0, 0, 1, 1]


def test_csb_dt_learns_no_means_before_the_thresholds():
    policy = CsbDt(2, 1.0, 0.1, 0.1, 0.5, wait=1)
    feed(policy, [0.0, 0.5], [1, 1])
    feed(policy, [0.5, 0.0], [1, 1])
    assert policy.found
    assert policy.S.tolist() == policy.F.tolist() == [1, 1]
    feed(policy, [1.0, 0.0], [0, 1])
    assert (policy.S.tolist(), policy.F.tolist()) == ([1, 2], [1, 1])


def test_num_mk_mirrors_csb_mk():
    policy = NumMk(2, 1.0, 0.1, 0.1, 0.25, wait=2)
    feed(policy, [0.5, 0.5], [1, 0])
    assert (policy.theta_u.tolist(), policy.theta_l.tolist()) == ([0.5, 1], [0, 0])
    feed(policy, [0.25, 0.5], [0, 0])
    assert policy.theta_l.tolist() == [0, 0.5]  # two zeros at .5
    assert policy.F.tolist() == [1, 1]  # which were no samples
    feed(policy, [0.25, 0.75], [1, 0])
    assert policy.F.tolist() == [2, 1]  # one genuine zero at .25
    assert policy.theta_g.tolist() == [True, False]
    feed(policy, [0.25, 0.75], [0, 1])
    assert policy.found
    assert policy.theta_hat.tolist() == [0.25, 0.75]
    assert (policy.S.tolist(), policy.F.tolist()) == ([3, 2], [3, 2])
    feed(policy, [0.25, 0.0], [1, 0])
    assert (policy.S.tolist(), policy.F.tolist()) == ([4, 2], [3, 2])


# ---- CSB-DU: Q = 1, gamma = .1


def test_csb_du_shares_what_is_left():
    policy = CsbDu(4, 1.0, 0.1)
    assert policy.select(Script(*[0.5] * 4)).tolist() == [0.25] * 4
    feed(policy, [0.25] * 4, [1, 0, 0, 0])
    # arm 1 gets .25 + .1, the others a third of .65 each
    assert policy.select(Script(*[0.5] * 4)).tolist() == pytest.approx([0.35] + [0.65 / 3] * 3)
    feed(policy, [0.35] + [0.65 / 3] * 3, [0, 0, 0, 1])
    assert policy.F.tolist() == [1, 1, 1, 1]  # zeros at .35, .25 and .65/3 wait
    share = (1 - 0.35 - (0.65 / 3 + 0.1)) / 2
    assert policy.select(Script(*[0.5] * 4)).tolist() == pytest.approx([0.35, share, share, 0.65 / 3 + 0.1])


def test_csb_du_releases_zeros_up_to_the_loss():
    policy = CsbDu(2, 1.0, 0.1)
    for amount, lost in ((0.5, 0), (0.4, 0), (0.4, 0), (0.3, 0), (0.4, 1)):
        feed(policy, [amount, 0.0], [lost, 0])
    assert (policy.L[0], policy.F[0], policy.S[0]) == (0.4, 1 + 3, 2)
    feed(policy, [0.5, 0.0], [1, 0])
    assert (policy.L[0], policy.F[0], policy.S[0]) == (0.5, 5, 3)
    assert policy.F[1] == 7  # got nothing in six rounds
    feed(policy, [0.4, 0.0], [1, 0])  # late
    assert (policy.L[0], policy.S[0]) == (0.5, 4)


def test_csb_du_solves_the_knapsack_when_it_cannot_pay_all():
    policy = CsbDu(2, 1.0, 0.1)
    feed(policy, [0.5, 0.5], [1, 0])
    feed(policy, [0.6, 0.4], [1, 0])
    feed(policy, [0.7, 0.3], [0, 1])
    assert policy.theta_hat.tolist() == pytest.approx([0.7, 0.4])
    assert policy.select(Script(0.9, 0.5)).tolist() == pytest.approx([0.7, 0.0])
    assert policy.select(Script(0.4, 0.5)).tolist() == pytest.approx([0.0, 0.4])


def test_csb_du_with_a_full_list_is_late_but_not_wrong():
    policy = CsbDu(1, 1.0, 0.5)
    size = policy.levels.shape[1]
    for k in range(size + 20):
        feed(policy, [0.9 - 0.01 * k], [0])
    assert policy.used[0] == size
    feed(policy, [0.95], [1])
    assert policy.F[0] == 1 + size + 20


def test_known_thresholds():
    same = KnownThresholds(3, 1.2, [0.4] * 3)
    assert same.M == 3  # 1.2 / .4 is 3 in spite of doubles
    policy = KnownThresholds(3, 1.0, [0.6, 0.55, 0.45])
    assert policy.select(Script(0.9, 0.6, 0.4)).tolist() == [0.0, 0.55, 0.45]
    feed(policy, [0.0, 0.55, 0.45], [1, 0, 0])
    assert (policy.S.tolist(), policy.F.tolist()) == ([2, 1, 1], [1, 1, 1])
    rewards = KnownThresholds(3, 1.0, [0.6, 0.55, 0.45], "reward")
    feed(rewards, [0.0, 0.55, 0.45], [0, 1, 0])
    assert (rewards.S.tolist(), rewards.F.tolist()) == ([1, 2, 1], [1, 1, 2])
