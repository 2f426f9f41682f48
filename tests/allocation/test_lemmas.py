"""Computed, not only stated: the lemmas of chapter 4 as properties, and its two regret equivalences round by round."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weakfeedback.allocation import AllocationProblem, CsbDu, CsbMk, CsbSu, KnownThresholds, NumMk, knapsack
from weakfeedback.engine.seeds import generator
from weakfeedback.kernels.loops import rank_down


@st.composite
def problems(draw, same=False, setting="loss"):
    """Problems of 1 to 8 arms, half of them with decimal numbers and so with ties and exact fits."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    K = draw(st.integers(1, 8))
    digits = draw(st.sampled_from([1, 2, 12]))
    budget = round(rng.uniform(0.6, 3.0), digits)
    thresholds = np.clip(rng.uniform(0.1, 1.0, K).round(digits), 0.1, budget)
    if same:
        thresholds[:] = thresholds[0]
    return AllocationProblem(rng.uniform(0.05, 1.0, K).round(digits), thresholds, budget, setting)


@given(problems(same=True))
@settings(max_examples=150, deadline=None)
def test_the_candidates_contain_an_equivalent(problem):
    """Lemma ThetaSet: Q/M with M = min(floor(Q / theta), K) is equivalent, and no other candidate serves more."""
    K, Q, theta = problem.arms, problem.budget, problem.thresholds[0]
    M = min(math.floor(Q / theta * (1 + 1e-9)), K)
    candidates = {m: np.full(K, Q / m) for m in range(1, K + 1)}
    assert problem.equivalent(candidates[M])
    assert problem.really_equivalent(candidates[M])
    for m, candidate in candidates.items():
        if m > M:  # less than theta for each: nothing is served
            assert not problem.really_equivalent(candidate)
        else:  # m arms are served: as good only if the means left out are ties of nothing
            value = np.sort(problem.means)[::-1][:m].sum()
            assert problem.really_equivalent(candidate) == (value >= problem.optimal_value - 1e-9)


@given(problems(), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_inflated_thresholds_keep_the_optimum(problem, seed):
    """Lemma diffTheteEst: estimates in [theta_i, theta_i + gamma] are equivalent, with gamma = r / K."""
    extra = np.random.default_rng(seed).uniform(0.0, 1.0, problem.arms)
    for part in (extra, np.ones(problem.arms)):
        estimate = problem.thresholds + part * problem.gamma
        assert problem.equivalent(estimate)
        assert problem.really_equivalent(estimate)
    if problem.gamma > 0.0:  # the next point of the grid lies within gamma
        grid = np.ceil(problem.thresholds / problem.gamma * (1 - 1e-9)) * problem.gamma
        assert (grid <= problem.thresholds + problem.gamma * (1 + 1e-9)).all()
        assert problem.really_equivalent(np.maximum(grid, problem.thresholds))


def test_more_than_gamma_can_lose_the_optimum():
    # r = .2 and K = 2: gamma = .1 is the most that both thresholds can grow
    problem = AllocationProblem([0.5, 0.5], [0.4, 0.4], 1.0)
    assert problem.gamma == pytest.approx(0.1)
    assert problem.really_equivalent(problem.thresholds + 0.1)
    assert not problem.really_equivalent(problem.thresholds + 0.1001)


# ---- the two equivalences: the same policy and the same draws on both sides


class SemiBandit:
    """Thompson sampling that plays a superarm and sees the loss of each arm in it; it knows nothing of thresholds."""

    def __init__(self, K, superarm):
        self.S, self.F, self.superarm = np.ones(K), np.ones(K), superarm

    def play(self, rng):
        return self.superarm(np.array([rng.beta(s, f) for s, f in zip(self.S, self.F)]))

    def learn(self, arms, losses):
        for i in arms:
            self.S[i] += losses[i]
            self.F[i] += 1.0 - losses[i]


def regrets_of_both(problem, superarm, cheapest, rounds, seed):
    """The regret of each round of KnownThresholds on the problem, and of the semi-bandit on its image."""
    allocator = KnownThresholds(problem.arms, problem.budget, problem.thresholds)
    bandit = SemiBandit(problem.arms, superarm)
    world, losses, pairs = problem.world(), np.empty(problem.arms), []
    world_rng, one, other = generator(seed, 0, 0), generator(seed, 0, 1), generator(seed, 0, 1)
    for _ in range(rounds):
        world.draw(losses, world_rng)
        allocation = allocator.select(one)
        lost = np.array([not world.serves(i, allocation[i]) for i in range(problem.arms)])
        allocator.update(allocation, np.where(lost, losses, 0.0), one)
        arms = bandit.play(other)
        bandit.learn(arms, losses)
        optimal = problem.means.sum() - problem.optimal_value
        pairs.append((problem.means[lost].sum() - optimal, problem.means[arms].sum() - cheapest))
    return np.array(pairs).T


def test_one_threshold_is_a_multiple_play_bandit():
    """Proposition RegretEquiST: CSB with known theta_s is MP-MAB with superarms of K - M arms."""
    problem = AllocationProblem([0.2, 0.9, 0.5, 0.6, 0.35, 0.75, 0.1], [0.4] * 7, 1.2)  # M = 3
    m = 7 - 3
    cheapest = np.sort(problem.means)[:m].sum()
    for seed in range(5):
        csb, mp = regrets_of_both(problem, lambda mu: np.sort(rank_down(mu)[3:]), cheapest, 300, seed)
        np.testing.assert_allclose(csb, mp, atol=1e-12)
        assert csb.min() > -1e-12
        assert csb.max() > 0.1


def test_different_thresholds_are_a_combinatorial_semi_bandit():
    """Proposition MultiThetaEquivalence: the superarms are the complements of the sets that fit into the budget."""
    problem = AllocationProblem([0.2, 0.9, 0.5, 0.6, 0.35], [0.3, 0.7, 0.25, 0.4, 0.5], 1.1)
    masks = [np.array([(code >> i) & 1 for i in range(5)], dtype=bool) for code in range(32)]
    superarms = [~mask for mask in masks if problem.thresholds[mask].sum() <= problem.budget * (1 + 1e-9)]

    def oracle(mu):
        return np.flatnonzero(min(superarms, key=lambda mask: mu[mask].sum()))

    cheapest = min(problem.means[mask].sum() for mask in superarms)
    for seed in range(5):
        csb, combinatorial = regrets_of_both(problem, oracle, cheapest, 300, seed)
        np.testing.assert_allclose(csb, combinatorial, atol=1e-12)
        assert csb.max() > 0.1


# ---- properties of the searches


class ByArm:
    """A generator whose Beta draws depend only on the arm and the round: the arms can be permuted."""

    def __init__(self, order, table):
        self.order, self.table, self.calls = order, table, 0

    def beta(self, a, b):
        turn, place = divmod(self.calls, len(self.order))
        self.calls += 1
        return self.table[turn, self.order[place]]


def allocations(policy, problem, order, seed, rounds):
    """What a policy gives when place k holds arm order[k], told by arm."""
    K = problem.arms
    draws, losses = np.random.default_rng(seed).uniform(size=(2, rounds, K))
    rng, told = ByArm(order, draws), []
    for t in range(rounds):
        allocation = policy.select(rng)
        assert allocation.sum() <= problem.budget * (1 + 1e-9)
        assert (allocation >= 0.0).all()
        by_arm = np.empty(K)
        by_arm[order] = allocation
        seen = np.where(by_arm < problem.thresholds * (1 - 1e-9), losses[t] < problem.means, 0.0)
        policy.update(allocation, seen[order].astype(float), rng)
        told.append(by_arm)
    return np.array(told)


@pytest.mark.parametrize("name", ["CSB-SU", "CSB-DU", "Known"])
@given(problem=problems(), seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_permuted_arms_get_permuted_allocations(name, problem, seed):
    # the searches of CSB-MK serve arms in index order, so this is not for them
    order = np.random.default_rng(seed).permutation(problem.arms)
    runs = []
    for places in (np.arange(problem.arms), order):
        policy = {
            "CSB-SU": lambda: CsbSu(problem.arms, problem.budget),
            "CSB-DU": lambda: CsbDu(problem.arms, problem.budget, 0.05),
            "Known": lambda places=places: KnownThresholds(
                problem.arms, problem.budget, problem.thresholds[places]
            ),
        }[name]()
        runs.append(allocations(policy, problem, places, seed, 40))
    np.testing.assert_allclose(runs[0], runs[1], atol=1e-9)


@given(problem=problems(), seed=st.integers(0, 10**6), distinct=st.booleans(), every=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_no_estimate_is_below_a_loss_during_the_search(problem, seed, distinct, every):
    K, rng = problem.arms, np.random.default_rng(seed)
    n = max(1, K - 1) if distinct else None
    policy = CsbMk(K, problem.budget, 0.3, 0.1, 0.05, distinct=n, wait=2, every=every)
    anytime = CsbDu(K, problem.budget, 0.05, every=every)
    for searching in (policy, anytime):
        highest = np.zeros(K)
        for _ in range(120):
            allocation = searching.select(rng)
            assert allocation.sum() <= problem.budget * (1 + 1e-9)
            lost = (allocation < problem.thresholds * (1 - 1e-9)) & (rng.uniform(size=K) < problem.means)
            if getattr(searching, "found", False):
                break  # afterwards losses are ignored, as printed
            highest = np.where(lost, np.maximum(highest, allocation), highest)
            searching.update(allocation, lost.astype(float), rng)
            assert (searching.theta_hat >= highest - 1e-12).all()


@given(problem=problems(setting="reward"), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_no_estimate_is_above_a_reward_during_the_search(problem, seed):
    K, rng = problem.arms, np.random.default_rng(seed)
    policy = NumMk(K, problem.budget, 0.3, 0.1, 0.05, wait=2)
    lowest = np.full(K, problem.budget)
    for _ in range(120):
        allocation = policy.select(rng)
        assert allocation.sum() <= problem.budget * (1 + 1e-9)
        if policy.found:
            break
        gained = (allocation >= problem.thresholds * (1 - 1e-9)) & (rng.uniform(size=K) < problem.means)
        lowest = np.where(gained, np.minimum(lowest, allocation), lowest)
        policy.update(allocation, gained.astype(float), rng)
        assert (policy.theta_hat <= lowest + 1e-12).all()


def test_an_optimal_allocation_solves_the_knapsack():
    """Proposition diffThetaOptiSoln, on the example of the thesis."""
    problem = AllocationProblem([0.9, 0.6, 0.4], [0.6, 0.55, 0.45], 1.0)
    assert (problem.optimal_allocation > 0.0).tolist() == knapsack(
        [0.9, 0.6, 0.4], [0.6, 0.55, 0.45], 1.0
    ).tolist()
