"""Bad input over all routes: only documented answers, never a fault, and nothing changes by what was refused."""

import functools
import gc
import itertools
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.rig.harness import ALLOCATION, CASCADE, CONTEXTUAL, ROUTER, quick, run, serving

from weakfeedback.serve.api import COMMON, EVERYWHERE, OPERATIONS, Operation
from weakfeedback.serve.models import PROBLEMS

ADAPTIVE = {**CASCADE, "kind": "adaptive"}
NAMES = {
    "adaptive": ADAPTIVE,
    "cascade": CASCADE,
    "router": ROUTER,
    "contextual": CONTEXTUAL,
    "allocation": ALLOCATION,
}
ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        1e-9,
        -0.0,
        0.5,
        1e308,
        2**53,
        -(2**63),
        10**18,
        "",
        "a",
        "\0",
        "é" * 50,
    ),
    *(
        [],
        {},
        [[]],
        [[0, 1]],
        [[1, 0]],
        {"a": 1},
        ["x"] * 3,
        "x" * 5000,
        [0.1, 0.2],
        {"type": "number", "scale": 1},
    ),
    *(
        "cascade",
        "router",
        "USS-TS",
        "nonsense",
        {"north": 1},
        ["a", "b"],
        [1.0, 20.0],
        "\ud800"[:0],
        [None],
        [{}],
    ),
]
PATHS = [
    "adaptive",
    "cascade",
    "router",
    "contextual",
    "allocation",
    "nobody",
    "A",
    "%00",
    "..",
    "x" * 300,
    "-",
    "é",
]
NUMBERS = ["1", "2", "3", "0", "-1", "99999999999999999999", "1e3", "x", "", "%31", "1.0"]


def documented(operation: Operation) -> set[int]:
    """The statuses that a route may answer with."""
    codes = {*operation.problems, *EVERYWHERE, "unknown_learner"} - {"unauthorized", "forbidden"}
    if operation.body is not None:
        codes |= {*COMMON}
    if operation.query or "{name}" in operation.path:
        codes |= {"invalid", "not_found", "method_not_allowed"}
    return {*operation.statuses, *(PROBLEMS[code][0] for code in codes)}


def value_of(schema: dict[str, Any], root: dict[str, Any], luck: random.Random, depth: int = 0) -> Any:
    """Something that fits a schema, mostly."""
    if luck.random() < 0.08 or depth > 4:
        return luck.choice(ODD)
    if "$ref" in schema:
        return value_of(root["$defs"][schema["$ref"].rpartition("/")[2]], root, luck, depth)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return value_of(luck.choice(schema[key]), root, luck, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return luck.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        needed = schema.get("required", [])
        chosen = [name for name in fields if name in needed or luck.random() < 0.4]
        made = {name: value_of(fields[name], root, luck, depth + 1) for name in chosen}
        if luck.random() < 0.05:
            made[luck.choice(["extra", "__class__", ""])] = luck.choice(ODD)
        return made
    if kind == "array":
        return [value_of(schema.get("items", {}), root, luck, depth + 1) for _ in range(luck.randrange(4))]
    simple = {
        "integer": lambda: luck.randrange(-1, 5),
        "number": lambda: luck.choice([0, 0.5, 1, 20.0, -1.0]),
    }
    simple |= {
        "string": lambda: luck.choice(["a", "b", "USS-TS", "x"]),
        "boolean": lambda: luck.random() < 0.5,
    }
    simple |= {"null": lambda: None}
    return simple.get(kind, lambda: luck.choice(ODD))()


@functools.cache
def schema_of(model: Any) -> dict[str, Any]:
    return model.json_schema() if isinstance(model, TypeAdapter) else model.model_json_schema()


def request_of(operation: Operation, luck: random.Random) -> tuple[str, bytes | None, dict[str, str]]:
    """A path, a body and headers for a route, some of them wrong."""
    path = operation.path.replace("{name}", luck.choice(PATHS[:5] if luck.random() < 0.8 else PATHS))
    for part in ("{id}", "{audit}"):
        path = path.replace(part, luck.choice(NUMBERS[:3] if luck.random() < 0.7 else NUMBERS))
    if luck.random() < (0.6 if operation.query else 0.1):
        name = luck.choice([*operation.query, "after", "what"])
        path += f"?{name}={luck.choice([*NUMBERS, 'pending', 'all', 'nan', 'inf'])}"
    headers = {"content-type": luck.choice(["application/json"] * 9 + ["text/plain"])}
    if luck.random() < 0.2:
        headers["idempotency-key"] = luck.choice(["k", "k2", "", "x" * 200, "é", "a b"])
    if luck.random() < 0.1:
        headers["accept"] = luck.choice(["text/plain", "application/x-ndjson", "*/*"])
    body: bytes | None = None
    if operation.body is not None:
        chance = luck.random()
        if chance < 0.75:
            body = json.dumps(value_of(schema_of(operation.body), schema_of(operation.body), luck)).encode()
        elif chance < 0.85:
            body = luck.choice(
                [b"", b"{", b"[]", b"null", b"1e999", b"NaN", b'"\xff"', b"[" * 5000, b'{"a":1,"a":2}']
            )
        else:
            body = luck.randbytes(luck.randrange(60))
    return path, body, headers


async def fuzz(path: Path, requests: int) -> dict[int, int]:
    luck, statuses = random.Random(11), dict[int, int]()
    async with serving(path, quick(durability="process")) as (service, call):
        for name, config in NAMES.items():
            assert (await call("PUT", f"/v1/learners/{name}", config)).status == 201
        start = 0
        for n in range(requests):
            if n == requests // 4:
                gc.collect()
                tracemalloc.start()
                start = tracemalloc.get_traced_memory()[0]
            operation = luck.choice(OPERATIONS)
            if operation.method == "DELETE" and luck.random() < 0.95:
                continue
            target, body, headers = request_of(operation, luck)
            before = {
                name: (one.seq, one.live.core.rng.bit_generator.state)
                for name, one in service.learners.items()
            }
            reply = await call.raw(operation.method, target, body, headers)
            statuses[reply.status] = statuses.get(reply.status, 0) + 1
            allowed = documented(operation)
            assert reply.status in allowed, (operation.method, target, body, reply.status, reply.body)
            if reply.status >= 400:
                if operation.path != "/health/ready":
                    assert set(reply.data) <= {"type", "title", "status", "detail", "code", "field"}
                    assert "\n" not in reply.data["detail"]
                after = {
                    name: (one.seq, one.live.core.rng.bit_generator.state)
                    for name, one in service.learners.items()
                }
                assert after == before
        grown = tracemalloc.get_traced_memory()[0] - start
        tracemalloc.stop()
        assert grown < 12e6, f"memory grew by {grown / 1e6:.1f} MB"
        for learner in service.learners.values():
            learner.pictured = learner.seq
        states = {name: one.picture() for name, one in service.learners.items()}
    async with serving(path, quick(durability="process")) as (service, _):
        assert {name: one.picture() for name, one in service.learners.items()} == states
    return statuses


def test_two_thousand_requests(tmp_path):
    statuses = run(fuzz(tmp_path / "s.db", 2000))
    assert 500 not in statuses
    assert {200, 400, 404, 409, 415, 422} <= set(statuses)


async def nest(path: Path) -> None:
    """Values that are nested more deeply than Python likes, in every field."""
    async with serving(path, quick(durability="process")) as (service, call):
        for name, config in NAMES.items():
            assert (await call("PUT", f"/v1/learners/{name}", config)).status == 201
            opening = "begin" if name == "adaptive" else "decide"
            told = {"context": [0.1, 0.2]} if name == "contextual" else {}
            assert (await call("POST", f"/v1/learners/{name}/{opening}", told)).status == 200
        for operation in OPERATIONS:
            if operation.body is None:
                continue
            schema = schema_of(operation.body)
            shapes = [schema, *schema.get("$defs", {}).values()]
            for field in sorted({name for shape in shapes for name in shape.get("properties", {})}):
                for depth, start in itertools.product((100, 1000), ("", "[", "[[", '{"x":')):
                    end = start.replace("[", "]").replace('{"x":', "}")
                    value = start + "[" * depth + "]" * depth + end
                    for name, config in NAMES.items():
                        body = config if operation.method == "PUT" else {"outputs": [[1, 1, 1]], "truth": [1]}
                        known = schema.get("properties", body)
                        body = {key: one for key, one in body.items() if key in known} | {field: "DEEP"}
                        sent = json.dumps(body).replace('"DEEP"', value).encode()
                        target = operation.path.replace("{name}", name)
                        target = target.replace("{id}", "1").replace("{audit}", "1")
                        headers = {"content-type": "application/json", "idempotency-key": f"{field}{name}"}
                        reply = await call.raw(operation.method, target, sent, headers)
                        assert reply.status in documented(operation), (target, sent[:80], reply.body)
        assert len(service.learners) == len(NAMES)


def test_values_that_are_nested_deeply(tmp_path):
    run(nest(tmp_path / "s.db"))


@pytest.mark.slow
def test_a_hundred_thousand_requests(tmp_path):
    assert 500 not in run(fuzz(tmp_path / "s.db", 100_000))
