"""OpenAI's ``/v1/responses``, as far as chat goes: texts, images, functions, JSON, streams. Nothing is stored."""

from __future__ import annotations

import secrets
from time import time
from typing import Any

from weakfeedback.serve.proxy.dialect import (
    Piece,
    Translated,
    cut_error,
    named_event,
    not_spoken,
    objects,
    refuse_fields,
    text,
    text_or_parts,
)
from weakfeedback.serve.proxy.prices import Tokens

SAME = {"temperature", "top_p", "parallel_tool_calls", "metadata", "user", "service_tier", "stream"}
TRANSLATED = {"tools", "tool_choice"}
ITEMS = "must be message, function_call or function_call_output"
# fields that would need a memory here, or more than chat: what they may be
ALONE: dict[str, tuple[tuple[Any, ...], str]] = {
    "previous_response_id": (
        (None,),
        "must be left out: nothing is stored, send the earlier messages in input",
    ),
    "conversation": ((None,), "must be left out: nothing is stored, send the earlier messages in input"),
    "background": ((None, False), "must be false: answers come at once"),
    "store": ((None, False), "must be false: nothing is stored"),
    "prompt": ((None,), "must be left out: there are no stored prompts"),
    "truncation": ((None, "disabled"), "must be disabled"),
    "include": ((None, [], ["reasoning.encrypted_content"]), "must be left out: there is nothing to include"),
    "stream_options": ((None, {}, {"include_obfuscation": False}), "must be left out"),
}


class Responses(Translated):
    """One request of this protocol, and its answer as it grows."""

    def __init__(self) -> None:
        super().__init__()
        self._id, self._created, self._number = "resp_" + secrets.token_hex(12), int(time()), 0
        self._asked: dict[str, Any] = {}

    # -- the request

    def read(self, body: dict[str, Any]) -> dict[str, Any]:
        self._asked = dict(body)
        refuse_fields(body, TRANSLATED, SAME)
        body = dict(body)
        for field, (allowed, words) in ALONE.items():
            if body.pop(field, None) not in allowed:
                not_spoken(field, self._asked[field], words)
        messages = []
        if body.get("instructions") is not None:
            messages.append({"role": "system", "content": text("instructions", body["instructions"])})
        given = body.pop("input", None)
        items = [{"role": "user", "content": given}] if isinstance(given, str) else objects("input", given)
        for k, item in enumerate(items):
            _add_item(messages, f"input[{k}]", item)
        body["messages"] = messages
        most = body.pop("max_output_tokens", None)
        if most is not None:
            body["max_completion_tokens"] = most
        reasoning = body.pop("reasoning", None) or {}
        if not isinstance(reasoning, dict) or set(reasoning) - {"effort"}:
            not_spoken("reasoning", reasoning, "must be an object with effort alone")
        if reasoning.get("effort") is not None:
            body["reasoning_effort"] = reasoning["effort"]
        _read_format(body)
        if body.get("tools"):
            body["tools"] = [
                _tool(f"tools[{k}]", one) for k, one in enumerate(objects("tools", body["tools"]))
            ]
        else:
            body.pop("tools", None)
        choice = body.get("tool_choice")
        if isinstance(choice, dict):
            if choice.get("type") != "function":
                not_spoken("tool_choice.type", choice.get("type"), "must be function")
            body["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
        return {name: value for name, value in body.items() if value is not None and name != "instructions"}

    # -- the answer

    def whole(self, completion: dict[str, Any], tokens: Tokens, note: dict[str, Any]) -> dict[str, Any]:
        self._take(completion)
        return self._response(self._status(), tokens, note)

    def end(self, tokens: Tokens, note: dict[str, Any]) -> bytes:
        status = self._status()
        return self._close() + self._event(
            f"response.{status}", response=self._response(status, tokens, note)
        )

    def cut(self, message: str) -> bytes:
        error = cut_error(message)
        return self._event("error", error=error, code=error["code"], message=message, param=None)

    def _event(self, name: str, /, **fields: Any) -> bytes:
        self._number += 1
        return named_event(name, {"type": name, "sequence_number": self._number - 1, **fields})

    def _status(self) -> str:
        return "incomplete" if self._finish in ("length", "content_filter") else "completed"

    def _start(self) -> bytes:
        names = ("response.created", "response.in_progress")
        return b"".join(self._event(name, response=self._response("in_progress")) for name in names)

    def _add(self, piece: Piece) -> bytes:
        at, item = len(self._blocks) - 1, self._blocks[-1]
        where = {"item_id": item["id"], "output_index": at}
        if piece.kind == "tool":
            item["arguments"] += piece.text
            if not piece.text:
                return b""
            return self._event("response.function_call_arguments.delta", **where, delta=piece.text)
        part = item["content"][0]
        part["text" if piece.kind == "text" else "refusal"] += piece.text
        name = "output_text" if piece.kind == "text" else "refusal"
        more: dict[str, Any] = {"logprobs": []} if piece.kind == "text" else {}
        return self._event(f"response.{name}.delta", **where, content_index=0, delta=piece.text, **more)

    def _begin(self, piece: Piece) -> bytes:
        number, at = secrets.token_hex(8), len(self._blocks)
        if piece.kind == "tool":
            call = {"call_id": piece.id or f"call_{number}", "name": piece.name, "arguments": ""}
            item: dict[str, Any] = {"id": f"fc_{number}", "type": "function_call", **call}
        else:
            item = {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": []}
        item["status"] = "in_progress"
        self._blocks.append(item)
        events = self._event("response.output_item.added", output_index=at, item=item)
        if piece.kind == "tool":
            return events
        part: dict[str, Any] = {"type": "refusal", "refusal": ""}
        if piece.kind == "text":
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        events += self._event(
            "response.content_part.added", item_id=item["id"], output_index=at, content_index=0, part=part
        )
        item["content"].append(part)
        return events

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        kind, self._open = self._open[0], None
        at, item = len(self._blocks) - 1, self._blocks[-1]
        item["status"] = "completed"
        where = {"item_id": item["id"], "output_index": at}
        if kind == "tool":
            said = {"name": item["name"], "arguments": item["arguments"]}
            events = self._event("response.function_call_arguments.done", **where, **said)
        else:
            part, name = item["content"][0], "output_text" if kind == "text" else "refusal"
            said = {"text": part["text"], "logprobs": []} if kind == "text" else {"refusal": part["refusal"]}
            events = self._event(f"response.{name}.done", **where, content_index=0, **said)
            events += self._event("response.content_part.done", **where, content_index=0, part=part)
        return events + self._event("response.output_item.done", output_index=at, item=item)

    def _response(
        self, status: str, tokens: Tokens | None = None, note: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the object of the answer so far."""
        asked = self._asked
        reason = {"length": "max_output_tokens"}.get(self._finish, self._finish)
        made: dict[str, Any] = {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "model": self._model,
            "output": self._blocks,
            "parallel_tool_calls": asked.get("parallel_tool_calls") is not False,
            "tool_choice": asked.get("tool_choice") or "auto",
            "tools": asked.get("tools") or [],
            "store": False,
            "usage": None,
        }
        for name in ("instructions", "max_output_tokens", "metadata", "temperature", "text", "top_p", "user"):
            made[name] = asked.get(name)
        if tokens is not None:
            made["usage"] = {
                "input_tokens": tokens.input,
                "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
                "output_tokens": tokens.output,
                "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
                "total_tokens": tokens.input + tokens.output,
            }
            made["weakfeedback"] = note
        return made


def _add_item(messages: list[dict[str, Any]], where: str, item: dict[str, Any]) -> None:
    """Add an item of the input to the messages."""
    kind = item.get("type", "message")
    if kind == "function_call_output":
        said = item.get("output")
        content = said if isinstance(said, str) else _content(f"{where}.output", said)
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
    elif kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": None})
        messages[-1].setdefault("tool_calls", []).append(call)
    elif kind == "message":
        role = item.get("role")
        if role not in ("user", "assistant", "system", "developer"):
            not_spoken(f"{where}.role", role, "must be user, assistant, system or developer")
        said = item.get("content")
        content = said if isinstance(said, str) else _content(f"{where}.content", said)
        messages.append({"role": "system" if role == "developer" else role, "content": content})
    else:
        not_spoken(f"{where}.type", kind, ITEMS)


def _content(where: str, value: Any) -> str | list[dict[str, Any]]:
    """Return the parts of a message as chat has them."""
    parts: list[dict[str, Any]] = []
    for k, part in enumerate(objects(where, value)):
        kind = part.get("type")
        if kind in ("input_text", "output_text", "text"):
            parts.append({"type": "text", "text": text(f"{where}[{k}].text", part.get("text"))})
        elif kind == "refusal":
            parts.append({"type": "text", "text": text(f"{where}[{k}].refusal", part.get("refusal"))})
        elif kind == "input_image" and isinstance(part.get("image_url"), str):
            image = {"url": part["image_url"]} | ({"detail": part["detail"]} if part.get("detail") else {})
            parts.append({"type": "image_url", "image_url": image})
        else:
            not_spoken(f"{where}[{k}].type", kind, "must be input_text, or input_image with image_url")
    return text_or_parts(parts)


def _read_format(body: dict[str, Any]) -> None:
    """Translate ``text.format``."""
    given = body.pop("text", None)
    if given is None:
        return
    form = given.get("format") if isinstance(given, dict) else None
    if not isinstance(given, dict) or set(given) - {"format"} or not isinstance(form or {}, dict):
        not_spoken("text", given, "must be an object with format alone")
    match (form or {}).get("type", "text"):
        case "json_schema":
            schema = {name: value for name, value in (form or {}).items() if name != "type"}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        case "json_object":
            body["response_format"] = {"type": "json_object"}
        case "text":
            pass
        case other:
            not_spoken("text.format.type", other, "must be text, json_object or json_schema")


def _tool(where: str, tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        not_spoken(f"{where}.type", tool.get("type"), "must be function: other tools would run here")
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {one: tool[one] for one in names if tool.get(one) is not None}}
