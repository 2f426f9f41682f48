"""One learner of each kind through its routes."""

import asyncio
from typing import Any

import pytest
from tests.rig.harness import ALLOCATION, CASCADE, CONTEXTUAL, ROUTER, serving

from weakfeedback import Cascade, ContextualCascade
from weakfeedback.live.report import plain


async def test_a_cascade_is_made_asked_and_taught(tmp_path):
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


async def test_the_other_kinds_are_made_asked_and_taught(tmp_path):
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


async def test_a_page_of_decisions_lets_others_be_served(tmp_path):
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


async def test_ids_that_were_never_given_are_not_looked_for(tmp_path, monkeypatch):
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


@pytest.mark.parametrize("loss", [None, "squared"])
@pytest.mark.parametrize("kind", ["cascade", "contextual"])
async def test_answers_that_are_numbers_are_learned_as_by_the_live_object(tmp_path, kind, loss):
    """Outputs, distances and warm starts; the same decisions and report, also after a restart."""
    prices, power = ([1.0, 4.0, 9.0], 12.0), 2 if loss else 1

    def apart(a: float, b: float) -> float:
        return min((abs(a - b) / 2.0) ** power, 1.0)

    told: dict[str, Any] = {"loss": loss, "scale": 2.0} if loss else {"metric": apart}
    contexts = [[0.1 * (n % 9), -0.5] for n in range(30)]
    answers = [[float(n % 3), n % 3 + 0.2, 1.5] for n in range(30)]
    live: Any
    if kind == "cascade":
        live, rows = Cascade(3, *prices, seed=5, **told), {"outputs": answers[:3]}
        live.warm_start(answers[:3])
    else:
        live = ContextualCascade(3, *prices, seed=5, **told)
        rows = {"outputs": answers[:3], "contexts": contexts[:3]}
        live.warm_start(contexts[:3], answers[:3])
    stages: dict[str, Any] = {"stages": ["a", "b", "c"], "stage_costs": prices[0], "error_cost": prices[1]}
    compare = {"type": "number", "scale": 2.0} | ({"loss": loss} if loss else {})
    path, seen = tmp_path / "s.db", []
    for part in (range(15), range(15, 30)):
        async with serving(path) as (service, call):
            if part[0] == 0:
                made = {"kind": kind, **stages, "compare": compare, "seed": 5}
                assert (await call("PUT", "/v1/learners/n", made)).status == 201
                assert (await call("POST", "/v1/learners/n/warm-start", rows)).status == 200
            for n in part:
                given = {"context": contexts[n]} if kind == "contextual" else {}
                decided = (await call("POST", "/v1/learners/n/decide", given)).data
                twin = live.decide(contexts[n]) if given else live.decide()
                assert decided["stage"] == twin.arm
                said = answers[n][: twin.arm + 1]
                live.feedback(twin.id, said)
                far = [apart(a, b) for k, a in enumerate(said) for b in said[k + 1 :]]
                fed = {"distance": far} if n % 2 else {"outputs": said}
                reply = await call("POST", f"/v1/learners/n/decisions/{decided['id']}/feedback", fed)
                assert reply.data["result"] == "accepted", reply.data
                seen.append(twin.arm)
            report = (await call("GET", "/v1/learners/n/report")).data
            assert report["policy"] == "USS-mean"
            shown = str(service.learners["n"].live.report())
    assert report["rounds"] == 30
    assert len(set(seen)) > 1
    words = live.report()
    assert report["details"]["disagreement"] == plain(words.disagreement)
    assert ("calibrated" in shown) == (loss is not None)


async def test_a_loss_that_a_kind_cannot_take_is_refused(tmp_path):
    squared = {"compare": {"type": "number", "scale": 2.0, "loss": "squared"}}
    wrong = {
        "compare.loss must be left out for a router": {**ROUTER, **squared},
        "compare must be exact or text": {**CONTEXTUAL, "kind": "adaptive", **squared},
        "options must leave out scale": {**CONTEXTUAL, **squared, "options": {"scale": 1.0}},
        "options must be those of the policy, got 'loss'": {**CONTEXTUAL, "options": {"loss": "squared"}},
        "compare.loss must be": {**CASCADE, "compare": {"type": "number", "scale": 2.0, "loss": "cubic"}},
    }
    async with serving(tmp_path / "s.db") as (_, call):
        for words, config in wrong.items():
            reply = await call("PUT", "/v1/learners/n", config)
            assert (reply.status, reply.data["code"]) == (422, "invalid"), reply.data
            assert words in reply.data["detail"]
