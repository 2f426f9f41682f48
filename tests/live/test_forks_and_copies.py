"""What cannot be done with a live object: to use it in a forked child, to pickle it, to copy it. And file modes."""

import copy
import os
import pickle
import stat
import sys

import pytest
from tests.live.kinds import KINDS, play
from tests.rig.processes import printed


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


CHILD = """
import os, signal, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer interpreters warn of forks beside threads
from tests.live.kinds import KINDS, play

def wrong_children(name, path, forks):
    kind = KINDS[name]
    thing = kind.make()
    stop = threading.Event()

    def use():
        while not stop.is_set():
            thing.state() if name == "Player" else play(kind, thing, 1)

    def save():
        while not stop.is_set():
            thing.save(path)

    threads = [threading.Thread(target=use) for _ in range(2)] + [threading.Thread(target=save)]
    for thread in threads:
        thread.start()
    uses = [lambda: kind.decide(thing), lambda: thing.save(path), thing.state, thing.report, lambda: thing.pending]
    wrong = 0
    for n in range(forks):
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that hangs is killed
            try:
                uses[n % len(uses)]()
            except RuntimeError as error:
                os._exit(0 if f"belongs to process {os.getppid()}" in str(error) else 2)
            except BaseException:
                os._exit(3)
            os._exit(1)
        wrong += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    stop.set()
    for thread in threads:
        thread.join()
    play(kind, thing, 3)  # the parent's own goes on
    return wrong

for name in KINDS:
    print(name, wrong_children(name, sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_child_is_told_at_once_that_the_object_is_its_parents(tmp_path):
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    said = printed("-c", CHILD, tmp_path / "state.json", 10, environment=environment)
    assert said.splitlines() == [f"{name} 0" for name in KINDS]


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_copies_and_pickles_are_refused_and_the_way_is_named(kind, how):
    thing = kind.make()
    article = "an" if thing.kind == "Allocator" else "a"
    with pytest.raises(TypeError, match=rf"^{article} {thing.kind} cannot be .*state\(\)") as caught:
        how(thing)
    if how is pickle.dumps:
        assert "save(path)" in str(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
def test_new_files_are_for_their_owner_and_old_ones_keep_their_mode(kind, tmp_path):
    path, thing = tmp_path / "state.json", kind.make()
    before = os.umask(0o022)
    try:
        thing.save(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for mode in (0o644, 0o660, 0o400):
            path.chmod(mode)
            play(kind, thing, 1)
            thing.save(path)
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)
    assert kind.load(path).rounds == 3


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_stays_a_link(kind, tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    thing = kind.make()
    thing.save(link)
    assert link.is_symlink()
    assert kind.load(real).state() == thing.state()
