"""A live router with second looks: late answers are learned for their own round, also after a restart."""

import sqlite3
from contextlib import closing

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


# -- with context

KNOWN = {"prices": [2, 20], "error_cost": 100, "context": ["task", "tenant"]}


def told(t):
    """A request: one of two tasks, tenants that never end, and now and then nothing."""
    return [{"task": "easy", "tenant": t}, {"task": "hard"}, {}, None][t % 4 if t % 7 else 3]


def play(routers, start, rounds, waiting):
    """The same requests for all routers; hard ones differ in half of the cases, answers come 5 rounds late."""
    for t in range(start, start + rounds):
        sizes = [1.0, 10.0 + t % 3 * 10.0] if t % 5 == 0 else None
        made = {router.decide(context=told(t), prices=sizes).call for router in routers}
        assert len(made) == 1
        ids = [router._core.ledger.next - 1 for router in routers]
        waiting.append((ids, made.pop(), t))
        if len(waiting) > 5:
            ids, call, s = waiting.pop(0)
            if len(call) > 1:
                for router, id in zip(routers, ids):
                    router.feedback(id, [int(s % 8 == 1), 0])


def fields_of(router):
    return {name: np.copy(value) for name, value in vars(router._core.driver.write_back()).items()}


def test_context_is_kept_with_the_decision_in_states_and_journals(tmp_path):
    journal = tmp_path / "router.db"
    plain, waiting = Router(2, **KNOWN), []
    with Router.open(journal, 2, **KNOWN) as opened:
        play([plain, opened], 0, 10, waiting)
        opened.yields([["a", "b"]] * 30, ["b"] * 30)
        plain.yields([["a", "b"]] * 30, ["b"] * 30)
        play([plain, opened], 10, 6, waiting)
    plain.save(tmp_path / "state")
    loaded = Router.load(tmp_path / "state", 2)
    with Router.open(journal, 2, **KNOWN) as opened:
        assert opened.pending == plain.pending
        assert plain.pending
        assert same(opened, plain)
        assert same(loaded, plain)
        assert opened._core.counts.labels == loaded._core.counts.labels == plain._core.counts.labels
        waiting = [([ids[0], ids[0], ids[1]], call, t) for ids, call, t in waiting]
        play([plain, loaded, opened], 16, 150, waiting)
        assert same(opened, plain)
        assert same(loaded, plain)
        assert str(opened.report()) == str(plain.report()) == str(loaded.report())
    with pytest.raises(ValueError, match="context"):
        Router.open(journal, 2, **{**KNOWN, "context": ["task"]})


def test_a_journal_is_made_again_from_its_events_alone(tmp_path):
    """Without a snapshot all of it is replayed: groups get the same numbers, and yields come at their place."""
    with Router.open(tmp_path / "router.db", 2, **KNOWN) as router:
        play([router], 0, 120, [])
        router.yields([["a", "b"]] * 30, ["a", "b", "c"] * 10)
        before, labels = fields_of(router), router._core.counts.labels
        spent = router.report().spent
    with closing(sqlite3.connect(tmp_path / "router.db")) as database, database:
        assert database.execute("SELECT count(*) FROM event WHERE kind = 'yields'").fetchone() == (1,)
        database.execute("DELETE FROM snapshot")
    with Router.open(tmp_path / "router.db", 2, **KNOWN) as router:
        after = fields_of(router)
        assert all(np.array_equal(after[name], value) for name, value in before.items())
        assert router._core.counts.labels == labels
        assert router.report().spent == spent


def test_the_money_is_that_of_the_requests_and_stays_within_its_bound():
    router, rng, alone, spent = Router(2, **KNOWN), np.random.default_rng(4), 0.0, 0.0
    for t in range(600):
        prices = (np.array([2.0, 20.0]) * rng.choice([0.1, 1.0, 5.0])).tolist()
        decision = router.decide(context={"task": t % 3}, prices=prices)
        if len(decision.call) > 1:
            router.feedback(decision.id, [int(rng.random() < 0.3), 0])
        alone += prices[1]
        spent += sum(prices[k] for k in decision.call)
    report = router.report()
    assert report.spent == pytest.approx(spent)
    assert report.last_alone == pytest.approx(alone)
    assert report.spent <= report.bound == pytest.approx(1.05 * alone + 50 * 20)
    policy = router._core.driver.policy
    assert policy.paid == pytest.approx(spent / 100)
    assert policy.alone == pytest.approx(alone / 100)


def test_groups_are_answered_and_reported_by_what_was_seen_in_them():
    router = Router(
        [lambda x: x % 4 == 1, lambda x: False], [2, 20], 100, context=["task"], names=["small", "large"]
    )
    contexts = [{"task": "hard" if x % 2 else "easy"} for x in range(2000)]
    answers = router.answers(range(2000), contexts=contexts)
    assert sum(one.model == 0 for one in answers[1000:]) > 400
    assert all(one.model == 1 for one in answers[1001::2])
    found = {one.group: one for one in router.report().groups}
    assert (found["easy"].model, found["hard"].model) == (0, 1)
    assert found["easy"].share == 0.5
    text = str(router.report())
    assert "task easy: 50.0 % of the requests, answered by small" in text
    assert "That context says nothing has a weight of 0.0 %." in text
    assert [one.call for one in router.decide_many(2, contexts=contexts[:2])] == [(0,), (1,)]


def test_yields_change_the_verdict_and_are_compared_as_answers_are():
    router = Router(2, **KNOWN, compare=lambda a, b: str(a).lower() == str(b).lower())
    router.warm_start([[0, 1]] * 30 + [[0, 0]] * 70)
    assert router.settled() == 1
    found = router.yields([["A", "b"], ["a", "A"], ["a", "C"]] * 60, ["B", "x", "a"] * 60, labels=50)
    assert (found.labels[0, 1], found.better[0, 1], found.worse[0, 1]) == (50, 25, 25)
    assert router.settled() == 0
    with pytest.raises(ValueError, match="truth must be 1 labels"):
        router.yields([["a", "b"]], [])
    with pytest.raises(ValueError, match=r"outputs\[0\] must be 2 labels"):
        router.yields([["a"]], ["a"])


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda r: r.decide(context={"tsk": 1}),
            "context must be a table with some of task, tenant, got 'tsk'",
        ),
        (
            lambda r: r.decide(context={"task": 1.5}),
            r"context\['task'\]: group must be a string or an integer",
        ),
        (lambda r: r.decide(context="task"), "context must be a table"),
        (lambda r: r.decide(prices=[3, 2]), "prices must be sorted"),
        (lambda r: r.decide(prices=[3]), "prices must be 2 numbers"),
        (lambda r: r.decide_many(2, contexts=[{}]), "contexts must be 2"),
        (lambda r: r.decide(group="a"), "group is for a promise"),
        (lambda r: Router(2, [1, 2], 3, context="task"), "context must be a list of different names"),
        (lambda r: Router(2, [1, 2], 3, context=["a", "a"]), "context must be a list of different names"),
        (lambda r: Router(2, [1, 2], agree=0.9, context=["a"]), "not with a promise"),
        (lambda r: Router(2, [1, 2], 3, "Fixed-model", context=["a"]), "context goes with the policy"),
        (lambda r: Router(2, [1, 2], 3, context=["a"], features=1), "features must be left out"),
        (lambda r: Router(2, [1, 2], 3, "Second-looks", features=2), "features must be 0"),
        (lambda r: Router(2, [1, 2], 3).decide(context={}), "context is for a router with context"),
        (
            lambda r: Router(2, [1, 2], 3, "Double-Thompson").decide(prices=[1, 2]),
            "prices of a request are not for Double-Thompson",
        ),
        (lambda r: Router(2, [1, 2], 3).yields([[1, 2]], [1]), "yields is for a router with context"),
    ],
)
def test_what_is_refused_changes_nothing(act, message):
    router = Router(2, **KNOWN)
    before = fields_of(router)
    with pytest.raises((ValueError, RuntimeError), match=message) as found:
        act(router)
    assert "\n" not in str(found.value)
    assert all(np.array_equal(value, before[name]) for name, value in fields_of(router).items())
    assert router.rounds == 0


def test_a_damaged_state_is_refused():
    from weakfeedback.live.storage import StateError

    router = Router(2, **KNOWN)
    play([router], 0, 6, [])
    for change in (
        lambda state: state.update(labels=[["a", "a"], []]),
        lambda state: state.update(labels=[[1], []]),
        lambda state: state["core"]["ledger"]["pending"][0][1].update(groups=[99, 0]),
        lambda state: state["core"]["ledger"]["pending"][0][1].pop("own"),
    ):
        state = router.state()
        change(state)
        with pytest.raises(StateError):
            Router.from_state(state)


def test_the_report_shows_yields_with_their_interval_also_after_loading(tmp_path):
    router = Router(2, prices=[1, 20], error_cost=100, context=["task"], names=["small", "large"])
    assert router.report().yields == ()
    router.yields([["a", "b"]] * 40, ["b", "b", "a", "c"] * 10)
    words = "large was right in 20 of 40 labelled disagreements with small, and that one in 10: yield 0.25"
    assert words in str(router.report())
    (one,) = router.report().yields
    assert one.low < 0.25 < one.high
    router.save(tmp_path / "state")
    again = Router.load(tmp_path / "state", 2)
    assert again.report().yields == router.report().yields
    router.add_model(price=5, name="medium")
    assert [known.pair for known in router.report().yields] == [(0, 2)]
