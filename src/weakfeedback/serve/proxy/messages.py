"""Anthropic's ``/v1/messages``, as far as chat goes: texts, images, tools, JSON, streams."""

from __future__ import annotations

import secrets
from typing import Any

import orjson

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

SAME = {"temperature", "top_p", "stream"}
TRANSLATED = {"messages", "max_tokens", "metadata", "tools", "tool_choice", "service_tier"}
REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
CHOICES = {"auto": "auto", "any": "required", "none": "none"}


class Messages(Translated):
    """One request of this protocol, and its answer as it grows."""

    refusal = "text"

    def __init__(self) -> None:
        super().__init__()
        self._id = "msg_" + secrets.token_hex(12)
        self._arguments = ""  # of the tool under way

    # -- the request

    def read(self, body: dict[str, Any]) -> dict[str, Any]:
        refuse_fields(body, TRANSLATED, SAME)
        body = {name: value for name, value in body.items() if value is not None}
        messages: list[dict[str, Any]] = []
        if "system" in body:
            said = body.pop("system")
            content = said if isinstance(said, str) else _text("system", said)
            messages.append({"role": "system", "content": content})
        for k, message in enumerate(objects("messages", body.get("messages"))):
            _add_message(messages, f"messages[{k}]", message)
        body["messages"] = messages
        for theirs, ours in (("max_tokens", "max_completion_tokens"), ("stop_sequences", "stop")):
            if theirs in body:
                body[ours] = body.pop(theirs)
        for hint in ("service_tier", "cache_control"):  # they change no answer
            body.pop(hint, None)
        user = body.pop("metadata", None)
        if isinstance(user, dict) and user.get("user_id"):
            body["user"] = user["user_id"]
        thinking = body.pop("thinking", None)
        if thinking not in (None, {"type": "disabled"}):
            not_spoken("thinking", thinking, "must be disabled; output_config.effort says how much to think")
        _read_output(body)
        if "tools" in body:
            given = objects("tools", body.pop("tools"))
            tools = [_tool(f"tools[{k}]", one) for k, one in enumerate(given)]
            body |= {"tools": tools} if tools else {}
        _read_choice(body)
        return body

    # -- the answer

    def whole(self, completion: dict[str, Any], tokens: Tokens, note: dict[str, Any]) -> dict[str, Any]:
        self._take(completion)
        return {**self._message(tokens), "stop_reason": self._reason(), "weakfeedback": note}

    def end(self, tokens: Tokens, note: dict[str, Any]) -> bytes:
        delta = {"stop_reason": self._reason(), "stop_sequence": None}
        events = self._close()
        events += _event("message_delta", delta=delta, usage=_usage(tokens), weakfeedback=note)
        return events + _event("message_stop")

    def cut(self, message: str) -> bytes:
        return _event("error", error={**cut_error(message), "type": "api_error"})

    def _reason(self) -> str:
        return REASONS.get(self._finish, "end_turn")

    def _message(self, tokens: Tokens) -> dict[str, Any]:
        """Return the object of the answer so far."""
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": self._blocks,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(tokens),
        }

    def _start(self) -> bytes:
        return _event("message_start", message=self._message(Tokens()))

    def _begin(self, piece: Piece) -> bytes:
        block: dict[str, Any] = {"type": "text", "text": ""}
        if piece.kind == "tool":
            number, self._arguments = piece.id or f"toolu_{secrets.token_hex(8)}", ""
            block = {"type": "tool_use", "id": number, "name": piece.name, "input": {}}
        self._blocks.append(block)
        return _event("content_block_start", index=len(self._blocks) - 1, content_block=block)

    def _add(self, piece: Piece) -> bytes:
        delta = {"type": "text_delta", "text": piece.text}
        if piece.kind == "tool":
            self._arguments += piece.text
            delta = {"type": "input_json_delta", "partial_json": piece.text}
        else:
            self._blocks[-1]["text"] += piece.text
        if not piece.text:
            return b""
        return _event("content_block_delta", index=len(self._blocks) - 1, delta=delta)

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        if self._open[0] == "tool":
            self._blocks[-1]["input"] = _arguments(self._arguments)
        self._open = None
        return _event("content_block_stop", index=len(self._blocks) - 1)


def _event(name: str, **fields: Any) -> bytes:
    return named_event(name, {"type": name, **fields})


def _usage(tokens: Tokens) -> dict[str, int]:
    return {
        "input_tokens": tokens.input - tokens.cached,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": tokens.output,
    }


def _arguments(given: str) -> dict[str, Any]:
    """Return the arguments of a tool call; what is no object cannot be told here but as a text."""
    try:
        found = orjson.loads(given or "{}")
    except orjson.JSONDecodeError:
        found = given
    return found if isinstance(found, dict) else {"arguments": given}


def _add_message(messages: list[dict[str, Any]], where: str, message: dict[str, Any]) -> None:
    """Add a message of this protocol: results of tools become messages of their own, before the rest."""
    role, said = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        not_spoken(f"{where}.role", role, "must be user or assistant")
    if isinstance(said, str):
        messages.append({"role": role, "content": said})
        return
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for k, block in enumerate(objects(f"{where}.content", said)):
        at, kind = f"{where}.content[{k}]", block.get("type")
        if kind == "text":
            parts.append({"type": "text", "text": text(f"{at}.text", block.get("text"))})
        elif kind == "image" and role == "user":
            parts.append({"type": "image_url", "image_url": {"url": _image(at, block.get("source"))}})
        elif kind == "tool_result" and role == "user":
            given = block.get("content", "")
            content = given if isinstance(given, str) else _text(f"{at}.content", given)
            messages.append({"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": content})
        elif kind == "tool_use" and role == "assistant":
            function = {"name": block.get("name"), "arguments": orjson.dumps(block.get("input")).decode()}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
        else:
            not_spoken(f"{at}.type", kind, "must be text, image, tool_use or tool_result")
    if parts or calls:
        made = {"role": role, "content": text_or_parts(parts) if parts else None}
        messages.append({**made, "tool_calls": calls} if calls else made)


def _text(where: str, value: Any) -> str:
    """Return the text of blocks that are texts alone."""
    blocks = objects(where, value)
    for k, block in enumerate(blocks):
        if block.get("type") != "text":
            not_spoken(f"{where}[{k}].type", block.get("type"), "must be text")
    return "\n".join(text(f"{where}[{k}].text", block.get("text")) for k, block in enumerate(blocks))


def _image(where: str, source: Any) -> str:
    given = source if isinstance(source, dict) else {}
    if given.get("type") == "base64":
        return f"data:{given.get('media_type')};base64,{text(f'{where}.source.data', given.get('data'))}"
    if given.get("type") != "url":
        not_spoken(f"{where}.source", source, "must be base64 data or a url")
    return text(f"{where}.source.url", given.get("url"))


def _read_output(body: dict[str, Any]) -> None:
    """Translate ``output_config``."""
    given = body.pop("output_config", {})
    if not isinstance(given, dict) or set(given) - {"effort", "format"}:
        not_spoken("output_config", given, "must be an object with effort and format")
    if given.get("effort") is not None:
        body["reasoning_effort"] = given["effort"]
    form = given.get("format")
    if form is not None:
        if not isinstance(form, dict) or form.get("type") != "json_schema":
            not_spoken("output_config.format", form, "must be of type json_schema")
        schema = {"name": "answer", "schema": form.get("schema"), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}


def _read_choice(body: dict[str, Any]) -> None:
    """Translate ``tool_choice``."""
    choice = body.pop("tool_choice", None)
    if choice is None:
        return
    if not isinstance(choice, dict):
        not_spoken("tool_choice", choice, "must be an object")
    kind = str(choice.get("type"))
    if kind == "tool":
        body["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif kind in CHOICES:
        body["tool_choice"] = CHOICES[kind]
    else:
        not_spoken("tool_choice.type", kind, "must be auto, any, tool or none")
    if choice.get("disable_parallel_tool_use"):
        body["parallel_tool_calls"] = False


def _tool(where: str, tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type", "custom") not in (None, "custom"):
        not_spoken(f"{where}.type", tool["type"], "must be custom: other tools would run elsewhere")
    function = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
    if tool.get("description") is not None:
        function["description"] = tool["description"]
    return {"type": "function", "function": function}
