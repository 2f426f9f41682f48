"""What a router is told of a request over HTTP: features, prices and conversations, as in the library."""

from typing import Any

from tests.rig.harness import CONTEXTUAL, quick, replayed, serving

from weakfeedback import Router
from weakfeedback.serve.page import view

PLACE = "/v1/learners/r"
MADE = {
    "kind": "router",
    "models": ["small", "large"],
    "prices": [1, 20],
    "error_cost": 100,
    "context": ["task"],
}


async def test_it_decides_as_the_library_does_also_after_a_restart(tmp_path):
    own: Any = Router(2, [1, 20], 100, context=["task"])

    def told_of(n: int) -> dict[str, Any]:
        known: dict[str, Any] = {"context": {"task": "hard" if n % 3 else "easy"}}
        if n % 2:
            return {**known, "conversation": f"c{n % 20}", "switching": [0, 1]}
        return {**known, "prices": [1 + n % 4, 20 + n % 4]}

    async def play(call: Any, begin: int, end: int) -> None:
        for n in range(begin, end):
            told = (await call("POST", PLACE + "/decide", told_of(n))).data
            decision = own.decide(**told_of(n))
            assert (told["stage"], told.get("turn")) == (decision.answer, decision.turn)
            if len(decision.call) > 1:
                outputs = ["x" if n % 3 and n % 2 else "a", "a"]
                own.feedback(decision.id, outputs)
                path = f"{PLACE}/decisions/{told['id']}/feedback"
                assert (await call("POST", path, {"outputs": outputs})).data["result"] == "accepted"

    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        assert (await call("PUT", PLACE, MADE)).data["policy"] == "Second-looks"
        await play(call, 0, 120)
    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        assert replayed(service, "differences_total") == 0
        await play(call, 120, 180)
        report = (await call("GET", PLACE + "/report")).data
        assert report["spent"] == own.report().spent
        assert {one["group"] for one in report["details"]["groups"]} == {"hard", "easy"}


async def test_conversations_believe_the_last_model_unless_told_otherwise_and_the_page_says_so(tmp_path):
    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        for name, more in (("r", {}), ("n", {"options": {"trust": "nobody"}})):
            place = f"/v1/learners/{name}"
            assert (await call("PUT", place, {**MADE, **more})).status == 201
            assert "belief" not in (await call("GET", place + "/report")).data["details"]
            for n in range(30):
                body = {"context": {"task": "a"}, "conversation": f"c{n}"}
                told = (await call("POST", place + "/decide", body)).data
                if len(told["call"]) > 1:
                    path = f"{place}/decisions/{told['id']}/feedback"
                    await call("POST", path, {"outputs": ["x", "x"]})
            assert (await call("PUT", place, {**MADE, **more})).status == 200  # the same learner
        believed, other = [(await call("GET", f"/v1/learners/{name}/report")).data for name in "rn"]
        said = believed["details"]["belief"]
        assert said.startswith("Believed without proof, since its first conversation: large.")
        assert "belief" not in other["details"]
        learner: Any = service.learners["r"]
        told = view.summary(
            await service.report("r"), learner.observers["watch"], learner.invoice, service.options.clock()
        )
        assert {"state": "open", "text": said} in told["trust"]
        wrong = await call("PUT", "/v1/learners/w", {**MADE, "options": {"trust": "small"}})
        assert (wrong.status, "nobody, last, conversations" in wrong.data["detail"]) == (422, True)


async def test_what_is_wrong_has_a_code_and_a_repeated_key_must_be_the_same_request(tmp_path):
    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", PLACE, MADE)
        for body, code in (
            ({"context": {"tsk": "x"}}, "wrong_context"),
            ({"context": [1.0]}, "wrong_context"),
            ({"prices": [1]}, "wrong_context"),
            ({"prices": [20, 1]}, "wrong_context"),
            ({"conversation": "a", "prices": [20, 1]}, "wrong_context"),
            ({"conversation": "a", "count": 2}, "invalid"),
            ({"conversation": ""}, "invalid"),
        ):
            found = await call("POST", PLACE + "/decide", body)
            assert (found.status, found.data["code"]) == (422, code), body
        key = {"idempotency_key": "k"}
        told = {"context": {"task": "a"}, "conversation": "c"}
        one = (await call("POST", PLACE + "/decide", told, **key)).data
        two = (await call("POST", PLACE + "/decide", told, **key)).data
        assert (one["id"], two["repeated"], two["turn"]) == (two["id"], True, "first")
        other = await call("POST", PLACE + "/decide", {**told, "conversation": "d"}, **key)
        assert other.data["code"] == "key_reused"
        cascade = {"kind": "cascade", "stages": ["a", "b"], "stage_costs": [1, 2], "error_cost": 100}
        await call("PUT", "/v1/learners/c", cascade)
        found = await call("POST", "/v1/learners/c/decide", {"conversation": "x"})
        assert found.data["code"] == "wrong_context"


async def test_the_labels_of_an_audit_tell_the_yield_in_the_report_and_on_the_page(tmp_path):
    options = quick(durability="process")
    async with serving(tmp_path / "s.db", options) as (service, call):
        await call("PUT", PLACE, MADE)
        outputs = [["a", "b"]] * 40 + [["a", "a"]] * 60
        begun = (await call("POST", PLACE + "/audits", {"outputs": outputs, "arm": 1})).data
        assert begun["rows"] == list(range(40))
        labels = {str(row): "b" if row % 4 == 0 else "a" if row % 4 == 1 else "c" for row in begun["rows"]}
        path = f"{PLACE}/audits/{begun['id']}/labels"
        assert (await call("POST", path, {"labels": labels})).status == 200
        (found,) = (await call("GET", PLACE + "/report")).data["details"]["yields"]
        assert (found["pair"], found["labels"], found["estimate"]) == ([0, 1], 40, 0.0)
        assert found["low"] < 0.0 < found["high"]
        text = await service.report_text("r")
        assert "large was right in 10 of 40 labelled disagreements with small, and that one in 10" in text
        known: Any = service.learners["r"].observers["watch"]
        told = view.summary(
            await service.report("r"), known, service.learners["r"].invoice, service.options.clock()
        )
        words = "Where small and large differ, large is really better in "
        assert any(one["text"].startswith(words) for one in told["trust"])
    async with serving(tmp_path / "s.db", options) as (service, call):
        (again,) = (await call("GET", PLACE + "/report")).data["details"]["yields"]
        assert again == found


async def test_what_is_told_of_a_request_is_refused_where_it_is_not_for_a_router(tmp_path):
    async with serving(tmp_path / "s.db") as (_, call):
        await call("PUT", PLACE, CONTEXTUAL)
        for body in ({"switching": []}, {"conversation": "a", "context": [0.1, 0.2]}, {"group": "g"}):
            reply = await call("POST", PLACE + "/decide", body)
            assert (reply.status, reply.data["code"]) == (422, "wrong_context"), body


async def test_an_audit_changes_decisions_by_its_yields_alone(tmp_path):
    """Labels add up over audits; one of cheaper models leaves other pairs alone, one without labels everything.

    A twin that is told the same yields, and was never audited, decides the same.
    """
    made = {**MADE, "models": ["small", "medium", "large"], "prices": [1, 5, 20]}
    own: Any = Router(3, [1, 5, 20], 100, context=["task"])

    async def audited(call: Any, outputs: list[list[str]], arm: int) -> None:
        begun = (await call("POST", PLACE + "/audits", {"outputs": outputs, "arm": arm})).data
        labels = {str(row): "c" for row in begun["rows"]}
        assert (await call("POST", f"{PLACE}/audits/{begun['id']}/labels", {"labels": labels})).status == 200

    async def play(call: Any, rounds: int) -> None:
        for n in range(rounds):
            told = (await call("POST", PLACE + "/decide", {"context": {"task": "t"}})).data
            decision = own.decide(context={"task": "t"})
            assert told["stage"] == decision.answer
            if len(decision.call) > 1:
                outputs = ["a" if k < 2 and n % 4 == 0 else "b" for k in decision.call]
                own.feedback(decision.id, outputs)
                await call("POST", f"{PLACE}/decisions/{told['id']}/feedback", {"outputs": outputs})

    async with serving(tmp_path / "s.db", quick(durability="process")) as (service, call):
        await call("PUT", PLACE, made)
        await play(call, 30)
        await audited(call, [["a", "a", "a"]] * 9, 2)
        assert service.learners["r"].core.counts.yields is None
        await play(call, 30)
        await audited(call, [["a", "b", "b"]] * 30, 2)
        own.yields([["a", "b", "b"]] * 30, ["c"] * 30)
        await play(call, 30)
        await audited(call, [["a", "b"]] * 10, 1)
        labels, _, _ = service.learners["r"].core.counts.yields
        assert (labels[0, 1], labels[0, 2]) == (40, 30)


def test_an_audit_in_the_library_changes_nothing():
    router = Router([lambda x: x > 2, lambda x: x > 3], [1, 20], 100, context=["task"])
    for x in range(200):
        router(x % 10, context={"task": "t"})
    before = router.state()
    router.audit([x % 10 for x in range(300)], lambda x: x > 3)
    assert router.state() == before
