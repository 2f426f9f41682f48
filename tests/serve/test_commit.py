"""The committer: what goes together, what does not wait, and what is told when a transaction fails."""

import asyncio
import threading
import time

import pytest
from tests.rig.processes import PATIENCE

from weakfeedback.journal.events import StoreUnavailable
from weakfeedback.serve.commit import MOST, Committer

ROW = (1, 0, 0, "decide", 0, None, "{}")


class Noting:
    """A store that notes how many rows each transaction has; it can be held, or fail."""

    def __init__(self):
        self.sizes, self.free, self.begun, self.error = [], threading.Event(), threading.Event(), None
        self.free.set()

    def write(self, rows, *, sync=True):
        """Note a transaction."""
        self.begun.set()
        assert self.free.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        self.sizes.append(len(rows))


def playing(work):
    """Run a coroutine function with a store and its committer; return the store."""
    store = Noting()

    async def run():
        committer = Committer(store, asyncio.get_running_loop())
        try:
            async with asyncio.timeout(PATIENCE / 20):
                await work(store, committer)
        finally:
            await asyncio.to_thread(committer.stop)

    asyncio.run(run())
    return store


def test_requests_of_following_turns_go_together():
    async def work(store, committer):
        futures = []
        for _ in range(5):  # two in every turn of the loop
            futures += [committer.commit([ROW]), committer.commit([ROW])]
            await asyncio.sleep(0)
            time.sleep(0.02)  # the thread could write now
        await asyncio.gather(*futures)

    assert playing(work).sizes == [10]


def test_one_alone_does_not_wait_for_another_turn():
    async def work(store, committer):
        first = committer.commit([ROW])
        await asyncio.sleep(0)
        assert store.begun.wait(PATIENCE / 20)  # while the loop does nothing
        await asyncio.gather(first, committer.commit([ROW]))
        await committer.commit([ROW])

    assert playing(work).sizes == [1, 1, 1]


def test_a_transaction_begins_although_more_come_in_every_turn():
    async def work(store, committer):
        futures = []
        while not store.begun.is_set() and len(futures) < 100 * MOST:
            futures += [committer.commit([ROW]) for _ in range(4)]
            await asyncio.sleep(0)
        await asyncio.gather(*futures)

    sizes = playing(work).sizes
    assert MOST <= sizes[0] < 50 * MOST  # the thread takes what is there when it runs


def test_what_comes_while_a_transaction_is_written_is_the_next():
    async def work(store, committer):
        store.free.clear()
        futures = [committer.commit([ROW])]
        await asyncio.to_thread(store.begun.wait, PATIENCE)
        order = []
        futures += [committer.commit([ROW], lambda: order.append("row")) for _ in range(3)]
        futures.append(committer.run(lambda: order.append(list(store.sizes))))
        futures.append(committer.commit([ROW], lambda: order.append("last")))
        await asyncio.sleep(0.01)
        assert not any(future.done() for future in futures)
        store.free.set()
        await asyncio.gather(*futures)
        assert order == [[1, 3], "row", "row", "row", "last"]  # the job came after the rows before it

    assert playing(work).sizes == [1, 3, 1]


def test_a_failure_refuses_all_that_wait_and_all_that_come():
    async def work(store, committer):
        store.free.clear()
        futures = [committer.commit([ROW])]
        await asyncio.to_thread(store.begun.wait, PATIENCE)
        futures += [committer.commit([ROW]) for _ in range(3)]
        store.error = StoreUnavailable(5, "the disk is gone")
        store.free.set()
        for future in futures:
            with pytest.raises(StoreUnavailable, match="the disk is gone"):
                await future
        with pytest.raises(StoreUnavailable, match="the disk is gone"):
            await committer.commit([ROW])

    assert playing(work).sizes == []


def test_the_end_writes_what_has_not_been_asked_for_yet():
    async def work(store, committer):
        futures = [committer.commit([ROW]) for _ in range(3)]
        await asyncio.to_thread(committer.stop)
        await asyncio.gather(*futures)
        with pytest.raises(StoreUnavailable, match="is stopping"):
            await committer.commit([ROW])

    assert playing(work).sizes == [3]
