"""Protocols and types: every policy has the methods of its setting, and no public name is without a type."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import weakfeedback
from weakfeedback import journal, live
from weakfeedback.apps import radio
from weakfeedback.contract import typing
from weakfeedback.settings.catalog import SETTINGS

ROOT = Path(__file__).parents[2]
PROTOCOLS = {
    "cascade": typing.Policy,
    "contextual": typing.ContextualPolicy,
    "adaptive": typing.AdaptivePolicy,
    "routing": typing.RoutingPolicy,
    "allocation": typing.AllocationPolicy,
    "multiplayer": typing.PlayerPolicy,
}
EVERY = [(setting, name) for setting, known in SETTINGS.items() for name in known.policies]


@pytest.mark.parametrize(("setting", "name"), EVERY)
def test_policies_keep_their_protocol(setting, name):
    cls = SETTINGS[setting].policies[name]
    protocol = typing.StagesPolicy if name == "Promise" else PROTOCOLS[setting]
    assert issubclass(cls, protocol)
    for method in [
        word for word, value in vars(protocol).items() if inspect.isfunction(value) and word[0] != "_"
    ]:
        wanted = list(inspect.signature(getattr(protocol, method)).parameters)
        given = list(inspect.signature(getattr(cls, method)).parameters)
        more = ["truth"] if method == "update" and getattr(cls, "sees_truth", False) else []
        assert given == [*wanted, *more], method


def test_an_object_without_the_methods_is_no_policy():
    assert not isinstance(object(), typing.Policy)


@pytest.mark.parametrize("setting", SETTINGS)
def test_problems_keep_theirs(setting):
    problem = SETTINGS[setting].default_problem()
    assert problem.setting == setting
    for name in ("arms", "world", "loop", "measures"):
        assert hasattr(problem, name)


@pytest.mark.parametrize("package", [weakfeedback, radio, live, journal])
def test_the_names_for_type_checkers_are_those_there_are(package):
    text = Path(package.__file__).read_text()
    known = re.findall(r"^    from ([\w.]+) import (\w+) as \2$", text, re.MULTILINE)
    told = {
        (f"{package.__name__}.{module}", name)
        for module, names in package._HOMES.items()
        for name in names.split()
    }
    assert set(known) == told


def test_no_public_name_is_without_a_type(tmp_path):
    names = [name for name in weakfeedback.__all__ if name != "__version__"]
    packages = {"weakfeedback": names}
    for setting in SETTINGS:
        packages[f"weakfeedback.{setting}"] = __import__(
            f"weakfeedback.{setting}", fromlist=["__all__"]
        ).__all__
    lines = [f"import {package}" for package in packages]
    lines += [f"reveal_type({package}.{name})" for package, some in packages.items() for name in some]
    (tmp_path / "public.py").write_text("\n".join(lines))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        str(tmp_path / "public.py"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    shown = re.findall(r"public\.py:(\d+): note: Revealed type is \"(.*)\"", done.stdout)
    assert len(shown) == len(lines) - len(packages), done.stdout + done.stderr
    vague = [lines[int(line) - 1] for line, kind in shown if kind == "Any"]
    assert not vague
