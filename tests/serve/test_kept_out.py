"""One learner that cannot be read: it is named and left as it is, and nobody else is disturbed."""

import gzip
import logging
import random
import sqlite3
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rig.harness import CASCADE, Caller, quick, run, serving
from tests.rig.histories import LEARNERS, make_history
from tests.rig.processes import until
from tests.rig.server import Client, Process

from weakfeedback._version import __version__
from weakfeedback.cli.output import Stop
from weakfeedback.cli.serve_stores import check
from weakfeedback.journal import Event, JournalError, SqliteStore
from weakfeedback.journal.events import row_of, seal
from weakfeedback.serve import learner as learner_module
from weakfeedback.serve import steps as steps_module
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.usage import Accounts

NAMES = ("uss-ts", "context", "within", "pay", "csb-su")  # of every kind one, in the order of their numbers
VICTIM, OTHERS = "pay", tuple(name for name in NAMES if name != "pay")
ID = NAMES.index(VICTIM) + 1
UNSURE = Path(__file__).parent / "ruined_sure.sql.gz"


class Damaged:
    """A file that holds a store, and ways to harm it that other programs have."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def raw(self, command: str, *values: Any) -> list[Any]:
        database = sqlite3.connect(self.path, isolation_level=None)
        database.text_factory = lambda data: data.decode(errors="surrogateescape")
        try:
            return database.execute(command, values).fetchall()
        finally:
            database.close()

    def rows(self) -> list[Any]:
        """All rows of the victim."""
        found = [self.raw(f"SELECT * FROM {table} WHERE learner = ?", ID) for table in ("event", "snapshot")]
        found.append(self.raw("SELECT * FROM learner WHERE id = ?", ID))
        found.append(self.raw("SELECT * FROM meta WHERE key IN (?, ?, ?)", *self.keys()))
        return found

    @staticmethod
    def keys() -> list[str]:
        return [f"{what}:{ID}" for what in ("learner", "head", "floor")]

    def event(self, seq: int) -> Event:
        with SqliteStore.open(self.path, read_only=True) as store:
            return next(iter(store.events(ID, seq - 1, 1)))

    def put_event(self, event: Event, **changes: Any) -> None:
        """Put another event in its place, with a seal that holds."""
        self.raw("DELETE FROM event WHERE learner = ? AND seq = ?", ID, event.seq)
        self.raw("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)", *row_of(ID, event._replace(**changes)))

    def put_snapshots(self, change: Any, package: str = __version__) -> None:
        """Put others in the place of all snapshots of the victim, with seals that hold."""
        with SqliteStore.open(self.path, read_only=True) as store:
            known = list(store.snapshots(ID))
        assert known
        for one in known:
            text = seal(change(one.body), ID, one.seq, one.at, package)
            self.raw(
                "UPDATE snapshot SET body = ?, package = ?, checksum = ? WHERE learner = ? AND seq = ?",
                *(text, package, sha256(text.encode()).hexdigest(), ID, one.seq),
            )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five learners with snapshots, and with events after these."""
    path = tmp_path_factory.mktemp("whole") / "s.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learner_module, "SNAPSHOT", 16)
        run(make_history(path, 24, NAMES))
    database = Damaged(path)
    database.raw("DELETE FROM meta WHERE key = 'file'")  # else copies skip ids
    ends = [
        database.raw(f"SELECT max(seq) FROM {table} WHERE learner = ?", ID) for table in ("snapshot", "event")
    ]
    assert ends[0] < ends[1]
    assert len(database.raw("SELECT 1 FROM snapshot WHERE learner = ?", ID)) >= 2
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Damaged:
    return copied(whole, tmp_path / "s.db")


def copied(whole: Path, path: Path) -> Damaged:
    for name in (path, path.with_name(path.name + ".lock"), path.with_name(path.name + "-wal")):
        name.unlink(missing_ok=True)
    path.write_bytes(whole.read_bytes())
    return Damaged(path)


async def decided(call: Caller, name: str) -> Any:
    """The next three decisions of a learner; or the code of the problem."""
    kind, found = LEARNERS[name]["kind"], []
    for _ in range(3):
        path = f"/v1/learners/{name}/{'begin' if kind == 'adaptive' else 'decide'}"
        reply = await call("POST", path, {"context": [0.5]} if kind == "contextual" else {})
        if reply.status == 503:
            return reply.data["code"]
        assert reply.status == 200, reply.data
        found.append({key: value for key, value in reply.data.items() if key != "expires"})
    return found


async def outcome(path: Path, name: str | None = VICTIM) -> dict[str, Any]:
    """What all learners decide next, and what is said of the one that may be kept out."""
    async with serving(path, quick(durability="process")) as (service, call):
        told = {one: await decided(call, one) for one in NAMES}
        health = await call("GET", "/health/ready")
        out = [one for one, _ in service.kept_out.reasons()]
        assert (health.status, health.data["status"]) == (200, "ready")
        assert health.data["kept_out"] == len(out) == (told[VICTIM] == "kept_out")
        assert f"weakfeedback_kept_out {float(len(out))}" in (await call("GET", "/metrics")).body.decode()
        if out:
            for method, route, body in (
                ("GET", "", None),
                ("GET", "/report", None),
                ("POST", "/decisions/1/feedback", {"outputs": [1, 1]}),
                ("PUT", "", LEARNERS[VICTIM]),
                ("DELETE", "", None),
            ):
                reply = await call(method, f"/v1/learners/{VICTIM}{route}", body)
                assert (reply.status, reply.data["code"]) == (503, "kept_out"), (method, route)
                assert "is kept out, as it cannot be read: " in reply.data["detail"]
                assert str(path) not in reply.data["detail"]
            listed = (await call("GET", "/v1/learners")).data
            assert [one["name"] for one in listed["learners"]] == sorted(OTHERS)
            assert [one["name"] for one in listed["kept_out"]] == out
    return told


@pytest.fixture(scope="module")
def expected(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the learners decide next if nothing is damaged."""
    store = copied(whole, tmp_path_factory.mktemp("expected") / "s.db")
    return run(outcome(store.path))


def check_outcome(store: Damaged, expected: dict[str, Any], kept_out: bool | None = None) -> bool:
    """All others decide as they would have; so does the victim, or it is kept out and its rows are as they were."""
    before = store.rows()
    told = run(outcome(store.path))
    assert {name: told[name] for name in OTHERS} == {name: expected[name] for name in OTHERS}
    out = bool(told[VICTIM] == "kept_out")
    assert out or told[VICTIM] == expected[VICTIM]
    if out:
        assert store.rows() == before
    assert kept_out in (None, out)
    return out


def flips(store: Damaged, luck: random.Random) -> tuple[str, tuple[Any, ...]]:
    """A command that changes one bit of one value of the victim."""
    table, key_column, columns = luck.choice(
        [("event", "seq", "at kind decision key body body")] * 5
        + [("snapshot", "seq", "at package body checksum")] * 2
        + [("learner", "id", "name created archived"), ("meta", "key", "value")]
    )
    mine = {"learner": f"id = {ID}", "meta": f"key LIKE '%:{ID}'"}.get(table, f"learner = {ID}")
    where = f"{mine} AND {key_column} = ?"
    (key,) = luck.choice(store.raw(f"SELECT {key_column} FROM {table} WHERE {mine}"))
    column = luck.choice(columns.split())
    ((value,),) = store.raw(f"SELECT {column} FROM {table} WHERE {where}", key)
    if isinstance(value, str):
        data = bytearray(value.encode())
        data[luck.randrange(len(data))] ^= 1 << luck.randrange(8)
        return f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {where}", (bytes(data), key)
    changed = 1 if value is None else value ^ 1 << luck.randrange(8)
    return f"UPDATE {table} SET {column} = ? WHERE {where}", (changed, key)


@pytest.mark.parametrize("trials", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_changed_bit_of_one_learner_disturbs_no_other(whole, expected, tmp_path, trials):
    luck, out = random.Random(trials), 0
    for _ in range(trials):
        store = copied(whole, tmp_path / "s.db")
        command, values = flips(store, luck)
        try:
            store.raw(command, *values)
        except sqlite3.IntegrityError:  # the database itself does not allow it
            continue
        out += check_outcome(store, expected)
    assert trials / 5 < out < trials


@pytest.mark.parametrize("trials", [15, pytest.param(300, marks=pytest.mark.slow)])
def test_a_lost_row_of_one_learner_disturbs_no_other(whole, expected, tmp_path, trials):
    luck, last = (
        random.Random(trials),
        Damaged(whole).raw("SELECT max(seq) FROM event WHERE learner = ?", ID)[0][0],
    )
    for trial in range(trials):
        store = copied(whole, tmp_path / "s.db")
        lost = [0, last, last - 1][trial] if trial < 3 else luck.randrange(last + 1)
        store.raw("DELETE FROM event WHERE learner = ? AND seq = ?", ID, lost)
        newest = store.raw("SELECT max(seq) FROM snapshot WHERE learner = ?", ID)[0][0]
        check_outcome(store, expected, kept_out=lost == 0 or lost > newest)


def test_all_events_of_one_learner_are_lost(store, expected):
    store.raw("DELETE FROM event WHERE learner = ?", ID)
    check_outcome(store, expected, kept_out=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: {},
        lambda body: {"nonsense": [1, {"a": None}]},
        lambda body: {**body, "state": None},
        lambda body: {**body, "state": {}},
        lambda body: {**body, "config": {"kind": "router"}},
        lambda body: {**body, "service": {**body["service"], "observers": {"watch": 7}}},
        lambda body: {**body, "service": {**body["service"], "counts": 3}},
        lambda body: {**body, "state": {**body["state"], "policy": {}}},
    ],
)
def test_a_snapshot_that_is_nonsense_is_not_used(store, expected, change, caplog):
    store.put_snapshots(change)
    check_outcome(store, expected, kept_out=False)
    assert any("a snapshot is wrong and was not used" in one.message for one in caplog.records)


def test_a_snapshot_of_another_past_is_not_used(store, expected):
    """Its state can be read, and does not lead to the events after it."""
    with SqliteStore.open(store.path, read_only=True) as one:
        oldest = list(one.snapshots(ID))[-1].body
    store.put_snapshots(lambda body: oldest if body["state"] != oldest["state"] else body)
    check_outcome(store, expected, kept_out=False)


def test_a_good_snapshot_is_enough_if_earlier_events_are_bad(store, expected):
    store.raw("UPDATE event SET body = 'x' WHERE learner = ? AND seq = 3", ID)
    check_outcome(store, expected, kept_out=False)


def test_bad_events_and_no_snapshot_that_leads_past_them(store, expected, caplog):
    store.raw("UPDATE event SET body = 'x' WHERE learner = ? AND seq = 3", ID)
    store.put_snapshots(lambda body: {})
    check_outcome(store, expected, kept_out=True)
    (told,) = [one for one in caplog.records if "kept out" in one.message]
    assert told.levelno == logging.ERROR
    assert f"learner {VICTIM} is kept out, and all others are served: " in told.message
    assert "weakfeedback serve check" in told.message


def test_a_forged_event(store, expected):
    last = store.raw("SELECT max(seq) FROM event WHERE learner = ?", ID)[0][0]
    store.put_event(store.event(last), kind="surprise")
    check_outcome(store, expected, kept_out=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: {**body, "config": {**body["config"], "quantum": True}},
        lambda body: {**body, "config": {"kind": "oracle", "qubits": 3}},
        lambda body: {**body, "state": {**body["state"], "format": 99}},
    ],
)
@pytest.mark.parametrize("snapshots", [True, False])
def test_a_learner_of_a_later_version(store, expected, change, snapshots):
    """Its configuration and its states hold what this version does not know, under seals that hold."""
    if snapshots:
        store.put_snapshots(change, "99.0")  # older events may mean something else there: they are no way out
    else:
        event = store.event(0)
        store.raw("DELETE FROM snapshot WHERE learner = ?", ID)
        store.put_event(event, body=change({**event.body, "package": "99.0"}))
    check_outcome(store, expected, kept_out=True)


def test_the_name_of_a_damaged_row_is_not_taken(store, expected):
    """The row says another name; the right one is known by its checksum."""
    store.raw("UPDATE learner SET name = 'qay' WHERE id = ?", ID)
    rows = store.rows()

    async def work() -> None:
        async with serving(store.path) as (_, call):
            for name in (VICTIM, "qay"):
                for method, body in (("GET", None), ("PUT", LEARNERS[VICTIM])):
                    reply = await call(method, f"/v1/learners/{name}", body)
                    assert (reply.status, reply.data["code"]) == (503, "kept_out")
            assert (await call("PUT", "/v1/learners/another", CASCADE)).status == 201

    run(work())
    assert store.rows() == rows


def test_who_is_kept_out_skips_ids_when_it_comes_back(store):
    """The others have skipped theirs when the copy was noticed."""
    ((first,),) = store.raw("SELECT max(decision) FROM event WHERE learner = ?", ID)
    event = store.event(0)
    store.raw("DELETE FROM snapshot WHERE learner = ?", ID)
    store.put_event(event, body={**event.body, "config": {"kind": "oracle"}})
    store.raw("INSERT INTO meta VALUES ('file', '1')")

    async def ids() -> list[int]:
        async with serving(store.path) as (_, call):
            return [
                (await call("POST", f"/v1/learners/{name}/decide", {})).data.get("id")
                for name in ("uss-ts", VICTIM)
            ]

    moved, out = run(ids())
    assert out is None
    store.put_event(event)
    other, back = run(ids())
    assert other == moved + 1
    assert back > first + 1
    assert run(ids()) == [other + 1, back + 1]


@pytest.mark.parametrize("nonsense", [True, False])
def test_bills_of_the_others_are_read(store, nonsense):
    """As an instance does that shares the store and serves none of them."""
    if nonsense:
        store.put_snapshots(lambda body: {"service": 3})
    else:
        store.raw("UPDATE event SET body = 'x' WHERE learner = ?", ID)
    with SqliteStore.open(store.path, read_only=True) as reader:
        accounts = Accounts(SimpleNamespace(learners={}, reader=reader), NAMES)
        accounts._look()
    assert list(accounts._others) == [name for name in NAMES if name in OTHERS]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"DELETE FROM learner WHERE id = {ID}", "there were 5 learners, and 4 are left"),
        ("UPDATE meta SET value = '2' WHERE key = 'schema'", "written by a later version"),
        ("DROP TABLE snapshot", "its tables are not those of a store"),
    ],
)
def test_damage_of_the_store_still_refuses_it(store, command, words):
    store.raw(command)
    with pytest.raises(JournalError, match=words):
        run(outcome(store.path))


def test_damage_that_the_database_reports_still_refuses_it(store):
    """A page of the table of events holds nothing that SQLite can read."""
    ((root,),) = store.raw("SELECT rootpage FROM sqlite_master WHERE name = 'event'")
    data = bytearray(store.path.read_bytes())
    data[(root - 1) * 4096 : (root - 1) * 4096 + 8] = b"\x00" * 8
    store.path.write_bytes(data)
    with pytest.raises(JournalError, match="is damaged"):
        run(outcome(store.path))


@pytest.fixture
def unsure(tmp_path: Path) -> Damaged:
    """Written by the version that let a budget take the place of a share that is sure, by ``PATCH .../costs``."""
    store = Damaged(tmp_path / "unsure.db")
    database = sqlite3.connect(store.path)
    database.executescript(gzip.decompress(UNSURE.read_bytes()).decode())
    database.close()
    return store


async def test_a_store_ruined_by_a_budget_starts_without_that_learner(unsure, caplog):
    rows = unsure.raw("SELECT * FROM event WHERE learner = 2")
    for _ in range(2):
        caplog.clear()
        async with serving(unsure.path) as (service, call):
            assert sorted(service.learners) == ["first", "last"]
            told = [one.message for one in caplog.records if "kept out" in one.message]
            assert len(told) == 1
            assert "sure needs agree" in told[0]
            reply = await call("POST", "/v1/learners/ruined/decide", {})
            assert (reply.status, reply.data["code"]) == (503, "kept_out")
            for name in ("first", "last"):
                assert (await call("POST", f"/v1/learners/{name}/decide", {})).status == 200
    assert unsure.raw("SELECT * FROM event WHERE learner = 2") == rows


def test_the_process_starts_and_names_who_is_kept_out(unsure, capsys):
    """As an operator meets it: a configuration that names the learner, the log, the page, and serve check."""
    folder = unsure.path.parent
    config = folder / "service.toml"
    config.write_text(
        f"""[server]
store = "sqlite:///{unsure.path}"
[[learner]]
name = "ruined"
kind = "router"
models = ["small", "large"]
prices = [1.0, 20.0]
agree = 0.9
sure = true
[[learner]]
name = "new"
kind = "router"
models = ["small", "large"]
prices = [1.0, 20.0]
error_cost = 30.0
"""
    )
    with Process(folder, "--config", str(config)) as server:
        client = Client(server.port)
        status, told = client("GET", "/health/ready")
        assert (status, told["status"], told["learners"], told["kept_out"]) == (200, "ready", 3, 1)
        page = client("GET", "/")[1].decode()
        assert "Kept out, as they cannot be read:" in page
        assert "ruined: " in page
        client.close()
        assert server.stop() == 0
    words = (folder / "errors").read_text()
    assert words.count("is kept out") == 1
    with pytest.raises(Stop) as caught:
        check(str(unsure.path))
    assert caught.value.status == 1
    told = capsys.readouterr().out
    assert "ruined: 26 events, 1 snapshot: WRONG: " in told
    assert told.count("every decision made again, all states the same") == 3


async def test_a_torn_learner_that_cannot_be_read_again_is_kept_out(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(steps_module, "BACK_OFF", (0.01, 0.02))
    see, plan = Learner.see, {"fail": False}

    def faulty(learner: Learner, event: Any) -> None:
        if learner.name == "a" and event.kind == "decide" and plan["fail"]:
            raise ZeroDivisionError("a fault")
        see(learner, event)

    monkeypatch.setattr(Learner, "see", faulty)
    path = tmp_path / "s.db"
    async with serving(path) as (service, call):
        for name in ("a", "b"):
            await call("PUT", f"/v1/learners/{name}", CASCADE)
        plan["fail"] = True
        assert (await call("POST", "/v1/learners/a/decide", {})).status == 500
        await until(lambda: "a" in service.kept_out)
        rows = Damaged(path).raw("SELECT * FROM event WHERE learner = 1")
        reply = await call("POST", "/v1/learners/a/decide", {})
        assert (reply.status, reply.data["code"]) == (503, "kept_out")
        assert (await call("PUT", "/v1/learners/a", CASCADE)).data["code"] == "kept_out"
        assert (await call("POST", "/v1/learners/b/decide", {})).status == 200
        assert (await call("GET", "/health/ready")).data["kept_out"] == 1
    assert Damaged(path).raw("SELECT * FROM event WHERE learner = 1") == rows
    assert sum("learner a is kept out" in one.message for one in caplog.records) == 1
    plan["fail"] = False
    async with serving(path) as (service, call):
        assert len(service.kept_out) == 0
        assert (await call("GET", "/v1/learners/a")).data["pending"] == 1
