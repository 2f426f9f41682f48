"""Live objects that save by themselves: what anybody was told is on disk, whatever happens next."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.live.killed import kind_of
from tests.live.kinds import BY_ID, KINDS, STAGES, play, state

from weakfeedback import Cascade


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=BY_ID)
def kind_by_id(request):
    return KINDS[request.param]


def test_every_call_is_on_disk_when_it_returns(kind, tmp_path):
    path = tmp_path / "state.json"
    thing = kind.make()
    play(kind, thing, 3)
    thing.autosave(path)
    assert state(kind.load(path)) == state(thing)
    for _ in range(5):
        id, decided = kind.decide(thing)
        assert state(kind.load(path)) == state(thing)
        kind.feedback(thing, id, kind.content(id, decided))
        assert state(kind.load(path)) == state(thing)
    kind.decide(thing)
    thing.cancel(thing.pending[0])
    assert state(kind.load(path)) == state(thing)
    assert os.listdir(tmp_path) == ["state.json"]
    thing.autosave(None)
    play(kind, thing, 1)
    assert kind.load(path).rounds == 8


def test_calls_batches_and_warm_starts_are_saved(tmp_path):
    path = tmp_path / "state.json"
    cascade = KINDS["Cascade"].make()
    cascade.autosave(path)
    for change in (
        lambda: cascade(17),
        lambda: cascade.predict(range(20), batch_size=7),
        lambda: cascade.warm_start([[0, 1, 1], [0, 0, 0]]),
    ):
        before = state(cascade)
        change()
        assert state(cascade) != before
        assert state(KINDS["Cascade"].load(path)) == state(cascade)


def test_asynchronous_calls_are_saved(tmp_path):
    import asyncio

    async def stage(x):
        return x % 2

    cascade = Cascade([stage, stage], [1, 2], seed=0)
    cascade.autosave(tmp_path / "c.json")
    asyncio.run(cascade.acall(3))
    assert Cascade.load(tmp_path / "c.json", [stage, stage]).rounds == 1


def test_fewer_writes_on_request(kind, tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    thing = kind.make()
    thing.autosave(path, every=6)
    written, replace = [], os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: (written.append(thing.rounds), replace(*paths)))
    play(kind, thing, 10)  # a decision and a feedback each: twenty changes
    assert written == [3, 6, 9]
    assert kind.load(path).rounds == 9


def test_a_disk_that_fails_is_told_and_made_up_for(kind_by_id, tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    thing = kind_by_id.make()
    thing.autosave(path)
    (id, decided), before = kind_by_id.decide(thing), thing.pending
    content = kind_by_id.content(id, decided)

    def refuse(*paths):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="No space left"):
            kind_by_id.decide(thing)
        assert thing.pending == before  # nobody was told of the decision
        with pytest.raises(OSError, match="No space left"):
            kind_by_id.feedback(thing, id, content)
        assert kind_by_id.load(path).rounds == 0
        assert thing.rounds == 1
        with pytest.raises(OSError, match="No space left"):
            kind_by_id.feedback(thing, id, content)
    assert kind_by_id.feedback(thing, id, content) == "duplicate"
    assert state(kind_by_id.load(path)) == state(thing)
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_player_whose_disk_fails_goes_on_in_the_same_slot(tmp_path, monkeypatch):
    kind = KINDS["Player"]
    player = kind.make()
    player.autosave(tmp_path / "state.json")
    twin = kind.make()

    def refuse(*paths):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="No space left"):
            player.choose()
    assert player.choose() == twin.choose()
    assert state(kind.load(tmp_path / "state.json")) == state(player) == state(twin)


def test_where_nothing_can_be_written_is_refused_at_once(kind, tmp_path):
    thing = kind.make()
    for path, error in ((tmp_path / "no" / "folder.json", FileNotFoundError), (tmp_path, OSError)):
        with pytest.raises(error):
            thing.autosave(path)
        play(kind, thing, 1)  # and autosave is not on
    for every in (0, 1.5, None, True):
        with pytest.raises(ValueError, match="every must be an integer >= 1"):
            thing.autosave(tmp_path / "state.json", every=every)
    assert os.listdir(tmp_path) == []


def test_what_killed_writers_left_is_removed_and_nothing_else(tmp_path):
    path = tmp_path / "state[1].json"
    names = {f".{path.name}.{'0' * 16}.part": True, ".state1.json.part": False, "other.part": False}
    for name in names:
        (tmp_path / name).write_text("half")
        os.utime(tmp_path / name, (time.time() - 3600,) * 2)
    young = tmp_path / f".{path.name}.{'1' * 16}.part"
    young.write_text("under way")
    KINDS["Cascade"].make().autosave(path)
    left = {name for name, goes in names.items() if not goes}
    assert set(os.listdir(tmp_path)) == {path.name, young.name, *left}


def test_eight_threads_are_acknowledged_by_the_disk(kind_by_id, tmp_path):
    path = tmp_path / "state.json"
    thing = kind_by_id.make()
    thing.autosave(path)
    rounds, failures = 6, []
    start = threading.Barrier(8)

    def work():
        try:
            start.wait()
            for _ in range(rounds):
                id, decided = kind_by_id.decide(thing)
                assert id in kind_by_id.load(path).pending
                kind_by_id.feedback(thing, id, kind_by_id.content(id, decided))
                loaded = kind_by_id.load(path)
                assert kind_by_id.feedback(loaded, id, kind_by_id.content(id, decided)) == "duplicate"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert thing.rounds == kind_by_id.load(path).rounds == 8 * rounds
    assert state(kind_by_id.load(path)) == state(thing)


def acknowledged(log):
    """The ids a killed child was told of: decided, and answered. A line cut short was not."""
    lines = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [{int(id) for word, id in lines if word == which} for which in ("decided", "answered")]


def check_killed(folder, trial):
    name, threads = kind_of(trial)
    kind = KINDS[name]
    thing = kind.load(folder / f"{trial}.json")
    decided, answered = acknowledged(folder / f"{trial}.log")
    assert thing.rounds >= len(answered)
    if name == "Player":
        assert thing.slot >= max(answered, default=-1) + 1
    else:
        open_ids = set(thing.pending)
        assert not answered & open_ids
        assert len(open_ids) <= threads
        assert max(decided, default=0) <= thing.rounds + len(open_ids)  # no id was given out and forgotten
    if threads == 1:
        twin = kind.make()
        play(kind, twin, thing.rounds)
        if thing.pending:
            kind.decide(twin)
        assert state(thing) == state(twin)
    before = thing.rounds
    if not thing.pending:
        play(kind, thing, 5)
        assert thing.rounds == before + 5
    return len(answered)


@pytest.mark.parametrize("trials", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_at_any_moment_nothing_acknowledged_is_lost(trials, tmp_path):
    command = [sys.executable, "-m", "tests.live.killed", str(tmp_path), str(trials), str(trials)]
    subprocess.run(command, check=True, timeout=500, cwd=Path(__file__).parents[2])
    answered = [check_killed(tmp_path, trial) for trial in range(trials)]
    assert sum(answered) >= trials  # or the children were killed before they did anything


def test_ids_of_lost_decisions_do_not_come_back(tmp_path):
    path = tmp_path / "c.json"
    cascade = KINDS["Cascade"].make()
    cascade.autosave(path)
    given = [cascade.decide().id for _ in range(3)]
    again = Cascade.load(path, STAGES)  # the process died here
    assert again.pending == given
    assert again.decide().id not in given
