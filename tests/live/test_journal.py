"""Live objects with a journal: what anybody was told is on disk, whatever happens next."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.live import inside
from tests.live.killed import kind_of
from tests.live.kinds import BY_ID, KINDS, STAGES, learned, play, state
from tests.rig.threads import in_threads

from weakfeedback import (
    Allocator,
    Cascade,
    DurabilityWarning,
    FeedbackConflict,
    JournalError,
    OwnedElsewhere,
    Player,
    Router,
    UnknownDecision,
)
from weakfeedback.cascade import UssTs
from weakfeedback.journal import SqliteStore
from weakfeedback.journal.events import StoreUnavailable
from weakfeedback.live import Costed, persistence


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=BY_ID)
def kind_by_id(request):
    return KINDS[request.param]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


def abandon(thing):
    """End as a killed process does: nothing is written any more, and the lock is free."""
    inside.kill(thing)


class Full:
    """A disk that is full while this is entered."""

    def __init__(self, monkeypatch):
        self.patch = monkeypatch.context()

    def __enter__(self):
        def refuse(self, rows, *, sync=True):
            raise StoreUnavailable(28, "No space left on device")

        self.patch.__enter__().setattr(SqliteStore, "write", refuse)

    def __exit__(self, *error):
        self.patch.__exit__(*error)


# -- recovery


def test_every_call_is_on_disk_when_it_returns(kind, path):
    thing, twin = kind.open(path), kind.make()
    assert learned(thing) == learned(twin)
    for _ in range(5):
        id, decided = kind.decide(thing)
        assert state(kind.load(path)) == state(thing)
        kind.feedback(thing, id, kind.content(id, decided))
        assert state(kind.load(path)) == state(thing)
    kind.decide(thing)
    thing.cancel(thing.pending[0])
    assert state(kind.load(path)) == state(thing)
    play(kind, twin, 5)
    kind.decide(twin)
    twin.cancel(twin.pending[0])
    assert learned(thing) == learned(twin)
    abandon(thing)


def test_what_is_opened_again_goes_on_as_if_it_had_never_stopped(kind, path):
    twin, played = kind.make(), []
    for stop in range(6):
        thing = kind.open(path)
        played += play(kind, thing, 7)
        if stop % 2:
            thing.close()  # with a snapshot
        else:
            abandon(thing)
    assert play(kind, twin, 42) == played
    assert learned(kind.load(path)) == learned(twin)


def test_a_compiled_object_goes_on_where_an_interpreted_one_stopped(kind, path):
    twin = kind.make()
    thing = kind.open(path)
    played = play(kind, thing, 5)
    thing.close()
    thing = kind.open(path, compiled=True)
    assert thing.compiled
    played += play(kind, thing, 40)
    assert play(kind, twin, 45) == played
    assert learned(thing) == learned(twin)
    abandon(thing)


def test_calls_batches_warm_starts_costs_and_prices_are_recovered(path):
    def make():
        return KINDS["Cascade"].open(path)

    cascade = make()

    def answer():
        decision = cascade.decide()
        cascade.feedback(decision.id, [Costed(1, 3.0), Costed(2, 1.0), 2][: decision.arm + 1])

    def answer_pairs():
        decision = cascade.decide()
        pairs = [(0, decision.arm)] if decision.arm else []
        cascade.feedback_pairs(decision.id, pairs, costs=[2.5, 1.0, 1.0][: decision.arm + 1])

    for change in (
        lambda: cascade(17),
        lambda: cascade.predict(range(20), batch_size=7),
        lambda: cascade.warm_start([[0, 1, 1], [0, 0, 0]]),
        answer,
        answer_pairs,
        lambda: cascade.cancel(cascade.decide().id, cost=2.0),
        lambda: cascade.recost([1, 2, 3], 50),
    ):
        before = state(cascade)
        change()
        assert state(cascade) != before
        assert state(KINDS["Cascade"].load(path)) == state(cascade)
    abandon(cascade)
    again = Cascade.open(path, STAGES, [1, 2, 3], error_cost=50)
    assert again.report().wasted >= 2.0
    abandon(again)


def test_a_metric_tosses_the_same_coins_again(path):
    def make():
        metric = lambda a, b: min(abs(a - b), 1.0)  # noqa: E731
        return Cascade.open(path, [lambda x: x, lambda x: x * x], [0.1, 0.2], 1, metric=metric, seed=3)

    cascade = make()
    for x in (0.1, 0.5, 0.9, 0.3, 0.7):
        cascade(x)
    cascade.warm_start([[0.1, 0.9], [0.2, 0.3]])
    before = state(cascade)
    abandon(cascade)
    again = make()
    assert state(again) == before
    abandon(again)


def test_labels_that_were_bought_are_recovered(path):
    def make():
        return Cascade.open(
            path, STAGES, [1, 4, 9], error_cost=30, seed=1, label=lambda x: x % 5, label_price=2
        )

    cascade = make()
    for x in range(30):
        cascade(x)
    before = state(cascade)
    assert cascade.report().labels > 0
    abandon(cascade)
    again = make()
    assert state(again) == before
    abandon(again)


def test_asynchronous_calls_are_in_the_journal(path):
    async def stage(x):
        return x % 2

    cascade = Cascade.open(path, [stage, stage], [1, 2], error_cost=10, seed=0)
    asyncio.run(cascade.acall(3))
    assert Cascade.load(path, [stage, stage]).rounds == 1
    abandon(cascade)


def test_snapshots_are_taken_on_the_way_and_never_needed(path, monkeypatch):
    monkeypatch.setattr(persistence, "SNAPSHOT", 10)
    kind = KINDS["Cascade"]
    thing = kind.open(path)
    play(kind, thing, 30)
    before = state(thing)
    abandon(thing)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM snapshot").fetchone() == (3,)
    database.close()
    assert state(kind.load(path)) == before
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM snapshot")
    database.close()
    assert state(kind.load(path)) == before


def test_a_damaged_snapshot_is_named_and_not_used(path):
    kind = KINDS["Cascade"]
    thing = kind.open(path)
    play(kind, thing, 12)
    before = state(thing)
    thing.close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE snapshot SET body = replace(body, 'USS-WD', 'USS-XX')")
    database.close()
    with pytest.warns(UserWarning, match="a snapshot is damaged and was not used"):
        assert state(kind.load(path)) == before


def test_a_changed_journal_is_refused_with_the_event(path):
    kind = KINDS["Cascade"]
    thing = kind.open(path)
    play(kind, thing, 12)
    abandon(thing)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE event SET decision = 9 WHERE seq = 3")
    database.close()
    with pytest.raises(JournalError, match="3"):
        kind.load(path)


def test_a_decision_that_falls_otherwise_now_is_a_fault(path, monkeypatch):
    # the code of the policy has changed since: a store of this version must give the same decisions
    kind = KINDS["Cascade"]
    thing = kind.open(path)
    play(kind, thing, 12)
    abandon(thing)
    from weakfeedback.cascade.policies.uss_wd import UssWdTs

    monkeypatch.setattr(UssWdTs, "select", lambda self, rng: 0)
    with pytest.raises(JournalError, match=r"event \d+: decision \d+ was .*, and is now"):
        kind.load(path)


def test_a_store_whose_first_event_was_never_written_is_begun_again(path):
    with SqliteStore.open(path) as store:
        store.create_learner("main", at=1)
    thing = KINDS["Cascade"].open(path)
    play(KINDS["Cascade"], thing, 2)
    abandon(thing)
    assert KINDS["Cascade"].load(path).rounds == 2


# -- arguments


def test_arguments_left_out_come_from_the_journal_and_others_must_fit(path):
    cascade = Cascade.open(path, STAGES, [1, 4, 9], error_cost=30, policy="USS-UCB", alpha=0.75, seed=4)
    for x in range(9):
        cascade(x)
    before = state(cascade)
    cascade.close()
    again = Cascade.open(path, STAGES, [1, 4, 9])
    assert state(again) == before
    again.close()
    for wrong, message in (
        ({"policy": "USS-TS"}, "policy must be 'USS-UCB', as in .*, or left out, got 'USS-TS'"),
        ({"alpha": 0.5}, "alpha must be 0.75, as in .*, or left out, got 0.5"),
        ({"seed": 5}, "seed must be 4, as in .*, or left out, got 5"),
        ({"combine": max}, "combine must be given if and only if it was"),
    ):
        with pytest.raises(ValueError, match=message):
            Cascade.open(path, STAGES, [1, 4, 9], **wrong)
    with pytest.raises(ValueError, match="stages must be 3"):
        Cascade.open(path, STAGES[:2], [1, 4])
    again = Cascade.open(path, STAGES, [1, 4, 9], error_cost=30, policy="uss-ucb", alpha=0.75, seed=4)
    assert state(again) == before
    again.close()
    with pytest.raises(JournalError, match="is the journal of a Cascade, not of an Allocator"):
        Allocator.open(path, 3, 1.0)


def test_a_journal_of_a_policy_object_asks_for_the_object(path):
    class Mine(UssTs):
        pass

    prices = {"stage_costs": [1, 4, 9], "error_cost": 30}
    Cascade.open(path, STAGES, **prices, policy=Mine(np.cumsum([1, 4, 9]) / 30), seed=4).close()
    for policy in ("USS-TS", "Random"):
        message = f"policy must be a fresh .*Mine, the object that .* needs, got '{policy}'"
        with pytest.raises(ValueError, match=message):
            Cascade.open(path, STAGES, **prices, policy=policy)
    Cascade.open(path, STAGES, **prices, policy=Mine(np.cumsum([1, 4, 9]) / 30)).close()


def test_other_prices_are_a_recost_event(path):
    cascade = Cascade.open(path, STAGES, [1, 4, 9], error_cost=30, seed=4)
    cascade(3)
    cascade.close()
    again = Cascade.open(path, STAGES, [1, 2, 3], error_cost=30)
    assert again.policy.C.tolist() == pytest.approx([1 / 30, 3 / 30, 6 / 30])
    again.close()
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM event WHERE kind = 'recost'").fetchone() == (1,)
    database.close()


def test_fresh_entropy_is_drawn_once_and_kept(path):
    cascade = Cascade.open(path, 9, [1] * 9, policy="Random")
    seed = inside.seed(cascade)
    first = [cascade.decide().arm for _ in range(20)]
    abandon(cascade)
    again = Cascade.open(path, 9, [1] * 9)
    assert inside.seed(again) == seed
    assert len(again.pending) == 20
    assert len(set(first)) > 1
    abandon(again)


def test_wrong_arguments_leave_no_file_behind(tmp_path):
    with pytest.raises(ValueError, match="stage_costs"):
        Cascade.open(tmp_path / "c.db", STAGES, [1, 4])
    for every in (0, 1.5, None, True):
        with pytest.raises(ValueError, match="every must be an integer >= 1"):
            Cascade.open(tmp_path / "c.db", STAGES, [1, 4, 9], error_cost=30, every=every)
    assert os.listdir(tmp_path) == []
    with pytest.raises(OSError, match="no"):
        Cascade.open(tmp_path / "no" / "c.db", STAGES, [1, 4, 9], error_cost=30)


# -- one owner


def test_a_second_owner_is_refused_until_the_first_has_closed_or_died(path):
    kind = KINDS["Cascade"]
    thing = kind.open(path)
    with pytest.raises(OwnedElsewhere, match=f"in use by process {os.getpid()} since"):
        kind.open(path)
    thing.close()
    with pytest.raises(RuntimeError, match="this Cascade was closed: open"):
        thing.decide()
    code = f"""
from tests.live.kinds import KINDS, play
import os
import shutil
thing = KINDS["Cascade"].open({str(path)!r})
play(KINDS["Cascade"], thing, 3)
print("ready", flush=True)
import time
time.sleep(600)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    try:
        assert child.stdout.readline() == b"ready\n"
        with pytest.raises(OwnedElsewhere, match=f"in use by process {child.pid} since"):
            kind.open(path)
        assert kind.load(path).rounds == 3  # to look is allowed
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    again = kind.open(path)
    assert again.rounds == 3
    abandon(again)


def test_answers_are_known_for_ever(path):
    kind = KINDS["Cascade"]
    thing = kind.open(path)
    played = play(kind, thing, 40)
    id, _ = kind.decide(thing)
    thing.cancel(id)
    assert thing.state()["core"]["ledger"]["answered"] == []
    thing.close()
    thing = kind.open(path)
    for answered, _, content in played:
        assert thing.feedback(answered, content) == "duplicate"
        with pytest.raises(FeedbackConflict):
            thing.feedback(answered, [9 for _ in content])
    play(kind, thing, 3)
    with pytest.raises(UnknownDecision, match="was cancelled"):
        thing.feedback(id, [0])
    abandon(thing)


def test_ids_do_not_come_back_even_if_the_last_events_are_lost(path):
    kind = KINDS["Cascade"]
    thing = kind.open(path, every=10)
    play(kind, thing, 3)
    given = [kind.decide(thing)[0] for _ in range(4)]
    abandon(thing)
    with sqlite3.connect(path) as database:  # as a loss of power would leave it: the last events are gone
        ((last,),) = database.execute("SELECT max(seq) FROM event").fetchall()
        database.execute("DELETE FROM event WHERE seq > ?", (last - 4,))
        database.execute("DELETE FROM meta WHERE key LIKE 'head%'")
    database.close()
    path.with_name("journal.db.lock").unlink()  # what is known of a process that only ended
    again = kind.open(path, every=10)
    assert again.decide().id not in given
    abandon(again)


def test_every_n_waits_for_the_disk_now_and_then_and_a_kill_loses_nothing(path, monkeypatch):
    synced = []
    write = SqliteStore.write

    def noted(self, rows, *, sync=True):
        synced.append(sync)
        return write(self, rows, sync=sync)

    monkeypatch.setattr(SqliteStore, "write", noted)
    kind = KINDS["Cascade"]
    thing = kind.open(path, every=6)
    synced.clear()
    play(kind, thing, 12)  # a decision and a feedback each
    assert (len(synced), sum(synced)) == (24, 4)
    assert state(kind.load(path)) == state(thing)
    abandon(thing)


# -- a disk that fails


def test_a_disk_that_fails_is_told_and_made_up_for(kind_by_id, path, monkeypatch):
    kind = kind_by_id
    thing = kind.open(path)
    (id, decided), before = kind.decide(thing), thing.pending
    content = kind.content(id, decided)
    with Full(monkeypatch):
        with pytest.raises(OSError, match="No space left"):
            kind.decide(thing)
        assert thing.pending == before  # nobody was told of the decision
        with pytest.raises(OSError, match="No space left"):
            kind.feedback(thing, id, content)
        assert kind.load(path).rounds == 0
        assert thing.rounds == 1
        with pytest.raises(OSError, match="No space left"):
            kind.feedback(thing, id, content)
    assert kind.feedback(thing, id, content) == "duplicate"
    assert state(kind.load(path)) == state(thing)
    id, _ = kind.decide(thing)
    with Full(monkeypatch), pytest.raises(OSError, match="No space left"):
        thing.cancel(id)
    thing.cancel(id)
    assert state(kind.load(path)) == state(thing)
    with pytest.raises(UnknownDecision):
        thing.cancel(id)
    abandon(thing)


def test_answers_that_were_paid_for_are_returned_from_a_full_disk(path, monkeypatch):
    cascade = KINDS["Cascade"].open(path)
    with Full(monkeypatch):
        with pytest.raises(OSError, match="No space left"):
            cascade.decide()
        with pytest.warns(DurabilityWarning, match="in memory only"):
            answer = cascade(7)
        with pytest.warns(DurabilityWarning, match="in memory only") as warned:
            assert len(cascade.predict([1, 2, 3])) == 3
        assert {one.filename for one in warned} == {__file__}  # not a line of the package
        with pytest.raises(OSError, match="No space left"):
            cascade.warm_start([[0, 1, 1]])
        assert KINDS["Cascade"].load(path).rounds == 0
    assert cascade.warm_start([[0, 1, 1]]) == 1  # writes, and learns nothing twice
    assert cascade.feedback(answer.id, answer.outputs) == "duplicate"
    assert cascade.rounds == 4
    assert int(cascade.report().comparisons[0, 2]) <= 5
    assert state(KINDS["Cascade"].load(path)) == state(cascade)
    assert cascade.warm_start([[0, 1, 1]]) == 1  # a new one
    abandon(cascade)


def test_a_player_whose_disk_fails_goes_on_in_the_same_slot(path, monkeypatch):
    kind = KINDS["Player"]
    player, twin = kind.open(path), kind.make()
    with Full(monkeypatch), pytest.raises(OSError, match="No space left"):
        player.choose()
    assert player.choose() == twin.choose()
    with Full(monkeypatch), pytest.raises(OSError, match="No space left"):
        player.observe(0.0, False, slot=0)
    player.observe(0.0, False, slot=0)  # the repetition writes
    twin.observe(0.0, False, slot=0)
    assert player.slot == 1
    assert learned(kind.load(path)) == learned(player) == learned(twin)
    abandon(player)


def test_a_failed_call_is_on_disk_when_it_returns(path):
    def broken(x):
        raise KeyError(x)

    cascade = Cascade.open(path, [broken], [2.0], 1, seed=0)
    with pytest.raises(KeyError):
        cascade(1)
    kept = Cascade.load(path, [broken])
    assert (kept.pending, kept.rounds) == ([], 0)
    assert state(kept) == state(cascade)
    abandon(cascade)


# -- expiry


EXPIRED = (
    r"decision {} expired at \d{{4}}-\d\d-\d\d .* UTC, not answered in time \(see pending_ttl and expire\)"
)


def test_decisions_that_nobody_answers_expire(path):
    kind = KINDS["Cascade"]
    thing = kind.open(path)
    old = [kind.decide(thing)[0] for _ in range(3)]
    assert thing.expire(3600) == []
    assert thing.expire(0) == old
    assert thing.pending == []
    with pytest.raises(UnknownDecision, match=EXPIRED.format(old[0])):
        thing.feedback(old[0], [0])
    last = kind.decide(thing)[0]
    thing.cancel(last)
    with pytest.raises(UnknownDecision, match=rf"decision {last} was cancelled at \d{{4}}-.* UTC$"):
        thing.feedback(last, [0])
    assert state(kind.load(path)) == state(thing)
    kind.decide(thing)
    abandon(thing)
    again = kind.open(path, pending_ttl=1e-6)
    assert again.pending == []
    with pytest.raises(UnknownDecision, match=EXPIRED.format(old[2])):
        again.feedback(old[2], [0])
    abandon(again)
    with pytest.raises(ValueError, match="only with a journal"):
        kind.make().expire(10)
    again = kind.open(path)
    again.close()
    with pytest.raises(RuntimeError, match="was closed"):
        again.expire(10)


def test_a_router_says_what_expired_too(path):
    with Router.open(path, 2, [1.0, 20.0], 100.0, seed=0) as router:
        first, second = router.decide(), router.decide()
        assert len(first.call) == len(second.call) == 2
        router.cancel(second.id)
        router.expire(0)
        with pytest.raises(UnknownDecision, match=EXPIRED.format(first.id)):
            router.feedback(np.int64(first.id), [0, 0])
        with pytest.raises(UnknownDecision, match=rf"decision {second.id} was cancelled at "):
            router.feedback_pairs(second.id, [])
    with Router.open(path, 2) as router:
        router.warm_start([[0, 0]] * 200)
        alone = router.decide()
        assert len(alone.call) == 1
        with pytest.raises(UnknownDecision, match="waits for no feedback"):
            router.feedback(alone.id, [0])


# -- threads and kills


def test_eight_threads_are_acknowledged_by_the_disk(kind_by_id, path):
    kind = kind_by_id
    thing = kind.open(path)
    rounds = 3

    def work(_):
        for _ in range(rounds):
            id, decided = kind.decide(thing)
            assert id in kind.load(path).pending
            kind.feedback(thing, id, kind.content(id, decided))
            assert id not in kind.load(path).pending
            assert kind.feedback(thing, id, kind.content(id, decided)) == "duplicate"

    in_threads(8, work)
    assert thing.rounds == kind.load(path).rounds == 8 * rounds
    assert state(kind.load(path)) == state(thing)
    abandon(thing)


def acknowledged(log):
    """The ids a killed child was told of: decided, and answered. A line cut short was not."""
    lines = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [{int(id) for word, id in lines if word == which} for which in ("decided", "answered")]


def check_killed(folder, trial):
    name, threads = kind_of(trial)
    kind = KINDS[name]
    thing = kind.open(folder / f"{trial}.db")
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
        if name == "Adaptive":  # a round that was told by half goes on
            for one in (thing, twin):
                for id in one.pending:
                    assert kind.feedback(one, id, kind.content(id, None)) == "accepted"
        assert learned(thing) == learned(twin)
    before = thing.rounds
    if not thing.pending:
        play(kind, thing, 5)
        assert thing.rounds == before + 5
    abandon(thing)
    return len(answered)


@pytest.mark.parametrize("trials", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_at_any_moment_nothing_acknowledged_is_lost(trials, tmp_path):
    command = [sys.executable, "-m", "tests.live.killed", str(tmp_path), str(trials), str(trials)]
    subprocess.run(command, check=True, timeout=3000, cwd=Path(__file__).parents[2])
    answered = [check_killed(tmp_path, trial) for trial in range(trials)]
    assert sum(answered) >= trials  # or the children were killed before they did anything


def test_files_of_another_origin_stay_where_they_are(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(JournalError):
        Player.open(path, 3, seed=1)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("paid", [False, True])
def test_a_round_that_new_prices_overtake_is_counted_as_the_journal_has_it(path, paid):
    def compare(a, b):
        if cascade.report().error_cost != 100.0:
            cascade.recost([10, 20, 40], 100)  # as another thread may, between the stages and the learning
        return a == b

    outputs = [Costed(0, 0.5), 1, 1] if paid else [0, 1, 1]
    with Cascade.open(path, 3, [1, 2, 3], 10, seed=0, compare=compare) as cascade:
        decision = cascade.decide()
        while decision.arm != 1:
            decision = cascade.decide()
        cascade.feedback(decision.id, outputs[: decision.arm + 1])
        assert cascade.report().error_cost == 100.0
        assert Cascade.load(path, 3, compare=compare).state() == cascade.state()


def test_what_a_full_disk_has_left_undone_is_not_done_twice_even_if_others_wrote_it(path, monkeypatch):
    with Cascade.open(path, 3, [1, 2, 3], 10, seed=0) as cascade:
        decision = cascade.decide()
        with Full(monkeypatch):
            with pytest.raises(OSError):
                cascade.warm_start([[0, 1, 1]] * 5)
            with pytest.raises(OSError):
                cascade.cancel(decision.id, 2.0)
        cascade.decide()  # writes all
        assert cascade.warm_start([[0, 1, 1]] * 5) == 5
        cascade.cancel(decision.id, 2.0)
        report = cascade.report()
        assert (report.comparisons[0, 1], report.wasted) == (5, 2.0)
        assert cascade.warm_start([[0, 1, 1]] * 5) == 5  # this one is new
        assert cascade.report().comparisons[0, 1] == 10
        with pytest.raises(UnknownDecision):
            cascade.cancel(decision.id, 2.0)


def test_a_player_who_goes_on_after_a_full_disk_repeats_nothing(path, monkeypatch):
    with Player.open(path, 3, seed=0) as player:
        player.choose()
        with Full(monkeypatch), pytest.raises(OSError):
            player.observe(0.0, False)
        player.choose()
        player.observe(0.0, False)
        assert player.slot == 2


def test_a_state_is_not_saved_over_a_journal(path):
    with Cascade.open(path, 3, [1, 2, 3], 10, seed=0) as cascade:
        cascade.decide()
        with pytest.raises(ValueError, match="path must not be a journal"):
            cascade.save(path)
        cascade.decide()
    with Cascade.open(path, 3) as cascade:
        assert cascade.pending == [1, 2]


def test_arguments_that_may_differ_are_taken_on_recovery_or_refused_in_words(path):
    stages = [lambda x: 0] * 3
    seed = np.random.SeedSequence(1)
    Cascade.open(path, stages, [1, 2, 3], 10, seed=seed).close()
    with Cascade.open(path, stages, [1, 2, 3], 10, seed=seed, timeout=2.0) as cascade:
        assert cascade.state()["timeout"] == 2.0
        assert cascade(1).label == 0
    wrong = {
        "stage_costs": [5, [1, 2, "x"], "abc", [1, 2]],
        "error_cost": ["a", -1],
        "timeout": [-1, "x"],
        "remember": [-1],
        "compiled": [3],
        "seed": [1, "x"],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ValueError, match=f"^{name} must be "):
                Cascade.open(path, stages, **{name: value})
    Cascade.open(path, stages).close()


def test_a_seed_that_no_journal_holds_is_not_taken_for_the_one_it_has(path):
    Cascade.open(path, 3, [1, 2, 3], 10, seed=4).close()
    with pytest.raises(ValueError, match=r"^seed must be 4, as in"):
        Cascade.open(path, 3, seed=np.random.SeedSequence(4))


# -- copies


@pytest.mark.parametrize("name", BY_ID)
def test_the_copy_of_a_journal_skips_ids(name, path, tmp_path):
    kind, copy = KINDS[name], tmp_path / "restored.db"
    thing = kind.open(path)
    play(kind, thing, 3)
    thing.close()
    shutil.copy(path, copy)
    with kind.open(path) as thing:  # the journal itself skips nothing
        given = [kind.decide(thing)[0] for _ in range(3)]
        assert given == [4, 5, 6]
    with kind.open(copy) as restored:
        id, decided = kind.decide(restored)
        assert id > 6
        for lost in given:  # late feedback for what the copy has never given out
            with pytest.raises(UnknownDecision):
                kind.feedback(restored, lost, kind.content(lost, decided))
        play(kind, restored, 2)
        known = state(restored)
    with kind.open(copy) as restored:  # once
        assert state(restored) == known
    copy.rename(tmp_path / "renamed.db")  # the same file
    with kind.open(tmp_path / "renamed.db") as restored:
        assert state(restored) == known


def test_an_older_copy_in_the_place_of_a_journal_is_named_and_skips_ids(path, tmp_path):
    kind = KINDS["Cascade"]
    with kind.open(path) as thing:
        play(kind, thing, 3)
    shutil.copy(path, tmp_path / "backup.db")
    with kind.open(path) as thing:
        given = [kind.decide(thing)[0] for _ in range(3)]
    shutil.copy(tmp_path / "backup.db", path)  # over it: the same file, with less in it
    with pytest.warns(DurabilityWarning, match="an older copy was put in its place; ids go on after a gap"):
        thing = kind.open(path)
    with thing:
        assert thing.decide().id > max(given)
    with kind.open(path) as thing:  # said once
        assert thing.decide().id > max(given)
