"""Policies that name the next stage: they may begin anywhere and skip, and their coins are kept with the round."""

import json

import numpy as np
import pytest
from tests.live import inside

from weakfeedback import Cascade, StateError

COSTS = {"stage_costs": [1.0, 4.0, 9.0], "error_cost": 30.0}
STAGES = [lambda x: x % 2, lambda x: x % 3, lambda x: x % 5]


class Skips:
    """Begins at the first stage; a coin says whether the last one is called as well. Stage 1 is never called."""

    delay_safe = True

    def __init__(self):
        self.chance = 1.0
        self.first = -1
        self.weights = np.zeros(2)  # of comparisons learned, and rounds lost
        self.told = np.zeros(3, dtype=np.int64)

    def turn_to(self, group, first, chance):
        self.first = first
        self.chance = chance

    def next_stage(self, k, outputs, scores, rng):
        if k < 0:
            self.chance = 1.0
            self.first = -1
            return 0
        if k == 2:
            return -1
        self.first = 0
        self.chance = 0.25
        return 2 if rng.random() < 0.5 else -1

    def update(self, arm, outputs, scores, chances, rng):
        if arm == 2:
            assert (self.first, self.chance) == (0, 0.25)
            assert outputs[1] == -1
            self.weights[0] += (1.0 - self.chance) / self.chance
        self.told[arm] += 1

    def lost(self):
        self.weights[1] += self.chance


def make(**named):
    return Cascade(STAGES, **COSTS, policy=Skips(), seed=3, **named)


def test_stages_are_skipped_and_the_coin_of_the_round_weighs():
    cascade = make()
    answers = [cascade(x) for x in range(200)]
    assert {answer.arm for answer in answers} == {0, 2}
    assert all(len(answer.outputs) == (1 if answer.arm == 0 else 2) for answer in answers)
    assert {answer.cost for answer in answers} == {1.0, 10.0}
    report = cascade.report()
    assert report.stopped.tolist() == [sum(a.arm == 0 for a in answers), 0, sum(a.arm == 2 for a in answers)]
    assert cascade.policy.weights[0] == 3.0 * report.stopped[2]


def test_rounds_that_overlap_keep_their_own_coins_also_in_a_state(tmp_path):
    cascade = make()
    ids = [cascade.begin().id for _ in range(20)]
    steps = {id: cascade.tell(id, id % 2) for id in ids}
    going = [id for id, step in steps.items() if step.answer is None]
    assert {steps[id].stage for id in going} == {2}
    assert 0 < len(going) < 20
    cascade.cancel(going[0])
    assert cascade.policy.weights.tolist() == [0.0, 0.25]  # a comparison that is never answered is told
    path = tmp_path / "state.json"
    cascade.save(path)
    kept = json.loads(path.read_text())["body"]["core"]["ledger"]["pending"]
    assert [one["next"] for _, one in kept] == [2] * (len(going) - 1)
    assert {(one["chance"], one["first"]) for _, one in kept} == {(0.25, 0)}
    loaded = Cascade.load(path, STAGES, policy=Skips())
    assert loaded.state() == cascade.state()
    for id in going[1:]:
        assert loaded.tell(id, id % 3).answer.arm == 2
    assert loaded.policy.weights[0] == 3.0 * (len(going) - 1)


def test_a_journal_makes_every_step_again(tmp_path):
    path = tmp_path / "journal.db"
    cascade = Cascade.open(path, STAGES, **COSTS, policy=Skips(), seed=3)
    for x in range(30):
        cascade(x)
    id = cascade.begin().id
    while cascade.tell(id, 1).answer is not None:
        id = cascade.begin().id
    state = cascade.state()
    inside.kill(cascade)
    again = Cascade.open(path, STAGES, policy=Skips())
    assert again.state() == state
    assert again.tell(id, 4).answer.arm == 2
    again.close()


@pytest.mark.parametrize("said", [-1, 3, 1.0, True, None])
def test_a_first_stage_that_there_is_not_is_refused_and_nothing_has_changed(said):
    class Wrong(Skips):
        def next_stage(self, k, outputs, scores, rng):
            rng.random()
            return said

    cascade = Cascade(STAGES, **COSTS, policy=Wrong(), seed=3)
    before = cascade.state()
    with pytest.raises(ValueError, match=r"Wrong\.next_stage must return a stage"):
        cascade(1)
    assert cascade.state() == before


def test_a_stage_is_not_called_twice():
    class Again(Skips):
        def next_stage(self, k, outputs, scores, rng):
            return 0

    cascade = Cascade(STAGES, **COSTS, policy=Again(), seed=3)
    with pytest.raises(ValueError, match="not called yet"):
        cascade(1)
    assert (cascade.pending, cascade.report().wasted) == ([], 1.0)


@pytest.mark.parametrize("change", [{"chance": "x"}, {"first": 0.5}, {"next": 3}, {"next": True}])
def test_a_damaged_coin_is_refused(change):
    cascade = make()
    cascade.begin()
    state = cascade.state()
    state["core"]["ledger"]["pending"][0][1] |= change
    with pytest.raises(StateError):
        Cascade.from_state(state, STAGES, policy=Skips())
