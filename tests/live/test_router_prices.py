"""Prices of a request: decisions, the money and its bound use them; also with a promise and in conversations."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from weakfeedback import Router
from weakfeedback.live.errors import Refused

STATED = [1.0, 20.0]
KINDS = {
    "plain": {"error_cost": 100},
    "looks": {"error_cost": 100, "policy": "Second-looks"},
    "context": {"error_cost": 100, "context": ["task"]},
    "promise": {"agree": 0.9, "seed": 3, "memory": 64},
}


def request(rng):
    """What a request costs on each model."""
    return (rng.choice([0.2, 0.5, 1.0, 3.3]) * np.array(STATED)).tolist()


def play(router, rng, rounds, rate=0.12, talks=0, prices=request):
    """Money, that of the last model alone, and answers that differ."""
    spent = alone = differ = 0.0
    for _ in range(rounds):
        own = prices(rng)
        more = {"conversation": int(rng.integers(talks))} if talks else {}
        told, unlike = router.decide(prices=own, **more), rng.random() < rate
        if len(told.call) > 1:
            router.feedback(told.id, [unlike, False])
        spent += sum(own[k] for k in told.call)
        alone += own[-1]
        differ += unlike and told.answer == 0
    return spent, alone, differ


@pytest.mark.parametrize("talks", [0, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_the_money_of_requests_is_counted_and_bounded_and_survives_a_restart(tmp_path, kind, talks):
    path, rng = tmp_path / "router", np.random.default_rng(1)
    with Router.open(path, 2, prices=STATED, every=1000, **KINDS[kind]) as router:
        spent, alone, _ = play(router, rng, 400, talks=talks)
        report, state = router.report(), router.state()
        assert report.spent == pytest.approx(spent)
        assert router.core.counts.alone == pytest.approx(alone)
        assert spent <= 1.05 * alone + 50 * STATED[-1]
        before = [router.decide(prices=[3, 60]).answer for _ in range(5)]
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("delete from snapshot")
    with Router.open(path, 2) as router:
        assert router.core.counts.decided == 405
        replayed = router.state()["core"]["fields"]
    again = Router.from_state(state)
    assert [again.decide(prices=[3, 60]).answer for _ in range(5)] == before
    assert again.state()["core"]["fields"] == replayed


@pytest.mark.parametrize("kind", KINDS)
def test_the_stated_prices_given_again_change_nothing(kind):
    one, two = (Router(2, prices=STATED, **KINDS[kind]) for _ in range(2))
    for n in range(400):
        first, second = one.decide(prices=STATED), two.decide()
        assert (first.call, first.answer) == (second.call, second.answer)
        for router, told in ((one, first), (two, second)):
            if len(told.call) > 1:
                router.feedback(told.id, [n % 9 == 0, False])
    assert one.state()["core"]["fields"] == two.state()["core"]["fields"]


def test_long_requests_go_to_the_cheap_model_and_short_ones_to_the_dear_one():
    """They differ in 30 %; at a price of 6 against .3 that is not worth it, at 60 against 3 it is."""
    router, rng = Router(2, prices=STATED, error_cost=100), np.random.default_rng(0)
    play(router, rng, 1500, 0.3, prices=lambda rng: [3, 60] if rng.random() < 0.3 else [0.3, 6])
    assert (router.decide(prices=[3, 60]).answer, router.decide(prices=[0.3, 6]).answer) == (0, 1)


def test_a_promise_spends_what_may_differ_on_dear_requests():
    """Equal shares differ, and far less is paid: of requests of equal risk the dear ones go to the cheap model."""
    costs = {}
    for own in (True, False):
        router, rng = Router(2, prices=STATED, agree=0.95, seed=1), np.random.default_rng(1)
        spent = alone = differ = 0.0
        for _ in range(4000):
            prices, unlike = request(rng), rng.random() < 0.12
            told = router.decide(prices=prices) if own else router.decide()
            if len(told.call) > 1:
                router.feedback(told.id, [unlike, False])
            spent += sum(prices[k] for k in told.call)
            alone += prices[-1]
            differ += unlike and told.answer == 0
        costs[own] = spent / alone
        assert differ / 4000 <= 0.05
    assert costs[True] < 0.75 * costs[False]


def test_an_answer_costs_what_its_request_costs():
    for options in ({"error_cost": 100}, {"agree": 0.9, "seed": 0}, {"error_cost": 100, "context": ["task"]}):
        router = Router([lambda x: x, lambda x: x], prices=STATED, **options)
        answer = router(1, prices=[2, 50])
        assert answer.cost == sum([2, 50][k] for k in answer.call)


def test_wrong_prices_have_one_line():
    router = Router(2, prices=STATED, error_cost=100)
    for prices, words in (([1], "2 numbers"), ([2, 1], "sorted"), ([0, 0], "end with a number > 0")):
        with pytest.raises(ValueError, match=words):
            router.decide(prices=prices)
    with pytest.raises(Refused, match="not for Double-Thompson"):
        Router(2, prices=STATED, error_cost=100, policy="Double-Thompson").decide(prices=[1, 2])
