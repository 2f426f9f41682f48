"""Real tables on which what a rule trusts is wrong: a last stage that is not the best, no weak dominance."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from weakfeedback.adaptive import AdaptiveProblem, Promise, UssA
from weakfeedback.datasets.answers import CHAINS, Chain, load_answers
from weakfeedback.experiments.model import ExperimentList, Makers, Row, Run, Table
from weakfeedback.routing import RoutingProblem
from weakfeedback.thesis.beyond.experiments import NO_BOUND, OURS

# the dearest service of FrugalML's tables, which is not the one that is right most often; its price for 10,000 calls
DEAREST = {
    "rafdb": ("google", 15.0),
    "ferplus": ("google", 15.0),
    "audiomnist": ("google", 60.0),
    "yelp": ("baidu", 3.5),
    "command": ("google", 60.0),
}
PRICES = (0.01, 0.1, 1.0)  # of all stages, in errors
REFERENCES = (0.01, 0.03, 0.1, 0.3, 1.0)  # of the reference, in errors


def trusting(problem: Any) -> Promise:
    """Return the promise to agree with the stage before the last; that the last one is never called is the point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return Promise(problem.costs, agree=0.95, reference=problem.arms - 2)


POLICIES: Makers = {
    "USS-A, last": lambda p: UssA(p.costs, "last", labels=p.labels),
    "USS-A, score": lambda p: UssA(p.costs, "score", labels=p.labels),
    "Promise, .95": trusting,
}


def with_dearest(name: str) -> Chain:
    """Return a chain with the dearest service at its end."""
    chain, (model, price) = CHAINS[name], DEAREST[name]
    prices: Any = (*chain.prices, price)
    return replace(chain, models=(*chain.models, model), prices=prices)


def problem_of(name: str, total: float) -> AdaptiveProblem:
    """Return a table whose last stage is the dearest service, where all stages together cost ``total`` errors."""
    found = with_dearest(name).load()
    costs = np.array(found.prices) / sum(found.prices) * total
    return AdaptiveProblem(found.truth, found.outputs, found.scores, costs)


@functools.cache
def known(name: str, total: float) -> tuple[float, list[float]]:
    """Return the cost per round of the best fixed stop, and the errors of the last two stages."""
    problem = problem_of(name, total)
    return float(problem.fixed_costs.min()), problem.errors[-2:].tolist()


LAST = ExperimentList("beyond-last", setting="adaptive")
for name in DEAREST:
    for number, total in enumerate(PRICES, start=1):
        LAST.add(
            f"{name}-{number}",
            f"A last stage that is not the best: {CHAINS[name].about}, all stages cost {total:g} errors",
            "real answers",
            POLICIES,
            make=functools.partial(problem_of, name, total),
            replications=10,
            marks=20,
            deviations=(OURS, NO_BOUND),
            measures=("total_cost",),
            nanoseconds=8_000.0,
        )


def last_rows(run: Run) -> list[Row]:
    """Return by table and price the cost of every policy as a share of the best fixed stop's, errors included."""
    rows: list[Row] = []
    for name in DEAREST:
        for k, total in enumerate(PRICES):
            results = run.get(f"beyond-last-{name}-{k + 1}")
            if results is not None:
                (fixed, wrong), rounds = known(name, total), int(results.about["horizon"])
                costs = [results.values(label, "total_cost")[:, -1].mean() / rounds for label in POLICIES]
                errors = (f"{100 * one:.1f}" for one in wrong)
                ratios = (round(float(one / fixed), 2) for one in costs)
                rows.append([f"{name}, {DEAREST[name][0]} last, {total:g}", *errors, *ratios])
    return rows


@functools.cache
def fails(name: str, price: float) -> bool:
    """Whether weak dominance fails on a recorded set where a call of the reference costs ``price`` errors."""
    found = load_answers(name)
    prices = [price * one / found.prices[-1] for one in found.prices]
    return not RoutingProblem.from_predictions(found.truth, found.outputs, prices).weak_dominance


def dominance_rows(_: Run) -> list[Row]:
    """Return by set where weak dominance fails, and how often in all."""
    rows: list[Row] = [
        [name, *("fails" if fails(name, one) else "" for one in REFERENCES)] for name in CHAINS
    ]
    return [*rows, ["fails, of 12", *(sum(fails(name, one) for name in CHAINS) for one in REFERENCES)]]


TABLES = (
    Table(
        "beyond-table-last",
        "A last stage that is not the best",
        "real answers",
        ("Table, last stage, price of all stages", "Second to last wrong, %", "Last wrong, %", *POLICIES),
        last_rows,
        tuple(LAST),
        "Money and errors as a share of the best fixed stop's in hindsight. The promise is to agree with the stage "
        "before the last, which is right most often.",
    ),
    Table(
        "beyond-table-dominance",
        "Where weak dominance fails on recorded answers",
        "real answers",
        ("Set", *(f"Reference costs {one:g}" for one in REFERENCES)),
        dominance_rows,
        tuple(LAST),
        "Computed, nothing is played. Prices in errors, models called alone.",
    ),
)
