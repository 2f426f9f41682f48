"""Second looks by groups of requests on the recorded answers of language models, and what labels add."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from weakfeedback.datasets.answers import CHAINS, Answers, Chain, load_answers
from weakfeedback.engine.results import Results
from weakfeedback.experiments.model import ExperimentList, Makers, Row, Run, Table
from weakfeedback.routing import PayToCompare, RoutingProblem, SecondLooks
from weakfeedback.routing.yields import yields

PRICES = (0.1, 0.3, 0.5)  # of the last model, in units of an error
ROUNDS = 5_000
BLOCKED = Chain(
    "mmlu-pro",
    "MMLU-Pro by Gemini 1.5 Flash, Llama 3.1 8B and Gemini 1.5 Pro: the middle one blocks the first",
    ("gemini-1.5-flash-002", "meta-llama-3_1-8b-instruct", "gemini-1.5-pro-002"),
    ((0.075, 0.3), (0.18, 0.18), (1.25, 5.0)),
    "category",
)
NAMES = ("gsm8k-llama", "gsm8k-gpt", "gsm8k-claude", "routellm-gsm8k", "mmlu-pro-llama", "mmlu-pro-gemini")
TITLES = {
    **{name: CHAINS[name].about for name in NAMES},
    "blocked": BLOCKED.about,
    "mixed": "GSM8K and as many rows of MMLU-Pro, by Llama 3.1 8B and 70B; two tasks",
}
LABELS = 100


def answers(name: str) -> Answers:
    """Return recorded answers, with groups: the category, or the task; none of GSM8K alone."""
    if name == "blocked":
        return BLOCKED.load()
    if name != "mixed":
        return load_answers(name)
    maths, other = load_answers("gsm8k-llama"), load_answers("mmlu-pro-llama")
    rows = np.linspace(0, len(other.truth) - 1, len(maths.truth)).astype(np.int64)
    return replace(
        other,
        truth=np.concatenate((maths.truth, other.truth[rows])),
        outputs=np.concatenate((maths.outputs[:, :2], other.outputs[rows])),
        groups=np.repeat([0, 1], len(rows)),
    )


def problem(name: str, last: float) -> RoutingProblem:
    """Return the problem in which a call of the last model costs ``last`` errors; without categories random groups."""
    found = answers(name)
    groups = found.groups
    if groups is None:
        groups = np.random.default_rng([2026, NAMES.index(name)]).integers(0, 16, size=len(found.truth))
    prices = np.array(found.prices) / found.prices[-1] * last
    return RoutingProblem.from_predictions(found.truth, found.outputs, prices, groups)


def yields_of(name: str) -> np.ndarray:
    """Return cautious yields from 100 labelled disagreements of every pair, of rows drawn with a seed of their own."""
    found = answers(name)
    order = np.random.default_rng([2026, 100]).permutation(len(found.truth))
    return yields(found.outputs[order], found.truth[order], LABELS).cautious


ROUTER = "Pay-to-compare"
LOOKS = "Second-looks"
GROUPS = "Second-looks, groups"
LABELLED = "Second-looks, groups, yields"


def policies(name: str) -> Makers:
    """Return Pay-to-compare, and Second-looks without context, by groups, and by groups with yields."""
    return {
        ROUTER: lambda p: PayToCompare(p.prices),
        LOOKS: lambda p: SecondLooks(p.prices),
        GROUPS: lambda p: SecondLooks(p.prices, features=1),
        LABELLED: lambda p: SecondLooks(p.prices, features=1, yields=yields_of(name)),
    }


EXPERIMENTS = ExperimentList("beyond-looks", setting="routing")
for name, title in TITLES.items():
    for last in PRICES:
        EXPERIMENTS.add(
            f"{name}-{last:g}".replace("0.", "."),
            f"{title}; a call of the last model costs {last:g} errors",
            "second looks",
            policies(name),
            make=partial(problem, name, last),
            horizon=ROUNDS,
            replications=10,
            marks=20,
            facts=lambda p: {"best": float(p.total_costs.min())},
            deviations=(
                "not a setting of the thesis: its cascades always call all stages up to the last",
                "the groups of GSM8K are random, 16 of them: nothing is known of its questions",
                "labels of yields are not paid for, and are those of rows that are played as well",
            ),
            nanoseconds=2_500.0,
        )


def totals(results: Results, label: str) -> np.ndarray:
    """Return money plus errors of every run."""
    best = float(results.about["facts"]["best"])
    return results.values(label)[:, -1] + best * int(results.about["horizon"])


def rows(run: Run) -> list[Row]:
    """Return, by problem: money plus errors over those of Pay-to-compare, and its own over the best model's."""
    found: list[Row] = []
    ratios = []
    for name in EXPERIMENTS:
        if name in run:
            paid = {label: float(totals(run[name], label).mean()) for label in run[name].policies}
            best = float(run[name].about["facts"]["best"]) * int(run[name].about["horizon"])
            ratios.append([paid[label] / paid[ROUTER] for label in (LOOKS, GROUPS, LABELLED)])
            found.append([name.removeprefix("beyond-looks-"), paid[ROUTER] / best, *ratios[-1]])
    if ratios:
        means = np.exp(np.log(ratios).mean(axis=0))
        found.append(["geometric mean", "", *map(float, means)])
        found.append(["worst", "", *map(float, np.max(ratios, axis=0))])
    return found


TABLE = Table(
    "beyond-table-looks",
    "Second looks: money plus errors, over those of Pay-to-compare",
    "recorded answers of language models",
    ("Answers, price of the last", f"{ROUTER} / best model", LOOKS, "by groups", "and yields"),
    rows,
    tuple(EXPERIMENTS),
    "Below 1 is better than Pay-to-compare. Groups are the category of MMLU-Pro, the task of the mixed stream, and 16 "
    f"random ones elsewhere. Yields are from {LABELS} labelled disagreements of each pair, plus one standard error.",
)
