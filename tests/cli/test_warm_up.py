"""Compiling ahead of time: what is found later, and that no disk can spoil the result."""

import os
import resource
import subprocess
import sys
import textwrap

import pytest
from tests.rig.processes import PATIENCE, ran
from typer.testing import CliRunner

from weakfeedback.cli.app import app
from weakfeedback.cli.warm_up import jobs, live_object
from weakfeedback.engine.compiler import cache
from weakfeedback.live import Allocator, Cascade, ContextualCascade, Player, Router
from weakfeedback.settings.catalog import POLICIES

WARM_UP = [sys.executable, "-W", "error", "-m", "weakfeedback", "warm-up", "random", "--setting", "cascade"]
LIVE = {kind.setting for kind in (Allocator, Cascade, ContextualCascade, Player, Router)} | {"adaptive"}
PLAY = textwrap.dedent(
    """
    import sys
    from weakfeedback import Cascade
    from weakfeedback.engine.compiler import cache
    for arms in map(int, sys.argv[1:]):
        for compiled in (True, False):
            cascade = Cascade(arms, [0.1] * arms, policy="Random", seed=3, compiled=compiled)
            chosen = []
            for _ in range(50):
                decision = cascade.decide()
                chosen.append(decision.arm)
                cascade.feedback(decision.id, [0] * (decision.arm + 1))
            print(chosen)
    """
)


def environment(folder):
    return {**os.environ, cache.VARIABLE: str(folder)}


def run(command, folder, **more):
    done = ran(*command[1:], env=environment(folder), **more)
    assert done.returncode == 0, done.stderr
    return done


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def plays_alike(folder, *sizes):
    """Compiled as interpreted."""
    chosen = run([sys.executable, "-c", PLAY, *map(str, sizes)], folder).stdout.splitlines()
    assert len(chosen) == 2 * len(sizes)
    assert chosen[::2] == chosen[1::2]


def test_what_is_compiled_ahead_is_found_and_no_disk_does_harm(tmp_path):
    """One test, because each compiles anew and tests are spread over processes."""
    full, refused = tmp_path / "full", tmp_path / "refused"
    full.mkdir()
    refused.mkdir()
    a_disk_that_is_full_is_named(full)
    # when there is room again, what the full disk has left does no harm
    a_second_process_finds_what_the_first_has_compiled_for_any_size(full)
    a_folder_that_cannot_be_written_is_named(refused, full)


def a_disk_that_is_full_is_named(folder):
    def few_bytes():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    # Python 3.13.0 would keep the bytecode of a module that it could write in part only
    command = [WARM_UP[0], "-B", *WARM_UP[1:]]
    done = run(command, folder, preexec_fn=few_bytes)
    assert "1 policy ready" in done.stdout
    assert done.stderr.startswith("weakfeedback: compiled code could not be cached: [Errno 27]")
    assert done.stderr.count("\n") == 1


def a_second_process_finds_what_the_first_has_compiled_for_any_size(folder):
    taken = [cpu_seconds()]
    for _ in range(2):
        done = run(WARM_UP, folder)
        taken.append(cpu_seconds())
        assert done.stderr == ""
        assert done.stdout.splitlines()[0].split()[:2] == ["cascade", "Random"]
        assert done.stdout.splitlines()[1].startswith("1 policy ready")
    cold, cached = taken[1] - taken[0], taken[2] - taken[1]
    assert cached < 0.75 * cold  # a third, of which most is the start of two processes
    before = files(folder)
    assert any("select" in path.name for path in before)
    plays_alike(folder, 3, 20)
    assert files(folder) == before  # found, not made again


def a_folder_that_cannot_be_written_is_named(folder, warm):
    program = textwrap.dedent(
        """
        import errno, os
        from weakfeedback.engine.compiler._numba import diskcache
        from weakfeedback.cli.warm_up import compile_policy

        def refuse(*_):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        diskcache._Files._open_for_write = refuse
        done = compile_policy("cascade", "Random")
        print(done.refused or "compiled", "|", done.lost)
        """
    )
    command = [sys.executable, "-W", "error", "-c", program]
    assert run(command, folder).stdout == "compiled | [Errno 30] Read-only file system\n"
    assert not files(folder)
    assert run(command, warm).stdout == "compiled | \n"  # what is there can be read


@pytest.mark.slow
def test_two_may_warm_up_at_once(tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(WARM_UP, env=environment(tmp_path), **pipes) for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert [words for _, words in said] == ["", ""]
    before = files(tmp_path)
    plays_alike(tmp_path, 3)
    assert files(tmp_path) == before


def test_a_name_that_there_is_not_is_refused():
    for words in (["uss-tx"], ["USS-TS", "--setting", "allocation"], ["--setting", "cascad"]):
        result = CliRunner().invoke(app, ["warm-up", *words])
        assert result.exit_code == 2
        assert "must be one of" in result.stderr
        assert result.stderr.count("\n") == 1


def test_jobs_are_those_asked_for():
    assert len(jobs()) == sum(map(len, POLICIES.values()))
    assert jobs(setting="Multiplayer") == [("multiplayer", name) for name in POLICIES["multiplayer"]]
    assert jobs("random") == [(one, "Random") for one, names in POLICIES.items() if "Random" in names]


@pytest.mark.parametrize(("setting", "policy"), jobs())
def test_every_policy_for_live_use_has_a_live_object(setting, policy):
    live = live_object(setting, policy, compiled=False)
    if setting not in LIVE or policy == "Supervised":  # it sees the truth
        assert live is None
    else:
        assert f", {policy}, " in repr(live)
