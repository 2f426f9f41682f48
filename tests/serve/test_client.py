"""The client alone, against a service that does what a script says: what it sends, repeats, returns and raises."""

import asyncio
import http.server
import json
import threading

import numpy as np
import pytest

from weakfeedback import FeedbackConflict, PendingDecision, UnknownDecision
from weakfeedback.client import AsyncClient, Client, Decision, Refused, ServiceUnavailable, Step

CUT = "cut"


class Fake:
    """A server that answers from a script: (status, body) or (status, body, headers), or CUT to hang up."""

    def __init__(self):
        self.script, self.seen = [], []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                content = self.rfile.read(length)
                body = json.loads(content) if content else None
                fake.seen.append((self.command, self.path, body, dict(self.headers)))
                told = fake.script.pop(0) if fake.script else (200, {})
                if told == CUT:
                    self.close_connection = True
                    return
                status, body, headers = (*told, {})[:3]
                content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def fake():
    made = Fake()
    yield made
    made.close()


@pytest.fixture(params=["sync", "async"])
def learner(fake, request, monkeypatch):
    """A learner whose methods are called in the same way for both clients."""
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)  # no waiting
    if request.param == "sync":
        with Client(fake.address) as client:
            yield client.learner("triage")
        return
    loop = asyncio.new_event_loop()
    client = AsyncClient(fake.address)
    there = client.learner("triage")

    class Waiting:
        def __getattr__(self, name):
            async def gathered(*arguments, **named):
                return [one async for one in there.events(*arguments, **named)]

            method = gathered if name == "events" else getattr(there, name)
            return lambda *arguments, **named: loop.run_until_complete(method(*arguments, **named))

    yield Waiting()
    loop.run_until_complete(client.close())
    loop.close()


DECISION = {
    "id": 17,
    "stage": 1,
    "name": "small",
    "call": ["rules", "small"],
    "expires": None,
    "repeated": False,
}


def test_a_decision_and_its_feedback(fake, learner):
    fake.script += [(200, DECISION), (200, {"result": "accepted", "id": 17})]
    decision = learner.decide()
    assert decision == Decision(17, 1, "small", ("rules", "small"))
    assert (
        learner.feedback(decision.id, np.array(["spam", "ham"]), costs=[0.5, np.float64(0.25)]) == "accepted"
    )
    (_, first, asked, headers), (method, second, told, _) = fake.seen
    assert (first, asked) == ("/v1/learners/triage/decide", {})
    assert len(headers["Idempotency-Key"]) == 32
    assert (method, second) == ("POST", "/v1/learners/triage/decisions/17/feedback")
    assert told == {"outputs": ["spam", "ham"], "costs": [0.5, 0.25]}


def test_lost_answers_are_asked_for_again_with_the_same_key(fake, learner):
    fake.script += [
        CUT,
        (503, {"code": "starting", "detail": ""}),
        (429, {}),
        (502, "x"),
        (504, ""),
        (200, DECISION),
    ]
    assert learner.decide().id == 17
    keys = [headers["Idempotency-Key"] for _, _, _, headers in fake.seen]
    assert len(keys) >= 6  # a connection that was kept may be tried once more
    assert len(set(keys)) == 1


def test_at_most_five_repeats(fake, learner):
    fake.script += [(503, {"code": "standby", "detail": "another process owns the store"})] * 20
    with pytest.raises(ServiceUnavailable, match="another process owns") as caught:
        learner.feedback(3, ["a"])
    assert (caught.value.status, caught.value.code) == (503, "standby")
    assert len(fake.seen) == 6


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (409, "conflict", FeedbackConflict),
        (404, "unknown_decision", UnknownDecision),
        (410, "expired", UnknownDecision),
        (409, "decision_open", PendingDecision),
        (422, "wrong_outputs", ValueError),
        (404, "unknown_learner", Refused),
        (401, "unauthorized", PermissionError),
        (500, "internal", ServiceUnavailable),
    ],
)
def test_problems_raise_what_the_library_raises(fake, learner, status, code, error):
    fake.script += [(status, {"code": code, "detail": "the words of the service", "field": "outputs"})]
    with pytest.raises(error, match="the words of the service") as caught:
        learner.feedback(3, ["a"])
    assert len(fake.seen) == 1  # what is refused is not repeated
    if isinstance(caught.value, Refused):
        assert (caught.value.code, caught.value.status, caught.value.field) == (code, status, "outputs")


def test_answers_that_are_none_of_the_services(fake, learner):
    fake.script += [(200, "<html>"), (418, "teapot")]
    with pytest.raises(ServiceUnavailable, match="not JSON"):
        learner.decide()
    with pytest.raises(Refused, match="answer 418"):
        learner.decide()


def test_every_operation_has_its_route(fake, learner):
    fake.script += [
        (200, {"decisions": [DECISION, DECISION]}),
        (200, {"results": [{"result": "accepted", "id": 1}]}),
        (200, {"result": "possible", "id": 1, "wants_label": True}),
        (200, {"result": "cancelled", "id": 1}),
        (200, {"id": 4, "stage": 0, "name": "rules"}),
        (200, {"id": 4, "stage": None, "name": None, "answer": 0}),
        (200, {"name": "triage", "rounds": 5}),
        (200, "a table"),
        (200, {"id": 1, "text": "because"}),
        (200, {"rows": 2}),
        (200, {"id": 0, "rows": [1]}),
        (200, {"id": 0, "verdict": "optimal"}),
        (200, {}),
        (200, {"step": 60, "at": [], "columns": {}}),
        (200, {"events": [{"seq": 0}, {"seq": 1}]}),
        (200, {"events": []}),
        (200, {"verdict": "open"}),
        (200, {"name": "triage"}),
        (200, {"id": 1, "status": "pending"}),
        (200, {}),
    ]
    assert len(learner.decide_many(2)) == 2
    assert learner.feedback_many([{"id": 1, "differ": []}]) == [{"result": "accepted", "id": 1}]
    assert learner.wants_label(1, ["a", "b"]) is True
    assert learner.cancel(1, 0.5, "gone") is None
    assert learner.begin() == Step(4, 0, "rules")
    assert learner.tell(Step(4, 0, "rules"), "spam", score=0.9) == Step(4, None, None, 0)
    report = learner.report()
    assert (str(report), report["rounds"]) == ("a table", 5)
    assert learner.explain(1) == "because"
    assert learner.warm_start([["a", "a"], ["a", "b"]]) == 2
    assert learner.audit([["a", "b"]])["rows"] == [1]
    assert learner.audit_labels(0, {1: "a"})["verdict"] == "optimal"
    assert learner.recost([1, 2], 10) is None
    assert learner.series(0, 60)["step"] == 60
    assert [event["seq"] for event in learner.events()] == [0, 1]
    assert learner.certificate()["verdict"] == "open"
    assert learner.info()["name"] == "triage"
    assert learner.decision(1)["status"] == "pending"
    learner.archive()
    base = "/v1/learners/triage"
    assert [(method, path.removeprefix(base)) for method, path, _, _ in fake.seen] == [
        ("POST", "/decide"),
        ("POST", "/feedback"),
        ("POST", "/decisions/1/feedback"),
        ("POST", "/decisions/1/cancel"),
        ("POST", "/begin"),
        ("POST", "/decisions/4/tell"),
        ("GET", "/report"),
        ("GET", "/report"),
        ("GET", "/decisions/1/explain"),
        ("POST", "/warm-start"),
        ("POST", "/audits"),
        ("POST", "/audits/0/labels"),
        ("PATCH", "/costs"),
        ("GET", "/series?from=0&to=60&step=60"),
        ("GET", "/events?after=-1&limit=1000"),
        ("GET", "/events?after=1&limit=1000"),
        ("GET", "/certificate"),
        ("GET", ""),
        ("GET", "/decisions/1"),
        ("DELETE", ""),
    ]
    assert fake.seen[7][3]["Accept"] == "text/plain"
    assert fake.seen[5][2] == {"output": "spam", "stage": 0, "score": 0.9}


def test_arguments_are_checked_before_anything_is_sent(fake, learner, monkeypatch):
    for id in (-1, True, "3", 1.5):
        with pytest.raises(ValueError, match="id must be"):
            learner.feedback(id, ["a"])
    with pytest.raises((TypeError, ValueError), match="cannot be sent"):
        learner.feedback(1, [object()])
    with pytest.raises(ValueError, match="JSON compliant"):
        learner.feedback(1, [float("nan")])
    assert fake.seen == []


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8470", "ftp://host", "http://", "http://user:x@host", "http://h?x=1"]
)
def test_wrong_addresses(address):
    with pytest.raises(ValueError, match="address must be"):
        Client(address)


def test_wrong_names_and_numbers(fake):
    client = Client(fake.address)
    for name in ("", "Big", "a/b", "../x", "a" * 65, "é", None):
        with pytest.raises(ValueError, match="name is"):
            client.learner(name)
    with pytest.raises(ValueError, match="timeout"):
        Client(fake.address, timeout=0)
    with pytest.raises(ValueError, match="repeats"):
        Client(fake.address, repeats=6)


def test_the_token_comes_from_the_environment(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("SOME_TOKEN", "0123456789abcdef\n")
    monkeypatch.delenv("OTHER_TOKEN", raising=False)
    monkeypatch.delenv("OTHER_TOKEN_FILE", raising=False)
    with pytest.raises(ValueError, match="OTHER_TOKEN is not set"):
        Client(fake.address, token_env="OTHER_TOKEN")
    (tmp_path / "token").write_text("fedcba9876543210\n")
    monkeypatch.setenv("OTHER_TOKEN_FILE", str(tmp_path / "token"))
    fake.script += [(200, {"learners": []})]
    with Client(fake.address, token_env="OTHER_TOKEN") as client:
        client.learners()
    assert fake.seen.pop()[3]["Authorization"] == "Bearer fedcba9876543210"
    fake.script += [(200, {"learners": []}), (201, {}), (200, {})]
    with Client(fake.address, token_env="SOME_TOKEN") as client:
        assert client.learners() == []
        assert client.create("new", kind="cascade", stages=["a"], stage_costs=[1]).name == "new"
        assert client.ready()
        assert "0123456789abcdef" not in repr(client)
    assert fake.seen[0][3]["Authorization"] == "Bearer 0123456789abcdef"
    assert fake.seen[1][:3] == (
        "PUT",
        "/v1/learners/new",
        {"kind": "cascade", "stages": ["a"], "stage_costs": [1]},
    )


def test_nobody_there(monkeypatch):
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
    with Client("http://127.0.0.1:9", timeout=2) as client:
        assert not client.ready()
        with pytest.raises(ServiceUnavailable, match=r"GET http://127.0.0.1:9/v1/learners"):
            client.learners()


def test_a_service_that_is_slow_to_answer(fake, monkeypatch):
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    fake.script += [
        (429, {}, {"Retry-After": "3"}),
        (429, {}, {"Retry-After": "900"}),
        (200, {"learners": []}),
    ]
    with Client(fake.address) as client:
        assert client.learners() == []
    assert waits == [3.0, 10.0]


def test_connections_are_kept(fake):
    with Client(fake.address) as client:
        fake.script += [(200, {"learners": []})] * 3
        for _ in range(3):
            client.learners()
        assert [len(idle) for idle in client._idle.values()] == [1]
    assert client._idle == {}


@pytest.fixture(params=[Client, AsyncClient])
def ask_of(request, monkeypatch):
    """Ask a learner for a decision through a client of several addresses; the client is kept."""
    monkeypatch.setattr("random.uniform", lambda low, high: 0.0)  # no waiting
    monkeypatch.setenv("SHOP", "a-secret-of-the-shop")
    loop, clients = asyncio.new_event_loop(), []

    def ask(*fakes):
        if not clients:
            clients.append(request.param([fake.address for fake in fakes], token_env="SHOP"))
        found = clients[0].learner("triage").decide()
        return loop.run_until_complete(found) if request.param is AsyncClient else found

    yield ask
    closed = clients[0].close()
    if closed is not None:
        loop.run_until_complete(closed)
    loop.close()


@pytest.fixture
def other():
    made = Fake()
    yield made
    made.close()


MADE = {"id": 1, "stage": 0, "name": "a", "call": ["a"]}


def of_owner(address):
    return 200, MADE, {"X-Weakfeedback-Owner": address}


def test_the_owner_that_is_told_is_asked_until_another_one_is_told(fake, other, ask_of):
    fake.script = [of_owner(other.address), (200, MADE)]
    other.script = [(200, MADE), of_owner(fake.address)]
    for seen in ((1, 0), (1, 1), (1, 2), (2, 2)):
        ask_of(fake, other)
        assert (len(fake.seen), len(other.seen)) == seen
    other.script = [(200, MADE), of_owner("http://127.0.0.1:1")]
    fake.script = [of_owner(other.address)]
    for seen in ((3, 2), (3, 3), (3, 4), (4, 4)):  # where the new owner may not be asked, the first one is
        fake.script = fake.script or [(200, MADE)]
        ask_of(fake, other)
        assert (len(fake.seen), len(other.seen)) == seen


def test_the_token_goes_to_no_address_but_those_that_were_given(fake, other, ask_of):
    """Told by whoever stands in between, or by an instance that advertises what it should not."""
    tail = other.address.removeprefix("http://")
    hostile = [other.address, other.address + "/", f"{fake.address}@{tail}", f"//{tail}", tail, "", " "]
    hostile += [f"{fake.address} {other.address}", f"{fake.address}, {other.address}", fake.address[:-1]]
    for address in hostile:
        fake.script += [of_owner(address), (200, MADE)]
        ask_of(fake)
        ask_of(fake)
    assert len(fake.seen) == 2 * len(hostile)
    assert all(headers["Authorization"] == "Bearer a-secret-of-the-shop" for *_, headers in fake.seen)
    assert other.seen == []


@pytest.mark.parametrize("end", [CUT, (503, {"code": "starting", "detail": "it has no store"})])
def test_an_owner_that_cannot_answer_is_left_and_the_call_is_the_same(fake, other, ask_of, end):
    fake.script = [of_owner(other.address), (200, MADE), (200, MADE)]
    other.script = [end, end]  # a request over a kept connection is sent again
    ask_of(fake, other)
    ask_of(fake, other)
    assert len(fake.seen) == 2
    assert {headers["Idempotency-Key"] for *_, headers in other.seen} == {fake.seen[1][3]["Idempotency-Key"]}
    ask_of(fake, other)
    assert len(fake.seen) == 3


def test_the_next_address_is_asked_when_one_is_gone(other, ask_of):
    gone = Fake()
    gone.close()
    other.script = [(200, MADE), (200, MADE)]
    ask_of(gone, other)
    ask_of(gone, other)
    assert len(other.seen) == 2
