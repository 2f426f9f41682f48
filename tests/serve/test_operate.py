"""What operators run it with: settings from the environment, container, compose, unit and manifest files."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from tests.rig.processes import PATIENCE

from weakfeedback.cli.output import Stop
from weakfeedback.cli.serve import ADMIN, serve_app, settings_of
from weakfeedback.engine.compiler.cache import VARIABLE
from weakfeedback.journal.session import PASSWORD

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"WEAKFEEDBACK_[A-Z_]+")


def known():
    """Every variable that the service reads."""
    return set(runpy.run_path(str(ROOT / "docs" / "file_keys.py"))["variables"]())


def test_every_option_has_a_variable_of_its_name():
    command = typer.main.get_command(serve_app)
    names = {option.name: option.envvar for option in command.params}
    without = {name for name, variable in names.items() if variable is None}
    assert without <= {"restored", "help", "install_completion", "show_completion"}
    assert all(
        variable == f"WEAKFEEDBACK_{name.upper()}" for name, variable in names.items() if name not in without
    )


def test_files_name_variables_that_exist():
    read = {f"{name}{end}" for name in (ADMIN, PASSWORD) for end in ("", "_FILE")}
    assert read | {"WEAKFEEDBACK_PORT", "WEAKFEEDBACK_OTEL", VARIABLE} <= known()
    files = [
        "Dockerfile",
        "compose.yaml",
        "docs/operate/weakfeedback.service",
        "docs/operate/kubernetes.yaml",
    ]
    used = {file: set(NAME.findall((ROOT / file).read_text())) for file in files}
    assert all(used.values())
    assert {file: names - known() for file, names in used.items()} == {file: set() for file in files}


def test_compose_and_manifest_run_without_root_on_a_read_only_root():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    ours = [name for name, service in services.items() if "build" in service]
    assert ours == ["weakfeedback", "primary", "standby"]
    for name in ours:
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["tmpfs"] == ["/tmp:size=64m"]
        assert services[name]["ports"][0].startswith("127.0.0.1:")
    secrets = yaml.safe_load((ROOT / "compose.yaml").read_text())["secrets"]
    assert {secret for service in services.values() for secret in service["secrets"]} == set(secrets)
    stateful, service = yaml.safe_load_all((ROOT / "docs" / "operate" / "kubernetes.yaml").read_text())
    pod = stateful["spec"]["template"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert f"USER {pod['spec']['securityContext']['runAsUser']}" in dockerfile
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", dockerfile, re.MULTILINE)
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for line in copied for name in line.split()} == {n for n in ignored if n[0] == "!"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_one_that_systemd_takes(tmp_path):
    unit = (ROOT / "docs" / "operate" / "weakfeedback.service").read_text()
    (tmp_path / "weakfeedback.service").write_text(
        unit.replace("/opt/weakfeedback/bin/weakfeedback", sys.executable)
    )
    verify = ["systemd-analyze", "verify", str(tmp_path / "weakfeedback.service")]
    found = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


def test_the_linter_finds_nothing_in_the_dockerfile(tmp_path):
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("hadolint is not installed")
    found = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout + found.stderr) == (0, "")
    (tmp_path / "Dockerfile").write_text("FROM python\n")  # it does look
    assert subprocess.run([linter, tmp_path / "Dockerfile"], capture_output=True, check=False).returncode == 1


def test_an_administrator_comes_from_the_environment_or_a_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Stop, match="can be reached by others"):
        settings_of(None, None, "0.0.0.0", None)
    monkeypatch.setenv(ADMIN, "a token that is long enough")
    (token,) = settings_of(None, None, "0.0.0.0", None, "one.internal, two.internal").tokens
    assert token.level == 3
    (tmp_path / "w.toml").write_text('[server]\nhost = "0.0.0.0"\n')
    assert settings_of(tmp_path / "w.toml", None, None, None).tokens == [token]
    secret = tmp_path / "token"
    secret.write_text("a token that is long enough\n")
    monkeypatch.setenv(f"{ADMIN}_FILE", str(secret))
    with pytest.raises(Stop, match="are both set"):
        settings_of(None, None, None, None)
    monkeypatch.delenv(ADMIN)
    assert settings_of(None, None, None, None).tokens == [token]
    for bad, words in (("", "is empty"), ("short", "at least 16 characters")):
        secret.write_text(bad)
        with pytest.raises(Stop, match=words):
            settings_of(None, None, None, None)
    monkeypatch.setenv(f"{ADMIN}_FILE", str(tmp_path / "none"))
    with pytest.raises(Stop, match="cannot be read: FileNotFoundError"):
        settings_of(None, None, None, None)


def test_whose_headers_are_believed_comes_from_the_environment_too(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    found = settings_of(None, None, None, None, proxy_headers="10.0.0.1, 10.1.0.0/16")
    assert found.proxy_headers == ["10.0.0.1", "10.1.0.0/16"]
    with pytest.raises(Stop, match=r"^--proxy-headers must be addresses, such as 127\.0\.0\.1, got 'nginx'"):
        settings_of(None, None, None, None, proxy_headers="nginx")


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path):
    (tmp_path / "weakfeedback.toml").write_text('[server]\nport = 1\nhost = "127.0.0.1"\n')
    for arguments, environment, port in (([], {}, "1"), ([], {"WEAKFEEDBACK_PORT": "2"}, "2")):
        assert _port(tmp_path, arguments, environment) == port
    assert _port(tmp_path, ["--port", "3"], {"WEAKFEEDBACK_PORT": "2"}) == "3"


def _port(folder, arguments, environment):
    code = (
        "import weakfeedback.cli.serve as s\n"
        "s.run = lambda settings, *a, **k: print(settings.port) or 0\n"
        "from weakfeedback.cli import main\nmain()"
    )
    command = [sys.executable, "-c", code, "serve", *arguments]
    return subprocess.check_output(
        command, cwd=folder, env={**os.environ, **environment}, text=True, timeout=PATIENCE
    ).strip()


def test_kubernetes_knows_every_field_of_the_manifest():
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate of PyPI is needed")
    found = list(yaml.safe_load_all((ROOT / "docs" / "operate" / "kubernetes.yaml").read_text()))
    assert [one["kind"] for one in found] == ["StatefulSet", "Service"]
    for one in found:
        validate.validate(one, validate.latest_version(), strict=True)
