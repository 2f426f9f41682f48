"""A loss of power of the machine of a server: what an answer on the wire has said is on every disk that may be left."""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.journal.powerless import CALLS, SENDS, calls, images, strace, why_not
from tests.rig.processes import PATIENCE, wait_until
from tests.rig.server import Client

from weakfeedback.journal import SqliteStore
from weakfeedback.serve.recover import recover_all

CONFIG = {"kind": "cascade", "stages": ["a", "b", "c"], "stage_costs": [0.5, 2.0, 5.0], "error_cost": 20.0}
PLACE = "/v1/learners/t"
CLIENTS = 4


def work(port: int, rounds: int, errors: list[BaseException]) -> None:
    """Decide and feed."""
    call = Client(port)
    try:
        for n in range(rounds):
            status, told = call("POST", PLACE + "/decide", {})
            assert status == 200, told
            outputs = {"outputs": [n % 2] * (told["stage"] + 1)}
            status, told = call("POST", f"{PLACE}/decisions/{told['id']}/feedback", outputs)
            assert status == 200, told
    except BaseException as error:
        errors.append(error)
    finally:
        call.close()


class Watched:
    """The calls of a real server under load, and what its answers said, in the order in which they were sent."""

    def __init__(self, folder: Path, rounds: int, durability: str) -> None:
        self.folder = folder
        folder.mkdir()
        trace = folder.parent / f"{folder.name}.trace"
        (folder / "weakfeedback.toml").write_text(f'[server]\ndurability = "{durability}"\n')
        # -D: the process is the server itself, and not strace
        command = strace(trace, "-D", "-f", "--seccomp-bpf", calls=f"{CALLS},{SENDS}")
        command += [sys.executable, "-m", "weakfeedback", "serve", "--port", "0", "--interpreted", "--quiet"]
        with (folder.parent / f"{folder.name}.errors").open("wb") as errors:
            server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True)
            try:
                line = server.stdout.readline()
                self._load(int(line.rstrip().rstrip("/").rpartition(":")[2]), rounds)
                server.send_signal(signal.SIGTERM)
                assert server.wait(PATIENCE) == 0
            finally:
                server.kill()
                server.wait()
                server.stdout.close()
        wait_until(lambda: f"{server.pid} +++ exited with" in " ".join(trace.read_text()[-2000:].split()))
        self.answers: list[dict[str, Any]] = []
        self.calls = calls(trace, folder, self._told)

    def _load(self, port: int, rounds: int) -> None:
        call, failed = Client(port), list[BaseException]()
        assert call("PUT", PLACE, {**CONFIG, "seed": 5})[0] == 201
        call.close()
        threads = [threading.Thread(target=work, args=(port, rounds, failed)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed

    def _told(self, _: int, data: bytes) -> int | None:
        """The number of the answer that is sent here, if one is."""
        found = [json.loads(body) for body in re.findall(rb'{"(?:id|result)":[^{}]*}', data)]
        self.answers += found
        return len(self.answers) - 1 if found else None

    def lost(self, image: dict[str, bytes], disk: Path, last: int) -> int:
        """How many answers up to this one are not on a disk; what is there must be sound."""
        shutil.rmtree(disk, ignore_errors=True)
        disk.mkdir()
        for path, content in image.items():
            if not path.endswith((".lock", "-shm")):
                (disk / Path(path).name).write_bytes(content)
        if not (disk / "weakfeedback.db").exists():
            return last + 1
        with SqliteStore.open(disk / "weakfeedback.db") as store:
            assert store.integrity() == []
            recover_all(store)
            learners = store.learners()
            events = list(store.events(learners[0].id)) if learners else []
        decided = {event.decision: event.body["stage"] for event in events if event.kind == "decide"}
        fed = {event.decision for event in events if event.kind == "feedback"}
        return sum(
            answer["id"] not in fed if "result" in answer else decided.get(answer["id"]) != answer["stage"]
            for answer in self.answers[: last + 1]
        )


@pytest.fixture
def watched(tmp_path):
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    return lambda rounds, durability: Watched(tmp_path / durability, rounds, durability)


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_what_an_answer_on_the_wire_has_said_is_on_the_disk(watched, tmp_path, count):
    rounds = 8 if count == 12 else 150
    found = watched(rounds, "full")
    assert len(found.answers) == 2 * rounds * CLIENTS
    most = 0
    for last, image in images(found.calls, found.folder, count, seed=count):
        assert found.lost(image, tmp_path / "disk", last) == 0
        most = max(most, last)
    assert most > rounds


@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_a_server_that_waits_for_no_disk_loses_what_it_has_said(watched, tmp_path, count):
    """The control: disks of a service that is safe from kills only lack answers that were sent."""
    found = watched(8 if count == 12 else 150, "process")
    results = [
        found.lost(image, tmp_path / "disk", last)
        for last, image in images(found.calls, found.folder, count, seed=count)
    ]
    assert sum(result > 0 for result in results) > count / 4
