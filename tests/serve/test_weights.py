"""Requests that take long: they are refused from their size, or run in a thread, and the loop goes on."""

import asyncio
import random
import threading
import time
from typing import Any

import orjson
import pytest
from tests.rig.harness import CASCADE, CONTEXTUAL, quick, run, serving
from tests.rig.pace import pace
from tests.rig.processes import PATIENCE, until

from weakfeedback.journal import open_store, sql
from weakfeedback.serve import learner as learner_module
from weakfeedback.serve.activity import Activity
from weakfeedback.serve.app import PIECE, encoded
from weakfeedback.serve.learner import HEAVY, UNKNOWN, Learner, Weight
from weakfeedback.serve.limits import CONTEXT_LIMIT, PAIRS_LIMIT

LOOP = 0.1  # seconds of the loop's time that one request may take
MANY = {
    "stages": [f"s{n}" for n in range(64)],
    "stage_costs": [1.0 + n for n in range(64)],
    "error_cost": 5e3,
}


@pytest.mark.parametrize("numbers", [CONTEXT_LIMIT + 1, 4_000, 20_000])
async def test_a_long_context_is_refused_from_its_length(tmp_path, numbers):
    """The features of all pairs were built first: 4,000 numbers stopped the service for seconds."""
    async with serving(tmp_path / "s.db") as (_, call):
        await call("PUT", "/v1/learners/t", CONTEXTUAL)
        began = time.thread_time()
        for body in ({"context": [0.5] * numbers}, {"contexts": [[0.5], [0.5] * numbers]}):
            reply = await call("POST", "/v1/learners/t/decide", body)
            assert (reply.status, reply.data["code"]) == (422, "invalid")
        rows = {"outputs": [[1, 1]], "contexts": [[0.5] * numbers]}
        assert (await call("POST", "/v1/learners/t/warm-start", rows)).status == 422
        assert time.thread_time() - began < LOOP * pace()
        assert (await call("POST", "/v1/learners/t/decide", {"context": [0.5, 0.5]})).status == 200


async def test_what_does_not_fit_into_memory_is_refused(tmp_path):
    async with serving(tmp_path / "s.db") as (_, call):
        reply = await call("PUT", "/v1/learners/t", {"kind": "contextual", **MANY})
        assert (reply.status, reply.data["code"]) == (422, "too_many_stages")
        await call("PUT", "/v1/learners/t", CONTEXTUAL)
        await call("PUT", "/v1/learners/u", {**CONTEXTUAL, "keep": 1_000_000})
        for name, numbers in (("t", CONTEXT_LIMIT), ("u", 20)):
            reply = await call("POST", f"/v1/learners/{name}/decide", {"context": [0.5] * numbers})
            assert (reply.status, reply.data["code"]) == (422, "wrong_context")
        await call("PUT", "/v1/learners/c", CASCADE)
        rows = {"outputs": [[1, 1, 1]] * (PAIRS_LIMIT // 3 + 1)}
        reply = await call("POST", "/v1/learners/c/warm-start", rows)
        assert (reply.status, reply.data["code"]) == (422, "too_many_items")


async def test_steps_of_unknown_weight_run_in_a_thread(tmp_path, monkeypatch):
    """From their first time; then only if they are expected to take long, as many decisions at once are."""
    decide, threads = Learner.decide, []

    def noted(learner: Learner, contexts: Any, key: Any = None) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return decide(learner, contexts, key)

    monkeypatch.setattr(Learner, "decide", noted)
    noted.__name__ = "decide"

    async with serving(tmp_path / "s.db") as (service, call):
        await call("PUT", "/v1/learners/t", CASCADE)
        for _ in range(UNKNOWN):
            await call("POST", "/v1/learners/t/decide", {})
        assert threads == [False] * UNKNOWN
        threads.clear()
        service.learners["t"].weights["decide"].seconds = HEAVY / 10
        await call("POST", "/v1/learners/t/decide", {})
        await call("POST", "/v1/learners/t/decide", {"count": 9})
        await call("POST", "/v1/learners/t/decide", {"count": 1000})
        assert threads == [True, True, False]


async def test_others_decide_while_policies_are_compiled(tmp_path, monkeypatch):
    """Two that were compiled kept both threads: the first decisions of a new store took 35 seconds."""
    begun, go = threading.Event(), threading.Event()

    def compiled(learner: Learner) -> Any:
        begun.set()
        assert go.wait(PATIENCE)
        raise ValueError("cannot be compiled")

    monkeypatch.setattr(Learner, "compiled", compiled)
    async with serving(tmp_path / "s.db", quick(compiled=True)) as (_, call):
        names = [f"t{k}" for k in range(5)]
        for name in names:
            assert (await call("PUT", f"/v1/learners/{name}", CASCADE)).status == 201
        await until(begun.is_set)
        try:
            for name in names:
                decided = call("POST", f"/v1/learners/{name}/decide", {})
                assert (await asyncio.wait_for(decided, 30.0)).status == 200
        finally:
            go.set()


async def test_the_page_counts_a_warm_start_in_the_thread_of_its_step(tmp_path, monkeypatch):
    """Whoever looks meanwhile does not wait: the loop stood still for 100,000 comparisons."""
    see, threads, begun, go = Activity.see, [], threading.Event(), threading.Event()

    def noted(watch: Activity, event: Any) -> None:
        if event.kind == "warm":
            begun.set()
            threads.append((threading.current_thread() is threading.main_thread(), go.wait(5.0)))
        see(watch, event)

    monkeypatch.setattr(Activity, "see", noted)
    async with serving(tmp_path / "s.db") as (service, call):
        await call("PUT", "/v1/learners/t", CASCADE)
        body = {"outputs": [[1, 1, 1]] * 10}
        warm = asyncio.ensure_future(call("POST", "/v1/learners/t/warm-start", body))
        await until(begun.is_set)
        watch: Any = service.learners["t"].observers["watch"]
        assert watch.differed == {}
        assert (await call("GET", "/metrics")).status == 200
        go.set()
        assert (await warm).status == 200
        assert threads == [(False, True)]
        assert watch.differed[0, 1] == [10, 0]


async def test_others_are_served_while_a_snapshot_is_taken(tmp_path, monkeypatch):
    """After seven days of minutes it stopped the loop for 0.04 to 0.2 seconds every 10,000 events."""
    monkeypatch.setattr(learner_module, "SNAPSHOT", 10)
    begun, go, texts = threading.Event(), threading.Event(), []
    picture, text = Learner.picture, sql.json_text_in_pieces

    def slow(learner: Learner) -> Any:
        begun.set()
        assert go.wait(20.0)
        return picture(learner)

    def noted(body: Any) -> str:
        texts.append(threading.current_thread().name.startswith("weakfeedback step"))
        return text(body)

    async with serving(tmp_path / "s.db") as (service, call):
        for name in ("t", "other"):
            await call("PUT", f"/v1/learners/{name}", CASCADE)
        learner = service.learners["t"]
        learner.weights["decide"] = Weight()
        learner.weights["decide"].steps = UNKNOWN  # light: its steps run in the loop
        monkeypatch.setattr(Learner, "picture", slow)
        monkeypatch.setattr(sql, "json_text_in_pieces", noted)
        for _ in range(9):
            assert (await call("POST", "/v1/learners/t/decide", {})).status == 200
        await until(begun.is_set)
        waits = asyncio.ensure_future(call("POST", "/v1/learners/t/decide", {}))
        assert (await call("POST", "/v1/learners/other/decide", {})).status == 200
        assert not waits.done()
        go.set()
        assert (await waits).data["id"] == 10
        await until(lambda: service.last_snapshot is not None)
        assert texts == [True]
        with open_store(tmp_path / "s.db", read_only=True) as store:
            assert [one.seq for one in store.snapshots(learner.id)] == [9]


async def test_a_snapshot_under_way_is_stored_before_its_learner_moves(tmp_path, monkeypatch):
    monkeypatch.setattr(learner_module, "SNAPSHOT", 10)
    begun, go, text = threading.Event(), threading.Event(), sql.json_text_in_pieces

    def slow(body: Any) -> str:
        begun.set()
        assert go.wait(20.0)
        return text(body)

    async with serving(tmp_path / "s.db") as (service, call):
        await call("PUT", "/v1/learners/t", CASCADE)
        learner = service.learners["t"]
        monkeypatch.setattr(sql, "json_text_in_pieces", slow)
        for _ in range(9):
            assert (await call("POST", "/v1/learners/t/decide", {})).status == 200
        await until(begun.is_set)
        leaves = asyncio.ensure_future(
            service.steps.take_snapshots([learner])
        )  # as before its shard is released
        await asyncio.sleep(0.05)
        assert not leaves.done()
        go.set()
        await leaves
        service.learners.pop("t")
        await until(lambda: service.last_snapshot is not None)
        with open_store(tmp_path / "s.db", read_only=True) as store:
            assert [one.seq for one in store.snapshots(learner.id)] == [9]


def test_the_weight_is_that_of_one_unit():
    weight = Weight()
    for _ in range(UNKNOWN):
        assert weight.is_heavy(1)
        assert weight.is_timed()
        weight.timed(1000 * HEAVY / 100, 1000)
    assert not weight.is_heavy(1)
    assert not weight.is_heavy(99)
    assert weight.is_heavy(102)


async def test_the_largest_requests_leave_the_loop_to_others(tmp_path):
    luck = random.Random(1)

    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", "/v1/learners/many", {"kind": "cascade", **MANY})
        await call("PUT", "/v1/learners/wide", CONTEXTUAL)
        for name, body in (
            ("many", {"count": 1000}),
            ("wide", {"context": [luck.uniform(-1.0, 1.0) for _ in range(60)]}),
            ("wide", {"contexts": [[luck.uniform(-1.0, 1.0) for _ in range(60)] for _ in range(10)]}),
        ):
            began = time.thread_time()
            reply = await call("POST", f"/v1/learners/{name}/decide", body)
            assert reply.status == 200, reply.data
            assert time.thread_time() - began < LOOP * pace()
        made = await call("POST", "/v1/learners/many/decide", {"count": 20})
        items = [
            {"id": one["id"], "outputs": [luck.randrange(3) for _ in one["call"]]}
            for one in made.data["decisions"]
        ]
        began = time.thread_time()
        assert (await call("POST", "/v1/learners/many/feedback", {"items": items})).status == 200
        assert (await call("GET", "/v1/learners/many/report")).status == 200
        assert time.thread_time() - began < LOOP * pace()


@pytest.mark.parametrize("count", [0, 1, PIECE, PIECE + 1, 5 * PIECE + 3])
def test_a_long_answer_is_encoded_in_pieces(count):
    data = {"results": [{"id": n, "differ": [[0, n]], "words": "é"} for n in range(count)]}
    assert run(encoded(data)) == orjson.dumps(data)
    assert run(encoded({**data, "more": 1})) == orjson.dumps({**data, "more": 1})
