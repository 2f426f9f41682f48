"""Real numbers: the promise and its rivals on the recorded answers of services and language models."""

from __future__ import annotations

from weakfeedback.adaptive import Agreement, Promise, Thresholds, UssA, instances
from weakfeedback.datasets.answers import CHAINS
from weakfeedback.experiments.model import Experiment
from weakfeedback.thesis.beyond.experiments import OURS, Makers

SPENT = "spent is in units of a tenth of a call of the reference, which alone costs 1000 in 10,000 requests"
POLICIES: Makers = {
    "Promise, .95": lambda p: Promise(p.costs, agree=0.95),
    "Promise, .98": lambda p: Promise(p.costs, agree=0.98),
    "USS-A, last": lambda p: UssA(p.costs, "last", labels=p.labels),
    "Agreement": lambda p: Agreement(p.costs),
    "Thresholds, .9": lambda p: Thresholds(p.costs, [0.9] * (p.arms - 1)),
    "Thresholds, .7": lambda p: Thresholds(p.costs, [0.7] * (p.arms - 1)),
}


def _experiment(name: str) -> Experiment:
    found = instances.describe(name)
    return Experiment(
        f"beyond-recorded-{name}",
        f"The promise on {found.summary}",
        "real answers",
        "adaptive",
        POLICIES,
        instance=name,
        replications=20,
        marks=20,
        deviations=(OURS, SPENT),
        measures=("spent", "differs"),
        nanoseconds=6_000.0,
    )


RECORDED = {experiment.id: experiment for experiment in map(_experiment, CHAINS)}
