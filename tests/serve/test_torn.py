"""A step that fails takes nobody else along: amounts, replies, snapshots, and learners that are read again alone."""

import asyncio
import logging
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.rig.harness import (
    ALLOCATION,
    CASCADE,
    CONTEXTUAL,
    ROUTER,
    Caller,
    opener,
    quick,
    replayed,
    serving,
)
from tests.rig.processes import until

import weakfeedback
from weakfeedback.journal.recover import Checked
from weakfeedback.live import Costed
from weakfeedback.serve import learner as learner_module
from weakfeedback.serve import steps as steps_module
from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.limits import AMOUNT_LIMIT, TTL_LIMIT
from weakfeedback.serve.operations import deciding
from weakfeedback.serve.series import LARGEST, Series
from weakfeedback.serve.service import Service
from weakfeedback.serve.verify import check_store

HUGE = 1.7e308
LATER = 1_900_000_000_000_000  # microseconds: in 2030
ADAPTIVE = {**CASCADE, "kind": "adaptive"}
KINDS = {
    "cascade": CASCADE,
    "contextual": CONTEXTUAL,
    "adaptive": ADAPTIVE,
    "router": ROUTER,
    "allocation": ALLOCATION,
}
RUINED = Path(__file__).parent / "ruined.sql"  # made by 0.1.0 before amounts were bounded


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "BACK_OFF", (0.01, 0.02))


async def opened(call: Caller, name: str, kind: str) -> int:
    """A decision that waits."""
    for _ in range(200):
        if kind == "adaptive":
            reply = await call("POST", f"/v1/learners/{name}/begin", {})
        else:
            body = {"context": [0.5]} if kind == "contextual" else {}
            reply = await call("POST", f"/v1/learners/{name}/decide", body)
        assert reply.status == 200, reply.data
        if reply.data["expires"] is not None:
            return int(reply.data["id"])
    raise AssertionError("no decision waits")


@pytest.mark.parametrize("kind", KINDS)
async def test_the_largest_amounts_leave_sums_that_can_be_stored(tmp_path, kind, monkeypatch, caplog):
    """Three cancellations with 1.7e308 made every later snapshot fail, and with it every request."""
    monkeypatch.setattr(learner_module, "SNAPSHOT", 4)

    async with serving(tmp_path / "s.db") as (service, call):
        for name in ("t", "other"):
            assert (await call("PUT", f"/v1/learners/{name}", KINDS[kind])).status == 201
        other = service.learners["other"]
        for cost, status in ((HUGE, 422), (HUGE, 422), (AMOUNT_LIMIT, 200), (AMOUNT_LIMIT, 200)):
            id = await opened(call, "t", kind)
            reply = await call("POST", f"/v1/learners/t/decisions/{id}/cancel", {"cost": cost})
            assert reply.status == status, reply.data
            if status == 422:
                assert reply.data["field"] == "cost"
        for _ in range(12):
            await opened(call, "t", kind)
            await opened(call, "other", kind)
        assert service.learners["other"] is other
        assert service.last_snapshot is not None
        states = {name: one.picture() for name, one in service.learners.items()}
    async with serving(tmp_path / "s.db") as (service, _):
        assert {name: one.picture() for name, one in service.learners.items()} == states
        assert replayed(service, "events") == 0  # every learner had a snapshot at the end
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_a_store_ruined_by_huge_amounts_starts_and_works(tmp_path, monkeypatch, caplog):
    """Written by the version that accepted 1.7e308, with its snapshots due since long; one learner waits for ever."""
    monkeypatch.setattr(learner_module, "SNAPSHOT", 20)
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.executescript(RUINED.read_text())
    database.close()

    async with serving(tmp_path / "s.db", quick(clock=lambda: LATER)) as (service, call):
        objects = dict(service.learners)
        waiting = sum(len(one.opened) for name, one in objects.items() if name != "forever")
        assert any("pending_ttl = 1e+305" in one.message for one in caplog.records)
        assert service.learners["forever"].config.pending_ttl == TTL_LIMIT
        for _ in range(3):
            for name, kind in (
                ("ruined", "cascade"),
                ("router", "router"),
                ("adaptive", "adaptive"),
                ("forever", "cascade"),
                ("bystander", "cascade"),
            ):
                await opened(call, name, kind)
                assert (await call("GET", f"/v1/learners/{name}/report")).status == 200
                read = service.learners[name].observers["watch"].read(0, 2_000_000_000, 604_800)
                assert all(abs(one) <= LARGEST for column in read["columns"].values() for one in column)
        assert (await call("GET", "/metrics")).status == 200
        assert await service.expire() == waiting
        assert service.learners == objects
        states = {name: one.picture() for name, one in service.learners.items()}
    async with serving(tmp_path / "s.db") as (service, _):
        assert {name: one.picture() for name, one in service.learners.items()} == states
        assert replayed(service, "events") == 0
    assert not [one.message for one in caplog.records if "snapshot" in one.message]
    assert not [one.message for one in caplog.records if one.levelno >= logging.ERROR]
    with weakfeedback.journal.SqliteStore.open(tmp_path / "s.db", read_only=True) as store:
        assert all(isinstance(one, Checked) and not one.problems for one in check_store(store))


def test_sums_by_minute_stay_finite():
    series = Series(["spent"])
    for minute in range(3):
        for sign in (1.0, 1.0, -1.0, -1.0, -1.0):
            series.add(minute * 60_000_000, "spent", sign * HUGE)
    assert series.read(0, 300, 300)["columns"]["spent"] == [-LARGEST]
    assert series.since(0, 60) == {"spent": -LARGEST}


@pytest.mark.parametrize("ttl", [3e11, 1.8e302, HUGE])
async def test_waiting_for_ever_is_refused_and_a_hundred_years_are_not(tmp_path, ttl):
    async with serving(tmp_path / "s.db") as (service, call):
        reply = await call("PUT", "/v1/learners/t", {**CASCADE, "pending_ttl": ttl})
        assert reply.status == 422
        assert reply.data["field"].endswith("pending_ttl")
        reply = await call("PUT", "/v1/learners/t", {**CASCADE, "pending_ttl": TTL_LIMIT})
        assert reply.status == 201
        reply = await call("POST", "/v1/learners/t/decide", {})
        assert reply.status == 200
        assert reply.data["expires"].startswith("21")
        assert await service.expire() == 0


async def test_a_learner_that_cannot_expire_stops_no_other(tmp_path, monkeypatch, caplog):
    now = [1_700_000_000_000_000]
    close = Learner.expire

    def fail(learner: Learner, *arguments: Any) -> Any:
        if learner.name == "a":
            raise ZeroDivisionError("a fault")
        return close(learner, *arguments)

    monkeypatch.setattr(Learner, "expire", fail)

    options = quick(clock=lambda: now[0], tick=0.01)
    async with serving(tmp_path / "s.db", options) as (service, call):
        for name in ("a", "b"):
            await call("PUT", f"/v1/learners/{name}", {**CASCADE, "pending_ttl": 60})
            await call("POST", f"/v1/learners/{name}/decide", {})
        now[0] += 61_000_000
        await until(lambda: not service.learners["b"].opened)
        await call("POST", "/v1/learners/b/decide", {})
        now[0] += 61_000_000
        await until(lambda: not service.learners["b"].opened)
        assert service.learners["a"].opened
    told = [one.message for one in caplog.records if "could not expire" in one.message]
    assert told == ["decisions of learner a could not expire: a fault"]


async def test_the_ticking_task_survives_everything(tmp_path, monkeypatch):
    calls = []

    async def fail(_: Service) -> int:
        calls.append(1)
        raise [ValueError, OSError, RecursionError][len(calls) % 3]("a fault")

    monkeypatch.setattr(Service, "expire", fail)

    async with serving(tmp_path / "s.db", quick(tick=0.001)):
        await until(lambda: len(calls) > 5)


async def test_a_refused_tell_changes_nothing(tmp_path, caplog):
    """It was noted first, and refused afterwards, because of its sum: then all learners were thrown away."""

    async with serving(tmp_path / "s.db") as (service, call):
        for name in ("t", "other"):
            await call("PUT", f"/v1/learners/{name}", ADAPTIVE)
        objects = dict(service.learners)
        for _ in range(5):
            id = (await call("POST", "/v1/learners/t/begin", {})).data["id"]
            for output in (0, 1, 2):
                seq = service.learners["t"].seq
                told = {"output": output, "cost": HUGE}
                reply = await call("POST", f"/v1/learners/t/decisions/{id}/tell", told)
                assert reply.status in (422, 410, 409)
                assert service.learners["t"].seq == seq
                assert (await call("POST", "/v1/learners/other/begin", {})).status == 200
                told["cost"] = AMOUNT_LIMIT
                reply = await call("POST", f"/v1/learners/t/decisions/{id}/tell", told)
                if reply.data["stage"] is None:
                    break
        assert service.learners == objects
    assert not caplog.records


def test_a_live_cascade_refuses_a_cost_before_it_notes_the_output():
    cascade = weakfeedback.Cascade(3, [1.0, 2.0, 3.0], 100.0, policy="USS-A", seed=1)
    refused = 0
    for _ in range(4):
        step, spent = cascade.begin(), 0.0
        for stage in range(3):
            before = cascade.state()
            if cascade.report().spent + spent + HUGE == float("inf"):
                with pytest.raises(ValueError, match="finite sum"):
                    cascade.tell(step.id, Costed(stage, HUGE), stage)
                assert cascade.state() == before
                refused += 1
            cost = 1.0 if refused else HUGE
            step, spent = cascade.tell(step.id, Costed(stage, cost), stage), spent + cost
            if step.stage is None:
                break
        else:
            raise AssertionError("the round has not ended")
    assert refused > 0
    assert cascade.report().spent < float("inf")


async def test_a_step_that_fails_halfway_costs_its_own_learner_a_moment_and_no_other(
    tmp_path, monkeypatch, caplog
):
    """Any fault after a change, here in what counts events: that learner alone is read again from the store."""
    see, plan = learner_module.Learner.see, {"fail": 0}

    def faulty(learner: Learner, event: Any) -> None:
        if learner.name == "a" and event.kind == "decide" and plan["fail"] > 0:
            plan["fail"] -= 1
            raise ZeroDivisionError("a fault")
        see(learner, event)

    monkeypatch.setattr(Learner, "see", faulty)

    async with serving(tmp_path / "s.db") as (service, call):
        for name in ("a", "b"):
            await call("PUT", f"/v1/learners/{name}", CASCADE)
        other, replies = service.learners["b"], []
        for light in (False, True):
            monkeypatch.setattr(learner_module, "UNKNOWN", 0 if light else 32)
            await call("POST", "/v1/learners/a/decide", {})
            await call("POST", "/v1/learners/a/decisions/1/feedback", {"outputs": [1] * 9})  # refused
            plan["fail"] = 1
            torn = service.learners["a"]
            reply = await call("POST", "/v1/learners/a/decide", {"count": 3}, idempotency_key=f"k{light}")
            assert (reply.status, reply.data["code"]) == (500, "internal")
            while service.learners["a"] is torn:
                reply = await call("GET", "/v1/learners/a")
                if service.learners["a"] is torn:
                    assert (reply.status, reply.data["code"]) == (503, "learner_replaying")
                    assert reply.headers["retry-after"] == "1"
                replies.append(await call("POST", "/v1/learners/b/decide", {}))
                assert service.state == "ready"
            again = await call("POST", "/v1/learners/a/decide", {"count": 3}, idempotency_key=f"k{light}")
            assert [one["repeated"] for one in again.data["decisions"]] == [True] * 3
        assert {reply.status for reply in replies} == {200}
        assert service.learners["b"] is other
        assert (await call("GET", "/v1/learners/a")).data["pending"] == 8
        states = {name: one.picture() for name, one in service.learners.items()}
        for one in service.learners.values():
            one.pictured = one.seq
    async with serving(tmp_path / "s.db") as (service, _):
        assert {name: one.picture() for name, one in service.learners.items()} == states
    assert [
        one.message for one in caplog.records if one.levelno == logging.ERROR and "halfway" in one.message
    ]
    assert not [one.message for one in caplog.records if "memory was wrong" in one.message]


async def test_a_learner_that_cannot_be_read_again_stays_away_alone(tmp_path, monkeypatch):
    see, plan = learner_module.Learner.see, {"fail": False}

    def faulty(learner: Learner, event: Any) -> None:
        if learner.name == "a" and event.kind == "decide" and plan["fail"]:
            raise ZeroDivisionError("a fault")
        see(learner, event)

    monkeypatch.setattr(Learner, "see", faulty)

    async with serving(tmp_path / "s.db", quick(tick=0.005)) as (_, call):
        for name in ("a", "b"):
            await call("PUT", f"/v1/learners/{name}", CASCADE)
        plan["fail"] = True
        assert (await call("POST", "/v1/learners/a/decide", {})).status == 500
        await asyncio.sleep(0.2)
        assert (await call("POST", "/v1/learners/a/decide", {})).status == 503
        assert (await call("POST", "/v1/learners/b/decide", {})).status == 200
        assert (await call("GET", "/health/ready")).status == 200
    plan["fail"] = False
    async with serving(tmp_path / "s.db") as (_, call):
        assert (await call("GET", "/v1/learners/a")).data["pending"] == 1


async def test_an_answer_that_cannot_be_made_is_a_fault_of_one_request(tmp_path, monkeypatch):
    """The reply is made outside the step: what was decided is stored, and the learner goes on."""
    async with serving(tmp_path / "s.db") as (service, call):
        await call("PUT", "/v1/learners/t", CASCADE)
        known = service.learners["t"]
        with monkeypatch.context() as patch:
            patch.setattr(deciding, "moment", lambda at: 1 / 0)
            assert (await call("POST", "/v1/learners/t/decide", {}, idempotency_key="k")).status == 500
        assert service.learners["t"] is known
        reply = await call("POST", "/v1/learners/t/decide", {}, idempotency_key="k")
        assert (reply.data["id"], reply.data["repeated"]) == (1, True)


async def test_a_snapshot_that_fails_is_a_warning_and_is_tried_again_later(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(learner_module, "SNAPSHOT", 10)
    tried: list[int] = []

    class NoSnapshots:
        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        def add_snapshot(self, learner: int, seq: int, *_: Any) -> None:
            tried.append(seq)
            raise ValueError("Out of range float values are not JSON compliant")

    service = Service(opener(tmp_path / "s.db", NoSnapshots), quick())
    from weakfeedback.serve.app import make_app

    await service.start()
    call = Caller(make_app(service))
    await call("PUT", "/v1/learners/t", CASCADE)
    known = service.learners["t"]
    for n in range(35):
        if n == 25:
            monkeypatch.setattr(Learner, "picture", lambda _: 1 / 0)
        assert (await call("POST", "/v1/learners/t/decide", {})).status == 200
    assert service.learners["t"] is known
    await service.stop()
    assert tried == [9, 19]
    told = [one.message for one in caplog.records]
    assert [one.split(" could")[0] for one in told] == [
        f"learner t: no snapshot of event {seq}" for seq in (9, 19, 29, 35)
    ]


@pytest.mark.parametrize("looks", [False, True])
async def test_what_the_page_counts_may_fail_and_only_its_learner_is_read_again(tmp_path, monkeypatch, looks):
    """Events are counted many at once, or when somebody looks: the next step fails, and nothing counts twice."""
    see, plan = Invoice.see, {"fail": False}

    def faulty(invoice: Invoice, event: Any) -> None:  # after the watch has seen the event
        if plan["fail"] and event.kind == "cancel":
            raise ZeroDivisionError("a fault")
        see(invoice, event)

    monkeypatch.setattr(Invoice, "see", faulty)
    monkeypatch.setattr(learner_module, "UNKNOWN", 0)
    async with serving(tmp_path / "s.db") as (service, call):
        for name in ("a", "b"):
            await call("PUT", f"/v1/learners/{name}", {**CASCADE, "pending_limit": 1000})
        torn, other = service.learners["a"], service.learners["b"]
        await call("POST", "/v1/learners/a/decide", {})
        plan["fail"] = True
        assert (await call("POST", "/v1/learners/a/decisions/1/cancel", {})).status == 200
        replies = []
        while not torn.torn and len(replies) < 200:
            for path in ("/metrics", "/v1/learners/a/report") * looks:
                assert (await call("GET", path)).status == 200
            replies.append(await call("POST", "/v1/learners/a/decide", {}))
        before = 0 if looks else learner_module.TOGETHER - 3
        assert [one.status for one in replies] == [200] * before + [500]
        counted: Any = torn.observers["watch"]
        assert (counted.decided, counted.ends["cancelled"]) == (1, 1)
        plan["fail"] = False
        await until(lambda: service.learners["a"] is not torn)
        assert (await call("GET", "/v1/learners/a")).data["pending"] == len(
            replies
        )  # the last one was stored too
        assert service.learners["a"].observers["watch"].decided == 1 + len(replies)
        assert service.learners["b"] is other


def test_every_event_is_shown_once_and_in_order_whoever_looks(tmp_path, monkeypatch):
    """A step in a thread adds events while the page looks."""
    shown: list[int] = []

    class Recorder:
        def see(self, event: Any) -> None:
            shown.append(event.seq)

        def state(self) -> Any:
            return list(shown)

    monkeypatch.setitem(learner_module.OBSERVERS, "recorder", lambda _: Recorder())

    async def play() -> None:
        async with serving(tmp_path / "s.db") as (service, call):
            await call("PUT", "/v1/learners/t", {**CASCADE, "pending_limit": 10_000})
            learner, rounds, done = service.learners["t"], 3000, threading.Event()

            def look() -> None:
                while not done.is_set():
                    found = learner.observers["recorder"].state()
                    assert found == list(range(1, len(found) + 1))

            known = sys.getswitchinterval()
            sys.setswitchinterval(1e-5)
            looking = [asyncio.to_thread(look) for _ in range(2)]
            tasks = [asyncio.ensure_future(one) for one in looking]
            try:
                await asyncio.to_thread(lambda: [learner.decide([None]) for _ in range(rounds)])
            finally:
                done.set()
                await asyncio.gather(*tasks)
                sys.setswitchinterval(known)
            assert learner.picture()["service"]["observers"]["recorder"] == list(range(1, rounds + 1))

    asyncio.run(play())
