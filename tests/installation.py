"""Wheel and sdist on every supported Python found here, with the newest and the oldest requirements allowed.

Run by ``make test-all``; not collected by pytest. Prints one line per combination and fails if any does. Words choose
some of them: ``python tests/installation.py 3.12 oldest``.
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
ENDS = ("newest", "oldest")
SMOKE = """
import pathlib
import weakfeedback
assert "site-packages" in str(pathlib.Path(weakfeedback.__file__))

from weakfeedback import Cascade, simulate
from weakfeedback.settings.catalog import SETTINGS
for setting, name in (
    ("cascade", "USS-TS"), ("contextual", "USS-PD"), ("allocation", "CSB-SU"), ("multiplayer", "DLC-LIX")
):
    problem, policy = SETTINGS[setting].sample(name)
    results = simulate(problem, {"a": policy}, horizon=200, replications=3)
    assert results.compiled == {"a": True}, results.compiled
    other = simulate(problem, {"a": policy}, horizon=200, replications=3, compiled=False)
    assert results.frame.equals(other.frame)

from weakfeedback.cascade import CascadeProblem
problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
cascade = Cascade([lambda x: x, lambda x: x], stage_costs=[1, 2], error_cost=10, seed=0)
assert cascade(3).label == 3
cascade.save("state.json")
assert Cascade.load("state.json", [lambda x: x, lambda x: x]).rounds == 1

import gymnasium
import weakfeedback.adapters.gym
env = gymnasium.make("weakfeedback/Cascade-v0", problem=problem)
env.reset(seed=0)
assert env.step(1)[4]["regret"] >= 0.0
from weakfeedback.adapters.pettingzoo import parallel_env
from weakfeedback.multiplayer import MultiplayerProblem
assert parallel_env(MultiplayerProblem([0.5, 0.4], 2)).reset(seed=0)

from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier
from weakfeedback.adapters.sklearn import CascadeClassifier
X, y = load_breast_cancer(return_X_y=True)
stages = [DecisionTreeClassifier(max_depth=d, random_state=0) for d in (1, 4)]
classifier = CascadeClassifier(stages, stage_costs=[1, 2], error_cost=30, random_state=0).fit(X, y)
assert classifier.score(X, y) > 0.8
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


def pins(end):
    """The lower bounds of pyproject.toml as exact versions, or none for the newest."""
    if end == "newest":
        return []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["gym"]
    bounds = [re.match(r"([\w-]+)>=([\w.]+)", text) for text in wanted]
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


def build(folder):
    """Make sdist and wheel from the tree; they are both tried in each environment."""
    tools = folder / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
    python = str(tools / "bin" / "python")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], check=True
    )
    made = folder / "dist"
    subprocess.run(
        [python, "-m", "hatchling", "build", "-d", str(made)], cwd=ROOT, check=True, capture_output=True
    )
    return next(made.glob("*.whl")), next(made.glob("*.tar.gz"))


def first_failure(steps, folder):
    """Run commands; the output of the first that fails, or nothing."""
    for command, variables in steps:
        out = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        if out.returncode != 0:
            return f"{' '.join(command[:6])}\n{out.stdout[-2000:]}{out.stderr[-4000:]}"
    return ""


def check(python, wheel, sdist, end, folder):
    """Install the wheel into a fresh environment and use it, then the sdist; the trouble of each, if any."""
    venv = folder / "venv"
    (folder / "smoke.py").write_text(SMOKE)
    for old in (venv, folder / "cache"):
        shutil.rmtree(old, ignore_errors=True)
    inside = str(venv / "bin" / "python")
    install = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    use = [
        ([inside, "smoke.py"], {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}),
        ([str(venv / "bin" / "weakfeedback"), "list", "--json"], os.environ),
        (
            [str(venv / "bin" / "weakfeedback"), "demo"],
            {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        ),
    ]
    start = [
        ([python, "-m", "venv", str(venv)], os.environ),
        ([*install, f"{wheel}[gym]", *pins(end)], os.environ),
    ]
    again = [([*install, "--force-reinstall", "--no-deps", str(sdist)], os.environ)]
    trouble = {"wheel": first_failure(start + use, folder)}
    trouble["sdist"] = first_failure(again + use, folder)
    return trouble


def main(words):
    versions = [word for word in words if word in VERSIONS] or VERSIONS
    ends = [word for word in words if word in ENDS] or ENDS
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, sdist = build(folder)
        found = interpreters()
        for version in versions:
            if version not in found:
                print(f"Python {version}: not on this machine, skipped")
                continue
            for end in ends:
                for package, trouble in check(found[version], wheel, sdist, end, folder).items():
                    failed += bool(trouble)
                    verdict = "FAILED" if trouble else "ok"
                    print(f"Python {version}, {end}, {package}: {verdict}\n{trouble}".rstrip(), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
