"""A live router with second looks: late answers are learned for their own round, also after a restart."""

import numpy as np
import pytest

from weakfeedback import Router
from weakfeedback.routing import SecondLooks

MADE = {"prices": [1, 2, 20], "error_cost": 100, "policy": "Second-looks"}


def same(one, other):
    mine, theirs = (vars(router._core.driver.write_back()) for router in (one, other))
    return all(np.array_equal(mine[name], theirs[name]) for name in mine)


def answer_some(routers, waiting, rng, rounds=120):
    """Decide, and answer or cancel earlier decisions in any order."""
    for _ in range(rounds):
        made = [router.decide() for router in routers]
        assert made[0].call == made[-1].call
        waiting.append(made[0])
        one = waiting.pop(int(rng.integers(len(waiting))))
        if len(one.call) > 1:
            outputs = (rng.random(len(one.call)) < 0.1).astype(int).tolist()
            for router in routers:
                router.feedback(one.id, outputs)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_late_answers_belong_to_their_round_also_after_loading(tmp_path, compiled):
    router, rng, waiting = Router(3, **MADE, compiled=compiled), np.random.default_rng(0), []
    waiting += [router.decide() for _ in range(12)]
    assert all(len(one.call) > 1 for one in waiting[:5])
    answer_some([router], waiting, rng, 6)
    router.save(tmp_path / "state")
    again = Router.load(tmp_path / "state", 3, compiled=compiled)
    answer_some([router, again], waiting, rng)
    assert router.comparisons > 20
    assert same(router, again)


def test_what_layer_0_has_asked_itself_is_all_that_it_learns():
    """In play by hand its counts are those of the policy alone, told its rounds again before they are learned."""
    router, policy = Router(3, **MADE), SecondLooks(np.array(MADE["prices"]) / 100)
    rng, waiting = np.random.default_rng(1), []
    for _ in range(600):
        decision = router.decide()
        policy.turn_to([], np.zeros(3, dtype=np.bool_))
        call = policy.select(None)
        assert tuple(np.flatnonzero(call)) == decision.call
        waiting.append((decision, policy.own.copy(), call))
        policy.start(call, None)
        decision, own, call = waiting.pop(int(rng.integers(len(waiting))))
        if call.sum() > 1 and rng.random() < 0.9:
            outputs = (rng.random(3) < [0.05, 0.5, 0.05])[call].astype(np.int64)
            router.feedback(decision.id, outputs.tolist())
            policy.turn_to([], own)
            policy.update(call, outputs, None)
        elif call.sum() > 1:
            router.cancel(decision.id)
            policy.turn_to([], own)
            policy.cancel(call)
    known = router._core.driver.policy
    for name in ("D", "N", "asked", "D1", "N1", "open", "L", "paid", "extra", "spent"):
        assert np.array_equal(getattr(known, name), getattr(policy, name)), name
    assert (known.N1[:, 0, 0].sum()) > known.N.sum()


def test_a_journal_brings_it_back(tmp_path):
    where = tmp_path / "journal.db"
    with Router.open(where, 3, **MADE) as router:
        answer_some([router], [], np.random.default_rng(3))
        fields = {name: np.copy(value) for name, value in vars(router._core.driver.policy).items()}
    with Router.open(where, 3, **MADE) as router:
        found = vars(router._core.driver.policy)
        assert all(np.array_equal(found[name], value) for name, value in fields.items())
        assert router.comparisons > 10
