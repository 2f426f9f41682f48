"""Scripts, workers, caches and strange places: what is only seen in a process of its own."""

import contextlib
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from tests.processes import started

import weakfeedback

SCRIPT = textwrap.dedent(
    """
    import multiprocessing
    import warnings
    from concurrent.futures import ProcessPoolExecutor

    from weakfeedback import simulate
    from weakfeedback.cascade import CascadeProblem, UssTs


    class Mine(UssTs):
        pass


    if __name__ == "__main__":
        warnings.simplefilter("error")
        problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
        options = {"horizon": 100, "replications": 3}
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
            there = simulate(problem, {"m": Mine(problem.costs)}, executor=executor, **options)
        here = simulate(problem, {"m": Mine(problem.costs)}, **options)
        print(there.frame.equals(here.frame))
    """
)


def test_a_class_of_a_script_plays_in_spawned_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    out = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert out.stdout.strip() == "True", out.stderr


SMALL = textwrap.dedent(
    """
    import sys, warnings
    from weakfeedback import simulate
    from weakfeedback.cascade import CascadeProblem, UssTs
    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    results = simulate(problem, {"p": UssTs(problem.costs)}, horizon=100, replications=2)
    print(results.reasons.get("p", results.compiled["p"]))
    """
)


def run_small(**environment):
    return subprocess.run(
        [sys.executable, "-c", SMALL],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_the_compiler_everything_runs():
    out = run_small(NUMBA_DISABLE_JIT="1")
    assert out.stdout.strip() == "NUMBA_DISABLE_JIT is set, so nothing is compiled", out.stderr
    assert "InterpretedWarning" in out.stderr


def test_from_a_zip_file(tmp_path):
    source = Path(weakfeedback.__file__).parent
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in source.rglob("*.py"):
            archive.write(path, path.relative_to(source.parent))
    out = run_small(PYTHONPATH=str(tmp_path / "package.zip"), NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert out.stdout.strip() == "True", out.stderr


def test_no_folder_for_the_cache():
    out = run_small(
        NUMBA_CACHE_DIR="/dev/null/nowhere", NUMBA_CACHE_LOCATOR_CLASSES="UserProvidedCacheLocator"
    )
    assert out.stdout.strip() == "True", out.stderr


def test_a_damaged_cache_is_passed_over(tmp_path):
    for _ in range(2):
        out = run_small(NUMBA_CACHE_DIR=str(tmp_path))
        assert out.stdout.strip() == "True", out.stderr
        files = [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
        assert files
        for path in files:
            path.write_bytes(path.read_bytes()[:50])


def test_processes_that_compile_at_once_do_not_disturb_each_other(tmp_path):
    """The same policy with fields of two kinds: the same names in the cache would mix them up."""
    program = textwrap.dedent(
        """
        import sys
        import numpy as np
        from weakfeedback import simulate
        from weakfeedback.cascade import CascadeProblem

        class Mine:
            delay_safe = True
            def __init__(self, step):
                self.K = 2
                self.step = step
                self.total = step
            def select(self, rng):
                return 1 if self.total > 4 else 0
            def update(self, arm, outputs, rng):
                self.total += self.step

        problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
        step = {"int": 2, "float": 0.5}[sys.argv[1]]
        results = simulate(problem, {"p": Mine(step)}, horizon=20, replications=1)
        print(results.compiled["p"], results.frame["pulls_1"].iloc[-1])
        """
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    expected = {"int": "True 18", "float": "True 12"}
    for _ in range(2):  # into an empty cache, then from a full one
        with contextlib.ExitStack() as stack:
            how = {"env": environment, "stdout": subprocess.PIPE, "text": True}
            running = {
                kind: stack.enter_context(started([sys.executable, "-c", program, kind], **how))
                for kind in expected
            }
            assert {kind: process.communicate()[0].strip() for kind, process in running.items()} == expected
    names = [path.name.rsplit(".", 2)[0] for path in tmp_path.rglob("*.nbc")]
    assert len(names) == len(set(names))  # one thing under each name


def test_the_digest_is_the_same_in_every_process():
    program = (
        "from weakfeedback.engine.compiler.fingerprint import fingerprint\n"
        "def f(x): return x in {'a', 'b', 'c', 'd'}\n"
        "print(fingerprint({'f': f}))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


SENDER = textwrap.dedent(
    """
    import sys
    import cloudpickle
    from weakfeedback.cascade import CascadeProblem, UssTs
    from weakfeedback.engine.plan import Plan

    def make():
        class Local(UssTs):
            pass
        return Local

    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    plan = Plan(problem, {"p": make()(problem.costs)}, horizon=10, replications=1)
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
        print(run(pickle.load(file)).sum(axis=2)[0, -1])
    """
)


def test_a_class_sent_by_value_plays_elsewhere(tmp_path):
    """Dask sends a class of a notebook whole; it arrives under a shorter name and is still the same code."""
    pytest.importorskip("cloudpickle")
    for program, expected in ((SENDER, ""), (RECEIVER, "10")):
        out = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "task")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert out.stdout.strip() == expected, out.stderr
        assert out.returncode == 0, out.stderr
