"""A promise over HTTP: as the live object decides, changed while it runs, over restarts."""

import math
import random
import shutil
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rig.harness import quick, serving
from tests.serve.test_page import paged, text_of

from weakfeedback import Cascade, Router, Scored
from weakfeedback.client import local_service
from weakfeedback.journal import SqliteStore
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.page.promise import offers_of
from weakfeedback.serve.page.routes import Page

PLACE = "/v1/learners/p"
NAMES = ["small", "large"]
ROUTER = {
    "kind": "router",
    "models": NAMES,
    "prices": [1, 20],
    "agree": 0.9,
    "seed": 3,
    "options": {"memory": 64},
}
STEPS = {
    "kind": "adaptive",
    "stages": NAMES,
    "stage_costs": [1, 20],
    "agree": 0.9,
    "seed": 3,
    "options": {"memory": 64},
}


async def test_a_router_over_http_is_the_router_and_its_promise_changes_by_an_event(tmp_path):
    own: Any = Router(2, [1, 20], agree=0.9, seed=3, memory=64, names=NAMES)

    async def play(call: Any, start: int, end: int) -> None:
        for n in range(start, end):
            group = "even" if n % 2 == 0 else "odd"
            told = (await call("POST", PLACE + "/decide", {"group": group})).data
            decision = own.decide(group=group)
            assert (told["stage"], told["call"]) == (decision.answer, [NAMES[k] for k in decision.call])
            if len(decision.call) > 1:
                outputs = ["x" if n % 20 == 0 else "a", "a"]
                own.feedback(decision.id, outputs)
                path = f"{PLACE}/decisions/{told['id']}/feedback"
                assert (await call("POST", path, {"outputs": outputs})).data["result"] == "accepted"

    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        made = await call("PUT", PLACE, ROUTER)
        assert (made.status, made.data["policy"], made.data["config"]["agree"]) == (201, "Promise", 0.9)
        await play(call, 0, 90)
        changed = (await call("PATCH", PLACE + "/costs", {"agree": 0.8})).data
        assert (changed["revision"], changed["config"]["agree"]) == (made.data["revision"] + 1, 0.8)
        own.promise(agree=0.8)
        again = (await call("PATCH", PLACE + "/costs", {"agree": 0.8})).data
        assert again["revision"] == changed["revision"]
        await play(call, 90, 130)
        both = await call("PATCH", PLACE + "/costs", {"agree": 0.9, "prices": [1, 30]})
        assert (both.status, both.data["code"]) == (422, "invalid")
        wrong = await call("PATCH", PLACE + "/costs", {"reference": "huge"})
        assert (wrong.status, wrong.data["code"]) == (422, "invalid")
    async with serving(tmp_path / "s.db") as (_, call):
        await play(call, 130, 170)
        report = (await call("GET", PLACE + "/report")).data
        expected = own.report()
        assert report["promise"]["words"] == str(expected).splitlines()
        assert report["saved"]["amount"] == pytest.approx(expected.saved)
        assert report["details"]["by_group"] == expected.to_dict()["by_group"]
        certificate = (await call("GET", PLACE + "/certificate")).data
        assert certificate["differ_at_most"] == own.certificate().differ_at_most
        assert certificate["text"] == str(own.certificate())
        settings = (await call("GET", PLACE)).data["config"]
        assert (settings["agree"], settings["reference"]) == (0.8, None)
        text = (await call("GET", "/metrics")).body.decode()
        assert 'weakfeedback_promise_differ{learner="p"}' in text
        assert 'weakfeedback_promise_allowance{learner="p"}' in text


async def test_a_router_that_answers_early_is_served_again(tmp_path):
    """Also from a snapshot of before, in which pairs with an early answer are counted the wrong way round."""
    path, own = tmp_path / "s.db", []
    config = {**ROUTER, "models": ["s", "m", "l"], "prices": [1, 3, 20], "background": True}

    async def play(call: Any, rounds: int) -> None:
        for n in range(rounds):
            told = (await call("POST", PLACE + "/decide", {})).data
            own.append(told["call"])
            if len(told["call"]) > 1:
                outputs = ["b" if n % 25 == 0 and k == "s" else "a" for k in told["call"]]
                sent = await call("POST", f"{PLACE}/decisions/{told['id']}/feedback", {"outputs": outputs})
                assert sent.data["result"] == "accepted"

    async with serving(path, quick(durability="process")) as (_, call):
        await call("PUT", PLACE, config)
        await play(call, 150)
        assert ["l", "s"] in own
    async with serving(path, quick(durability="process")) as (service, call):
        await play(call, 50)
        known = service.learners["p"]
        compared = known.core.counts.compared.tolist()
        body, seq = known.picture(), known.seq
        known.pictured = seq
    assert compared[0][2] == sum({"s", "l"} <= set(one) for one in own)
    kept = body["state"]["counts"]["compared"]["data"]
    kept[2], kept[6] = kept[2] - 5, kept[6] + 5
    with SqliteStore.open(path) as store:
        store.add_snapshot(known.id, seq, 2**50, body)
        for snapshot in list(store.snapshots(known.id))[1:]:
            store._connection.execute("DELETE FROM snapshot WHERE seq = ?", (snapshot.seq,))
        assert store.compact(known.id, 2**51) == seq
    async with serving(path, quick(durability="process")) as (service, call):
        assert service.learners["p"].core.counts.compared.tolist() == compared
        await play(call, 5)


@pytest.mark.parametrize("background", [False, True])
async def test_a_repeated_output_gets_its_answer_whichever_stages_were_called(tmp_path, background):
    stages = {"stages": ["s", "m", "l"], "stage_costs": [1, 2, 20], "agree": 0.6, "background": background}
    early = between = 0
    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", PLACE, {**STEPS, **stages})
        for n in range(150):
            if n == 140:
                await call("PATCH", PLACE + "/costs", {"paused": True})  # only the reference is called
            begun = (await call("POST", PLACE + "/begin", {})).data
            stage, told = begun["stage"], []
            while stage is not None:
                body = {"output": "a", "stage": stage}
                answer = (await call("POST", f"{PLACE}/decisions/{begun['id']}/tell", body)).data
                told.append((body, answer))
                stage = answer["stage"]
                for body, answer in told:
                    reply = await call("POST", f"{PLACE}/decisions/{begun['id']}/tell", body)
                    expected = {**answer, "repeated": True} if stage is None else answer
                    assert (reply.status, reply.data) == (200, expected)
                    goes_out = answer["answer"] is not None and answer["stage"] is not None
                    early, between = early + goes_out, between + (goes_out and len(told) == 2 and stage == 2)
            last = {"output": "a"}  # without a stage the last one
            reply = await call("POST", f"{PLACE}/decisions/{begun['id']}/tell", last)
            assert reply.data == {**told[-1][1], "repeated": True}
    assert (early > 0, between > 0) == (background, background)


async def test_an_output_for_a_round_that_another_reference_has_ended_is_refused(tmp_path):
    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", PLACE, {**STEPS, "stages": ["s", "m", "l"], "stage_costs": [1, 5, 20]})
        assert (await call("POST", PLACE + "/begin", {})).data["stage"] == 0
        place = PLACE + "/decisions/1/tell"
        assert (await call("POST", place, {"output": "a", "stage": 0})).data["stage"] == 1
        assert (await call("PATCH", PLACE + "/costs", {"reference": "s"})).status == 200
        for stage in (0, 1):
            late = await call("POST", place, {"output": "a", "stage": stage})
            assert (late.status, late.data["code"]) == (410, "cancelled")


async def test_a_promise_is_paused_shadowed_and_turned_on_over_http(tmp_path):
    own: Any = Router(2, [1, 20], agree=0.9, seed=3, memory=64, names=NAMES)
    calls: list[tuple[str, ...]] = []

    async def play(call: Any, start: int, end: int) -> None:
        for n in range(start, end):
            told = (await call("POST", PLACE + "/decide", {})).data
            decision = own.decide()
            calls.append(tuple(told["call"]))
            assert told["call"] == [NAMES[k] for k in decision.call]
            if len(decision.call) > 1:
                outputs = ["x" if n % 25 == 0 else "a", "a"]
                own.feedback(decision.id, outputs)
                await call("POST", f"{PLACE}/decisions/{told['id']}/feedback", {"outputs": outputs})

    async def change(call: Any, **news: bool) -> Any:
        own.promise(**news)
        return (await call("PATCH", PLACE + "/costs", news)).data

    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", PLACE, ROUTER)
        await play(call, 0, 200)
        assert ("small",) in calls
        told = await change(call, paused=True)
        assert (told["paused"], told["config"]["shadow"]) == (True, False)
        assert (await change(call, paused=True))["revision"] == told["revision"]
        calls.clear()
        await play(call, 200, 260)
        assert set(calls) == {("large",)}
    async with serving(tmp_path / "s.db") as (_, call):  # the pause survives the restart
        calls.clear()
        await play(call, 260, 280)
        assert set(calls) == {("large",)}
        words = (await call("GET", PLACE + "/report")).data["promise"]["words"]
        assert "Paused: large answers everything; nothing is compared, nothing is learned." in words
        await change(call, paused=False)
        while len((await call("POST", PLACE + "/decide", {})).data["call"]) == 1:  # one stays open
            own.decide()
        own.decide()
        told = await change(call, shadow=True)
        assert (told["paused"], told["config"]["shadow"], told["pending"]) == (False, True, 0)
        calls.clear()
        await play(call, 280, 400)
        assert ("small",) not in calls
    async with serving(tmp_path / "s.db") as (_, call):
        report = (await call("GET", PLACE + "/report")).data
        expected = own.report()
        assert report["promise"]["words"] == str(expected).splitlines()
        assert report["details"]["shadow"] == expected.shadow
        assert expected.shadow["requests"] == 120
        assert 0.0 < expected.differ <= expected.differ_at_most  # of what went out before
        told = await change(call, shadow=False)
        assert told["config"]["shadow"] is False
        calls.clear()
        await play(call, 400, 500)
        assert ("small",) in calls
        assert (await call("GET", PLACE + "/report")).data["promise"]["state"] == own.report().state
        await call("PUT", "/v1/learners/q", {**ROUTER, "agree": None, "error_cost": 10, "options": {}})
        refused = await call("PATCH", "/v1/learners/q/costs", {"paused": True})
        assert (refused.status, refused.data["code"]) == (409, "not_offered")


async def test_rounds_over_http_begin_anywhere_and_a_stage_may_fail(tmp_path):
    own: Any = Cascade(2, [1, 20], agree=0.9, seed=3, memory=64, names=NAMES)

    async def play(call: Any, start: int, end: int) -> None:
        for n in range(start, end):
            told = (await call("POST", PLACE + "/begin", {"group": "g"}, **{"idempotency-key": f"k{n}"})).data
            again = (
                await call("POST", PLACE + "/begin", {"group": "g"}, **{"idempotency-key": f"k{n}"})
            ).data
            assert (again["id"], again["repeated"]) == (told["id"], True)  # a retry earns nothing
            step = own.begin(group="g")
            while step.answer is None:
                assert (told["stage"], told["name"]) == (step.stage, NAMES[step.stage])
                fails, stage = n % 7 == 3 and step.stage == 0, step.stage
                score = (n % 11) / 11
                said = {"output": None, "failed": True} if fails else {"output": "a", "score": score}
                path = f"{PLACE}/decisions/{told['id']}/tell"
                told = (await call("POST", path, {**said, "stage": stage})).data
                step = own.tell(step.id, RuntimeError() if fails else Scored("a", score), stage)
            assert told["answer"] == step.answer.arm

    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", PLACE, STEPS)
        await play(call, 0, 70)
    async with serving(tmp_path / "s.db") as (service, call):
        await play(call, 70, 100)
        report = (await call("GET", PLACE + "/report")).data
        assert report["promise"]["words"] == str(own.report()).splitlines()
        watch = service.learners["p"].observers["watch"]
        assert watch.spent == pytest.approx(own.report().spent)
        assert watch.spent + watch.saved == pytest.approx(own.report().reference_alone)
        await call("PATCH", PLACE + "/costs", {"paused": True})
        told = (await call("POST", PLACE + "/begin", {})).data
        assert told["name"] == "large"
        told = (await call("POST", f"{PLACE}/decisions/{told['id']}/tell", {"output": "a"})).data
        assert told["answer"] == 1
        moved = (await call("PATCH", PLACE + "/costs", {"budget": 5.0})).data["config"]
        assert (moved["agree"], moved["budget"]) == (None, 5.0)


@pytest.mark.parametrize("kind", ["router", "adaptive"])
async def test_the_service_says_when_to_ask_the_reference_a_second_time(tmp_path, kind):
    """Each third second answer differs: over HTTP, over a restart, in the report; told twice it counts once."""
    luck, config = random.Random(1), {**(ROUTER if kind == "router" else STEPS), "agree": 0.6}

    async def request(call: Any, n: int, said: str) -> dict[str, Any]:
        if kind == "adaptive":
            told = (await call("POST", PLACE + "/begin", {})).data
            while told["answer"] is None:
                fed = {"output": "a", "stage": told["stage"], "score": luck.random()}
                told = (await call("POST", f"{PLACE}/decisions/{told['id']}/tell", fed)).data
            return dict(told)
        told = (await call("POST", PLACE + "/decide", {})).data
        if len(told["call"]) == 1:
            return dict(told)
        fed = {"differ": []} if said == "differs" else {"outputs": ["a", "a"]}
        return dict((await call("POST", f"{PLACE}/decisions/{told['id']}/feedback", fed)).data)

    async def play(call: Any, start: int, end: int) -> list[int]:
        asked: list[int] = []
        for n in range(start, end):
            said = "differs" if n % 2 and kind == "router" else "output"
            told = await request(call, n, said)
            if "again" not in told:
                continue
            assert told["again"] == "large"
            assert (await call("GET", f"{PLACE}/decisions/{told['id']}")).data["again"] == "large"
            differs = len(asked) % 3 == 0
            body = {"differs": differs} if said == "differs" else {"output": "b" if differs else "a"}
            for result in ("accepted", "duplicate"):
                answer = await call("POST", f"{PLACE}/decisions/{told['id']}/again", {**body, "cost": 19.0})
                assert answer.data == {"result": result, "id": told["id"], "differs": differs}
            assert "again" not in (await call("GET", f"{PLACE}/decisions/{told['id']}")).data
            asked.append(told["id"])
        return asked

    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        made = await call("PUT", PLACE, config)
        assert (made.status, made.data["config"]["self_check"]) == (201, False)
        assert await play(call, 0, 120) == []
        changed = (await call("PATCH", PLACE + "/costs", {"self_check": True})).data
        assert (changed["config"]["self_check"], changed["revision"]) == (True, 2)
        asked = await play(call, 120, 260)
        assert len(asked) > 8
        for wrong, code in (({}, "wrong_outputs"), ({"output": 1, "differs": True}, "wrong_outputs")):
            service.learners["p"].again[asked[0]] = (1.0, 1)
            answer = await call("POST", f"{PLACE}/decisions/{asked[0]}/again", wrong)
            assert (answer.status, answer.data["code"]) == (422, code)
        unknown = await call("POST", f"{PLACE}/decisions/1/again", {"output": "a"})
        assert (unknown.status, unknown.data["code"]) == (410, "forgotten")
        before = (await call("GET", PLACE + "/report")).data
    async with serving(tmp_path / "s.db") as (service, call):
        after = (await call("GET", PLACE + "/report")).data
        found = after["details"]["self_check"]
        assert found == before["details"]["self_check"]
        assert (found["calls"], found["differed"]) == (len(asked), math.ceil(len(asked) / 3))
        assert found["spent"] == 19.0 * len(asked)
        assert found["differs_at_least"] <= found["differs"] <= found["differs_at_most"]
        assert after["spent"] == pytest.approx(service.learners["p"].observers["watch"].spent)
        assert after["spent"] == pytest.approx(service.learners["p"].money()[0])
        assert any("large, asked twice, gives the same answer in" in one for one in after["promise"]["words"])
        page = text_of(await paged(service)("GET", "/learners/p"))
        assert "large, asked twice, gives the same answer in" in page
        gone = await call("POST", f"{PLACE}/decisions/{asked[-1]}/again", {"output": "a"})
        assert gone.data["code"] == "forgotten"  # it counts once
        await call("PATCH", PLACE + "/costs", {"self_check": False})
        assert await play(call, 260, 320) == []


async def test_a_restored_copy_does_not_give_the_allowance_back(tmp_path):
    async def ask(call: Any, times: int) -> None:
        for _ in range(times):
            told = (await call("POST", PLACE + "/decide", {})).data
            if len(told["call"]) > 1:
                await call("POST", f"{PLACE}/decisions/{told['id']}/feedback", {"outputs": ["a", "a"]})

    async def left(call: Any) -> float:
        found: float = (await call("GET", PLACE + "/report")).data["details"]["allowance"]
        return found

    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", PLACE, ROUTER)
        await ask(call, 60)
        assert await left(call) == pytest.approx(6.0)
    shutil.copy(tmp_path / "s.db", tmp_path / "copy.db")
    async with serving(tmp_path / "s.db") as (_, call):
        assert await left(call) == pytest.approx(6.0)  # the store itself goes on
    async with serving(tmp_path / "copy.db") as (_, call):
        assert await left(call) == 0.0
        await ask(call, 10)
    async with serving(tmp_path / "copy.db") as (_, call):
        assert await left(call) == pytest.approx(1.0)  # an event, once


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agree": None}, "agree=0.95"),
        ({"agree": 1.0}, "agree"),
        ({"agree": 0.9, "budget": 3.0}, "budget must stand alone"),
        ({"reference": "huge"}, "reference must be one of small, large"),
        ({"agree": None, "error_cost": 10, "shadow": True}, "shadow goes with a promise"),
    ],
)
async def test_configurations_that_contradict_themselves_are_explained(tmp_path, change, words):
    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        for config in (ROUTER, STEPS):
            told = await call("PUT", PLACE, {**config, **change})
            assert told.status == 422
            assert words in told.data["detail"]
        assert not service.learners
        await call("PUT", PLACE, {**ROUTER, "agree": None, "error_cost": 10.0, "options": {}})
        refused = await call("PATCH", PLACE + "/costs", {"agree": 0.9})
        assert (refused.status, refused.data["code"]) == (409, "not_offered")
        grouped = await call("POST", PLACE + "/decide", {"group": "a"})
        assert grouped.data["code"] == "wrong_context"


async def test_the_page_says_what_was_promised_and_what_differs(tmp_path):
    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        await call("PUT", PLACE, {**ROUTER, "currency": "EUR"})
        for n in range(90):
            told = (await call("POST", PLACE + "/decide", {"group": "ab"[n % 2]})).data
            if len(told["call"]) > 1:
                await call("POST", f"{PLACE}/decisions/{told['id']}/feedback", {"outputs": ["a", "a"]})
        shown = await Page(service, Auth(), lambda _: {}).learner("p", "15m")
        assert shown["summary"]["headline"]["rest"].endswith(" 90 were promised.")
        assert shown["summary"]["other"]["high"] != "0"
        said = [one["text"] for one in shown["summary"]["trust"]]
        assert "It holds on average over our coins." in said
        assert any(text.startswith("Too early: before 1000 requests") for text in said)
        assert any(text.startswith("Not known: whether large is right.") for text in said)
        assert (shown["watched"], shown["audited"]) == (False, False)
        card = shown["promise"]
        assert (card["words"], card["agree"], card["eps"]) == ("90 % as from large", "90 %", "10 %")
        assert (card["badge"], card["kept"]) == ("kept", True)
        assert (card["allowance"]["left"], card["allowance"]["bucket"]) == ("9", "100")
        report = service.learners["p"].live.report()
        bound = 100 * min(report.differ_at_most / 0.2, 1.0)  # the gauge runs to twice what may differ
        assert (card["gauge"]["lim"], card["gauge"]["sure"]) == (50.0, pytest.approx(bound, abs=0.06))
        groups = shown["groups"]
        assert [row["requests"] for row in groups["rows"]] == ["45", "45"]
        money = [float(row["spent"].replace(",", "")) for row in (*groups["rows"], groups["all"])]
        assert sum(money[:2]) == pytest.approx(money[2])
        assert groups["near"] == "No group is above 10 %."
        page = paged(service)
        html, overview = text_of(await page("GET", "/learners/p")), text_of(await page("GET", "/"))
        assert "At least 90 % of the answers as from large." in html
        assert f"at most {math.ceil(report.differ_at_most * 90)}, 95 % sure" in html
        assert "Each request adds 0.1." in html
        assert "90 % as from large" in overview
        assert "One promise is kept." in overview


async def test_a_promise_at_risk_and_a_shadow_say_so_first(tmp_path):
    """The cheap model begins to differ in every request: the allowance is used up, and the reference answers."""

    second, start = 1_000_000, 1_699_960_000_000_000
    now = start
    options = quick(durability="process", clock=lambda: now)

    async with serving(tmp_path / "s.db", options) as (service, call):
        await call("PUT", PLACE, {**ROUTER, "options": {"memory": 64, "bucket": 5}})
        await call("PUT", "/v1/learners/q", {**ROUTER, "shadow": True})
        for name in "pq":
            for n in range(225):
                now = start + 30 * n * second
                told = (await call("POST", f"/v1/learners/{name}/decide", {})).data
                if len(told["call"]) > 1:
                    said = ["b" if name == "p" and n > 200 else "a", "a"]
                    place = f"/v1/learners/{name}/decisions/{told['id']}/feedback"
                    await call("POST", place, {"outputs": said})
        page = paged(service)
        overview = text_of(await page("GET", "/"))
        first = (await call("GET", PLACE + "/report")).data["details"]["risk_since"]
        assert 200 < first <= 225
        when = f"{datetime.fromtimestamp((start // second + 30 * (first - 1)) // 60 * 60, UTC):%H:%M} UTC"
        assert f"At risk: p : large answers everything since {when}; it goes on by itself." in overview
        assert "One promise is at risk." in overview
        risky = text_of(await page("GET", "/learners/p"))
        shadow = text_of(await page("GET", "/learners/q"))
        since = "The allowance is used up since {}: large answers everything; it goes on by itself."
        assert since.format(when) in risky
        assert "The promise is kept whatever changes" in risky
        assert "USS-TS-drift" not in risky
        assert since.format(f"request {first}") in await service.report_text("p")
        assert "Safe to turn on since request" in shadow
        assert "would differ: about 0 %, at most" in overview
    async with serving(tmp_path / "s.db", options) as (service, call):  # it is kept over a restart
        assert since.format(when) in text_of(await paged(service)("GET", "/learners/p"))


def test_the_client_names_groups_and_changes_the_promise():
    with local_service() as service:
        learner = service.create("p", **{k: v for k, v in ROUTER.items() if k != "options"})
        decision = learner.decide(group="mail")
        assert learner.feedback(decision.id, ["a", "a"]) == "accepted"
        learner.promise(budget=3.0)
        report = learner.report()
        assert list(report["details"]["by_group"]) == ["mail"]
        assert report["details"]["settings"]["budget"] == 3.0
        steps = service.create("s", **{k: v for k, v in STEPS.items() if k != "options"})
        step = steps.begin(group="mail")
        while step.stage is not None:
            step = steps.tell(step, "a", score=0.5)
        assert list(steps.report()["details"]["by_group"]) == ["mail"]


async def test_prices_at_which_nothing_can_pay_are_told_in_the_log_alone(tmp_path, caplog, monkeypatch):
    """A warning of the live object would be an error here, and a line that is no log line in production."""
    for again in (False, True):
        async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
            if not again:
                assert (await call("PUT", PLACE, ROUTER)).status == 201
                assert (await call("PATCH", PLACE + "/costs", {"prices": [20, 20]})).status == 200
                assert "learner p: nothing can be saved: large is the cheapest model" in caplog.text
            assert (await call("POST", PLACE + "/decide", {})).data["call"] == ["large"]
            kind = service.learners["p"].kind
            make = kind.again
            monkeypatch.setattr(kind, "again", lambda state, _, make=make: make(state, False))
            assert service.learners["p"].compiled().report().state == "nothing to save"


async def test_what_is_sure_stays_a_share_over_http(tmp_path):
    """A budget in its place made a state that stopped the whole service at its next start."""
    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        assert (await call("PUT", PLACE, {**ROUTER, "sure": True})).status == 201
        found = await call("PATCH", PLACE + "/costs", {"budget": 5})
        assert (found.status, found.data["code"]) == (422, "invalid")
        assert found.data["detail"].startswith("sure needs agree")
    async with serving(tmp_path / "s.db") as (_, call):
        assert (await call("GET", PLACE)).data["config"]["agree"] == 0.9


async def test_a_long_context_is_named_as_the_field_that_it_is(tmp_path):
    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        config = {"kind": "contextual", "stages": NAMES, "stage_costs": [1, 20], "error_cost": 50}
        assert (await call("PUT", PLACE, config)).status == 201
        for context, field in (([0.5] * 4000, "context"), ([0.5, 1e16], "context[1]")):
            found = await call("POST", PLACE + "/decide", {"context": context})
            assert (found.status, found.data["field"]) == (422, field)


@pytest.mark.parametrize(
    ("agree", "share", "below"),
    [(0.95, 0.2, False), (0.95, 0.45, True), (0.95, 0.55, False), (0.95, 0.05, True), (0.85, 0.05, False)],
)
def test_the_words_of_now_and_of_the_nearest_promise_do_not_overlap(agree, share, below):
    """Both stand beside their points; those of the ends of the curve, at 0.1 and 0.5, above them.

    Where the loosest promise is the present one, only the words of now are there.
    """
    found = SimpleNamespace(
        settings={"agree": agree},
        differ=0.02,
        spent=share,
        reference_alone=1.0,
        requests=100,
        shadow=None,
        models=[],
        reference="large",
    )
    curve = [(0.85, 0.97, 0.1), (0.99, 0.999, 0.5)]
    assert offers_of(found, curve, 1.0, ["small", "large"])["now"]["below"] == below
