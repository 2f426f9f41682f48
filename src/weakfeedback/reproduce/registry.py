"""The chapters of the thesis, and how experiments are chosen from them by name."""

from __future__ import annotations

import difflib
import fnmatch
import functools
import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weakfeedback.experiments.model import Claim, Experiment, Table

# Packages in weakfeedback.thesis with the names of the chapter; the ids of its experiments begin with the first name.
# Each package has TITLE, EXPERIMENTS (by id), CLAIMS and TABLES; one that is not a chapter has HEADING and NUMBER.
CHAPTERS = {
    **{f"chapter{number}": (f"ch{number}", f"chapter{number}", str(number)) for number in range(2, 6)},
    "beyond": ("beyond",),
}
LEAST = 5  # minimum replications of a quick run; fewer decide nothing


class UnknownExperiment(ValueError):
    """No experiment has this name; the message is one line, with similar names."""


@dataclass(frozen=True)
class Chapter:
    """A chapter: its number in the thesis, and what it holds."""

    number: int
    title: str
    module: str
    experiments: Mapping[str, Experiment]
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...]
    heading: str
    names: tuple[str, ...]  # names of the chapter that can be used to choose experiments


@dataclass(frozen=True)
class Choice:
    """Some experiments, and the claims and tables that belong to them."""

    experiments: tuple[Experiment, ...]

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids of the experiments."""
        return frozenset(experiment.id for experiment in self.experiments)

    def complete(self) -> bool:
        """Whether these are all experiments."""
        found = self.chapters()
        return len(found) == len(CHAPTERS) and sum(len(one.experiments) for one in found) == len(
            self.experiments
        )

    def chapters(self) -> tuple[Chapter, ...]:
        """Return the chapters of the experiments; no other is loaded."""
        return chapters(self.ids)

    def claims(self, chapter: Chapter) -> list[Claim]:
        """Return the claims of a chapter whose tests read one of the experiments; all if all of it is chosen."""
        whole = set(chapter.experiments) <= self.ids
        return [claim for claim in chapter.claims if whole or self.ids.intersection(claim.experiments)]

    def tables(self, chapter: Chapter) -> list[Table]:
        """Return the tables of a chapter, chosen in the same way as its claims."""
        whole = set(chapter.experiments) <= self.ids
        return [table for table in chapter.tables if whole or self.ids.intersection(table.experiments)]


@functools.cache
def chapter(name: str) -> Chapter:
    """Return the chapter that a package of the thesis holds."""
    module = importlib.import_module(f"weakfeedback.thesis.{name}")
    number = getattr(module, "NUMBER", None) or int(name.removeprefix("chapter"))
    parts = (module.EXPERIMENTS, tuple(module.CLAIMS), tuple(module.TABLES))
    heading = getattr(module, "HEADING", f"Chapter {number}")
    return Chapter(number, module.TITLE, module.__name__, *parts, heading, CHAPTERS[name])


def chapters(words: Iterable[str] | None = None) -> tuple[Chapter, ...]:
    """Return all chapters, in the order of the thesis, or those to which some ids, patterns and names can belong."""
    homes = [_homes(word) for word in words] if words is not None else [set(CHAPTERS)]
    wanted = set().union(*homes)
    return tuple(chapter(name) for name in CHAPTERS if name in wanted)


def short_names() -> list[str]:
    """Return the short name of every chapter; none is loaded."""
    return [names[0] for names in CHAPTERS.values()]


def _homes(word: str) -> set[str]:
    """Return the packages to which an id, a pattern or a name of a chapter can belong."""
    found = {name for name, names in CHAPTERS.items() if word in names or word.startswith(f"{names[0]}-")}
    return found or set(CHAPTERS)


def experiments(words: Iterable[str] | None = None) -> dict[str, Experiment]:
    """Return experiments by id, in the order of the thesis: all, or those of the chapters of some words."""
    return {name: experiment for one in chapters(words) for name, experiment in one.experiments.items()}


def choose(words: Iterable[str] = ()) -> Choice:
    """Return the experiments given by ids, patterns such as "ch2-xi-*" and names of chapters; all if none are given.

    >>> [experiment.id for experiment in choose(["ch2-lower-*"]).experiments]
    ['ch2-lower-bsc-2', 'ch2-lower-bsc-4']
    >>> choose(["ch2-lower"])
    Traceback (most recent call last):
        ...
    weakfeedback.reproduce.registry.UnknownExperiment: experiment 'ch2-lower' is not known; did you mean ch2-lower*?
    """
    words = [word.lower() for word in words]
    known = experiments(words or None)
    wanted = set().union(*(_match(word, known) for word in words)) if words else set(known)
    return Choice(tuple(experiment for name, experiment in known.items() if name in wanted))


def _match(word: str, known: Mapping[str, Experiment]) -> set[str]:
    for package, names in CHAPTERS.items():
        if word in names:
            return set(chapter(package).experiments)
    found = {name for name in known if fnmatch.fnmatchcase(name, word)}
    if found:
        return found
    known = experiments()
    near = [glob for glob in (f"{word}*", f"*{word}*") if fnmatch.filter(known, glob)][:1]
    if not near:
        near = difflib.get_close_matches(word, [*known, *short_names()], n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `weakfeedback reproduce --list`"
    raise UnknownExperiment(f"experiment {word!r} is not known; {hint}")


def pattern(ids: Sequence[str]) -> list[str]:
    """Return the shortest list of words that chooses exactly these experiments.

    >>> pattern(["ch2-lower-bsc-2", "ch2-lower-bsc-4"]), pattern(["ch2-alpha-bsc-1"])
    (['ch2-lower-bsc-*'], ['ch2-alpha-bsc-1'])
    """
    first, last = min(ids), max(ids)
    same = next((k for k, (a, b) in enumerate(zip(first, last)) if a != b), min(len(first), len(last)))
    glob = f"{first[:same]}*"
    exact = len(ids) > 1 and set(fnmatch.filter(experiments([glob]), glob)) == set(ids)
    return [glob] if exact else list(ids)


def replications(experiment: Experiment, quick: bool) -> int:
    """Return how often an experiment is repeated: in a quick run a tenth, but at least ``LEAST`` times."""
    return max(experiment.replications // 10, LEAST) if quick else experiment.replications
