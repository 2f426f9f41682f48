"""Wheel and sdist on every supported Python found here, with the newest and the oldest requirements allowed.

Run by ``make test-all``; not collected by pytest. Prints one line per combination and fails if any does.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
SMOKE = """
import weakfeedback
from weakfeedback import Cascade, simulate
from weakfeedback.cascade import CascadeProblem, UssTs
problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
results = simulate(problem, {"a": UssTs(problem.costs)}, horizon=200, replications=3)
assert results.compiled == {"a": True}, results.compiled
other = simulate(problem, {"a": UssTs(problem.costs)}, horizon=200, replications=3, compiled=False)
assert results.frame.equals(other.frame)
cascade = Cascade([lambda x: x, lambda x: x], stage_costs=[1, 2], error_cost=10, seed=0)
assert cascade(3).label == 3
import pathlib
assert "site-packages" in str(pathlib.Path(weakfeedback.__file__))
"""


def interpreters():
    """The supported Pythons of this machine, by version."""
    found = {}
    for version in VERSIONS:
        candidates = [shutil.which(f"python{version}"), sys.executable]
        candidates += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)
        for candidate in filter(None, candidates):
            command = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            out = subprocess.run(command, capture_output=True, text=True, check=False)
            if out.returncode == 0 and out.stdout.strip() == version:
                found[version] = str(candidate)
                break
    return found


def oldest():
    """The lower bounds of pyproject.toml as exact versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = [re.match(r"([\w-]+)>=([\w.]+)", text) for text in project["dependencies"]]
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


def check(python, package, pins, folder):
    """Install a package into a fresh environment and use it; the output if that fails."""
    venv = folder / "venv"
    shutil.rmtree(venv, ignore_errors=True)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONWARNINGS": "error"}
    quiet = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = [
        ([python, "-m", "venv", str(venv)], os.environ),
        ([*quiet, str(package), *pins], os.environ),
        ([str(venv / "bin" / "python"), "-c", SMOKE], {**environment, "PYTHONWARNINGS": "default"}),
        ([str(venv / "bin" / "weakfeedback"), "list", "--json"], os.environ),
    ]
    for command, variables in steps:
        out = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        if out.returncode != 0:
            return f"{' '.join(command[:6])}\n{out.stdout[-2000:]}{out.stderr[-4000:]}"
    return ""


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(folder),
            str(ROOT),
        ]
        subprocess.run(build, check=True)
        wheel = next(folder.glob("*.whl"))
        found = interpreters()
        for version in VERSIONS:
            if version not in found:
                print(f"Python {version}: not on this machine, skipped")
                continue
            cases = {"newest": (wheel, []), "oldest": (wheel, oldest())}
            if version == "3.11":
                cases["source"] = (ROOT, [])
            for case, (package, pins) in cases.items():
                trouble = check(found[version], package, pins, folder)
                failed += bool(trouble)
                print(f"Python {version}, {case}: {'FAILED' if trouble else 'ok'}", flush=True)
                if trouble:
                    print(trouble)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
