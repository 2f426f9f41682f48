"""Two services over one store in PostgreSQL: one serves, the other waits and takes over."""

import asyncio
import threading

from tests.journal.stores import InPostgres
from tests.rig.harness import CASCADE, Caller, quick
from tests.rig.processes import PATIENCE, until, wait_until
from tests.rig.server import Client, Process

from weakfeedback.serve.app import make_app
from weakfeedback.serve.config import opener
from weakfeedback.serve.service import Service


async def started(address, **options):
    service = Service(opener(address), quick(standby=True, **options))
    await service.start()
    return service, Caller(make_app(service))


def end_session(place, service):
    pid = service.store._connection.info.backend_pid
    assert place.raw("SELECT pg_terminate_backend(?, 5000)", pid) == [(True,)]


async def test_a_standby_waits_takes_over_and_loses_nothing(server):
    place = InPostgres(server)

    first, call = await started(place.address)
    second, wait = await started(place.address)
    try:
        assert (first.state, second.state) == ("ready", "standby")
        assert (await call("PUT", "/v1/learners/triage", CASCADE)).status == 201
        made = (await call("POST", "/v1/learners/triage/decide", {}, idempotency_key="k")).data
        answer = {"outputs": ["a"] * (made["stage"] + 1)}
        path = f"/v1/learners/triage/decisions/{made['id']}/feedback"
        assert (await call("POST", path, answer)).data["result"] == "accepted"
        # the standby says so everywhere
        ready = await wait("GET", "/health/ready")
        assert (ready.status, ready.data["status"], ready.data["owner"]) == (503, "standby", False)
        assert (await wait("GET", "/health/live")).status == 200
        for method, where, body in (
            ("GET", "/v1/learners", None),
            ("POST", "/v1/learners/triage/decide", {}),
            ("POST", path, answer),
            ("PUT", "/v1/learners/triage", CASCADE),
        ):
            refused = await wait(method, where, body)
            assert (refused.status, refused.data["code"]) == (503, "standby")
        end_session(place, first)
        await until(lambda: second.state == "ready")
        # who has lost the store does not answer from memory, and waits in turn
        late = await call("POST", "/v1/learners/triage/decide", {})
        assert (late.status, late.data["code"]) == (503, "store_unavailable")
        await until(lambda: first.state == "standby")
        # clients repeat themselves, and nothing counts twice
        assert (await wait("POST", path, answer)).data["result"] == "duplicate"
        again = await wait("POST", "/v1/learners/triage/decide", {}, idempotency_key="k")
        assert (again.data["id"], again.data["repeated"]) == (made["id"], True)
        assert (await wait("POST", "/v1/learners/triage/decide", {})).data["id"] == made["id"] + 1
        await second.stop()
        await until(lambda: first.state == "ready")
        assert (await call("GET", "/v1/learners/triage")).data["name"] == "triage"
    finally:
        await second.stop()
        await first.stop()
    with place.open() as store:
        assert store.epoch == 4
        assert store.integrity() == []
        assert [event.kind for event in store.events(1)] == ["create", "decide", "feedback", "decide"]


async def test_a_standby_takes_over_without_a_learner_that_cannot_be_read(server, caplog):
    place = InPostgres(server)
    first, call = await started(place.address)
    second, wait = await started(place.address)
    for name in ("a", "b"):
        assert (await call("PUT", f"/v1/learners/{name}", CASCADE)).status == 201
        assert (await call("POST", f"/v1/learners/{name}/decide", {})).status == 200
    place.raw("UPDATE event SET body = replace(body, 'stage', 'stagf') WHERE learner = 1 AND seq = 1")
    rows = place.raw("SELECT * FROM event WHERE learner = 1")
    end_session(place, first)
    await until(lambda: second.state == "ready")
    for method, path, body in (("POST", "/decide", {}), ("PUT", "", CASCADE)):
        assert (await wait(method, f"/v1/learners/a{path}", body)).data["code"] == "kept_out"
    assert (await wait("POST", "/v1/learners/b/decide", {})).status == 200
    ready = await wait("GET", "/health/ready")
    assert (ready.status, ready.data["learners"], ready.data["kept_out"]) == (200, 1, 1)
    await second.stop()
    await first.stop()
    assert place.raw("SELECT * FROM event WHERE learner = 1") == rows
    assert sum("learner a is kept out" in one.message for one in caplog.records) in (
        1,
        2,
    )  # by each owner once


async def test_keys_that_many_ask_for_at_once_are_found_each(server):
    """A server is asked for all of them together; what was told once is told again, and nothing happens twice."""
    place = InPostgres(server)
    service, call = await started(place.address)
    names = ["a", "b", "c"]
    for name in names:
        assert (await call("PUT", f"/v1/learners/{name}", CASCADE)).status == 201

    async def ask(count):
        keys = [(name, f"k{n}") for n in range(count) for name in (*names, *names)]
        made = [call("POST", f"/v1/learners/{name}/decide", {}, idempotency_key=key) for name, key in keys]
        return [(key, reply.status, reply.data) for key, reply in zip(keys, await asyncio.gather(*made))]

    first, again = await ask(8), await ask(12)
    assert {status for _, status, _ in first + again} == {200}
    ids: dict = {}
    for key, _, data in first + again:
        ids.setdefault(key, set()).add(data["id"])
    assert len(ids) == 36
    assert all(len(found) == 1 for found in ids.values())
    assert all(data["repeated"] for key, _, data in again if int(key[1][1:]) < 8)
    # whoever waits for the answer when the service ends is told so
    waiting = asyncio.ensure_future(ask(14))
    await asyncio.sleep(0)
    await service.stop()
    assert {status for _, status, _ in await asyncio.wait_for(waiting, PATIENCE)} <= {200, 503}


async def test_who_has_lost_the_store_reads_nothing_out_of_its_memory(server):
    """A process that was stopped and goes on would show what was true before."""
    place = InPostgres(server)

    first, call = await started(place.address)  # its own clock never ticks
    second, wait = await started(place.address)
    assert (await call("PUT", "/v1/learners/triage", CASCADE)).status == 201
    end_session(place, first)
    await until(lambda: second.state == "ready")
    assert (await wait("POST", "/v1/learners/triage/decide", {})).status == 200
    # not even that there is no such decision: the other has made it
    assert (await call("POST", "/v1/learners/triage/decisions/1/feedback", {"outputs": ["a"]})).status == 503
    for path in ("", "/report", "/decisions", "/certificate"):
        assert (await call("GET", "/v1/learners/triage" + path)).status == 503
    assert (await wait("GET", "/v1/learners/triage")).data["seq"] == 1
    await second.stop()
    await first.stop()


async def test_who_slept_over_an_acknowledgement_reads_nothing_out_of_its_memory(server, monkeypatch):
    """What was stored before the sleep is acknowledged after it, when others know more."""
    place, stored, wake = InPostgres(server), threading.Event(), threading.Event()

    first, call = await started(place.address)
    second, wait = await started(place.address)
    assert (await call("PUT", "/v1/learners/triage", CASCADE)).status == 201
    write = first.store.write

    def slow(rows, sync=True):
        write(rows, sync=sync)
        stored.set()
        assert wake.wait(PATIENCE)

    monkeypatch.setattr(first.store, "write", slow)
    made = asyncio.create_task(call("POST", "/v1/learners/triage/decide", {}))
    await until(stored.is_set)
    end_session(place, first)
    await until(lambda: second.state == "ready")
    assert (await wait("POST", "/v1/learners/triage/decide", {})).status == 200
    read = asyncio.create_task(call("GET", "/v1/learners/triage"))
    await asyncio.sleep(0.05)  # it waits behind the decision
    wake.set()
    assert (await made).status == 200  # it is in the log
    assert (await read).status == 503
    assert (await wait("GET", "/v1/learners/triage")).data["seq"] == 2
    await second.stop()
    await first.stop()


async def test_who_has_lost_the_store_notices_without_a_request(server):
    place = InPostgres(server)

    first, call = await started(place.address, tick=0.05)
    second, _ = await started(place.address)
    end_session(place, first)
    await until(lambda: first.state == "standby")
    await until(lambda: second.state == "ready")
    assert (await call("GET", "/health/ready")).status == 503
    await second.stop()
    await first.stop()


def test_a_real_standby_serves_when_the_owner_is_killed(server, tmp_path):
    address = server.url()
    learner = "/v1/learners/triage"
    with Process(tmp_path, "--store", address) as owner, Process(tmp_path, "--store", address) as standby:
        assert "as a standby" in standby.line
        call, wait = Client(owner.port), Client(standby.port)
        assert call("PUT", learner, CASCADE)[0] == 201
        _, made = call("POST", f"{learner}/decide", {}, idempotency_key="k")
        answer = {"outputs": ["a"] * (made["stage"] + 1)}
        assert call("POST", f"{learner}/decisions/{made['id']}/feedback", answer)[1]["result"] == "accepted"
        assert wait("GET", "/health/ready")[0] == 503
        assert wait("POST", f"{learner}/decide", {})[1]["code"] == "standby"
        owner.kill()
        call.close()
        wait_until(lambda: wait("GET", "/health/ready")[0] == 200)
        _, again = wait("POST", f"{learner}/decide", {}, idempotency_key="k")
        assert (again["id"], again["stage"], again["repeated"]) == (made["id"], made["stage"], True)
        assert wait("POST", f"{learner}/decisions/{made['id']}/feedback", answer)[1]["result"] == "duplicate"
        wait.close()
        assert standby.stop() == 0


async def test_a_standby_can_be_stopped(server):
    place = InPostgres(server)

    first, _ = await started(place.address)
    second, _ = await started(place.address)
    await asyncio.wait_for(second.stop(), PATIENCE)
    assert second.state == "stopped"
    assert first.state == "ready"
    await first.stop()


async def test_what_comes_then_is_done_by_a_standby_when_it_owns(server):
    place = InPostgres(server)

    first, _ = await started(place.address)
    done = []

    async def then():
        done.append(second.state)

    second = Service(opener(place.address), quick(standby=True))
    await second.start(then)
    assert done == []
    await first.stop()
    await until(lambda: done)
    assert done == ["ready"]
    await second.stop()
