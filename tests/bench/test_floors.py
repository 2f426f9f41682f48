"""The floor draws what the work draws."""

import numpy as np
from benchmarks.cases import Case
from benchmarks.floors import recorded

from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.multiplayer import MultiplayerProblem, MusicalChairs


def test_all_draws_of_a_cascade_are_recorded():
    problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])
    rounds, uniform, parameters = recorded(Case(problem, UssTs(problem.costs), 50, 1), 0)
    assert rounds == uniform == 50  # one number a round for the world
    assert 100 <= len(parameters) <= 150  # arm 0 has two later arms, arm 1 has one
    assert parameters[0].tolist() == [1.0, 1.0]
    assert parameters.max() > 2.0


def test_rounds_end_where_the_players_have_settled():
    problem = MultiplayerProblem(np.array([0.9, 0.5, 0.1]), players=2)
    rounds, uniform, parameters = recorded(Case(problem, MusicalChairs(3, 20), 10_000, 1), 0)
    assert 20 < rounds < 100
    # the shuffle, three rewards a round, and an arm for each player until it sits
    assert 2 + 3 * rounds + 2 * 20 <= uniform <= 2 + 5 * rounds
    assert parameters.shape == (0, 2)
