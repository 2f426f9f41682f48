"""`make bench`: measure, print the table, and write it as JSON and as a figure."""

import argparse
import json
import sys
from pathlib import Path

from benchmarks import figure, growth, knapsack, live, proxy, service, startup, stores, table
from benchmarks.compare import measure
from benchmarks.peers.install import NotInstalled
from benchmarks.timing import machine
from benchmarks.works import ROWS

# what is measured so many times and told in words; the other parts need more
MEASURED = {"knapsack": knapsack, "growth": growth, "stores": stores, "service": service, "proxy": proxy}
PARTS = ("table", "live", "start", *MEASURED)


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", action="append", default=[], help="rows whose name holds this text (again for more)"
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="all parts unless named")
    parser.add_argument("--quick", action="store_true", help="2 repetitions, and first use of few policies")
    parser.add_argument("--no-peers", action="store_true", help="only ourselves and the floor")
    parser.add_argument(
        "--out", type=Path, default=Path("out/bench"), help="folder of bench.json and the figure"
    )
    chosen = parser.parse_args(arguments)
    chosen.part = tuple(chosen.part or (("table",) if chosen.only else PARTS))
    chosen.repetitions = 2 if chosen.quick else 5
    return chosen


def main(arguments: list[str] | None = None) -> int:
    """Measure the chosen parts; 1 if no row has the name given."""
    chosen = options(arguments)
    rows = [row for row in ROWS if not chosen.only or any(text in row.work for text in chosen.only)]
    if not rows:
        print(
            f"--only must be part of a name of a row: {', '.join(row.work for row in ROWS)}", file=sys.stderr
        )
        return 1
    chosen.out.mkdir(parents=True, exist_ok=True)
    told = {**earlier(chosen.out), "machine": machine()}
    if "table" in chosen.part:
        found = []
        for row in rows:
            print(f"measuring {row.work}", file=sys.stderr, flush=True)
            found.append(measure(row, chosen.repetitions, peers=not chosen.no_peers))
            told["rows"] = [one.data() for one in found]
            write(told, chosen.out)  # an interrupted run leaves what it has
        print(table.text(found))
        figure.draw(found, chosen.out)
    if "live" in chosen.part:
        told["live"] = live.measure(chosen.repetitions, peers=not chosen.no_peers)
        print(live.text(told["live"]))
    if "start" in chosen.part:
        told["start"] = startup.first_results(startup.FEW if chosen.quick else None)
        told["two_threads"] = startup.two_threads()
        told["import"] = startup.importing()
        print(startup.text(told["start"], told["two_threads"], told["import"]))
    for part in (part for part in MEASURED if part in chosen.part):
        told[part] = MEASURED[part].measure(chosen.repetitions)
        print(MEASURED[part].text(told[part]))
    told["machine_after"] = machine()
    write(told, chosen.out)
    print(f"load {machine()['load']} on {machine()['cores']} cores; written to {chosen.out}/bench.json")
    return 0


def earlier(folder: Path) -> dict:
    """What another run has left: the parts not measured now stay as they were."""
    try:
        return json.loads((folder / "bench.json").read_text())
    except (OSError, ValueError):
        return {}


def write(told: dict, folder: Path) -> None:
    """Keep what was measured."""
    (folder / "bench.json").write_text(json.dumps(told, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except NotInstalled as reason:
        raise SystemExit(f"benchmarks: {reason}") from None
