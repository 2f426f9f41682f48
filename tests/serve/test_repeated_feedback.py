"""Feedback counts once, however often it is sent, by whom, and whatever happens to the connections."""

import asyncio
import random
import threading
from typing import Any

import pytest
from tests.journal.stores import PLACES, place_of
from tests.rig.harness import CASCADE, serving
from tests.rig.processes import PATIENCE

from weakfeedback.serve import learner as learner_module

CLIENTS, EACH = 50, 5


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("name", PLACES)
async def test_fifty_clients_send_each_feedback_three_times(name, heavy, request, monkeypatch):
    """Requests are cancelled at random, as when connections are cut; who hears nothing sends again.

    A heavy learner takes its steps in threads, which nobody can cancel.
    """
    monkeypatch.setattr(learner_module, "HEAVY", -1.0 if heavy else 1e9)
    monkeypatch.setattr(learner_module, "UNKNOWN", 0)
    luck = random.Random(1)

    async def cut(work: Any) -> Any:
        task = asyncio.ensure_future(work)
        if luck.random() < 0.3:
            await asyncio.sleep(luck.random() * 0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return None
        return await task

    async def client(call: Any, number: int, seen: list[Any]) -> None:
        for n in range(EACH):
            key = f"{number}-{n}"
            decided = None
            while decided is None:
                reply = await cut(call("POST", "/v1/learners/t/decide", {}, idempotency_key=key))
                decided = reply and reply.data
            outputs = [luck.randrange(2) for _ in range(decided["stage"] + 1)]
            place = f"/v1/learners/t/decisions/{decided['id']}/feedback"
            results = []
            while len(results) < 3:
                reply = await cut(call("POST", place, {"outputs": outputs}))
                if reply is not None:
                    assert reply.status == 200, reply.data
                    results.append(reply.data["result"])
            assert results[1:] == ["duplicate", "duplicate"]
            seen.append((decided["id"], decided["stage"], outputs))

    async def turns() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def slow(store: Any) -> Any:
        """On a fast disk few would wait for the same commit: a write takes some turns of the loop."""
        write = store.write

        def later(*arguments: Any, **named: Any) -> None:
            asyncio.run_coroutine_threadsafe(turns(), loops[0]).result(PATIENCE)
            write(*arguments, **named)

        store.write = later
        return store

    loops = list[asyncio.AbstractEventLoop]()

    loops.append(asyncio.get_running_loop())
    async with serving(place_of(request, name).address, wrap=slow) as (service, call):
        await call("PUT", "/v1/learners/t", CASCADE)
        seen: list[Any] = []
        await asyncio.gather(*(client(call, number, seen) for number in range(CLIENTS)))
        report = (await call("GET", "/v1/learners/t/report")).data
        commits = service.commits
    total = CLIENTS * EACH
    assert sorted(id for id, _, _ in seen) == list(range(1, total + 1))
    assert report["rounds"] == total
    assert report["pending"] == 0
    assert report["seq"] == 2 * total  # a decision and a feedback each, after the making
    differed = sum(outputs[0] != outputs[1] for _, stage, outputs in seen if stage >= 1)
    compared = sum(stage >= 1 for _, stage, _ in seen)
    pair = report["disagreement"][0]
    assert pair["comparisons"] == compared
    assert round(pair["share"] * compared) == differed
    assert heavy or commits < total  # who waits together is written together


async def test_a_batch_is_refused_item_by_item_and_stored_at_once(tmp_path):
    async with serving(tmp_path / "s.db") as (service, call):
        await call("PUT", "/v1/learners/t", CASCADE)
        made = (await call("POST", "/v1/learners/t/decide", {"count": 3})).data["decisions"]
        assert [one["id"] for one in made] == [1, 2, 3]
        before = service.commits
        items = [{"id": one["id"], "outputs": [1] * (one["stage"] + 1)} for one in made]
        items += [items[0], {"id": 9, "outputs": [1]}, {"id": 1, "outputs": [2]}]
        results = (await call("POST", "/v1/learners/t/feedback", {"items": items})).data["results"]
        told = [one.get("result") or one["code"] for one in results]
        assert told == ["accepted"] * 3 + ["duplicate", "unknown_decision", "conflict"]
        assert service.commits - before <= 3
        many = {"items": [{"id": 1, "outputs": [1]}] * 1001}
        refused = await call("POST", "/v1/learners/t/feedback", many)
        assert (refused.status, refused.data["code"]) == (422, "too_many_items")


async def test_a_repetition_waits_for_a_thread_that_learns_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(learner_module, "HEAVY", -1.0)

    async with serving(tmp_path / "s.db") as (service, call):
        await call("PUT", "/v1/learners/t", CASCADE)
        made = (await call("POST", "/v1/learners/t/decide", {})).data
        learner, go = service.learners["t"], threading.Event()
        settle = learner._settle

        def slowly() -> Any:
            assert go.wait(PATIENCE)
            return settle()

        monkeypatch.setattr(learner, "_settle", slowly)
        sent = {"outputs": [1] * (made["stage"] + 1)}
        path = "/v1/learners/t/decisions/1/feedback"
        first = asyncio.create_task(call("POST", path, sent))
        while 1 in learner.live.core.ledger.waiting:
            await asyncio.sleep(0.001)
        second = asyncio.create_task(call("POST", path, sent))
        await asyncio.sleep(0.05)
        go.set()
        assert [(await one).data.get("result") for one in (first, second)] == ["accepted", "duplicate"]
