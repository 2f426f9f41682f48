"""Commands for stores: check, compact, copy, export, import; with stores of services and of single live objects."""

import json
import random
import warnings

import pytest
from tests.journal.stores import PLACES, InFile, InPostgres, place_of
from tests.rig.harness import ALLOCATION, CASCADE, CONTEXTUAL, ROUTER, Caller, quick, run
from tests.rig.histories import LEARNERS as HISTORIES
from tests.rig.histories import tell_through

from weakfeedback.cli import serve_stores as stores
from weakfeedback.cli.output import Stop
from weakfeedback.contextual.features import QuadraticFeatures
from weakfeedback.journal import Event, open_store
from weakfeedback.journal.recover import differences
from weakfeedback.live import Allocator, Cascade, ContextualCascade, Player, Router
from weakfeedback.serve.app import make_app
from weakfeedback.serve.config import opener
from weakfeedback.serve.importing import import_state
from weakfeedback.serve.service import Service
from weakfeedback.serve.verify import check_store

LEARNERS = {"triage": CASCADE, "chat": ROUTER, "seen": CONTEXTUAL, "patrol": ALLOCATION}
NUMBER = {**CASCADE, "compare": {"type": "number", "scale": 10.0}}


@pytest.fixture(params=PLACES)
def place(request):
    return place_of(request, request.param)


async def serving(address, work):
    """Do something with a service, which is then ended in an orderly way."""
    service = Service(opener(f"sqlite:///{address}" if "://" not in address else address), quick())
    await service.start()
    try:
        return await work(service, Caller(make_app(service)))
    finally:
        await service.stop()


async def play(call, rounds, start=0):
    """Rounds of all kinds of learners; some decisions stay open, some are cancelled."""
    for name, config in {**LEARNERS, "far": NUMBER}.items():
        made = await call("PUT", f"/v1/learners/{name}", config)
        assert made.status in (200, 201), made.body
    for i in range(start, start + rounds):
        for name in (*LEARNERS, "far"):
            body = {"context": [i % 3 / 3, 0.5]} if name == "seen" else {}
            made = (await call("POST", f"/v1/learners/{name}/decide", body, idempotency_key=f"k{i}")).data
            path = f"/v1/learners/{name}/decisions/{made['id']}"
            if name == "patrol":
                answer = {"observed": {"north": i % 2}}
            elif name == "far":
                answer = {"outputs": [i % 7, i % 3, 1][: made["stage"] + 1]}
            else:
                answer = {"outputs": [f"{i % (n + 2)}" for n in range(len(made["call"]))]}
            if i % 10 == 3 and name != "seen":
                await call("POST", f"{path}/cancel", {"cost": 0.5, "reason": "too late"})
            elif i % 10 != 7 or name == "seen":
                await call("POST", f"{path}/feedback", answer)
    prices = {"stage_costs": [0.001, 0.03, 1.0 + start], "error_cost": 9}
    assert (await call("PATCH", "/v1/learners/triage/costs", prices)).status == 200


def make(address, times=3):
    """A store with snapshots: a service ended in an orderly way takes one of each learner."""
    for n in range(times):
        run(serving(address, lambda service, call, n=n: play(call, 11, start=11 * n)))


def verdicts(place):
    with place.open(read_only=True) as store:
        return [str(found) for found in check_store(store)]


def test_the_store_of_a_service_is_sound(place, capsys):
    make(place.address)
    lines = verdicts(place)
    assert [line.split(":")[0] for line in lines] == [*LEARNERS, "far"]
    for line in lines:
        assert line.endswith("3 snapshots: every decision made again, all states the same"), line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stores.check(place.address)
    assert capsys.readouterr().out.splitlines() == lines


DAMAGES = {
    "a changed byte": (
        ["UPDATE event SET body = replace(body, 'stage', 'stagf') WHERE learner = 1 AND seq = {0}"],
        "the checksum",
    ),
    "a missing row": (["DELETE FROM event WHERE learner = 1 AND seq = {0}"], "event {0} is missing"),
    "a swapped pair": (
        [
            "UPDATE event SET seq = -1 WHERE learner = 1 AND seq = {0}",
            "UPDATE event SET seq = {0} WHERE learner = 1 AND seq = {1}",
            "UPDATE event SET seq = {1} WHERE learner = 1 AND seq = -1",
        ],
        "the checksum",
    ),
}


def test_damage_is_named_with_learner_and_event(place, capsys):
    make(place.address, times=1)
    seq = place.raw("SELECT seq FROM event WHERE learner = 1 AND kind = 'decide' ORDER BY seq LIMIT 3")[-1][0]
    rows = place.raw("SELECT * FROM event WHERE learner = 1 AND seq IN (?, ?) ORDER BY seq", seq, seq + 1)
    for commands, words in DAMAGES.values():
        for command in commands:
            place.raw(command.format(seq, seq + 1))
        with pytest.raises(Stop) as caught:
            stores.check(place.address)
        assert caught.value.status == 1
        first, *others = capsys.readouterr().out.splitlines()
        assert first.startswith("triage: ")
        assert f"learner triage: event {seq}" in first.partition("WRONG: ")[2]
        assert words.format(seq) in first
        assert all("every decision made again" in line for line in others[:4])
        place.raw("DELETE FROM event WHERE learner = 1 AND seq IN (?, ?)", seq, seq + 1)
        for row in rows:
            place.raw("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)", *row)
    stores.check(place.address)


def forge(place, learner, change):
    """Rewrite events as somebody does who knows about seals."""
    from weakfeedback.journal.events import row_of

    with place.open() as store:
        for event in list(store.events(learner)):
            body = change(event)
            if body is not None:
                text = row_of(
                    learner, Event(event.seq, event.at, event.kind, event.decision, event.key, body)
                )[-1]
                store._run(
                    lambda text=text, seq=event.seq: store._transaction(
                        lambda: store._all(
                            "UPDATE event SET body = ? WHERE learner = ? AND seq = ?", text, learner, seq
                        )
                    )
                )


def test_a_decision_that_nobody_made_is_found(place, capsys):
    make(place.address, times=1)
    forge(
        place, 1, lambda event: {"stage": (event.body["stage"] + 1) % 3} if event.kind == "decide" else None
    )
    with pytest.raises(Stop):
        stores.check(place.address)
    first = capsys.readouterr().out.splitlines()[0]
    assert "WRONG: " in first
    assert "learner triage: event 1: decision 1 was" in first


def test_a_snapshot_that_events_do_not_lead_to_is_found(place, capsys):
    make(place.address, times=2)
    with place.open() as store:
        snapshot = next(iter(store.snapshots(1)))
        snapshot.body["state"]["error_cost"] = 12.5
        snapshot.body["service"]["counts"]["decided"] += 1
        store.add_snapshot(1, snapshot.seq, snapshot.at, snapshot.body)
    with pytest.raises(Stop):
        stores.check(place.address)
    first, *others = capsys.readouterr().out.splitlines()
    assert f"snapshot {snapshot.seq} is not what the events from the beginning lead to" in first
    assert "service/counts/decided is 22 and 23" in first
    assert all("all states the same" in line for line in others)


def lived(folder):
    """Journals of every kind of live object."""
    made = {
        "Cascade": lambda path: Cascade.open(path, 3, [1, 2, 3], 10, seed=1),
        "Cascade with functions": lambda path: Cascade.open(
            path, 3, [1, 2, 3], 10, seed=1, compare=lambda a, b: a != b, timeout=5.0
        ),
        "ContextualCascade": lambda path: ContextualCascade.open(path, 2, [1, 5], 10, seed=1),
        "Router": lambda path: Router.open(path, 2, [1, 20], 100, seed=1),
        "Allocator": lambda path: Allocator.open(path, 3, 1.5, "CSB-SU", seed=1),
        "Player": lambda path: Player.open(path, 4, seed=1),
    }
    for name, opened in made.items():
        path = folder / f"{name}.db"
        for _ in range(2):
            with opened(path) as live:
                for i in range(30):
                    step(live, i)
        yield name, path


def step(live, i):
    if isinstance(live, ContextualCascade):
        made = live.decide([i % 3 / 3, 0.5])
        live.feedback(made.id, [i % 2] * (made.arm + 1))
    elif isinstance(live, Cascade):
        made = live.decide()
        live.feedback(made.id, [i % 2] * (made.arm + 1))
    elif isinstance(live, Router):
        made = live.decide()
        if len(made.call) > 1:
            live.feedback(made.id, [i % 2] * len(made.call))
    elif isinstance(live, Allocator):
        live.feedback(live.decide().id, [i % 2, 0, 0])
    else:
        live.choose()
        live.observe(0.5, False)


def test_journals_of_live_objects_are_sound(tmp_path):
    for name, path in lived(tmp_path):
        with open_store(path, read_only=True) as store:
            lines = [str(found) for found in check_store(store)]
        assert len(lines) == 1, (name, lines)
        assert lines[0].startswith("main: "), name
        assert lines[0].endswith("2 snapshots: every decision made again, all states the same"), (name, lines)


@pytest.mark.parametrize(
    "given",
    [
        {"metric": lambda one, other: min(abs(one - other), 1.0)},
        {"features": lambda rows: rows},
        {"features": QuadraticFeatures(1.0)},
        {"loss": "squared", "scale": 1.0},
        {"compare": lambda one, other: one == other, "combine": max},
    ],
    ids=lambda given: " ".join(given),
)
def test_journals_of_cascades_with_contexts_and_functions_are_sound(given, tmp_path):
    path = tmp_path / "c.db"
    with ContextualCascade.open(path, 2, stage_costs=[1, 20], error_cost=100, **given) as cascade:
        decision = cascade.decide([0.5, 0.25])
        cascade.feedback(decision.id, [0.5] * (decision.arm + 1))
    with open_store(path, read_only=True) as store:
        (line,) = (str(found) for found in check_store(store))
    assert line.endswith("every decision made again, all states the same")


def test_an_empty_store_and_an_empty_learner_are_sound(place):
    with place.open():
        pass
    assert verdicts(place) == []
    with place.open() as store:
        store.create_learner("begun", 0)
    assert verdicts(place) == ["begun: 0 events, 0 snapshots: every decision made again, all states the same"]


def test_after_compaction_old_ids_are_forgotten_and_the_rest_is_sound(place, capsys):
    make(place.address)
    stores.compact(place.address, before="2000-01-01")
    assert "0 events removed" in capsys.readouterr().out
    stores.compact(place.address, before="2999-01-01T00:00+01:00")
    assert "triage: 0 events" not in capsys.readouterr().out
    lines = verdicts(place)
    assert all("events from " in line and line.endswith("all states the same") for line in lines), lines

    async def late(_, call):
        answer = await call("POST", "/v1/learners/triage/decisions/2/feedback", {"outputs": ["a"]})
        assert (answer.status, answer.data["code"]) == (410, "forgotten")
        await play(call, 5, start=100)

    run(serving(place.address, late))
    with pytest.raises(Stop, match="--before must be a date"):
        stores.compact(place.address, before="yesterday")


def test_a_service_goes_on_with_a_copy(server, tmp_path, capsys):
    """SQLite to PostgreSQL and back: identical events, identical decisions afterwards."""
    (tmp_path / "back").mkdir()
    places = InFile(tmp_path), InPostgres(server), InFile(tmp_path / "back")
    make(places[0].address, times=2)
    stores.copy(places[0].address, places[1].address)
    stores.copy(places[1].address, places[2].address)
    assert all("copied and compared" in line for line in capsys.readouterr().out.splitlines())
    texts = []
    for one in places:
        stores.export(one.address)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    line = json.loads(texts[0].splitlines()[0])
    assert (line["learner"], line["seq"], line["kind"]) == ("triage", 0, "create")

    async def more(_, call):
        await play(call, 10, start=500)
        return [(await call("GET", f"/v1/learners/{name}/report")).data for name in LEARNERS]

    def plain(text):
        events = [json.loads(line) for line in text.splitlines()]
        return [{**event, "at": 0} for event in events]

    reports = [run(serving(one.address, more)) for one in places]
    for report in (one for three in reports for one in three):
        report.pop("generated", None)
    logs = []
    for one in places:
        stores.export(one.address)
        logs.append(plain(capsys.readouterr().out))
    assert logs[0] == logs[1] == logs[2]
    with pytest.raises(Stop, match="is not empty"):
        stores.copy(places[0].address, places[1].address)


def test_a_saved_object_becomes_a_learner_and_goes_on(place, tmp_path):
    cascade = Cascade(3, [1, 2, 3], 10, seed=4)
    allocator = Allocator(["n", "s", "e"], 1.5, "CSB-SU", seed=4)
    router = Router(2, [1, 20], 100, seed=4)
    contextual = ContextualCascade(2, [1, 5], 10, seed=4, keep=200)
    for i in range(40):
        for live in (cascade, allocator, router, contextual):
            step(live, i)
    kept = cascade.decide()  # stays open
    for name, live in (("c", cascade), ("a", allocator), ("r", router), ("x", contextual)):
        live.save(tmp_path / f"{name}.json")
        names = "rules,small, expert" if name == "c" else None
        stores.bring(place.address, tmp_path / f"{name}.json", learner=name, names=names)
    for line in verdicts(place):
        assert line.endswith("all states the same"), line

    async def goes_on(_, call):
        for _ in range(10):
            told = (await call("POST", "/v1/learners/c/decide", {})).data
            made = cascade.decide()
            assert (told["id"], told["stage"]) == (made.id, made.arm)
            assert told["call"] == ["rules", "small", "expert"][: made.arm + 1]
            given = (await call("POST", "/v1/learners/a/decide", {})).data
            mine = allocator.decide()
            assert list(given["allocation"].values()) == mine.allocation.tolist()
        answer = {"outputs": ["a"] * (kept.arm + 1)}  # for the decision that was open
        told = await call("POST", f"/v1/learners/c/decisions/{kept.id}/feedback", answer)
        assert told.data["result"] == "accepted"

    run(serving(place.address, goes_on))
    for line in verdicts(place):
        assert line.endswith("all states the same"), line


def test_cascades_that_decide_after_every_answer_are_checked_and_imported(place, tmp_path):
    own = Cascade(3, [0.5, 2.0, 5.0], 20.0, "USS-A", seed=3)
    for i in range(30):
        made = own.begin()
        while made.stage is not None:
            made = own.tell(made.id, i % (made.stage + 2))
    own.save(tmp_path / "own.json")
    stores.bring(place.address, tmp_path / "own.json", learner="own")

    async def rounds(_, call):
        assert (await call("PUT", "/v1/learners/within", HISTORIES["within"])).status in (200, 201)
        await tell_through(call, "/v1/learners/within", 12, random.Random(1))
        told, mine = (await call("POST", "/v1/learners/own/begin", {})).data, own.begin()
        assert (told["id"], told["stage"]) == (mine.id, mine.stage)

    for _ in range(2):
        run(serving(place.address, rounds))
    lines = verdicts(place)
    assert len(lines) == 2
    for line in lines:
        assert line.endswith("all states the same"), line


def test_what_cannot_become_a_learner_is_refused_in_one_line(tmp_path):
    Cascade(2, [1, 2], 5, seed=0).save(tmp_path / "c.json")
    Cascade(2, [1, 2], 5, seed=0, compare=lambda a, b: a != b).save(tmp_path / "own.json")
    Player(4, seed=0).save(tmp_path / "p.json")
    (tmp_path / "text.json").write_text("hello")
    with open_store(tmp_path / "s.db") as store:
        import_state(store, "taken", tmp_path / "c.json")
        for file, name, parts, words in (
            ("c.json", "taken", None, "has a learner named 'taken' already"),
            ("c.json", "No", None, "a name must match"),
            ("c.json", "b", ["one"], "there must be 2 names"),
            ("own.json", "b", None, "compare function of your own"),
            ("p.json", "b", None, "holds the state of 'Player', not of 'Cascade' or"),
            ("text.json", "b", None, "is not a saved state"),
        ):
            with pytest.raises(ValueError, match=words) as caught:
                import_state(store, name, tmp_path / file, parts)
            assert "\n" not in str(caught.value)
        assert [one.name for one in store.learners()] == ["taken"]


def test_mistakes_are_one_line_with_a_status(tmp_path):
    (tmp_path / "text").write_text("hello")
    with open_store(tmp_path / "used.db"):
        for command, words, status in (
            (lambda: stores.check(str(tmp_path / "none.db")), "there is no store", 2),
            (lambda: stores.check("mysql://x/y"), "a store is a file", 1),
            (lambda: stores.check(str(tmp_path / "text")), "not an SQLite file", 1),
            (
                lambda: stores.compact(str(tmp_path / "used.db"), before="2026-01-01"),
                "is in use by process",
                2,
            ),
            (
                lambda: stores.copy(str(tmp_path / "none.db"), str(tmp_path / "new.db")),
                "there is no store",
                2,
            ),
        ):
            with pytest.raises(Stop, match=words) as caught:
                command()
            assert caught.value.status == status
            assert "\n" not in str(caught.value)
    assert not (tmp_path / "new.db").exists()


def test_states_are_compared_field_by_field():
    one = {"a": [1, {"b": 2.0}], "package": "1", "state": {"timeout": 1}}
    assert differences(one, {"a": [1, {"b": 2.0}], "package": "2", "state": {"timeout": None}}) == []
    assert differences(one, {**one, "a": [1, {"b": 3.0}]}) == ["a/1/b is 2.0 and 3.0"]
    assert differences(one, {**one, "a": [1]}) == ["a is [1, {'b': 2.0}] and [1]"]
    assert differences({"x": 1}, {"x": True}) == ["x is 1 and True"]
    assert differences({"x": 1}, {}) == ["x is 1 and 'nothing'"]
