"""Rounds that are stopped within are whole or not there, whatever exception arrives at whatever line."""

import json
import random

import pytest
from tests.live import inside
from tests.live.interrupts import Watch, attempt

from weakfeedback import Cascade, Costed, Scored, UnknownDecision
from weakfeedback.journal import recover
from weakfeedback.journal.events import JournalError
from weakfeedback.live.games.adaptive import AdaptiveGame

COSTS = {"stage_costs": [1.0, 4.0, 9.0], "error_cost": 60.0}
STAGES = [
    lambda x: Scored(x % 2, (x * 7 % 11) / 11),
    lambda x: Costed(Scored(x % 3, (x * 5 % 13) / 13), 0.1 * x),
    lambda x: Scored(x % 5, (x * 3 % 17) / 17, {0: 0.5, 1: 0.25}),
]
BATCH = [7, 8, 9]


def fresh():
    return Cascade(STAGES, **COSTS, policy="USS-A", seed=1, memory=24)


def again(state):
    return Cascade.from_state(state, STAGES)


def begun():
    """A cascade with more rounds than it keeps, one of two open rounds told its first output."""
    cascade = fresh()
    for x in range(29):
        cascade(x)
    cascade.cancel(cascade.begin().id)
    cascade.begin()
    while True:
        id = cascade.begin().id
        if cascade.tell(id, STAGES[0](31)).answer is None:
            return cascade.state()


BODY = begun()
UNTOLD, TOLD = sorted(again(BODY).pending)[0], sorted(again(BODY).pending)[-1]


def finish(cascade):
    step = cascade.tell(TOLD, STAGES[1](31), stage=1)
    if step.answer is None:
        cascade.tell(TOLD, STAGES[2](31), stage=2)


GESTURES = {
    "call": lambda cascade: cascade(7),
    "batch": lambda cascade: cascade.answers(BATCH),
    "begin": lambda cascade: cascade.begin(),
    "tell": lambda cascade: cascade.tell(UNTOLD, STAGES[0](31)),
    "finish": finish,
    "cancel": lambda cascade: cascade.cancel(TOLD, 2.5),
    "recost": lambda cascade: cascade.recost([2, 2, 12], 25.0),
    "calibrate": lambda cascade: cascade.calibrate(range(6), [0, 1, 2, 0, 1, 2]),
}


def dump(cascade):
    return json.dumps(cascade.state(), sort_keys=True)


def steps_of(rows):
    """What a call or a batch does: begin, run and tell, in this order."""
    cascade = again(BODY)
    found = [("begin", row, 0) for row in rows]
    ids = [cascade.begin().id for _ in rows]
    going = list(range(len(rows)))
    for k in range(3):
        found += [("run", rows[p], k) for p in going]
        found += [("tell", rows[p], k) for p in going]
        going = [p for p in going if not told(cascade, ids[p], rows[p], k).stopped]
    return found


def told(cascade, id, row, stage):
    return inside.tell(cascade, id, STAGES[stage](row))


def given_up(rows):
    """The states of a call, or a batch, that was given up after any of its steps."""
    steps = steps_of(rows)
    for taken in range(1, len(steps) + 1):
        cascade, ids, spent = again(BODY), {}, dict.fromkeys(rows, 0.0)
        for kind, row, k in steps[:taken]:
            if kind == "begin":
                ids[row] = cascade.begin().id
            elif kind == "run":
                output = STAGES[k](row)
                spent[row] += output.cost if isinstance(output, Costed) else COSTS["stage_costs"][k]
            else:
                told(cascade, ids[row], row, k)
        for row, id in ids.items():
            cascade.cancel(id, spent[row])
        yield cascade


def halves(gesture):
    """The states between the steps of what is told by hand."""
    id, first = (UNTOLD, 0) if gesture == "tell" else (TOLD, 1)
    for last in range(first, 3) if gesture in ("tell", "finish") else ():
        cascade = again(BODY)
        stopped = [told(cascade, id, 31, k).stopped for k in range(first, last + 1)]
        yield cascade
        if stopped[-1] or gesture == "tell":
            break


def allowed(gesture):
    done = again(BODY)
    GESTURES[gesture](done)
    found = [again(BODY), done, *halves(gesture)]
    rows = {"call": [7], "batch": BATCH}.get(gesture)
    if rows:
        found += given_up(rows)
    return {dump(one) for one in found}


def go_on(cascade):
    """Finish what is open, call once, and return the state then."""
    for id in cascade.pending:
        seen = inside.decided(cascade, id)
        row = 31 if seen.told or id == UNTOLD else 7
        stage = len(seen.told) - seen.stopped
        while True:  # what was left half done can be told again, and finished
            step = cascade.tell(id, STAGES[stage](row), stage=stage)
            if step.answer is not None:
                break
            stage = step.stage
    cascade(5)
    assert cascade.pending == []
    return dump(cascade)


FUTURES = {}  # state -> the state to which an object made from it goes on


def is_whole(cascade, states, goes_on):
    text = dump(cascade)
    assert text in states
    if text not in FUTURES:
        twin = again(json.loads(text))
        assert dump(twin) == text
        FUTURES[text] = go_on(twin)
    if goes_on:
        assert go_on(cascade) == FUTURES[text]


def chosen(watch, more):
    luck = random.Random(0)
    found = set(watch.places.values())
    rest = sorted(set(range(watch.lines)) - found)
    return sorted(found | set(luck.sample(rest, min(more, len(rest)))))


@pytest.mark.parametrize(
    "most", [pytest.param(60, id="some"), pytest.param(10**6, id="many", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("gesture", GESTURES)
def test_an_exception_at_any_line_leaves_whole_rounds(gesture, most):
    states = allowed(gesture)
    watch = attempt(GESTURES[gesture], again(BODY))
    assert watch.raised == 0
    events = chosen(watch, 10 if most < 100 else 2000)
    some = random.Random(1).sample(events, min(most, len(events)))
    for n, event in enumerate(dict.fromkeys([*events[-30:], *some])):  # the last ones carry the change out
        cascade = again(BODY)
        assert attempt(GESTURES[gesture], cascade, event).raised == 1
        is_whole(cascade, states, goes_on=n % 3 == 0 or most > 100)


def test_a_second_exception_during_the_recovery_does_no_harm():
    states = allowed("call")
    steps = steps_of([7])
    for taken in range(1, len(steps) + 1):  # interrupted again as it is given up, it may stay open
        cascade = again(BODY)
        id = None
        for kind, row, k in steps[:taken]:
            if kind == "begin":
                id = cascade.begin().id
            elif kind == "tell":
                told(cascade, id, row, k)
        states.add(dump(cascade))
    with Watch(after=10**9) as watch:
        GESTURES["call"](again(BODY))
    twice, luck = 0, random.Random(1)
    for after in sorted(luck.sample(range(watch.calls), min(120, watch.calls))):
        lines = attempt(GESTURES["call"], again(BODY), after=after).lines
        for at in luck.sample(range(lines), min(2, lines)):
            cascade = again(BODY)
            twice += attempt(GESTURES["call"], cascade, at, after).raised == 2
            assert dump(cascade) in states
            assert dump(again(cascade.state())) == dump(cascade)
    assert twice > 10


# -- with a journal


def test_an_interrupted_journal_tells_what_is_in_memory(tmp_path):
    luck = random.Random(4)
    path = tmp_path / "journal.db"
    cascade = Cascade.open(path, STAGES, **COSTS, policy="USS-A", seed=1, memory=24)
    gestures = [name for name in GESTURES if name not in ("tell", "finish", "cancel")]
    for turn in range(60):
        watch = attempt(GESTURES[luck.choice(gestures)], cascade, luck.randrange(400))
        for id in cascade.pending[:-1] if watch.raised else cascade.pending:
            cascade.cancel(id)
        if turn % 6 == 0:
            before = dump(cascade)
            if turn % 12 == 0:
                cascade.close()
            else:
                inside.flush(cascade)
                inside.kill(cascade)
            cascade = Cascade.open(path, STAGES, policy="USS-A", **recost_of(before))
            assert dump(cascade) == before
    cascade.close()


def recost_of(text):
    state = json.loads(text)
    return {"stage_costs": state["stage_costs"], "error_cost": state["error_cost"]}


def test_a_tell_that_was_changed_in_the_journal_is_found(tmp_path, monkeypatch):
    path = tmp_path / "journal.db"
    cascade = Cascade.open(path, 3, **COSTS, policy="USS-A", seed=1)
    id = cascade.begin().id
    step = cascade.tell(id, Scored("a", 0.5))
    inside.kill(cascade)
    ask = AdaptiveGame._ask
    monkeypatch.setattr(
        AdaptiveGame, "_ask", lambda self, *seen: ask(self, *seen)._replace(more=step.stage is None)
    )
    with pytest.raises(
        JournalError, match=r"event 2: decision 1 was .*, and is now .*: the journal or the code"
    ):
        Cascade.open(path, 3, **COSTS, policy="USS-A")
    monkeypatch.setattr(recover, "__version__", "0.0.0")
    with pytest.warns(UserWarning, match="the logged one stands"):
        other = Cascade.open(path, 3, **COSTS, policy="USS-A")
    assert other.tell(id, Scored("a", 0.5), stage=0).stage == step.stage
    other.close()


def test_an_open_round_expires_and_teaches_nothing(tmp_path):
    cascade = Cascade.open(tmp_path / "journal.db", 3, **COSTS, policy="USS-A", seed=1)
    while cascade.tell(cascade.begin().id, "a").answer is not None:
        pass
    id, rounds = cascade.pending[0], cascade.rounds
    other = cascade.begin().id
    assert other == id + 1
    assert cascade.expire(3600.0) == []
    assert cascade.expire(0.0) == [id, other]
    assert (cascade.rounds, cascade.policy.t) == (rounds, rounds)
    with pytest.raises(UnknownDecision):
        cascade.tell(id, "a", stage=1)
    inside.kill(cascade)
    again = Cascade.open(tmp_path / "journal.db", 3, **COSTS, policy="USS-A")
    assert (again.rounds, again.pending, again.begin().id) == (rounds, [], other + 1)
    again.close()
