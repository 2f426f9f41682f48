"""Extreme finite numbers in every numeric field of every route; another learner must not notice.

Every request of `GOOD` is right as it stands. The numbers in it are replaced, one or several at a time, by the largest
and smallest that JSON can carry. Whatever is answered is below 500, and after each request ordinary traffic on a
bystander is served. At the end nothing was thrown away, every learner can be stored, and the log leads to its state.
"""

import copy
import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.rig.harness import CASCADE, Caller, quick, run, serving

from weakfeedback.journal.events import seal
from weakfeedback.serve import learner as learner_module
from weakfeedback.serve.api import OPERATIONS
from weakfeedback.serve.limits import AMOUNT_LIMIT, LIMITS, TTL_LIMIT

EXTREMES: tuple[float, ...] = (
    *(0, -1, 1, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64 - 1),
    *(0.0, -0.0, 5e-324, 2.2e-308, 1e-300, 1e-15, 1e-9, 0.5, 1.0 + 2**-52),
    *(
        1e9,
        3e11,
        1e15,
        1.0000000000000002e15,
        1e16,
        1e100,
        1.3e154,
        1e300,
        1.8e302,
        1.7e308,
        1.7976931348623157e308,
    ),
    *(-5e-324, -1e-15, -1e15, -1e100, -1.7e308),
)
pytestmark = pytest.mark.filterwarnings(
    "ignore:at these prices", "ignore:nothing can be saved", "ignore:never called"
)
LABELS = {"label_price": 0.25, "policy": "Q-USS"}
COSTS = {"stages": ["a", "b", "c"], "stage_costs": [0.5, 2.0, 5.0], "error_cost": 20.0}
ROUTED = {"models": ["a", "b"], "prices": [1.0, 20.0], "error_cost": 100.0}
OWN = {"seed": 3, "pending_ttl": 60.0, "pending_limit": 1000}
MAKES: dict[str, dict[str, Any]] = {
    "cascade": {"kind": "cascade", **COSTS, **OWN},
    "ucb": {"kind": "cascade", "policy": "USS-UCB", **COSTS, **OWN, "options": {"alpha": 0.51}},
    "drift": {"kind": "cascade", "policy": "USS-TS-drift", **COSTS, **OWN},
    "labels": {"kind": "cascade", **LABELS, **COSTS, **OWN},
    "number": {"kind": "cascade", "compare": {"type": "number", "scale": 2.0}, **COSTS, **OWN},
    "squares": {
        "kind": "cascade",
        "compare": {"type": "number", "scale": 2.0, "loss": "squared"},
        **COSTS,
        **OWN,
    },
    "context": {"kind": "contextual", "keep": 200, **COSTS, **OWN},
    "apart": {"kind": "contextual", "keep": 200, "compare": {"type": "number", "scale": 2.0}, **COSTS, **OWN},
    "adaptive": {"kind": "adaptive", **COSTS, **OWN},
    "router": {"kind": "router", **ROUTED, **OWN},
    "looks": {"kind": "router", **ROUTED, "context": ["task"], "conversation_ttl": 60.0, **OWN},
    "promise": {
        "kind": "router",
        "models": ["a", "b"],
        "prices": [1.0, 20.0],
        "agree": 0.95,
        "self_check": True,
        **OWN,
    },
    "budget": {"kind": "adaptive", **COSTS, "error_cost": None, "budget": 3.0, **OWN},
    "loss": {"kind": "allocation", "policy": "CSB-SU", "arms": ["n", "s", "e"], "budget": 1.5, **OWN},
    "reward": {"kind": "allocation", "arms": ["n", "s"], "budget": 1.0, "setting": "reward", **OWN},
}


def requests() -> Iterator[tuple[str, str, str, Any]]:
    """Right requests: learner, method, path after the learner's, body; ID is that of a new decision."""
    for name, made in MAKES.items():
        kind = made["kind"]
        yield name, "PUT", "-new", made
        if kind in ("cascade", "contextual", "adaptive"):
            more = {"budget": 2.5} if "budget" in made else {"error_cost": 25.0}
            yield name, "PATCH", "/costs", {"stage_costs": [0.4, 2.5, 4.0], **more}
        if kind == "router":
            more = {"agree": 0.9} if "agree" in made else {"error_cost": 90.0}
            yield name, "PATCH", "/costs", {"prices": [1.5, 18.0], **more}
            yield name, "POST", "/decide", {"conversation": "one", "switching": [0.0, 2.5]}
            yield name, "POST", "/decide", {"prices": [1.5, 18.0]}
            yield name, "POST", "/decide", {"conversation": "two", "prices": [1.5, 18.0]}
            yield name, "PATCH", "/models", {"replace": {"model": "a", "price": 1.5}}
        if name == "looks":
            yield name, "POST", "/decide", {"context": {"task": "x"}, "prices": [1.5, 18.0]}
        yield name, "POST", "/decisions/ID/cancel", {"cost": 0.5}
        if kind == "contextual":
            yield name, "POST", "/decide", {"context": [0.5, -1.0]}
            yield name, "POST", "/decide", {"count": 2, "contexts": [[0.5, 1.0], [0.0, 0.25]]}
            yield name, "POST", "/warm-start", {"outputs": [[1, 1, 2]], "contexts": [[0.5, 0.5]]}
        elif kind != "adaptive":
            yield name, "POST", "/decide", {"count": 2}
        if kind == "allocation":
            yield name, "POST", "/decisions/ID/feedback", {"observed": dict.fromkeys(made["arms"], 1.0)}
        elif kind == "adaptive":
            yield name, "POST", "/decisions/ID/tell", {"output": 1, "stage": 0, "score": 0.75, "cost": 0.5}
            told = {"output": 1, "stage": 0, "score": 0.75, "chances": {"a": 0.75, "b": 0.25}}
            yield name, "POST", "/decisions/ID/tell", told
            rows = {"outputs": [["a", "b", "b"]], "scores": [[0.5, 0.25, 0.75]], "truth": ["b"]}
            yield name, "POST", "/calibrate", rows
        else:
            fed: dict[str, Any] = {"outputs": "OUTPUTS"}
            yield name, "POST", "/decisions/ID/feedback", fed
            if kind != "router":
                yield name, "POST", "/decisions/ID/feedback", {**fed, "costs": "COSTS"}
                yield name, "POST", "/feedback", {"items": [{"id": "ID", **fed, "costs": "COSTS"}]}
            if name == "promise":
                yield name, "POST", "/decisions/ID/again", {"output": 1, "cost": 0.5}
                yield name, "POST", "/decisions/ID/feedback", {**fed, "failed": [0]}
            if name == "labels":
                yield name, "POST", "/decisions/ID/feedback", {**fed, "label": 1, "label_cost": 0.5}
            if "compare" in made:
                yield name, "POST", "/decisions/ID/feedback", {"distance": "FAR"}
            else:
                yield name, "POST", "/decisions/ID/feedback", {"differ": "DIFFER"}
        if name in ("cascade", "router", "number", "squares"):
            size = len(made.get("stages", made.get("models", ())))
            yield name, "POST", "/warm-start", {"outputs": [[1.0] * size, [1.0] * (size - 1) + [2.0]]}
        if name in ("cascade", "router"):
            yield name, "POST", "/audits", {"outputs": [[1] * (size - 1) + [2]], "arm": 1, "alpha": 0.05}
        for path in ("/certificate?alpha=0.05", "/events?after=-1&limit=10", "/decisions?after=0&limit=10"):
            yield name, "GET", path, None
        yield name, "GET", "/decisions/ID", None


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers in a body."""
    if type(value) in (int, float):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from places(item, (*path, n))


def put(body: Any, path: tuple[Any, ...], value: float) -> None:
    for step in path[:-1]:
        body = body[step]
    body[path[-1]] = value


class Play:
    """A service with one learner of every kind and a bystander."""

    def __init__(self, service: Any, call: Caller, luck: random.Random) -> None:
        self.service, self.call, self.luck = service, call, luck
        self.sent = self.made = self.again = 0

    async def begin(self) -> None:
        for name, config in {**MAKES, "bystander": {**CASCADE, "seed": 1}}.items():
            assert (await self.call("PUT", f"/v1/learners/{name}", config)).status == 201
        self.bystander = self.service.learners["bystander"]

    async def opened(self, name: str) -> dict[str, Any] | None:
        """A new decision that waits, unless the learner refuses one with 4xx."""
        kind = MAKES[name]["kind"]
        for _ in range(20):
            body = {"context": [0.5, 0.5]} if kind == "contextual" else {}
            way = "begin" if kind == "adaptive" else "decide"
            reply = await self.call("POST", f"/v1/learners/{name}/{way}", body)
            assert reply.status < 500, (name, reply.data)
            if reply.status != 200:  # a policy that learns in order: end the one that is open
                for id in self.service.learners[name].live.pending:
                    await self.call("POST", f"/v1/learners/{name}/decisions/{id}/cancel", {})
            elif reply.data["expires"] is not None:
                return dict(reply.data)
        return None

    async def filled(self, name: str, path: str, body: Any) -> tuple[str, Any]:
        """The request with the id of a new decision, and as many outputs as it calls; of the first if there is none."""
        if "ID" not in path + json.dumps(body):
            return path, copy.deepcopy(body)
        made = await self.opened(name) or {"id": 1, "call": ["a", "b"]}
        for _ in range(80 if path.endswith("/again") else 0):
            fed = {"outputs": [1] * len(made["call"])}
            told = await self.call("POST", f"/v1/learners/{name}/decisions/{made['id']}/feedback", fed)
            if "again" in told.data:
                self.again += 1
                break
            made = await self.opened(name) or made
        size = len(made.get("call") or ())
        parts = {
            "ID": made["id"],
            "OUTPUTS": [float(self.luck.randrange(2)) for _ in range(size)],
            "COSTS": [0.5] * size,
            "FAR": [0.5] * (size * (size - 1) // 2),
            "DIFFER": [[0, 1]] if size > 1 else [],
        }
        text = json.dumps(body)
        for word, part in parts.items():
            text = text.replace(f'"{word}"', json.dumps(part))
        return path.replace("ID", str(made["id"])), json.loads(text)

    async def send(self, name: str, method: str, path: str, body: Any) -> int:
        self.sent += 1
        if path == "-new":
            self.made += 1
            path = f"-{self.made}"
        reply = await self.call(method, f"/v1/learners/{name}{path}", body)
        assert reply.status < 500, (method, name, path, body, reply.data)
        if method == "PUT" and reply.status == 201:
            await self.use(name, f"{name}{path}")
        return reply.status

    async def use(self, name: str, made: str) -> None:
        """Use a learner that was made with extreme numbers."""
        kind = MAKES[name]["kind"]
        body = {"context": [0.5, 0.5]} if kind == "contextual" else {}
        way = "begin" if kind == "adaptive" else "decide"
        for _ in range(2):
            reply = await self.call("POST", f"/v1/learners/{made}/{way}", body)
            assert reply.status < 500, (made, reply.data)
            if reply.status != 200 or reply.data["expires"] is None:
                continue
            id = reply.data["id"]
            if kind == "adaptive":
                way, fed = "tell", {"output": 1}
            elif kind == "allocation":
                way, fed = "feedback", {"observed": dict.fromkeys(MAKES[name]["arms"], 1.0)}
            else:
                way, fed = "feedback", {"outputs": [n % 2 for n in range(len(reply.data["call"]))]}
            reply = await self.call("POST", f"/v1/learners/{made}/decisions/{id}/{way}", fed)
            assert reply.status < 500, (made, fed, reply.data)
            way = "begin" if kind == "adaptive" else "decide"
        reply = await self.call("GET", f"/v1/learners/{made}/report")
        assert reply.status == 200, (made, reply.data)
        assert (await self.call("DELETE", f"/v1/learners/{made}")).status == 200
        learner = self.service.learners.pop(made)  # it makes no room otherwise
        seal(learner.picture())

    async def look(self) -> None:
        """Ordinary traffic on the bystander."""
        reply = await self.call("POST", "/v1/learners/bystander/decide", {})
        assert reply.status == 200, reply.data
        fed = {"outputs": [1] * (reply.data["stage"] + 1)}
        path = f"/v1/learners/bystander/decisions/{reply.data['id']}/feedback"
        reply = await self.call("POST", path, fed)
        assert (reply.status, reply.data["result"]) == (200, "accepted")

    async def end(self) -> None:
        assert self.service.learners["bystander"] is self.bystander
        assert self.service.state == "ready"
        for name in MAKES:
            assert (await self.call("GET", f"/v1/learners/{name}/report")).status == 200
        assert (await self.call("GET", "/metrics")).status == 200


async def play(path: Path, seed: int, each: int, mixed: int) -> int:
    """Put ``each`` extremes alone into every field, then send ``mixed`` requests with several; return how many."""
    luck = random.Random(seed)
    async with serving(path, quick(durability="process")) as (service, call):
        made = Play(service, call, luck)
        await made.begin()
        known, good = list(requests()), 0
        for name, method, way, body in known:
            target, right = await made.filled(name, way, body)
            good += await made.send(name, method, target, right) < 400
            for place in list(places(right)):
                for value in luck.sample(EXTREMES, each):
                    target, body_now = await made.filled(name, way, body)
                    if len(list(places(body_now))) == len(list(places(right))):
                        put(body_now, place, value)
                        await made.send(name, method, target, body_now)
                await made.look()
            if way == "/costs":
                await made.send(name, method, target, right)
        assert good > 0.8 * len(known)  # the others are not offered, or not at this moment
        for number in range(mixed):
            name, method, way, body = luck.choice(known)
            target, body_now = await made.filled(name, way, body)
            for place in list(places(body_now)):
                if luck.random() < 0.5:
                    put(body_now, place, luck.choice(EXTREMES))
            if method == "GET" and "=" in target:
                head, _, query = target.partition("?")
                parts = [part.partition("=")[0] for part in query.split("&")]
                target = head + "?" + "&".join(f"{part}={luck.choice(EXTREMES)!r}" for part in parts)
            await made.send(name, method, target, body_now)
            if number % 5 == 0:
                await made.look()
        await made.end()
        assert made.again > 0
        for learner in service.learners.values():
            seal(learner.picture())
            learner.pictured = learner.seq
        states = {name: one.picture() for name, one in service.learners.items()}
    async with serving(path) as (service, _):
        found = {name: one.picture() for name, one in service.learners.items() if name in states}
        assert found == states
    return made.sent


def check_log(caplog: pytest.LogCaptureFixture) -> None:
    told = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    odd = ("is error_cost what you meant?", "nothing can be saved", "never called, since they cost as much")
    assert not [one for one in told if not any(words in one for words in odd)]


def test_extreme_numbers_disturb_nobody(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(learner_module, "SNAPSHOT", 50)
    assert run(play(tmp_path / "s.db", 1, each=2, mixed=150)) > 400
    check_log(caplog)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_many_extreme_numbers_disturb_nobody(tmp_path, monkeypatch, caplog, seed):
    monkeypatch.setattr(learner_module, "SNAPSHOT", 50)
    assert run(play(tmp_path / "s.db", seed, each=len(EXTREMES), mixed=4000)) > 6000
    check_log(caplog)


def test_every_numeric_field_is_played_and_has_limits():
    """Every field with a number in the schemas of the requests occurs above; none is without a bound."""
    played: set[Any] = set()
    for _, _, _, body in requests():
        parts = {"OUTPUTS": [1.0], "COSTS": [1.0], "FAR": [0.5], "DIFFER": [[0, 1]], "ID": 1}
        text = json.dumps(body)
        for word, part in parts.items():
            text = text.replace(f'"{word}"', json.dumps(part))
        for place in places(json.loads(text)):
            played |= {step for step in place if isinstance(step, str)}
    numeric: dict[str, list[dict[str, Any]]] = {}
    for one in OPERATIONS:
        if one.body is not None:
            adapter = one.body if isinstance(one.body, TypeAdapter) else TypeAdapter(one.body)
            collect(adapter.json_schema(), "", numeric)
    assert set(numeric) - {"arm", "id"} <= played | {"id"}, set(numeric) - played
    # integers, checked by what they number
    free = {"seed", "id", "arm", "stage", "count", "differ", "failed"}
    for name, schemas in numeric.items():
        for schema in schemas:
            assert name in free or "maximum" in schema or "exclusiveMaximum" in schema, (name, schema)
            assert schema.get("maximum", 0) <= max(AMOUNT_LIMIT, TTL_LIMIT)
    assert LIMITS["amount"].most == AMOUNT_LIMIT


def collect(schema: Any, name: str, found: dict[str, list[dict[str, Any]]]) -> None:
    """The schemas of numbers, by the name of the field that holds them."""
    if isinstance(schema, list):
        for one in schema:
            collect(one, name, found)
    elif isinstance(schema, dict):
        if schema.get("type") in ("number", "integer"):
            found.setdefault(name, []).append(schema)
        for key, value in schema.items():
            if key in ("properties", "$defs"):
                for field, inner in value.items():
                    collect(inner, field, found)
            elif key in ("anyOf", "oneOf", "items", "additionalProperties", "prefixItems", "allOf"):
                collect(value, name, found)
