"""Models of a router that change over HTTP and by the file: as in the library, by an event, over restarts."""

from typing import Any

import pytest
from tests.rig.harness import opener, quick, replayed, serving
from tests.serve.test_page import paged

from weakfeedback import Router
from weakfeedback.client import local_service
from weakfeedback.serve.config import ConfigError, checked_learner, settle
from weakfeedback.serve.service import Service

PLACE = "/v1/learners/r"
MADE = {"kind": "router", "models": ["small", "large"], "prices": [1, 20], "error_cost": 100, "seed": 3}


async def play(call: Any, own: Any, names: list[str], rounds: int) -> None:
    for n in range(rounds):
        told = (await call("POST", PLACE + "/decide", {})).data
        decision = own.decide()
        assert told["call"] == [names[k] for k in decision.call]
        if len(decision.call) > 1:
            outputs = ["x" if (n + k) % 9 == 0 else "a" for k in decision.call]
            own.feedback(decision.id, outputs)
            path = f"{PLACE}/decisions/{told['id']}/feedback"
            assert (await call("POST", path, {"outputs": outputs})).data["result"] == "accepted"


@pytest.mark.parametrize("change", [{"remove": "large"}, {"add": {"name": "medium", "price": 5}}])
@pytest.mark.parametrize("snapshot", [False, True])
async def test_old_decisions_keep_the_names_of_their_time(tmp_path, change, snapshot):
    """The number of a model that was gone ended in a fault, and that of one that had moved in the name of another."""

    async def look(call: Any, told: dict[str, Any]) -> None:
        again = (await call("POST", PLACE + "/decide", {}, idempotency_key="k")).data
        assert (again["call"], again["name"], again["repeated"]) == (told["call"], told["name"], True)
        assert (await call("GET", f"{PLACE}/decisions/{told['id']}")).data["call"] == told["call"]
        listed = (await call("GET", PLACE + "/decisions?status=all")).data["decisions"]
        assert listed[0]["call"] == told["call"]

    async with serving(tmp_path / "s.db") as (service, call):
        await call("PUT", PLACE, {**MADE, "models": ["small", "large", "huge"], "prices": [1, 4, 20]})
        told = (await call("POST", PLACE + "/decide", {}, idempotency_key="k")).data
        assert "huge" in told["call"]
        assert (await call("PATCH", PLACE + "/models", change)).status == 200
        await look(call, told)
        learner = service.learners["r"]
        learner.pictured = -1 if snapshot else learner.seq
    async with serving(tmp_path / "s.db") as (_, call):
        await look(call, told)


@pytest.mark.parametrize("promise", [False, True])
async def test_it_is_the_router_with_the_same_changes_also_after_a_restart(tmp_path, promise):
    made = {**MADE, "error_cost": None, "agree": 0.9, "options": {"memory": 64}} if promise else MADE
    limits: Any = {"agree": 0.9, "memory": 64} if promise else {"error_cost": 100}
    own: Any = Router(2, [1, 20], seed=3, names=["small", "large"], **limits)

    options = quick(durability="process")
    async with serving(tmp_path / "s.db", options) as (service, call):
        await call("PUT", PLACE, made)
        await play(call, own, ["small", "large"], 70)
        left = (await call("POST", PLACE + "/decide", {})).data
        own.decide()
        body = {"add": {"name": "medium", "price": 5}}
        key = {"idempotency_key": "k1"}
        for _ in range(2):
            told = (await call("PATCH", PLACE + "/models", body, **key)).data
            assert (told["config"]["models"], told["revision"]) == (["small", "medium", "large"], 2)
        other = await call("PATCH", PLACE + "/models", {"remove": "small"}, **key)
        assert (other.status, other.data["code"]) == (409, "conflict")
        own.add_model(price=5, name="medium")
        if len(left["call"]) > 1:
            path = f"{PLACE}/decisions/{left['id']}/feedback"
            late = await call("POST", path, {"outputs": ["a", "a"]})
            assert (late.status, late.data["code"]) == (410, "cancelled")
        names = ["small", "medium", "large"]
        await play(call, own, names, 60)
        report = (await call("GET", PLACE + "/report")).data
        assert [one["name"] for one in report["stages"]] == names
        watch = service.learners["r"].observers["watch"]
        assert (watch.names, sum(watch.stops)) == (tuple(names), 131)
    async with serving(tmp_path / "s.db", options) as (service, call):
        assert replayed(service, "differences_total") == 0
        await call("PATCH", PLACE + "/models", {"replace": {"model": "small", "name": "tiny", "price": 0.5}})
        own.replace_model("small", price=0.5, name="tiny")
        await play(call, own, ["tiny", "medium", "large"], 40)
        await call("PATCH", PLACE + "/models", {"remove": "tiny"})
        own.remove_model("tiny")
        await play(call, own, ["medium", "large"], 40)
        told = (await call("GET", PLACE)).data
        assert (told["config"]["models"], told["rounds"]) == (["medium", "large"], own.rounds)
        assert service.learners["r"].observers["watch"].names == ("medium", "large")
    async with serving(tmp_path / "s.db", options) as (service, call):
        live: Any = service.learners["r"].live
        assert live.state()["counts"] == own.state()["counts"]


async def test_what_is_wrong_has_a_code(tmp_path):
    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", PLACE, MADE)
        for body, status, code in (
            ({}, 422, "invalid"),
            ({"remove": "small", "add": {"name": "x", "price": 1}}, 422, "invalid"),
            ({"remove": "none"}, 422, "invalid"),
            ({"add": {"name": "small", "price": 1}}, 422, "invalid"),
            ({"add": {"name": "x", "price": -1}}, 422, "invalid"),
        ):
            found = await call("PATCH", PLACE + "/models", body)
            assert (found.status, found.data["code"]) == (status, code), body
        stages = {"kind": "cascade", "stages": ["a", "b"], "stage_costs": [1, 2], "error_cost": 100}
        await call("PUT", "/v1/learners/c", stages)
        found = await call("PATCH", "/v1/learners/c/models", {"remove": "a"})
        assert (found.status, found.data["code"]) == (409, "not_offered")


async def test_the_file_adds_and_removes_models(tmp_path):
    async def started(models: list[str], prices: list[float]) -> Any:
        service = Service(opener(tmp_path / "s.db"), quick(durability="process"))
        await service.start()
        try:
            config = checked_learner("r", {**MADE, "models": models, "prices": prices})
            await settle(service, [("r", config)], "file")
            return service.learners["r"].settings()
        finally:
            await service.stop()

    await started(["small", "large"], [1, 20])
    told = await started(["small", "medium", "huge"], [1, 5, 40])
    assert (told["models"], told["prices"]) == (["small", "medium", "huge"], [1, 5, 40])
    told = await started(["small", "medium", "huge"], [1, 5, 40])
    assert told["models"] == ["small", "medium", "huge"]
    with pytest.raises(ConfigError, match="models"):
        await started(["medium", "small", "huge"], [1, 5, 40])


def test_the_client_changes_them(tmp_path):
    with local_service() as service:
        learner = service.create(
            "r", kind="router", models=["small", "large"], prices=[1, 20], error_cost=100
        )
        learner.add_model("medium", 5.0)
        learner.replace_model("small", name="tiny")
        learner.remove_model("large")
        assert learner.info()["config"]["models"] == ["tiny", "medium"]


async def test_the_pages_show_a_router_whose_settled_model_was_just_removed(tmp_path):
    """What is computed seldom held the number of a model that was gone: the list of all learners ended in a fault."""
    async with serving(tmp_path / "s.db") as (service, call):
        await call("PUT", PLACE, MADE)
        assert (await call("POST", PLACE + "/decide", {})).status == 200
        page = paged(service)
        assert (await page("GET", "/")).status == 200
        assert service.learners["r"].live.settled() == 1
        assert (await call("PATCH", PLACE + "/models", {"remove": "large"})).status == 200
        for path in ("/", "/learners/r"):
            assert (await page("GET", path)).status == 200
