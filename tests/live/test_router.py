"""What the documentation promises of a live router: decisions, feedback, money, saving, the journal."""

import asyncio
import json
import random
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest
from tests.live import inside
from tests.rig.processes import PATIENCE
from tests.rig.threads import in_threads, too_late

from weakfeedback import Costed, FeedbackConflict, JournalError, Router, StateError, UnknownDecision, simulate
from weakfeedback.routing import DoubleThompson, PayToCompare
from weakfeedback.routing.instances import load

MODELS = [lambda x: x % 2, lambda x: x % 3, lambda x: x % 5]
PRICES = [1, 4, 9]


def make(**options):
    return Router(MODELS, PRICES, error_cost=30, seed=1, **options)


def outputs_of(decision):
    """The outputs of a decision, the same on every call; models 0 and 1 mostly agree."""
    rng = np.random.default_rng(decision.id)
    right = int(rng.integers(3))
    return [right if rng.random() < 0.9 else 7 + k for k in decision.call]


def play(router, rounds):
    """Decide and answer at once."""
    decisions = []
    for _ in range(rounds):
        decision = router.decide()
        if len(decision.call) > 1:
            assert router.feedback(decision.id, outputs_of(decision)) == "accepted"
        decisions.append(decision)
    return decisions


def refused(router, id, outputs, error):
    before = router.state()
    with pytest.raises(error):
        router.feedback(id, outputs)
    assert router.state() == before


def test_a_decision_names_the_models_and_who_answers():
    router = make()
    decision = router.decide()
    assert decision.answer == decision.call[-1]
    assert (decision.id, router.rounds, router.comparisons) == (1, 1, 0)
    assert router.pending == ([1] if len(decision.call) > 1 else [])
    assert repr(router) == "<Router of 3 models, Pay-to-compare, 1 round>"


def test_late_reordered_duplicated_and_unknown_feedback():
    router, other = make(), make()
    decisions = [router.decide() for _ in range(60)]
    assert [other.decide() for _ in range(60)] == decisions
    several = [d for d in decisions if len(d.call) > 1]
    assert router.pending == [d.id for d in several]
    random.Random(1).shuffle(several)
    for d in several:
        assert router.feedback(d.id, outputs_of(d)) == "accepted"
        assert router.feedback(d.id, outputs_of(d)) == "duplicate"
        assert other.feedback(d.id, outputs_of(d)) == "accepted"
    assert (router.rounds, router.comparisons, router.pending) == (60, len(several), [])
    assert router.state() == other.state()  # duplicates taught nothing
    assert not np.asarray(router.policy.asked).any()
    d = several[0]
    refused(router, d.id, [90 + k for k in d.call], FeedbackConflict)
    for unknown in (61, 0, -1, 10**30):
        refused(router, unknown, outputs_of(d), UnknownDecision)
    refused(router, "one", [1], ValueError)


def test_the_order_of_feedback_does_not_matter():
    states = []
    for seed in (1, 2):
        router = make()
        several = [d for d in (router.decide() for _ in range(40)) if len(d.call) > 1]
        random.Random(seed).shuffle(several)
        for d in several:
            router.feedback(d.id, outputs_of(d))
        states.append((router.state()["counts"], router.policy.D.tolist(), router.policy.N.tolist()))
    assert states[0] == states[1]


def alone(router):
    """Play until one model is called alone."""
    while True:
        decision = play(router, 1)[0]
        if len(decision.call) == 1:
            return decision


def test_one_model_alone_needs_no_feedback_and_is_not_pending():
    router = make()
    decision = alone(router)
    assert decision.id not in router.pending
    with pytest.raises(UnknownDecision, match="waits for no feedback"):
        router.feedback(decision.id, [1])


def several(router):
    """Play until several models are called, and leave that open."""
    while True:
        decision = router.decide()
        if len(decision.call) > 1:
            return decision


def test_wrong_outputs_are_refused():
    router = make()
    d = several(router)
    refused(router, d.id, [1] * (len(d.call) + 1), ValueError)
    refused(router, d.id, "ab", ValueError)
    refused(router, d.id, [float("nan")] * len(d.call), ValueError)
    assert router.feedback(d.id, [1] * len(d.call)) == "accepted"


def test_cancelling_frees_what_was_asked_and_takes_nothing_back_from_the_money():
    router = make()
    d = several(router)
    spent, t = router.policy.spent, router.policy.t
    assert router.policy.asked.any()
    router.cancel(d.id, cost=2.5)
    assert not router.policy.asked.any()
    assert (router.policy.spent, router.policy.t, router.rounds) == (spent, t, t - 1)
    assert router.report().wasted == 2.5
    refused(router, d.id, outputs_of(d), UnknownDecision)
    with pytest.raises(UnknownDecision):
        router.cancel(d.id)
    single = alone(router)
    rounds = router.rounds
    router.cancel(single.id)
    assert router.rounds == rounds - 1
    with pytest.raises(UnknownDecision):
        router.cancel(single.id)


@pytest.mark.parametrize("answered", [0.0, 0.4, 0.9])
def test_never_more_money_than_the_bound(answered):
    rng = np.random.default_rng(3)
    router = make(least=10**6)
    open_ids = {}
    for t in range(1, 301):
        d = router.decide()
        if len(d.call) > 1:
            open_ids[d.id] = d
        for id in [id for id in open_ids if rng.random() < answered / 3]:
            d = open_ids.pop(id)
            if rng.random() < 0.3:
                router.cancel(id)
            else:
                router.feedback(id, rng.integers(0, 2, size=len(d.call)).tolist())
        report = router.report()
        assert report.spent <= 9 * (1.05 * t + 50) * (1 + 1e-12)
        assert report.bound == pytest.approx(9 * (1.05 * t + 50))
        assert report.spent == pytest.approx(30 * router.policy.spent)


def test_it_decides_as_a_simulation_does():
    problem = load("prices-1-20-150")
    for policy in ("Pay-to-compare", "Double-Thompson"):
        made = {"Pay-to-compare": PayToCompare, "Double-Thompson": DoubleThompson}[policy](problem.prices)
        marks = np.arange(1, 201)
        results = simulate(problem, {"x": made}, horizon=200, replications=1, seed=8, marks=marks)
        calls = np.diff(results.frame[["calls_0", "calls_1", "calls_2"]].to_numpy(), axis=0, prepend=0)
        world = problem.world()
        world_rng, rng = (
            np.random.Generator(np.random.PCG64(np.random.SeedSequence(8, spawn_key=(0, k)))) for k in (0, 1)
        )
        router = Router(3, problem.prices, 1, policy=policy, seed=rng)
        for t in range(200):
            row = world.rows[world.draw(world_rng)]
            d = router.decide()
            assert list(d.call) == np.flatnonzero(calls[t]).tolist(), (policy, t)
            if len(d.call) > 1:
                router.feedback(d.id, [row[k + 1] for k in d.call])


@pytest.mark.parametrize(
    "policy", ["Pay-to-compare", pytest.param("Double-Thompson", marks=pytest.mark.slow)]
)
def test_compiled_and_interpreted_are_the_same_to_the_bit(policy):
    one, other = make(policy=policy), make(policy=policy, compiled=True)
    assert other.compiled
    assert play(one, 80) == play(other, 80)
    for router in (one, other):
        d = several(router)
        router.cancel(d.id)
        router.recost([1, 2, 30], 40)
        router.warm_start([[1, 1, 2], [1, 1, 1]])
    assert play(one, 40) == play(other, 40)
    assert one.state() == other.state()


# -- calls


def test_a_call_learns_and_answers_by_the_dearest_model_called():
    router, several_called = make(), 0
    for x in range(100):
        answer = router(x)
        several_called += len(answer.call) > 1
        assert answer.label == MODELS[answer.model](x)
        assert answer.model == answer.call[-1]
        assert answer.outputs == tuple(MODELS[k](x) for k in answer.call)
        assert answer.cost == sum(PRICES[k] for k in answer.call)
    assert router.rounds == 100
    assert router.pending == []
    assert router.comparisons == several_called > 0


class Broken(Exception):
    pass


def fails(x):
    raise Broken(f"cannot say {x}")


def test_a_failed_comparison_is_cancelled_and_the_answer_stands():
    router = Router([fails, lambda x: x], [1, 9], error_cost=30)
    answer = router(5)
    assert (answer.label, answer.call, answer.outputs) == (5, (0, 1), (None, 5))
    assert isinstance(answer.failed[0], Broken)
    assert (router.pending, router.comparisons, router.rounds) == ([], 0, 0)
    assert router.report().wasted == 9
    assert not router.policy.asked.any()
    assert asyncio.run(router.acall(6)).label == 6


@pytest.mark.parametrize("policy", [{}, {"policy": "Fixed-model", "model": 1}])
def test_a_failing_answer_cancels_the_decision_and_is_raised(policy):
    router = Router([lambda x: x, fails], [1, 9], error_cost=30, **policy)
    with pytest.raises(Broken):
        router(5)
    with pytest.raises(Broken):
        asyncio.run(router.acall(5))
    assert (router.pending, router.comparisons, router.rounds) == ([], 0, 0)


async def test_models_are_awaited_together():
    running, most = 0, 0

    def slow(k):
        async def model(x):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1
            return Costed(x % (k + 2), 0.5)

        return model

    router = Router([slow(0), slow(1), slow(2)], PRICES, error_cost=30)
    with pytest.raises(ValueError, match=r"models\[0\] is asynchronous: use `await router.acall"):
        router(1)

    answers = [await router.acall(x) for x in range(10)]
    assert most == max(len(answer.call) for answer in answers) > 1
    assert all(answer.cost == 0.5 * len(answer.call) for answer in answers)


def test_a_model_that_takes_too_long():
    release = threading.Event()
    models = [lambda x: x, lambda x: release.wait(PATIENCE)]
    router = Router(models, [1, 2], error_cost=30, timeout=0.05)
    assert "models[1] took longer than 0.05 s" in too_late(lambda: router(1), but="models[0]")
    release.set()
    assert router.rounds == 0


def test_models_elsewhere_cannot_be_called():
    router = Router(3, PRICES, error_cost=30)
    with pytest.raises(ValueError, match="the models run elsewhere"):
        router(1)
    with pytest.raises(ValueError, match="the models run elsewhere"):
        asyncio.run(router.acall(1))


def test_eight_threads_lose_nothing():
    router = make()
    in_threads(8, lambda _: play(router, 30))
    assert (router.rounds, router.pending) == (240, [])
    assert router.policy.t == 240
    assert not router.policy.asked.any()
    assert router.report().comparisons == router.comparisons


@pytest.mark.parametrize("method", ["select", "start", "update_pairs", "cancel"])
def test_an_interruption_anywhere_leaves_nothing_half_done(method):
    policy = PayToCompare(np.array(PRICES) / 30)
    router = Router(MODELS, PRICES, error_cost=30, policy=policy)
    play(router, 5)
    d = several(router)
    before, real = router.state(), getattr(policy, method)

    def interrupted(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    inside.replace_method(router, method, interrupted)
    calls = {
        "update_pairs": lambda: router.feedback(d.id, outputs_of(d)),
        "cancel": lambda: router.cancel(d.id),
    }
    with pytest.raises(KeyboardInterrupt):
        calls.get(method, router.decide)()
    inside.bind(router)
    assert router.state() == before
    assert router.feedback(d.id, outputs_of(d)) == "accepted"


# -- other ways to learn, and what is said


def test_warm_start_counts_as_comparisons_and_not_as_rounds():
    router = make()
    assert router.warm_start([[1, 1, 1]] * 60 + [[1, 1, 2]] * 2) == 62
    assert (router.rounds, router.comparisons, router.report().spent) == (0, 0, 0.0)
    assert router.policy.N[0, 1] == 62
    assert router.policy.D[1, 2] == 2
    assert router.settled() == 0
    with pytest.raises(ValueError, match=r"outputs\[0\] must be 3 labels"):
        router.warm_start([[1, 1]])


def test_recost_keeps_what_was_seen_and_begins_a_new_bound():
    router = make()
    play(router, 50)
    seen, bound = router.policy.N.copy(), router.report().bound
    router.recost([1, 2, 3], 300)
    assert (seen == router.policy.N).all()
    assert router.policy.c == pytest.approx([1 / 300, 2 / 300, 3 / 300])
    assert router.report().bound == pytest.approx(bound + 50 * 3)
    play(router, 30)
    report = router.report()
    assert report.spent <= report.bound
    assert report.last_alone == pytest.approx(50 * 9 + 30 * 3)
    with pytest.raises(ValueError, match="prices must be sorted"):
        router.recost([3, 2, 1], 300)
    with pytest.raises(ValueError, match="prices must be 3 numbers, one per model, got 2"):
        router.recost([1, 2], 300)


def test_the_report_says_it_in_numbers_and_words():
    router = make()
    assert "never compared" in str(router.report())
    play(router, 200)
    report = router.report()
    assert report.rounds == sum(report.answers) == 200
    assert report.spent == sum(n * price for n, price in zip(report.calls, PRICES))
    assert report.saved_alone == 200 * 9 - report.spent
    assert report.compared_share == router.comparisons / 200
    assert report.settled == router.settled()
    text = str(report)
    assert f"settled on model {report.settled}" in text
    assert "whatever the models answer" in text
    assert "always calling the last model" in text
    assert ("saved" if report.saved_alone >= 0 else "lost") in text
    found = json.loads(json.dumps(report.to_dict()))
    assert found["disagreement"][0][0] == 0.0
    assert len(found["guarantees"]) == 2
    plain = make(policy="Double-Thompson").report()
    assert plain.to_dict()["bound"] is None
    assert "No bound" in plain.guarantees[0]


def test_decisions_are_explained_in_money():
    router = make()
    first = router.decide()
    text = router.explain(first.id)
    assert f"answered by model {first.answer}" in text
    assert "over the next 1000 requests" in text
    assert "0 comparisons of the pair cost 0." in text
    play(router, 30)
    assert "differed" in router.explain(25)
    with pytest.raises(UnknownDecision, match="cannot be explained"):
        router.explain(99)
    last = play(router, 1200)[-1]
    assert "alone" in router.explain(last.id) or len(last.call) > 1
    with pytest.raises(UnknownDecision):
        router.explain(first.id)
    for bad in (None, "x", 1.5, -1):
        with pytest.raises(ValueError, match="id must be an integer"):
            router.explain(bad)


def test_answers_that_are_numbers_are_compared_by_a_metric():
    metric = lambda a, b: min(abs(a - b), 1.0)  # noqa: E731
    one = Router(2, [1, 9], error_cost=30, seed=4, metric=metric)
    other = Router(2, [1, 9], error_cost=30, seed=4, metric=metric)
    for _ in range(30):
        d, e = one.decide(), other.decide()
        assert d == e
        if len(d.call) > 1:
            one.feedback(d.id, [0.1, 0.5])
            other.feedback_pairs(d.id, (), far=[0.4])
    assert one.policy.D.tolist() == other.policy.D.tolist()
    assert 0 < one.policy.D[0, 1] < one.policy.N[0, 1]
    with pytest.raises(ValueError, match="tolerance"):
        make(compare=np.isclose)


def test_pairs_teach_what_outputs_teach():
    one, other = make(), make()
    for _ in range(40):
        d = one.decide()
        assert other.decide() == d
        if len(d.call) > 1:
            given = outputs_of(d)
            one.feedback(d.id, given)
            pairs = [
                (i, j)
                for a, i in enumerate(d.call)
                for b, j in enumerate(d.call)
                if a < b and given[a] != given[b]
            ]
            assert other.feedback_pairs(d.id, pairs) == "accepted"
            assert other.feedback_pairs(d.id, pairs) == "duplicate"
    assert one.state()["counts"] == other.state()["counts"]
    d = several(other)
    for wrong in ([(1, 0)], [(0, 3)], [(0, 0)], [0], [(0, 1.5)]):
        with pytest.raises(ValueError, match="differ must be"):
            other.feedback_pairs(d.id, wrong)


# -- saving and the journal


@pytest.mark.parametrize("policy", ["Pay-to-compare", "Double-Thompson", PayToCompare(np.array(PRICES) / 30)])
def test_what_is_loaded_decides_as_if_it_had_never_stopped(tmp_path, policy):
    router = make(policy=policy)
    play(router, 40)
    d, single = several(router), alone(make())
    router.save(tmp_path / "r.json")
    loaded, copied = Router.load(tmp_path / "r.json", MODELS), Router.from_state(router.state())
    for other in (loaded, copied):
        assert other.state() == router.state()
        assert other.feedback(d.id, outputs_of(d)) == "accepted"
    router.feedback(d.id, outputs_of(d))
    expected = play(router, 60)
    assert play(loaded, 60) == expected == play(copied, 60)
    assert loaded.state() == router.state()
    assert single.call


def test_states_that_contradict_themselves_are_refused():
    router = make()
    play(router, 20)
    for change in (
        lambda s: s["counts"].update(learned=99),
        lambda s: s["counts"].update(spent=-1.0),
        lambda s: s["alone"].append([10**6, 0]),
        lambda s: s["alone"].append("x"),
        lambda s: s["core"]["ledger"]["pending"].append([20, [1]]),
        lambda s: s["counts"].pop("asked"),
        lambda s: s.pop("alone"),
    ):
        state = router.state()
        change(state)
        with pytest.raises(StateError):
            Router.from_state(state)
    with pytest.raises(ValueError, match="models must be 3, as the state holds, got 2"):
        Router.from_state(router.state(), 2)
    with pytest.raises(ValueError, match="compare must be given if and only if it was"):
        Router.from_state(router.state(), compare=lambda a, b: a == b)


def opened(path, **options):
    return Router.open(path, MODELS, PRICES, error_cost=30, seed=1, **options)


def killed(router, path, tmp_path):
    """The files as they are now, as a process that is killed leaves them."""
    copy = tmp_path / f"copy-{router.rounds}.db"
    for end in ("", "-wal"):
        if (path.parent / (path.name + end)).exists():
            shutil.copy(str(path) + end, str(copy) + end)
    return copy


@pytest.mark.parametrize("policy", ["Pay-to-compare", "Double-Thompson"])
def test_a_journal_recovers_all_that_anybody_was_told(tmp_path, policy):
    path = tmp_path / "router.db"
    router, twin = opened(path, policy=policy), make(policy=policy)
    for thing in (router, twin):
        play(thing, 30)
        open_one, gone = several(thing), several(thing)
        thing.cancel(gone.id, 1.5)
        thing.cancel(alone(thing).id)
        thing.warm_start([[1, 1, 2], [1, 1, 1]])
        thing.recost([1, 3, 8], 25)
        play(thing, 10)
    copy = killed(router, path, tmp_path)
    with Router.open(copy, MODELS) as found:
        assert found.pending == [open_one.id]
        assert learned(found) == learned(router) == learned(twin)
        assert found.feedback(open_one.id, outputs_of(open_one)) == "accepted"
        assert found.feedback(open_one.id, outputs_of(open_one)) == "duplicate"
        twin.feedback(open_one.id, outputs_of(open_one))
        assert choices(found, 30) == choices(twin, 30)
    with Router.open(copy, MODELS) as again:  # by its snapshot
        assert again.rounds == twin.rounds
        assert again.feedback(open_one.id, outputs_of(open_one)) == "duplicate"
        with pytest.raises(FeedbackConflict):
            again.feedback(open_one.id, [8] * len(open_one.call))
        assert choices(again, 10) == choices(twin, 10)
    router.close()


def learned(router):
    found = router.state()
    for name in ("answered", "remember", "floor", "runs", "next"):  # a copy skips ids
        del found["core"]["ledger"][name]
    return found


def choices(router, rounds):
    """Decide and answer whatever the ids, of which a copy skips some; return what was decided."""
    found = []
    for number in range(rounds):
        decision = router.decide()
        if len(decision.call) > 1:
            router.feedback(decision.id, outputs_of(replace(decision, id=number)))
        found.append((decision.call, decision.answer))
    return found


def test_events_are_those_of_the_specification(tmp_path):
    with opened(tmp_path / "router.db") as router:
        decisions = play(router, 20)
        events = list(inside.journal(router).store.events(inside.journal(router).learner))
    decided = [event.body for event in events if event.kind == "decide"]
    assert decided == [{"call": list(d.call), "answer": d.answer} for d in decisions]
    answered = [event for event in events if event.kind == "feedback"]
    assert [event.decision for event in answered] == [d.id for d in decisions if len(d.call) > 1]
    assert all(set(event.body) == {"differ", "digest"} for event in answered)


def test_other_prices_at_opening_are_a_recost(tmp_path):
    path = tmp_path / "router.db"
    with opened(path) as router:
        play(router, 20)
    with Router.open(path, MODELS, [1, 2, 3], error_cost=30) as router:
        assert router.policy.c == pytest.approx([1 / 30, 2 / 30, 3 / 30])
        play(router, 5)
    with Router.open(path, MODELS) as router:
        assert router.policy.c == pytest.approx([1 / 30, 2 / 30, 3 / 30])
        assert router.rounds == 25
    with pytest.raises(ValueError, match="rho must be"):
        Router.open(path, MODELS, rho=0.5)


def test_a_journal_of_coins_gives_the_same_coins(tmp_path):
    metric = lambda a, b: min(abs(a - b), 1.0)  # noqa: E731
    path = tmp_path / "router.db"
    router = Router.open(path, 2, [1, 9], error_cost=30, seed=4, metric=metric)
    for _ in range(20):
        d = router.decide()
        if len(d.call) > 1:
            router.feedback(d.id, [0.1, 0.5])
    router.warm_start([[0.0, 0.5], [0.3, 0.4]])
    with Router.open(killed(router, path, tmp_path), 2, metric=metric) as found:
        assert learned(found) == learned(router)
    router.close()


def test_a_decision_that_another_version_would_not_make_stands_with_a_warning(tmp_path, monkeypatch):
    path = tmp_path / "router.db"
    router = opened(path)
    d = play(router, 8)
    copy = killed(router, path, tmp_path)
    router.close()

    def last_only(self, rng):
        call = np.zeros(self.K, dtype=np.bool_)
        call[-1] = True
        return call

    monkeypatch.setattr(PayToCompare, "select", last_only)
    with pytest.raises(JournalError, match="the journal or the code was changed"):
        Router.open(copy, MODELS)
    monkeypatch.setattr("weakfeedback.journal.recover.__version__", "another")
    with pytest.warns(UserWarning, match="the logged one stands"):
        found = Router.open(copy, MODELS)
    with found:
        assert found.rounds == 8
        assert found.comparisons == sum(len(one.call) > 1 for one in d)
        assert found.pending == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((MODELS, [9, 4, 1]), "prices must be sorted"),
        ((MODELS, [1, 4]), "prices must be 3 numbers, one per model, got 2"),
        ((MODELS, PRICES, 0), "error_cost must be"),
        (([], []), "models must be a list of at least one"),
        (([1, 2], [1, 2]), r"models\[0\] must be a callable"),
        ((MODELS, PRICES, 1.0, "Pay-to-compar"), "did you mean Pay-to-compare"),
        ((MODELS, PRICES, 1.0, PayToCompare([0.1, 0.2, 0.3])), "policy must be made for prices"),
        ((MODELS, PRICES, 1.0, PayToCompare([0.1, 0.2])), "policy must be made for prices"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as found:
        Router(*arguments)
    assert "\n" not in str(found.value)
