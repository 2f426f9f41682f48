"""A store that fails: everybody who waits is told, the memory goes, and what was acknowledged comes back."""

import asyncio
import errno
import os
import shutil
import threading
from typing import Any

import pytest
from tests.rig.harness import CASCADE, Caller, opener, quick, run, serving
from tests.rig.processes import PATIENCE, until, wait_until
from tests.serve.test_mutants import Gated

from weakfeedback.journal.events import OwnedElsewhere, StoreUnavailable
from weakfeedback.serve import learner as learner_module
from weakfeedback.serve import service as serving_module
from weakfeedback.serve.config import settle
from weakfeedback.serve.models import CONFIG
from weakfeedback.serve.service import Service

PLACE = "/v1/learners/t"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_module, "BACK_OFF", (0.01, 0.02))


class Broken:
    """A store whose writes can be made to fail, before or after they are done."""

    def __init__(self, store: Any, plan: dict[str, Any]) -> None:
        self._store, self._plan = store, plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, rows: Any, *, sync: bool = True) -> None:
        if self._plan["fail"] == "before":
            raise StoreUnavailable(errno.ENOSPC, "s.db: the disk is full")
        self._store.write(rows, sync=sync)
        if self._plan["fail"] == "after":
            raise StoreUnavailable(errno.EIO, "s.db: the disk cannot be read or written")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_all_who_wait_get_503_and_nothing_acknowledged_is_lost(tmp_path, when):
    plan = {"fail": ""}

    async with serving(tmp_path / "s.db", wrap=lambda store: Broken(store, plan)) as (service, call):
        await call("PUT", PLACE, CASCADE)
        kept = [(await call("POST", PLACE + "/decide", {})).data for _ in range(5)]
        fed = {"outputs": ["x"] * (kept[0]["stage"] + 1)}
        assert (await call("POST", PLACE + "/decisions/1/feedback", fed)).status == 200
        state = service.learners["t"].live.state()
        plan["fail"] = when
        asked = [call("POST", PLACE + "/decide", {}, idempotency_key=f"k{n}") for n in range(8)]
        asked += [call("GET", PLACE + "/report") for _ in range(3)]
        replies = await asyncio.gather(*asked)
        for reply in replies[:8]:
            assert (reply.status, reply.data["code"]) == (503, "store_unavailable")
            assert reply.headers["retry-after"] == "1"
            assert str(tmp_path) not in reply.body.decode()
        assert {reply.status for reply in replies[8:]} <= {200, 503}  # of before, or nothing
        assert all(reply.data["seq"] == 6 for reply in replies[8:] if reply.status == 200)
        ready = await call("GET", "/health/ready")
        assert (ready.status, ready.data["owner"]) == (503, False)
        assert (await call("GET", "/health/live")).status == 200
        assert (await call("GET", PLACE + "/report")).status == 503
        plan["fail"] = ""
        await until(lambda: service.state == "ready")
        if when == "before":
            assert service.learners["t"].live.state() == state
        again = [await call("POST", PLACE + "/decide", {}, idempotency_key=f"k{n}") for n in range(8)]
        assert [reply.status for reply in again] == [200] * 8
        # of the first transaction nobody was told, but it is in the log; the next one was never begun
        assert any(reply.data["repeated"] for reply in again) == (when == "after")
        assert sorted(reply.data["id"] for reply in again) == list(range(6, 14))
        assert (await call("POST", PLACE + "/decisions/1/feedback", fed)).data["result"] == "duplicate"


async def test_who_leaves_during_a_commit_takes_nobody_along(tmp_path):
    gate, plan = threading.Event(), {"fail": False}
    gate.set()

    async with serving(tmp_path / "s.db", wrap=lambda store: Gated(store, gate, plan)) as (_, call):
        await call("PUT", PLACE, CASCADE)
        gate.clear()
        ask = lambda: call("POST", PLACE + "/decide", {}, idempotency_key="k")  # noqa: E731
        leaving = asyncio.ensure_future(ask())
        await until(lambda: plan.get("waits"))
        staying = [asyncio.ensure_future(work) for work in (ask(), call("GET", PLACE))]
        await asyncio.sleep(0.02)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert leaving.cancelled()
        assert not any(task.done() for task in staying)
        gate.set()
        told, seen = await asyncio.gather(*staying)
        assert (told.status, told.data["id"], told.data["repeated"]) == (200, 1, True)
        assert (seen.status, seen.data["pending"]) == (200, 1)


def test_a_refusal_is_told_only_of_an_end_that_is_stored(tmp_path):
    plan = {"fail": ""}

    async def play(first: str) -> None:
        async with serving(tmp_path / f"{first}.db", wrap=lambda store: Broken(store, plan)) as (
            service,
            call,
        ):
            await call("PUT", PLACE, CASCADE)
            made = (await call("POST", PLACE + "/decide", {})).data
            outputs = {"outputs": ["x"] * (made["stage"] + 1)}
            plan["fail"] = "before"
            replies = await asyncio.gather(
                call("POST", f"{PLACE}/decisions/1/{first}", outputs if first == "feedback" else {}),
                call("POST", f"{PLACE}/decisions/1/feedback", {"outputs": ["y"] * (made["stage"] + 1)}),
                call("POST", f"{PLACE}/decisions/1/cancel", {}),
            )
            assert [reply.status for reply in replies] == [503] * 3
            plan["fail"] = ""
            await until(lambda: service.state == "ready")
            assert (await call("GET", PLACE + "/decisions/1")).data["status"] == "pending"

    for first in ("feedback", "cancel"):
        run(play(first))


@pytest.mark.parametrize("lost", [False, True])
async def test_nobody_is_told_of_a_step_in_a_thread_before_its_commit(tmp_path, monkeypatch, lost):
    """The first step of a learner that was read; it is never written if the store is ``lost`` meanwhile."""
    monkeypatch.setattr(learner_module, "HEAVY", -1.0)
    monkeypatch.setattr(learner_module, "UNKNOWN", 0)
    plan, gate, taken = {"fail": ""}, threading.Event(), threading.Event()

    def slowly(learner: learner_module.Learner, *arguments: Any) -> Any:
        result = learn(learner, *arguments)
        taken.set()
        assert gate.wait(PATIENCE)
        return result

    learn = learner_module.Learner.feedback
    monkeypatch.setattr(learner_module.Learner, "feedback", slowly)

    async with serving(tmp_path / "s.db") as (_, call):
        for place in (PLACE, "/v1/learners/u"):
            await call("PUT", place, CASCADE)
        made = (await call("POST", PLACE + "/decide", {})).data
    fed = {"outputs": ["x"] * (made["stage"] + 1)}
    async with serving(tmp_path / "s.db", wrap=lambda store: Broken(store, plan)) as (service, call):
        asked = [asyncio.ensure_future(call("POST", PLACE + "/decisions/1/feedback", fed))]
        await until(taken.is_set)
        monkeypatch.setattr(learner_module, "HEAVY", 1e9)  # its steps are light on average from now on
        works = [
            call("POST", PLACE + "/decisions/1/feedback", fed),
            call("GET", PLACE + "/decisions/1"),
            call("GET", PLACE + "/decisions?status=answered"),
            call("GET", PLACE),
        ]
        asked += [asyncio.ensure_future(work) for work in works]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in asked)
        if lost:
            plan["fail"] = "before"
            assert (await call("POST", "/v1/learners/u/decide", {})).status == 503
            plan["fail"] = ""
        gate.set()
        replies = await asyncio.gather(*asked)
        assert [reply.status for reply in replies] == [503 if lost else 200] * 5
        await until(lambda: service.state == "ready")
        status = (await call("GET", PLACE + "/decisions/1")).data["status"]
        assert status == ("pending" if lost else "answered")


async def test_a_failed_making_leaves_a_name_that_can_be_used(tmp_path):
    plan = {"fail": "before"}

    async with serving(tmp_path / "s.db", wrap=lambda store: Broken(store, plan)) as (service, call):
        assert (await call("PUT", PLACE, CASCADE)).status == 503
        plan["fail"] = ""
        await until(lambda: service.state == "ready")
        assert (await call("GET", PLACE)).status == 404
        assert (await call("PUT", PLACE, CASCADE)).status == 201


async def test_who_leaves_while_a_learner_is_made_leaves_no_half_of_it(tmp_path):
    gate, making = threading.Event(), threading.Event()

    class Slow(Broken):
        def create_learner(self, *arguments: Any) -> Any:
            making.set()
            assert gate.wait(PATIENCE)
            return self._store.create_learner(*arguments)

    async with serving(tmp_path / "s.db", wrap=lambda store: Slow(store, {"fail": ""})) as (_, call):
        leaving = asyncio.ensure_future(call("PUT", PLACE, CASCADE))
        await until(making.is_set)
        leaving.cancel()
        await asyncio.sleep(0)
        gate.set()
        assert (await call("PUT", PLACE, CASCADE)).status == 200


async def test_a_store_that_fails_when_a_standby_takes_over_ends_nothing(tmp_path):
    """What comes then is done again, by one task, when the store can be written."""
    plan, free, opened = {"fail": "before"}, threading.Event(), []
    plain = opener(tmp_path / "s.db", lambda store: Broken(store, plan))

    def owned_elsewhere(wait: bool = False, stop: Any = None, **more: Any) -> Any:
        if wait:
            assert free.wait(PATIENCE)
        elif not free.is_set():
            raise OwnedElsewhere("s.db: another process owns it")
        opened.append(more.get("read_only", False))
        return plain(**more)

    service = Service(owned_elsewhere, quick(standby=True))
    try:
        await service.start(lambda: settle(service, [("t", CONFIG.validate_python(CASCADE))], "f.toml"))
        free.set()
        await until(lambda: opened.count(False) >= 3 or service.fatal is not None)
        assert service.fatal is None
        plan["fail"] = ""
        await until(lambda: service.state == "ready" and "t" in service.learners)
        count = len(opened)
        await asyncio.sleep(0.1)
        assert (service.state, len(opened)) == ("ready", count)
    finally:
        await service.stop()


async def test_a_store_that_fails_at_the_start_is_no_mistake_of_the_configuration(tmp_path):
    service = Service(opener(tmp_path / "s.db", lambda store: Broken(store, {"fail": "before"})), quick())
    with pytest.raises(StoreUnavailable, match="could not be written"):
        await service.start(lambda: settle(service, [("t", CONFIG.validate_python(CASCADE))], "f.toml"))
    await service.stop()
    service = Service(opener(tmp_path / "s.db", lambda store: Broken(store, {"fail": "before"})), quick())
    await service.start()
    with pytest.raises(StoreUnavailable, match="could not be written"):
        await service.when_owned(lambda: settle(service, [("t", CONFIG.validate_python(CASCADE))], "f.toml"))
    await service.stop()


async def test_a_file_that_is_moved_away_and_back(tmp_path):
    file = tmp_path / "s.db"
    async with serving(file) as (service, call):
        await call("PUT", PLACE, CASCADE)
        first = (await call("POST", PLACE + "/decide", {})).data
        moved = tmp_path / "moved"
        moved.mkdir()
        for part in ("s.db", "s.db-wal", "s.db-shm"):
            shutil.move(tmp_path / part, moved / part)
        assert (await call("POST", PLACE + "/decide", {})).status == 503
        await asyncio.sleep(0.2)  # it is looked for, and no empty one takes its place
        assert (await call("GET", PLACE)).status == 503
        assert not file.exists()
        for part in ("s.db-wal", "s.db-shm", "s.db"):
            if (moved / part).exists():
                os.replace(moved / part, tmp_path / part)
        await until(lambda: service.state == "ready")
        again = (await call("GET", f"{PLACE}/decisions/{first['id']}")).data
        assert again["status"] == "pending"
        assert (await call("POST", PLACE + "/decide", {})).data["id"] == first["id"] + 1


def test_a_full_disk_is_survived_by_the_real_server(tmp_path):
    """The store's file may grow to a limit; beyond it the kernel refuses, and lifting the limit heals."""
    import resource

    from tests.rig.server import Client, Process

    # without bytecode: Python 3.13.0 would keep that of a module that it could write in part only
    with Process(tmp_path, env={"PYTHONDONTWRITEBYTECODE": "1"}) as server:
        call = Client(server.port)
        assert call("PUT", PLACE, CASCADE)[0] == 201
        soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        sizes = [path.stat().st_size for path in tmp_path.glob("weakfeedback.db*")]
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (max(sizes) + 20_000, hard))
        kept = []
        for _ in range(2000):
            status, told = call("POST", PLACE + "/decide", {"count": 20})
            if status != 200:
                break
            kept += [one["id"] for one in told["decisions"]]
        assert (status, told["code"]) == (503, "store_unavailable")
        assert call("GET", "/health/ready")[0] == 503
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
        wait_until(lambda: call("GET", "/health/ready")[0] == 200)
        status, told = call("POST", PLACE + "/decide", {})
        assert status == 200
        assert told["id"] > max(kept)
        pending = call("GET", PLACE)[1]["pending"]
        assert pending >= len(kept) + 1
        assert call("GET", f"{PLACE}/decisions/{max(kept)}")[1]["status"] == "pending"
        call.close()
        assert server.stop() == 0


async def test_a_store_that_cannot_be_written_is_refused_in_one_line(tmp_path):
    from weakfeedback.serve.app import make_app

    def refuse(**_: Any) -> Any:
        raise StoreUnavailable(errno.EROFS, "s.db: it cannot be written")

    service = Service(refuse, quick())
    call = Caller(make_app(service))
    assert (await call("GET", "/health/ready")).status == 503
    assert (await call("POST", PLACE + "/decide", {})).data["code"] == "starting"
    with pytest.raises(StoreUnavailable, match="it cannot be written"):
        await service.start()
