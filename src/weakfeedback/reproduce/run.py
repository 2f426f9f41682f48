"""Reproduce the thesis: play every experiment, judge every claim, write the pages."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from weakfeedback.experiments.judge import conclude, needed
from weakfeedback.experiments.model import Claim, Experiment, Verdict
from weakfeedback.experiments.run import Planned
from weakfeedback.reproduce.cluster import executor_of
from weakfeedback.reproduce.cost import seconds
from weakfeedback.reproduce.findings import Aside, Findings
from weakfeedback.reproduce.medical import data_folder, digests, place_of
from weakfeedback.reproduce.pool import AHEAD, Pool
from weakfeedback.reproduce.progress import View, shown
from weakfeedback.reproduce.registry import Choice, choose, experiments, replications
from weakfeedback.reproduce.stored import (
    CHUNKS,
    FINDINGS,
    PAGE,
    Manifest,
    NotAReproduction,
    StoredResults,
    kept_key,
    results_key,
    save,
)


@dataclass(frozen=True)
class Reproduction:
    """The outcome: verdicts, results, and the files written, the page first."""

    choice: Choice
    note: Manifest
    verdicts: list[tuple[Claim, Verdict]]
    results: StoredResults
    paths: list[Path]
    played: int  # number of chunks; 0 if everything was stored


def reproduce(
    words: Sequence[str],
    folder: Path,
    *,
    quick: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    data: Path | None = None,
    quiet: bool = False,
) -> Reproduction:
    """Reproduce the experiments given by ``words`` (all if there are none) into ``folder``.

    Finished work is kept in the folder and reused: a run that was stopped continues, and a run with nothing left to
    play only writes the pages. ``data`` is the folder of the medical data sets.
    """
    choice = choose(words)
    sets = digests(data)
    source = str(data) if data is not None else data_folder()
    with executor_of(workers, scheduler) as (executor, at_once):
        runner = _Runner(folder, quick, source)
        claims = [claim for chapter in choice.chapters() for claim in choice.claims(chapter)]
        aside = Aside(Findings(folder / FINDINGS, {}, sets), claims, place_of(source))
        estimate = {e.id: seconds(e, replications(e, quick)) for e in choice.experiments}
        try:
            with shown(estimate, at_once, quiet) as view:
                runner.play(choice.experiments, executor, view, at_once)
            aside.finish()
        finally:
            aside.stop()
        keys = {e.id: runner.keys[e.id] for e in choice.experiments if e.id in runner.keys}
        note = Manifest(keys, runner.skipped, sets, quick, source, data is not None)
        note.write(folder)
        return _publish(folder, note, runner.played)


def rebuild(folder: Path) -> Reproduction:
    """Judge the claims and write the pages again from the files of a finished reproduction; nothing is played."""
    note = Manifest.read(folder)
    names = (*note.keys, *note.skipped)
    unknown = [name for name in names if name not in experiments(names)]
    if unknown:
        raise NotAReproduction(
            f"{folder}: was made by version {note.version}, whose experiment {unknown[0]} this one does not have"
        )
    return _publish(folder, note, 0)


class _Runner:
    """Plans and finishes experiments for the pool."""

    def __init__(self, folder: Path, quick: bool, data: str) -> None:
        self.folder, self.quick, self.data = folder, quick, data
        self.keys: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self.played = 0

    def play(self, some: Sequence[Experiment], executor: Executor, view: View, at_once: int) -> None:
        pool = Pool(executor, self.plan, self.finish, view, max(AHEAD, 4 * at_once))
        pool.play(some)
        self.played = pool.played

    def plan(self, experiment: Experiment) -> Planned | None:
        from weakfeedback.datasets import DataMissing
        from weakfeedback.experiments.run import plan_experiment

        repeated = replications(experiment, self.quick)
        try:
            planned = plan_experiment(
                experiment, replications=repeated, store=self.folder / CHUNKS, data=place_of(self.data)
            )
        except DataMissing as error:
            self.skipped[experiment.id] = str(error)
            return None
        self.keys[experiment.id] = key = results_key(planned)
        if key and kept_key(self.folder, experiment.id) == key:
            return None
        planned.plan.find()
        planned.plan.prepare()
        return planned

    def finish(self, planned: Planned) -> None:
        save(self.folder, planned, self.keys[planned.experiment.id])


def _publish(folder: Path, note: Manifest, played: int) -> Reproduction:
    from weakfeedback.reproduce.page import write_reproduction

    known = experiments((*note.keys, *note.skipped))
    choice = Choice(tuple(known[name] for name in known if name in note.keys or name in note.skipped))
    results = StoredResults(folder, note.keys, place_of(note.folder))
    findings = Findings(folder / FINDINGS, note.keys, note.data)
    claims = [claim for chapter in choice.chapters() for claim in choice.claims(chapter)]
    found = [findings.find(claim, lambda claim=claim: needed(claim, results)) for claim in claims]  # type: ignore[misc]
    verdicts = conclude(claims, found, choice.ids)
    paths = write_reproduction(folder / PAGE, choice, note, verdicts, results)
    return Reproduction(choice, note, verdicts, results, paths, played)
