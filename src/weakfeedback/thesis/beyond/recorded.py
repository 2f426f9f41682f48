"""Real numbers: the promise and its rivals on the recorded answers of services and language models."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from weakfeedback.adaptive import Agreement, Promise, Thresholds, UssA, instances
from weakfeedback.datasets.answers import CHAINS, Answers, load_answers
from weakfeedback.experiments.model import ExperimentList, Makers, Row, Run, Table
from weakfeedback.routing.answering import RoutedAnswers
from weakfeedback.thesis.beyond.experiments import OURS
from weakfeedback.thesis.beyond.rivals import OfflineRule, StopBefore

AGREES = (0.95, 0.98)
RUNS = {10_000: 20, 1_000: 40}  # by number of requests
SAMPLE, TESTED, DELTA = 100, 10, 0.05  # requests of calibration, at least; a tenth of all; of the tests
ROUTER = "Router (Pay-to-compare)"
ORACLE = "best threshold in hindsight"
CLEARLY = 0.99  # of the promise's money: what is nearer is not cheaper
KEPT = 0.05  # a rule that is above the promise in a larger share of its runs does not keep it
SPENT = "spent is in units of a tenth of a call of the reference, which alone costs 1000 in 10,000 requests"
WRITTEN = "the rules in the manner of C3PO and BARGAIN are ours, written from what their papers describe"
# what others publish on the same rows, by their own account: set, who, money, accuracy
PUBLISHED = (
    ("rafdb", "FrugalML, as published, with 7,670 labels", 0.43, "0, by its account"),
    ("routellm-gsm8k", "RouteLLM, as published", 0.65, "95 % of GPT-4's quality, by its account"),
)


def named(word: str, agree: float) -> str:
    """Return the label of a policy that is made for one promise."""
    return f"{word}, {f'{agree:g}'.removeprefix('0')}"


def _made(agree: float, length: int) -> Makers:
    tested = max(SAMPLE, length // TESTED)
    return {
        named("Promise", agree): lambda p: Promise(p.costs, agree=agree),
        named("C3PO-like", agree): lambda p: OfflineRule(p.costs, agree, SAMPLE),
        named("BARGAIN-like", agree): lambda p: OfflineRule(p.costs, agree, tested, DELTA),
    }


def _policies(name: str, length: int) -> Makers:
    judges: Makers = {"USS-A, last": lambda p: UssA(p.costs, "last", labels=p.labels)}
    if is_service(name):  # its last score is a probability
        judges["USS-A, score"] = lambda p: UssA(p.costs, "score", labels=p.labels)
    return {
        **{label: make for agree in AGREES for label, make in _made(agree, length).items()},
        ROUTER: lambda p: RoutedAnswers(p.costs),
        **judges,
        "USS-TS": lambda p: StopBefore(p.costs),
        "Agreement": lambda p: Agreement(p.costs),
        "Thresholds, .9": lambda p: Thresholds(p.costs, [0.9] * (p.arms - 1)),
        "Thresholds, .7": lambda p: Thresholds(p.costs, [0.7] * (p.arms - 1)),
    }


def is_service(name: str) -> bool:
    """Whether a set holds the answers of services, with their confidence."""
    return CHAINS[name].file.startswith("api-")


def best_limit(found: Answers, agree: float) -> tuple[float, float, float]:
    """Return money, share that differs and accuracy against the reference of the best rule in hindsight.

    One cheap model, then the reference: by a threshold of its score, whole ties; without scores by the group, decided
    before the call, and the last group in part. All rows are known: nobody can play this.
    """
    best = (1.0, 0.0, 0.0)
    last = found.outputs[:, -1]
    for k, price in enumerate(found.prices[:-1]):
        differ = found.outputs[:, k] != last
        gain = (found.outputs[:, k] == found.truth) * 1.0 - (last == found.truth)
        scored = found.scores is not None
        order = found.scores[:, k] if found.scores is not None else _rates(found.groups, differ)
        share, differing, better = _within(order, differ, gain, 1.0 - agree, scored)
        money = price / found.prices[-1] * (1.0 if scored else share) + 1.0 - share
        if money < best[0]:
            best = (money, differing, better)
    return best


def _rates(groups: np.ndarray | None, differ: np.ndarray) -> np.ndarray:
    """Return minus the share of its group that differs, for every row."""
    if groups is None:
        return np.full(len(differ), -differ.mean())
    places = np.unique(groups, return_inverse=True)[1].ravel()
    return -(np.bincount(places, differ) / np.bincount(places))[places]


def _within(
    score: np.ndarray, differ: np.ndarray, gain: np.ndarray, eps: float, whole: bool
) -> tuple[float, float, float]:
    """Return share, differing and gained of the rows with the largest scores that differ in at most ``eps`` of all."""
    levels, places = np.unique(np.nan_to_num(score, nan=-np.inf), return_inverse=True)
    sums = [
        np.bincount(places.ravel(), one, levels.size)[::-1] for one in (np.ones(len(score)), differ, gain)
    ]
    share, differing, better = (np.concatenate([[0.0], np.cumsum(one)]) / len(score) for one in sums)
    j = int(np.searchsorted(differing, eps + 1e-12, side="right")) - 1
    part = 0.0
    if not whole and j < levels.size:
        part = (eps - differing[j]) / (differing[j + 1] - differing[j])
    ends = (one[j] + (part * (one[j + 1] - one[j]) if part else 0.0) for one in (share, differing, better))
    first, second, third = (float(one) for one in ends)
    return first, second, third


@functools.cache
def known(name: str) -> tuple[list[tuple[str, float, float, float]], dict[float, tuple[float, float, float]]]:
    """Return what every model of a set does alone (name, money, share unlike, share right), and the best rules."""
    found = load_answers(name)
    last = found.outputs[:, -1]
    alone = [
        (
            model,
            price / found.prices[-1],
            float((answer != last).mean()),
            float((answer == found.truth).mean()),
        )
        for model, price, answer in zip(found.models, found.prices, found.outputs.T)
    ]
    return alone, {agree: best_limit(found, agree) for agree in AGREES}


def identity(name: str, length: int) -> str:
    """Return the id of an experiment."""
    return f"beyond-recorded-{name}{'' if length == max(RUNS) else f'-{length}'}"


RECORDED = ExperimentList("beyond-recorded", setting="adaptive")
for length, runs in RUNS.items():
    for name in CHAINS:
        RECORDED.add(
            identity(name, length).removeprefix("beyond-recorded-"),
            f"The promise on {instances.describe(name).summary}, {length:,} requests",
            "real answers",
            _policies(name, length),
            instance=name,
            horizon=length,
            replications=runs,
            marks=20,
            deviations=(OURS, SPENT, WRITTEN),
            measures=("spent", "differs"),
            nanoseconds=1_500.0,
        )


class Played:
    """What a way to answer did on a set: a value per run, or one value if nothing was played."""

    def __init__(self, name: str, label: str, money: Any, differ: Any, accuracy: Any) -> None:
        self.name, self.label = name, label
        self.money, self.differ, self.accuracy = (np.atleast_1d(one) for one in (money, differ, accuracy))

    def broken(self, agree: float) -> np.ndarray:
        """Return in which runs more answers differed than a promise allows."""
        found: np.ndarray = self.differ > 1.0 - agree + 1e-9
        return found


def played(run: Run, length: int, agree: float | None = None) -> Iterator[Played]:
    """Return every way on every set; with ``agree`` without those that are made for another promise."""
    other = [named("", one) for one in AGREES if agree not in (None, one)]
    for name in CHAINS:
        results = run.get(identity(name, length))
        if results is None:
            continue
        alone, best = known(name)
        reference = alone[-1][3]
        for label in results.policies:
            if not any(label.endswith(end) for end in other):
                spent, differ, errors = (
                    results.values(label, measure)[:, -1] / length
                    for measure in ("spent", "differs", "errors")
                )
                yield Played(name, label, spent / instances.REFERENCE, differ, 1.0 - errors - reference)
        for one, values in best.items():
            if agree in (None, one):
                yield Played(name, named(ORACLE, one), *values)


def _percent(value: float) -> str:
    text = f"{100.0 * value:.1f}"
    return "0.0" if text == "-0.0" else text.replace("-", "−")


def _counted(runs: np.ndarray) -> str:
    return f"{int(runs.sum())} of {runs.size}" if runs.size > 1 else ""


def every_row(length: int, run: Run) -> list[Row]:
    """Return every way on every set, and what others publish on it."""
    rows: list[Row] = []
    for one in played(run, length):
        made_for = [agree for agree in AGREES if one.label.endswith(named("", agree))]
        broken = [
            _counted(one.broken(agree)) if not made_for or agree in made_for else "" for agree in AGREES
        ]
        numbers = (
            round(float(one.money.mean()), 3),
            _percent(one.differ.mean()),
            _percent(one.accuracy.mean()),
        )
        rows.append([f"{one.name}, {one.label}", *numbers, _percent(one.differ.max()), *broken])
    shown = {str(row[0]).partition(",")[0] for row in rows}
    rows += [
        [f"{name}, {who}", money, "", accuracy, "", "", ""]
        for name, who, money, accuracy in PUBLISHED
        if name in shown
    ]
    return sorted(rows, key=lambda row: list(CHAINS).index(str(row[0]).partition(",")[0]))


def tally(run: Run) -> list[Row]:
    """Return every way over all sets, by number of requests and promise."""
    rows: list[Row] = []
    for length in RUNS:
        for agree in AGREES:
            found: dict[str, list[Played]] = {}
            for one in played(run, length, agree):
                found.setdefault(one.label.removesuffix(named("", agree)), []).append(one)
            for label, ways in found.items():
                money = [_middle(ways, is_service), _middle(ways, lambda name: not is_service(name))]
                broken = np.concatenate([way.broken(agree) for way in ways])
                rows.append(
                    [
                        f"{length:,}, {f'{agree:g}'.removeprefix('0')}: {label}",
                        *money,
                        _percent(float(np.mean([way.differ.mean() for way in ways]))),
                        _percent(float(np.mean([way.accuracy.mean() for way in ways]))),
                        _percent(max(way.differ.max() for way in ways)),
                        "" if broken.size == len(ways) else f"{int(broken.sum())} of {broken.size}",
                    ]
                )
    return rows


def _middle(ways: list[Played], of: Callable[[str], bool]) -> float | str:
    """Return the geometric mean of the money over some sets."""
    money = [float(way.money.mean()) for way in ways if of(way.name)]
    return round(float(np.exp(np.log(money).mean())), 3) if money else ""


def losses(run: Run) -> list[Row]:
    """Return by rival the sets on which it is cheaper than the promise, with and without keeping it."""
    rows: list[Row] = []
    for length in RUNS:
        for agree in AGREES:
            ways = list(played(run, length, agree))
            ours = {one.name: one for one in ways if one.label == named("Promise", agree)}
            for label in dict.fromkeys(one.label for one in ways):
                rivals = [one for one in ways if one.label == label and one.name in ours]
                cheaper = [one for one in rivals if one.money.mean() < CLEARLY * ours[one.name].money.mean()]
                if rivals and label != named("Promise", agree):
                    kept = [one for one in cheaper if one.broken(agree).mean() <= KEPT]
                    broke = [one for one in cheaper if one not in kept]
                    words = f"{length:,}, {f'{agree:g}'.removeprefix('0')}: {label.removesuffix(named('', agree))}"
                    rows.append([words, len(rivals), _compared(kept, ours), _compared(broke, ours)])
    return rows


def _compared(some: list[Played], ours: Mapping[str, Played]) -> str:
    if not some:
        return "none"
    pairs = (f"{one.name} {one.money.mean():.2f}/{ours[one.name].money.mean():.2f}" for one in some)
    return f"{len(some)}: {', '.join(pairs)}"


def alone(run: Run) -> list[Row]:
    """Return every model alone."""
    rows: list[Row] = []
    for name in CHAINS:
        for model, price, differ, right in known(name)[0] if identity(name, max(RUNS)) in run else ():
            rows.append([f"{name}, {model}", round(price, 4), _percent(differ), _percent(right)])
    return rows


MONEY = (
    "Money as a share of the reference alone, the mean over sets is geometric; accuracy in points against the "
    "reference's; a promise is broken in a run if more of its answers differ than it allows. The best threshold was "
    "chosen in hindsight with all answers: a bound, not a competitor. The rules in the manner of C3PO (100 requests of "
    "calibration, empirical) and BARGAIN (a tenth of the requests, at least 100, exact binomial tests) are ours."
)
TABLES = (
    Table(
        "beyond-table-recorded",
        "The promise and its rivals over all recorded sets",
        "real answers",
        (
            "Requests, promise: way",
            "Money, services",
            "Money, language models",
            "Differ, %",
            "Accuracy, points",
            "Worst run, %",
            "Broken, runs",
        ),
        tally,
        tuple(RECORDED),
        MONEY,
    ),
    Table(
        "beyond-table-recorded-losses",
        "Where rivals are cheaper than the promise",
        "real answers",
        ("Requests, promise: rival", "Sets", "Cheaper, keeps the promise", "Cheaper, breaks it"),
        losses,
        tuple(RECORDED),
        "Money of the rival / of the promise, where it is at least 1 % less. A rule keeps the promise on a set if it "
        "is broken in at most 5 % of its runs there.",
    ),
    Table(
        "beyond-table-recorded-alone",
        "Every model alone on the recorded sets",
        "real answers",
        ("Set, model", "Money", "Differs from the reference, %", "Right, %"),
        alone,
        tuple(identity(name, max(RUNS)) for name in CHAINS),
    ),
    *(
        Table(
            f"beyond-table-recorded-{length}",
            f"The promise and its rivals on every recorded set, {length:,} requests",
            "real answers",
            (
                "Set, way",
                "Money",
                "Differ, %",
                "Accuracy, points",
                "Worst run, %",
                *(f"Broken at {f'{agree:g}'.removeprefix('0')}, runs" for agree in AGREES),
            ),
            partial(every_row, length),
            tuple(identity(name, length) for name in CHAINS),
            MONEY,
        )
        for length in RUNS
    ),
)
