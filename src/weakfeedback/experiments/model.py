"""Data classes for experiments, claims and verdicts. Nothing here runs anything."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weakfeedback.engine.results import Results

OUTCOMES = ("reproduced", "with-reading", "not-reproduced", "inconclusive", "skipped")
WAYS = ("simulation", "computation", "property", "argued only")
RULES = ("every", "any")

Facts = Callable[[Any], dict[str, Any]]
Test = Callable[["Run"], "Finding"]
Row = list[float | str]  # of a table
Makers = dict[str, Callable[[Any], Any]]  # by label, what makes a policy for a problem


class Run(dict[str, "Results"]):
    """The input of claims' tests and tables: results by experiment id, and the folder of the medical data sets.

    ``data`` None means the folder named by the environment variable.
    """

    def __init__(self, results: Mapping[str, Results], data: Any = None) -> None:
        super().__init__(results)
        self.data = data


def data_of(results: Mapping[str, Results]) -> Any:
    """Return the folder of the medical data sets that came with results; None for plain ones."""
    return getattr(results, "data", None)


@dataclass(frozen=True)
class Experiment:
    """Policies on one problem, as the thesis ran them or as one of its claims needs them.

    Attributes
    ----------
    id, title : str
        A name such as "ch2-compare-pima-1", and one line on what is compared.
    place : str
        The figure, table or passage of the thesis it belongs to.
    setting : str
        "cascade", "contextual", "adaptive", "routing", "allocation" or "multiplayer".
    instance : str
        The name of an instance of the setting; or "" when ``make`` makes the problem.
    make : function () -> problem, optional
    policies : mapping of labels to functions problem -> policy
    horizon, replications, seed, marks
        As ``simulate`` takes them.
    needs : str
        The data set the user must bring: "", "pima" or "heart".
    stand_in : str
        The instance played instead when the data are missing; "" for none.
    facts : function problem -> dict, optional
        Facts of the problem that claims need; plain numbers and lists, stored with the results.
    deviations : tuple of str
        Where this differs from the printed experiment, and why.
    measures : tuple of str
        What is drawn over rounds, one figure each; the first one also fills the table.
    swept : (name of a fact, words for an axis), optional
        Experiments of one place with the same pair are drawn in one figure, their final values against the fact.
    nanoseconds : float
        Time per round of one policy, for the cost estimate; 0 for the usual value of the setting.
    """

    id: str
    title: str
    place: str
    setting: str
    policies: Mapping[str, Callable[[Any], Any]]
    instance: str = ""
    make: Callable[[], Any] | None = None
    horizon: int = 10_000
    replications: int = 100
    seed: int = 0
    marks: int = 200
    needs: str = ""
    stand_in: str = ""
    facts: Facts | None = None
    deviations: tuple[str, ...] = ()
    measures: tuple[str, ...] = ("regret",)
    swept: tuple[str, str] | None = None
    nanoseconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.measures:
            raise ValueError(f"measures of experiment {self.id!r} must not be empty")
        if self.swept is not None and self.facts is None:
            raise ValueError(
                f"experiment {self.id!r} sweeps the fact {self.swept[0]!r}, so it must have facts"
            )
        if bool(self.instance) == (self.make is not None):
            raise ValueError(f"experiment {self.id!r} must have an instance or a make function, and not both")
        if not self.policies:
            raise ValueError(f"policies of experiment {self.id!r} must not be empty")
        if (self.needs or self.stand_in) and not self.instance:
            raise ValueError(f"experiment {self.id!r} needs data, so it must name an instance")

    def problem(self, data: Any = None) -> tuple[Any, str]:
        """Return the problem and the instance's name: those of the stand-in if the data are missing.

        ``data`` is the folder of the medical data sets. Raises ``DataMissing`` if there is no stand-in either.
        """
        from weakfeedback.datasets import DataMissing

        if self.make is not None:
            return self.make(), ""
        instances = importlib.import_module(f"weakfeedback.{self.setting}.instances")
        try:
            return instances.load(self.instance, data), self.instance
        except DataMissing:
            if not self.stand_in:
                raise
            return instances.load(self.stand_in, data), self.stand_in


class ExperimentList(dict[str, Experiment]):
    """Experiments by id. All ids begin with ``prefix``; ``usual`` are the options of those added without their own."""

    def __init__(self, prefix: str, **usual: Any) -> None:
        super().__init__()
        self.prefix, self.usual = prefix, usual

    def add(self, name: str, title: str, place: str, policies: Makers, **options: Any) -> None:
        """Add the experiment ``prefix``-``name``; options as `Experiment` takes them."""
        made = Experiment(
            f"{self.prefix}-{name}", title, place, policies=policies, **{**self.usual, **options}
        )
        self[made.id] = made


@dataclass(frozen=True)
class Table:
    """A table of the thesis, reproduced.

    Attributes
    ----------
    id, title, place : str
        A name such as "ch2-table-bsc", a line on what it shows, and where it is in the thesis.
    columns : tuple of str
        The first names the rows. Say in the heading which numbers are the thesis's and which are ours.
    rows : function results by experiment -> rows
        Each row has one cell per column: a number, or words.
    experiments : tuple of str
        The ids of the experiments whose results ``rows`` reads; one that was not run is absent from them.
    note : str
    """

    id: str
    title: str
    place: str
    columns: tuple[str, ...]
    rows: Callable[[Run], Sequence[Sequence[float | str]]]
    experiments: tuple[str, ...] = field(default=(), repr=False)
    note: str = ""


@dataclass(frozen=True)
class Part:
    """The evidence on one instance or one step of a claim.

    ``p_for`` is the p-value of a test whose rejection supports the claim, ``p_against`` of one whose rejection
    contradicts it; both are as computed, ``p_value`` is the one that decided, corrected over the run. A part
    that no test decides has its ``outcome`` from the start. One that does not count is shown with the verdict without
    changing it.
    """

    name: str
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p_for: float = math.nan
    p_against: float = math.nan
    p_value: float = math.nan
    n: int = 0
    outcome: str = ""
    note: str = ""
    counts: bool = True

    def __post_init__(self) -> None:
        if self.outcome not in ("", *OUTCOMES):
            raise ValueError(f"outcome must be one of {', '.join(OUTCOMES)}, got {self.outcome!r}")


@dataclass(frozen=True)
class Finding:
    """What a claim's test found, before the correction for many tests.

    ``rule`` says whether the claim needs every part or any. ``reading`` is the interpretation of the words under which
    the parts test the claim: a claim that holds is then "with-reading" ("reproduced as interpreted" for readers).
    """

    parts: tuple[Part, ...]
    rule: str = "every"
    reading: str = ""
    summary: str = ""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, got {self.rule!r}")
        if not any(part.counts for part in self.parts):
            raise ValueError("parts must hold at least one that counts")


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim, in a sentence, with the numbers of the part that decided it.

    ``p_value`` is corrected over all tests of the run; ``low`` and ``high`` are the endpoints of a plain 95 % interval
    of ``effect``.
    """

    outcome: str
    reason: str
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    n: int = 0
    parts: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"outcome must be one of {', '.join(OUTCOMES)}, got {self.outcome!r}")


@dataclass(frozen=True)
class Claim:
    """A worded claim of the thesis and its test.

    Attributes
    ----------
    number : int
    words : str
        The thesis's own words, shortened by dots only, with symbols spelled out.
    lines : str
        Where they are in the thesis's source.
    how : str
        "simulation", "computation", "property" (checked on random instances) or "argued only".
    test : function results by experiment -> Finding
        None if and only if the claim is argued only; ``why`` then says why nothing is run.
    experiments : tuple of str
        The ids of the experiments whose results the test reads.
    level : float
        The probability of any false rejection in a whole run, after the correction.
    ours : str
        What in the test is ours and not from the thesis: values it does not print, classifiers, instances.
    remains : str
        What remains true if the claim is not reproduced.
    """

    number: int
    words: str
    lines: str
    how: str
    test: Test | None = None
    experiments: tuple[str, ...] = field(default=(), repr=False)
    why: str = ""
    level: float = 0.05
    ours: str = ""
    remains: str = ""

    def __post_init__(self) -> None:
        if self.how not in WAYS:
            raise ValueError(f"how must be one of {', '.join(WAYS)}, got {self.how!r}")
        if (self.test is None) != (self.how == "argued only"):
            raise ValueError(f"claim {self.number} must have a test unless it is argued only")
        if self.how == "argued only" and not self.why:
            raise ValueError(f"claim {self.number} is argued only and must say why")
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {self.level!r}")


class ClaimList(list[Claim]):
    """The claims of a module: each stands at the function that tests it, and its words are the docstring there."""

    def tested(
        self, number: int, lines: str, ids: Iterable[str] = (), how: str = "simulation"
    ) -> Callable[[Test], Test]:
        """Add the claim that the decorated function tests, with the ids of the experiments whose results it reads."""

        def add(test: Test) -> Test:
            words = " ".join((test.__doc__ or "").split())
            self.append(Claim(number, words, lines, how, test, tuple(dict.fromkeys(ids))))
            return test

        return add
