"""Scripts, workers, caches and strange places: what is only seen in a process of its own."""

import contextlib
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from tests.engine.forks import run_each
from tests.rig.processes import printed, ran, started

import weakfeedback

SMALL = textwrap.dedent(
    """
    from weakfeedback import simulate
    from weakfeedback.cascade import CascadeProblem

    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])


    class Small:
        delay_safe = True

        def __init__(self, step):
            self.K = 2
            self.step = step
            self.total = step

        def select(self, rng):
            return 1 if self.total > 4 else 0

        def update(self, arm, outputs, rng):
            self.total += self.step


    """
)
PLAY = textwrap.dedent(
    """
    results = simulate(problem, {"p": Small(STEP)}, horizon=20, replications=1)
    print(results.reasons.get("p", results.compiled["p"]), int(results.values("p", "pulls_1")[0, -1]))
    """
)
PLAY_INT, PLAY_FLOAT = (SMALL + PLAY.replace("STEP", step) for step in ("2", "0.5"))
NO_FOLDER = {
    "NUMBA_CACHE_DIR": "/dev/null/nowhere",
    "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
}
SCRIPT = SMALL + textwrap.dedent(
    """
    if __name__ == "__main__":
        import multiprocessing
        import warnings
        from concurrent.futures import ProcessPoolExecutor

        warnings.simplefilter("error")
        options = {"horizon": 100, "replications": 3}
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
            there = simulate(problem, {"m": Small(2)}, executor=executor, **options)
        here = simulate(problem, {"m": Small(2)}, **options)
        arms = ("pulls_0", "pulls_1")
        same = all(there.values("m", arm).tolist() == here.values("m", arm).tolist() for arm in arms)
        print(there.compiled["m"], same)
    """
)


def test_a_class_of_a_script_plays_in_spawned_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    out = ran("-W", "error", "script.py", cwd=tmp_path, environment={"NUMBA_CACHE_DIR": str(tmp_path)})
    assert (out.stdout, out.stderr) == ("True True\n", "")
    assert len([*tmp_path.rglob("play*.nbc")]) == 1  # compiled once: the worker finds it in the cache


def run_small(**environment):
    return ran("-c", PLAY_INT, environment=environment)


def test_without_the_compiler_everything_runs():
    out = run_small(NUMBA_DISABLE_JIT="1")
    assert out.stdout.strip() == "NUMBA_DISABLE_JIT is set, so nothing is compiled 18", out.stderr
    assert "InterpretedWarning" in out.stderr


def test_from_a_zip_file(tmp_path):
    source = Path(weakfeedback.__file__).parent
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in source.rglob("*.py"):
            archive.write(path, path.relative_to(source.parent))
    out = run_small(PYTHONPATH=str(tmp_path / "package.zip"), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert out.stdout.strip() == "True 18", out.stderr


DAMAGE = textwrap.dedent(
    """
    from pathlib import Path

    files = [path for path in Path("cache").rglob("*") if path.suffix in (".nbi", ".nbc")]
    print(len(files) >= 4)
    for path in files:
        path.write_bytes(path.read_bytes()[:50])
    """
)


def test_a_damaged_cache_is_passed_over(tmp_path):
    programs = [PLAY_INT, DAMAGE, PLAY_INT, DAMAGE]
    found = run_each(programs, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert found == ["True 18", "True"] * 2


def test_processes_that_begin_at_once_share_an_empty_cache(tmp_path):
    """The same policy twice, and with fields of another kind: the same names in the cache would mix them up."""
    programs, expected = [PLAY_INT, PLAY_INT + PLAY_FLOAT], ["True 18\n", "True 18\nTrue 12\n"]
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(
                started(
                    [sys.executable, "-W", "error", "-c", program],
                    env={**os.environ, **environment},
                    **pipes,
                )
            )
            for program in programs
        ]
        assert [process.communicate() for process in running] == [(said, "") for said in expected]
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb[ic]")}
    assert run_each(programs, tmp_path, **environment) == "".join(expected).split("\n")[:-1]
    assert {
        path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb[ic]")
    } == made  # found, not made again
    names = [path.name.rsplit(".", 2)[0] for path in made if path.suffix == ".nbc"]
    assert len(names) == len(set(names)) >= 4  # one thing under each name


def test_the_digest_is_the_same_in_every_process():
    program = (
        "from weakfeedback.engine.compiler.fingerprint import fingerprint\n"
        "def f(x): return x in {'a', 'b', 'c', 'd'}\n"
        "print(fingerprint({'f': f}))"
    )
    found = {printed("-c", program, environment={"PYTHONHASHSEED": seed}) for seed in ("1", "2", "3")}
    assert len(found) == 1


SENDER = textwrap.dedent(
    """
    import sys
    import cloudpickle
    from weakfeedback.cascade import CascadeProblem, FixedArm
    from weakfeedback.engine.plan import Plan

    def make():
        class Local(FixedArm):
            pass
        return Local

    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    plan = Plan(problem, {"p": make()(problem.costs, 1)}, horizon=10, replications=1)
    plan.prepare()
    with open(sys.argv[1], "wb") as file:
        cloudpickle.dump(plan.task(0), file)
    """
)
RECEIVER = textwrap.dedent(
    """
    import pickle, sys
    from weakfeedback.engine.replication import run
    with open(sys.argv[1], "rb") as file:
        task = pickle.load(file)
    print(task.compiled, run(task).sum(axis=2)[0, -1])
    """
)


def test_a_class_sent_by_value_plays_elsewhere(tmp_path):
    """Dask sends a class of a notebook whole; it arrives under a shorter name and is still the same code.

    Elsewhere there is no folder for compiled code.
    """
    pytest.importorskip("cloudpickle")
    for program, expected, environment in ((SENDER, "", {}), (RECEIVER, "True 10", NO_FOLDER)):
        said = printed("-W", "error", "-c", program, tmp_path / "task", environment=environment)
        assert said.strip() == expected
