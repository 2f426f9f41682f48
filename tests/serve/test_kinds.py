"""One learner of each kind through its routes."""

import asyncio
from pathlib import Path

import pytest
from tests.rig.harness import ALLOCATION, CASCADE, CONTEXTUAL, ROUTER, serving


async def test_a_cascade_is_made_asked_and_taught(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as (_, call):
        made = await call("PUT", "/v1/learners/triage", CASCADE)
        assert made.status == 201
        assert made.data["kind"] == "cascade"
        assert (await call("PUT", "/v1/learners/triage", CASCADE)).status == 200
        other = await call("PUT", "/v1/learners/triage", {**CASCADE, "error_cost": 11})
        assert (other.status, other.data["code"]) == (409, "exists")
        decided = (await call("POST", "/v1/learners/triage/decide", {}, idempotency_key="k")).data
        assert decided["id"] == 1
        assert decided["call"] == CASCADE["stages"][: decided["stage"] + 1]
        again = (await call("POST", "/v1/learners/triage/decide", {}, idempotency_key="k")).data
        assert again == {**decided, "repeated": True}
        outputs = {"outputs": ["spam", "ham", "ham"][: decided["stage"] + 1]}
        place = "/v1/learners/triage/decisions/1/feedback"
        assert (await call("POST", place, outputs)).data["result"] == "accepted"
        assert (await call("POST", place, outputs)).data == {"result": "duplicate", "id": 1}
        conflict = await call("POST", place, {"outputs": ["x"] * len(outputs["outputs"])})
        assert (conflict.status, conflict.data["code"]) == (409, "conflict")
        assert conflict.headers["content-type"] == "application/problem+json"
        report = (await call("GET", "/v1/learners/triage/report")).data
        assert report["rounds"] == 1
        assert report["seq"] == 2
        text = await call("GET", "/v1/learners/triage/report", accept="text/plain")
        assert text.body.startswith(b"Cascade of 3 stages")
        assert (await call("GET", "/v1/learners")).data["learners"][0]["name"] == "triage"


async def test_the_other_kinds_are_made_asked_and_taught(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as (_, call):
        for name, config in (("r", ROUTER), ("c", CONTEXTUAL), ("a", ALLOCATION)):
            assert (await call("PUT", f"/v1/learners/{name}", config)).status == 201
        routed = (await call("POST", "/v1/learners/r/decide")).data
        assert routed["call"] == ["small", "large"]
        fed = await call("POST", f"/v1/learners/r/decisions/{routed['id']}/feedback", {"outputs": ["a", "b"]})
        assert fed.data == {"result": "accepted", "id": 1, "differ": [[0, 1]], "wants_label": False}
        decided = (await call("POST", "/v1/learners/c/decide", {"context": [0.2, -0.7]})).data
        assert decided["call"] == ["a", "b"]
        fed = await call("POST", "/v1/learners/c/decisions/1/feedback", {"differ": []})
        assert fed.data["result"] == "accepted"
        wrong = await call("POST", "/v1/learners/c/decide", {"context": [0.2]})
        assert (wrong.status, wrong.data["code"]) == (422, "wrong_context")
        given = (await call("POST", "/v1/learners/a/decide", {"count": 2})).data["decisions"]
        assert sum(given[0]["allocation"].values()) <= 1.5 + 1e-9
        fed = await call("POST", "/v1/learners/a/decisions/2/feedback", {"observed": {"north": 1}})
        assert fed.data == {"result": "accepted", "id": 2}
        for name in "rca":
            report = await call("GET", f"/v1/learners/{name}/report")
            assert report.data["rounds"] == 1, report.data


async def test_a_page_of_decisions_lets_others_be_served(tmp_path: Path) -> None:
    async with serving(tmp_path / "s.db") as (_, call):
        await call("PUT", "/v1/learners/t", CASCADE)
        await call("POST", "/v1/learners/t/decide", {"count": 300})
        page = asyncio.create_task(call("GET", "/v1/learners/t/decisions?limit=300&status=all"))
        turns = 0
        while not page.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(page.result().data["decisions"]) == 300
        assert turns >= 300


async def test_ids_that_were_never_given_are_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path / "s.db") as (service, call):
        await call("PUT", "/v1/learners/t", CASCADE)
        await call("POST", "/v1/learners/t/decide", {})
        looked: list[int] = []
        decided = service.reader.decided  # type: ignore[union-attr]
        monkeypatch.setattr(
            service.reader, "decided", lambda learner, id: looked.append(id) or decided(learner, id)
        )
        for id in (0, 1, 2, 10**17):
            await call("GET", f"/v1/learners/t/decisions/{id}")
        assert looked == [1]
