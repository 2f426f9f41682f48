"""The how-tos of the service: their commands run, answer what the page says, and the files beside them are right."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.rig.harness import CASCADE, quick, serving

from weakfeedback.client import local_service
from weakfeedback.serve.config import read_settings

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(name):
    return BLOCK.findall((ROOT / "docs" / "howto" / name).read_text())


def need(program):
    if shutil.which(program) is None:
        pytest.skip(f"no {program} on this machine: install it to run these commands of the how-to")


def test_the_curl_commands_answer_what_the_page_says():
    need("curl")
    blocks, shown = blocks_of("service.md"), 0
    with local_service() as service:
        for k, (language, code) in enumerate(blocks):
            if language != "sh" or "curl" not in code:
                continue
            command = code.replace("http://127.0.0.1:8470", service.address)
            done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=True)
            following = blocks[k + 1]
            if following[0] == "json":
                expected, found = json.loads(following[1]), json.loads(done.stdout)
                if "expires" in expected:
                    expected["expires"] = found["expires"]
                assert found == expected
                shown += 1
            else:
                assert "problem" not in done.stdout
        assert shown == 2
        assert service.learner("triage").report()["rounds"] == 1


def test_the_other_language_works(tmp_path):
    need("node")
    code = next(code for language, code in blocks_of("service.md") if language == "js")
    (tmp_path / "client.mjs").write_text(code)
    with local_service() as service:
        service.create("triage", **CASCADE)
        env = {**os.environ, "WEAKFEEDBACK": service.address}
        done = subprocess.run(["node", "client.mjs"], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.stdout.strip() == "accepted", done.stderr[-1000:]


async def test_the_commands_for_operation_work(tmp_path):
    async with serving(tmp_path / "service.db", quick()) as (_, call):
        await call("PUT", "/v1/learners/triage", CASCADE)
        await call("POST", "/v1/learners/triage/decide", {})
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "weakfeedback"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m weakfeedback "$@"\n')
    program.chmod(0o755)
    if shutil.which("sqlite3") is None:  # Python's own does the same
        other = tmp_path / "bin" / "sqlite3"
        inner = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute(sys.argv[2])"
        other.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{inner}" "$@"\n')
        other.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    for language, code in blocks_of("operate.md"):
        if language == "sh":
            done = subprocess.run(
                ["bash", "-ec", code], cwd=tmp_path, env=env, capture_output=True, text=True
            )
            assert done.returncode == 0, code + done.stderr[-1000:]
    lines = (tmp_path / "events.ndjson").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["create", "decide"]


def test_the_configuration_is_right(tmp_path):
    code = next(code for language, code in blocks_of("operate.md") if language == "ini")
    assert tomllib.loads(code)
    (tmp_path / "weakfeedback.toml").write_text(code)
    settings = read_settings(tmp_path / "weakfeedback.toml", {"WEAKFEEDBACK_TOKEN": "x" * 20})
    settings.check()
    assert settings.hosts == ["decide.internal"]


async def test_dashboard_and_alerts_use_metrics_that_there_are(tmp_path):
    async with serving(tmp_path / "s.db") as (_, call):
        await call("PUT", "/v1/learners/triage", CASCADE)
        for n in range(3):
            decision = (await call("POST", "/v1/learners/triage/decide", {})).data
            outputs = {"outputs": ["x"] * len(decision["call"])}
            await call("POST", f"/v1/learners/triage/decisions/{n + 1}/feedback", outputs)
        found = (await call("GET", "/metrics")).body.decode()
    known = set(re.findall(r"^(weakfeedback_\w+?)(?:\{| )", found, re.MULTILINE))
    for name in ("dashboard.json", "alerts.yml"):
        text = (ROOT / "docs" / "operate" / name).read_text()
        used = set(re.findall(r"weakfeedback_[a-z_]+", text))
        assert used
        assert used <= known, used - known
    board = json.loads((ROOT / "docs" / "operate" / "dashboard.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) == 9
    named = re.findall(r"`(Weakfeedback\w+)`", (ROOT / "docs" / "howto" / "operate.md").read_text())
    rules = re.findall(r"alert: (\w+)", (ROOT / "docs" / "operate" / "alerts.yml").read_text())
    assert named == rules


@pytest.mark.parametrize("script", ["service_api", "file_keys"])
def test_pages_made_from_models_and_operations_are_up_to_date(script):
    made = runpy.run_path(str(ROOT / "docs" / f"{script}.py"))
    assert made["written"]() == made["PAGE"].read_text()
