"""Allocation where needs and risks change: the optimum by enumeration, and what each policy loses."""

import itertools

import numpy as np

from weakfeedback.thesis.beyond import TABLES, changing


def test_the_optimum_is_that_of_all_sets():
    rng = np.random.default_rng(0)
    for _ in range(20):
        needs, means = rng.integers(5, 120, 6), rng.random(6)
        sets = [np.array(one, dtype=bool) for one in itertools.product((0, 1), repeat=6)]
        values = [means[one].sum() for one in sets if needs[one].sum() <= 100]
        assert abs(changing.best(needs, means) - max(values)) < 1e-12


def test_worlds_change_as_they_say():
    rounds = {kind: list(make(np.random.default_rng(1))) for kind, make in changing.WORLDS.items()}
    assert {len(one) for one in rounds.values()} == {changing.ROUNDS}
    changes = {
        kind: sum(a[0] is not b[0] for a, b in itertools.pairwise(one)) for kind, one in rounds.items()
    }
    assert changes["nothing changes"] == 0
    assert 5 < changes["every arm drawn anew once in 5000 rounds"] < 40  # 20 on average
    assert 60 < changes["every arm drawn anew once in 1000 rounds"] < 140  # 100 on average
    before, after = rounds["all needs halved at T/2"][0][0], rounds["all needs halved at T/2"][-1][0]
    assert after.tolist() == np.ceil(before / 2).tolist()


def test_changes_are_followed_and_cost_where_there_are_none():
    """Goals over 20 worlds: 800 where all needs are halved, 350 where nothing changes; this is one of them."""
    halved = {policy: changing.regret(policy, "all needs halved at T/2", 0) for policy in changing.POLICIES}
    assert halved["CSB-TS-drift"] < 800 < 4000 < halved["CSB-TS"]
    still = {policy: changing.regret(policy, "nothing changes", 0) for policy in changing.POLICIES}
    assert still["CSB-TS"] < still["CSB-TS-drift"] < 350


def test_nothing_is_played_for_a_report_without_its_experiment():
    assert changing.TABLE in TABLES
    assert changing.TABLE.rows({}) == []
