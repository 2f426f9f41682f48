"""Two services that both believe to own a store: what was acknowledged is there once; who was woken writes nothing."""

import http.client
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.rig.postgres import Cluster
from tests.rig.processes import wait_until
from tests.rig.server import Client, Process

from weakfeedback.journal import open_store
from weakfeedback.serve.recover import recover_all

CONFIG = {"kind": "cascade", "stages": ["a", "b", "c"], "stage_costs": [0.5, 2.0, 5.0], "error_cost": 20.0}
PLACE = "/v1/learners/t"
OWNER = """
SELECT pg_terminate_backend(pid, 60000) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND application_name = %s
"""


class Told:
    """What clients were told, whoever told them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stages: dict[int, int] = {}  # by id
        self.fed: dict[int, list[int]] = {}
        self.faults: list[str] = []
        self.over = False

    def decide(self, id: int, stage: int) -> None:
        with self.lock:
            if id in self.stages:
                self.faults.append(f"id {id} was given out twice")
            self.stages[id] = stage


def ask(process: Process, path: str) -> tuple[int, Any]:
    """The answer to one question; over a new connection, as one that was idle may be closed."""
    client = Client(process.port)
    try:
        return client("GET", path)
    finally:
        client.close()


def work(port: int, number: int, told: Told) -> None:
    """Decide and feed all the time at one of the two; refusals are fine, contradictions are not."""
    luck, call = random.Random(number), Client(port)
    while not told.over:
        try:
            status, made = call("POST", PLACE + "/decide", {})
            if status != 200:
                time.sleep(0.02)
                continue
            told.decide(made["id"], made["stage"])
            outputs = [luck.randrange(2) for _ in range(made["stage"] + 1)]
            status, _ = call("POST", f"{PLACE}/decisions/{made['id']}/feedback", {"outputs": outputs})
            if status == 200:
                told.fed[made["id"]] = outputs
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
    call.close()


def split(folder: Path, server: Cluster, rounds: int) -> dict[str, Any]:
    """Stop the owner, end its session, let the standby take over, wake the first; then the other way round."""
    address, told, woken_answers = server.url(), Told(), 0
    with Process(folder, "--store", address) as one, Process(folder, "--store", address) as other:
        first = Client(one.port)
        assert first("PUT", PLACE, CONFIG)[0] == 201
        first.close()
        threads = [
            threading.Thread(target=work, args=(port, n, told))
            for n, port in enumerate([one.port, other.port] * 2)
        ]
        for thread in threads:
            thread.start()
        owner, standby = one, other
        try:
            for _ in range(rounds):
                before = len(told.fed)
                wait_until(lambda before=before: len(told.fed) >= before + 5)
                os.kill(owner.process.pid, signal.SIGSTOP)
                try:
                    with psycopg.connect(address, autocommit=True) as database:
                        name = f"weakfeedback process {owner.process.pid}"
                        assert database.execute(OWNER, (name,)).fetchall() == [(True,)]
                    wait_until(lambda standby=standby: ask(standby, "/health/ready")[0] == 200)
                    before = len(told.fed)
                    wait_until(lambda before=before: len(told.fed) >= before + 5)
                    seq = ask(standby, PLACE)[1]["seq"]
                finally:
                    os.kill(owner.process.pid, signal.SIGCONT)
                for _ in range(20):  # it never shows what was true before it slept
                    status, shown = ask(owner, PLACE)
                    assert status == 503 or shown["seq"] >= seq, shown
                    woken_answers += status == 200
                wait_until(lambda owner=owner: ask(owner, "/health/ready")[0] == 503)
                assert ask(standby, "/health/ready")[0] == 200
                owner, standby = standby, owner
        finally:
            told.over = True
            for thread in threads:
                thread.join()
        assert owner.stop() == 0
        assert standby.stop() == 0
    assert not told.faults
    check(address, told)
    return {"rounds": rounds, "decided": len(told.stages), "fed": len(told.fed), "woken": woken_answers}


def check(address: str, told: Told) -> None:
    """Everything that was acknowledged is in the log, once."""
    with open_store(address, read_only=True) as store:
        (stored,) = store.learners()
        events = list(store.events(stored.id))  # no gap, no damage
        decided = [event for event in events if event.kind == "decide"]
        fed = [event.decision for event in events if event.kind == "feedback"]
        assert len({event.decision for event in decided}) == len(decided)
        assert len(set(fed)) == len(fed)
        stages = {event.decision: event.body["stage"] for event in decided}
        assert {id: stages[id] for id in told.stages} == told.stages
        assert set(told.fed) <= set(fed)
        assert recover_all(store).differences == 0


@pytest.mark.parametrize("rounds", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_an_owner_that_slept_through_the_takeover_writes_nothing(tmp_path, server, rounds):
    assert split(tmp_path, server, rounds)["fed"] >= 10 * rounds
