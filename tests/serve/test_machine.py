"""The service, in process, against a library object of the same seed: equal after every step, whatever comes when."""

import asyncio
import shutil
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.rig.harness import Caller, opener, quick, replayed
from tests.rig.postgres import Cluster

from weakfeedback import Allocator, Cascade, ContextualCascade, Router
from weakfeedback.serve.app import make_app
from weakfeedback.serve.service import Service

SEED = 7
COSTS, ERROR = [0.5, 2.0, 5.0], 20.0
NAMES = ["a", "b", "c"]
STAGED = {"stages": NAMES, "stage_costs": COSTS, "error_cost": ERROR, "seed": SEED, "pending_ttl": 100.0}
KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "USS-TS": ({"kind": "cascade", **STAGED}, lambda: Cascade(3, COSTS, ERROR, seed=SEED)),
    "USS-UCB": (
        {"kind": "cascade", "policy": "USS-UCB", **STAGED},
        lambda: Cascade(3, COSTS, ERROR, "USS-UCB", seed=SEED),
    ),
    "Q-USS": (
        {"kind": "cascade", "label_price": 1.0, **STAGED},
        lambda: Cascade(3, COSTS, ERROR, seed=SEED, label_price=1.0),
    ),
    "number": (
        {"kind": "cascade", "compare": {"type": "number", "scale": 4.0}, **STAGED},
        lambda: Cascade(3, COSTS, ERROR, seed=SEED, metric=lambda a, b: min(abs(a - b) / 4.0, 1.0)),
    ),
    "USS-PD-TS": (
        {"kind": "contextual", "policy": "USS-PD-TS", **STAGED},
        lambda: ContextualCascade(3, COSTS, ERROR, "USS-PD-TS", seed=SEED),
    ),
    "Double-Thompson": (
        {"kind": "router", "policy": "Double-Thompson", "models": NAMES, "prices": COSTS}
        | {"error_cost": ERROR, "seed": SEED, "pending_ttl": 100.0},
        lambda: Router(3, COSTS, ERROR, "Double-Thompson", seed=SEED),
    ),
    "CSB-TS": (
        {"kind": "allocation", "arms": NAMES, "budget": 1.0, "seed": SEED, "pending_ttl": 100.0},
        lambda: Allocator(NAMES, 1.0, seed=SEED),
    ),
}
PLACE = "/v1/learners/one"


class Machine(RuleBasedStateMachine):
    """What a client does, and what must come of it."""

    kind = "USS-TS"

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.loop = asyncio.new_event_loop()
        self.now = 1_000_000_000
        self.config, make = KINDS[self.kind]
        self.own: Any = make()
        if "arms" not in self.config:
            self.own.speak(self.config["models" if "models" in self.config else "stages"])
        self.service: Any = None
        self.keys: dict[str, dict[str, Any]] = {}
        self.open: dict[int, tuple[int, list[str]]] = {}  # id -> when it was made, what it called
        self.ended: dict[int, tuple[str, Any]] = {}
        self.start()
        assert self.call("PUT", PLACE, self.config)[0] == 201

    def place(self) -> Path | str:
        return self.folder / "s.db"

    def start(self) -> None:
        options = quick(durability="process", clock=lambda: self.now)
        self.service = Service(opener(self.place()), options)
        self.caller = Caller(make_app(self.service))
        self.loop.run_until_complete(self.service.start())

    def teardown(self) -> None:
        if getattr(self, "service", None) is not None:
            self.loop.run_until_complete(self.service.stop())
            self.loop.close()
            shutil.rmtree(self.folder)

    def call(self, method: str, path: str, data: Any = None, **headers: str) -> tuple[int, Any]:
        reply = self.loop.run_until_complete(self.caller(method, path, data, **headers))
        return reply.status, reply.data

    @property
    def live(self) -> Any:
        return self.service.learners["one"].live

    def decide_own(self, context: list[float]) -> Any:
        return self.own.decide(*([context] if isinstance(self.own, ContextualCascade) else []))

    def check(self, told: dict[str, Any], own: Any) -> None:
        assert told["id"] == own.id
        if "allocation" in told:
            assert list(told["allocation"].values()) == own.allocation.tolist()
            self.open[own.id] = self.now, NAMES
            return
        called = list(own.call) if isinstance(self.own, Router) else list(range(own.arm + 1))
        assert told["call"] == [NAMES[k] for k in called]
        assert told["stage"] == called[-1]
        if told["expires"] is not None:
            self.open[own.id] = self.now, told["call"]

    @rule(
        key=st.sampled_from([None, None, "k1", "k2", "k3"]),
        count=st.sampled_from([None, None, 1, 3]),
        context=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=2, max_size=2),
    )
    def decide(self, key: str | None, count: int | None, context: list[float]) -> None:
        contextual = isinstance(self.own, ContextualCascade)
        body: dict[str, Any] = {"context": context} if contextual else {}
        if count is not None:
            body["count"] = count
        headers = {} if key is None else {"idempotency_key": key}
        status, told = self.call("POST", PLACE + "/decide", body, **headers)
        if key in self.keys:
            sent, before = self.keys[key]
            if sent == body:
                assert status == 200
                got = told["decisions"] if count else [told]
                assert got == [{**one, "repeated": True} for one in before]
            elif (sent.get("count", 1), sent.get("context")) != (body.get("count", 1), body.get("context")):
                assert (status, told.get("code")) == (422, "key_reused")
            return
        if self.own.core.ledger.one_at_a_time and self.own.pending:
            assert (status, told["code"]) == (409, "decision_open")
            return
        if self.own.core.ledger.one_at_a_time and (count or 1) > 1:
            assert (status, told["code"]) == (409, "not_offered")
            return
        assert status == 200, told
        got = told["decisions"] if count else [told]
        for one in got:
            self.check(one, self.decide_own(context))
        if key is not None:
            self.keys[key] = body, got

    def outputs(self, called: list[str], answers: list[int]) -> dict[str, Any]:
        if isinstance(self.own, Allocator):
            return {"observed": {name: answer / 2 for name, answer in zip(called, answers)}}
        return {"outputs": answers[: len(called)]}

    def feed_own(self, id: int, sent: dict[str, Any]) -> None:
        if isinstance(self.own, Allocator):
            assert self.own.feedback(id, sent["observed"]) == "accepted"
        elif "label" in sent:
            assert self.own.feedback(id, sent["outputs"], sent["label"]) == "accepted"
        else:
            assert self.own.feedback(id, sent["outputs"]) == "accepted"

    @precondition(lambda self: self.open)
    @rule(data=st.data(), answers=st.lists(st.integers(0, 2), min_size=3, max_size=3))
    def feedback(self, data: Any, answers: list[int]) -> None:
        id = data.draw(st.sampled_from(sorted(self.open)))
        _, called = self.open[id]
        sent = self.outputs(called, answers)
        place = f"{PLACE}/decisions/{id}/feedback"
        if self.config.get("label_price"):
            _, told = self.call("POST", place, {**sent, "dry_run": True})
            assert told["wants_label"] == self.own.wants_label(id, sent["outputs"])
            if told["wants_label"]:
                sent["label"] = answers[-1]
        assert self.call("POST", place, sent)[1]["result"] == "accepted"
        self.feed_own(id, sent)
        del self.open[id]
        self.ended[id] = "feedback", sent
        assert self.call("POST", place, sent)[1] == {"result": "duplicate", "id": id}

    @precondition(lambda self: self.open and not isinstance(self.own, Allocator))
    @rule(data=st.data())
    def feed_a_wrong_number(self, data: Any) -> None:
        id = data.draw(st.sampled_from(sorted(self.open)))
        wrong = {"outputs": [1] * (len(self.open[id][1]) + 1)}
        status, told = self.call("POST", f"{PLACE}/decisions/{id}/feedback", wrong)
        assert (status, told["code"]) == (422, "wrong_outputs")

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), same=st.booleans())
    def feed_what_has_ended(self, data: Any, same: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.ended)))
        kind, sent = self.ended[id]
        if kind == "feedback":
            if not same:
                sent = {"observed": {"a": 0.125}} if isinstance(self.own, Allocator) else {"outputs": [9]}
            wanted = (200, None) if same else (409, "conflict")
        else:
            sent = {"observed": {}} if isinstance(self.own, Allocator) else {"outputs": [0]}
            wanted = (410, "cancelled" if kind == "cancel" else "expired")
        status, told = self.call("POST", f"{PLACE}/decisions/{id}/feedback", sent)
        assert (status, told.get("code")) == wanted

    @rule()
    def feed_what_was_never_decided(self) -> None:
        sent = {"observed": {}} if isinstance(self.own, Allocator) else {"outputs": [0]}
        status, told = self.call("POST", f"{PLACE}/decisions/{self.own.core.ledger.next}/feedback", sent)
        assert (status, told["code"]) == (404, "unknown_decision")

    @precondition(lambda self: self.open)
    @rule(data=st.data(), cost=st.sampled_from([0.0, 1.5]))
    def cancel(self, data: Any, cost: float) -> None:
        id = data.draw(st.sampled_from(sorted(self.open)))
        place = f"{PLACE}/decisions/{id}/cancel"
        assert self.call("POST", place, {"cost": cost})[1]["result"] == "cancelled"
        assert self.call("POST", place, {"cost": cost})[1]["result"] == "duplicate"
        self.own.cancel(id, cost)
        del self.open[id]
        self.ended[id] = "cancel", None

    @rule(seconds=st.sampled_from([1, 40, 101]))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds * 1_000_000
        self.loop.run_until_complete(self.service.expire())
        for id in [id for id, (at, _) in self.open.items() if at <= self.now - 100_000_000]:
            self.own.core.close([id], 0.0, "expire")
            del self.open[id]
            self.ended[id] = "expire", None

    @rule(factor=st.sampled_from([0.5, 1.0, 2.0]))
    def recost(self, factor: float) -> None:
        field = "prices" if isinstance(self.own, Router) else "stage_costs"
        costs = [cost * factor for cost in COSTS]
        status, told = self.call("PATCH", PLACE + "/costs", {field: costs})
        if isinstance(self.own, Allocator):
            assert (status, told["code"]) == (409, "not_offered")
            return
        if list(self.own.core.terms.prices) == costs:
            assert status == 200
            return
        try:
            self.own.recost(costs, ERROR)
        except ValueError:
            assert (status, told["code"]) == (409, "not_offered")
        else:
            assert told["config"][field] == costs

    @precondition(lambda self: not isinstance(self.own, Allocator))
    @rule(rows=st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=4))
    def warm_start(self, rows: list[list[int]]) -> None:
        body: dict[str, Any] = {"outputs": rows}
        contexts = [[0.5, -0.5]] * len(rows)
        if isinstance(self.own, ContextualCascade):
            body["contexts"] = contexts
        status, told = self.call("POST", PLACE + "/warm-start", body)
        if self.own.core.ledger.one_at_a_time and self.own.pending:
            assert (status, told["code"]) == (409, "decision_open")
            return
        try:
            self.own.warm_start(*([contexts] if "contexts" in body else []), rows)
        except ValueError:
            assert status == 422
        else:
            assert told["rows"] == len(rows)

    @rule(snapshot=st.booleans())
    def start_again(self, snapshot: bool) -> None:
        learner = self.service.learners["one"]
        if not snapshot:
            learner.pictured = learner.seq  # so that none is taken at the end
        self.loop.run_until_complete(self.service.stop())
        self.start()
        if snapshot:
            assert replayed(self.service, "events") == 0

    @invariant()
    def equal(self) -> None:
        if getattr(self, "service", None) is None:
            return
        assert self.live.core.rng.bit_generator.state == self.own.core.rng.bit_generator.state
        report = self.call("GET", PLACE + "/report")[1]
        assert report["details"] == self.own.report().to_dict()
        assert report["pending"] == len(self.open)
        policy, own = self.live.policy, self.own.policy
        for name, value in vars(own).items() if own is not None else ():
            assert np.array_equal(getattr(policy, name), value), name


SHORT = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_service_equals_the_library(kind):
    machine = type("Of", (Machine,), {"kind": kind})
    run_state_machine_as_test(machine, settings=settings(max_examples=6, stateful_step_count=25, **SHORT))


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_service_equals_the_library_for_long(kind):
    machine = type("Of", (Machine,), {"kind": kind})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=60, **SHORT))


def in_postgres(kind: str, server: Cluster) -> type:
    """The machine over stores in PostgreSQL, a new one for each example."""

    class Remote(Machine):
        def place(self) -> str:
            return server.url("m" + blake2b(str(self.folder).encode(), digest_size=8).hexdigest())

    Remote.kind = kind
    return Remote


@pytest.mark.parametrize("kind", ["USS-TS", "CSB-TS"])
def test_the_service_equals_the_library_in_postgres(kind, server):
    shape = settings(max_examples=3, stateful_step_count=20, **SHORT)
    run_state_machine_as_test(in_postgres(kind, server), settings=shape)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_service_equals_the_library_in_postgres_for_long(kind, server):
    shape = settings(max_examples=20, stateful_step_count=50, **SHORT)
    run_state_machine_as_test(in_postgres(kind, server), settings=shape)
