"""Models that are added to, removed from or replaced in a running router: what is known of the others stays."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest
from tests.rig.processes import PATIENCE

from weakfeedback import Router
from weakfeedback.datasets.answers import CHAINS, load_answers
from weakfeedback.live.errors import Refused, UnknownDecision
from weakfeedback.routing import PayToCompare, SecondLooks
from weakfeedback.routing.alike import pooled

KINDS = {
    "plain": {"error_cost": 100},
    "context": {"error_cost": 100, "context": ["task"]},
    "promise": {"agree": 0.95, "seed": 3},
}


def above(limit):
    return lambda x: x % 10 > limit


def play(router, rounds, begin=0):
    for x in range(begin, begin + rounds):
        router(x)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_known_of_the_others_stays(kind):
    router = Router([above(2), above(3), above(3)], prices=[1, 5, 20], names=["s", "m", "l"], **KINDS[kind])
    play(router, 600)
    before = router.core.counts
    assert router.add_model(above(4), price=5, name="new") == 2
    after = router.core.counts
    kept = np.ix_([0, 1, 3], [0, 1, 3])
    assert np.array_equal(after.compared[kept], before.compared)
    assert after.compared.sum() == before.compared.sum()
    assert (router.prices, router.rounds) == ([1, 5, 5, 20], 600)
    router.remove_model("s")
    assert np.array_equal(router.core.counts.compared[np.ix_([0, 2], [0, 2])], before.compared[1:, 1:])
    assert router.rounds == 600
    play(router, 300)
    assert router.rounds == 900
    assert "new" in str(router.report()) or kind == "promise"


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_policy_goes_on_as_one_that_never_had_the_model(compiled):
    """Removing a model that was never compared leaves the policy that the others would have made."""
    made = {"error_cost": 100, "policy": "Second-looks", "compiled": compiled}
    router, other = (Router(2, prices=[1, 20], **made) for _ in range(2))
    rows = [[x % 7 == 0, 0] for x in range(300)]
    router.warm_start(rows)
    other.warm_start(rows)
    router.add_model(price=2)
    router.remove_model(1)
    other.recost([1, 20])
    mine, theirs = (vars(one.policy) for one in (router, other))
    for name in ("D", "N", "D1", "N1", "L", "cheap", "low", "w"):
        assert np.array_equal(mine[name], theirs[name]), name
    calls = [(router.decide().call, other.decide().call) for _ in range(50)]
    assert all(one == two for one, two in calls)


def test_open_comparisons_are_cancelled_and_a_period_of_prices_begins():
    router = Router(2, prices=[1, 20], error_cost=100)
    open_one = router.decide()
    assert len(open_one.call) == 2
    allowed = router.core.counts.allowed
    router.add_model(price=30)
    assert router.pending == []
    with pytest.raises(UnknownDecision, match="cancelled"):
        router.feedback(open_one.id, [1, 1])
    assert router.core.counts.allowed == allowed + 30
    assert (router.policy.spent, router.policy.since) == (0.0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_journal_knows_it_with_and_without_a_snapshot(tmp_path, kind):
    path, models = tmp_path / "router", [above(2), above(3)]
    with Router.open(path, models, prices=[1, 20], every=1000, **KINDS[kind]) as router:
        play(router, 120)
        router.add_model(above(4), price=5)
        play(router, 60)
        router.remove_model(0)
        play(router, 60)
        state = router.state()
    with Router.open(path, [above(4), above(3)]) as router:
        assert router.state()["core"]["fields"] == state["core"]["fields"]
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("delete from snapshot")
    with Router.open(path, [above(4), above(3)]) as router:
        again = router.state()
        assert (again["counts"], again["core"]["fields"]) == (state["counts"], state["core"]["fields"])
        play(router, 20)
        assert router.rounds == 260
    with pytest.raises(ValueError, match="models must be 2"):
        Router.open(path, [above(1)])


def test_a_saved_router_counts_answers_of_models_that_are_gone(tmp_path):
    router = Router([above(2), above(3)], prices=[1, 20], error_cost=100)
    play(router, 200)
    router.remove_model(0)
    router.save(tmp_path / "state")
    again = Router.load(tmp_path / "state", [above(3)])
    assert again.rounds == router.rounds == 200
    assert again.core.counts.gone > 0


def test_a_round_under_way_ends_with_the_models_it_was_decided_for():
    entered, go_on = threading.Event(), threading.Event()

    def slow(x):
        entered.set()
        go_on.wait(PATIENCE)
        return "old"

    router = Router([lambda x: "small", slow], prices=[1, 20], error_cost=100)
    found = []
    thread = threading.Thread(target=lambda: found.append(router(0)))
    thread.start()
    entered.wait(PATIENCE)
    router.replace_model(1, lambda x: "new")
    router.remove_model(0)
    go_on.set()
    thread.join(PATIENCE)
    assert (found[0].label, found[0].cost, found[0].outputs) == ("old", 21, ("small", "old"))
    assert router(0).label == "new"
    assert router.comparisons == 0


def test_awaited_and_batched_rounds_use_the_new_models():
    router = Router([above(2), above(3)], prices=[1, 20], error_cost=100)
    router.add_model(lambda x: "dear", price=30)
    router.remove_model(0)
    router.remove_model(0)
    assert asyncio.run(router.acall(1)).label == "dear"
    assert router.predict([1, 2, 3]).tolist() == ["dear"] * 3


def test_bad_input_has_one_line():
    router = Router([above(2), above(3)], prices=[1, 20], error_cost=100)
    named = Router(2, prices=[1, 20], agree=0.95, names=["s", "l"])
    free = Router([above(1), above(2), above(3)], prices=[0, 1, 20], agree=0.95)
    for call, words in (
        (lambda: router.add_model(price=3), "model must be given"),
        (lambda: named.add_model(above(1), price=3, name="x"), "run elsewhere"),
        (lambda: router.add_model(above(1), price=-1), "price"),
        (lambda: router.add_model(above(1), price=3, name="x"), "name must be left out"),
        (lambda: named.add_model(price=3), "name must be given"),
        (lambda: named.add_model(price=3, name="l"), "another"),
        (lambda: router.remove_model(2), "model"),
        (lambda: named.remove_model("x"), "one of s, l"),
        (lambda: named.remove_model("l"), "reference"),
        (lambda: router.replace_model(1, above(1), price="x"), "price"),
        (
            lambda: free.replace_model(2, above(1), price=0),
            r"prices must be above 0 for the reference, model 1, got \[0.0, 0.0, 1.0\]",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert Router.from_state(free.state()).prices == [0, 1, 20]
    router.remove_model(0)
    with pytest.raises(ValueError, match="last model"):
        router.remove_model(0)
    with pytest.raises(Refused, match="cannot be changed"):
        Router(2, prices=[1, 20], policy="Fixed-model", model=1).add_model(price=3)


def test_a_reference_that_is_replaced_drops_its_comparisons_and_keeps_the_tokens():
    router = Router([above(2), above(3)], prices=[1, 20], names=["s", "l"], agree=0.95, seed=0)
    play(router, 500)
    tokens = router.policy.tokens.copy()
    assert router.replace_model("l", above(4), name="xl") == 1
    assert router.policy.comparisons.tolist() == [0, 0]
    assert np.array_equal(router.policy.tokens, tokens)
    assert router.promised.reference == 1


def test_the_money_stays_within_the_bound_of_every_period():
    """P1 with changes at random times, in worlds that are made to be dear."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        policy = (PayToCompare, SecondLooks)[seed % 2](np.sort(rng.uniform(0.01, 0.5, 3)))
        for _ in range(6):
            spent, prices = 0.0, policy.c.copy()
            for t in range(1, int(rng.integers(1, 300))):
                call = policy.select(None)
                policy.start(call, None)
                spent += prices[call].sum()
                if call.sum() > 1:
                    policy.update(call, rng.random(call.sum()) < rng.random(), None)
                assert spent <= prices[-1] * (1.05 * t + 50) + 1e-9
            k = int(rng.integers(policy.K))
            if policy.K > 2 and rng.random() < 0.5:
                kept = [j for j in range(policy.K) if j != k]
                policy = policy.with_models(policy.c[kept], kept)
            else:
                kept = [*range(k), -1, *range(k, policy.K)]
                policy = policy.with_models(np.sort(rng.uniform(0.01, 0.5, len(kept))), kept)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gsm8k-llama", "gsm8k-claude", "mmlu-pro-llama"])
def test_the_next_200_requests_after_a_removal_cost_at_most_2_percent_more(name):
    """Money and errors, recorded answers, 20 runs: a model is removed that is not the settled one."""
    found = load_answers(name)
    outputs, errors = found.outputs, (found.outputs != found.truth[:, None]).mean(axis=0)

    def cost(policy, models, rounds, rng):
        total, prices = 0.0, policy.c.copy()
        for row in rng.integers(len(outputs), size=rounds):
            call = policy.select(None)
            policy.start(call, None)
            called = np.flatnonzero(call)
            if called.size > 1:
                policy.update(call, outputs[row][models][called], None)
            total += prices[called].sum() + errors[models][called[-1]]
        return total / rounds

    for reference in (0.1, 0.3):
        prices = np.array(CHAINS[name].relative(reference))
        everyone = np.arange(prices.size)
        for gone in everyone:
            before, after = [], []
            for seed in range(20):
                rng, policy = np.random.default_rng(seed), PayToCompare(prices)
                cost(policy, everyone, 1800, rng)
                last = cost(policy, everyone, 200, rng)
                if policy.settled() != gone:
                    kept = np.delete(everyone, gone)
                    before.append(last)
                    after.append(cost(policy.with_models(prices[kept], kept), kept, 200, rng))
            if len(before) == 20:
                assert np.mean(after) <= 1.02 * np.mean(before), (reference, gone)


def test_a_new_model_that_fails_is_named_and_others_answer(caplog):
    def down(_):
        raise RuntimeError("down")

    router = Router([down, above(4)], prices=[1, 20], agree=0.9, names=["small", "large"], seed=0)
    assert router(0).label is False
    router.add_model(down, price=0.5, name="tiny")
    router.add_model(down, price=3, name="third")
    assert [router(x).label for x in range(8)] == [above(4)(x) for x in range(8)]
    said = [record.message.split()[0] for record in caplog.records]
    assert sorted(said) == ["small", "third", "tiny"]  # each once


@pytest.mark.parametrize("kind", KINDS)
def test_models_that_have_changed_are_opened_again_with_their_names_or_without(kind, tmp_path):
    path, models = tmp_path / "r.db", {"prices": [1, 20], "names": ["small", "large"]}
    with Router.open(path, 2, every=1000, **models, **KINDS[kind]) as router:
        router.add_model(price=5, name="medium")
    with closing(sqlite3.connect(path)) as store, store:
        store.execute("delete from snapshot")
    with pytest.raises(ValueError, match=r"^models must be 3, as the journal says, got 2$"):
        Router.open(path, 2)
    with Router.open(path) as router:  # models that are left out run elsewhere
        assert "large" not in str(router.report())
        assert router.prices == [1, 5, 20]
    names = ["small", "medium", "large"]
    with Router.open(path, 3, names=names) as router:
        router.remove_model("small")
        assert [name in str(router.report()) for name in names] == [False, kind != "promise", True]


def test_a_reference_is_given_by_its_name_after_models_have_changed(tmp_path):
    path, asked = tmp_path / "r.db", {"agree": 0.9, "reference": "large"}
    with Router.open(path, 2, [1, 20], names=["small", "large"], **asked) as router:
        router.add_model(price=5, name="medium")
    for names in (["small", "medium", "large"], None):
        given = {} if names is None else {"names": names, **asked}
        with Router.open(path, 3, [1, 5, 20], **given) as router:
            assert router.promised.reference == 2


def test_after_a_removal_the_rounds_ahead_begin_again_and_after_an_addition_they_do_not():
    router = Router(3, prices=[1, 5, 20], error_cost=100)
    router.warm_start([[0, 0, 0]] * 100)
    for _ in range(1500):
        router.decide()
    assert router.policy.ahead() == 1501
    router.add_model(price=30)
    assert router.policy.ahead() == 1501
    before = router.state()
    router.remove_model(3)
    assert (router.policy.begun, router.policy.ahead()) == (1500, 1000)
    assert Router.from_state(router.state()).policy.begun == 1500
    # an event from before that was so goes on as it did
    older = Router.from_state(before)
    older.core.alter_anew(
        "models", {"prices": [1, 5, 20], "kept": [0, 1, 2]}, "other models", lambda first: None
    )
    assert (older.policy.begun, older.policy.ahead()) == (0, 1501)
    assert "begun" not in older.state()["core"]["fields"]


def test_comparisons_with_a_removed_model_tell_of_the_others():
    router = Router(3, prices=[1, 5, 20], error_cost=100)
    router.warm_start([[0, 0, 0]] * 200 + [[1, 0, 0]] * 10)
    before, kept = router.state(), [0, 2]
    shown = router.core.counts.compared[np.ix_(kept, kept)]
    plain = router.policy.N[np.ix_(kept, kept)].copy()
    told = pooled(router.policy.D, router.policy.N)
    router.remove_model(1)
    assert [table[0, 1] for table in (router.policy.D, router.policy.N)] == [table[0, 2] for table in told]
    assert np.array_equal(
        router.core.counts.compared, shown
    )  # what is reported are comparisons that were made
    assert Router.from_state(router.state()).policy.N[0, 1] == router.policy.N[0, 1]
    # an event from before that was so goes on as it did
    older = Router.from_state(before)
    body = {"prices": [1, 20], "kept": kept, "anew": True}
    older.core.alter_anew("models", body, "other models", lambda first: None)
    assert np.array_equal(older.policy.N, plain)
    assert router.policy.N[0, 1] > plain[0, 1]
