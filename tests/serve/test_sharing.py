"""Several instances on one store in PostgreSQL: any of them is asked, the owner answers, and learners move."""

import asyncio
import contextlib
import http.client
import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field

import pytest
from tests.journal.stores import InPostgres
from tests.rig.harness import CASCADE, Caller, quick
from tests.rig.processes import until, wait_until
from tests.rig.server import Client, Process

from weakfeedback import client
from weakfeedback.journal import open_store
from weakfeedback.journal.shards import SHARDS, shard_of
from weakfeedback.serve.app import make_app
from weakfeedback.serve.config import opener
from weakfeedback.serve.key_lookups import KeyLookups
from weakfeedback.serve.recover import recover_all
from weakfeedback.serve.service import Service

NAMES = [f"t{k}" for k in range(SHARDS)]  # one of each shard


def serve(folder, address, *more):
    return Process(folder, "--store", address, "--shared", *more)


class Fresh(Client):
    """A client with a connection for each request: kept ones are closed while others start."""

    def __call__(self, *request, **headers):
        self.close()
        return super().__call__(*request, **headers)


@contextlib.contextmanager
def instances(folder, address, count):
    """So many instances, and a client of each."""
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(serve(folder, address)) for _ in range(count)]
        yield running, [stack.enter_context(contextlib.closing(Fresh(one.port))) for one in running]


def addresses(*running):
    return [f"http://127.0.0.1:{one.port}" for one in running]


def decided(call, name, **headers):
    status, made = call("POST", f"/v1/learners/{name}/decide", {}, **headers)
    assert status == 200, made
    return made


def shards(client):
    """How many shards an instance has."""
    text = client("GET", "/metrics")[1].decode()
    return float(text.partition("\nweakfeedback_shards ")[2].partition("\n")[0])


def shares(*clients):
    return [client("GET", "/health/live")[1]["learners"] for client in clients]


def test_any_instance_is_asked_and_the_owner_answers(server, tmp_path):
    with instances(tmp_path, server.url(), 2) as ((one, other), (first, second)):
        wait_until(lambda: [shards(first), shards(second)] == [8.0, 8.0])
        with client.Client(addresses(one, other)) as service:
            for name in NAMES:
                service.create(name, **CASCADE)
            assert shares(first, second) == [8, 8]
            # this client asks the owner once it knows it
            assert [*service._owners.values()] == [f"http://127.0.0.1:{other.port}"] * 8
            assert all(service.learner(name).report()["seq"] == 0 for name in NAMES)
        for name in NAMES:
            made = decided(second, name, idempotency_key="k")
            again = decided(first, name, idempotency_key="k")
            assert (again["id"], again["repeated"]) == (made["id"], True)
            path = f"/v1/learners/{name}/decisions/{made['id']}/feedback"
            outputs = {"outputs": ["a"] * (made["stage"] + 1)}
            assert first("POST", path, outputs)[1]["result"] == "accepted"
            assert second("POST", path, outputs)[1]["result"] == "duplicate"
            assert second("GET", f"/v1/learners/{name}")[1]["seq"] == 2
        for call in (first, second):
            listed = call("GET", "/v1/learners")[1]["learners"]
            assert [learner["name"] for learner in listed] == sorted(NAMES)
            assert call("GET", "/v1/learners/nobody")[0] == 404
            assert call("POST", "/v1/learners/t1/decide", {"count": "x"})[0] == 422
            assert b"t1" in call("GET", "/learners/t1")[1]  # the page of a learner, too
            assert b"serves 8 of 16 shards; the other learners are at http://127" in call("GET", "/")[1]
        # who does not know what they have in common gets no line
        stranger = http.client.HTTPConnection("127.0.0.1", one.port)
        upgrade = {"connection": "upgrade", "upgrade": "weakfeedback-line", "x-weakfeedback-passed": "a" * 64}
        stranger.request("GET", "/", headers=upgrade)
        assert stranger.getresponse().status == 200  # the page
        stranger.close()
        # who leaves hands its learners over, and who comes gets its share of them
        assert one.stop() == 0
        wait_until(lambda: shares(second) == [16])
        for name in NAMES:
            assert decided(second, name, idempotency_key="k")["repeated"]
        assert other.stop() == 0


@dataclass
class Told:
    """What clients were told, by learner."""

    stages: dict = field(default_factory=dict)  # by learner and key: id and stage
    fed: dict = field(default_factory=dict)
    faults: list = field(default_factory=list)
    over: bool = False


def work(ports, number, told):
    """Decide and feed back at any instance, again until it is answered."""
    luck, calls, count = random.Random(number), {}, 0

    def repeated(method, path, body, **headers):
        while True:
            port = luck.choice(ports)
            call = calls.setdefault(port, Client(port))
            try:
                status, found = call(method, path, body, **headers)
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
                continue
            if status == 200:
                return found
            if status != 503:
                told.faults.append((status, found))
                told.over = True
            if told.over:
                return None
            time.sleep(0.02)

    while not told.over:
        name, key = luck.choice(NAMES), f"{number}-{count}"
        count += 1
        made = repeated("POST", f"/v1/learners/{name}/decide", {}, idempotency_key=key)
        if made is None:
            break
        told.stages[name, key] = made["id"], made["stage"]
        outputs = [luck.randrange(2) for _ in range(made["stage"] + 1)]
        path = f"/v1/learners/{name}/decisions/{made['id']}/feedback"
        if repeated("POST", path, {"outputs": outputs}) is None:
            break
        told.fed[name, made["id"]] = outputs
    for call in calls.values():
        call.close()


def check(address, told):
    """Everything that was acknowledged is in the log, once."""
    assert told.faults == []
    with open_store(address, read_only=True) as store:
        ids = {stored.name: stored.id for stored in store.learners()}
        known, fed = {}, []
        for name, id in ids.items():
            for event in store.events(id):  # no gap, no damage
                if event.kind == "decide":
                    assert (name, event.key) not in known
                    known[name, event.key] = event.decision, event.body["stage"]
                elif event.kind == "feedback":
                    fed.append((name, event.decision))
        assert {pair: known[pair] for pair in told.stages} == told.stages
        assert len({(name, id) for (name, _), (id, _) in known.items()}) == len(known)  # no id twice
        assert len(set(fed)) == len(fed)
        assert set(told.fed) <= set(fed)
        assert recover_all(store).differences == 0


@contextlib.contextmanager
def busy(ports, told, clients=4, work=work):
    """Clients at work."""
    threads = [threading.Thread(target=work, args=(ports, n, told)) for n in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        told.over = True
        for thread in threads:
            thread.join()


def everywhere(client):
    """Whether all learners answer at one instance."""
    return all(client("GET", f"/v1/learners/{name}")[0] == 200 for name in NAMES)


@pytest.mark.parametrize("times", [2, pytest.param(63, marks=pytest.mark.slow)])
def test_instances_are_killed_or_stopped_and_nothing_is_lost_or_happens_twice(server, tmp_path, times):
    """One time in five an instance is only stopped, and wakes when others have taken over: 50 kills of 63."""
    address, told, luck, worst = server.url(), Told(), random.Random(7), 0.0
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(serve(tmp_path, address)) for _ in range(3)]
        ports = [one.port for one in running]
        with contextlib.closing(Client(ports[0])) as call:
            for name in NAMES:
                assert call("PUT", f"/v1/learners/{name}", CASCADE)[0] == 201
        with busy(ports, told):
            for n in range(times):
                before = len(told.fed)
                wait_until(lambda before=before: told.faults or len(told.fed) >= before + 10)
                assert told.faults == []
                k = luck.randrange(3)
                stopped = running[k].process.pid if n % 5 == 1 else None
                if stopped is None:
                    running[k].kill()
                else:
                    os.kill(stopped, signal.SIGSTOP)
                began = time.monotonic()
                with contextlib.closing(Client(ports[k - 1])) as call:
                    wait_until(lambda call=call: everywhere(call))
                worst = max(worst, time.monotonic() - began)
                if stopped is not None:
                    os.kill(stopped, signal.SIGCONT)
                    continue
                running[k] = stack.enter_context(serve(tmp_path, address))
                ports[k] = running[k].port
            before = len(told.fed)
            wait_until(lambda: len(told.fed) >= before + 10)
        assert [one.stop() for one in running] == [0, 0, 0]
    check(address, told)
    assert worst < 3.0


def test_a_client_that_follows_the_owner_outlives_it(server, tmp_path):
    address, told = server.url(), Told()
    with instances(tmp_path, address, 2) as ((one, other), (first, second)):
        wait_until(lambda: [shards(first), shards(second)] == [8.0, 8.0])
        with client.Client(addresses(one, other)) as service:

            def follow(number):
                for count in range(100_000):
                    name, key = NAMES[count % SHARDS], f"{number}-{count}"
                    learner = service.learner(name)
                    try:
                        made = learner.decide(key=key)
                        outputs = [1] * (made.stage + 1)
                        learner.feedback(made.id, outputs)
                    except Exception as error:
                        told.faults.append(error)
                        return
                    told.stages[name, key], told.fed[name, made.id] = (made.id, made.stage), outputs
                    if told.over:
                        return

            for name in NAMES:
                service.create(name, **CASCADE)
            assert set(service._owners.values()) == {service.addresses[1]}
            with busy([], told, clients=2, work=lambda _, number, __: follow(number)):
                wait_until(lambda: told.faults or len(told.fed) >= 40)
                other.kill()
                wait_until(lambda: told.faults or everywhere(first))
                many = len(told.fed)
                wait_until(lambda: told.faults or len(told.fed) >= many + 40)
            assert service.address == service.addresses[0]
            assert service._owners == {}
        assert one.stop() == 0
    check(address, told)


@pytest.mark.slow
def test_a_stopped_instance_is_replaced_and_writes_nothing_when_it_wakes(server, tmp_path):
    address, told = server.url(), Told()
    with instances(tmp_path, address, 2) as ((one, other), (first, second)):
        for name in NAMES:
            assert first("PUT", f"/v1/learners/{name}", CASCADE)[0] == 201
        wait_until(lambda: shares(first, second) == [8, 8])
        with busy([one.port, other.port], told):
            wait_until(lambda: len(told.fed) >= 10)
            os.kill(one.process.pid, signal.SIGSTOP)
            try:
                began = time.monotonic()
                wait_until(lambda: shares(second) == [16])
                assert time.monotonic() - began < 3.0
                wait_until(lambda: everywhere(second))
                with open_store(address, read_only=True) as store:
                    before = {stored.name: store.last(stored.id)[0] for stored in store.learners()}
            finally:
                os.kill(one.process.pid, signal.SIGCONT)
            for _ in range(20):  # it never shows what was true before it slept
                for name in NAMES[:4]:
                    status, shown = first("GET", f"/v1/learners/{name}")
                    assert status == 503 or shown["seq"] >= before[name], shown
            wait_until(lambda: shares(first, second) == [8, 8])
            many = len(told.fed)
            wait_until(lambda: len(told.fed) >= many + 10)
        assert [one.stop(), other.stop()] == [0, 0]
    check(address, told)


@pytest.mark.slow
def test_learners_move_to_a_new_instance_under_load(server, tmp_path):
    address, told = server.url(), Told()
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(serve(tmp_path, address))
        first = stack.enter_context(contextlib.closing(Fresh(one.port)))
        for name in NAMES:
            assert first("PUT", f"/v1/learners/{name}", CASCADE)[0] == 201
        ports = [one.port]
        with busy(ports, told):
            wait_until(lambda: len(told.fed) >= 10)
            other = stack.enter_context(serve(tmp_path, address))
            second = stack.enter_context(contextlib.closing(Fresh(other.port)))
            ports.append(other.port)
            wait_until(lambda: shares(first, second) == [8, 8])
            many = len(told.fed)
            wait_until(lambda: len(told.fed) >= many + 10)
            ports.remove(one.port)
            assert one.stop() == 0
            wait_until(lambda: shares(second) == [16])
        assert other.stop() == 0
    check(address, told)


async def joined(address, number):
    """An instance in this process, and a caller of its application; nobody listens at its address."""
    service = Service(opener(address), quick(standby=True, shared=f"http://127.0.0.1:{number}"))
    await service.start()
    return service, Caller(make_app(service))


async def test_who_loses_its_session_serves_nothing_and_begins_anew(server):
    place = InPostgres(server)

    first, call = await joined(place.address, 1)
    for name in NAMES:
        assert (await call("PUT", f"/v1/learners/{name}", CASCADE)).status == 201
    second, other = await joined(place.address, 2)
    await until(lambda: len(first.learners) == len(second.learners) == 8)
    lost = next(iter(first.learners))
    pid = first.store._connection.info.backend_pid
    assert place.raw("SELECT pg_terminate_backend(?, 5000)", pid) == [(True,)]
    assert (await call("POST", f"/v1/learners/{lost}/decide", {})).status == 503
    await until(lambda: lost in second.learners)
    assert (await other("POST", f"/v1/learners/{lost}/decide", {})).data["id"] == 1
    await until(lambda: len(first.learners) == len(second.learners) == 8)
    for service, ask in ((first, call), (second, other)):
        for name in service.learners:
            assert (await ask("GET", f"/v1/learners/{name}")).data["seq"] == int(name == lost)
    await second.stop()
    await until(lambda: len(first.learners) == 16)
    await first.stop()


@pytest.mark.parametrize("back", [False, True])
async def test_a_request_whose_learner_has_moved_meanwhile_is_told_so(server, monkeypatch, back):
    """Also if it has come back; it was told that the store could not be written."""
    place = InPostgres(server)
    moved, real = asyncio.Event(), KeyLookups.find

    async def find(self, learner, key):
        await moved.wait()
        return await real(self, learner, key)

    first, call = await joined(place.address, 1)
    for name in NAMES:
        assert (await call("PUT", f"/v1/learners/{name}", CASCADE)).status == 201
    monkeypatch.setattr(KeyLookups, "find", find)
    asked = [
        asyncio.ensure_future(call("POST", f"/v1/learners/{name}/decide", {}, idempotency_key="k"))
        for name in NAMES
    ]
    second, _ = await joined(place.address, 2)
    await until(lambda: len(first.learners) == len(second.learners) == 8)
    stayed = set(first.learners)
    if back:
        await second.stop()
        await until(lambda: len(first.learners) == 16)
    moved.set()
    for name, reply in zip(NAMES, await asyncio.gather(*asked)):
        told = (200, None) if name in stayed else (503, "moving")
        assert (reply.status, reply.data.get("code")) == told
    await second.stop()
    await first.stop()


async def test_a_learner_that_cannot_be_read_stops_no_instance_and_no_other_shard(server):
    place = InPostgres(server)

    first, call = await joined(place.address, 1)
    for name in NAMES[:4]:
        assert (await call("PUT", f"/v1/learners/{name}", CASCADE)).status == 201
    await first.stop()
    place.raw("DELETE FROM snapshot")
    place.raw("UPDATE event SET body = replace(body, 'seed', 'sead') WHERE learner = 1")
    first, call = await joined(place.address, 1)
    assert sorted(first.learners) == NAMES[1:4]
    for name in NAMES[1:4]:
        assert (await call("POST", f"/v1/learners/{name}/decide", {})).status == 200
    refused = await call("GET", f"/v1/learners/{NAMES[0]}")
    assert (refused.status, refused.data["code"]) == (503, "kept_out")
    assert "the checksum is wrong" in refused.data["detail"]
    assert (await call("GET", "/health/ready")).data["kept_out"] == 1
    # the other learners of its shard are served, and whoever takes the shard over keeps it out, too
    alike = next(name for name in (f"u{k}" for k in range(999)) if shard_of(name) == shard_of(NAMES[0]))
    assert (await call("PUT", f"/v1/learners/{alike}", CASCADE)).status == 201
    rows = (
        place.raw("SELECT * FROM event WHERE learner = 1"),
        place.raw("SELECT * FROM meta WHERE key = 'head:1'"),
    )
    second, other = await joined(place.address, 2)
    await until(lambda: len(second.sharing.shards) == SHARDS // 2)
    await first.stop()
    await until(lambda: len(second.sharing.shards) == SHARDS)
    assert (await other("POST", f"/v1/learners/{alike}/decide", {})).status == 200
    for method, body in (("GET", None), ("PUT", CASCADE)):
        assert (await other(method, f"/v1/learners/{NAMES[0]}", body)).data["code"] == "kept_out"
    listed = (await other("GET", "/v1/learners")).data
    assert [one["name"] for one in listed["kept_out"]] == [NAMES[0]]
    await second.stop()
    assert rows == (
        place.raw("SELECT * FROM event WHERE learner = 1"),
        place.raw("SELECT * FROM meta WHERE key = 'head:1'"),
    )
