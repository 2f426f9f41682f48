"""Faults put into commit, fold and recovery on purpose: every one must be found."""

import asyncio
import errno
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.rig.harness import CASCADE, Caller, opener, quick, run
from tests.rig.mutants import mutate, survives
from tests.rig.processes import PATIENCE, until

from weakfeedback.journal import JournalError, SqliteStore
from weakfeedback.journal import recover as replay
from weakfeedback.journal.events import StoreUnavailable
from weakfeedback.serve import commit, learner, outbox, recover, service, steps
from weakfeedback.serve.app import make_app
from weakfeedback.serve.operations import answering, registry

PLACE = "/v1/learners/t"


class Gated:
    """A store whose writes wait at a gate, and fail behind it if they are told to."""

    def __init__(self, store: Any, gate: threading.Event, plan: dict[str, bool]) -> None:
        self._store, self._gate, self._plan = store, gate, plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, rows: Any, *, sync: bool = True) -> None:
        self._plan["waits"] = not self._gate.is_set()
        assert self._gate.wait(PATIENCE)
        if self._plan["fail"]:
            raise StoreUnavailable(errno.EIO, "the disk cannot be written")
        self._store.write(rows, sync=sync)


async def scenario(path: Path) -> None:
    """Rounds, a failing disk, a restart; whatever was told must be true."""
    gate, plan = threading.Event(), {"fail": False}
    gate.set()
    made = service.Service(opener(path, lambda store: Gated(store, gate, plan)), quick())
    await made.start()
    call = Caller(make_app(made))
    try:
        await call("PUT", PLACE, {**CASCADE, "seed": 1})
        told = await asyncio.gather(
            *(call("POST", PLACE + "/decide", {}, idempotency_key=f"k{n}") for n in range(6))
        )
        assert sorted(reply.data["id"] for reply in told) == [1, 2, 3, 4, 5, 6]
        assert (await call("POST", PLACE + "/decide", {}, idempotency_key="k0")).data["repeated"]
        stage = next(reply.data["stage"] for reply in told if reply.data["id"] == 1)
        fed = {"outputs": [1] * (stage + 1)}
        assert (await call("POST", PLACE + "/decisions/1/feedback", fed)).data["result"] == "accepted"
        assert (await call("POST", PLACE + "/decisions/2/cancel", {})).status == 200
        stored = made.learners["t"].picture()
        seen = (await call("GET", PLACE)).data, (await call("GET", PLACE + "/report")).data
        assert (seen[0]["pending"], seen[1]["cancelled"], seen[1]["rounds"]) == (4, 1, 1)

        # nobody is told of what is not stored: not the first, not who repeats it, not who only looks
        gate.clear()
        stage = next(reply.data["stage"] for reply in told if reply.data["id"] == 3)
        fed = {"outputs": [1] * (stage + 1)}
        place = PLACE + "/decisions/3/feedback"
        waiting = [asyncio.ensure_future(call("POST", place, fed)) for _ in range(2)]
        await until(lambda: plan.get("waits"))
        waiting.append(asyncio.ensure_future(call("GET", PLACE + "/report")))
        waiting.append(asyncio.ensure_future(call("POST", PLACE + "/decide", {}, idempotency_key="lost")))
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in waiting)
        plan["fail"] = True
        gate.set()
        assert {reply.status for reply in await asyncio.gather(*waiting)} == {503}
        plan["fail"] = False
        await until(lambda: made.state == "ready")
        assert made.learners["t"].picture() == stored
        again = await call("POST", PLACE + "/decide", {}, idempotency_key="lost")
        assert (again.data["id"], again.data["repeated"]) == (7, False)
        assert (await call("POST", place, fed)).data["result"] == "accepted"
        last = made.learners["t"]
        stored, last.pictured = last.picture(), last.seq
    finally:
        gate.set()
        await made.stop()
    with SqliteStore.open(path, read_only=True) as store:
        (found,) = recover.recover_all(store).learners
        assert found.picture() == stored
        assert found.seq == len(list(store.events(found.id))) - 1
    forge(path)
    with SqliteStore.open(path, read_only=True) as store:
        assert "and is now" in complaint(store), "a forged decision was not found"


def complaint(store: SqliteStore) -> str:
    """What recovery finds wrong with a store."""
    try:
        recover.recover_all(store)
    except JournalError as error:
        return str(error)
    return ""


def forge(path: Path) -> None:
    """Change a decision in the log, with a seal that holds."""
    from tests.serve.test_replay import events_of
    from tests.serve.test_replay import forge as change

    id, events = events_of(path)
    chosen = [event for event in events if event.kind == "decide"][-1]
    change(path, id, chosen, body={"stage": (chosen.body["stage"] + 1) % 3})


def battery(seconds: float = 8.0) -> None:
    """A mutant may hang, and is found then."""
    with tempfile.TemporaryDirectory() as folder:
        run(asyncio.wait_for(scenario(Path(folder) / "s.db"), seconds))


def test_the_battery_finds_nothing_wrong_with_the_code_as_it_is(monkeypatch):
    monkeypatch.setattr(service, "BACK_OFF", (0.01,))
    battery(PATIENCE)


# what is edited, and the names in which the edited classes are used
USED: dict[Any, list[tuple[Any, str]]] = {
    commit: [(service, "Committer")],
    learner: [(registry, "Learner"), (recover, "Learner")],
    outbox: [(learner, "Outbox")],
    recover: [(service, "recover_all"), (recover, "recover_all")],
    replay: [(replay, "recover")],
    service: [(service, "Service")],
    steps: [(service, "Steps")],
    answering: [(service.Service, "feedback")],
}
MUTANTS = {
    "answer before the commit": (
        commit,
        "                done = self._carry_out(taken)\n",
        "                self._tell(_resolve, [(f, None, None) for _, f, _ in taken])\n"
        "                done = self._carry_out(taken)\n",
    ),
    "write only the last of those who wait": (commit, "rows += item", "rows = item"),
    "write in the wrong order": (commit, "self.store.write(rows,", "self.store.write(rows[::-1],"),
    "go on writing after a failure": (
        commit,
        "                self._fail(taken, error)\n                return\n",
        "                self._tell(_resolve, [(f, None, None) for _, f, _ in taken])\n                continue\n",
    ),
    "leave out who came during the failure": (commit, "taken + self._queue, []", "taken, []"),
    "forget the key": (
        outbox,
        'key, extra = tag or (NO_TAG if kind == "cancel" else self._tag)\n',
        "key, extra = None, (tag or self._tag).extra\n",
    ),
    "skip an event": (
        replay,
        "        words = found.fold.apply(",
        "        words = None if event.seq == 5 else found.fold.apply(",
    ),
    "begin one event too late": (replay, "after=seq)", "after=seq + 1)"),
    "compare nothing": (replay, "same = package == __version__ and not trust", "same = False"),
    "count no end": (learner, "            self.opened.pop(id, None)\n", ""),
    "count what was cancelled as fed": (learner, '"cancel": "cancelled"', '"cancel": "feedback"'),
    "keep the memory after a failed commit": (
        service,
        '        self.state = "replaying"\n        self.learners = {}\n'
        "        if self.sharing is not None:\n            self.sharing.forget()\n"
        "        if self._returning is None or self._returning.done():\n"
        "            self._returning = self.spawn(self._return())\n",
        "        self.committer = Committer(self.store, asyncio.get_running_loop(), failed=self._handle_loss)\n",
    ),
    "show what is not stored": (
        steps,
        "            future = learner.commit()\n        await self.wait(future)\n",
        "            future = learner.commit()\n",
    ),
    "answer a duplicate before its original": (
        answering,
        "        return await _answer_ended(service, learner, id, digest), service.steps.commit(learner)\n"
        "    if given.dry_run",
        "        return await _answer_ended(service, learner, id, digest), None\n    if given.dry_run",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name, monkeypatch):
    module, old, new = MUTANTS[name]
    monkeypatch.setattr(service, "BACK_OFF", (0.01,))
    monkeypatch.setattr(learner, "UNKNOWN", 0)  # the steps of the battery are light
    mutant = mutate(module, old, new)
    if module is service:
        monkeypatch.setattr(mutant, "BACK_OFF", (0.01,))
    for place, used in USED[module]:
        monkeypatch.setattr(place, used, getattr(mutant, used))
    assert not survives(battery)
