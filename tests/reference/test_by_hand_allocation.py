"""Hand-computed cases for the slow twins of chapter 4; the arithmetic is in the comments, arms 1-based."""

from fractions import Fraction

import pytest
from tests.reference.allocation import (
    SlowCsbSk,
    SlowCsbSt,
    SlowCsbSu,
    SlowNumSk,
    brute_knapsack,
)
from tests.reference.allocation_problem import SlowProblem, SlowWorld, slow_rounds
from tests.reference.allocation_search import SlowCsbMk, SlowNumMk
from tests.reference.csb_dt import SlowCsbDt
from tests.rig.draws import NO_DRAWS, Script


def ask(policy, *draws):
    """The allocation for given draws of the Beta laws."""
    rng = Script(*draws)
    allocation = policy.select(rng)
    assert rng.asked == [(policy.S[i], policy.F[i]) for i in policy.arms]
    return allocation


def tell(policy, allocation, observed):
    policy.update(allocation, observed, NO_DRAWS)


def counts(policy):
    return list(policy.S.values()), list(policy.F.values())


# Knapsack and problem


def items(*numbers):
    return dict(enumerate(numbers, start=1))


def test_knapsack_takes_the_best_set_and_the_lightest_of_equals():
    assert brute_knapsack(items(0.9, 0.6, 0.4), items(0.6, 0.55, 0.45), 1.0 + 1e-9) == (2, 3)
    assert brute_knapsack(items(3, 1, 2), items(5, 2, 2), 5) == (2, 3)  # 3 against 1 + 2, weight 5 against 4
    assert brute_knapsack(items(3, 2, 1), items(5, 2, 2), 5) == (2, 3)
    assert brute_knapsack(items(0, 1, -1), items(0, 7, 0), 5) == ()
    assert brute_knapsack(items(1, 1), items(0, 7), 5) == (1,)


def test_the_example_of_the_thesis_is_hopeless():
    p = SlowProblem([0.9, 0.6, 0.4], [0.6, 0.55, 0.45], 1.0)
    assert p.optimal_set == (1, 2)
    assert p.optimal_value == 1
    assert p.residual == p.gamma == 0


MEANS = [0.9, 0.8, 0.42, 0.6, 0.5, 0.2, 0.1, 0.3, 0.7, 0.98]


def test_residuals_of_the_instances_of_the_thesis():
    # Instance III: r / K = .005 although the text says .01.
    third = SlowProblem(MEANS, [0.65, 0.55, 0.3, 0.46, 0.37, 0.2, 0.07, 0.25, 0.3, 0.8], 3.0)
    assert third.gamma == Fraction(5, 1000)
    # NUM 2: .7 + .7 + .6 fills Q = 2.
    num = SlowProblem([0.9, 0.89, 0.87, 0.6, 0.3], [0.7, 0.7, 0.7, 0.6, 0.35], 2.0)
    assert num.optimal_set == (0, 1, 3)
    assert num.residual == 0
    # Three times .4 fit in 1.2, although .4 + .4 + .4 > 1.2 in doubles.
    assert SlowProblem([0.5, 0.4, 0.3], [0.4, 0.4, 0.4], 1.2).optimal_set == (0, 1, 2)


def test_residual_is_the_largest_of_the_optimal_sets():
    # .5 and .3 + .2 are worth the same: weights .9 and .6.
    p = SlowProblem([0.5, 0.3, 0.2], [0.9, 0.4, 0.2], 1.0)
    assert p.optimal_set == (1, 2)
    assert p.optimal_allocation == [0, Fraction(2, 5), Fraction(1, 5)]
    assert (p.residual, p.gamma) == (Fraction(2, 5), Fraction(2, 15))
    # 10 rounds of the best are worth 5; a round less of arm 3 costs .2, the other best set nothing.
    assert p.regret([0, 10, 10], 10) == 0
    assert p.regret([0, 10, 4], 10) == Fraction(12, 10)
    assert p.regret([10, 0, 0], 10) == 0


def test_the_two_equivalences():
    p = SlowProblem([0.9, 0.5], [0.6, 0.5], 1.0)
    # The best for (.5, .6) is arm 1 alone, value .9 as it should be, but .5 does not reach .6.
    assert p.equivalent([0.5, 0.6])
    assert not p.really_equivalent([0.5, 0.6])
    assert p.equivalent([0.7, 0.4])
    assert p.really_equivalent([0.7, 0.4])
    # (.4, .6) fits both: 1.4; only arm 2 is reached.
    assert not p.equivalent([0.4, 0.6])
    assert not p.really_equivalent([0.4, 0.6])
    assert not p.really_equivalent([1.1, 0.5])  # arm 2 alone: .5


def test_distinct_thresholds():
    p = SlowProblem([0.5] * 4, [0.1, 0.101, 0.105, 0.12], 1.0)
    assert p.distinct(0.01) == 3  # ceil 10, 11, 11, 12
    assert p.distinct(0.1) == 2  # ceil 1, 2, 2, 2


# Worlds


def test_world_draws_and_shows():
    world = SlowWorld([0.5, 0.5, 1.0], [0.4, 0.4, 0.5], 1.2)
    rng = Script(0.5, 0.49, 0.999)
    assert world.draw(rng) == [0.0, 1.0, 1.0]
    served = world.served([1.2 / 3, 0.3999, 0.0])
    assert served == [True, False, False]
    assert world.observed([1.0, 1.0, 0.5], served) == [0.0, 1.0, 0.5]
    world.setting = "reward"
    assert world.observed([1.0, 1.0, 0.5], served) == [1.0, 0.0, 0.0]


def test_uniform_draws_are_clipped():
    world = SlowWorld([0.98, 0.05, 0.5], [0.4] * 3, 1.0, rewards="uniform")
    # .98 - .1 + .18 = 1.06; .05 - .1 + .02 = -.03; .5 - .1 + .05 = .45.
    assert world.draw(Script(0.9, 0.1, 0.25)) == [1.0, 0.0, pytest.approx(0.45)]


def test_refused_allocations():
    world = SlowWorld([0.5, 0.5], [0.4, 0.4], 1.0)
    assert world.accepts([0.5, 0.5 + 1e-10])
    for refused in ([0.5, 0.5 + 1e-8], [0.5, -1e-300], [float("nan"), 0.0], [1.0], [0.0, 0.0, 0.0]):
        assert not world.accepts(refused), refused


def test_late_feedback_comes_in_order_at_its_round():
    class Clock:
        def __init__(self):
            self.log = []
            self.t = 0

        def select(self, rng):
            self.t += 1
            return [self.t / 10]

        def update(self, allocation, observed, rng):
            self.log.append((self.t, round(allocation[0] * 10)))

    clock = Clock()
    # Round 1 is two late, the others on time: 2 is learned in round 2, 1 and 3 in round 3.
    slow_rounds(SlowWorld([0.5], [0.5], 1.0), [clock], 0, 0, 4, late=lambda t: 2 if t == 1 else 0)
    assert clock.log == [(2, 2), (3, 1), (3, 3), (4, 4)]


# One threshold


def test_waits():
    # log(log2(50) / .1) / log(1 / .9) = 38.2 -> 39 (log2 50 = 5.644, log 56.44 = 4.0332, log 1/.9 = .10536).
    assert SlowNumSk(50, 20.0, 0.1, 0.1).W == SlowCsbSk(50, 20.0, 0.1, 0.1).W == 39
    # The same over floor(2.5) = 2: 19.1 -> 20.
    assert SlowCsbSt(50, 2.5, 0.1, 0.1).W == 20
    assert SlowCsbSt(50, 0.7, 0.1, 0.1).W == 39
    # Q / gamma = 2000: log2 2001 = 10.967, 5 * 10.967 / .1 = 548.3, log = 6.307: 59.9 -> 60.
    assert SlowNumMk(5, 2.0, 0.1, 0.1, 1e-3).W == 60
    # Q / gamma = 3000: log2 3001 = 11.551, log 1155.1 = 7.052: 66.9 -> 67.
    assert SlowNumMk(10, 3.0, 0.1, 0.1, 1e-3).W == 67
    assert SlowCsbDt(10, 3.0, 0.1, 0.1, 1e-3).W == 23  # 66.9 / 3 = 22.3
    assert SlowCsbMk(10, 3.0, 0.1, 0.1, 1e-3, search_max=2.0).W == 67  # log2 2001: log 1096.7 = 7.000: 66.4
    assert SlowCsbMk(10, 3.0, 0.1, 0.1, 1e-3, wait=3).W == 3
    assert SlowCsbSk(2, 1.0, 0.9, 0.9).W == 1  # log(1 / .9) / log 10 < 1


def test_csb_sk_loss_in_the_set():
    policy = SlowCsbSk(3, 3.0, 0.1, 0.1, wait=2)
    assert (policy.l, policy.u, policy.j, policy.found) == (1, 3, 2, False)
    first = ask(policy, 0.9, 0.2, 0.5)
    assert first == [1.5, 0.0, 1.5]
    tell(policy, first, [0.0, 1.0, 0.0])
    assert counts(policy) == ([1, 2, 1], [1, 1, 1])
    assert (policy.Z, policy.C) == ({1: 1, 2: 0, 3: 1}, 1)
    second = ask(policy, 0.1, 0.8, 0.8)  # arms 2 and 3
    tell(policy, second, [0.0, 0.0, 1.0])
    # F: 1 + 1 + 1, 1 + 1 + 0, 1 + 0 + 1.
    assert counts(policy) == ([1, 2, 2], [3, 2, 2])
    assert (policy.l, policy.u, policy.j, policy.C, policy.found) == (3, 3, 3, 0, True)
    assert policy.Z == {1: 0, 2: 0, 3: 0}
    third = ask(policy, 0.5, 0.5, 0.5)  # tie: the smallest arm
    assert third == [3.0, 0.0, 0.0]
    tell(policy, third, [1.0, 0.0, 1.0])  # the loss in the set is ignored
    assert counts(policy) == ([1, 2, 3], [3, 3, 2])
    tell(policy, first, [0.0, 1.0, 0.0])  # late: 1.5 is known to be too small
    assert counts(policy) == ([1, 3, 3], [4, 3, 3])
    assert policy.Z == {1: 0, 2: 0, 3: 0}


def test_csb_sk_waits_w_rounds():
    policy = SlowCsbSk(3, 3.0, 0.1, 0.1, wait=2)
    for _ in range(2):
        tell(policy, [1.5, 1.5, 0.0], [0.0, 0.0, 0.0])
    assert (policy.l, policy.u, policy.j, policy.C) == (1, 2, 1, 0)
    assert policy.Z == {1: 0, 2: 0, 3: 0}
    assert counts(policy) == ([1, 1, 1], [1, 1, 3])
    assert policy.theta_hat == [1.0, 1.0, 1.0]
    tell(policy, [1.5, 0.0, 1.5], [1.0, 1.0, 0.0])  # late, of a candidate that was enough: only arm 2
    assert counts(policy) == ([1, 2, 1], [1, 1, 3])
    tell(policy, [1.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    assert (policy.l, policy.j, policy.found) == (2, 2, True)
    assert counts(policy) == ([1, 3, 1], [2, 1, 4])


def test_csb_sk_real_losses_are_binarised_in_order():
    policy = SlowCsbSk(2, 1.0, 0.1, 0.1, wait=2)
    rng = Script(0.7, 0.2)
    policy.update([0.5, 0.5], [0.6, 0.3], rng)  # .7 >= .6: 0; .2 < .3: 1
    assert rng.asked == ["u"] * 2
    assert counts(policy) == ([1, 2], [2, 1])
    assert policy.found
    assert SlowCsbSk(1, 1.0, 0.1, 0.1).found


def test_csb_st_learns_no_means_before_the_end():
    policy = SlowCsbSt(3, 3.0, 0.1, 0.1, wait=1)
    tell(policy, [1.5, 1.5, 0.0], [0.0, 0.0, 1.0])
    assert (policy.l, policy.u, policy.j) == (1, 2, 1)
    tell(policy, [1.0, 1.0, 1.0], [1.0, 1.0, 0.0])
    assert policy.found
    assert counts(policy) == ([1, 1, 1], [1, 1, 1])
    tell(policy, [1.5, 1.5, 0.0], [1.0, 0.0, 1.0])
    assert counts(policy) == ([1, 1, 2], [1, 1, 1])
    tell(policy, [1.0, 1.0, 1.0], [1.0, 0.0, 1.0])  # late, known to be too small
    assert counts(policy) == ([2, 1, 3], [1, 2, 1])


def test_num_sk():
    policy = SlowNumSk(4, 2.0, 0.1, 0.1, wait=2)
    assert policy.j == 2
    allocation = ask(policy, 0.9, 0.1, 0.8, 0.7)
    assert allocation == [2 / 3, 0.0, 2 / 3, 2 / 3]
    tell(policy, allocation, [0.0] * 4)
    assert counts(policy) == ([1] * 4, [1] * 4)
    assert policy.Z == {1: 1, 2: 0, 3: 1, 4: 1}
    tell(policy, [2 / 3, 2 / 3, 2 / 3, 0.0], [0.0, 1.0, 0.0, 0.0])
    # A: S + X, F + 1 - X + Z with Z = 1, 0, 1; arm 4: F + 1.
    assert counts(policy) == ([1, 2, 1, 1], [3, 1, 3, 2])
    assert (policy.l, policy.u, policy.j, policy.C) == (1, 2, 1, 0)
    assert dict.fromkeys([1, 2, 3, 4], 0) == policy.Z
    for _ in range(2):
        tell(policy, [0.5] * 4, [0.0] * 4)
    assert (policy.l, policy.u, policy.j, policy.found) == (2, 2, 2, True)
    assert counts(policy) == ([1, 2, 1, 1], [3, 1, 3, 2])
    tell(policy, [2 / 3, 2 / 3, 0.0, 2 / 3], [1.0, 0.0, 0.0, 1.0])
    assert counts(policy) == ([2, 2, 1, 2], [3, 2, 3, 2])
    tell(policy, [0.5] * 4, [1.0] * 4)  # late, known to be too small: nothing
    assert counts(policy) == ([2, 2, 1, 2], [3, 2, 3, 2])


def test_csb_su():
    policy = SlowCsbSu(3, 3.0)
    allocation = ask(policy, 0.3, 0.2, 0.1)
    assert allocation == [1.0, 1.0, 1.0]
    tell(policy, allocation, [0.0] * 3)
    assert policy.Z == {1: 1, 2: 1, 3: 1}
    tell(policy, allocation, [0.0, 1.0, 0.0])
    assert policy.L == 2
    assert counts(policy) == ([1, 2, 1], [3, 2, 3])  # 1 + 1 + 1, 1 + 0 + 1, 1 + 1 + 1
    assert policy.Z == {1: 0, 2: 0, 3: 0}
    allocation = ask(policy, 0.3, 0.2, 0.3)
    assert allocation == [1.5, 0.0, 1.5]
    tell(policy, allocation, [0.0, 1.0, 0.0])
    assert policy.Z == {1: 1, 2: 0, 3: 1}
    assert counts(policy) == ([1, 3, 1], [3, 2, 3])
    tell(policy, [1.0, 1.0, 1.0], [1.0, 0.0, 0.0])  # late, known to be too little: all, without Z
    assert counts(policy) == ([2, 3, 1], [3, 3, 4])
    assert policy.Z == {1: 1, 2: 0, 3: 1}
    tell(policy, [1.5, 1.5, 0.0], [1.0, 0.0, 1.0])
    # 1: S + 1, F + 0 + 1; 2: F + 1 + 0; 3: outside, S + 1.
    assert counts(policy) == ([3, 3, 2], [4, 4, 4])
    assert (policy.L, policy.theta_hat) == (1, [3.0] * 3)
    tell(policy, [3.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    assert policy.L == 1
