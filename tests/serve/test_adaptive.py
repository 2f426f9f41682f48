"""A learner that decides after every answer, over HTTP and in the library: the same steps, told once or twice."""

import random
import threading
from typing import Any

from tests.live import inside
from tests.rig.harness import CASCADE, quick, run, serving

from weakfeedback import Cascade
from weakfeedback.journal import SqliteStore
from weakfeedback.live import Scored

COSTS = [1.0, 5.0, 20.0]
CONFIG = {"kind": "adaptive", "stages": ["a", "b", "c"], "stage_costs": COSTS, "error_cost": 60.0, "seed": 4}
PLACE = "/v1/learners/t"


def test_rounds_equal_the_library_and_survive_restarts_in_their_middle(tmp_path):
    own: Any = Cascade(3, COSTS, 60.0, policy="USS-A", seed=4)
    own.speak(["a", "b", "c"])
    luck = random.Random(2)

    async def play(rounds: int) -> None:
        async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
            assert (await call("PUT", PLACE, CONFIG)).status in (200, 201)
            left = None
            for _ in range(rounds):
                step = own.begin()
                told = (await call("POST", PLACE + "/begin", {}, idempotency_key=f"{step.id}")).data
                assert (told["id"], told["stage"], told["name"]) == (step.id, 0, "a")
                again = (await call("POST", PLACE + "/begin", {}, idempotency_key=f"{step.id}")).data
                assert again == {**told, "repeated": True}
                while step.stage is not None:
                    sent = {"output": luck.randrange(2), "score": luck.random(), "stage": step.stage}
                    output = Scored("\0" + str(sent["output"]), sent["score"])
                    stage, step = step.stage, own.tell(step.id, output, step.stage)
                    place = f"{PLACE}/decisions/{step.id}/tell"
                    told = (await call("POST", place, sent)).data
                    assert told["stage"] == step.stage
                    assert told["answer"] == (None if step.stage is not None else stage)
                    again = (await call("POST", place, sent)).data
                    assert (again["stage"], again["answer"]) == (told["stage"], told["answer"])
                    other = await call("POST", place, {**sent, "output": 7})
                    assert (other.status, other.data["code"]) == (409, "conflict")
                    left = place, sent
            report = (await call("GET", PLACE + "/report")).data
            assert report["details"] == own.report().to_dict()
            assert (
                inside.rng(service.learners["t"].live).bit_generator.state
                == inside.rng(own).bit_generator.state
            )
            assert left is not None
            learner = service.learners["t"]
            if rounds % 2:
                learner.pictured = learner.seq  # no snapshot: the next one replays
        async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
            place, sent = left
            told = (await call("POST", place, sent)).data
            assert (told["stage"], told["repeated"]) == (None, True)
            assert told["answer"] == sent["stage"]

    run(play(15))
    run(play(10))


async def test_a_repeated_answer_of_a_long_round_leaves_the_loop_to_others(tmp_path, monkeypatch):
    """All events since the round began are read: 30,000 of them stopped the service for 0.3 seconds."""
    read, threads = SqliteStore.events, []

    def noted(*given: Any, **more: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return read(*given, **more)

    monkeypatch.setattr(SqliteStore, "events", noted)
    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", PLACE, CONFIG)
        told, sent = (await call("POST", PLACE + "/begin", {})).data, {}
        while told["stage"] is not None:
            sent = {"output": 1, "score": 0.5, "stage": told["stage"]}
            told = (await call("POST", f"{PLACE}/decisions/1/tell", sent)).data
        assert (await call("POST", f"{PLACE}/decisions/1/tell", sent)).data == {**told, "repeated": True}
        assert threads == [False]


async def test_what_an_adaptive_learner_offers_and_others_do_not(tmp_path):
    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):

        async def refused(method: str, path: str, data: Any) -> tuple[int, str]:
            reply = await call(method, path, data)
            return reply.status, reply.data["code"]

        await call("PUT", PLACE, CONFIG)
        await call("PUT", "/v1/learners/plain", CASCADE)
        offered = (409, "not_offered")
        assert await refused("POST", PLACE + "/decide", {}) == offered
        assert await refused("POST", "/v1/learners/plain/begin", {}) == offered
        await call("POST", "/v1/learners/plain/decide", {})
        assert await refused("POST", "/v1/learners/plain/decisions/1/tell", {"output": 1}) == offered
        assert await refused("POST", PLACE + "/warm-start", {"outputs": [[1, 1, 1]]}) == offered
        assert await refused("POST", PLACE + "/decisions/9/tell", {"output": 1}) == (404, "unknown_decision")
        await call("POST", PLACE + "/begin", {})
        wrong = {"output": 1, "stage": 2}
        assert await refused("POST", PLACE + "/decisions/1/tell", wrong) == (422, "wrong_outputs")
        assert (await call("POST", PLACE + "/decisions/1/cancel", {"cost": 1.0})).data[
            "result"
        ] == "cancelled"
        assert await refused("POST", PLACE + "/decisions/1/tell", {"output": 1}) == (410, "cancelled")
        rows = {"outputs": [[n % 2, 1, 1] for n in range(30)], "truth": [1] * 30}
        rows["scores"] = [[0.5, 0.7, 0.9]] * 30
        reply = await call("POST", PLACE + "/calibrate", rows)
        assert (reply.status, reply.data) == (200, {"rows": 30, "repeated": False})
        assert await refused("POST", "/v1/learners/plain/calibrate", rows) == offered
        bad = {**CONFIG, "policy": "USS-TS"}
        assert await refused("PUT", "/v1/learners/bad", bad) == (422, "invalid")
