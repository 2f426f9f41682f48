"""DLC-LIX with early moves against its slow twin, slot by slot."""

import numpy as np
import pytest
from tests.multiplayer import following
from tests.multiplayer.following import alone, follow, means_of
from tests.reference import players as slow
from tests.reference.players_early import slow_early
from tests.reference.players_lix import LixRules

from weakfeedback import simulate
from weakfeedback.multiplayer import DlcLix, MultiplayerProblem

QUICK = {"epsilon": 0.9, "delta": 0.5, "tolerance": "eps"}
SHORT = {**QUICK, "seating_rounds": 2}
VARIANTS = {
    "quick": QUICK,
    "eps/N": {"epsilon": 1.6, "delta": 0.5},
    "eps/2": {**QUICK, "transfer": "eps/2"},
    "middle": {"epsilon": 0.4, "delta": 0.5, "tolerance": "eps"},
    "short": SHORT,
    "alarm": {**SHORT, "alarm": True},
    "fine": {"epsilon": 0.1, "delta": 0.1, "seating_rounds": 40},
}
LAWS = ("bernoulli", "uniform", "beta")
NAME = "DlcLix, early"


@pytest.fixture(autouse=True)
def minds(monkeypatch):
    """The twin under a name of its own; what its leaders keep in mind."""
    found = []

    def twin(arms, early_moves, **options):
        assert early_moves
        return slow_early(LixRules(arms, **options), found)

    monkeypatch.setitem(following.TWINS, NAME, twin)
    return found


def early(arms, label):
    return {"arms": arms, "early_moves": True, **VARIANTS[label]}


@pytest.mark.parametrize("label", VARIANTS)
@pytest.mark.parametrize(
    "sizes", [(2, 3, 4, 5, 8), pytest.param((6, 7), marks=pytest.mark.slow)], ids=["few", "more"]
)
def test_fast_and_slow_choose_the_same_arms(label, sizes):
    for arms in sizes:
        for players in range(1, arms + 1):
            seed, law = arms + players, LAWS[(arms + 2 * players) % 3]
            slots = 450 if label == "fine" else 300
            follow(DlcLix, NAME, early(arms, label), means_of(arms), players, seed, slots, rewards=law)


# means, players, law, seed, epsilon, transfer: tables at which rare words are said
RARE = [
    ([0.75, 0.45, 0.63, 0.01, 0.76, 0.96, 0.85], 4, "uniform", 467, 0.6, "eps/2"),
    ([0.49, 0.03, 0.41, 0.49], 3, "beta", 110, 0.4, "eps/2"),
    ([0.88, 0.86, 0.83, 0.31, 0.17, 0.09], 3, "uniform", 892, 0.4, "exact"),
    ([0.82, 0.8, 0.77, 0.62, 0.52, 0.3, 0.12, 0.12], 4, "bernoulli", 630, 0.6, "exact"),
    ([0.94, 0.92, 0.89, 0.68], 2, "beta", 356, 0.2, "exact"),
]


def test_every_kind_of_word_is_said(minds):
    for means, players, law, seed, epsilon, transfer in RARE:
        inputs = {
            "arms": len(means),
            "epsilon": epsilon,
            "delta": 0.5,
            "tolerance": "eps",
            "early_moves": True,
        }
        inputs |= {"seating_rounds": 30, "transfer": transfer}
        follow(DlcLix, NAME, inputs, means, players, seed, 700, rewards=law)
    words = [word for mind in minds for word in mind.words]
    kinds = {
        "a provisional move": any(w.moved and not w.final for w in words),
        "a provisional stay": any(not w.moved and not w.sure for w in words),
        "held": any(w.sure and not w.final for w in words),
        "a final move, alone": any(w.moved and w.final and w.alone for w in words),
        "a final move in a round to all": any(w.moved and w.final and not w.alone for w in words),
        "a final stay, alone": any(not w.moved and w.final and w.alone for w in words),
        "a final stay in a round to all": any(not w.moved and w.final and not w.alone for w in words),
    }
    assert all(kinds.values()), kinds


class Drifting(slow.SlowWorld):
    """The arms change places every 120 slots: what was separated need not stay so."""

    slots = 0

    def draw(self):
        self.slots += 1
        if self.slots % 120 == 0:
            self.order = self.order[1:] + self.order[:1]
        return super().draw()


@pytest.mark.parametrize(
    ("means", "players", "law", "seed", "epsilon"),
    [
        ([0.92, 0.07, 0.16, 0.97], 2, "bernoulli", 450, 0.3),
        ([0.57, 0.94, 0.02, 0.87, 0.96], 2, "uniform", 114, 0.4),
        ([0.76, 0.58, 0.54, 0.42], 3, "beta", 151, 0.6),
    ],
)
def test_a_round_to_all_ends_the_holding(monkeypatch, minds, means, players, law, seed, epsilon):
    """A player who was held is visited in a round to all in which nothing is separated, and then told for good."""
    monkeypatch.setattr(slow, "SlowWorld", Drifting)
    inputs = {"arms": len(means), "epsilon": epsilon, "delta": 0.5, "tolerance": "eps", "early_moves": True}
    follow(DlcLix, NAME, inputs | {"seating_rounds": 30}, means, players, seed, 800, rewards=law)
    last = [word for word in minds[0].words if word.rank == players - 1]
    held = next(k for k, word in enumerate(last) if word.sure and not word.final)
    assert not last[held + 1].sure
    assert last[-1].final


def test_top_arms_that_are_close():
    follow(DlcLix, NAME, early(5, "fine"), [0.8, 0.78, 0.75, 0.4, 0.1], 3, 0, 4000)


def test_fast_and_slow_do_the_same_among_ghosts(minds):
    settled = 0
    for k, label in enumerate(("quick", "eps/2", "short", "middle", "fine")):
        for seed in range(8):
            chance = (0.05, 0.2, 0.5)[(seed + k) % 3]
            diary = alone(DlcLix, NAME, early(3 + seed % 5, label), seed, 400, chance)
            settled += diary.rank > 0 and diary.settled
    assert settled > 5
    assert sum(bool(mind.words) for mind in minds) > 2


def test_compiled_runs_are_those_of_the_twins():
    arms, rounds = 6, 2500
    means = 0.9 * 0.57 ** np.arange(arms)  # so unlike that the regret of a slot says which arms were used
    options = VARIANTS["middle"]
    for players in (1, 2, 4, 5, 6):
        law = LAWS[players % 3]
        problem = MultiplayerProblem(means, players, rewards=law)
        policy = DlcLix(arms, **options, early_moves=True)
        marks = np.arange(1, rounds + 1)
        frame = simulate(problem, {"early": policy}, rounds, 1, seed=players, marks=marks).frame
        world = slow.SlowWorld(means, slow.stream(players, 0, 0), rewards=law)
        _, rows = slow.slow_run(slow_early(LixRules(arms, **options)), world, players, players, 0, rounds)
        for measure in ("collisions", "settled_players", "settled_at", "optimal"):
            assert frame[measure].tolist() == [getattr(row, measure) for row in rows], measure
        for measure in ("regret", "shortfall"):
            assert np.allclose(frame[measure], [getattr(row, measure) for row in rows], rtol=0, atol=1e-8)
