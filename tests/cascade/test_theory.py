"""The bounds of chapter 2 against values computed by hand, and the problems that break them."""

import math

import numpy as np
import pytest

from weakfeedback.cascade import theory
from weakfeedback.cascade.policies.uss_ucb import UssUcb
from weakfeedback.cascade.problem import CascadeProblem


@pytest.fixture
def problem():
    """i* = 2 of 3 arms, gaps (.1, 0, .05), kappas (.2, 0, 0), xis (.3, 0, .05): see the tests of problems."""
    rows = [[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1]]
    return CascadeProblem(rows, [0.2, 0.4, 0.1, 0.1, 0.2], [0.0, 0.1, 0.45])


@pytest.fixture
def strong():
    """Truth 1; arm 1 errs with probability .5, arm 2 in half of those cases. Gaps (0, .15)."""
    return CascadeProblem([[1, 0, 1], [1, 0, 0], [1, 1, 1]], [0.25, 0.25, 0.5], [0.0, 0.4])


@pytest.fixture
def hopeless():
    return CascadeProblem([[1, 1, 1], [1, 1, 0]], [0.5, 0.5], [0.0, 0.4])


# USS-UCB


def test_pulls_with_f_given(problem):
    # f = exp, alpha = 1, T = 2: log f(T) = 2, sqrt(2 pi / 2) = 1.7724539, C = e^-2 + e^-4 = 0.1536509
    pulls = theory.ucb_pulls(problem, 2, alpha=1.0, f=math.exp)
    assert pulls == pytest.approx([0.1536509 / 0.18, 2.0, 1 + 4.2724539 / 0.0025], rel=1e-6)


def test_pulls_with_f_the_round(problem):
    # alpha = 1, T = 1000: log T = 6.9077553, sqrt(pi 6.9077553 / 2) = 3.2940463, C = pi^2 / 6
    pulls = theory.ucb_pulls(problem, 1000, alpha=1.0)
    assert pulls == pytest.approx([math.pi**2 / 6 / 0.18, 1000.0, 1 + 10.7018016 / 0.0025], rel=1e-6)
    # alpha = 2: C = zeta(4) = pi^4 / 90, sqrt(pi 13.8155106 / 2) = 4.6584849
    pulls = theory.ucb_pulls(problem, 1000, alpha=2.0)
    assert pulls == pytest.approx([math.pi**4 / 90 / 0.18, 1000.0, 1 + 18.9739955 / 0.0025], rel=1e-6)


def test_the_sum_for_a_given_f_approaches_the_series(problem):
    short = theory.ucb_pulls(problem, 1000, alpha=1.0, f=float)
    series = theory.ucb_pulls(problem, 1000, alpha=1.0)
    assert short[0] < series[0]
    # the rest of the series of 1/t^2 after T lies between 1/(T + 1) and 1/T
    assert 1 / 1001 < (series[0] - short[0]) * 0.18 < 1 / 1000
    assert short[2] == pytest.approx(series[2])


def test_regret_adds_the_gaps(problem):
    bound = theory.ucb_regret(problem, 1000, alpha=1.0)
    assert bound == pytest.approx(0.1 * math.pi**2 / 6 / 0.18 + 0.05 * (1 + 10.7018016 / 0.0025), rel=1e-6)


def test_repaired_pulls_add_the_other_arms_to_the_last(problem):
    printed = theory.ucb_pulls(problem, 1000, alpha=1.0)
    repaired = theory.ucb_pulls(problem, 1000, alpha=1.0, repaired=True)
    assert repaired[:2].tolist() == printed[:2].tolist()
    assert repaired[2] == pytest.approx(1 + printed[0] + printed[2])
    difference = theory.ucb_regret(problem, 1000, 1.0, repaired=True) - theory.ucb_regret(problem, 1000, 1.0)
    assert difference == pytest.approx(0.05 * (1 + printed[0]))


def test_nothing_to_repair_when_the_last_arm_is_optimal(problem):
    last = CascadeProblem(problem._rows, problem._probabilities, [0.0, 0.1, 0.2])
    assert last.optimal_arm == 2
    printed = theory.ucb_pulls(last, 1000, alpha=1.0)
    assert theory.ucb_pulls(last, 1000, alpha=1.0, repaired=True).tolist() == printed.tolist()
    # xi = p - (C_3 - C_j) = (.3, .2)
    assert printed == pytest.approx([math.pi**2 / 12 / 0.09, math.pi**2 / 12 / 0.04, 1000])


@pytest.mark.parametrize(("error", "costs"), [(0.25, [0.0, 0.25]), (0.2, [0.1, 0.3])])
def test_a_tie_with_the_optimal_arm_may_be_played_for_ever_at_no_regret(error, costs):
    # in the second case rounding leaves a gap and a xi of about 1e-17
    tie = CascadeProblem([[1, 0, 1], [1, 1, 1]], [error, 1.0 - error], costs)
    assert tie.optimal_arm == 1
    assert theory.ucb_pulls(tie, 100, alpha=1.0).tolist() == [math.inf, 100.0]
    assert theory.ucb_regret(tie, 100, alpha=1.0) == 0.0


def test_uniform_bounds(problem, strong):
    # K = 2, T = 10000, alpha = 1: 4 sqrt(2 10^4 9.2103404) = 4 * 429.19320
    assert theory.ucb_regret_strong_dominance(strong, 10_000, alpha=1.0) == pytest.approx(1716.7728, rel=1e-6)
    # alpha = 4 doubles it, and so does f(t) = t^4
    assert theory.ucb_regret_strong_dominance(strong, 10_000, alpha=4.0) == pytest.approx(
        2 * 1716.7728, rel=1e-6
    )
    fourth = theory.ucb_regret_strong_dominance(strong, 10_000, alpha=1.0, f=lambda t: t**4)
    assert fourth == pytest.approx(2 * 1716.7728, rel=1e-6)
    # K = 3, f = exp(t), alpha = 3, T = 8: 3 (3 * 3 * 3 * 8)^(1/3) 8^(2/3) = 3 * 6 * 4
    assert theory.ucb_regret_uniform(problem, 8, alpha=3.0, f=math.exp) == pytest.approx(72.0)


def test_bounds_need_dominance(problem, hopeless):
    for bound in (theory.ucb_pulls, theory.ucb_regret, theory.ucb_regret_uniform):
        with pytest.raises(ValueError, match="problem must satisfy weak dominance, got CascadeProblem"):
            bound(hopeless, 100, 1.0)
    with pytest.raises(ValueError, match="problem must satisfy weak dominance"):
        theory.ts_regret_leading(hopeless, 100, 0.1)
    with pytest.raises(ValueError, match="problem must satisfy strong dominance with binary labels"):
        theory.ucb_regret_strong_dominance(problem, 100, 1.0)
    three_labels = CascadeProblem([[0, 1, 2], [0, 0, 0]], [0.5, 0.5], [0.0, 0.9])
    assert three_labels.strong_dominance
    with pytest.raises(ValueError, match="problem must satisfy strong dominance with binary labels"):
        theory.ucb_regret_strong_dominance(three_labels, 100, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.5}, r"alpha must be > 0\.5 when f\(t\) = t, or the series diverges, got 0\.5"),
        ({"alpha": 0.0}, r"alpha must be a finite number > 0, got 0\.0"),
        ({"horizon": 0}, r"horizon must be an integer >= 1, got 0"),
        ({"horizon": 10.0}, r"horizon must be an integer >= 1, got 10\.0"),
        ({"f": lambda t: 1 / t}, r"f must be finite and non-decreasing from f\(1\) >= 1"),
        ({"f": lambda t: t / 2}, r"f must be finite and non-decreasing from f\(1\) >= 1"),
        ({"f": lambda t: math.inf}, r"f must be finite and non-decreasing from f\(1\) >= 1"),
    ],
)
@pytest.mark.parametrize(
    "bound",
    [theory.ucb_pulls, theory.ucb_regret, theory.ucb_regret_uniform, theory.ucb_regret_strong_dominance],
)
def test_wrong_arguments(strong, bound, arguments, message):
    with pytest.raises(ValueError, match=message):
        bound(strong, **({"horizon": 10, "alpha": 1.0} | arguments))


def test_a_small_alpha_is_allowed_with_f_given(strong):
    assert theory.ucb_pulls(strong, 2, alpha=0.5, f=math.exp)[1] > 1.0


# USS-TS


def test_leading_term(problem):
    # p = .3, p + xi = .35: d = .3 ln(.3/.35) + .7 ln(.7/.65) = -.04624520 + .05187558 = .00563038
    # T = 1000, epsilon = .5: 1.5 * 6.9077553 * .05 / .00563038
    assert theory.ts_regret_leading(problem, 1000, 0.5) == pytest.approx(92.01560, rel=1e-5)


def test_leading_term_without_disagreement():
    # arms that always agree: d(0, q) = -ln(1 - q), here q = .25 and the gap .25
    problem = CascadeProblem([[1, 1, 1]], [1.0], [0.0, 0.25])
    assert theory.ts_regret_leading(problem, 100, 1.0) == pytest.approx(
        2 * math.log(100) * 0.25 / 0.2876821, rel=1e-6
    )


@pytest.mark.parametrize("cost", [1.0, 1.5])
def test_costs_beyond_any_disagreement_add_nothing(cost):
    problem = CascadeProblem([[1, 1, 1], [1, 1, 0]], [0.5, 0.5], [0.0, cost])
    assert theory.ts_regret_leading(problem, 100, 0.1) == 0.0
    always = CascadeProblem([[1, 1, 0]], [1.0], [0.0, 1.5])
    assert theory.ts_regret_leading(always, 100, 0.1) == 0.0


def test_nothing_leads_when_the_last_arm_is_optimal(problem):
    last = CascadeProblem(problem._rows, problem._probabilities, [0.0, 0.1, 0.2])
    assert theory.ts_regret_leading(last, 100, 0.1) == 0.0


def test_orders_of_the_uniform_bounds():
    assert theory.ts_regret_uniform(4, 100, strong=True) == pytest.approx(20 * math.sqrt(math.log(100)))
    # the cube of (4 ln 1000)^(1/3) 1000^(2/3)
    assert theory.ts_regret_uniform(4, 1000, strong=False) ** 3 == pytest.approx(27.6310211e6)


def test_wrong_arguments_of_ts_bounds(strong):
    with pytest.raises(ValueError, match=r"epsilon must be a finite number > 0, got 0"):
        theory.ts_regret_leading(strong, 100, 0)
    with pytest.raises(ValueError, match=r"horizon must be an integer >= 1, got 0"):
        theory.ts_regret_leading(strong, 0, 0.1)
    with pytest.raises(ValueError, match=r"arms must be an integer >= 1, got 0"):
        theory.ts_regret_uniform(0, 100, strong=True)
    with pytest.raises(ValueError, match=r"horizon must be an integer >= 1, got -1"):
        theory.ts_regret_uniform(2, -1, strong=True)


# counterexamples


def test_uniform_counterexample():
    problem = theory.uniform_counterexample()
    assert problem.weak_dominance
    assert problem.optimal_arm == 0
    assert problem.errors.tolist() == [0.0, 0.5]
    assert problem.xi == pytest.approx(0.001)
    assert problem.gaps[1] == pytest.approx(1.001)
    assert theory.ucb_regret_uniform(problem, 100_000, alpha=1.0) == pytest.approx(26520, abs=1)
    assert theory.uniform_counterexample(xi=0.25).xi == pytest.approx(0.25)
    with pytest.raises(ValueError, match="xi must be a finite number > 1e-12, got 0"):
        theory.uniform_counterexample(xi=0)


def play(problem, horizon, alpha, seed):
    """Return how often USS-UCB stops at each arm."""
    rng = np.random.default_rng(seed)
    policy = UssUcb(problem.costs, alpha=alpha)
    drawn = rng.choice(len(problem._rows), size=horizon, p=problem._probabilities)
    pulls = np.zeros(problem.arms, dtype=int)
    for row in problem._rows[drawn]:
        arm = policy.select(rng)
        policy.update(arm, row[1 : arm + 2].copy(), rng)
        pulls[arm] += 1
    return pulls


def test_uniform_bound_is_exceeded():
    """T = 10 000 and xi = .003: the bound is 5304, and arm 2 costs 1.003 in almost every round.

    The seed is fixed. With 200 other seeds the regret was 10 030, arm 2 in every round, 200 times: the false-alarm
    rate is below 1.5 % at 95 % confidence.
    """
    problem = theory.uniform_counterexample(xi=0.003)
    pulls = play(problem, 10_000, alpha=1.0, seed=1)
    assert (pulls * problem.gaps).sum() > theory.ucb_regret_uniform(problem, 10_000, alpha=1.0)


def test_the_last_arm_is_played_beyond_its_bound():
    """Three arms: nothing passes its tests, so the last arm is played, though it is never preferred to i*.

    The seed is fixed. With 200 other seeds arm 3 was played in every round, 200 times: the false-alarm rate is
    below 1.5 % at 95 % confidence.
    """
    problem = theory.empty_set_counterexample()
    assert problem.weak_dominance
    assert problem.optimal_arm == 0
    assert problem.gaps == pytest.approx([0.0, 0.01, 0.51])
    assert problem.xis == pytest.approx([0.0, 0.01, 0.51])
    horizon = 5000
    pulls = play(problem, horizon, alpha=1.0, seed=1)
    regret = (pulls * problem.gaps).sum()
    assert pulls[2] > theory.ucb_pulls(problem, horizon, alpha=1.0)[2]
    assert regret > theory.ucb_regret(problem, horizon, alpha=1.0)
    assert pulls[2] <= theory.ucb_pulls(problem, horizon, alpha=1.0, repaired=True)[2]
    assert regret <= theory.ucb_regret(problem, horizon, alpha=1.0, repaired=True)
    with pytest.raises(ValueError, match=r"xi must be a number below 0\.5, got 0\.5"):
        theory.empty_set_counterexample(xi=0.5)


def test_the_strong_dominance_bound_is_exceeded_by_four_arms():
    """Nothing is random here: the arms always agree."""
    problem = theory.strong_dominance_counterexample()
    assert problem.strong_dominance
    assert problem.costs.tolist() == [0.0, 0.03, 0.06, 1.06]
    pulls = play(problem, 10_000, alpha=1.0, seed=0)
    regret = (pulls * problem.gaps).sum()
    assert regret == pytest.approx(8479.0)
    assert theory.ucb_regret_strong_dominance(problem, 10_000, alpha=1.0) == pytest.approx(2427.9, abs=0.1)
    assert regret > theory.ucb_regret(problem, 10_000, alpha=1.0)
    for repaired in (True, "tight"):
        assert regret <= theory.ucb_regret(problem, 10_000, alpha=1.0, repaired=repaired)
    with pytest.raises(ValueError, match="step must be a finite number > 1e-12, got 0"):
        theory.strong_dominance_counterexample(step=0)


def test_regret_under_strong_dominance_is_linear_in_the_horizon():
    """With step = sqrt(log T / T) about three quarters of all rounds cost 1: regret / T stays above .7."""
    for horizon in (1_000, 4_000, 16_000):
        problem = theory.strong_dominance_counterexample(math.sqrt(math.log(horizon) / horizon))
        pulls = play(problem, horizon, alpha=1.0, seed=0)
        assert (pulls * problem.gaps).sum() > 0.7 * horizon


def test_three_copies_stay_below_the_strong_dominance_bound():
    """The order sqrt(T) holds for three arms: at most .3 of the bound, whatever the step."""
    for step in (0.01, 0.03, 0.1):
        for dear in (0.05, 0.3, 1.0):
            problem = CascadeProblem([[1] * 4], [1.0], [0.0, step, step + dear])
            pulls = play(problem, 4_000, alpha=1.0, seed=0)
            bound = theory.ucb_regret_strong_dominance(problem, 4_000, alpha=1.0)
            assert (pulls * problem.gaps).sum() <= 0.3 * bound


def prone_to_cycles(rng):
    """A random cascade with weak dominance whose first arm barely beats the second, which fails against a later one.

    Arms 1 and K mostly agree, those between are mostly right; i* is the first arm in most cases.
    """
    while True:
        arms = int(rng.integers(3, 5))
        outcomes, weights = [], []
        middle = [1] * (arms - 2)
        outcomes.append([1, 0, *middle, 0])
        weights.append(rng.uniform(0.1, 0.35))
        for _ in range(4):  # a little of anything
            outcomes.append([1, *rng.integers(0, 2, size=arms).tolist()])
            weights.append(rng.uniform(0.0, 0.03))
        outcomes.append([1] * (arms + 1))
        weights.append(1.0 - sum(weights))
        apart = CascadeProblem(outcomes, weights, np.arange(arms, dtype=float)).disagreement
        first = apart[0, 1] + rng.uniform(0.003, 0.05)
        steps = [rng.uniform(0.01, 0.1) for _ in range(arms - 3)]
        costs = np.cumsum([0.0, first, *steps, rng.uniform(0.05, 0.3)])
        problem = CascadeProblem(outcomes, weights, costs)
        if problem.weak_dominance and problem.optimal_arm < arms - 1 and problem.xis[1:].min() > 0.002:
            return problem


def test_repaired_bounds_hold_on_cascades_prone_to_cycles():
    """60 random cascades, alpha = .6 and 1: the mean pulls of five runs stay below both repaired bounds.

    The seeds are fixed. The largest share of the tight bound that is met is .67; with ten other seeds of cascades and
    runs it was .66, in 600 cascades without one exception: the false-alarm rate is below .5 % at 95 % confidence.
    """
    from weakfeedback import simulate

    rng, horizon = np.random.default_rng(60), 3_000
    broken = 0
    for _ in range(60):
        problem = prone_to_cycles(rng)
        last = problem.arms - 1
        policies = {str(alpha): UssUcb(problem.costs, alpha=alpha) for alpha in (0.6, 1.0)}
        results = simulate(problem, policies, horizon=horizon, replications=5)
        for alpha in (0.6, 1.0):
            pulls = results.values(str(alpha), f"pulls_{last}")[:, -1].mean()
            printed, loose, tight = (
                theory.ucb_pulls(problem, horizon, alpha, repaired=repaired)[last]
                for repaired in (False, True, "tight")
            )
            assert pulls <= tight <= loose
            broken += pulls > printed
            regret = results.values(str(alpha))[:, -1].mean()
            assert regret <= theory.ucb_regret(problem, horizon, alpha, repaired="tight")
    assert broken > 100  # of 120: the bound as printed fails on them


def test_the_tight_repair_by_hand(problem):
    # i* = 2 of 3, xis (.3, 0, .05), T = 1000, alpha = 1: one later arm, so 2 + (L + tail) / .0025 + C / .18
    tight = theory.ucb_pulls(problem, 1000, alpha=1.0, repaired="tight")
    assert tight[2] == pytest.approx(2 + 10.7018016 / 0.0025 + math.pi**2 / 6 / 0.18, rel=1e-6)
    assert tight[2] == pytest.approx(theory.ucb_pulls(problem, 1000, alpha=1.0, repaired=True)[2])
    # two later arms with xis .01 and .51: L counts once, at the smaller
    empty = theory.empty_set_counterexample()
    tail = 3.2940463 + 0.5
    expected = 2 + 6.9077553 / 0.0001 + tail / 0.0001 + tail / 0.2601
    assert theory.ucb_pulls(empty, 1000, alpha=1.0, repaired="tight")[2] == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="repaired must be True, False or 'tight', got 'loose'"):
        theory.ucb_pulls(empty, 1000, alpha=1.0, repaired="loose")


def test_the_bound_of_forced_comparison(problem):
    # K = 3, largest gap .1, T = 1000: .1 (100 + 2 + 9 (1 + 6.9077553)) + 300 sqrt(6.9077553)
    bound = theory.forced_comparison_regret(problem, 1000)
    assert bound == pytest.approx(0.1 * (102 + 9 * 7.9077553) + 300 * 2.6282609, rel=1e-6)
    tie = CascadeProblem([[1, 1, 1], [1, 0, 1], [1, 1, 0]], [0.75, 0.125, 0.125], [0.0, 0.25])
    assert tie.rho == pytest.approx(1.0)
    assert not tie.weak_dominance
    assert theory.forced_comparison_regret(tie, 1000) > 0.0
    without = CascadeProblem([[1, 1, 1], [1, 1, 0]], [0.5, 0.5], [0.0, 0.4])
    with pytest.raises(ValueError, match="problem must have rho >= 1, got CascadeProblem"):
        theory.forced_comparison_regret(without, 1000)
