"""A chapter that takes a second: experiments, claims and a table of every kind, in place of the thesis's."""

import contextlib
import functools
import sys
import types

import pytest

from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb
from weakfeedback.experiments.evidence import decided, lower, skipped
from weakfeedback.experiments.model import Claim, Experiment, Finding, Table
from weakfeedback.reproduce import registry
from weakfeedback.reproduce.run import reproduce


def ucb(problem, alpha):
    """A policy made by a partial call."""
    return UssUcb(problem.costs, alpha)


POLICIES = {"USS-TS": lambda p: UssTs(p.costs), "USS-UCB": functools.partial(ucb, alpha=0.5)}
SHORT = {"horizon": 400, "replications": 60, "marks": 20}


def swept(step):
    """One of the experiments that differ in a cost."""
    return Experiment(
        f"ch9-sweep-{step:g}",
        "a step",
        "figure sweep",
        "cascade",
        POLICIES,
        make=lambda: CascadeProblem.bsc([0.4, 0.2, 0.1], [0.05, 0.1, 0.1 + step]),
        facts=lambda p: {"step": float(p.costs[2] - p.costs[1]) - 0.3},
        swept=("step", "step"),
        deviations=("made up",),
        **SHORT,
    )


def experiments():
    """By id."""
    found = [
        Experiment("ch9-one", "the first", "figure one", "cascade", POLICIES, instance="bsc-1", **SHORT),
        *(swept(step) for step in (0.2, 0.3, 0.5)),
        Experiment(
            *("ch9-stand", "with a stand-in", "figure real", "cascade", POLICIES),
            **{"instance": "pima-1", "needs": "pima", "stand_in": "bc3-1", **SHORT},
        ),
        Experiment(
            *("ch9-none", "without one", "figure real", "cascade", POLICIES),
            **{"instance": "pima-3", "needs": "pima", **SHORT},
        ),
    ]
    return {experiment.id: experiment for experiment in found}


class Chapter:
    """The module's contents, with a count of how often each test was asked."""

    def __init__(self):
        self.asked = []
        self.EXPERIMENTS = experiments()
        self.TITLE = "A tiny chapter"
        names = tuple(self.EXPERIMENTS)
        self.CLAIMS = (
            Claim(1, "USS-TS <b>is</b> lower", "10", "simulation", self.lower, names),
            Claim(
                *(2, "two and two are four", "20", "property", self.computed),
                ours="The number two.",
                remains="Nothing, if it failed.",
            ),
            Claim(3, "it is nice", "30", "argued only", why="nice is a matter of taste."),
        )
        self.TABLES = (
            Table("ch9-table", "Numbers", "table one", ("Row", "Printed", "Ours"), self.rows, note="a note"),
        )

    def lower(self, run):
        self.asked.append(1)
        parts = [
            lower(name, run[name], "USS-TS", "USS-UCB") if name in run else skipped(name)
            for name in self.EXPERIMENTS
        ]
        return Finding(tuple(parts))

    def computed(self, _run):
        self.asked.append(2)
        return Finding((decided("sum", 2 + 2 == 4),))

    def rows(self, _results):
        return [["first", 0.5, 0.25], ["second", 1, "no data"]]


@contextlib.contextmanager
def installed(monkeypatch):
    """The tiny chapter is all there is; the medical data are missing."""
    chapter = Chapter()
    module = types.ModuleType("weakfeedback.thesis.chapter9")
    vars(module).update(vars(chapter))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(registry, "CHAPTERS", {"chapter9": ("ch9", "chapter9", "9")})
    monkeypatch.delenv("WEAKFEEDBACK_DATA", raising=False)
    registry.chapter.cache_clear()
    try:
        yield chapter
    finally:
        registry.chapter.cache_clear()


@pytest.fixture
def tiny(monkeypatch):
    """The tiny chapter, for one test."""
    with installed(monkeypatch) as chapter:
        yield chapter


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A quick reproduction of the tiny chapter, run once for the tests of a file, which only read its folder."""
    with pytest.MonkeyPatch.context() as patch, installed(patch):
        return reproduce([], tmp_path_factory.mktemp("made") / "out", quick=True, quiet=True)
