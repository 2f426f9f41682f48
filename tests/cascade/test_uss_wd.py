"""USS-WD against cases worked out by hand and enumeration of all patterns; mutants that must be caught."""

import itertools

import numpy as np
import pytest
from benchmarks.goals import family
from hypothesis import given
from hypothesis import strategies as st
from tests.rig.draws import Script
from tests.rig.mutants import caught

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, UssWd
from weakfeedback.cascade.policies import uss_wd

# Draws for K = 3: arm 1 differs from arm 0 (1/4); arm 2 from arm 1, where that agreed (1/2), where it differed (1/4).
# So p01 = 1/4, p02 = 3/4 1/2 + 1/4 3/4 = 9/16, p12 = 3/4 1/2 + 1/4 1/4 = 7/16, all of them exact.
DRAWS = [0.25, 0.5, 0.25]


def decides(cls):
    for costs, expected in [
        ([0.0, 0.26, 0.57], 0),
        ([0.0, 0.25, 0.57], 2),  # a tie with p01 stops nobody
        ([0.0, 0.26, 0.5625], 2),  # a tie with p02
        ([0.0, 0.125, 0.5625], 2),  # a tie of arms 1 and 2 with p12
        ([0.0, 0.125, 0.5626], 1),
        ([0.0, 0.3, 0.74], 0),
    ]:
        rng = Script(*DRAWS)
        assert cls(costs, redraws=1).select(rng) == expected
        assert rng.asked == [(0.5, 1.5)] * 3
    assert cls([0.3]).select(Script()) == 0


def draws_again(cls):
    # Under q = 1/2, 1/4, 3/4: p01 = 1/2, p02 = 1/2 1/4 + 1/2 1/4 = 1/4, p12 = 1/2 1/4 + 1/2 3/4 = 1/2. At these costs
    # arm 0 loses to 1 and 1 to 2, but 2 costs .7 > p02 more than 0: no arm passes both tests.
    cycle, costs = [0.5, 0.25, 0.75], [0.0, 0.4, 0.7]
    for again in (0, 1, 3, 19):
        rng = Script(*cycle * again + DRAWS)
        assert cls(costs).select(rng) == 0
        assert len(rng.asked) == 3 * (again + 1)
    for most, options in ((20, {}), (1, {"redraws": 1}), (2, {"redraws": 2})):
        rng = Script(*cycle * 21)
        assert cls(costs, **options).select(rng) == 2  # the last law decides
        assert len(rng.asked) == 3 * most
    rng = Script(*DRAWS)
    assert cls([0.0, 0.2, 0.5625]).select(rng) == 2  # a tie with p02 is possible
    assert len(rng.asked) == 3


def learns(cls):
    policy = cls([0.0, 0.1, 0.2, 0.3])
    for outputs in [(1, 0, 0, 0), (1, 0, 0, 1), (0, 0, 0, 1), (0, 0), (1,), (0, 1, 0)]:
        policy.update(len(outputs) - 1, np.array(outputs), None)
    # nodes: 1 root; 2 and 3: arm 1 agrees, differs; 4 to 7: (0,0), (0,1), (1,0), (1,1) for arms 1 and 2
    assert policy.n[1:].tolist() == [5, 1, 3, 1, 0, 0, 2]
    assert policy.d[1:].tolist() == [3, 0, 1, 1, 0, 0, 1]
    rng = Script(*[0.5] * 7 * 20)
    policy.select(rng)
    rng.asked = rng.asked[:7]
    assert rng.asked == [
        *((3.5, 3.5), (0.5, 2.5), (1.5, 3.5), (1.5, 1.5)),
        *((0.5, 1.5), (0.5, 1.5), (1.5, 2.5)),
    ]


def chosen(costs, draws):
    """The arm by a sum over all patterns, which are tuples here."""
    arms = len(costs)
    names = [bits for depth in range(arms - 1) for bits in itertools.product((0, 1), repeat=depth)]
    q = dict(zip(names, draws))
    law = {}
    for bits in itertools.product((0, 1), repeat=arms - 1):
        chance, seen = 1.0, (0, *bits)
        for k in range(arms - 1):
            chance *= q[bits[:k]] if seen[k] != seen[k + 1] else 1.0 - q[bits[:k]]
        law[seen] = chance
    for i in range(arms):
        p = [sum(c for seen, c in law.items() if seen[i] != seen[j]) for j in range(i + 1, arms)]
        if all(costs[j] - costs[i] > chance for j, chance in zip(range(i + 1, arms), p)):
            return i
    return arms - 1


def agrees_with_enumeration(cls, seeds=range(40)):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        arms = 2 + seed % 7
        draws = rng.beta(0.5, 1.5, size=2 ** (arms - 1) - 1)
        costs = np.cumsum(rng.uniform(0.0, 1.6 / arms, size=arms))
        assert cls(costs, redraws=1).select(Script(*draws)) == chosen(costs, draws)


def refuses_three_labels(cls):
    policy = cls([0.0, 0.1, 0.2])
    refused = ""
    try:
        policy.update(2, [0, 1, 2], None)
    except ValueError as error:
        refused = str(error)
    assert "at most two values in a round" in refused
    assert not policy.n.any()
    assert not policy.d.any()
    policy.update(2, [3, 3, 4], None)
    assert policy.n.tolist() == [0, 1, 1, 0]


BATTERY = (decides, draws_again, learns, agrees_with_enumeration, refuses_three_labels)


@pytest.mark.parametrize("part", BATTERY)
def test_the_policy(part):
    part(UssWd)


test_mutants_are_caught = caught(
    lambda mutant: [part(mutant.UssWd) for part in BATTERY],
    uss_wd,
    ("self.d[node], 1.5 +", "self.d[node], 0.5 +"),
    ("1.5 + self.n[node] - self.d[node]", "1.5 + self.n[node]"),
    ("<= self.disagreement(i, j, weight):", "< self.disagreement(i, j, weight):"),
    ("weight[node] * (1.0 - q)", "weight[node] * q"),
    (
        "self.d[node])\n            last = node & 1 if node > 1 else 0",
        "self.d[node])\n            last = node & 1",
    ),
    ("if i > 0 else 0", "if i > 0 else 1"),
    ("(node >> (j - i))", "(node >> i)"),
    ("range(1 << j, 2 << j):  # the", "range(1 << j, (2 << j) - 1):  # the"),
    ("if bit != last:", "if bit:"),
    ("            last = bit\n", ""),
    ("node = 2 * node + bit", "node = 2 * node"),
    ("for k in range(arm):", "for k in range(arm - 1):"),
    ("range(1, self.n.size):\n            q", "range(self.n.size - 1, 0, -1):\n            q"),
    ("for j in range(i + 1, arm + 1):", "for j in range(i + 2, arm + 1):"),
    ("if self.in_lower_set(arm, weight):", "if True:"),
    ("range(self.redraws)", "range(self.redraws + 1)"),
    ("redraws=20", "redraws=19"),
    ("> self.disagreement(earlier, i, weight)", ">= self.disagreement(earlier, i, weight)"),
    ("for earlier in range(i):", "for earlier in range(i - 1, i):"),
    (
        "            weight = self.draw_law(rng)\n            arm = 0",
        "            weight = self.draw_law(rng)",
    ),
)


@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_the_drawn_law_is_one(arms, seed):
    rng = np.random.default_rng(seed)
    policy = UssWd(np.arange(arms) / 10)
    policy.d, policy.n = rng.integers(0, 5, policy.d.size) * 1.0, rng.integers(5, 9, policy.n.size) * 1.0
    weight = policy.draw_law(rng)
    for depth in range(arms):
        assert weight[2**depth : 2 ** (depth + 1)].sum() == pytest.approx(1.0)
        for node in range(2**depth, 2 ** (depth + 1) if depth < arms - 1 else 0):
            assert weight[2 * node] + weight[2 * node + 1] == pytest.approx(weight[node])


def test_learning_finds_the_law():
    """Where the posterior is narrow, the draws are the disagreements of the problem."""
    problem = CascadeProblem.bsc([0.4, 0.3, 0.2, 0.1], costs=[0.1, 0.2, 0.3, 0.4])
    policy, rng = UssWd(problem.costs), np.random.default_rng(0)
    rows = problem._rows[rng.choice(len(problem._rows), p=problem._probabilities, size=40_000)]
    for row in rows:
        policy.update(3, row[1:], rng)
    weight = policy.draw_law(rng)
    for i, j in itertools.combinations(range(4), 2):
        nodes = [node for node in range(1 << j, 2 << j) if ((node >> (j - i)) & 1 if i else 0) != node & 1]
        # the standard deviation of such a share is at most .5 / 200 = .0025, twice: data and draw
        assert weight[nodes].sum() == pytest.approx(problem.disagreement[i, j], abs=0.02)


def test_wrong_arguments_and_problems_are_refused():
    with pytest.raises(ValueError, match="costs must be at most 8 numbers, got 9"):
        UssWd(np.arange(9))
    with pytest.raises(ValueError, match="costs must be"):
        UssWd([])
    with pytest.raises(ValueError, match="redraws must be"):
        UssWd([0.1, 0.2], redraws=0)
    three = CascadeProblem([[0, 0, 1, 2], [0, 0, 0, 0]], [0.5, 0.5], costs=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="UssWd is for outputs of two labels, the problem has 3 in a round"):
        simulate(three, {"wd": UssWd(three.costs)}, horizon=5, replications=1)
    never = CascadeProblem([[0, 0, 1, 2], [5, 5, 5, 7]], [0.0, 1.0], costs=[0.1, 0.2, 0.3])
    simulate(never, {"wd": UssWd(never.costs)}, horizon=5, replications=1, compiled=False)


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_the_arm_is_the_one_that_weak_dominance_allows(arms, seed):
    """Where the draws of a round end before their limit, the arm passes both tests under the last law."""
    rng = np.random.default_rng(seed)
    policy = UssWd(np.cumsum(rng.uniform(0, 0.3, arms)))
    policy.d, policy.n = rng.integers(0, 5, policy.d.size) * 1.0, rng.integers(5, 9, policy.n.size) * 1.0
    laws, draw = [], policy.draw_law
    policy.draw_law = lambda rng: laws.append(draw(rng)) or laws[-1]
    arm = policy.select(rng)
    passing = [
        [i for i in range(arms) if policy.in_higher_set(i, law) and policy.in_lower_set(i, law)]
        for law in laws
    ]
    assert all(not arms for arms in passing[:-1])
    assert passing[-1] == [arm] if len(laws) < 20 else passing[-1] in ([], [arm])


def test_only_one_cycle_is_left():
    """Joint draws obey the triangle inequality; that excludes one of the two cycles of three arms, not the other.

    From the prior, costs (0, .6, .7): the excluded cycle never, the other in 6.0 % of 20,000 draws, with a standard
    error of .17 %: a false alarm at 5 standard errors once in a million seeds.
    """
    policy, rng = UssWd([0.0, 0.6, 0.7]), np.random.default_rng(3)
    excluded = left = 0
    for _ in range(20_000):
        law = policy.draw_law(rng)
        p01, p02, p12 = (policy.disagreement(i, j, law) for i, j in ((0, 1), (0, 2), (1, 2)))
        excluded += p01 < 0.6 and p12 < 0.1 and p02 >= 0.7
        left += p01 >= 0.6 and p12 >= 0.1 and p02 < 0.7
    assert excluded == 0
    assert left / 20_000 == pytest.approx(0.060, abs=0.0085)


@pytest.mark.slow
def test_three_quarters_of_the_regret_of_one_law_on_cascades_it_never_saw():
    """33 cascades, 8 runs; measured .62, and the largest excess 5.5 in 20 runs."""
    ratios = []
    for n, problem in enumerate(family(1)):
        policies = {"wd": UssWd(problem.costs), "one": UssWd(problem.costs, redraws=1)}
        results = simulate(problem, policies, 10_000, 8, seed=1000 + n, marks=1)
        mine, other = (results.values(name)[:, -1].mean() for name in ("wd", "one"))
        assert mine - other <= 40
        ratios.append((mine + 2) / (other + 2))
    assert np.exp(np.mean(np.log(ratios))) <= 0.75
