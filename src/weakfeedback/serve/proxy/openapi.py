"""The proxy's routes for the OpenAPI document: OpenAI's requests and answers only roughly, the rest exactly."""

from __future__ import annotations

from typing import Any

from weakfeedback.serve.api import GATE
from weakfeedback.serve.limits import NAME
from weakfeedback.serve.models import CHAT_PROBLEMS, PROBLEMS
from weakfeedback.serve.proxy.settings import FIELDS
from weakfeedback.serve.proxy.upstream import PASSED_ON

REF = "#/components/schemas/{}"
READY = ("starting", "standby", "internal")
BODY = ("bad_json", "invalid", "too_large", "unsupported_media_type", "store_unavailable")
KEYS = ("key_reused", "wrong_context")
ERRORS = (*BODY, *KEYS, *(code for code in CHAT_PROBLEMS if code != "not_spoken"))
TOLD = {
    "learner": "The learner.",
    "stage": "The number of the stage that answered.",
    "model": "The upstream's name of its model.",
    "compared": "Whether answers are compared: yes or no.",
    "learning": "Whether it was decided by the learner: on, or off while the store is not available.",
    "conversation": "Of a conversation: first (decided), same (its model answers) or up (a dearer one from now on).",
    "decision": "The decision, if there is one.",
    "fallback": "The stages that were tried, if the first one failed: small>large.",
    "cost": "What the answer cost; on whole answers.",
}
ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "x-weakfeedback-stage": (
        {"type": "string"},
        "The stage that must answer, by number or name; not learned from.",
    ),
    "x-weakfeedback-learn": ({"enum": ["yes", "no"]}, "Whether to learn from the request."),
    "x-weakfeedback-context": (
        {"type": "string"},
        "A JSON list of numbers from -1 to 1, for a contextual learner.",
    ),
    "Idempotency-Key": ({"type": "string", "maxLength": 128}, "The same key gets the same stage."),
}
QUESTION = {
    "model": "support",
    "messages": [{"role": "user", "content": "Which department? My card was charged twice"}],
}
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1794852245,
    "model": "small-7b",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "billing"}, "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 17, "completion_tokens": 1, "total_tokens": 18},
    "weakfeedback": {"stage": 0, "decision": 17, "cost": 0.0021},
}
SUMMARY = "Answer as a model does: the learner decides which upstream models to call."
NOTE = REPLY["weakfeedback"]
IN_RESPONSES = (
    {"model": "support", "input": "Which department? My card was charged twice"},
    {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "small-7b",
        "output": [
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "billing", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 17, "output_tokens": 1, "total_tokens": 18},
        "weakfeedback": NOTE,
    },
)
IN_MESSAGES = (
    {**QUESTION, "max_tokens": 50},
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "small-7b",
        "content": [{"type": "text", "text": "billing"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 17, "output_tokens": 1},
        "weakfeedback": NOTE,
    },
)
ENTRY = {"id": "support", "object": "model", "created": 1794852245, "owned_by": "weakfeedback"}
TEXT, NULL, LIST = {"type": "string"}, {"type": "null"}, {"type": "array", "items": {"type": "object"}}
OBJECTS = {"type": "array", "minItems": 1, "items": {"type": "object"}}
NOTED = {"$ref": REF.format("ChatNote")}


def _object(
    properties: dict[str, Any], required: str | None = None, words: str = "", closed: bool = False
) -> dict[str, Any]:
    """Return the schema of an object; all its properties are required, unless it is said which are."""
    return {
        "type": "object",
        **({"description": words} if words else {}),
        "required": list(properties) if required is None else required.split(),
        "properties": properties,
        **({"additionalProperties": False} if closed else {}),
    }


SCHEMAS: dict[str, Any] = {
    "ChatRequest": _object(
        {
            "model": {"type": "string", "description": "The name of a learner."},
            **{name: {} for name in sorted(FIELDS)},
            "messages": OBJECTS,
            "stream": {"anyOf": [{"type": "boolean"}, NULL]},
            "n": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 128}, NULL]},
        },
        "model messages",
        "As OpenAI's protocol has it. Fields that are not here are refused unless a stage allows them.",
    ),
    "ChatAnswer": _object(
        {"choices": OBJECTS, "weakfeedback": NOTED},
        words="As the model that answered gives it, and what is told of the decision.",
    ),
    "ChatNote": _object(
        {
            "stage": {"type": "integer", "minimum": 0},
            "decision": {"anyOf": [{"type": "integer"}, NULL]},
            "cost": {"type": "number", "minimum": 0},
        },
        closed=True,
    ),
    "ResponsesRequest": _object(
        {"model": TEXT, "input": {}},
        words="As OpenAI's protocol has it, as far as chat goes; nothing is stored.",
    ),
    "ResponsesAnswer": _object(
        {
            "object": {"const": "response"},
            "status": {"enum": ["completed", "incomplete"]},
            "output": LIST,
            "weakfeedback": NOTED,
        },
        "id object status output usage weakfeedback",
    ),
    "MessagesRequest": _object(
        {"model": TEXT, "messages": OBJECTS}, words="As Anthropic's protocol has it, as far as chat goes."
    ),
    "MessagesAnswer": _object(
        {
            "type": {"const": "message"},
            "role": {"const": "assistant"},
            "content": LIST,
            "weakfeedback": NOTED,
        },
        "id type role content stop_reason usage weakfeedback",
    ),
    "MessagesError": _object(
        {"type": {"const": "error"}, "error": _object({"type": TEXT, "message": TEXT, "code": TEXT})},
        closed=True,
    ),
    "ChatError": _object(
        {"error": _object({"message": TEXT, "type": TEXT, "param": {}, "code": {}})}, closed=True
    ),
    "ChatModel": _object(
        {
            "id": {"type": "string", "pattern": NAME},
            "object": {"const": "model"},
            "created": {"type": "integer"},
            "owned_by": TEXT,
        },
        closed=True,
    ),
    "ChatModels": _object(
        {
            "object": {"const": "list"},
            "data": {"type": "array", "items": {"$ref": REF.format("ChatModel")}},
        },
        closed=True,
    ),
}


def described() -> dict[str, Any]:
    """Return the paths of the proxy for an OpenAPI document."""
    streamed = {"text/event-stream": {"schema": {"type": "string"}}}
    headers = {
        f"x-weakfeedback-{name}": {"description": words, "schema": {"type": "string"}}
        for name, words in TOLD.items()
    }
    answered = {"description": "Answered; as a stream if that was asked for.", "headers": headers}
    named = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "description": "The model.",
    }

    def spoken(name: str, summary: str, example: Any, reply: Any, error: str = "ChatError") -> dict[str, Any]:
        return {
            "operationId": name.lower(),
            "summary": summary,
            "description": "Needs a token of scope use.",
            "parameters": [
                {"name": one, "in": "header", "required": False, "schema": schema, "description": words}
                for one, (schema, words) in ASKED.items()
            ],
            "security": [{"token": []}],
            "requestBody": {"required": True, "content": _json(f"{name}Request", example)},
            "responses": {
                **_errors((*GATE, *ERRORS, *READY), PASSED_ON, error),
                "200": {**answered, "content": {**_json(f"{name}Answer", reply), **streamed}},
            },
        }

    chat = spoken("Chat", SUMMARY, QUESTION, REPLY)
    responses = spoken("Responses", "The same in the words of OpenAI's responses.", *IN_RESPONSES)
    messages = spoken(
        "Messages", "The same in the words of Anthropic's messages.", *IN_MESSAGES, "MessagesError"
    )
    models = {
        "operationId": "models",
        "summary": "List the learners that answer as models.",
        "description": "Needs a token of scope read.",
        "parameters": [],
        "security": [{"token": []}],
        "responses": {
            **_errors((*GATE, *READY)),
            "200": {
                "description": "Done.",
                "content": _json("ChatModels", {"object": "list", "data": [ENTRY]}),
            },
        },
    }
    model = {
        **models,
        "operationId": "model",
        "summary": "Show a learner that answers as a model.",
        "parameters": [named],
        "responses": {
            **_errors((*GATE, "model_not_found", *READY)),
            "200": {"description": "Done.", "content": _json("ChatModel", ENTRY)},
        },
    }
    return {
        "/v1/chat/completions": {"post": chat},
        "/v1/responses": {"post": responses},
        "/v1/messages": {"post": messages},
        "/v1/models": {"get": models},
        "/v1/models/{name}": {"get": model},
    }


def _json(name: str, example: Any) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": REF.format(name)}, "example": example}}


def _errors(
    codes: tuple[str, ...], upstream: tuple[int, ...] = (), form: str = "ChatError"
) -> dict[str, Any]:
    """Return the error responses in a form; for some statuses the code can be an upstream's."""
    by_status: dict[int, list[str]] = {status: [] for status in upstream}
    known = {**PROBLEMS, **CHAT_PROBLEMS}
    for code in codes:
        by_status.setdefault(known[code][0], []).append(code)
    found: dict[str, Any] = {}
    for status, names in sorted(by_status.items()):
        words = "; ".join(f"{name}: {known[name][1]}" for name in names)
        schema: dict[str, Any] = {"$ref": REF.format(form)}
        if status in upstream:
            words = f"{words}; or as a model says" if words else "As a model says."
        else:
            only = {"properties": {"error": {"properties": {"code": {"enum": names}}}}}
            schema = {"allOf": [schema, only]}
        found[str(status)] = {"description": words, "content": {"application/json": {"schema": schema}}}
    late = {"schema": {"$ref": REF.format("ProblemBody")}}
    words = f"slow_request: {PROBLEMS['slow_request'][1]}"
    found["408"] = {"description": words, "content": {"application/problem+json": late}}
    found["431"]["content"]["application/problem+json"] = late  # sent before the route is known
    return found
