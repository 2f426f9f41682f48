"""The container file without a container: its install steps in a clean environment, its command without rights.

The root is read-only and the temporary folder small, as in `compose.yaml`. An image that was built is run where
WEAKFEEDBACK_IMAGE names it.
"""

import contextlib
import http.client
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.rig.processes import PATIENCE, wait_until
from tests.rig.server import Client
from tests.rig.upstreams import free_port

ROOT = Path(__file__).parents[2]
BUILD, _, RUN = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text()).rpartition("\nFROM ")
UID = int(re.search(r"^USER (\d+)$", RUN, re.MULTILINE)[1])
WITHOUT = (
    f"setpriv --reuid {UID} --regid {UID} --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all"
)
PLACES = {"/opt/weakfeedback": "/mnt/opt", "/data": "/mnt/data"}  # of the image, and here
SECRET = "a token that is long enough"


def here(text):
    """A step or setting of the file with the places of this test."""
    for old, new in PLACES.items():
        text = text.replace(old, new)
    return text


def apart(folder, script):
    """The command that runs a script with mounts of its own, ``folder`` at /mnt."""
    words = f"set -e\nmount --bind {shlex.quote(str(folder))} /mnt\n{script}"
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", words]


@pytest.fixture
def python():
    """A Python that a user without rights can start."""
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("setpriv"):
        pytest.skip("mounts of its own need root, unshare and setpriv")
    fit = "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))"
    for path in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        words = [*WITHOUT.split(), path, "-c", fit]
        if subprocess.run(words, capture_output=True, cwd="/", check=False).returncode == 0:
            return path
    pytest.skip("no Python here can be started by a user without rights")
    return None


def build(folder, python):
    """Run the steps of the first stage."""
    source = folder / "src"
    source.mkdir()
    for names, target in re.findall(r"^COPY (.*) (\S+)$", BUILD, re.MULTILINE):
        for name in names.split():
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / target)
            else:
                shutil.copy2(ROOT / name, source)
    (step,) = re.findall(r"^RUN (.*)$", BUILD, re.MULTILINE)
    assert step.startswith("python -m venv ")
    script = f"cd /mnt/src\n{shlex.quote(python)} {here(step).removeprefix('python ')}"
    done = subprocess.run(apart(folder, script), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
@pytest.mark.given
def test_the_image_serves_without_rights_on_a_read_only_root(tmp_path, python):
    tmp_path.chmod(0o755)
    build(tmp_path, python)
    (tmp_path / "data").mkdir(mode=0o700)
    os.chown(tmp_path / "data", UID, UID)
    port = free_port()
    (settings,) = re.findall(r"^ENV (.*)$", RUN, re.MULTILINE)
    settings = here(settings).replace("0.0.0.0", "127.0.0.1").replace("$PATH", "/usr/bin:/bin")
    variables = [*shlex.split(settings), f"WEAKFEEDBACK_PORT={port}", f"WEAKFEEDBACK_ADMIN_TOKEN={SECRET}"]
    command = json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", RUN, re.MULTILINE)[1])
    script = f"""
    mount -t tmpfs -o size=64m,mode=1777 tmpfs /tmp
    mount -o remount,ro,bind /
    cd /
    ! touch /untouched 2>/dev/null
    exec {WITHOUT} env -i {shlex.join(variables)} {shlex.join(command)}
    """
    said = tmp_path / "said"
    with said.open("w") as out:
        served = subprocess.Popen(apart(tmp_path, script), stdout=out, stderr=out)
    try:
        wait_until(lambda: "serves 0 learners" in said.read_text() or served.poll() is not None)
        assert served.poll() is None, said.read_text()
        lines = Path(f"/proc/{served.pid}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines)
        assert (status["Uid"].split()[0], status["CapEff"], status["NoNewPrivs"]) == (str(UID), "0" * 16, "1")
        call = Client(port, {"authorization": f"Bearer {SECRET}"})
        config = {"kind": "cascade", "stages": ["a", "b"], "stage_costs": [1, 2], "error_cost": 9}
        assert call("PUT", "/v1/learners/t", config)[0] == 201
        assert [call("POST", "/v1/learners/t/decide", {})[0] for _ in range(50)] == [200] * 50
        call.close()
        assert healthy(port)
        served.terminate()
        assert served.wait(PATIENCE) == 0
        assert not healthy(port)
        assert (tmp_path / "data" / "weakfeedback.db").stat().st_uid == UID
    finally:
        served.kill()
        served.wait(PATIENCE)


@pytest.fixture
def engine():
    """What runs containers here."""
    if not os.environ.get("WEAKFEEDBACK_IMAGE"):
        pytest.skip("WEAKFEEDBACK_IMAGE names no image: build one, with --format docker if by Podman")
    for name in ("docker", "podman"):
        words = [name, "image", "inspect", os.environ["WEAKFEEDBACK_IMAGE"]]
        if shutil.which(name) and subprocess.run(words, capture_output=True, check=False).returncode == 0:
            return name
    pytest.skip("neither docker nor podman has that image")
    return None


@pytest.mark.slow
@pytest.mark.given
def test_the_image_runs_in_a_container(engine):
    """Not root and nothing to write to but its volume; it ends at once, and goes on where it was after any end."""
    port, name = free_port(), f"weakfeedback-test-{os.getpid()}"

    def do(*words, check=True):
        return subprocess.run([engine, *words], capture_output=True, text=True, check=check)

    def answers():
        with contextlib.suppress(OSError, http.client.HTTPException):
            return call("GET", "/health/ready")[0] == 200

    call = Client(port, {"authorization": f"Bearer {SECRET}"})
    options = (
        "--network host --read-only --tmpfs /tmp:size=64m --cap-drop ALL --security-opt no-new-privileges"
    )
    variables = ["-e", f"WEAKFEEDBACK_ADMIN_TOKEN={SECRET}", "-e", f"WEAKFEEDBACK_PORT={port}"]
    image = os.environ["WEAKFEEDBACK_IMAGE"]
    try:
        do("run", "-d", "--name", name, *options.split(), *variables, "-v", f"{name}:/data", image)
        wait_until(answers)
        config = {"kind": "cascade", "stages": ["a", "b"], "stage_costs": [1, 2], "error_cost": 9}
        assert call("PUT", "/v1/learners/t", config)[0] == 201
        assert call("POST", "/v1/learners/t/decide", {})[1]["id"] == 1
        assert do("exec", name, "id", "-u").stdout.strip() == str(UID)
        assert do("exec", name, "touch", "/opt/x", check=False).returncode != 0
        status = do("exec", name, "cat", "/proc/1/status").stdout
        assert re.search(r"CapEff:\s+0+\n", status)
        assert re.search(r"NoNewPrivs:\s+1\n", status)
        health = json.loads(re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", RUN, re.MULTILINE)[1])
        assert do("exec", name, *health).returncode == 0
        for id, end in ((2, "stop"), (3, "kill"), (4, "stop")):
            do(end, name)
            ended = do("inspect", name, "--format", "{{.State.ExitCode}}").stdout.strip()
            assert ended == ("137" if end == "kill" else "0")
            do("start", name)
            call.close()
            wait_until(answers)
            assert call("POST", "/v1/learners/t/decide", {})[1]["id"] == id
    finally:
        call.close()
        do("rm", "-f", name, check=False)
        do("volume", "rm", "-f", name, check=False)


def healthy(port):
    """What the health check of the image says."""
    words = json.loads(re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", RUN, re.MULTILINE)[1])
    variables = {"WEAKFEEDBACK_PORT": str(port)}
    done = subprocess.run([sys.executable, *words[1:]], env=variables, capture_output=True, check=False)
    return done.returncode == 0
