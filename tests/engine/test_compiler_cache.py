"""The compiler's cache: where it is, who may read it, and that nothing that befalls it is an error."""

import errno
import hashlib
import itertools
import os
import pickle
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from tests.engine.test_damage import damaged

import weakfeedback
from weakfeedback.engine.compiler import cache
from weakfeedback.engine.compiler._numba import diskcache

SMALL = textwrap.dedent(
    """
    from weakfeedback import simulate
    from weakfeedback.cascade import CascadeProblem


    class Small:
        delay_safe = True

        def __init__(self, arms):
            self.K = arms
            self.sum = 0.0

        def select(self, rng):
            return 1 if self.sum > LIMIT else 0

        def update(self, arm, outputs, rng):
            self.sum += rng.random()


    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    results = simulate(problem, {"p": Small(2)}, horizon=100, replications=2)
    """
)
LIMITS = itertools.count(4)


def play():
    """Whether a policy that was never compiled is compiled."""
    scope = {"__name__": "nowhere"}
    exec(SMALL.replace("LIMIT", f"{next(LIMITS)}.0"), scope)
    return scope["results"].compiled == {"p": True}


def files(folder):
    return sorted(path for path in Path(folder).rglob("*") if path.suffix in (".nbi", ".nbc"))


def test_it_lies_in_the_users_folder_and_is_private(tmp_path, monkeypatch):
    for name in (cache.VARIABLE, "NUMBA_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    package = Path(weakfeedback.__file__).parent
    before = files(package)
    assert play()
    assert len(files(tmp_path / "weakfeedback")) >= 4
    assert files(package) == before
    assert stat.S_IMODE((tmp_path / "weakfeedback").stat().st_mode) == 0o700


def test_two_variables_move_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert play()
    assert len(files(tmp_path / "numba")) >= 4
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "ours"))
    before = files(tmp_path / "numba")
    assert play()
    assert len(files(tmp_path / "ours")) >= 4
    assert files(tmp_path / "numba") == before


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/weakfeedback"),
        ("linux", {"XDG_CACHE_HOME": "not/absolute"}, "/home/me/.cache/weakfeedback"),
        ("linux", {}, "/home/me/.cache/weakfeedback"),
        ("darwin", {}, "/home/me/Library/Caches/weakfeedback"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/weakfeedback/cache"),
        ("win32", {}, "/home/me/AppData/Local/weakfeedback/cache"),
    ],
)
def test_every_platform_has_its_place(monkeypatch, platform, environment, expected):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr(cache.sys, "platform", platform)
    monkeypatch.setattr(cache.Path, "home", lambda: Path("/home/me"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache.user_folder() == Path(expected)


def test_without_a_home_there_is_none(monkeypatch):
    def nobody():
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(cache.Path, "home", nobody)
    assert cache.user_folder() is None
    assert cache._own_folder() is None


def test_a_folder_of_somebody_else_is_not_used(tmp_path, monkeypatch):
    open_to_all = tmp_path / "mine"
    open_to_all.mkdir(mode=0o777)
    open_to_all.chmod(0o777)
    assert cache._make(open_to_all / "a", open_to_all) == open_to_all / "a"
    assert stat.S_IMODE(open_to_all.stat().st_mode) == 0o700
    monkeypatch.setattr(cache.os, "geteuid", lambda: open_to_all.stat().st_uid + 1)
    assert cache._make(open_to_all / "b", open_to_all) is None


def test_a_place_that_cannot_be_made_means_no_cache(monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, "/dev/null/nowhere")
    assert cache.folder() is None
    assert play()


def half(x):
    return x * 0.5 + 1.0


@pytest.fixture
def again(tmp_path, monkeypatch):
    """Load or compile a small function anew; whether it was found in the cache."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))

    def call():
        function = type(half)(half.__code__, half.__globals__, "half")
        dispatcher = njit(function)
        cache.keep(dispatcher, function, "stamp")
        assert dispatcher(3.0) == 2.5
        return sum(dispatcher.stats.cache_hits.values()) == 1

    assert not call()
    assert call()
    assert len(files(tmp_path)) == 2
    return call


def test_damaged_files_are_removed_and_made_again(again, tmp_path):
    rng = np.random.default_rng(0)
    for k in range(60):
        path = files(tmp_path)[k % 2]
        content = path.read_bytes()
        broken = bytes(len(content)) if k < 4 else damaged(content, rng)
        path.write_bytes(broken)
        assert again() == (broken == content)
        assert again()  # whole again


def test_files_that_were_exchanged_are_not_taken_for_each_other(again, tmp_path):
    index, code = files(tmp_path)[::-1]
    one, two = index.read_bytes(), code.read_bytes()
    index.write_bytes(two)
    code.write_bytes(one)
    assert not again()
    assert again()


@pytest.mark.parametrize(
    "content", [b"cnowhere\nnothing\n.", b"", pickle.dumps([1]), pickle.dumps((1, 2, 3))]
)
def test_what_another_version_wrote_is_made_again(again, tmp_path, content):
    for path in files(tmp_path):
        path.write_bytes(hashlib.sha256(path.name.encode() + b"\0" + content).digest() + content)
        assert not again()
        assert again()


def test_another_numba_has_another_folder(again, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "NAME", "numba-99-numpy-99")
    assert not again()
    assert again()
    assert len({path.parent for path in files(tmp_path)}) == 2


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_or_forbidden_disk_is_no_error(again, tmp_path, monkeypatch, code):
    kept = files(tmp_path)

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(diskcache._Files, "_open_for_write", refuse)
    assert again()  # what is there can be read
    for path in kept:
        path.unlink()
    assert not again()
    assert not again()
    assert not files(tmp_path)


def test_a_disk_that_fills_up_while_writing_leaves_nothing(again, tmp_path, monkeypatch):
    for path in files(tmp_path):
        path.unlink()

    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(diskcache, "_digest", refuse)  # when the file is open already
    assert not again()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_what_killed_writers_left_is_swept(again, tmp_path, monkeypatch):
    place = files(tmp_path)[0].parent
    old, young = place / "a.nbc.tmp.1", place / "b.nbc.tmp.2"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (1e9, 1e9))
    diskcache._sweep.cache_clear()
    for path in files(tmp_path):
        path.unlink()
    again()
    assert not old.exists()
    assert young.exists()


@pytest.mark.slow
def test_sixty_damages_of_a_real_cache_end_no_run(tmp_path):
    source = f"{SMALL.replace('LIMIT', '4.0')}\nprint(results.compiled['p'], results.values('p')[:, -1])"
    command = [sys.executable, "-W", "error", "-c", source]
    how = {"env": {**os.environ, cache.VARIABLE: str(tmp_path)}, "capture_output": True, "text": True}
    said = subprocess.run(command, **how).stdout
    assert said.startswith("True")
    rng = np.random.default_rng(1)
    for k in range(60):
        found = files(tmp_path)
        path = found[k % len(found)]
        path.write_bytes(damaged(path.read_bytes(), rng))
        out = subprocess.run(command, **how)
        assert (out.returncode, out.stdout, out.stderr) == (0, said, "")
