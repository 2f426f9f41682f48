"""A clock that was wrong once: decisions expire by the clock all the same, and a jump is named."""

from typing import Any

import pytest
from tests.rig.harness import CASCADE, Caller, quick, serving
from tests.rig.processes import until

from weakfeedback.journal import SqliteStore
from weakfeedback.serve.verify import Checked, check_store
from weakfeedback.serve.wording import LAST, moment

PLACE = "/v1/learners/t"
HOUR, YEAR = 3_600_000_000, 365 * 86_400_000_000
START = 1_700_000_000_000_000


class Clock:
    """A clock that goes, and can be set."""

    def __init__(self) -> None:
        self.at, self.wrong = START, 0

    def __call__(self) -> int:
        return self.at + self.wrong


async def decide(call: Caller) -> dict[str, Any]:
    reply = await call("POST", PLACE + "/decide", {})
    assert reply.status == 200, reply.data
    return dict(reply.data)


async def waiting(call: Caller) -> list[int]:
    return [one["id"] for one in (await call("GET", PLACE + "/decisions?status=pending")).data["decisions"]]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("snapshot", [False, True])
async def test_one_event_a_year_ahead_stops_no_expiry(tmp_path, restart, snapshot):
    """Every later event got its time: decisions never expired, and at last there was no room for more."""
    clock = Clock()

    async def later(service: Any, call: Caller) -> None:
        clock.at += HOUR // 2
        assert await service.expire() == 1
        assert await waiting(call) == [2, 3]
        clock.at += HOUR // 2
        assert await service.expire() == 2  # number 2 counts from when it was noticed
        assert await waiting(call) == []
        assert not service.learners["t"].clocks
        again = await decide(call)
        assert again["expires"] == moment(clock.at + HOUR)
        clock.at += HOUR
        assert await service.expire() == 1

    options = quick(clock=clock)
    async with serving(tmp_path / "s.db", options) as (service, call):
        await call("PUT", PLACE, {**CASCADE, "pending_ttl": 3600})
        await decide(call)  # 1
        clock.at += HOUR // 4
        clock.wrong = YEAR
        await decide(call)  # 2, a year ahead
        clock.wrong = 0
        clock.at += HOUR // 4
        late = await decide(call)  # 3
        assert late["expires"] == moment(clock.at + HOUR)
        assert (await call("GET", PLACE + "/decisions/3")).data["expires"] == late["expires"]
        assert await service.expire() == 0
        service.learners["t"].pictured = -1 if snapshot else service.learners["t"].seq
        if not restart:
            await later(service, call)
    if restart:
        async with serving(tmp_path / "s.db", options) as (service, call):
            assert await service.expire() == 0
            await later(service, call)
    with SqliteStore.open(tmp_path / "s.db", read_only=True) as store:
        (learner,) = store.learners()
        times = [event.at for event in store.events(learner.id)]
        assert times == sorted(times)
        assert all(isinstance(one, Checked) and not one.problems for one in check_store(store))


async def test_one_event_in_1970_expires_nothing(tmp_path):
    clock = Clock()

    async with serving(tmp_path / "s.db", quick(clock=clock)) as (service, call):
        await call("PUT", PLACE, {**CASCADE, "pending_ttl": 3600})
        await decide(call)
        clock.wrong = -START
        await decide(call)
        assert await service.expire() == 0
        clock.wrong = 0
        await decide(call)
        assert await service.expire() == 0
        clock.at += HOUR
        assert await service.expire() == 3


async def test_a_jump_of_the_clock_is_named(tmp_path, caplog):
    clock = Clock()

    looks = list[int]()

    def steady() -> float:
        looks.append(clock.at)
        return clock.at / 1e6

    async with serving(tmp_path / "s.db", quick(clock=clock, steady=steady, tick=0.005)) as (_, call):
        await call("PUT", PLACE, CASCADE)
        await until(lambda: len(looks) >= 3)
        clock.at += HOUR  # time passes: nothing is wrong
        await until(lambda: looks.count(clock.at) >= 3)
        assert not caplog.records
        clock.wrong = YEAR
        await until(lambda: len(caplog.records) == 1)
        await decide(call)
        clock.wrong = 0
        await until(lambda: len(caplog.records) == 2)
    async with serving(tmp_path / "s.db", quick(clock=clock)):
        pass
    told = [one.message for one in caplog.records]
    seconds = YEAR // 1_000_000
    assert told[:2] == [f"the clock has jumped by {sign}{seconds} seconds" for sign in "+-"]
    assert told[2].startswith(f"the last event of learner t lies {seconds} seconds ahead of the clock")


def test_times_after_the_year_9999_are_written_as_its_end():
    assert moment(LAST * 1_000_000) == moment(2**63 - 1) == "9999-12-31T23:59:59Z"
