"""States and journals that name a policy of before go on with what it played."""

import copy

import numpy as np

from weakfeedback import Cascade
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
