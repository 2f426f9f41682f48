"""The real server killed, and its database stopped, at any moment under load: what was acknowledged is there, once.

Clients of all kinds of learners do everything that the API offers, and repeat what was not answered until it is. In the
end the log must hold every fact that any of them was told, nothing twice, and lead to the same state from its beginning
and from its snapshots.
"""

import contextlib
import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.rig.histories import LEARNERS, answer
from tests.rig.processes import wait_until
from tests.rig.server import Client, Process

from weakfeedback.journal import open_store
from weakfeedback.journal.recover import Checked
from weakfeedback.serve.recover import recover_all
from weakfeedback.serve.verify import check_store

NAMES = ("uss-ts", "within", "context", "pay", "csb-su")
CLIENTS = 10
PAUSE = 0.1  # seconds before a request is repeated
Fact = tuple[Any, ...]


class Told:
    """What clients were told, by all of them together."""

    def __init__(self) -> None:
        self.port = 0
        self.facts: dict[Fact, Any] = {}
        self.broken = 0  # requests that nobody answered
        self.faults: list[Any] = []
        self.over = False


class Worker(threading.Thread):
    """A client that does everything, and repeats each request until it is answered."""

    def __init__(self, number: int, told: Told) -> None:
        super().__init__()
        self.number, self.told, self.luck = number, told, random.Random(number)
        self.port, self.client = 0, Client(0)

    def run(self) -> None:
        try:
            count = 0
            while not self.told.over:
                self.act(f"{self.number}-{count}")
                count += 1
        except BaseException as error:
            self.told.faults.append(error)
        finally:
            self.client.close()

    def ask(self, fact: Fact, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer, which acknowledges the fact; None when all is over."""
        while not self.told.over:
            if self.port != self.told.port:
                self.client.close()
                self.port, self.client = self.told.port, Client(self.told.port)
            try:
                status, found = self.client(method, "/v1/learners/" + path, body, **headers)
            except (OSError, http.client.HTTPException):
                self.told.broken += 1
                time.sleep(PAUSE)
                continue
            if status in (200, 201):
                self.told.facts[fact] = found.get("id")
                return found
            assert status == 503, (method, path, body, status, found)
            time.sleep(PAUSE)
        return None

    def act(self, key: str) -> None:
        name = self.luck.choice(NAMES)
        kind, chance = LEARNERS[name]["kind"], self.luck.random()
        if chance < 0.01:
            self.ask(("create", f"k{key}"), "PUT", f"k{key}", LEARNERS["pay"])
            if chance < 0.005:
                self.ask(("archive", f"k{key}"), "DELETE", f"k{key}")
        elif chance < 0.03 and kind != "allocation":
            value = 20.0 + self.luck.random()
            self.ask(("recost", name, value), "PATCH", f"{name}/costs", {"error_cost": value})
        elif chance < 0.05 and kind == "cascade":
            self.ask(
                ("warm", name, key),
                "POST",
                f"{name}/warm-start",
                {"outputs": [[1, 2, 2]]},
                idempotency_key=key,
            )
        elif kind == "adaptive":
            made = self.ask(("begin", name, key), "POST", f"{name}/begin", {}, idempotency_key=key)
            while made is not None and made["stage"] is not None:
                place, stage = f"{name}/decisions/{made['id']}", made["stage"]
                if self.luck.random() < 0.05:
                    self.ask(("cancel", name, made["id"]), "POST", place + "/cancel", {"cost": 0.5})
                    return
                told = {"output": self.luck.randrange(2), "stage": stage}
                made = self.ask(("tell", name, made["id"], stage), "POST", place + "/tell", told)
        else:
            body: Any = {"context": [self.luck.choice([-1.0, 0.0, 1.0])]} if kind == "contextual" else {}
            made = self.ask(("decide", name, key), "POST", f"{name}/decide", body, idempotency_key=key)
            if made is None or made["expires"] is None:
                return
            verb, place = "feedback", f"{name}/decisions/{made['id']}/"
            body = answer(kind, name, made, self.luck)
            if self.luck.random() < 0.05:
                verb, body = "cancel", {"cost": 0.5}
            self.ask((verb, name, made["id"]), "POST", place + verb, body)


@contextlib.contextmanager
def busy(told: Told) -> Iterator[None]:
    """Clients at work."""
    with contextlib.closing(Client(told.port)) as call:
        for name in NAMES:
            assert call("PUT", f"/v1/learners/{name}", {**LEARNERS[name], "seed": 5})[0] == 201
    workers = [Worker(number, told) for number in range(CLIENTS)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        told.over = True
        for worker in workers:
            worker.join()
    assert not told.faults


def logged(place: Path | str) -> list[tuple[Fact, Any]]:
    """Every fact of the log, with the id of its decision."""
    found: list[tuple[Fact, Any]] = []
    with open_store(place, read_only=True) as store:
        for stored in store.learners():
            for event in store.events(stored.id):  # no gap, no damage
                what: Fact = ()
                if event.kind in ("decide", "begin", "warm"):
                    what = (event.key,)
                elif event.kind in ("feedback", "cancel"):
                    what = (event.decision,)
                elif event.kind == "tell":
                    what = (event.decision, event.body["stage"])
                elif event.kind == "recost":
                    what = (event.body["error_cost"],)
                found.append(((event.kind, stored.name, *what), event.decision))
    return found


def check(place: Path | str, told: Told) -> dict[str, int]:
    """Compare the log with what clients were told, and both ways of replay with each other."""
    found = logged(place)
    known = dict(found)
    for fact, id in told.facts.items():
        assert fact in known, f"lost: {fact}"
        assert fact[0] not in ("decide", "begin") or known[fact] == id, f"another id: {fact}"
    counts = Counter(fact for fact, _ in found)
    twice = [fact for fact, count in counts.items() if count > 1 and fact[0] != "recost"]
    assert not twice
    opened = Counter((fact[1], id) for fact, id in found if fact[0] in ("decide", "begin"))
    ended = Counter((fact[1], id) for fact, id in found if fact[0] in ("feedback", "cancel"))
    assert set((opened | ended).values()) == {1}  # no id twice, no second end
    with open_store(place, read_only=True) as store:
        assert all(isinstance(one, Checked) and not one.problems for one in check_store(store))
        assert recover_all(store).differences == 0
    kinds = Counter(fact[0] for fact in told.facts)
    assert set(kinds) >= KINDS
    return {"facts": len(told.facts), "events": len(found), "broken": told.broken, **kinds}


KINDS = {"decide", "begin", "tell", "feedback"}


def more(told: Told, count: int) -> None:
    """Wait for so many further facts."""
    before = len(told.facts)
    wait_until(lambda: told.faults or len(told.facts) >= before + count)


def kill_often(folder: Path, times: int, address: str | None = None) -> dict[str, int]:
    options = () if address is None else ("--store", address)
    told, luck = Told(), random.Random(3)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Process(folder, *options))
        told.port = server.port
        with busy(told):
            for round in range(1, times + 1):
                more(told, 5)
                time.sleep(luck.random() * 0.4)
                if round % 7 == 0:  # a clean end now and then, which takes a snapshot
                    assert server.stop() == 0
                server.kill()
                server = stack.enter_context(Process(folder, *options))
                told.port = server.port
            more(told, 5)
            wait_until(lambda: told.faults or {fact[0] for fact in [*told.facts]} >= KINDS)
        assert server.stop() == 0
    return check(address or folder / "weakfeedback.db", told)


@pytest.mark.parametrize("times", [3, pytest.param(110, marks=pytest.mark.slow)])
def test_kills(tmp_path, times):
    assert kill_often(tmp_path, times)["facts"] > 5 * times


@pytest.mark.parametrize("times", [1, pytest.param(58, marks=pytest.mark.slow)])
def test_kills_in_postgres(tmp_path, server, times):
    assert kill_often(tmp_path, times, server.url())["facts"] > 5 * times


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_the_database_is_restarted(tmp_path, server, times):
    address, told = server.url(), Told()
    with Process(tmp_path, "--store", address) as service:
        told.port = service.port
        with busy(told):
            for n in range(times):
                more(told, 20)
                server.stop(("immediate", "fast")[n % 2])
                server.start()
                more(told, 20)
        assert service.stop() == 0
    check(address, told)
