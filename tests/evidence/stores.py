"""States, journals and stores of the service as they were written then: they load, hold and go on."""

import asyncio
import contextlib
import json
import random
import sqlite3
import warnings

from tests.evidence.moves import Table, Tape, games
from tests.rig.harness import quick, serving
from tests.rig.histories import LEARNERS, live_through
from typer.testing import CliRunner

from weakfeedback.cli.app import app

# one for each kind, and for what is saved of it
KEPT = (
    "cascade USS-TS",
    "cascade USS-TS-drift",
    "cascade Q-USS",
    "cascade USS-TS metric",
    "contextual USS-PD",
    "contextual USS-PD-TS",
    "adaptive USS-A",
    "routing Pay-to-compare",
    "allocation CSB-MK",
    "allocation CSB-TS",
    "multiplayer DLC-LIX",
)
ROUNDS = 30


def file_name(name, ending):
    return name.replace(" ", "-").lower() + ending


def code_of(game):
    """What must be given again when a state is loaded."""
    return {name: game.named[name] for name in ("compare", "metric", "label") if name in game.named}


def opened(name, path):
    game = games()[name]
    return game.made.open(path, *game.given, **game.named, every=1_000_000)


def loaded(name, path):
    game = games()[name]
    stages = [one for one in game.given if isinstance(one, list)]
    return game.made.load(path, *stages, **code_of(game))


def move(name, thing, seed, number):
    """Play some moves; return their digests and the state they lead to."""
    table = Table(thing, random.Random(f"{name} {seed}"), Tape())
    for _ in range(number):
        table.rng.choice(games()[name].moves)(table)
    table.tape.note("saved", json.dumps(thing.state(), sort_keys=True))
    return table.tape.digests()


@contextlib.contextmanager
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def copy_database(path, target):
    """Copy a database that is in use, without closing it: as it is when a process is killed."""
    with (
        contextlib.closing(sqlite3.connect(path)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
        copy.execute("VACUUM")


def make_files(folder, work):
    """Write a state and a journal of each of `KEPT` into ``folder``: two sittings, a snapshot between them."""
    with quietly():
        for name in KEPT:
            place = work / file_name(name, ".db")
            with opened(name, place) as thing:
                move(name, thing, "first", 60)
            thing = opened(name, place)
            move(name, thing, "second", 60)
            thing.save(folder / file_name(name, ".json"))
            copy_database(place, folder / file_name(name, ".db"))
            thing.close()


async def serve_on(path, seed, new=False, copy_to=None):
    """Some rounds of all learners of a store; return what every learner is then, as far as a client can see."""
    luck, found = random.Random(seed), {}
    async with serving(path, quick(durability="process")) as (_, call):
        for name, config in LEARNERS.items():
            if new:
                await call("PUT", f"/v1/learners/{name}", {**config, "seed": 3})
            keys = call if new else Unkeyed(call)
            await live_through(keys, name, ROUNDS, luck)
            events = (await call("GET", f"/v1/learners/{name}/events?limit=1000")).data["events"]
            tape = Tape()
            for event in events:
                body = {key: one for key, one in event["body"].items() if key != "package"}
                tape.note("events", (event["seq"], event["kind"], event["decision"], json.dumps(body)))
            report = (await call("GET", f"/v1/learners/{name}/report")).data
            tape.note("report", json.dumps({key: one for key, one in report.items() if key != "details"}))
            found[name] = {"events seen": len(events), **tape.digests()}
        if copy_to is not None:
            copy_database(path, copy_to)
    return found


class Unkeyed:
    """Leaves out the idempotency keys, which an earlier sitting has used."""

    def __init__(self, call):
        self.call = call

    async def __call__(self, method, path, data=None, **_):
        return await self.call(method, path, data)


def make_service(target, work):
    """Write the store of a service with learners of all kinds: a snapshot at the end of the first sitting."""
    place = work / "service.db"
    asyncio.run(serve_on(place, 1, new=True))
    asyncio.run(serve_on(place, 2, copy_to=target))


def check(path):
    """The lines of ``weakfeedback serve check``, without the place."""
    done = CliRunner().invoke(app, ["serve", "check", str(path)])
    return [line.replace(str(path), "PLACE") for line in (done.stdout + done.stderr).splitlines()]


def go_on(name, thing):
    """The next 100 moves."""
    with quietly():
        return move(name, thing, "next", 100)
