"""Hand-computed cases for the slow twins of chapter 2; the arithmetic is in the comments, arms 1-based."""

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.reference.cascade import (
    SlowFixedArm,
    SlowHanawal,
    SlowLawWorld,
    SlowRandomArm,
    SlowTableWorld,
    SlowUssTs,
    SlowUssUcb,
    slow_problem,
    slow_run,
)
from tests.rig.draws import NO_DRAWS, Script


def tenths(*numbers):
    return tuple(Fraction(n, 10) for n in numbers)


# Rows (y, y1, y2, y3).
# gamma_1 = .2 + .2 = .4 (rows 2, 3), gamma_2 = .2 (row 3), gamma_3 = .1 (row 4).
# p_12 = .2 (row 2), p_13 = .2 + .2 + .1 = .5 (rows 2, 3, 4), p_23 = .2 + .1 = .3 (rows 3, 4).
FOUR_ROWS = [(0, 0, 0, 0), (0, 1, 0, 0), (1, 0, 0, 1), (1, 1, 1, 0)]
FOUR_PROBABILITIES = [0.5, 0.2, 0.2, 0.1]


def test_four_row_law_without_weak_dominance():
    p = slow_problem(FOUR_ROWS, FOUR_PROBABILITIES, [0.0, 0.1, 0.3])
    assert p.errors == tenths(4, 2, 1)
    assert p.disagreement == (tenths(0, 2, 5), tenths(2, 0, 3), tenths(5, 3, 0))
    # .4 + 0, .2 + .1, .1 + .3: arm 2 is best.
    assert p.total_costs == tenths(4, 3, 4)
    assert p.optimal_arm == 1
    assert p.gaps == tenths(1, 0, 1)
    # kappa_1 = p_12 - (gamma_1 - gamma_2) = .2 - .2; kappa_3 = p_23 - (gamma_2 - gamma_3) = .3 - .1.
    assert p.kappas == tenths(0, 0, 2)
    # xi_1 = .1 + 0, xi_3 = .1 - .2.
    assert p.xis == tenths(1, 0, -1)
    # C_3 - C_2 = .2 against p_23 = .3.
    assert p.xi == Fraction(-1, 10)
    assert p.rho == Fraction(2, 3)
    assert not p.weak_dominance
    assert not p.strong_dominance  # row 4: arm 1 is right, arm 3 wrong
    # B^l: .1 <= .2; .3 <= .5 and .2 <= .3: all. B^h: .1 > .2 fails, .2 > .3 fails: only arm 3.
    assert p.lower_set == {0, 1, 2}
    assert p.upper_set == {2}


def test_four_row_law_with_weak_dominance():
    # A dearer arm 3: totals .4, .3, .6; xi_3 = .3 - .2; C_3 - C_2 = .4 against .3.
    p = slow_problem(FOUR_ROWS, FOUR_PROBABILITIES, [0.0, 0.1, 0.5])
    assert p.optimal_arm == 1
    assert p.gaps == tenths(1, 0, 3)
    assert p.xis == tenths(1, 0, 1)
    assert (p.xi, p.rho) == (Fraction(1, 10), Fraction(4, 3))
    assert p.weak_dominance
    # Arm 3 in B^l: .5 <= .5 holds, .4 <= .3 fails. B^h: arm 1 fails (.1 > .2), arm 2 holds (.4 > .3).
    assert p.lower_set == {0, 1}
    assert p.upper_set == {1, 2}


def test_strong_dominance_makes_kappas_zero():
    # gamma = .5, .2, .1; p_12 = .3, p_13 = .4, p_23 = .1. The last row would break SD, but never occurs.
    rows = [(0, 0, 0, 0), (1, 0, 1, 1), (1, 0, 0, 1), (1, 0, 0, 0), (1, 1, 0, 0)]
    p = slow_problem(rows, [0.5, 0.3, 0.1, 0.1, 0.0], [0.0, 0.1, 0.3])
    assert p.errors == tenths(5, 2, 1)
    assert p.strong_dominance
    # Totals .5, .3, .4.
    assert p.optimal_arm == 1
    assert p.kappas == tenths(0, 0, 0)
    assert p.xis == p.gaps == tenths(2, 0, 1)
    # C_3 - C_2 = .2, p_23 = .1.
    assert (p.xi, p.rho) == (Fraction(1, 10), 2)


def test_kappa_and_xi_below_the_optimal_arm():
    # gamma = .5, .1; p_12 = .5 + .1; totals .5 + 0, .1 + .1: arm 2 is best, Delta_1 = .3.
    # kappa_1 = .6 - (.5 - .1) = .2; xi_1 = .3 + .2 = .5, which is p_12 - (C_2 - C_1) as it should be.
    p = slow_problem([(0, 0, 0), (0, 1, 0), (0, 0, 1)], [0.4, 0.5, 0.1], [0.0, 0.1])
    assert (p.gaps, p.kappas, p.xis) == (tenths(3, 0), tenths(2, 0), tenths(5, 0))


@pytest.mark.parametrize(("dearer", "optimal"), [(0.0, 1), (5e-13, 1), (2e-12, 0)])
def test_ties_go_to_the_larger_arm_within_the_tolerance(dearer, optimal):
    # gamma = .3, .2; .3 + 0 against .2 + .1 (in floats .2 + .1 > .3). Past 1e-12 it is no tie.
    rows = [(0, 0, 0), (0, 1, 1), (0, 1, 0)]
    p = slow_problem(rows, [0.7, 0.2, 0.1], [0.0, 0.1 + dearer])
    assert p.optimal_arm == optimal
    # With i* = K both minima run over nothing. With i* = 1: xi = .1 + 2e-12 - p_12 = 2e-12.
    if optimal == 1:
        assert p.xi == p.rho == math.inf
    else:
        assert float(p.xi) == pytest.approx(2e-12, rel=1e-3)
    assert p.weak_dominance


def test_the_unlearnable_boundary_fails_weak_dominance():
    # gamma = 0, .1; C_2 - C_1 = .8 - .7 = .1 = p_12 (in floats .8 - .7 > .1): xi = 0, rho = 1.
    p = slow_problem([(0, 0, 0), (0, 0, 1)], [0.9, 0.1], [0.7, 0.8])
    assert p.optimal_arm == 0
    assert (p.xi, p.rho) == (0, 1)
    assert not p.weak_dominance
    assert p.lower_set == {0, 1}
    assert p.upper_set == {1}


def test_arms_that_never_disagree_have_infinite_rho():
    p = slow_problem([(0, 0, 0), (1, 0, 0)], [3, 2], [0.0, 0.1])  # weights 3 : 2, gamma = .4, .4
    assert p.errors == tenths(4, 4)
    assert p.optimal_arm == 0
    assert (p.rho, p.xi) == (math.inf, Fraction(1, 10))


def test_tradeoff_scales_the_costs():
    rows = [(0, 0, 0), (0, 1, 0)]
    assert slow_problem(rows, [1, 1], [1, 2], 0.1).costs == tenths(1, 2)
    p = slow_problem(rows, [1, 1], [1, 2], [0.1, 0.3])
    assert p.costs == tenths(1, 6)
    assert p.total_costs == tenths(6, 6)  # gamma = .5, 0: a tie
    assert p.optimal_arm == 1


def test_uss_ucb_five_rounds_by_hand():
    # K = 2, C = (0, .8), alpha = .5. The upper bound U of the pair decides: arm 1 if .8 > U.
    policy = SlowUssUcb([0.0, 0.8])
    assert policy.select(NO_DRAWS) == 1  # round 1 plays K
    policy.update(1, (0, 0), NO_DRAWS)  # D = 0, N = 1
    # t = 2: U = 0 + sqrt(.5 * .6931 / 1) = .5887
    assert policy.upper(1, 2) == pytest.approx(0.5887, abs=1e-4)
    assert policy.select(NO_DRAWS) == 0
    policy.update(0, (0,), NO_DRAWS)  # nothing learnt
    # t = 3: U = sqrt(.5 * 1.0986) = .7412
    assert policy.upper(1, 2) == pytest.approx(0.7412, abs=1e-4)
    assert policy.select(NO_DRAWS) == 0
    policy.update(0, (1,), NO_DRAWS)
    # t = 4: U = sqrt(.5 * 1.3863) = .8326
    assert policy.upper(1, 2) == pytest.approx(0.8326, abs=1e-4)
    assert policy.select(NO_DRAWS) == 1
    policy.update(1, (0, 1), NO_DRAWS)  # D = 1, N = 2
    # t = 5: U = 1/2 + sqrt(.5 * 1.6094 / 2) = .5 + .6343
    assert policy.upper(1, 2) == pytest.approx(1.1343, abs=1e-4)
    assert policy.select(NO_DRAWS) == 1


def test_two_sided_test_of_uss_ucb_against_the_one_sided_heuristic():
    # One round to arm 3 with (0, 1, 1), three to arm 2 with (0, 0): D_12 = 1, N_12 = 4;
    # D_13 = 1, D_23 = 0, N_13 = N_23 = 1.
    # t = 5, alpha = .5: U_12 = .25 + sqrt(.8047 / 4) = .6985, U_13 = 1 + .8971, U_23 = .8971.
    # C = (0, .8, 1.75): arm 1 fails upwards (1.75 > 1.8971 is false); arm 2 passes upwards (.95 > .8971) but
    # fails downwards (.8 <= .6985 is false); arm 3 fails downwards (.95 <= .8971 is false). B is empty: K.
    ucb, heuristic = SlowUssUcb([0.0, 0.8, 1.75]), SlowHanawal([0.0, 0.8, 1.75], alpha=0.5)
    for policy in (ucb, heuristic):
        policy.update(2, (0, 1, 1), NO_DRAWS)
        for _ in range(3):
            policy.update(1, (0, 0), NO_DRAWS)
        assert policy.upper(1, 2) == pytest.approx(0.6985, abs=1e-4)
        assert policy.upper(2, 3) == pytest.approx(0.8971, abs=1e-4)
    assert ucb.lower_set() == {1}
    assert ucb.upper_set() == {2, 3}
    assert ucb.select(NO_DRAWS) == 2
    assert heuristic.select(NO_DRAWS) == 1


def test_equality_in_the_upper_bounds():
    # After one round of agreement every U equals u = sqrt(.5 log 2), and C_2 - C_1 = u - 0 exactly.
    u = math.sqrt(0.5 * math.log(2))
    ucb = SlowUssUcb([0.0, u, 5.0])
    heuristic = SlowHanawal([0.0, u, 5.0], alpha=0.5)
    for policy in (ucb, heuristic):
        policy.update(2, (1, 1, 1), NO_DRAWS)
    assert ucb.select(NO_DRAWS) == 1  # arm 1 is not in B^h (strict), arm 2 is in B^l (not strict)
    assert heuristic.select(NO_DRAWS) == 0  # >= accepts arm 1


def test_default_alpha_of_the_heuristic():
    # t = 2, N = 1, alpha = 1.5: U = sqrt(1.5 * .6931) = 1.0197.
    for cost, arm in ((1.01, 1), (1.03, 0)):
        policy = SlowHanawal([0.0, cost])
        assert policy.select(NO_DRAWS) == 1
        policy.update(1, (0, 0), NO_DRAWS)
        assert policy.select(NO_DRAWS) == arm


@pytest.mark.parametrize("cls", [SlowUssUcb, SlowHanawal])
def test_a_pair_never_observed_has_an_infinite_bound(cls):
    policy = cls([0.0, 100.0, 200.0])
    policy.update(1, (0, 0), NO_DRAWS)
    assert policy.upper(1, 3) == policy.upper(2, 3) == math.inf
    assert policy.select(NO_DRAWS) == 2


def test_uss_ts_draws_all_pairs_of_an_arm_even_after_a_failure():
    # C = (0, .3, .5). Arm 1: .3 > .4 fails, .5 > .1 holds, both are drawn. Arm 2: .2 > .1 holds.
    policy, script = SlowUssTs([0.0, 0.3, 0.5]), Script(0.4, 0.1, 0.1)
    assert policy.select(script) == 1
    assert script.asked == [(1, 1)] * 3
    # Arm 1 accepted at once: two draws.
    script = Script(0.2, 0.4)
    assert policy.select(script) == 0
    assert script.asked == [(1, 1)] * 2


def test_uss_ts_counts_and_order_of_draws():
    policy = SlowUssTs([0.0, 0.25, 0.5])
    policy.update(2, (0, 1, 1), NO_DRAWS)  # pairs 12 and 13 differ, 23 agrees
    policy.update(1, (0, 0), NO_DRAWS)  # pair 12 agrees, the others are unseen
    policy.update(0, (1,), NO_DRAWS)  # no pair
    # Beta arguments (S, F): 12 -> (2, 2), 13 -> (2, 1), 23 -> (1, 2); none for arm 3.
    # The test is strict: .25 > .25 fails for arm 1 and for arm 2.
    script = Script(0.25, 0.0, 0.25)
    assert policy.select(script) == 2
    assert script.asked == [(2, 2), (2, 1), (1, 2)]


def test_baselines():
    script = Script(0.0, 0.33, 0.34, 0.999)
    policy = SlowRandomArm([0.0, 0.1, 0.2])
    assert [policy.select(script) for _ in range(4)] == [0, 0, 1, 2]  # 3u = 0, .99, 1.02, 2.997
    assert SlowFixedArm([0.0, 0.1, 0.2], 1).select(NO_DRAWS) == 1


def test_one_arm_is_played_without_draws():
    for policy in (SlowUssUcb([0.3]), SlowHanawal([0.3]), SlowUssTs([0.3])):
        for _ in range(3):
            assert policy.select(NO_DRAWS) == 0
            policy.update(0, (1,), NO_DRAWS)


def test_law_world_takes_the_first_row_whose_cumulative_probability_exceeds_the_draw():
    world = SlowLawWorld([(0, 0), (0, 1), (1, 0)], [2, 3, 5])  # cumulative .2, .5, 1
    script = Script(0.0, 0.19, 0.25, 0.5, 0.999)
    served = [world.row(t, script) for t in range(1, 6)]
    assert served == [(0, 0), (0, 0), (0, 1), (1, 0), (1, 0)]


def test_law_world_falls_back_on_the_last_row():
    # Ten times .1 adds up to 1 - 2^-53 in floats, which the largest uniform draw equals.
    world = SlowLawWorld([(0, label) for label in range(10)], [0.1] * 10)
    assert world.row(1, Script(1 - 2**-53)) == (0, 9)


def test_table_world_shuffles_once_and_cycles():
    world = SlowTableWorld([(0, label) for label in range(4)])
    # k = 3: j = int(4 * .3) = 1 gives 0 3 2 1; k = 2: j = int(3 * 0) = 0 gives 2 3 0 1;
    # k = 1: j = int(2 * .6) = 1 changes nothing.
    script = Script(0.3, 0.0, 0.6)
    world.start(script)
    assert [world.row(t, script)[1] for t in range(1, 7)] == [2, 3, 0, 1, 2, 3]


def test_slow_run_hands_over_the_outputs_up_to_the_arm_and_nothing_else():
    class Spy:
        arms = (0, 2, 1)

        def __init__(self):
            self.seen = []

        def select(self, rng):
            return self.arms[len(self.seen)]

        def update(self, arm, outputs, rng):
            self.seen.append(outputs)

    spy = Spy()
    assert slow_run(spy, SlowTableWorld([(9, 1, 2, 3)]), seed=0, replication=0, horizon=3) == [0, 2, 1]
    assert spy.seen == [(1,), (1, 2, 3), (1, 2)]


def test_slow_run_uses_one_stream_for_the_world_and_one_for_the_policy():
    class Copycat(SlowRandomArm):
        def __init__(self, costs):
            super().__init__(costs)
            self.first_outputs = []

        def update(self, arm, outputs, rng):
            self.first_outputs.append(outputs[0])

    policy = Copycat([0.0, 0.1, 0.2])
    played = slow_run(policy, SlowLawWorld([(0, 0, 0, 0), (0, 1, 1, 1)], [1, 1]), 5, 7, horizon=50)
    uniforms = [
        np.random.Generator(np.random.PCG64(np.random.SeedSequence(5, spawn_key=(7, which)))).random(50)
        for which in (0, 1)
    ]
    assert policy.first_outputs == [int(u >= 0.5) for u in uniforms[0]]
    assert played == [int(3 * u) for u in uniforms[1]]


def test_uss_ucb_never_leaves_the_worse_arm_when_xi_is_tiny():
    # Arm 1 is always right, arm 2 every other time, C = (0, .501), alpha = 1. The two rows alternate, so
    # p_12 >= 1/2 - 1/(2N), and sqrt(log t / N) > 1/(2N) + .001 in every round t = N + 1 <= 1000: U > .501.
    policy = SlowUssUcb([0.0, 0.501], alpha=1.0)
    assert slow_run(policy, SlowTableWorld([(0, 0, 0), (0, 0, 1)]), 0, 0, horizon=1000) == [1] * 1000


@pytest.mark.parametrize("outputs", [(0,), (0, 1, 1)])
@pytest.mark.parametrize("cls", [SlowUssUcb, SlowUssTs, SlowHanawal, SlowRandomArm])
def test_twins_refuse_outputs_that_do_not_match_the_arm(cls, outputs):
    with pytest.raises(ValueError, match=r"outputs must be those of arms 0\.\.1"):
        cls([0.0, 0.1, 0.2]).update(1, outputs, NO_DRAWS)
