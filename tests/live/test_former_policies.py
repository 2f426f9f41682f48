"""States and journals that name a policy of before go on with what it played."""

import copy
import json
from pathlib import Path

import numpy as np

from weakfeedback import Cascade, ContextualCascade
from weakfeedback.cascade import UssWd


def play(cascade, rounds, seed):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = cascade.decide()
        cascade.feedback(decision.id, [int(bit) for bit in rng.integers(0, 2, decision.arm + 1)])
    return cascade.policy


def test_a_state_of_the_joint_policy_keeps_its_policy():
    cascade = Cascade(3, [1, 1, 1], error_cost=5, policy="uss-ts-joint", seed=4)
    play(cascade, 40, 1)
    assert cascade.policy.redraws == 1
    state = cascade.state()
    assert (state["core"]["policy"], state["core"]["class"]) == ("USS-TS-joint", "UssTsJoint")
    old = copy.deepcopy(state)
    del old["core"]["fields"]["redraws"]  # as written before the field was added
    for kept in (state, old):
        again = Cascade.from_state(kept)
        assert again.policy.redraws == 1
        assert isinstance(again.policy, UssWd)
        assert (play(again, 30, 2).n == play(Cascade.from_state(state), 30, 2).n).all()


def test_a_journal_of_the_joint_policy_keeps_its_policy(tmp_path):
    with Cascade.open(
        tmp_path / "c.journal", 3, [1, 1, 1], error_cost=5, policy="USS-TS-joint", seed=4
    ) as cascade:
        learned = play(cascade, 40, 1).n.copy()
    with Cascade.open(
        tmp_path / "c.journal", 3, [1, 1, 1], error_cost=5, policy="USS-TS-joint", seed=4
    ) as again:
        assert again.policy.redraws == 1
        assert (again.policy.n == learned).all()


def test_contexts_with_numbers_of_before_go_on_with_their_policy_and_its_coins(tmp_path):
    """A file of 120 comparisons by USS-PD, from before USS-mean was its default, and the 150 stops that followed."""
    table = np.cumsum(np.random.default_rng(0).normal(size=(400, 4)) * [1, 0.4, 0.2, 0.1], axis=1)
    stages = [lambda row, k=k: float(table[row, k]) for k in range(3)]
    kept = json.loads((Path(__file__).parent / "old/contextual_squared.json").read_text())
    (tmp_path / "state").write_text(json.dumps(kept["state"]))
    cascade = ContextualCascade.load(tmp_path / "state", stages)
    rows = range(100, 250)
    assert [cascade(row, context=[table[row, 0] / 5]).arm for row in rows] == kept["arms"]
    assert cascade.state()["core"]["policy"] == "USS-PD"
