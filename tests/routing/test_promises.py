"""What is promised of routing: the bound on the money (P1), never much worse than a later model (P2)."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.routing.laws import copula_world, random_law

from weakfeedback import simulate
from weakfeedback.routing import FixedModel, PayToCompare, RoutingProblem
from weakfeedback.routing.instances import load, names

RHO = 0.05
ROUNDING = 1e-12  # relative, of a sum of a few hundred prices


def teasing(policy, call, rng):
    """Outputs that keep the disagreement of each pair at the difference of its prices, where verdicts are hardest."""
    models = np.flatnonzero(call)
    outputs = np.zeros(models.size, dtype=np.int64)
    for b in range(1, models.size):
        i, j = models[b - 1], models[b]
        wanted = (policy.N[i, j] + 1) * (policy.c[j] - policy.c[i] + RHO * policy.c[j] / 2)
        outputs[b] = outputs[b - 1] + (policy.D[i, j] < wanted)
    return outputs


ANSWERS = {
    "always equal": lambda policy, call, rng: np.zeros(int(call.sum()), dtype=np.int64),
    "never equal": lambda policy, call, rng: np.arange(int(call.sum())),
    "coins": lambda policy, call, rng: rng.integers(0, 2, size=int(call.sum())),
    "teasing": teasing,
    "in turns": lambda policy, call, rng: np.arange(int(call.sum())) * (policy.t // 40 % 2),
}


def play_badly(prices, options, answer, seed, rounds, answered, cancelled):
    """Play while answers come late, out of order, wrong or never, and watch the money after every round."""
    rng = np.random.default_rng(seed)
    policy, money, waiting = PayToCompare(prices, **options), 0.0, []
    overspend, allowance = options.get("overspend", 0.05), options.get("allowance", 50)
    last = prices[-1]
    for t in range(1, rounds + 1):
        settled, call = policy.settled(), policy.select(rng)
        assert call[settled]
        assert np.flatnonzero(call)[-1] >= settled  # never answered by a cheaper model than the settled one
        policy.start(call, rng)
        money += sum(price for price, whether in zip(prices, call) if whether)
        bound = last * ((1 + overspend) * t + allowance)
        assert money <= bound * (1 + ROUNDING), f"round {t}: {money} of {bound}"
        assert policy.spent == pytest.approx(money, rel=1e-9)
        waiting.append(call)
        while waiting and rng.random() < answered:
            chosen = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() < cancelled:
                policy.cancel(chosen)
            else:
                policy.update(chosen, ANSWERS[answer](policy, chosen, rng), rng)
        assert (policy.asked >= 0).all()
        assert policy.asked.sum() == sum(size * (size - 1) // 2 for size in (call.sum() for call in waiting))
    return policy


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    prices=st.lists(st.floats(0, 1.5), min_size=1, max_size=4).map(lambda p: [*sorted(p), max(p) + 0.01]),
    answer=st.sampled_from(sorted(ANSWERS)),
    answered=st.sampled_from([0.0, 0.3, 0.7, 0.95]),
    cancelled=st.sampled_from([0.0, 0.5, 1.0]),
    options=st.fixed_dictionaries(
        {},
        optional={
            "overspend": st.sampled_from([0.0, 0.02, 0.5]),
            "allowance": st.sampled_from([0, 3, 50]),
            "memory": st.sampled_from([1, 30, 500]),
            "horizon": st.sampled_from([50, 10**6]),
            "least": st.sampled_from([1, 10**6]),
            "rho": st.sampled_from([0.0, 1.0]),
        },
    ),
    seed=st.integers(0, 1000),
)
def test_p1_never_more_money_than_the_bound_whatever_happens(
    prices, answer, answered, cancelled, options, seed
):
    play_badly(prices, options, answer, seed, 150, answered, cancelled)


@pytest.mark.parametrize("answer", sorted(ANSWERS))
def test_p1_with_the_stated_numbers_over_a_thousand_rounds(answer):
    """1.05 of the last model alone, and 50 calls; compared for as long as the money allows."""
    policy = play_badly([0.02, 0.05, 0.1], {"least": 10**6}, answer, 3, 1000, 0.6, 0.1)
    assert policy.spent <= 0.1 * (1.05 * 1000 + 50) * (1 + ROUNDING)


def test_p1_binds_and_then_the_settled_model_is_called_alone():
    policy = PayToCompare([0.2, 0.3], least=10**6)
    sizes = []
    for _ in range(400):
        call = policy.select(None)
        policy.start(call, None)  # never answered: the prior wants to compare for ever
        sizes.append(int(call.sum()))
    assert 1 in sizes
    assert policy.spent <= 0.3 * (1.05 * 400 + 50) * (1 + ROUNDING)
    assert policy.spent > 0.3 * (1.05 * 400 + 48)


def test_new_prices_begin_a_new_bound():
    policy = PayToCompare([0.1, 1.0])
    for _ in range(30):
        call = policy.select(None)
        policy.start(call, None)
        policy.update(call, np.zeros(int(call.sum())), None)
    seen = policy.N.copy()
    policy.reprice(np.array([0.01, 0.02]))
    assert (seen == policy.N).all()
    assert (policy.spent, policy.since, policy.t) == (0.0, 30, 30)
    fresh = PayToCompare([0.01, 0.02])
    fresh.D[:], fresh.N[:] = policy.D, policy.N
    fresh.weigh_all()
    assert (fresh.cheap == policy.cheap).all()
    assert (fresh.low == policy.low).all()


def accepted(problem, a, rho=RHO):
    return all(
        problem.disagreement[a, j] <= problem.prices[j] - problem.prices[a] + rho * problem.prices[j]
        for j in range(a + 1, problem.arms)
    )


@pytest.mark.parametrize("seed", range(60))
def test_p2_an_accepted_model_loses_at_most_rho_against_every_later_one(seed):
    problem = RoutingProblem(*random_law(seed))
    total, c = problem.total_costs, problem.prices
    for a in (a for a in range(problem.arms) if accepted(problem, a)):
        for j in range(a + 1, problem.arms):
            assert total[a] <= total[j] + RHO * c[j] + 1e-12
            assert total[a] <= (1 + RHO) * total[j] + 1e-12
    if problem.weak_dominance:
        assert accepted(problem, problem.optimal_arm)


@pytest.mark.parametrize("seed", range(60))
def test_p2_where_the_policy_settles_once_it_knows_the_disagreements(seed):
    """With a million comparisons the posterior is the truth, to within five deviations: .0025."""
    problem = RoutingProblem(*random_law(seed))
    policy = PayToCompare(problem.prices, rho=RHO)
    policy.N[:] = 1e6
    policy.D[:] = np.round(1e6 * problem.disagreement)
    policy.weigh_all()
    a, total, slack = policy.settled(), problem.total_costs, 0.0025
    for j in range(a + 1, problem.arms):
        assert total[a] <= total[j] + RHO * problem.prices[j] + slack
    if problem.weak_dominance and problem.xi > slack:
        assert a <= problem.optimal_arm
        assert total[a] <= (1 + RHO) * total[problem.optimal_arm] + slack


@pytest.mark.parametrize("seed", [0, 3, 5, 8, 9, 13])
def test_p2_in_play_never_much_dearer_than_always_the_last(seed):
    """Any law, weak dominance or not. Over seeds 0 to 39 the largest mean of 20 runs was 1.02; a limit of 1.10 leaves
    room for the errors of estimation that P2 does not cover. Seeds are fixed, so a pass or a fail stays.
    """
    problem = RoutingProblem(*random_law(seed))
    last = problem.arms - 1
    results = simulate(problem, {"pay": PayToCompare(problem.prices)}, horizon=5000, replications=20, seed=1)
    paid = results.final()["mean"]["pay"] + 5000 * problem.total_costs[problem.optimal_arm]
    assert paid <= 1.10 * 5000 * problem.total_costs[last]


GOLDEN = {  # 5000 rounds, 100 replications: mean ratio to the best single model, at most
    "prices-1-20-150": 1.03,
    "prices-1-3": 1.03,
    "prices-1-4-12": 1.03,
    "prices-1-10": 1.03,
    "prices-1-8-40": 1.32,
    "prices-1-2": 1.17,
}


@pytest.mark.parametrize("name", GOLDEN)
def test_ratios_of_the_six_worlds(name):
    """The limits lie at least 3.7 deviations of a mean of 100 runs above what was measured (.0045 at 1:3, .031 at
    1:8:40, less elsewhere): a false alarm in 1 of 5000 with fresh seeds, none with this one.
    """
    problem = load(name)
    results = simulate(problem, {"pay": PayToCompare(problem.prices)}, horizon=5000, replications=100, seed=4)
    ratio = 1 + results.final()["mean"]["pay"] / (5000 * problem.total_costs[problem.optimal_arm])
    assert 1.0 <= ratio <= GOLDEN[name]


def test_the_six_worlds_are_what_their_names_say():
    assert names()[:6] == tuple(GOLDEN)
    for name, best, dominance in zip(names(), (1, 1, 2, 0, 0, 0), (True, True, True, True, True, False)):
        problem = load(name)
        steps = [int(step) for step in name.split("-")[1:]]
        assert problem.prices / problem.prices[0] == pytest.approx(steps)
        assert (problem.optimal_arm, problem.weak_dominance) == (best, dominance)
    assert load("prices-1-8-40").margin == pytest.approx(0.002)
    with pytest.raises(ValueError, match="did you mean prices-1-3"):
        load("prices-1-33")


def test_the_best_single_model_has_no_regret_and_extra_calls_cost_their_price():
    problem = load("prices-1-4-12")
    fixed = {str(k): FixedModel(problem.prices, k) for k in range(3)}
    results = simulate(problem, fixed, horizon=70, replications=1)
    for k in range(3):
        assert results.final()["mean"][str(k)] == pytest.approx(70 * problem.gaps[k], abs=1e-12)
    assert results.final()["mean"]["2"] == 0.0
    counts = np.array([5, 0, 9, 0, 0, 9])
    assert problem.measures(counts)["regret"] == pytest.approx(5 * problem.prices[0])


WRONG_PRICES = [
    ([0.2, 0.1], "prices must be sorted"),
    ([0.0, 0.0], "prices must end with a number > 0"),
    ([], "prices must be"),
    ([-0.1, 0.2], "prices must be"),
    ([0.1, float("nan")], "prices must be"),
    (["a", "b"], "prices must be"),
]


@pytest.mark.parametrize(("prices", "message"), WRONG_PRICES)
def test_wrong_prices_are_refused_in_one_line(prices, message):
    makers = [
        PayToCompare,
        lambda p: FixedModel(p, 0),
        lambda p: RoutingProblem([[1, 1, 1]], [1.0], p),
        lambda p: RoutingProblem.from_predictions([1], [[1, 1]], p),
    ]
    for make in makers:
        with pytest.raises(ValueError, match=message) as found:
            make(prices)
        assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("option", "value"),
    list(
        itertools.chain(
            itertools.product(("rho", "overspend", "allowance"), (-0.1, None, "x", float("inf"))),
            itertools.product(("kappa",), (0, -1, float("nan"))),
            itertools.product(("horizon", "memory"), (-1, 1.5, "x")),
            itertools.product(("least",), (0, 2.5, None)),
        )
    ),
)
def test_wrong_options_are_refused(option, value):
    with pytest.raises(ValueError, match=f"{option} must be"):
        PayToCompare([0.1, 0.2], **{option: value})


def test_a_problem_of_another_size_is_refused():
    with pytest.raises(ValueError, match="prices must be 2 numbers, one per model, got 3"):
        RoutingProblem([[1, 1, 1]], [1.0], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="made for 3 models, the problem has 2"):
        simulate(load("prices-1-3"), {"pay": PayToCompare([0.1, 0.2, 0.3])}, horizon=5, replications=1)


class CallsNobody(FixedModel):
    def select(self, rng):
        return np.zeros(self.K, dtype=np.bool_)


class CallsByNumber(FixedModel):
    def select(self, rng):
        return np.ones(self.K, dtype=np.int64)


class CallsTooMany(FixedModel):
    def select(self, rng):
        return np.ones(self.K + 1, dtype=np.bool_)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("cls", [CallsNobody, CallsByNumber, CallsTooMany])
def test_impossible_calls_are_refused(cls, compiled):
    problem = load("prices-1-3")
    with pytest.raises(ValueError, match="must be an array of 2 bools, at least one of them True"):
        simulate(problem, {"odd": cls(problem.prices, 0)}, horizon=5, replications=1, compiled=compiled)


def test_a_problem_cannot_be_changed():
    problem = load("prices-1-3")
    with pytest.raises(AttributeError, match="cannot be changed"):
        problem.prices = 1
    with pytest.raises(ValueError, match="read-only"):
        problem.prices[0] = 1


def change(memory, up, seed):
    """A cheap model that begins to err at half time (up), or ceases to; paid against the best model of each half."""
    prices, rounds = [0.02, 0.15], 5000
    laws = [RoutingProblem(*_errors(rate), prices) for rate in ((0.05, 0.35) if up else (0.35, 0.05))]
    policy, paid, best = PayToCompare(prices, memory=memory), 0.0, 0.0
    rng = np.random.default_rng(seed)
    for problem in laws:
        world = problem.world()
        for _ in range(rounds // 2):
            row = world.rows[world.draw(rng)]
            call = policy.select(rng)
            policy.start(call, rng)
            policy.update(call, row[1:][call], rng)
            paid += problem.prices[call].sum() + problem.errors[np.flatnonzero(call)[-1]]
        best += rounds // 2 * problem.total_costs.min()
    return paid / best


def _errors(rate):
    """The cheap model errs with this rate, the dear one with .03, independently."""
    rows = [[1, 1, 1], [1, 0, 1], [1, 1, 0], [1, 0, 0]]
    return rows, [(1 - rate) * 0.97, rate * 0.97, (1 - rate) * 0.03, rate * 0.03]


@pytest.mark.parametrize("up", [True, False], ids=["the cheap model rots", "the cheap model recovers"])
def test_memory_follows_one_change_both_ways(up):
    """Means of six runs deviate by .012 with memory and by up to .09 without; measured 1.065 and 1.26 to 1.30.

    With fresh seeds the first limit would be missed in 1 of 1000, the second in about 1 of 20; seeds are fixed.
    """
    with_memory = np.mean([change(1000, up, seed) for seed in range(6)])
    without = np.mean([change(None, up, seed) for seed in range(6)])
    assert with_memory < 1.105
    assert without > with_memory + 0.05


def test_random_worlds_under_weak_dominance_cost_little_more_than_the_best_model():
    """Weak dominance, margin at least .02, 5000 rounds: on 300 worlds the mean ratio was 1.017 and the worst 1.16.

    Here 24 worlds of one fixed seed, 20 runs each. The ratios of worlds deviate by .024, the mean of 24 by .005: with
    fresh seeds a mean above 1.035 comes in about 1 of 10,000. The worst world of 24 has no such law (one of 300 was
    above 1.13); the seed is fixed.
    """
    rng, ratios = np.random.default_rng(31), []
    while len(ratios) < 24:
        problem = copula_world(rng)
        if problem.weak_dominance and problem.margin >= 0.02:
            policies = {"pay": PayToCompare(problem.prices)}
            results = simulate(problem, policies, horizon=5000, replications=20, seed=2, marks=1)
            best = 5000 * problem.total_costs[problem.optimal_arm]
            ratios.append(1 + results.final()["mean"]["pay"] / best)
    assert np.mean(ratios) <= 1.035
    assert max(ratios) <= 1.13
