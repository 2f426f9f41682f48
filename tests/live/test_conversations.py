"""Conversations of a router: the first request decides, later ones stay or go up, never down; over restarts."""

import sqlite3
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from tests.live.talking import CELLS, played

from weakfeedback import Router
from weakfeedback.live import talks
from weakfeedback.live.errors import Refused
from weakfeedback.live.talks import Talks, Turn

KINDS = {
    "plain": {"error_cost": 100},
    "looks": {"error_cost": 100, "policy": "Second-looks"},
    "context": {"error_cost": 100, "context": ["task"]},
    "promise": {"agree": 0.9, "seed": 3, "memory": 64},
}


def talk(router, count, turns=6, begin=0):
    """Play conversations in turn; return the models of each."""
    found = []
    for number in range(begin, begin + count):
        told = [router.decide(conversation=f"c{number}") for _ in range(turns)]
        for n, one in enumerate(told):
            if len(one.call) > 1:
                router.feedback(one.id, [(number + n + k) % 9 == 0 for k in one.call])
        found.append(told)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_never_goes_down_and_only_its_first_request_is_compared(kind):
    router = Router(2, prices=[1, 20], **KINDS[kind])
    for told in talk(router, 80):
        answers = [one.answer for one in told]
        assert answers == sorted(answers)
        assert [one.turn == "first" for one in told] == [True] + [False] * 5
        assert all((one.turn == "up") == (two.answer < one.answer) for two, one in pairwise(told))
        if kind != "promise":
            assert all(len(one.call) == 1 for one in told[1:])
    counts = router.core.counts
    assert (counts.talks, counts.decided) == (80, 480)


def test_it_moves_up_if_that_pays_with_what_the_switch_costs():
    router = Router(2, prices=[1, 20], error_cost=100)
    router.warm_start([[0, 0]] * 50)
    assert [router.decide(conversation=1).answer for _ in range(2)] == [0, 0]
    router.warm_start([[0, 1]] * 100)  # now they differ in two thirds: the dear one gains 47 a request
    assert router.settled() == 1
    stayed = router.decide(conversation=1, switching=[0, 8 * 48])
    assert (stayed.turn, stayed.answer) == ("same", 0)
    moved = router.decide(conversation=1, switching=[0, 8 * 46])
    assert (moved.turn, moved.answer) == ("up", 1)
    router.warm_start([[0, 0]] * 5000)
    assert router.settled() == 0
    assert router.decide(conversation=1).answer == 1  # never down
    assert router.decide(conversation=2).answer == 0
    assert router.core.counts.moved == 1


@pytest.mark.parametrize("kind", KINDS)
def test_they_survive_a_restart_with_and_without_a_snapshot(tmp_path, kind):
    path = tmp_path / "router"
    with Router.open(path, 2, prices=[1, 20], every=1000, **KINDS[kind]) as router:
        talk(router, 30)
        last = router.decide(conversation="c29").answer
        state = router.state()
    for delete in (False, True):
        if delete:
            with closing(sqlite3.connect(path)) as store, store:
                store.execute("delete from snapshot")
        with Router.open(path, 2) as router:
            again = router.state()
            assert again["conversations"] == state["conversations"]
            assert (again["counts"], again["core"]["fields"]) == (state["counts"], state["core"]["fields"])
    with Router.open(path, 2) as router:
        told = router.decide(conversation="c29")
        assert told.turn in ("same", "up")
        assert told.answer >= last


def test_memory_is_bounded_and_forgets(monkeypatch):
    monkeypatch.setattr(talks, "MOST", 3)
    known = Talks()
    for k in range(3):
        known.keep(Turn(str(k), 0), k)
    known.keep(Turn("0", 0), 0)  # used again: now the least recent is 1
    known.keep(Turn("3", 0), 2)

    def held(key, at=0):
        return known.look_up(Turn(str(key), at, 10)).held

    assert [held(k) for k in range(4)] == [0, None, 2, 2]
    assert (held(0, 10), held(0, 11)) == (0, None)


def test_a_key_is_forgotten_after_its_time(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("weakfeedback.live.router.time.time", lambda: now[0])
    router = Router(2, prices=[1, 20], error_cost=100)
    router.conversation_ttl = 60.0
    assert [router.decide(conversation="a").turn for _ in range(2)] == ["first", "same"]
    now[0] += 60
    assert router.decide(conversation="a").turn == "same"
    now[0] += 61
    assert router.decide(conversation="a").turn == "first"


def test_the_money_stays_within_the_bound_whatever_the_models_answer():
    """P1, turn by turn, with conversations of every length and answers that change their ways."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        kind = ("plain", "looks", "context")[seed % 3]
        router = Router(3, prices=np.sort(rng.uniform(1, 30, 3)), **KINDS[kind])
        for _ in range(600):
            told = router.decide(conversation=int(rng.integers(60)) if rng.random() < 0.8 else None)
            if len(told.call) > 1:
                router.feedback(told.id, (rng.random(len(told.call)) < rng.random()).tolist())
            report = router.report()
            assert report.spent <= report.bound + 1e-6


def test_with_a_promise_turns_that_only_the_reference_can_answer_earn_no_tokens():
    router = Router(2, prices=[1, 20], agree=0.9, seed=0)
    first = router.decide(conversation="a")  # learning: the reference answers
    assert first.answer == 1
    earned = router.policy.earned.copy()
    assert [router.decide(conversation="a").answer for _ in range(5)] == [1] * 5
    assert np.array_equal(router.policy.earned, earned)
    assert router.report().requests == 6
    assert router.report().spent == router.core.counts.spent


@pytest.mark.slow
def test_the_promise_holds_turn_by_turn():
    """Shares that differ, on average over 40 runs of 150 conversations of 8 turns; one answer in ten differs."""
    shares = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        router = Router(2, prices=[1, 20], agree=0.95, seed=seed, memory=64)
        wrong = 0
        for number in range(150):
            for _ in range(8):
                told, differs = router.decide(conversation=number), rng.random() < 0.1
                if len(told.call) > 1:
                    router.feedback(told.id, [differs, False])
                wrong += differs and told.answer == 0
        shares.append(wrong / 1200)
    assert 0.0 < np.mean(shares) <= 0.05


def test_a_model_that_is_removed_moves_its_conversations_up():
    router = Router(3, prices=[1, 5, 20], error_cost=100)
    router.warm_start([[0, 0, 0]] * 100)
    assert router.decide(conversation="a").answer == 0
    router.remove_model(0)
    assert router.decide(conversation="a").answer == 0  # what was 1
    assert router.decide(conversation="a").turn == "same"


def test_a_conversation_can_go_on_with_the_model_that_answered():
    router = Router(2, prices=[1, 20], error_cost=100)
    router.warm_start([[0, 0]] * 100)
    assert router.decide(conversation="a").answer == 0
    router.move_conversation("a", 1)
    assert router.decide(conversation="a").answer == 1


def test_bad_input_has_one_line():
    router = Router(2, prices=[1, 20], error_cost=100, context=["task"])
    for more, words in (
        ({"conversation": 1.5}, "a text or an integer"),
        ({"conversation": "x" * 2000}, "at most 1000"),
        ({"switching": [1, 2]}, "goes with conversation"),
        ({"conversation": "a", "switching": [1]}, "2 numbers"),
        ({"conversation": "a", "prices": [2, 1]}, "sorted"),
    ):
        with pytest.raises(ValueError, match=words):
            router.decide(**more)
    with pytest.raises(Refused, match="must go down"):
        Router(2, prices=[1, 20], budget=5.0).decide(conversation="a")


@pytest.mark.slow
def test_never_above_95_percent_of_the_dear_model_in_the_table_of_conversations():
    """The router knows how often models differ in hard and easy turns; request by request it can cost more than one."""
    ways = {
        (cell, stay, way): played(*cell, stay, way, count=800)
        for cell in CELLS
        for stay in (1.0, 0.9, 0.5)
        for way in ("talk", "blind")
    }
    assert max(share for (_, _, way), share in ways.items() if way == "talk") <= 0.95
    assert max(share for (_, _, way), share in ways.items() if way == "blind") > 1.1


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "stay"), [(CELLS[0], 0.9), (CELLS[1], 0.5), (CELLS[2], 0.5)])
def test_with_trust_in_the_last_model_it_learns_that_from_comparisons(cell, stay):
    """Nothing is known before, all comparisons are paid; without trust it may settle on the cheap model."""
    assert played(*cell, stay, "talk", count=1500, known=False, trust="last") <= 0.95
