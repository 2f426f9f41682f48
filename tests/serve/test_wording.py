"""Mistakes in plain words: the field without tags, all that differs, and log lines that say whose and why."""

import logging
from typing import Any

import pytest
from tests.rig.harness import CASCADE, ROUTER, run, serving

from weakfeedback.serve.config import ConfigError, checked_learner


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        (
            {"kind": "rooter"},
            "kind",
            "kind must be one of cascade, contextual, adaptive, router, allocation; did you",
        ),
        ({}, "kind", "kind must be given, one of cascade, contextual"),
        ({**ROUTER, "error_cost": -1}, "error_cost", "error_cost must be >= 1e-15, got -1"),
        ({**ROUTER, "prices": [1, "x"]}, "prices[1]", "prices[1] must be a number"),
        ({**ROUTER, "models": []}, "models", "models must have at least 1 entries"),
        ({**ROUTER, "polcy": "x"}, "polcy", "polcy is not known"),
        (
            {**ROUTER, "compare": {"type": "numbr"}},
            "compare.type",
            "compare.type must be one of exact, text, number",
        ),
        (
            {**ROUTER, "compare": {"type": "number", "scale": "x"}},
            "compare.scale",
            "compare.scale must be a number",
        ),
        ({**ROUTER, "compare": 7}, "compare", "compare must be an object"),
        ({k: v for k, v in ROUTER.items() if k != "models"}, "models", "models must be given"),
    ],
)
def test_messages_have_no_tags(tmp_path, given, field, words):
    async def ask() -> Any:
        async with serving(tmp_path / "s.db") as (_, call):
            return await call("PUT", "/v1/learners/mail", given)

    reply = run(ask())
    assert (reply.status, reply.data["field"]) == (422, field)
    assert reply.data["detail"].startswith(words)
    with pytest.raises(ConfigError) as caught:
        checked_learner("w.toml: learner[0]", given)
    assert str(caught.value).startswith(f"w.toml: learner[0].{field} ")
    for text in (reply.data["detail"], str(caught.value)):
        assert not any(word in text.lower() for word in ("input", "tag", "router.", "extra", "value error"))


async def test_a_put_that_differs_names_every_difference(tmp_path):
    async with serving(tmp_path / "s.db") as (_, call):
        await call("PUT", "/v1/learners/t", {**CASCADE, "seed": 1})
        await call("PATCH", "/v1/learners/t/costs", {"error_cost": 12})
        same = await call("PUT", "/v1/learners/t", {**CASCADE, "error_cost": 12})
        changed = {**CASCADE, "stages": ["a", "b", "c"], "error_cost": 7, "currency": "EUR", "seed": 2}
        same, other = same, await call("PUT", "/v1/learners/t", changed)
    assert same.status == 200
    assert (other.status, other.data["code"]) == (409, "exists")
    told = other.data["detail"]
    assert "stages = ['a', 'b', 'c'] (it has ['rules', 'small', 'expert'])" in told
    assert "error_cost = 7.0 (it has 12.0)" in told
    assert "currency = 'EUR' (it has None)" in told
    assert "another seed" in told
    assert "seed = " not in told  # it stays in the log


def test_log_lines_name_the_learner_and_the_reason(tmp_path, caplog):
    async def ask() -> None:
        async with serving(tmp_path / "s.db") as (_, call):
            await call("PUT", "/v1/learners/t", CASCADE)
            await call("PUT", "/v1/learners/t", {**CASCADE, "error_cost": -1})
            await call("POST", "/v1/learners/nobody/decide", {})
            await call("GET", "/v1/learners/%1b%5b31m/report")
            await call("POST", "/v1/learners/t/decisions/7/feedback", {"outputs": ["secret words"]})

    with caplog.at_level(logging.INFO, "weakfeedback.serve"):
        run(ask())
    lines = [record.getMessage() for record in caplog.records if hasattr(record, "request")]
    assert lines[0] == "PUT /v1/learners/{name} 201 t"
    assert lines[1].startswith("PUT /v1/learners/{name} 422 t: invalid: error_cost must be >= ")
    assert lines[2].startswith("POST /v1/learners/{name}/decide 404 nobody: unknown_learner: ")
    assert lines[3].startswith("GET /v1/learners/{name}/report 404: unknown_learner: ")
    assert lines[4].startswith("POST /v1/learners/{name}/decisions/{id}/feedback 404 t: unknown_decision")
    assert "secret" not in "".join(lines)
    assert "\x1b" not in "".join(lines)
    told = [record.request for record in caplog.records if hasattr(record, "request")]
    assert told[1]["learner"] == "t"
    assert told[1]["reason"].startswith("invalid: ")
    assert "reason" not in told[0]
