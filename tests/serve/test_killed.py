"""The real server, killed at any moment under load: what was acknowledged is there, once, and as it was told."""

import http.client
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.rig.postgres import Cluster
from tests.rig.server import Client, Process

from weakfeedback.journal import open_store
from weakfeedback.serve.recover import recover_all

CONFIG = {"kind": "cascade", "stages": ["a", "b", "c"], "stage_costs": [0.5, 2.0, 5.0], "error_cost": 20.0}
PLACE = "/v1/learners/t"
CLIENTS = 16


class Told:
    """What clients were told, by all of them together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.decided: dict[int, tuple[str, int]] = {}  # id -> key and stage
        self.fed: dict[int, list[int]] = {}
        self.sent: dict[int, list[int]] = {}

    def decide(self, key: str, told: dict[str, Any]) -> None:
        with self.lock:
            known = self.decided.setdefault(told["id"], (key, told["stage"]))
            assert known == (key, told["stage"]), "an id was given out twice"


def work(port: int, number: int, told: Told, errors: list[BaseException]) -> None:
    """Decide and feed until the server is gone; what was left open is taken up again with the same key."""
    luck = random.Random(number)
    call = Client(port)
    try:
        while True:
            key = f"{number}-{luck.randrange(10**9)}"
            status, answer = call("POST", PLACE + "/decide", {}, idempotency_key=key)
            assert status == 200, answer
            told.decide(key, answer)
            outputs = [luck.randrange(2) for _ in range(answer["stage"] + 1)]
            told.sent[answer["id"]] = outputs
            status, result = call("POST", f"{PLACE}/decisions/{answer['id']}/feedback", {"outputs": outputs})
            assert status == 200, result
            told.fed[answer["id"]] = outputs
    except (OSError, http.client.HTTPException):
        pass  # it was killed
    except BaseException as error:
        errors.append(error)
    finally:
        call.close()


def check_store(place: Path | str, told: Told) -> None:
    """Compare the log with what clients were told, and both ways of replay with each other."""
    with open_store(place, read_only=True) as store:
        (stored,) = store.learners()
        events = list(store.events(stored.id))  # no gap, no damage
        decided = {
            event.decision: (event.key, event.body["stage"]) for event in events if event.kind == "decide"
        }
        ended = {event.decision: event for event in events if event.kind == "feedback"}
        assert len(decided) == sum(event.kind == "decide" for event in events)
        for id, known in told.decided.items():
            assert decided[id] == known
        for id, outputs in told.fed.items():
            differ = [
                [i, j]
                for i in range(len(outputs))
                for j in range(i + 1, len(outputs))
                if outputs[i] != outputs[j]
            ]
            assert ended[id].body["differ"] == differ
        whole = {one.name: one.picture() for one in recover_all(store).learners}
        for _ in store.snapshots(stored.id):
            assert {one.name: one.picture() for one in recover_all(store).learners} == whole


def kill_often(folder: Path, times: int, address: str | None = None) -> None:
    options = () if address is None else ("--store", address)
    told, luck = Told(), random.Random(3)
    for round in range(times):
        errors: list[BaseException] = []
        with Process(folder, *options) as server:
            call = Client(server.port)
            if round == 0:
                assert call("PUT", PLACE, {**CONFIG, "seed": 5})[0] == 201
            # what a client was not told of may be in the log: it asks again
            for id in list(told.sent)[-20:]:
                status, answer = call("POST", f"{PLACE}/decisions/{id}/feedback", {"outputs": told.sent[id]})
                assert status == 200, answer
                assert answer["result"] == "duplicate" or id not in told.fed
                told.fed[id] = told.sent[id]
            call.close()
            if round and round % 7 == 0:  # a clean end now and then, which takes a snapshot
                assert server.stop() == 0
                continue
            threads = [
                threading.Thread(target=work, args=(server.port, 100 * round + n, told, errors))
                for n in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            time.sleep(0.05 + luck.random() * 0.4)
            server.kill()
            for thread in threads:
                thread.join()
        assert not errors, errors
    assert len(told.fed) > times
    check_store(address or folder / "weakfeedback.db", told)


def test_ten_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, 10)


@pytest.mark.slow
def test_two_hundred_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, 200)


def test_three_kills_in_postgres(tmp_path: Path, server: Cluster) -> None:
    kill_often(tmp_path, 3, server.url())


@pytest.mark.slow
def test_fifty_kills_in_postgres(tmp_path: Path, server: Cluster) -> None:
    kill_often(tmp_path, 50, server.url())
