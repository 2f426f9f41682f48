"""The lines with which to call one learner: they can be copied from its page and work as they stand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from weakfeedback.serve.activity import Activity

CHAT = """import os
from openai import OpenAI

client = OpenAI(base_url="{address}/v1", api_key=os.environ.get("WEAKFEEDBACK_TOKEN", "none"))
answer = client.chat.completions.create(
    model="{name}",  # this learner
    messages=[{{"role": "user", "content": "Where is my parcel?"}}],
)
print(answer.choices[0].message.content)"""
CURL_CHAT = """curl {address}/v1/chat/completions -H 'Content-Type: application/json'{header} \\
  -d '{{"model": "{name}", "messages": [{{"role": "user", "content": "Where is my parcel?"}}]}}'"""
PYTHON = """from weakfeedback.client import Client

{name_} = Client("{address}"{token}).learner("{name}")
{lines}"""
DECIDE = """decision = {name_}.decide({context})
answers = {{name: "..." for name in decision.call}}  # call these stages
{name_}.feedback(decision.id, [answers[name] for name in decision.call])"""
ROUTE = """decision = {name_}.decide({context})
answers = {{name: "..." for name in decision.call}}  # call these models; decision.name answers
if len(decision.call) > 1:  # compared
    {name_}.feedback(decision.id, [answers[name] for name in decision.call])"""
ADAPTIVE = """step = {name_}.begin()
while step.stage is not None:
    step = {name_}.tell(step, "...")  # the answer of the stage step.name"""
ALLOCATION = """decision = {name_}.decide()  # decision.allocation: what each arm gets
{name_}.feedback(decision.id, observed={{"{first}": 1}})"""


def calls_of(
    name: str, kind: str, names: Sequence[str], address: str, *, chat: bool, token: bool
) -> list[tuple[str, str]]:
    """Return what to type, each with its title; ``chat`` if it answers OpenAI clients, ``token`` if one is needed."""
    header = ' -H "Authorization: Bearer $WEAKFEEDBACK_TOKEN"' if token else ""
    name_ = name.replace("-", "_")
    name_ = name_ if name_.isidentifier() else "learner"
    given = ', token_env="WEAKFEEDBACK_TOKEN"' if token else ""
    python = PYTHON.format(name_=name_, address=address, name=name, token=given, lines="{lines}")
    if chat:
        return [
            ("OpenAI client", CHAT.format(address=address, name=name)),
            ("curl", CURL_CHAT.format(address=address, name=name, header=header)),
            ("Python", python.replace("{lines}", f"print({name_}.report())  # what it has cost and saved")),
        ]
    context = "[0.2, -0.7]" if kind == "contextual" else ""
    lines = {"adaptive": ADAPTIVE, "allocation": ALLOCATION, "router": ROUTE}.get(kind, DECIDE)
    lines = lines.format(name_=name_, context=context, first=names[0])
    when = ", if several were called," if kind == "router" else ""
    curl = [
        decide_command(address, name, kind, header),
        f"# then{when} what was seen, under the id of the answer:",
        answer_command(address, name, "ID", kind, names[0], 2, header),
    ]
    return [("Python", python.replace("{lines}", lines)), ("curl", "\n".join(curl))]


def decide_command(address: str, name: str, kind: str, header: str = "") -> str:
    """Return the command that asks for a decision."""
    body = {"context": [0.2, -0.7]} if kind == "contextual" else {}
    return _post(address, f"{name}/{'begin' if kind == 'adaptive' else 'decide'}", body, header)


def answer_command(
    address: str, name: str, id: int | str, kind: str, first: str, called: int, header: str = ""
) -> str:
    """Return the command that tells what was seen of the ``first`` arm, or what so many stages said."""
    told: dict[str, Any] = {"adaptive": {"output": "yes"}, "allocation": {"observed": {first: 1}}}
    seen = told.get(kind, {"outputs": ["yes"] * called})
    return _post(
        address, f"{name}/decisions/{id}/{'tell' if kind == 'adaptive' else 'feedback'}", seen, header
    )


def next_command(name: str, watch: Activity, address: str) -> str:
    """Return the next command for a new learner, "" for one that is not new."""
    if not watch.decided:
        return decide_command(address, name, watch.kind)
    if watch.ends["accepted"] or not watch.open:
        return ""
    id, (_, stage, called) = next(iter(watch.open.items()))
    size = len(called) if called is not None else (stage or 0) + 1
    return answer_command(address, name, id, watch.kind, watch.names[0], size)


def _post(address: str, path: str, body: Any, header: str) -> str:
    kind = f"-H 'Content-Type: application/json'{header}"
    return f"curl -X POST {address}/v1/learners/{path} {kind} -d '{json.dumps(body)}'"
