"""Decisions, files, stores and answers are those of commit b4ed9b6."""

import asyncio
import json
import shutil
import zipfile

import pytest
from tests.evidence import moves, simulated, stores, wire
from tests.evidence.reading import STORED, of_machine, read

MOVES, SIMULATED, EXPECTED, MACHINE = (
    read(f"{name}.json") for name in ("moves", "simulated", "stores", "machine")
)
EVERYDAY = 200  # moves; the others are slow
HERE = of_machine()
WHY = "the functions of NumPy have other last bits on this machine"
same_numbers = pytest.mark.skipif(HERE["numbers"] != MACHINE["numbers"], reason=WHY)


def agree(found, stored):
    """Compare digests, and say where they part first."""
    for n, (one, other) in enumerate(zip(found, stored, strict=True)):
        parts = [part for part in other if one.get(part) != other[part]]
        where = f"between the moves {n * moves.STEP} and {(n + 1) * moves.STEP}"
        assert not parts, f"{', '.join(parts)}: not what it was, {where}"


@same_numbers
@pytest.mark.parametrize("name", MOVES)
def test_moves_of_a_live_object(name, tmp_path):
    agree(moves.play(name, tmp_path / "j.db", EVERYDAY), MOVES[name][: EVERYDAY // moves.STEP])


@same_numbers
@pytest.mark.slow
@pytest.mark.parametrize("name", MOVES)
def test_all_moves_of_a_live_object(name, tmp_path):
    agree(moves.play(name, tmp_path / "j.db"), MOVES[name])


@same_numbers
@pytest.mark.slow
@pytest.mark.parametrize("name", MOVES)
def test_all_moves_of_a_compiled_live_object(name, tmp_path):
    agree(moves.play(name, tmp_path / "j.db", compiled=True), MOVES[name])


@same_numbers
def test_a_seed_more_is_noticed(tmp_path, monkeypatch):
    """The negative control."""
    name = "cascade USS-TS"
    moved = moves.games()[name]
    monkeypatch.setattr(
        moves, "games", lambda: {name: moves.Game(**{**vars(moved), "named": moved.named | {"seed": 8}})}
    )
    with pytest.raises(AssertionError, match=r"decided, journal.*between the moves 0 and 200"):
        agree(moves.play(name, tmp_path / "j.db", EVERYDAY), MOVES[name][:1])


def check_results(tmp_path, compiled):
    wrong = []
    for name, setting, problem, policy in simulated.pairs():
        if name in SIMULATED:
            found, stored = (
                simulated.play(setting, problem, policy, tmp_path / "r.parquet", compiled),
                SIMULATED[name],
            )
            anywhere = compiled or HERE != MACHINE
            parts = [part for part in stored if part != "file" or not anywhere]
            wrong += [f"{name}: {part}" for part in parts if found.get(part) != stored[part]]
    assert not wrong


@same_numbers
def test_results_of_simulations(tmp_path):
    check_results(tmp_path, compiled=False)


@same_numbers
@pytest.mark.slow
def test_results_of_compiled_simulations(tmp_path):
    check_results(tmp_path, compiled=True)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """The files as they were written."""
    folder = tmp_path_factory.mktemp("old")
    with zipfile.ZipFile(STORED / "stores.zip") as packed:
        packed.extractall(folder)
    return folder


@same_numbers
@pytest.mark.parametrize("name", stores.KEPT)
def test_an_old_state_goes_on(name, old):
    with stores.quietly():
        thing = stores.loaded(name, old / stores.file_name(name, ".json"))
    assert stores.go_on(name, thing) == EXPECTED[f"state {name}"]


@same_numbers
@pytest.mark.parametrize("name", stores.KEPT)
def test_an_old_journal_holds_and_goes_on(name, old, tmp_path):
    place = shutil.copy(old / stores.file_name(name, ".db"), tmp_path / "old.db")
    assert_sound(place)
    with stores.quietly(), stores.opened(name, place) as thing:
        found = stores.go_on(name, thing)
    assert found == EXPECTED[f"journal {name}"]
    assert_sound(place)


@same_numbers
def test_an_old_store_of_a_service_holds_and_goes_on(old, tmp_path):
    place = shutil.copy(old / "service.db", tmp_path / "old.db")
    assert_sound(place)
    assert asyncio.run(stores.serve_on(place, 3)) == EXPECTED["service"]
    assert_sound(place)


def assert_sound(place):
    """Every decision is made again, and snapshots are what the events lead to."""
    lines = [line for line in stores.check(place) if " snapshot" in line]
    assert lines
    assert all(line.endswith("every decision made again, all states the same") for line in lines), lines


def test_the_wire(tmp_path):
    """Requests and replies, with the OpenAPI document; `python -m tests.evidence wire` after a change on purpose."""
    found, stored = json.loads(json.dumps(wire.record(tmp_path))), read("wire.json")
    assert found.keys() == stored.keys()
    for part in stored:
        ours, theirs = (
            sorted(one.items()) if isinstance(one, dict) else one for one in (found[part], stored[part])
        )
        for n, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert one == other, f"{part}, entry {n}"
