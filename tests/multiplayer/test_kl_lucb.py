"""AdaptiveExplore: the bounds against the definition, the choice of pairs, the promise of the search."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from tests.rig.refusals import refusals

from weakfeedback.multiplayer import KlLucb, kl_lucb, top_arms
from weakfeedback.multiplayer.kl_lucb import (
    IDLE,
    AdaptiveExplore,
    divergence,
    exploration_rate,
    kl_lower,
    kl_upper,
)

RNG = np.random.default_rng(0)


def d(p, q):
    parts = [x * math.log(x / y) for x, y in ((p, q), (1 - p, 1 - q)) if x > 0]
    return math.fsum(parts)


def test_divergence():
    for p in (0.0, 0.2, 0.5, 1.0):
        for q in (0.1, 0.5, 0.9):
            assert divergence(p, q) == pytest.approx(d(p, q), abs=1e-15)
    assert divergence(0.0, 0.0) == divergence(1.0, 1.0) == 0.0
    assert (
        divergence(0.5, 0.0)
        == divergence(0.5, 1.0)
        == divergence(0.0, 1.0)
        == divergence(1.0, 0.0)
        == math.inf
    )


@pytest.mark.parametrize("mean", [0.0, 0.01, 0.3, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("pulls", [1, 7, 500])
def test_bounds_solve_their_equation(mean, pulls):
    level = 9.5
    upper, lower = kl_upper(mean, pulls, level), kl_lower(mean, pulls, level)
    assert 0.0 <= lower <= mean <= upper <= 1.0
    # where the root is closer to 0 or 1 than numbers can tell, the bound is
    if mean < 1.0 and pulls * d(mean, 1 - 1e-12) > level:
        assert upper == pytest.approx(brentq(lambda q: pulls * d(mean, q) - level, mean, 1 - 1e-12), abs=1e-9)
    else:
        assert upper == pytest.approx(1.0, abs=1e-11)
    if mean > 0.0 and pulls * d(mean, 1e-12) > level:
        assert lower == pytest.approx(brentq(lambda q: pulls * d(mean, q) - level, 1e-12, mean), abs=1e-9)
    else:
        assert lower == pytest.approx(0.0, abs=1e-11)
    assert lower < mean or mean == 0.0  # printed as a maximum, it would be the mean


def test_exploration_rate_by_hand():
    # K = 10, delta = .05, s = 4: x = ln(505.5 * 10 * 4^1.1 / .05) = ln(464,542.6...)
    x = math.log(505.5 * 10 * 4**1.1 / 0.05)
    assert exploration_rate(math.log(505.5 * 10 / 0.05), 4) == pytest.approx(x + math.log(x), rel=1e-14)


def fill(search, pulls, means):
    search.unplayed = 0
    for k, (n, mean) in enumerate(zip(pulls, means)):
        search.pulls[k], search.sums[k], search.means[k] = n, n * mean, mean


def test_pairs_are_those_of_the_definition():
    """Against a plain computation of all bounds, over random counts with many ties."""
    rng = np.random.default_rng(8)
    for _ in range(300):
        arms = int(rng.integers(3, 9))
        m = int(rng.integers(1, arms))
        search = KlLucb(arms, m, 0.1, 0.0)
        search.pairs = int(rng.integers(0, 50))
        pulls = rng.integers(1, 6, size=arms)
        means = rng.integers(0, 4, size=arms) / 3
        fill(search, pulls, means)
        gap = search.find_pair()
        level = exploration_rate(search.scale, max(1, search.pairs))
        ranking = sorted(range(arms), key=lambda k: (-means[k], k))
        inside, outside = ranking[:m], ranking[m:]
        upper = {k: kl_upper(means[k], pulls[k], level) for k in outside}
        lower = {k: kl_lower(means[k], pulls[k], level) for k in inside}
        u = min(outside, key=lambda k: (-upper[k], k))
        low = min(inside, key=lambda k: (lower[k], k))
        assert (search.first, search.second) == (u, low)
        assert gap == upper[u] - lower[low]
        assert search.best_arms().tolist() == inside


def test_a_search_by_hand():
    """Two arms with rewards 1 and 0: pairs of (1, 0) until 1 - 2 exp(-beta / n) <= epsilon."""
    delta, epsilon = 0.1, 0.5
    pairs = 1
    while True:
        x = math.log(505.5 * 2 * pairs**1.1 / delta)
        if 1.0 - 2.0 * math.exp(-(x + math.log(x)) / (1 + pairs)) <= epsilon:
            break
        pairs += 1
    search = KlLucb(2, 1, delta, epsilon)
    played = []
    while not search.finished:
        arm = search.select(RNG)
        played.append(arm)
        search.update(arm, 1.0 - arm, RNG)
    assert played == [0, 1] + [1, 0] * pairs
    assert search.best_arms().tolist() == [0]
    assert search.gap <= epsilon


def test_at_least_one_pair_is_played():
    search = KlLucb(3, 1, 0.1, epsilon=5.0)
    pulls = 0
    while not search.finished:
        search.update(search.select(RNG), 0.5, RNG)
        pulls += 1
    assert pulls == 3 + 2


def test_all_arms_need_no_search():
    search = KlLucb(4, 4, 0.1)
    assert search.finished
    assert search.best_arms().tolist() == [0, 1, 2, 3]
    assert top_arms(lambda arm: 1 / 0, 4, 4, 0.1).pulls == 0


class Polled(AdaptiveExplore):
    def __init__(self, arms):
        self.start_exploring(arms, 0.1)


def test_initial_plays_go_round_polls():
    search = Polled(3)
    search.explore_from(1, 0.0)
    assert search.explore_choice(0) == 1  # the next arm
    search.explore_observe(1, 0.0, False)
    assert search.explore_choice(IDLE) == 0
    search.explore_observe(0, 0.0, False)
    assert search.explore_choice(2) == IDLE  # the last one is polled
    search.explore_observe(IDLE, 0.0, False)
    assert not search.due
    assert search.explore_choice(1) == 2
    search.explore_observe(2, 0.0, True)  # a collision is no sample
    assert search.unplayed == 1
    search.explore_observe(2, 1.0, False)
    assert search.due


@pytest.mark.parametrize(
    ("now", "after", "order"),
    [(IDLE, IDLE, [1, 0]), (1, IDLE, [0, 1]), (IDLE, 0, [0, 1]), (0, IDLE, [1, 0]), (IDLE, 1, [1, 0])],
)
def test_the_order_of_a_pair_avoids_polls(now, after, order):
    search = Polled(2)
    search.explore_from(1, 0.0)
    fill(search, [1, 1], [1.0, 0.0])
    search.next_pair(now, after)
    assert [search.first, search.second] == order
    assert search.first != now
    assert search.second != after


def wrong_answers():
    """Of 200 random problems with delta = .1: those with an arm more than epsilon below the m-th best."""
    rng = np.random.default_rng(21)
    delta, epsilon, wrong = 0.1, 0.45, 0
    for _ in range(200):
        m = int(rng.integers(1, 5))
        good = rng.permutation(5) < m  # each of the others is wrong
        means = np.where(good, rng.uniform(0.75, 0.85, 5), rng.uniform(0.15, 0.25, 5))
        found = top_arms(lambda arm, p=means: float(rng.random() < p[arm]), 5, m, delta, epsilon)
        assert found.sure
        limit = np.sort(means)[-m] - epsilon
        wrong += bool((means[list(found.arms)] < limit).any())
    return wrong


def test_the_search_keeps_its_promise(monkeypatch):
    # Bin(200, .1) reaches 36 with probability 4e-4
    assert wrong_answers() < 36
    # a search that trusts its means too early does not
    monkeypatch.setattr(
        kl_lucb, "exploration_rate", lambda scale, pairs: 0.05 * exploration_rate(scale, pairs)
    )
    assert wrong_answers() >= 36


def test_top_arms_stops_at_its_limit():
    found = top_arms(lambda arm: 0.5, 3, 1, 0.1, epsilon=0.0, limit=50)
    assert (found.pulls, found.sure) == (50, False)


test_bad_arguments_are_named = refusals(
    lambda call: call(),
    (lambda: KlLucb(1, 1, 0.1), "arms must be an integer >= 2, got 1"),
    (lambda: KlLucb(3, 0, 0.1), "m must be an integer from 1 to 3, got 0"),
    (lambda: KlLucb(3, 4, 0.1), "m must be an integer from 1 to 3, got 4"),
    (lambda: KlLucb(3, 1, 0.7), r"delta must be a number in \(0, 0.5\], got 0.7"),
    (lambda: KlLucb(3, 1, 0.1, -1), "epsilon must be a finite number >= 0, got -1"),
    (lambda: top_arms(lambda arm: 1.5, 3, 1, 0.1), r"the reward must lie in \[0, 1\], got 1.5 of arm 0"),
    (lambda: top_arms(lambda arm: math.nan, 3, 1, 0.1), "the reward must be a finite number"),
)
