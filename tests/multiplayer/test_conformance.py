"""Every public player keeps the protocol, with every option, and compiles."""

import doctest
import importlib
import pkgutil

import pytest

import weakfeedback.multiplayer as package
from weakfeedback.checks import CHECKS, PolicyCheckError, check_policy
from weakfeedback.multiplayer import Dlc, DlcLix, MultiplayerProblem, MusicalChairs, SicMmab

PROBLEM = MultiplayerProblem([0.9, 0.1, 0.8, 0.2, 0.3], 3)
FACTORIES = {
    "dlc": lambda p: Dlc(p.arms, 0.6, 0.2, seating_rounds=20),
    "dlc-keep": lambda p: Dlc(p.arms, 0.6, 0.2, seating_rounds=20, served="keep", tolerance="eps"),
    "dlc-fair": lambda p: Dlc(p.arms, 0.6, 0.2, seating_rounds=3, alarm=True, fair=True),
    "dlc-lix": lambda p: DlcLix(p.arms, 0.6, 0.2, seating_rounds=20),
    "dlc-lix-eps/2": lambda p: DlcLix(p.arms, 0.6, 0.2, seating_rounds=3, transfer="eps/2", alarm=True),
    "chairs": lambda p: MusicalChairs(p.arms, 200),
    "sic": lambda p: SicMmab(p.arms, 5),
}


@pytest.mark.slow  # with the options of the catalogue in tests/checks/test_policies.py
@pytest.mark.parametrize("name", FACTORIES)
def test_every_player_conforms(name):
    report = check_policy(FACTORIES[name], PROBLEM, rounds=500)
    assert len(report.passed) == len(CHECKS)


@pytest.mark.parametrize(("n", "rounds"), [pytest.param(1, 150, marks=pytest.mark.slow), (5, 60)])
def test_one_player_and_as_many_as_arms(n, rounds):
    problem = MultiplayerProblem(PROBLEM.means, n, rewards="beta")
    for name in ("dlc", "dlc-lix", "chairs", "sic"):
        check_policy(FACTORIES[name], problem, rounds=rounds)


class Chatty(MusicalChairs):
    """Learns while it chooses."""

    def choose(self, rng):
        self.slot += 0 if self.settled else 1
        return super().choose(rng)


class Gossip(MusicalChairs):
    """Shares a list between all players."""

    heard = []  # noqa: RUF012

    def observe(self, arm, reward, collided, rng):
        self.heard.append(arm)
        if len(self.heard) > 2 and self.heard[-2] == arm:
            self.arm = 0
        super().observe(arm, reward, collided, rng)
        self.pulls[0] = len(self.heard)


def test_checks_catch_players_who_learn_while_choosing():
    with pytest.raises(PolicyCheckError, match="select learns nothing"):
        check_policy(lambda p: Chatty(p.arms, 50), PROBLEM, rounds=100, compiled=False)


def test_checks_catch_players_who_talk_behind_the_scenes():
    with pytest.raises(PolicyCheckError, match=r"same seed same run|copies are independent"):
        check_policy(lambda p: Gossip(p.arms, 50), PROBLEM, rounds=100, compiled=False)


@pytest.mark.parametrize("module", [info.name for info in pkgutil.iter_modules(package.__path__)])
def test_examples_in_the_docstrings(module):
    loaded = importlib.import_module(f"weakfeedback.multiplayer.{module}")
    result = doctest.testmod(loaded)
    assert result.failed == 0
