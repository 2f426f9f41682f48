"""Idempotency keys are looked for in the store while others decide: what was made meanwhile is not made twice."""

import asyncio

import pytest
from tests.rig.harness import CASCADE, quick, serving

from weakfeedback.serve.key_lookups import KeyLookups
from weakfeedback.serve.models import Problem

PLACE = "/v1/learners/t"


async def test_a_decision_made_while_its_key_was_looked_for_is_repeated(tmp_path, monkeypatch):
    """Its event is stored, and forgotten in memory, after the store has said that there is none.

    That who looks has left, and only a thread goes on, changes nothing.
    """
    asked, both, answers = [], asyncio.Event(), asyncio.Event()

    async def find(self, learner, key):
        asked.append(key)
        if len(asked) == 2:
            both.set()
            await answers.wait()
        await both.wait()

    async with serving(tmp_path / "s.db", quick()) as (service, call):
        await call("PUT", PLACE, CASCADE)
        learner, real = service.learners["t"], KeyLookups.find
        for n, body in enumerate(({}, {"count": 3}, {})):
            for event in (both, answers):
                event.clear()
            asked.clear()
            monkeypatch.setattr(KeyLookups, "find", find)
            first, second = (
                asyncio.ensure_future(call("POST", PLACE + "/decide", body, idempotency_key=f"k{n}"))
                for _ in range(2)
            )
            made = (await first).data
            assert asked == [f"k{n}"] * 2
            assert learner.committed == learner.seq
            monkeypatch.setattr(KeyLookups, "find", real)  # of the items of a batch the store is asked
            if n == 2:
                second.cancel()
                await asyncio.gather(second, return_exceptions=True)
                answers.set()
                second = call("POST", PLACE + "/decide", body, idempotency_key=f"k{n}")
            answers.set()
            again = (await second).data
            made, again = (one.get("decisions", [one]) for one in (made, again))
            assert [one["id"] for one in made] == [one["id"] for one in again]
            assert [one["repeated"] for one in made + again] == [False] * len(made) + [True] * len(made)
        assert learner.counts["decided"] == 5
        assert not learner.keys


async def test_keys_are_forgotten_when_nobody_looks_for_them(tmp_path, monkeypatch):
    """Also if one of those who look leaves, or asks for what cannot be."""
    looking, found = asyncio.Event(), asyncio.Event()

    async def find(self, learner, key):
        looking.set()
        await found.wait()

    async with serving(tmp_path / "s.db", quick()) as (service, call):
        await call("PUT", PLACE, CASCADE)
        monkeypatch.setattr(KeyLookups, "find", find)
        bodies = ({}, {"context": [1]}, {})
        left, wrong, made = (
            asyncio.ensure_future(call("POST", PLACE + "/decide", body, idempotency_key="k"))
            for body in bodies
        )
        await looking.wait()
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        found.set()
        assert (await wrong).status == 422
        assert (await made).data["id"] == 1  # perhaps a thread has made it for the one who left
        assert not service.learners["t"].keys
        assert (await call("POST", PLACE + "/decide", {}, idempotency_key="k2")).data["id"] == 2
        assert not service.learners["t"].keys


async def test_keys_of_a_repeated_batch_are_looked_for_together(tmp_path, monkeypatch):
    """One after the other, 1000 kept all who ask this learner waiting for 0.8 seconds, over a connection."""
    together, most, real = 0, 0, KeyLookups.find

    async def find(self, learner, key):
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.01)
        together -= 1
        return await real(self, learner, key)

    async with serving(tmp_path / "s.db", quick()) as (_, call):
        await call("PUT", PLACE, CASCADE)
        made = (await call("POST", PLACE + "/decide", {"count": 20}, idempotency_key="k")).data["decisions"]
        monkeypatch.setattr(KeyLookups, "find", find)
        again = (await call("POST", PLACE + "/decide", {"count": 20}, idempotency_key="k")).data["decisions"]
        assert again == [{**one, "repeated": True} for one in made]
        assert most == 20
        for count in (19, 21, 1, 40):
            reply = await call("POST", PLACE + "/decide", {"count": count}, idempotency_key="k")
            assert (reply.status, reply.data["code"]) == (422, "key_reused")


async def test_keys_of_one_learner_are_looked_for_together(tmp_path, monkeypatch):
    """The learner is not locked meanwhile."""
    together, most = 0, 0

    async def find(self, learner, key):
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.01)
        together -= 1

    async with serving(tmp_path / "s.db", quick()) as (_, call):
        await call("PUT", PLACE, CASCADE)
        monkeypatch.setattr(KeyLookups, "find", find)
        asks = (call("POST", PLACE + "/decide", {}, idempotency_key=f"k{n}") for n in range(10))
        made = [one.data for one in await asyncio.gather(*asks)]
        assert most == 10
        assert len({one["id"] for one in made}) == 10


class Broken(BaseException):
    """What nobody expects."""


@pytest.mark.parametrize(("turns", "fails"), [(0, False), (1, False), (1, True)])
async def test_nobody_waits_for_a_look_that_fails_or_is_cancelled_before_or_after_it_has_begun(turns, fails):
    """One that ends with the service; the next look is a new one."""

    class Ending:
        reader = None

        def __init__(self):
            self.tasks = []

        @property
        def steps(self):
            return self

        async def look(self, read):
            if fails:
                raise Broken
            await asyncio.Event().wait()

        def spawn(self, work):
            self.tasks.append(asyncio.ensure_future(work))
            return self.tasks[-1]

    service = Ending()
    lookups = KeyLookups(service)
    for _ in range(2):
        asked = [asyncio.ensure_future(lookups.find(1, key)) for key in "ab"]
        await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        service.tasks[-1].cancel()
        told = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 60)
        assert [type(one) for one in told] == [Problem] * 2
    assert len(service.tasks) == 2
