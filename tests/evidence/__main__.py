"""``python -m tests.evidence [moves] [simulated] [stores] [wire]`` writes the evidence anew.

Do that for a part only where it changes on purpose, and look at the difference; the stores are never made anew, as it
is their age that counts. With ``--new`` only games and pairs that are not there yet are added: those of new policies.
"""

import asyncio
import json
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.evidence import moves, simulated, stores, wire
from tests.evidence.reading import STORED, of_machine, read


def write(name, data):
    """Store JSON with a line for each entry of its parts."""
    lines = []
    for key in sorted(data):
        one = data[key]
        entries = [f"{json.dumps(n)}: {line(one[n])}" for n in sorted(one)] if isinstance(one, dict) else None
        entries = [line(entry) for entry in one] if isinstance(one, list) else entries
        ends = "[]" if isinstance(one, list) else "{}"
        told = line(one) if entries is None else ends[0] + "\n " + ",\n ".join(entries) + "\n" + ends[1]
        lines.append(f"{json.dumps(key)}: {told}")
    (STORED / name).write_text("{" + ",\n".join(lines) + "}\n")


def line(data):
    """JSON in one line."""
    return json.dumps(data, sort_keys=True)


def make_moves(work, known):
    found = dict(known)
    for n, name in enumerate(moves.games()):
        if name not in found:
            try:
                found[name] = moves.play(name, work / f"{n}.db")
            except ValueError as error:  # no live object offers it
                print(f"{name}: left out: {error}", file=sys.stderr)
    return found


def make_simulated(work, known):
    found = dict(known)
    for name, setting, problem, policy in simulated.pairs():
        if name not in found:
            found[name] = simulated.play(setting, problem, policy, work / "results.parquet")
    return found


def make_stores(work):
    folder = work / "stores"
    folder.mkdir()
    stores.make_files(folder, work)
    stores.make_service(folder / "service.db", work)
    with zipfile.ZipFile(STORED / "stores.zip", "w", zipfile.ZIP_LZMA) as packed:
        for path in sorted(folder.iterdir()):
            packed.write(path, path.name)
    expected = {}
    for name in stores.KEPT:
        with stores.quietly():
            expected[f"state {name}"] = stores.go_on(
                name, stores.loaded(name, folder / stores.file_name(name, ".json"))
            )
            with stores.opened(name, folder / stores.file_name(name, ".db")) as thing:
                expected[f"journal {name}"] = stores.go_on(name, thing)
    expected["service"] = asyncio.run(stores.serve_on(folder / "service.db", 3))
    return expected


def main(words):
    """Make the parts that are named, or all."""
    only_new = "--new" in words
    parts = [word for word in words if word != "--new"] or ["moves", "simulated", "stores", "wire"]
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        if "moves" in parts:
            write("moves.json", make_moves(work, read("moves.json") if only_new else {}))
        if "simulated" in parts:
            write("simulated.json", make_simulated(work, read("simulated.json") if only_new else {}))
        if "stores" in parts and not only_new:
            write("stores.json", make_stores(work))
        if "wire" in parts and not only_new:
            (work / "wire").mkdir()
            write("wire.json", wire.record(work / "wire"))
        if not only_new:
            write("machine.json", of_machine())


if __name__ == "__main__":
    main(sys.argv[1:])
