"""What api and documentation promise of every live object, tested on all alike."""

import random
import threading
import time

import pytest
from tests.live.kinds import BY_ID, KINDS, play, state
from tests.rig.pace import pace
from tests.rig.threads import in_threads

from weakfeedback import FeedbackConflict, PendingDecision, Player, UnknownDecision, WrongSlot
from weakfeedback.live import core as ledger


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=BY_ID)
def kind_by_id(request):
    return KINDS[request.param]


def refused(kind, thing, id, content, error):
    before = state(thing)
    with pytest.raises(error):
        kind.feedback(thing, id, content)
    assert state(thing) == before


def test_late_reordered_duplicated_and_unknown_feedback(kind_by_id):
    kind, thing, other = kind_by_id, kind_by_id.make(), kind_by_id.make()
    decisions = [kind.decide(thing) for _ in range(60)]
    assert [kind.decide(other) for _ in range(60)] == decisions
    random.Random(1).shuffle(decisions)
    for id, decided in decisions:
        content = kind.content(id, decided)
        assert kind.feedback(thing, id, content) == "accepted"
        assert kind.feedback(thing, id, content) == "duplicate"
        assert kind.feedback(other, id, content) == "accepted"
    assert thing.rounds == 60
    assert thing.pending == []
    assert state(thing) == state(other)  # duplicates taught nothing
    id, decided = decisions[0]
    wrong = [9 for _ in kind.content(id, decided)] if kind is not KINDS["Allocator"] else [0.125] * 4
    refused(kind, thing, id, wrong, FeedbackConflict)
    for unknown in (61, 0, -1, 10**30):
        refused(kind, thing, unknown, kind.content(id, decided), UnknownDecision)
    cancelled, decided = kind.decide(thing)
    thing.cancel(cancelled)
    refused(kind, thing, cancelled, kind.content(cancelled, decided), UnknownDecision)


@pytest.mark.parametrize(
    "name", [name for name in BY_ID if name != "Adaptive"]
)  # which decides when it is told
def test_feedback_in_another_order_teaches_the_same_sums(name):
    # Each feedback is learned for its own decision: two orders end with the same counts.
    kind = KINDS[name]
    counts = []
    for seed in (1, 2):
        thing = kind.make()
        decisions = [kind.decide(thing) for _ in range(30)]
        random.Random(seed).shuffle(decisions)
        for id, decided in decisions:
            kind.feedback(thing, id, kind.content(id, decided))
        counts.append(state(thing)["counts"])
    assert counts[0].keys() == counts[1].keys()
    for key, value in counts[0].items():
        assert value == pytest.approx(counts[1][key]) if isinstance(value, float) else value == counts[1][key]


def test_slots_twice_late_early_or_unknown():
    kind, player = KINDS["Player"], KINDS["Player"].make()
    play(kind, player, 5)
    refused(kind, player, 5, (0.0, False), WrongSlot)  # nothing chosen yet
    player.choose()
    for slot in (0, 4, 6, 10**30):
        refused(kind, player, slot, (0.0, False), WrongSlot)
    assert kind.feedback(player, 5, (0.0, False)) == "accepted"
    refused(kind, player, 5, (0.0, False), WrongSlot)


def test_feedback_that_never_comes_teaches_nothing(kind_by_id):
    kind, thing, other = kind_by_id, kind_by_id.make(), kind_by_id.make()
    for _ in range(50):
        kind.decide(thing)  # never answered
    play(kind, other, 1)
    learned = [state(each)["core"]["fields"] for each in (thing, kind.make(), other)]
    if kind is KINDS["ContextualCascade"]:
        learned[1] = state_after_one_context(kind)
    assert learned[0] == learned[1] != learned[2]
    assert (thing.rounds, len(thing.pending)) == (0, 50)
    for id in thing.pending:
        thing.cancel(id)
    assert (state(thing)["core"]["fields"], thing.pending) == (learned[0], [])


def state_after_one_context(kind):
    """The fields once the first context has told how many features there are."""
    thing = kind.make()
    kind.decide(thing)
    return state(thing)["core"]["fields"]


def test_too_many_open_decisions_are_an_error_not_a_guess(kind_by_id, monkeypatch):
    monkeypatch.setattr(ledger, "PENDING_LIMIT", 20)
    kind, thing = kind_by_id, kind_by_id.make()
    first = kind.decide(thing)
    for _ in range(19):
        kind.decide(thing)
    before = state(thing)
    with pytest.raises(PendingDecision, match="20 decisions wait for feedback, at most 20 may"):
        kind.decide(thing)
    assert state(thing) == before
    kind.feedback(thing, first[0], kind.content(*first))
    kind.decide(thing)


@pytest.mark.parametrize("order", ["own", "others"])
def test_eight_threads_lose_nothing(kind_by_id, order):
    """Each thread answers its own decisions, or those that another one made."""
    kind, thing = kind_by_id, kind_by_id.make()
    rounds, accepted, made, lock = 20, [], [], threading.Lock()

    def take():
        with lock:
            return made.pop(random.randrange(len(made)))

    def work(_):
        for _ in range(rounds):
            with lock:
                made.append(kind.decide(thing)) if order == "others" else None
            id, decided = take() if order == "others" else kind.decide(thing)
            if kind.feedback(thing, id, kind.content(id, decided)) == "accepted":
                with lock:
                    accepted.append(id)

    in_threads(8, work)
    assert sorted(accepted) == list(range(1, 8 * rounds + 1))
    assert (thing.rounds, thing.pending) == (8 * rounds, [])


def test_eight_threads_that_give_the_same_feedback_teach_it_once(kind):
    thing, twin = kind.make(), kind.make()
    play(kind, twin, 40)
    outcomes, lock = [], threading.Lock()
    rounds = threading.Barrier(8)
    decision = []

    def work(n):
        for _ in range(40):
            if n == 0:
                decision[:] = [kind.decide(thing)]
            rounds.wait()
            id, decided = decision[0]
            try:
                outcome = kind.feedback(thing, id, kind.content(id, decided))
            except WrongSlot:  # how a player says it
                outcome = "duplicate"
            with lock:
                outcomes.append(outcome)
            rounds.wait()

    in_threads(8, work, rounds)
    assert (outcomes.count("accepted"), outcomes.count("duplicate")) == (40, 7 * 40)
    assert state(thing) == state(twin)


def size(kind, thing, path):
    """The size of its file without the digests of answers, which are capped in number."""
    thing.save(path)
    return path.stat().st_size - 23 * min(thing.rounds, ledger.REMEMBERED)


@pytest.mark.parametrize("name", ["Cascade", "Allocator", "Player"])
def test_files_and_decisions_do_not_grow_with_the_rounds(name, tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "REMEMBERED", 100)
    kind, path = KINDS[name], tmp_path / "state.json"
    thing = kind.make() if name != "Player" else Player(4, "SIC-MMAB", horizon=10**6, seed=1)
    play(kind, thing, 700)  # the allocator keeps the last 500 rounds
    small, fast = size(kind, thing, path), seconds(kind, thing)
    play(kind, thing, 20_000 - thing.rounds)
    large, slow = size(kind, thing, path), seconds(kind, thing)
    assert large < 1.25 * small + 200  # numbers have a few more digits
    assert slow < 5 * fast * pace()  # a decision that looked at all rounds would take 50 times as long


def seconds(kind, thing):
    """The median time of a round, on the processor: other processes must not matter."""
    times = []
    for _ in range(101):
        start = time.thread_time()
        play(kind, thing, 1)
        times.append(time.thread_time() - start)
    return sorted(times)[50]


def test_the_contextual_history_is_capped(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "REMEMBERED", 100)
    kind, path = KINDS["ContextualCascade"], tmp_path / "state.json"
    thing = kind.make()  # keeps 100 observations
    play(kind, thing, 250)
    small = size(kind, thing, path)
    play(kind, thing, 600)
    assert size(kind, thing, path) < 1.25 * small
    assert thing.policy.t <= 100
    assert thing.policy.t + thing.policy.gone == thing.rounds == 850
