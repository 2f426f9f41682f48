"""The players of chapter 5 against their slow twins, slot by slot, and what is counted of them."""

import numpy as np
import pytest
from tests.multiplayer.following import alone, follow, means_of, told_by_the_twin
from tests.reference import players as slow

import weakfeedback.multiplayer as fast
from weakfeedback import simulate
from weakfeedback.multiplayer import KlLucb, MultiplayerProblem

QUICK = {"epsilon": 0.9, "delta": 0.5, "tolerance": "eps"}  # so wide that phases end early
SHORT = {**QUICK, "seating_rounds": 2}  # openings that often fail
VARIANTS = {
    "DLC": ("Dlc", QUICK),
    "DLC, eps/N": ("Dlc", {"epsilon": 1.6, "delta": 0.5}),
    "DLC, keep": ("Dlc", {**QUICK, "served": "keep"}),
    "DLC, fair": ("Dlc", {**QUICK, "fair": True}),
    "DLC, short": ("Dlc", SHORT),
    "DLC, short, keep": ("Dlc", {**SHORT, "served": "keep"}),
    "DLC, short, fair": ("Dlc", {**SHORT, "fair": True}),
    "DLC, alarm": ("Dlc", {**SHORT, "alarm": True}),
    "DLC, alarm, keep": ("Dlc", {**SHORT, "alarm": True, "served": "keep"}),
    "DLC-LIX": ("DlcLix", QUICK),
    "DLC-LIX, eps/N": ("DlcLix", {"epsilon": 1.6, "delta": 0.5}),
    "DLC-LIX, eps/2": ("DlcLix", {**QUICK, "transfer": "eps/2"}),
    "DLC-LIX, fine": ("DlcLix", {"epsilon": 0.4, "delta": 0.5, "tolerance": "eps"}),
    "DLC-LIX, short": ("DlcLix", SHORT),
    "DLC-LIX, alarm": ("DlcLix", {**SHORT, "alarm": True}),
    "MC": ("MusicalChairs", {"learning_rounds": 60}),
    "MC, hasty": ("MusicalChairs", {"learning_rounds": 3}),
    "SIC-MMAB": ("SicMmab", {"horizon": 20, "constant": 0.05}),
    "SIC-MMAB, later": ("SicMmab", {"horizon": 20, "constant": 0.05, "first_phase": 3}),
    "SIC-MMAB, hasty": ("SicMmab", {"horizon": 2, "constant": 0.3}),
}
LAWS = ("bernoulli", "uniform", "beta")


def rounds_of(name, arms, players):
    """Enough for most runs to end."""
    if name == "SicMmab":
        return 60 * arms if players > 1 else 30 * arms
    return 250 if name == "MusicalChairs" else 40 * arms + 150


# arms, and the step in which the number of players grows from 1: all sizes in the slow tests
SIZES = [(2, 1), (3, 1), (4, 1), (5, 1), (10, 3)]
SIZES += [pytest.param(arms, 1, marks=pytest.mark.slow) for arms in range(6, 11)]


@pytest.mark.parametrize("label", VARIANTS)
@pytest.mark.parametrize(("arms", "step"), SIZES)
def test_fast_and_slow_choose_the_same_arms(label, arms, step):
    name, options = VARIANTS[label]
    for players in range(1, arms + 1, step):
        law = LAWS[(arms + players) % 3]
        inputs = {"arms": arms, **options}
        rounds = rounds_of(name, arms, players)
        follow(getattr(fast, name), name, inputs, means_of(arms), players, players, rounds, rewards=law)


ENDING = ["DLC", "DLC, keep", "DLC, fair", "DLC, alarm", "DLC-LIX", "DLC-LIX, eps/2", "DLC-LIX, alarm", "MC"]


@pytest.mark.parametrize("label", ENDING)
def test_the_compared_runs_reach_the_end(label):
    name, options = VARIANTS[label]
    for players in range(1, 7):
        inputs, rounds = {"arms": 6, **options}, rounds_of(name, 6, players)
        table, rows = told_by_the_twin(name, inputs, means_of(6), players, players, rounds)
        assert table.settled()
        assert rows[-1].settled_at < rounds


# twelve seeds are all pairs of a number of arms and a chance
@pytest.mark.parametrize(
    "seeds", [range(12), pytest.param(range(12, 24), marks=pytest.mark.slow)], ids=["first", "more"]
)
@pytest.mark.parametrize("label", [label for label in VARIANTS if "eps/N" not in label])
def test_fast_and_slow_do_the_same_among_ghosts(label, seeds):
    name, options = VARIANTS[label]
    for seed in seeds:
        inputs = {"arms": 2 + seed % 6, **options}
        alone(getattr(fast, name), name, inputs, seed, 400, (0.05, 0.2, 0.5, 0.8)[seed % 4])


@pytest.mark.parametrize("fair", [False, True])
def test_ghosts_garble_words(fair):
    """Words that name no arm do occur: a 7 among 6 arms, or no arm at all."""
    options = {**SHORT, "fair": fair}
    inputs = {"arms": 3 if fair else 6, **options}
    diaries = [alone(fast.Dlc, "Dlc", inputs, seed, 400, 0.2 if fair else 0.4) for seed in range(40)]
    assert any(diary.garbled for diary in diaries)
    assert any(diary.settled and not diary.garbled for diary in diaries)


@pytest.mark.parametrize("word", ["failed", "restarts"])
def test_the_compared_runs_meet_failed_openings(word):
    name, options = VARIANTS["DLC, short" if word == "failed" else "DLC, alarm"]
    tables = [follow(fast.Dlc, name, {"arms": 6, **options}, means_of(6), 4, seed, 60) for seed in range(8)]
    assert any(getattr(diary, word) for table in tables for diary in table.diaries)


def test_sic_mmab_hears_only_what_is_said_to_her():
    """After a failed opening there are collisions outside its turn; they are no part of a sum."""
    failed = 0
    for seed in range(40):
        inputs = {"arms": 4, "horizon": 2, "constant": 0.3}
        table = follow(fast.SicMmab, "SicMmab", inputs, means_of(4), 4, seed, 150)
        failed += any(diary.failed for diary in table.diaries)
    assert failed > 0


@pytest.mark.parametrize("seed", range(6))
def test_kl_lucb_alone_is_adaptive_explore(seed):
    rng = np.random.default_rng(seed)
    arms = int(rng.integers(2, 8))
    m = int(rng.integers(1, arms))
    diary, search = slow.Diary(), KlLucb(arms, m, 0.3, 0.5)
    twin = slow.adaptive_explore(diary, arms, range(arms), m, 0.5, 0.3)
    coming, best = next(twin), None
    while best is None:
        assert not search.finished
        arm = search.select(rng)
        assert arm == coming
        reward = float(rng.random() < means_of(arms)[arm])
        search.update(arm, reward, rng)
        try:
            coming = twin.send((reward, False))
        except StopIteration as end:
            best = end.value
    assert search.finished
    assert search.best_arms().tolist() == best
    assert search.pairs == diary.pairs


def same_measures(results, label, replication, rows):
    """Every measure at every mark."""
    frame = results.frame
    mine = frame[(frame["policy"] == label) & (frame["replication"] == replication)]
    assert mine["round"].tolist() == list(range(1, len(rows) + 1))
    for measure in ("collisions", "settled_players", "settled_at", "optimal"):
        assert mine[measure].tolist() == [getattr(row, measure) for row in rows], measure
    for measure in ("regret", "shortfall"):
        assert np.allclose(mine[measure], [getattr(row, measure) for row in rows], rtol=0, atol=1e-9), measure


def unlike(arms):
    """Means so unlike that the regret of a slot says which arms were used."""
    return 0.9 * 0.57 ** np.arange(arms)


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
@pytest.mark.parametrize(
    ("arms", "players"), [(2, 1), (5, 1), (5, 2), (5, 3), (5, 4), (5, 5), (7, 4), (10, 2), (10, 9)]
)
def test_simulated_runs_are_those_of_the_twins(arms, players, compiled):
    law, means = LAWS[players % 3], unlike(arms)
    problem = MultiplayerProblem(means, players, rewards=law)
    labels = [
        label for label in VARIANTS if compiled or label in ("DLC, fair", "DLC-LIX, alarm", "MC, hasty")
    ]
    policies = {}
    for label in labels:
        name, options = VARIANTS[label]
        policies[label] = getattr(fast, name)(arms=arms, **options)
    rounds = 350
    marks = np.arange(1, rounds + 1)
    results = simulate(problem, policies, rounds, 1, seed=players, marks=marks, compiled=compiled)
    for label in labels:
        name, options = VARIANTS[label]
        inputs = {"arms": arms, **options}
        _, rows = told_by_the_twin(name, inputs, means, players, players, rounds, rewards=law)
        same_measures(results, label, 0, rows)


def test_replications_differ_as_those_of_the_twins():
    policies = {"MC": fast.MusicalChairs(5, 3)}
    problem = MultiplayerProblem(unlike(5), 3)
    results = simulate(problem, policies, 80, 3, seed=1, marks=np.arange(1, 81), compiled=False)
    for replication in range(3):
        inputs = {"arms": 5, "learning_rounds": 3}
        _, rows = told_by_the_twin("MusicalChairs", inputs, unlike(5), 3, 1, 80, replication)
        same_measures(results, "MC", replication, rows)


def test_an_unshuffled_problem_keeps_its_order():
    problem = MultiplayerProblem(unlike(5), 2, shuffle=False)
    player = fast.MusicalChairs(5, 3)
    results = simulate(problem, {"MC": player}, 60, 1, seed=4, marks=np.arange(1, 61), compiled=False)
    inputs = {"arms": 5, "learning_rounds": 3}
    _, rows = told_by_the_twin("MusicalChairs", inputs, unlike(5), 2, 4, 60, shuffle=False)
    same_measures(results, "MC", 0, rows)
