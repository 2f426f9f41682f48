"""Many learners: what is done for all of them lets requests through, and is stored together."""

import asyncio
from typing import Any

from tests.rig.harness import CASCADE, quick, run, serving

from weakfeedback.journal import StoreUnavailable, open_store


class Counting:
    """A store that counts transactions of snapshots, and refuses those of several if it shall."""

    def __init__(self, store: Any, refuses: bool = False) -> None:
        self._store, self._refuses, self.sizes = store, refuses, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def add_snapshots(self, states: Any) -> None:
        self.sizes.append(len(states))
        if self._refuses:
            raise StoreUnavailable(0, "not now")
        self._store.add_snapshots(states)

    def add_snapshot(self, *state: Any) -> None:
        self.sizes.append(1)
        self._store.add_snapshot(*state)


async def made(call: Any, count: int) -> None:
    for k in range(count):
        assert (await call("PUT", f"/v1/learners/l{k}", CASCADE)).status == 201


async def test_others_are_served_while_all_learners_are_read(tmp_path):
    async with serving(tmp_path / "s.db", quick()) as (service, call):
        await made(call, 70)
        for work in (service.metrics.text_beside, service.infos):
            turns, task = 0, asyncio.ensure_future(work())
            while not task.done():
                await asyncio.sleep(0)
                turns += 1
            assert turns >= 2
        assert await service.metrics.text_beside() == service.metrics.text()
        assert (await call("GET", "/metrics")).body.count(b"weakfeedback_pending{") == 70


def snapshots_of(path, count, refuses):
    stores = []

    def wrap(store):
        stores.append(Counting(store, refuses))
        return stores[-1]

    async def play():
        async with serving(path, quick(), wrap=wrap) as (_, call):
            await made(call, count)

    run(play())
    with open_store(path, read_only=True) as store:
        assert [len(list(store.snapshots(one.id))) for one in store.learners()] == [1] * count
    return stores[0].sizes


def test_the_last_snapshots_are_stored_together_or_else_alone(tmp_path):
    assert snapshots_of(tmp_path / "a.db", 130, False) == [100, 30]
    assert snapshots_of(tmp_path / "b.db", 3, True) == [3, 1, 1, 1]
