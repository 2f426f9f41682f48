"""Simulation by events has the law of playing every round: exactly on small cases, statistically on larger ones."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chisquare, ks_2samp

from weakfeedback import simulate
from weakfeedback.allocation import AllocationProblem, CsbSu
from weakfeedback.cascade import CascadeProblem, FixedArm, QUss, UssTs, UssUcb, events
from weakfeedback.engine.seeds import POLICY, WORLD, generator
from weakfeedback.engine.store import StoreMismatch

ERRORS = [0.3937, 0.2899, 0.1358]
# the optimal arm is the first, the second, the last
COSTS = {0: [0.05, 0.285, 0.45], 1: [0.05, 0.08, 0.45], 2: [0.05, 0.08, 0.11]}


def by_events(problem, replications, marks, seed=11):
    """Pulls at the marks, by replication."""
    table = np.zeros((replications, len(marks), problem.arms), dtype=np.int64)
    for r in range(replications):
        rngs = generator(seed, r, WORLD), generator(seed, r, POLICY)
        pulls = np.zeros(problem.arms, dtype=np.int64)
        events.play_events(UssTs(problem.costs), problem.world(), *rngs, np.array(marks), pulls, table[r])
    return table


def law_of_pulls(problem, horizon):
    """By the pulls of all arms after so many rounds, their probability: all histories are followed."""
    K, costs = problem.arms, problem.costs
    pairs = list(itertools.combinations(range(K), 2))

    def chances(counts):
        """P(I_t = i) from the definition, with SciPy's Beta distribution."""
        accept = [1.0] * K
        for (i, j), (s, f) in zip(pairs, counts):
            accept[i] *= beta.cdf(costs[j] - costs[i], s, f)
        left, found = 1.0, []
        for i in range(K):
            found.append(left * accept[i])
            left *= 1.0 - accept[i]
        return found

    chances = functools.cache(chances)
    states = {(tuple((1, 1) for _ in pairs), (0,) * K): 1.0}
    for _ in range(horizon):
        after = {}
        for (counts, pulls), weight in states.items():
            for arm, chance in enumerate(chances(counts)):
                for row, p in zip(problem._rows, problem._probabilities):
                    seen = tuple(
                        (s + (row[i + 1] != row[j + 1]), f + (row[i + 1] == row[j + 1]))
                        if j <= arm
                        else (s, f)
                        for (i, j), (s, f) in zip(pairs, counts)
                    )
                    key = seen, tuple(n + (k == arm) for k, n in enumerate(pulls))
                    after[key] = after.get(key, 0.0) + weight * chance * p
        states = after
    law = {}
    for (_, pulls), weight in states.items():
        law[pulls] = law.get(pulls, 0.0) + weight
    return law


def p_value(problem, horizon, replications):
    """Of a chi-square test of the pulls by events against their exact law."""
    law = law_of_pulls(problem, horizon)
    assert sum(law.values()) == pytest.approx(1.0)
    found = [tuple(pulls) for pulls in by_events(problem, replications, [horizon])[:, 0].tolist()]
    assert set(found) <= set(law)
    common = [pulls for pulls, p in law.items() if p * replications >= 5.0]
    expected = [law[pulls] * replications for pulls in common]
    counted = [found.count(pulls) for pulls in common]
    rest = max(replications - sum(expected), 1e-9)
    return chisquare([*counted, replications - sum(counted)], [*expected, rest], sum_check=False).pvalue


SMALL = {
    "two arms": CascadeProblem.bsc([0.4, 0.1], [0.1, 0.6]),
    "first": CascadeProblem.bsc(ERRORS, COSTS[0]),
    "second": CascadeProblem.bsc(ERRORS, [0.05, 0.3, 0.9]),
    "last": CascadeProblem.bsc(ERRORS, COSTS[2]),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_law_of_pulls_is_exact(name):
    # a false alarm once in 1000 for each of four seeds that are fixed
    assert p_value(SMALL[name], horizon=5, replications=1500) > 1e-3


def test_without_thinning_the_law_is_another(monkeypatch):
    def always_another(law, usual, bound, rng):
        others = events.chances(law.acceptance())
        others[usual] = 0.0
        return int(np.searchsorted(np.cumsum(others), others.sum() * rng.random(), side="right"))

    assert p_value(SMALL["second"], horizon=7, replications=400) > 1e-3
    monkeypatch.setattr(events, "_proposed_arm", always_another)
    assert p_value(SMALL["second"], horizon=7, replications=400) < 1e-9


def cascade_of(optimal, table):
    problem = CascadeProblem.bsc(ERRORS, COSTS[optimal])
    if not table:
        return problem
    rng = np.random.default_rng(3)
    rows = problem._rows[rng.choice(len(problem._probabilities), size=150, p=problem._probabilities)]
    return CascadeProblem.from_predictions(rows[:, 0], rows[:, 1:], COSTS[optimal])


@pytest.mark.parametrize(
    ("optimal", "table"),
    [
        pytest.param(0, False, marks=pytest.mark.slow),
        (1, False),
        (0, True),
        pytest.param(1, True, marks=pytest.mark.slow),
    ],
)
def test_regret_and_pulls_are_distributed_as_round_by_round(optimal, table):
    problem, marks = cascade_of(optimal, table), np.array([150, 1500])
    assert problem.optimal_arm == optimal
    played = simulate(problem, {"a": UssTs(problem.costs)}, horizon=1500, replications=1000, marks=marks)
    pulls = by_events(problem, 40, marks)
    regret = problem.measures(pulls)["regret"]
    # at most 4 x 2 x 2 tests at 1e-4: a false alarm once in 600 choices of the seed or less
    for m in range(2):
        assert ks_2samp(regret[:, m], played.values("a")[:, m]).pvalue > 1e-4
        usual = f"pulls_{optimal}"
        assert ks_2samp(pulls[:, m, optimal], played.values("a", usual)[:, m]).pvalue > 1e-4


def test_a_thousand_million_rounds():
    problem = CascadeProblem.bsc(ERRORS, COSTS[1])
    policies = {"USS-TS": UssTs(problem.costs), "first": FixedArm(problem.costs, 0)}
    results = simulate(problem, policies, horizon=10**9, replications=3, marks=50, method="events")
    pulls = sum(results.values("USS-TS", f"pulls_{k}") for k in range(3))
    assert (pulls == np.arange(1, 51) * 20_000_000).all()
    regret = results.values("USS-TS")
    assert (np.diff(regret, axis=1) >= 0.0).all()
    # round by round it is 43 after 10,000 rounds, and grows like log T
    assert 0.0 < regret[:, -1].max() < 1000.0
    gap = problem.total_costs[0] - problem.total_costs[1]
    assert results.values("first")[:, -1] == pytest.approx(gap * 1e9)
    assert results.compiled == {"USS-TS": False, "first": False}
    assert "events" in results.reasons["USS-TS"]
    assert results.about["method"] == "events"


def test_the_executor_and_the_store_do_not_matter(tmp_path):
    problem = CascadeProblem.bsc(ERRORS, COSTS[0])
    options = {"horizon": 2000, "replications": 4, "seed": 5, "method": "events"}
    policies = {"USS-TS": UssTs(problem.costs)}
    first = simulate(problem, policies, store=tmp_path / "a", **options)
    again = simulate(problem, policies, store=tmp_path / "a", **options)
    assert (first.values("USS-TS") == again.values("USS-TS")).all()
    assert (policies["USS-TS"].S == 1.0).all()  # the prototype stays as it was
    rounds = {**options, "method": "rounds"}
    simulate(problem, policies, store=tmp_path / "b", **rounds)
    with pytest.raises(StoreMismatch, match="its method is None, not 'events'"):
        simulate(problem, policies, store=tmp_path / "b", **options)
    # never the chunks of the other method
    played = simulate(problem, policies, store=tmp_path / "a", **rounds)
    assert (played.values("USS-TS") != first.values("USS-TS")).any()


def test_what_cannot_be_skipped_is_refused():
    problem = CascadeProblem.bsc(ERRORS, COSTS[0])
    with pytest.raises(ValueError, match=r"method must be one of rounds, events, got 'fast'"):
        simulate(problem, {"a": UssTs(problem.costs)}, method="fast")
    with pytest.raises(
        ValueError, match=r"method must be 'rounds' for policies\['a'\].*UssUcb is none of FixedArm, UssTs"
    ):
        simulate(problem, {"a": UssUcb(problem.costs)}, method="events")
    with pytest.raises(ValueError, match="method must be 'rounds' for cascade and QUss"):
        simulate(problem, {"a": QUss(problem.costs, price=1.0)}, method="events")

    class Stubborn(UssTs):
        def select(self, rng):
            return self.K - 1

    class Renamed(UssTs):
        """The same."""

    with pytest.raises(ValueError, match=r"Stubborn changes select\(\) of UssTs"):
        simulate(problem, {"a": Stubborn(problem.costs)}, method="events")
    simulate(problem, {"a": Renamed(problem.costs)}, 10, 1, method="events")
    other = AllocationProblem([0.5, 0.4], [0.5, 0.5], 0.6)
    with pytest.raises(ValueError, match="method must be 'rounds' for allocation"):
        simulate(other, {"a": CsbSu(2, 0.6)}, method="events")


def test_many_rows_of_a_data_set_are_those_served_one_by_one():
    problem = cascade_of(1, table=True)
    world = problem.world()
    world.begin(np.random.default_rng(1))
    one, many = events.TableSupply(world), events.TableSupply(world)
    for rounds in (1, 7, 149, 150, 451):
        assert (sum(one.one(None).astype(int) for _ in range(rounds)) == many.many(rounds, None)).all()
        one.pass_by(13)
        many.pass_by(13)


def test_many_rows_of_a_law_have_its_disagreement():
    problem = CascadeProblem.bsc(ERRORS, COSTS[0])
    found = events.LawSupply(problem.world()).many(10**10, np.random.default_rng(2)) / 1e10
    assert found == pytest.approx(problem.disagreement, abs=6 * 0.5 / 1e5)  # six standard deviations


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 40))
def test_the_bound_holds_whatever_is_seen(seed, arm, rounds):
    rng = np.random.default_rng(seed)
    policy = UssTs(np.sort(rng.random(4)))
    policy.S += rng.integers(0, 20, (4, 4))
    policy.F += rng.integers(0, 20, (4, 4))
    law = events.law_of(policy)
    bound = law.acceptance(arm, rounds)
    for _ in range(rounds):
        policy.update(arm, rng.integers(0, 2, arm + 1), rng)
        assert (law.acceptance()[:arm] <= bound[:arm] * (1.0 + 1e-12)).all()


def test_acceptance_is_the_share_of_draws_that_accept():
    policy = UssTs([0.1, 0.4, 0.55])
    policy.S[:] = [[1, 4, 6], [1, 1, 3], [1, 1, 1]]
    policy.F[:] = [[1, 9, 8], [1, 1, 7], [1, 1, 1]]
    rng = np.random.default_rng(4)
    share = np.mean([[policy.is_best(i, rng) for i in range(2)] for _ in range(20_000)], axis=0)
    law = events.law_of(policy)
    assert law.acceptance() == pytest.approx(share, abs=5 * 0.5 / np.sqrt(20_000))  # five standard deviations
    assert law.refusal(1) == pytest.approx(1.0 - law.acceptance()[1])
