"""The OpenAPI document, built from the table of operations and their models, with examples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from weakfeedback._version import __version__
from weakfeedback.serve.api import COMMON, EVERYWHERE, Operation
from weakfeedback.serve.limits import LIMITS as LIMITED
from weakfeedback.serve.limits import NAME
from weakfeedback.serve.models import PROBLEMS, Problem, ProblemBody

REF = "#/components/schemas/{model}"
SCOPES = {"none": "no token"} | {scope: f"a token of scope {scope}" for scope in ("read", "use", "admin")}
PARAMETERS = {
    "name": {"schema": {"type": "string", "pattern": NAME}, "description": "The learner."},
    "id": {"schema": {"type": "integer", "minimum": 0}, "description": "The decision."},
    "audit": {"schema": {"type": "integer", "minimum": 0}, "description": "The audit."},
}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 128},
    "description": "The same key gives the same result, so that a request whose answer was lost can be repeated.",
}
LIMITS = (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"))
# by operation: a request body, and the answer to it
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "create": (
        {
            "kind": "cascade",
            "stages": ["rules", "small", "expert"],
            "stage_costs": [0.001, 0.02, 1.5],
            "error_cost": 10,
            "currency": "EUR",
            "policy": "USS-TS",
            "pending_ttl": 86400,
            "compare": {"type": "exact"},
            "keep_outputs": False,
        },
        None,
    ),
    "decide": (
        {},
        {
            "id": 17,
            "stage": 1,
            "name": "small",
            "call": ["rules", "small"],
            "expires": "2026-11-16T18:04:05Z",
            "repeated": False,
        },
    ),
    "feedback": (
        {"outputs": ["spam", "ham"], "costs": [0.001, 0.018]},
        {"result": "accepted", "id": 17, "differ": [[0, 1]], "wants_label": False},
    ),
    "feedback_batch": (
        {"items": [{"id": 17, "outputs": ["spam", "ham"]}]},
        {"results": [{"result": "accepted", "id": 17, "differ": [[0, 1]], "wants_label": False}]},
    ),
    "cancel": ({"cost": 0.001, "reason": "the caller has gone"}, {"result": "cancelled", "id": 17}),
    "change_models": ({"add": {"name": "medium", "price": 0.004}}, None),
    "recost": ({"stage_costs": [0.001, 0.015, 1.5], "error_cost": 10}, None),
    "warm_start": (
        {"outputs": [["spam", "spam", "ham"], ["ham", "ham", "ham"]]},
        {"rows": 2, "repeated": False},
    ),
    "audit": ({"outputs": [["spam", "ham", "ham"], ["ham", "ham", "ham"]]}, None),
    "audit_labels": ({"labels": {"0": "ham"}}, None),
    "begin": (None, {"id": 18, "stage": 0, "name": "rules", "answer": None, "repeated": False}),
    "tell": (
        {"output": "spam", "stage": 0, "score": 0.9},
        {"id": 18, "stage": 1, "name": "small", "answer": None, "repeated": False},
    ),
    "again": ({"output": "spam"}, {"result": "accepted", "id": 18, "differs": False}),
    "calibrate": (
        {"outputs": [["spam", "spam", "ham"]], "scores": [[0.6, 0.8, 0.9]], "truth": ["ham"]},
        {"rows": 1, "repeated": False},
    ),
}
PAGES = {
    "/": ("The live page: all learners.", "read", "text/html"),
    "/docs": ("This document, for people.", "none", "text/html"),
    "/v1/learners/{name}/live": (
        "News of a learner for its page, as server-sent events.",
        "read",
        "text/event-stream",
    ),
}


def document(operations: Iterable[Operation], *, chat: bool = False, root: str = "") -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these operations, which are found below ``root``.

    With ``chat`` it includes the proxy's routes.
    """
    table = list(operations)
    adapters = [(f"{kind} {n}", mode, _adapter(model)) for n, kind, mode, model in _models(table)]
    schemas, shared = TypeAdapter.json_schemas(
        [*adapters, ("problem", "serialization", TypeAdapter(ProblemBody))],  # type: ignore[list-item]
        ref_template=REF,
    )
    paths: dict[str, Any] = {}
    for n, one in enumerate(table):
        body = schemas.get((f"body {n}", "validation"))
        answer = schemas.get((f"answer {n}", "serialization"))
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, body, answer)
    for path, (words, scope, kind) in PAGES.items():
        good = {"description": words, "content": {kind: {"schema": {"type": "string"}}}}
        told: dict[str, Any] = {
            "operationId": _id(path),
            "summary": words,
            "description": f"Needs {SCOPES[scope]}.",
            "responses": {"200": good, **_problems([], scope)},
        }
        told |= {"security": [{"token": []}] if scope != "none" else [], "parameters": _path_parameters(path)}
        paths.setdefault(path, {})["get"] = told
    models = shared.get("$defs", {})
    if chat:
        from weakfeedback.serve.proxy.openapi import SCHEMAS, described

        paths, models = {**paths, **described()}, {**models, **SCHEMAS}
    return {
        "openapi": "3.1.0",
        **({"servers": [{"url": root}]} if root else {}),
        "info": {
            "title": "weakfeedback serve",
            "version": __version__,
            "description": "Learners that decide which stages to call, and learn from how often their answers differ.",
            "x-limits": {name: {**one._asdict(), "text": str(one)} for name, one in LIMITED.items()},
        },
        "paths": paths,
        "components": {
            "schemas": models,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _models(table: list[Operation]) -> Iterable[tuple[int, str, str, Any]]:
    for n, one in enumerate(table):
        if one.body is not None:
            yield n, "body", "validation", one.body
        if one.answer is not None:
            yield n, "answer", "serialization", one.answer


def _adapter(model: Any) -> TypeAdapter[Any]:
    return model if isinstance(model, TypeAdapter) else TypeAdapter(model)


def _id(path: str) -> str:
    return "page" + re.sub(r"[^a-z]+", "_", path).rstrip("_")


def _operation(one: Operation, body: Any, answer: Any) -> dict[str, Any]:
    name = one.handle.__name__
    sent, told = EXAMPLES.get(name, (None, None))
    parameters = [*_path_parameters(one.path), *_query_parameters(one)]
    if one.keyed:
        parameters.append(KEY)
    made: dict[str, Any] = {
        "operationId": name,
        "summary": one.summary,
        "description": f"Needs {SCOPES[one.scope]}.",
        "parameters": parameters,
        "security": [{"token": []}] if one.scope != "none" else [],
    }
    if body is not None:
        content: dict[str, Any] = {"schema": body} if sent is None else {"schema": body, "example": sent}
        made["requestBody"] = {"required": not one.optional, "content": {"application/json": content}}
    codes = [*one.problems, *(COMMON if one.body is not None else ()), *(["invalid"] if one.query else [])]
    good = {str(status): _good(one, answer, told, status) for status in one.statuses}
    made["responses"] = {**_problems(codes, one.scope, "{name}" in one.path), **good}
    return made


def _good(one: Operation, answer: Any, told: Any, status: int) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if answer is not None or not one.also:
        content["application/json"] = {"schema": answer if answer is not None else {"type": "object"}}
        if told is not None:
            content["application/json"]["example"] = told
    content |= {kind: {"schema": {"type": "string"}} for kind in one.also}
    return {"description": {200: "Done.", 201: "Made.", 503: "Not ready."}[status], "content": content}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)", path)
    return [{"name": name, "in": "path", "required": True, **PARAMETERS[name]} for name in names]


def _query_parameters(one: Operation) -> list[dict[str, Any]]:
    kinds = {str: "string", int: "integer", float: "number"}
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": {"type": kinds[type(default)], "default": default},
        }
        for name, default in one.query.items()
    ]


def _problems(codes: Iterable[str], scope: str, learner: bool = False) -> dict[str, Any]:
    """Return the answers that are problems, by status, with the codes of each."""
    general = [code for code in EVERYWHERE if scope != "none" or code not in ("unauthorized", "forbidden")]
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys([*codes, *(["unknown_learner"] if learner else []), *general, "internal"]):
        by_status.setdefault(PROBLEMS[code][0], []).append(code)
    found = {}
    for status, names in sorted(by_status.items()):
        schema = {
            "allOf": [{"$ref": REF.format(model="ProblemBody")}, {"properties": {"code": {"enum": names}}}]
        }
        words = "; ".join(f"{name}: {PROBLEMS[name][1]}" for name in names)
        content = {"application/problem+json": {"schema": schema, "example": Problem(names[0], "...").body()}}
        found[str(status)] = {"description": words, "content": content}
    return found


# -- for people


def sections(made: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one entry for every operation of a document, as the page shows them."""
    found = []
    for path, methods in made["paths"].items():
        for method, one in methods.items():
            body = one.get("requestBody", {}).get("content", {}).get("application/json", {})
            answers = [(status, told) for status, told in one["responses"].items() if status < "300"]
            problems = [(status, told) for status, told in one["responses"].items() if status >= "300"]
            content = answers[0][1]["content"].get("application/json", {})
            found.append(
                {
                    "id": one["operationId"],
                    "method": method.upper(),
                    "path": path,
                    "summary": one["summary"],
                    "needs": one.get("description", ""),
                    "parameters": one["parameters"],
                    "fields": _fields(body.get("schema"), made),
                    "sent": body.get("example"),
                    "told": content.get("example"),
                    "answer": _fields(content.get("schema"), made),
                    "problems": [(status, told["description"]) for status, told in problems],
                }
            )
    return found


def _fields(schema: Any, made: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of an object, or of each alternative, with their types in words."""
    if schema is None:
        return []
    shared = made["components"]["schemas"]
    for several in ("oneOf", "anyOf"):
        if several in schema:
            return [field for one in schema[several] for field in _fields(one, made)]
    title = ""
    if "$ref" in schema:
        title = schema["$ref"].rpartition("/")[2]
        schema = shared[title]
    needed = schema.get("required", ())
    return [
        {
            "of": title,
            "name": name,
            "type": _words(field),
            "required": name in needed,
            "default": field.get("default"),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _words(field: dict[str, Any]) -> str:
    """Return a type in words."""
    if "$ref" in field:
        return str(field["$ref"].rpartition("/")[2])
    for several in ("anyOf", "oneOf"):
        if several in field:
            return " or ".join(_words(one) for one in field[several])
    if "const" in field:
        return f'"{field["const"]}"'
    if "enum" in field:
        return " or ".join(f'"{one}"' for one in field["enum"])
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_words(field.get('items', {}))}"
    limits = [f"{word} {field[key]:g}" for key, word in LIMITS if key in field]
    return " ".join([str(kind), *limits])
