"""Allocators ask and teach some policies by lists and arrays; the policy's own methods must give the same bits."""

import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weakfeedback import Allocator, knapsack
from weakfeedback.allocation import CsbSu, CsbTs, posterior
from weakfeedback.live import dividing, packing
from weakfeedback.live.dividing import QUICK, lay_out
from weakfeedback.numeric import rank_down, top_set


def generator(seed):
    return np.random.Generator(np.random.PCG64(seed))


def fields(policy):
    return {
        name: (value.dtype, value.tolist()) if isinstance(value, np.ndarray) else (type(value), value)
        for name, value in vars(policy).items()
    }


def play(policy, world, rounds, delay=0, fractions=False):
    """Play two copies of a policy, one by its own methods; return the last allocations."""
    quick, slow = policy, copy.deepcopy(policy)
    rngs = generator(1), generator(1)
    select, update = QUICK[type(policy)]
    waiting = []
    for t in range(rounds):
        allocation = select(quick, rngs[0])
        assert allocation.tolist() == slow.select(rngs[1]).tolist()
        assert allocation.dtype == np.float64
        waiting.append((allocation, world(t, allocation, fractions)))
        if len(waiting) > delay:
            given = waiting.pop(t % len(waiting))
            kept = [array.copy() for array in given]
            update(quick, *given, rngs[0])
            slow.update(*kept, rngs[1])
            assert all(np.array_equal(*pair) for pair in zip(given, kept))  # what was given is not changed
        assert rngs[0].bit_generator.state == rngs[1].bit_generator.state
    assert fields(quick) == fields(slow)
    return quick


def world_of(arms, setting, threshold=None, rare=False, seed=0):
    rng = np.random.default_rng(seed)
    thresholds = np.full(arms, threshold) if threshold else rng.uniform(0.2, 0.9, arms)
    means = np.linspace(0.9, 0.01 if rare else 0.4, arms)

    def see(t, allocation, fractions):
        outcomes = (rng.random(arms) < means) * (rng.choice([0.25, 1.0, 1.0], arms) if fractions else 1.0)
        served = allocation >= thresholds
        return np.where(served if setting == "reward" else ~served, outcomes, 0.0)

    return see


@pytest.mark.parametrize("setting", ["loss", "reward"])
@pytest.mark.parametrize(
    ("arms", "budget", "step"),
    [(1, 0.5, 0.001), (3, 1.0, 0.01), (12, 4.0, 0.001), (30, 7.0, 0.1), (5, 0.3, 0.3)],
)
@pytest.mark.parametrize("rare", [False, True])
def test_csb_ts(setting, arms, budget, step, rare):
    policy = CsbTs(arms, budget, step, setting)
    play(policy, world_of(arms, setting, rare=rare), 60)
    play(policy, world_of(arms, setting, threshold=0.3, seed=1), 40, delay=7, fractions=True)
    assert policy.P.sum() > 0 or arms == 5


def test_csb_ts_when_the_search_gives_up(monkeypatch):
    monkeypatch.setattr(dividing, "NODES", 3)
    monkeypatch.setattr("weakfeedback.allocation.csb_ts.NODES", 3)
    called = []
    monkeypatch.setattr(dividing, "fill_levels", lambda *a: called.append(1) or packing.fill_levels(*a))
    play(CsbTs(12, 4.0, 0.01, "reward"), world_of(12, "reward"), 40)
    play(CsbTs(12, 4.0, 0.01), world_of(12, "loss"), 40)
    assert len(called) > 10


def test_csb_ts_when_the_lists_are_full(monkeypatch):
    monkeypatch.setattr("weakfeedback.allocation.csb_ts.LEVELS", 4)
    policy = play(CsbTs(6, 2.0, 0.001, "reward"), world_of(6, "reward", rare=True), 300)
    assert policy.used.max() == 4


@pytest.mark.parametrize("arms", [1, 4, 11, 40])
@pytest.mark.parametrize("fractions", [False, True])
@pytest.mark.parametrize("delay", [0, 9])
def test_csb_su(arms, fractions, delay):
    found = []
    for threshold, budget in ((0.7, 0.21 * arms + 0.3), (0.3, 0.29 * arms), (2.0, 1.0)):
        policy = play(CsbSu(arms, budget), world_of(arms, "loss", threshold), 80, delay, fractions)
        found.append(policy.L)
    assert arms == 1 or len(set(found)) > 1


@pytest.mark.parametrize("make", [CsbSu, CsbTs, lambda K, Q: CsbTs(K, Q, 0.028, "reward")])
def test_allocations_that_were_not_its_own(make):
    # as after a state was loaded, or of a decision that others made
    rng, quick = np.random.default_rng(4), make(12, 1.0)
    slow, rngs = copy.deepcopy(quick), (generator(1), generator(1))
    for _ in range(200):
        allocation = np.zeros(12)
        served = rng.choice(12, rng.integers(1, 13), replace=False)
        allocation[served] = rng.choice([1.0 / served.size, 1.0, 0.99, 0.3])
        observed = rng.choice([0.0, 0.0, 1.0], 12) * (rng.random() < 0.7)
        QUICK[type(quick)][1](quick, allocation, observed, rngs[0])
        slow.update(allocation, observed, rngs[1])
        assert fields(quick) == fields(slow)
        assert rngs[0].bit_generator.state == rngs[1].bit_generator.state


@pytest.mark.parametrize("setting", ["loss", "reward"])
def test_what_is_left_goes_to_the_same_arms_among_equals(setting):
    arms, rng = 8, np.random.default_rng(5)
    policy = play(CsbTs(arms, 4.0, 0.02, setting), world_of(arms, setting), 30)
    for field in (policy.P, policy.F, policy.edge, policy.used, policy.levels, policy.zeros):
        field[1::2] = field[::2]  # pairs of arms of which the same is known
    most = int(policy.used.max()) + 1
    ends, n = np.zeros((arms, most), dtype=np.int64), np.zeros(arms, dtype=np.int64)
    share, total, beliefs = np.zeros((arms, most)), np.zeros((arms, most)), []
    for i in range(arms):
        state = policy.P, policy.F, policy.edge, policy.C + 1, policy.levels, policy.zeros, policy.used
        n[i] = posterior.lay_out(i, *state, ends, share, total)
        row = [row[i, : policy.used[i]].tolist() for row in (policy.levels, policy.zeros)]
        numbers = float(policy.P[i]), float(policy.F[i]), int(policy.edge[i])
        beliefs.append(lay_out(*numbers, policy.C + 1, *row))
    for _ in range(100):
        mu = np.repeat(rng.choice([0.0, 1e-7, 0.5, 0.9], arms // 2), 2)
        chosen = np.repeat(rng.random(arms // 2) < 0.5, 2)
        level = np.where(chosen, rng.integers(1, 30), 0)
        left = int(rng.integers(1, 150))
        mine = level.tolist()
        rest = left
        if setting == "reward":
            known = policy.pad(level, left, chosen, mu, n, ends, share, total)
            rest = dividing._pad(policy.C, mine, left, chosen.tolist(), mu.tolist(), beliefs)
            assert (rest, mine) == (known, level.tolist())
        if rest > 0:
            policy.probe(level, rest, chosen, mu, n, ends, share, total)
            given = policy.C, mine, rest, chosen.tolist(), mu.tolist(), beliefs
            dividing._probe(*given, setting == "reward")
            assert mine == level.tolist()


numbers = st.sampled_from([0.0, 0.1, 0.1, 0.25, 0.5, 0.5, 0.75, 0.9, 1.0])
weights = st.sampled_from([0.0, 1.0, 1.0, 2.0, 3.0, 3.0, 5.0, 7.0, 8.0, 30.0])


@given(
    st.lists(st.tuples(numbers, weights), min_size=1, max_size=25),
    st.sampled_from([0, 1, 2, 10, 50, 3000]),
    st.integers(1, 40),
)
@settings(max_examples=300, deadline=None)
def test_the_search_on_lists_finds_the_same_set(items, nodes, levels):
    values, sizes = (np.array(column) for column in zip(*items))
    known, finished = knapsack.branch_and_bound(values, sizes, levels - 0.5, nodes, 0.0)
    chosen, done = packing.branch_and_bound(values.tolist(), sizes.tolist(), levels - 0.5, nodes)
    assert (list(chosen), done) == (known.tolist(), finished)
    known = knapsack.fill_levels(values, sizes, levels)
    assert packing.fill_levels(values, sizes, levels).tolist() == known.tolist()


@pytest.mark.parametrize("size", [12, 60])
def test_the_search_on_lists_finds_the_same_set_among_random_ones(size):
    rng, unfinished = np.random.default_rng(size), 0
    for _ in range(40):
        weights = rng.integers(1, 100, size).astype(float)
        values = weights / 100 + 0.001 * rng.random(size)  # hard: all are worth the same by weight
        for nodes in (20, 400):
            known, finished = knapsack.branch_and_bound(values, weights, 1000.5, nodes, 0.0)
            chosen, done = packing.branch_and_bound(values.tolist(), weights.tolist(), 1000.5, nodes)
            assert (list(chosen), done) == (known.tolist(), finished)
            unfinished += not done
    assert size == 12 or unfinished > 0


@given(st.lists(numbers, min_size=1, max_size=30), st.integers(-1, 33))
def test_the_largest_and_their_order(values, size):
    array = np.array(values)
    assert packing.top_set(array, size).tolist() == top_set(array, size).tolist()
    assert packing.rank_down(values) == rank_down(array).tolist()
    assert packing.give_top(array, size, 0.3).tolist() == [0.3 if x else 0.0 for x in top_set(array, size)]


counts = st.sampled_from([1, 1, 1, 2, 5, 16, 17, 40, 1000])


@given(
    st.sampled_from([0, 1, 3, 15, 16, 17, 500]),
    st.sampled_from([0, 1, 30, 4000]),
    st.integers(0, 5),
    st.dictionaries(st.integers(6, 60), counts, max_size=12),
    st.integers(1, 3),
    st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=8),
)
@settings(max_examples=300, deadline=None)
def test_beliefs(P, F, edge, zeros, beyond, portions):
    levels, top = sorted(zeros), 60 + beyond
    counted = [zeros[level] for level in levels]
    belief = lay_out(float(P), float(F), edge, top, levels, counted)
    ends = np.zeros((1, len(levels) + 1), dtype=np.int64)
    share, total = np.zeros(ends.shape), np.zeros(ends.shape)
    one = [np.array([[*row, 0]]) for row in (levels, counted)]
    state = [np.array([number]) for number in (P, F, edge)]
    n = posterior.lay_out(0, *state, top, *one, np.array([len(levels)]), ends, share, total)
    assert belief.share == share[0, :n].tolist()
    assert belief.total == total[0, :n].tolist()
    assert belief.ends[:n] == ends[0, :n].tolist()
    exact = [mass / belief.total[-1] for mass in belief.total[:-1]]  # at the end of a segment
    for portion in (0.0, *portions, *exact):
        known = posterior.first_above(0, n, state[2], portion, ends, share, total)
        assert belief.first_above(portion) == known
    for t in range(top + 2):
        assert belief.share_up_to(t) == posterior.share_up_to(0, n, state[2], t, ends, share, total)


def test_a_policy_of_a_derived_class_is_asked_itself():
    class Own(CsbTs):
        def select(self, rng):
            return np.full(self.K, 0.1)

        def update(self, allocation, observed, rng):
            self.S[0] = 7

    allocator = Allocator(3, 1.0, Own(3, 1.0), seed=0)
    decision = allocator.decide()
    assert allocator.feedback(decision.id, [1, 0, 1]) == "accepted"
    assert decision.allocation.tolist() == [0.1] * 3
    assert (allocator.policy.S[0], allocator.policy.P.sum()) == (7, 0)


@pytest.mark.parametrize("policy", ["CSB-TS", "CSB-SU"])
def test_a_live_allocator_is_its_policy(policy):
    allocator = Allocator(20, 6.0, policy, seed=2)
    own, rng = copy.deepcopy(allocator.policy), generator(2)
    see = world_of(20, "loss")
    for t in range(60):
        decision = allocator.decide()
        assert decision.allocation.tolist() == own.select(rng).tolist()
        seen = see(t, decision.allocation, fractions=False)
        allocator.feedback(np.int64(decision.id), seen)
        own.update(decision.allocation, seen, rng)
    assert fields(allocator.policy) == fields(own)
    assert json.loads(json.dumps(allocator._core()))["ledger"]["rounds"] == 60


def test_a_policy_that_writes_on_what_it_is_given_spoils_nothing():
    class Scribbles:
        def select(self, rng):
            return np.full(2, 0.25)

        def update(self, allocation, observed, rng):
            allocation[:] = observed[:] = 9.0

    allocator = Allocator(2, 1.0, Scribbles(), seed=0)
    seen = np.array([0.5, 0.0])
    allocator.feedback(allocator.decide().id, seen)
    assert seen.tolist() == [0.5, 0.0]
    report = allocator.report()
    assert report.mean_allocation.tolist() == [0.25, 0.25]
    assert report.observed.tolist() == [0.5, 0.0]
