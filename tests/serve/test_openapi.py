"""The OpenAPI document (T10): valid, complete, true of the answers, and enough to generate a client from."""

import json
import re

import jsonschema
import pytest
from starlette.routing import Route
from tests.rig.generated import Generated, operations_of, validator
from tests.rig.harness import ALLOCATION, CASCADE, CONTEXTUAL, ROUTER, Caller, run, serving

from weakfeedback.serve.api import OPERATIONS
from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.models import PROBLEMS
from weakfeedback.serve.openapi import EXAMPLES, document, sections
from weakfeedback.serve.page.routes import page_of
from weakfeedback.serve.proxy.mount import SILENT, proxy_routes

WORDS = {"type": "string", "minLength": 1}
MEDIA = {
    "type": "object",
    "minProperties": 1,
    "propertyNames": {"pattern": "^[a-z]+/[a-z0-9.+-]+$"},
    "additionalProperties": {
        "type": "object",
        "required": ["schema"],
        "properties": {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}, "example": {}},
        "additionalProperties": False,
    },
}
# The parts of the OpenAPI 3.1 meta-schema that the document uses, strict about names.
META = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["openapi", "info", "paths", "components"],
    "additionalProperties": False,
    "properties": {
        "openapi": {"pattern": r"^3\.1\.\d+$"},
        "info": {
            "type": "object",
            "required": ["title", "version"],
            "additionalProperties": False,
            "properties": {"title": WORDS, "version": WORDS, "description": WORDS},
            "patternProperties": {"^x-": {}},
        },
        "paths": {
            "type": "object",
            "propertyNames": {"pattern": "^/"},
            "additionalProperties": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"enum": ["get", "put", "post", "patch", "delete"]},
                "additionalProperties": {"$ref": "#/$defs/operation"},
            },
        },
        "components": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "schemas": {
                    "type": "object",
                    "propertyNames": {"pattern": "^[a-zA-Z0-9._-]+$"},
                    "additionalProperties": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
                },
                "securitySchemes": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "required": ["type", "scheme"],
                        "properties": {"type": {"const": "http"}, "scheme": {"const": "bearer"}},
                    },
                },
            },
        },
    },
    "$defs": {
        "operation": {
            "type": "object",
            "required": ["operationId", "summary", "responses"],
            "additionalProperties": False,
            "properties": {
                "operationId": {"pattern": "^[a-z_]+$"},
                "summary": WORDS,
                "description": WORDS,
                "security": {"type": "array", "items": {"type": "object"}},
                "parameters": {"type": "array", "items": {"$ref": "#/$defs/parameter"}},
                "requestBody": {
                    "type": "object",
                    "required": ["content", "required"],
                    "additionalProperties": False,
                    "properties": {"required": {"type": "boolean"}, "content": MEDIA},
                },
                "responses": {
                    "type": "object",
                    "minProperties": 1,
                    "propertyNames": {"pattern": "^[1-5][0-9][0-9]$"},
                    "additionalProperties": {
                        "type": "object",
                        "required": ["description"],
                        "additionalProperties": False,
                        "properties": {
                            "description": WORDS,
                            "content": MEDIA,
                            "headers": {
                                "type": "object",
                                "propertyNames": {"pattern": "^x-[a-z-]+$"},
                                "additionalProperties": {
                                    "type": "object",
                                    "required": ["schema"],
                                    "additionalProperties": False,
                                    "properties": {"schema": {"type": "object"}, "description": WORDS},
                                },
                            },
                        },
                    },
                },
            },
        },
        "parameter": {
            "type": "object",
            "required": ["name", "in", "required", "schema"],
            "additionalProperties": False,
            "properties": {
                "name": WORDS,
                "in": {"enum": ["path", "query", "header"]},
                "required": {"type": "boolean"},
                "description": WORDS,
                "schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
            },
        },
    },
}


@pytest.fixture(scope="module")
def made():
    added = page_of(Nothing(), Auth())
    # as it goes over the wire
    return json.loads(json.dumps(document([*OPERATIONS, *added["operations"]], chat=True), allow_nan=False))


class Nothing:
    """A service, or a proxy, that nobody asks."""

    commits = 0
    chat = models = None


def test_the_document_is_valid(made):
    jsonschema.Draft202012Validator.check_schema(META)
    jsonschema.Draft202012Validator(META).validate(made)
    ids = [one["operationId"] for _, _, one in operations_of(made)]
    assert len(set(ids)) == len(ids)
    for path, _, one in operations_of(made):
        named = {p["name"] for p in one["parameters"] if p["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path))
    references = set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(made)))
    assert references <= set(made["components"]["schemas"])


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("info"),
        lambda d: d["paths"]["/v1/learners"]["get"].pop("responses"),
        lambda d: d["paths"]["/v1/learners"].update(fetch={}),
        lambda d: d["components"]["schemas"]["Health"].update(type="objekt"),
        lambda d: d["paths"]["/v1/learners/{name}"]["get"]["parameters"][0].pop("in"),
    ],
)
def test_the_check_finds_damage(made, damage):
    other = json.loads(json.dumps(made))
    damage(other)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(META).validate(other)


def test_every_route_and_every_error_is_in_it(made, tmp_path):
    async def look():
        async with serving(tmp_path / "s.db") as (service, call):
            return [*call.app.routes, *page_of(service, Auth())["routes"], *proxy_routes(Nothing(), Auth())]

    known = {(path, method.upper()) for path, method, _ in operations_of(made)}
    inner = {
        "/live",
        "/learners/{name}",
        "/learners/{name}/decisions/{id}",
        "/learners/{name}/invoice.csv",
        "/login",
        "/logout",
        "/static/{file}",
        *SILENT,
    }
    for route in run(look()):
        assert isinstance(route, Route)
        for method in route.methods - {"HEAD"}:
            path = route.path.replace(":path", "")
            assert (path, method) in known or route.path in inner, (route.path, method)
    codes = {
        code
        for _, _, one in operations_of(made)
        for told in one["responses"].values()
        for content in told.get("content", {}).values()
        for code in content["schema"]
        .get("allOf", [{}, {}])[-1]
        .get("properties", {})
        .get("code", {})
        .get("enum", ())
    }
    general = {"bad_request", "not_found", "method_not_allowed"}  # of requests that reach no operation
    assert codes | general >= set(PROBLEMS), set(PROBLEMS) - codes - general


def test_the_examples_fit_their_schemas(made):
    shown = 0
    for _, _, one in operations_of(made):
        contents = [one.get("requestBody", {}), *one["responses"].values()]
        for content in [kind for told in contents for kind in told.get("content", {}).values()]:
            if "example" in content:
                validator(made, content["schema"]).validate(content["example"])
                shown += 1
    assert shown > len(EXAMPLES)


async def test_a_generated_client_works(made, tmp_path):
    async with serving(tmp_path / "s.db") as (service, _):
        app = make_app(service, None, **page_of(service, Auth()))
        client = Generated(made, Caller(app))
        assert (await client.create(CASCADE, name="triage"))[0] == 201
        assert (await client.create(CASCADE, name="triage"))[0] == 200
        assert (await client.create({**CASCADE, "error_cost": 3}, name="triage"))[0] == 409
        for name, config in (("mail", ROUTER), ("looks", CONTEXTUAL), ("patrols", ALLOCATION)):
            assert (await client.create(config, name=name))[0] == 201
        status, decision = await client.decide({}, name="triage", idempotency_key="k")
        assert (status, decision["repeated"]) == (200, False)
        assert (await client.decide({}, name="triage", idempotency_key="k"))[1]["repeated"] is True
        assert len((await client.decide({"count": 3}, name="triage"))[1]["decisions"]) == 3
        outputs = {"outputs": ["x"] * len(decision["call"])}
        assert (await client.feedback(outputs, name="triage", id=1))[1]["result"] == "accepted"
        assert (await client.feedback(outputs, name="triage", id=1))[1] == {
            "result": "duplicate",
            "id": 1,
        }
        assert (await client.feedback({"outputs": ["y"] * 3}, name="triage", id=1))[0] in (409, 422)
        assert (await client.feedback({"outputs": ["y"]}, name="triage", id=99))[0] == 404
        assert (await client.cancel({"cost": 0.5}, name="triage", id=2))[1]["result"] == "cancelled"
        assert (await client.feedback(outputs, name="triage", id=2))[0] == 410
        batch = {"items": [{"id": 3, "differ": []}, {"id": 77, "differ": []}]}
        results = (await client.feedback_batch(batch, name="triage"))[1]["results"]
        assert [one.get("result", one.get("code")) for one in results] == ["accepted", "unknown_decision"]
        assert (await client.decide({"context": [0.1, 0.2]}, name="looks"))[0] == 200
        assert (await client.decide({}, name="looks"))[0] == 422
        assert "allocation" in (await client.decide({}, name="patrols"))[1]
        assert (await client.create({**CASCADE, "kind": "adaptive"}, name="asks"))[0] == 201
        rows = {"outputs": [["a", "a", "b"]], "truth": ["b"]}
        assert (await client.calibrate(rows, name="asks"))[0] == 200
        step = (await client.begin(name="asks", idempotency_key="b"))[1]
        while step["stage"] is not None:
            told = {"output": "x", "stage": step["stage"]}
            step = (await client.tell(told, name="asks", id=step["id"]))[1]
        assert (await client.tell({"output": "x"}, name="triage", id=1))[0] == 409
        for name in ("triage", "mail", "looks", "asks", "patrols"):
            assert (await client.report(name=name))[1]["name"] == name
            assert (await client.learner(name=name))[0] == 200
            assert (await client.series(name=name))[1]["step"] == 60
        assert (await client.series(name="triage", step=61))[0] == 422
        assert (await client.explain(name="triage", id=1))[0] == 200
        assert (await client.explain(name="patrols", id=1))[0] == 409
        assert (await client.decisions(name="triage", status="all"))[1]["decisions"]
        assert (await client.decision(name="triage", id=1))[1]["status"] == "answered"
        assert (await client.certificate(name="triage", alpha=0.1))[1]["alpha"] == 0.1
        rows = {"outputs": [["a", "a", "b"]]}
        assert (await client.warm_start(rows, name="triage"))[1] == {"rows": 1, "repeated": False}
        audit = (await client.audit({"outputs": [["a", "b", "b"]], "arm": 2}, name="triage"))[1]
        labels = {"labels": {str(row): "b" for row in audit["rows"]}}
        assert (await client.audit_labels(labels, name="triage", audit=audit["id"]))[0] == 200
        assert (await client.audit_told(name="triage", audit=audit["id"]))[1]["verdict"]
        assert (await client.recost({"error_cost": 12}, name="triage"))[1]["revision"] == 2
        assert (await client.events(name="triage", limit=2))[1]["events"][0]["kind"] == "create"
        assert len((await client.learners())[1]["learners"]) == 5
        assert (await client.archive(name="patrols"))[1]["archived"] is True
        assert (await client.learner(name="nobody"))[0] == 404
        assert (await client.live())[0] == 200
        assert (await client.ready())[0] == 200
        assert b"weakfeedback_owner" in (await client.metrics())[1]
        assert (await client.openapi())[1]["openapi"] == "3.1.0"
        assert b"<h1>API</h1>" in (await client.page_docs())[1]
        assert b"triage" in (await client.page())[1]


def test_the_page_of_the_api_names_everything(made, tmp_path):
    shown = sections(made)
    assert len(shown) == len(operations_of(made))
    create = next(one for one in shown if one["id"] == "create")
    assert {field["of"] for field in create["fields"]} >= {
        "CascadeConfig",
        "RouterConfig",
        "AllocationConfig",
    }
    assert create["sent"]["stages"] == ["rules", "small", "expert"]
    decide = next(one for one in shown if one["id"] == "decide")
    assert any("too_many_pending" in words for _, words in decide["problems"])
