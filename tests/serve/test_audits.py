"""Audits, certificates, explanations, archives and the log, through their routes."""

import json
from typing import Any

import pytest
from tests.rig.harness import quick, run, serving

from weakfeedback import Cascade
from weakfeedback.serve.models import WarmStartRequest

CONFIG = {"kind": "cascade", "stages": ["a", "b"], "stage_costs": [1.0, 30.0], "error_cost": 100.0, "seed": 0}
PLACE = "/v1/learners/t"


def outputs_of(n: int) -> list[bool]:
    return [n % 10 > 2, n % 10 > 3]


async def test_an_audit_in_two_steps_equals_that_of_the_library(tmp_path):
    own: Any = Cascade(2, [1.0, 30.0], 100.0, seed=0)

    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        await call("PUT", PLACE, CONFIG)
        for n in range(40):
            told = (await call("POST", PLACE + "/decide", {})).data
            sent = {"outputs": outputs_of(n)[: told["stage"] + 1]}
            await call("POST", f"{PLACE}/decisions/{told['id']}/feedback", sent)
            assert own.decide().arm == told["stage"]
            own.feedback(told["id"], sent["outputs"])
        rows = [outputs_of(n) for n in range(100)]
        body = {"outputs": rows, "arm": 1, "alpha": 0.1}
        begun = (await call("POST", PLACE + "/audits", body)).data
        assert begun["rows"] == [n for n in range(100) if n % 10 == 3]
        assert begun.get("verdict") is None
        place = f"{PLACE}/audits/{begun['id']}"
        labels = {"labels": {str(n): n % 10 > 2 for n in begun["rows"]}}
        wrong = await call("POST", place + "/labels", {"labels": {"0": True}})
        assert (wrong.status, wrong.data["code"]) == (422, "wrong_label")
        ended = (await call("POST", place + "/labels", labels)).data
        expected = own.audit_outputs(rows, [n % 10 > 2 for n in range(100)], 0.1, 1)
        assert (ended["verdict"], ended["low"], ended["high"]) == (
            expected.verdict,
            expected.low,
            expected.high,
        )
        assert ended["labels"] == expected.labels == 10
        assert (await call("POST", place + "/labels", labels)).data == ended  # once more changes nothing
        other = await call("POST", place + "/labels", {"labels": {str(n): False for n in begun["rows"]}})
        assert (other.status, other.data["code"]) == (409, "conflict")
        assert (await call("GET", PLACE + "/audits/7")).status == 404
        report = (await call("GET", PLACE + "/report")).data
        assert report["weak_dominance"].endswith(f"Last audit: {expected.verdict}.")
        learner = service.learners["t"]
        learner.pictured = learner.seq
    async with serving(tmp_path / "s.db") as (_, call):  # it is in the log
        assert (await call("GET", place)).data == ended
        certificate = (await call("GET", PLACE + "/certificate?alpha=0.1")).data
        assert certificate["verdict"] == own.certificate(0.1).verdict
        assert (
            (await call("GET", PLACE + "/decisions/40/explain"))
            .data["text"]
            .startswith("Decision 40: stop at")
        )
        assert (await call("GET", PLACE + "/decisions/41/explain")).data["code"] == "not_explained"


async def test_an_archived_learner_decides_no_more_but_learns_what_is_open(tmp_path):
    async with serving(tmp_path / "s.db") as (_, call):
        await call("PUT", PLACE, CONFIG)
        told = (await call("POST", PLACE + "/decide", {})).data
        assert (await call("DELETE", PLACE)).data["archived"] is True
        assert (await call("DELETE", PLACE)).status == 200
    async with serving(tmp_path / "s.db") as (_, call):
        refused = await call("POST", PLACE + "/decide", {})
        assert (refused.status, refused.data["code"]) == (409, "archived")
        sent = {"outputs": [1] * (told["stage"] + 1)}
        assert (await call("POST", PLACE + "/decisions/1/feedback", sent)).data["result"] == "accepted"


async def test_the_log_can_be_read_in_pages_and_lines_and_keeps_outputs_only_if_told(tmp_path):
    async with serving(tmp_path / "s.db") as (_, call):
        for name, keep in (("t", False), ("kept", True)):
            await call("PUT", f"/v1/learners/{name}", {**CONFIG, "keep_outputs": keep})
            told = (await call("POST", f"/v1/learners/{name}/decide", {}, idempotency_key="k")).data
            sent = {"outputs": ["personal"] * (told["stage"] + 1)}
            await call("POST", f"/v1/learners/{name}/decisions/1/feedback", sent)
        events = (await call("GET", PLACE + "/events?after=0&limit=1")).data["events"]
        assert [(event["seq"], event["kind"], event["key"]) for event in events] == [(1, "decide", "k")]
        lines = (await call("GET", PLACE + "/events", accept="application/x-ndjson")).body.splitlines()
        assert [json.loads(line)["kind"] for line in lines] == ["create", "decide", "feedback"]
        assert not any(b"personal" in line for line in lines)
        kept = (await call("GET", "/v1/learners/kept/events")).data["events"]
        assert kept[2]["body"]["outputs"] == sent["outputs"]
    assert b"personal" in (tmp_path / "s.db").read_bytes()


def test_compiled_learners_decide_the_same_and_take_over_while_they_serve(tmp_path):
    import asyncio

    async def play(compiled: bool, file: str) -> list[Any]:
        async with serving(tmp_path / file, quick(compiled=compiled, durability="process")) as (
            service,
            call,
        ):
            await call("PUT", PLACE, CONFIG)
            found = []
            for n in range(60):
                told = (await call("POST", PLACE + "/decide", {})).data
                sent = {"outputs": outputs_of(n)[: told["stage"] + 1]}
                await call("POST", f"{PLACE}/decisions/{told['id']}/feedback", sent)
                found.append(told["stage"])
                if compiled and n == 20:
                    while not service.learners["t"].live.compiled:
                        await asyncio.sleep(0.01)
            explained = (await call("GET", PLACE + "/decisions/5/explain")).data["text"]
            return [found, explained, (await call("GET", PLACE + "/report")).data]

    assert run(play(True, "a.db")) == run(play(False, "b.db"))


async def test_warm_starts_calibrations_and_audits_count_once_with_a_key(tmp_path):
    adaptive = {**CONFIG, "kind": "adaptive"}
    rows = [[1, 1], [1, 0], [0, 0]]
    requests = {
        "t/warm-start": {"outputs": rows},
        "t/audits": {"outputs": rows, "arm": 1, "alpha": 0.1},
        "told/calibrate": {"outputs": rows, "truth": [1, 0, 0]},
    }

    first = {}
    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        await call("PUT", PLACE, CONFIG)
        await call("PUT", "/v1/learners/told", adaptive)
        for path, body in requests.items():
            reply = await call("POST", f"/v1/learners/{path}", body, idempotency_key=path)
            assert reply.status == 200, reply.body
            first[path] = reply.data
        for learner in service.learners.values():
            learner.pictured = learner.seq  # no snapshot: the next one replays
    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        before = {name: one.seq for name, one in service.learners.items()}
        for path, body in requests.items():
            place = f"/v1/learners/{path}"
            again = await call("POST", place, body, idempotency_key=path)
            repeated = {"repeated": True} if "repeated" in first[path] else {}
            assert (again.status, again.data) == (200, {**first[path], **repeated})
            turned = {**body, "outputs": [[0, 0], [0, 1], [1, 1]]}  # they differ where the others did
            other = await call("POST", place, turned, idempotency_key=path)
            assert (other.status, other.data["code"]) == (409, "conflict")
        assert {name: one.seq for name, one in service.learners.items()} == before
        mixed = await call("POST", PLACE + "/decide", {}, idempotency_key="t/audits")
        assert (mixed.status, mixed.data["code"]) == (422, "key_reused")
        mixed = await call("POST", PLACE + "/warm-start", {"outputs": rows}, idempotency_key="t/audits")
        assert (mixed.status, mixed.data["code"]) == (422, "key_reused")
        for path, body in requests.items():  # without the key it is another one
            assert (await call("POST", f"/v1/learners/{path}", body)).status == 200
        assert {name: one.seq for name, one in service.learners.items()} == {
            "t": before["t"] + 2,
            "told": before["told"] + 1,
        }


async def test_an_old_warm_start_is_known_by_its_key_and_its_rows(tmp_path):
    """Stores of earlier versions have no digest of what was sent with the key."""
    rows = [[1, 1], [1, 0]]

    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        await call("PUT", PLACE, CONFIG)
        learner = service.learners["t"]
        await service.steps.run(learner, learner.warm, WarmStartRequest(outputs=rows), "k", None)
        again = await call("POST", PLACE + "/warm-start", {"outputs": rows}, idempotency_key="k")
        assert (again.status, again.data) == (200, {"rows": 2, "repeated": True})
        more = {"outputs": [*rows, [0, 0]]}
        other = await call("POST", PLACE + "/warm-start", more, idempotency_key="k")
        assert (other.status, other.data["code"]) == (409, "conflict")


async def test_prices_at_which_nothing_can_pay_are_told_at_once_with_the_name(tmp_path, caplog):
    async with serving(tmp_path / "s.db") as (_, call):
        config = {"kind": "router", "models": ["small", "large"], "prices": [1, 20], "error_cost": 19}
        made = await call("PUT", "/v1/learners/mail", config)
        mended = await call("PATCH", "/v1/learners/mail/costs", {"error_cost": 19.5})
        spoilt = await call("PATCH", "/v1/learners/mail/costs", {"prices": [1, 21]})
        # the live object is silent here, for all warnings are errors
        config = {"kind": "cascade", "stages": ["a", "b"], "stage_costs": [1, 20], "error_cost": 20}
        staged = await call("PUT", "/v1/learners/staged", config)
        made, mended, spoilt, staged = (
            made.data["warning"],
            mended.data.get("warning"),
            spoilt.data["warning"],
            staged.data["warning"],
        )
    assert made == (
        "learner mail: large costs 19 more, and a wrong answer only 19: nothing after small can ever pay; "
        "is error_cost what you meant?"
    )
    assert mended is None
    assert "large costs 20 more, and a wrong answer only 19.5" in spoilt
    assert staged.startswith("learner staged: b costs 20, and a wrong answer only 20")
    assert caplog.messages == [made, spoilt, staged]


@pytest.mark.parametrize(
    ("kind", "policy", "missing"),
    [("cascade", "USS-A", "Promise"), ("cascade", "Promise", "Agreement"), ("adaptive", "USS-WD", "USS-TS")],
)
async def test_a_policy_of_another_kind_of_learner_is_refused_with_the_names_of_those_that_there_are(
    tmp_path, kind, policy, missing
):
    async with serving(tmp_path / "s.db") as (_, call):
        config = {
            "kind": kind,
            "stages": ["a", "b"],
            "stage_costs": [1, 2],
            "error_cost": 9,
            "policy": policy,
        }
        refused = await call("PUT", "/v1/learners/mail", config)
    assert (refused.status, refused.data["code"]) == (422, "invalid")
    names = refused.data["detail"].split(", got ")[0].removeprefix("policy must be one of ").split(", ")
    assert ("USS-TS" in names, "USS-A" in names) == (kind == "cascade", kind == "adaptive")
    assert missing not in names


async def test_an_audit_that_would_tell_nothing_is_refused_before_labels_are_bought(tmp_path):
    promised = {"kind": "router", "models": ["a", "b"], "prices": [1, 20], "agree": 0.9}
    async with serving(tmp_path / "s.db") as (_, call):
        await call("PUT", "/v1/learners/p", promised)
        reply = await call("POST", "/v1/learners/p/audits", {"outputs": [["x", "y"]]})
        assert (reply.status, reply.data["code"]) == (409, "not_offered")
