"""The client and the real service: everything it offers, and exactly once through a network that misbehaves (T11)."""

import asyncio
import random

import pytest
from tests.rig.harness import ALLOCATION, CASCADE, CONTEXTUAL, ROUTER
from tests.rig.processes import PATIENCE
from tests.rig.sockets import Chaos, in_thread, listening
from tests.rig.threads import in_threads

from weakfeedback import FeedbackConflict, UnknownDecision
from weakfeedback.client import AsyncClient, Client, Refused, ServiceUnavailable


@pytest.fixture
def service(tmp_path):
    with in_thread(listening(tmp_path / "s.db")) as ((service, address), wait):
        yield service, address, wait


def test_everything_that_a_client_can_ask(service):
    _, address, _ = service
    with Client(address) as client:
        assert client.ready()
        triage = client.create("triage", **CASCADE)
        assert [one["name"] for one in client.learners()] == ["triage"]
        decision = triage.decide()
        assert decision.call == tuple(CASCADE["stages"][: decision.stage + 1])
        outputs = ["spam"] * len(decision.call)
        assert triage.wants_label(decision.id, outputs) is False
        assert triage.feedback(decision.id, outputs) == "accepted"
        assert triage.feedback(decision.id, outputs) == "duplicate"
        with pytest.raises(FeedbackConflict):
            triage.feedback(decision.id, ["ham"] * len(decision.call))
        with pytest.raises(UnknownDecision):
            triage.feedback(999, ["ham"])
        with pytest.raises(Refused, match="outputs must be"):
            triage.feedback(triage.decide().id, ["a"] * 9)
        assert f"Decision {decision.id}: stop at {decision.name}" in triage.explain(decision.id)
        assert triage.decision(decision.id)["status"] == "answered"
        several = triage.decide_many(3)
        told = triage.feedback_many([{"id": one.id, "outputs": ["x"] * len(one.call)} for one in several])
        assert [one["result"] for one in told] == ["accepted"] * 3
        late = triage.decide()
        triage.cancel(late.id, cost=0.5)
        with pytest.raises(UnknownDecision):
            triage.feedback(late.id, ["x"] * len(late.call))
        assert triage.warm_start([["a", "a", "b"], ["a", "a", "a"]]) == 2
        audit = triage.audit([["a", "b", "b"], ["a", "a", "a"]], arm=2)
        labels = dict.fromkeys(audit["rows"], "b")
        assert triage.audit_labels(audit["id"], labels)["verdict"]
        triage.recost([0.002, 0.02, 1.5], 10)
        assert triage.info()["revision"] == 2
        report = triage.report()
        assert report["rounds"] == 4
        assert str(report).startswith("Cascade of 3 stages, USS-WD: 4 rounds learned")
        assert triage.certificate()["verdict"] == "undecided"
        kinds = [event["kind"] for event in triage.events()]
        assert kinds.count("feedback") == 4
        assert kinds[0] == "create"
        last = [event["seq"] for event in triage.events(after=len(kinds) - 2)]
        assert last == [len(kinds) - 1]
        series = triage.series(0, 0)
        results = {
            name: sum(series["columns"][name]) for name in ("accepted", "duplicate", "conflict", "late")
        }
        assert results == {"accepted": 4, "duplicate": 1, "conflict": 1, "late": 1}
        assert sum(series["columns"]["decisions"]) == 6
        assert sum(series["columns"]["wasted"]) == 0.5
        triage.archive()
        with pytest.raises(Refused, match="archived"):
            triage.decide()
        with pytest.raises(Refused, match="no learner"):
            client.learner("nobody").decide()


def test_the_other_kinds(service):
    _, address, _ = service
    with Client(address) as client:
        looks = client.create("looks", **CONTEXTUAL)
        decision = looks.decide([0.2, -0.7])
        assert looks.feedback(decision.id, ["a"] * len(decision.call)) == "accepted"
        patrols = client.create("patrols", **ALLOCATION)
        given = patrols.decide().allocation
        assert sum(given.values()) <= 1.5 + 1e-9
        assert patrols.feedback(1, observed={"north": 1}) == "accepted"
        asks = client.create("asks", **{**CASCADE, "kind": "adaptive"})
        asks.calibrate([["x", "x", "y"], ["x", "x", "x"]], ["y", "x"])
        first = step = asks.begin()
        while step.stage is not None:
            assert step.name == CASCADE["stages"][step.stage]
            last, step = step, asks.tell(step, "x")
        assert step.answer == last.stage
        assert asks.tell(last, "x").repeated  # as after a lost answer
        assert asks.decision(first.id)["status"] == "answered"
        mail = client.create("mail", **ROUTER)
        routed = mail.decide()
        if len(routed.call) > 1:
            assert mail.feedback(routed.id, ["x"] * len(routed.call)) == "accepted"
        assert str(mail.report()).startswith("Router of 2 models")


async def test_coroutines_do_the_same(service):
    _, address, _ = service

    async with AsyncClient(address) as client:
        triage = await client.create("triage", **CASCADE)
        decisions = await asyncio.gather(*(triage.decide() for _ in range(20)))
        assert sorted(one.id for one in decisions) == list(range(1, 21))
        told = await asyncio.gather(*(triage.feedback(one.id, ["x"] * len(one.call)) for one in decisions))
        assert told == ["accepted"] * 20
        assert (await triage.report())["rounds"] == 20
        assert [event["kind"] async for event in triage.events()].count("decide") == 20


def insist(work):
    """Repeat what could not be done, as a program with its own key may."""
    for _ in range(50):
        try:
            return work()
        except ServiceUnavailable:
            pass
    raise AssertionError("never answered")


def play_rounds(address, name, worker, rounds, results):
    dice = random.Random(worker)
    with Client(address, timeout=PATIENCE) as client:
        learner = client.learner(name)
        for n in range(rounds):
            key = f"{worker}-{n}"
            decision = insist(lambda key=key: learner.decide(key=key))
            outputs = [dice.choice("ab") for _ in decision.call]
            told = insist(lambda d=decision, o=outputs: learner.feedback(d.id, o))
            results.append((decision.id, decision.stage, outputs, told))


@pytest.mark.parametrize("rounds", [12, pytest.param(250, marks=pytest.mark.slow)])
def test_exactly_once_through_a_network_that_misbehaves(service, rounds, monkeypatch):
    monkeypatch.setattr("random.uniform", lambda low, high: 0.1)  # wait less
    running, address, wait = service
    with Client(address) as client:
        client.create("triage", **CASCADE)
        chaos = Chaos(int(address.rpartition(":")[2]), seed=3)
        proxy = chaos.running()
        through = wait(proxy.__aenter__())
        try:
            results = [[] for _ in range(8)]
            in_threads(8, lambda k: play_rounds(through, "triage", k, rounds, results[k]))
        finally:
            wait(proxy.__aexit__(None, None, None))
        assert all(chaos.counts.values()), chaos.counts
        played = [one for worker in results for one in worker]
        assert len(played) == 8 * rounds
        triage = client.learner("triage")
        events = list(triage.events())
        # every decision that was asked for was made once, whatever was repeated or doubled on the way
        decided = {event["decision"]: event["body"]["stage"] for event in events if event["kind"] == "decide"}
        assert decided == {id: stage for id, stage, _, _ in played}
        learned = [event for event in events if event["kind"] == "feedback"]
        assert sorted(event["decision"] for event in learned) == sorted(decided)
        assert triage.report()["rounds"] == len(played)
        by_id = {event["decision"]: event["body"]["differ"] for event in learned}
        for id, stage, outputs, told in played:
            pairs = [[i, j] for i in range(stage + 1) for j in range(i + 1, stage + 1)]
            assert by_id[id] == [[i, j] for i, j in pairs if outputs[i] != outputs[j]]
            assert told in ("accepted", "duplicate")
    assert running.learners["triage"].observers["watch"].ends["accepted"] == len(played)


def test_a_client_without_keys_would_be_caught(service, monkeypatch):
    """The test above can fail: without idempotency keys decisions are made twice."""
    monkeypatch.setattr("random.uniform", lambda low, high: 0.1)
    monkeypatch.setattr("weakfeedback.client._key", lambda key: None)
    _, address, wait = service
    with Client(address) as client:
        client.create("triage", **CASCADE)
        proxy = Chaos(int(address.rpartition(":")[2]), seed=4, share=0.6).running()
        through = wait(proxy.__aenter__())
        results = []
        play_rounds(through, "triage", 0, 20, results)
        wait(proxy.__aexit__(None, None, None))
        decided = [event for event in client.learner("triage").events() if event["kind"] == "decide"]
        assert len(decided) > len(results)
