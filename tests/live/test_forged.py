"""Forged states under a right checksum: the numbers in them are refused or used, and never become places in memory.

That the indices of every compiled live object are checked is seen more quickly in ``tests/engine/test_calls.py``.
"""

import contextlib
import textwrap

import numpy as np
import pytest
from tests.live.games import GAMES
from tests.rig.processes import printed

from weakfeedback.live import StateError, storage

WHOLE = (-1, 10**6, -(10**12))
PARTS = ({"float": "nan"}, {"float": "inf"}, -1e300)


def move(game, thing, count, seed):
    """Make some moves; errors are no fault of theirs."""
    rng = np.random.default_rng(seed)
    names = [*game.moves, *game.often.split(",") * 4]
    for _ in range(count):
        with contextlib.suppress(Exception):  # a forged number may end in any error, but not in a crash
            game.moves[str(rng.choice(names))](thing, np.random.default_rng(int(rng.integers(2**32))))


def forgeries(fields):
    """Each number of a state alone, and of each array the first, the middle and the last, as something else."""
    for name, value in fields.items():
        if type(value) in (int, float):
            for other in WHOLE if type(value) is int else PARTS:
                yield {**fields, name: other}
        elif isinstance(value, dict) and value.get("data") and value["dtype"] in ("int64", "float64"):
            for place in sorted({0, len(value["data"]) // 2, len(value["data"]) - 1}):
                for other in WHOLE if value["dtype"] == "int64" else PARTS:
                    data = [*value["data"]]
                    data[place] = other
                    yield {**fields, name: {**value, "data": data}}


def play_forged(name, path):
    """Play on from every forgery of a state; print how many were refused, and how many played on."""
    game = GAMES[name]
    thing = game.make(True)
    move(game, thing, 40, 1)
    thing.save(path)
    kind, body = thing.kind, storage.read(path, thing.kind)
    refused = played = 0
    for fields in forgeries(body["core"]["fields"]):
        storage.write(path, kind, {**body, "core": {**body["core"], "fields": fields}})
        try:
            again = game.again(path, True)
        except StateError:
            refused += 1
            continue
        move(game, again, 30, 2)
        played += 1
    print(refused, played)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in GAMES if name != "Random"])  # which has next to no state
def test_a_forged_number_is_no_place_in_memory(name, tmp_path):
    code = f"""
        from tests.live.test_forged import play_forged
        play_forged({name!r}, {str(tmp_path / "state.json")!r})
        """
    refused, played = map(int, printed("-W", "ignore", "-c", textwrap.dedent(code)).split())
    assert refused > 0
    assert played > 10
