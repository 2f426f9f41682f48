"""The command `weakfeedback reproduce`: mistakes as one line, results as tables."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakfeedback.cli.output import (
    Stop,
    console,
    make_writable,
    print_json,
    running_in,
    show_traceback,
    tidy_warnings,
    writing_to,
)
from weakfeedback.plaintext import counted

if TYPE_CHECKING:
    from weakfeedback.reproduce.run import Reproduction


def show_list(words: list[str], quick: bool, json: bool) -> None:
    """Print the experiments with their estimated cost."""
    from weakfeedback.cli.listing import plan_lines
    from weakfeedback.reproduce.cost import listing
    from weakfeedback.reproduce.progress import clock
    from weakfeedback.reproduce.registry import UnknownExperiment, choose

    try:
        choice = choose(words)
    except UnknownExperiment as error:
        raise Stop(str(error)) from None
    rows = listing(choice, quick)
    if json:
        print_json({"experiments": rows, "seconds": sum(row["seconds"] for row in rows)})
        return
    console().print("Experiments", style="bold")
    for row in rows:
        for line in plan_lines(row, clock(row["seconds"])):
            console().print(line, markup=False, highlight=False, soft_wrap=True)
    total = sum(row["seconds"] for row in rows)
    console().print(f"\n{counted(len(rows), 'experiment')}, about {clock(total)} of one core", markup=False)


def run(
    words: list[str],
    folder: Path,
    quick: bool,
    workers: int | None,
    scheduler: str | None,
    data: Path | None,
    json: bool,
) -> Reproduction:
    """Reproduce; every mistake ends in one line."""
    from weakfeedback.engine.store import StoreError, StoreMismatch
    from weakfeedback.reproduce.cluster import NoCluster
    from weakfeedback.reproduce.medical import BadData, digests
    from weakfeedback.reproduce.registry import UnknownExperiment, choose
    from weakfeedback.reproduce.run import reproduce
    from weakfeedback.reproduce.stored import CHUNKS

    start = time.monotonic()
    try:
        choose(words)
        digests(data)
        with running_in(folder):
            make_writable(folder / CHUNKS)
            found = reproduce(
                words, folder, quick=quick, workers=workers, scheduler=scheduler, data=data, quiet=json
            )
    except StoreMismatch as error:
        raise Stop(f"{error} with --out") from None
    except (StoreError, NoCluster, UnknownExperiment) as error:
        raise Stop(str(error)) from None
    except BadData as error:
        raise Stop(f"--data: {error}" if data is not None else str(error)) from None
    if not json:
        words_of_time = f"{time.monotonic() - start:.0f} s, {counted(found.played, 'chunk')} played"
        console().print(words_of_time, markup=False)
    return found


def is_one(folder: Path) -> bool:
    """Whether a folder holds a reproduction."""
    from weakfeedback.reproduce.stored import NOTE

    return (folder / NOTE).exists()


def rebuild(folder: Path) -> Reproduction:
    """Build the pages again."""
    from weakfeedback.reproduce.run import rebuild as again
    from weakfeedback.reproduce.stored import NotAReproduction

    try:
        with tidy_warnings(), writing_to(folder):
            return again(folder)
    except NotAReproduction as error:
        raise Stop(str(error)) from None
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        show_traceback()
        raise Stop(
            f"{folder}: what it holds does not belong together ({type(error).__name__}: {error}); run `weakfeedback "
            "reproduce` again to make it"
        ) from None


def tell(found: Reproduction, folder: Path, json: bool) -> None:
    """Print the verdicts and where the page is."""
    from weakfeedback.cli.listing import table
    from weakfeedback.report.page import VERDICTS

    if json:
        print_json(_to_plain(found, folder))
        return
    shown = table("Claims", "claim", "verdict", "in the words of the thesis")
    for claim, verdict in found.verdicts:
        shown.add_row(str(claim.number), VERDICTS[verdict.outcome], claim.words)
    counts = Counter(verdict.outcome for _, verdict in found.verdicts)
    if counts:
        console().print(shown, markup=False)
        console().print(
            ", ".join(f"{counts[word]} {label}" for word, label in VERDICTS.items() if counts[word]),
            markup=False,
        )
    console().print(f"  page    {found.paths[0]}", markup=False)


def _to_plain(found: Reproduction, folder: Path) -> dict[str, Any]:
    from weakfeedback.report.tables import final_rows
    from weakfeedback.reproduce.stored import rows_of

    rows = []
    for experiment in found.choice.experiments:
        row: dict[str, Any] = {"id": experiment.id, "place": experiment.place, "seed": experiment.seed}
        if experiment.id in found.results:
            results = found.results[experiment.id]
            row |= {name: results.about[name] for name in ("instance", "stands_in_for", "horizon")}
            row |= {"final": final_rows(results), "results": rows_of(folder, experiment.id)}
        else:
            row["skipped"] = found.note.skipped[experiment.id]
        rows.append(row)
    counts = Counter(verdict.outcome for _, verdict in found.verdicts)
    return {
        "experiments": rows,
        "claims": [_claim(claim, verdict) for claim, verdict in found.verdicts],
        "verdicts": dict(counts),
        "data": {name: bool(digest) for name, digest in found.note.data.items()},
        "quick": found.note.quick,
        "chunks_played": found.played,
        "page": found.paths[0],
        "figures": found.paths[1:],
    }


def _claim(claim: Any, verdict: Any) -> dict[str, Any]:
    words = ("effect", "low", "high", "p_value")
    return {
        "number": claim.number,
        "words": claim.words,
        "how": claim.how,
        "verdict": verdict.outcome,
        "reason": verdict.reason,
        "ours": claim.ours,
        "remains": claim.remains if verdict.outcome == "not-reproduced" else "",
        **{word: getattr(verdict, word) for word in words},
        "n": verdict.n,
    }
