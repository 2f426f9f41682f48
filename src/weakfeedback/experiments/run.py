"""Running experiments: the problem, its stand-in when data are missing, and the facts that claims need later."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakfeedback.experiments.model import Experiment

if TYPE_CHECKING:
    from weakfeedback.engine.plan import Plan
    from weakfeedback.engine.results import Results


@dataclass(frozen=True)
class Planned:
    """An experiment that is ready to run, and the metadata of its results."""

    experiment: Experiment
    plan: Plan
    about: dict[str, Any]

    def results(self) -> Results:
        """Return the results, once everything is played."""
        results = self.plan.results()
        results.about.update(self.about)
        return results


def plan_experiment(
    experiment: Experiment,
    *,
    replications: int | None = None,
    store: str | Path | None = None,
    data: Any = None,
) -> Planned:
    """Make the problem and the policies of an experiment; arguments as ``run_experiment`` takes them."""
    from weakfeedback.engine.plan import Plan
    from weakfeedback.settings.catalog import SETTINGS

    problem, instance = experiment.problem(data)
    replaced = experiment.instance if instance != experiment.instance else ""
    folder = None
    if store is not None:
        folder = Path(store) / (f"{experiment.id}-on-{instance}" if replaced else experiment.id)
    plan = Plan(
        problem,
        {label: make(problem) for label, make in experiment.policies.items()},
        horizon=experiment.horizon,
        replications=experiment.replications if replications is None else replications,
        seed=experiment.seed,
        marks=experiment.marks,
        store=folder,
    )
    about: dict[str, Any] = {
        "experiment": experiment.id,
        "instance": instance,
        "stands_in_for": replaced,
        "facts": experiment.facts(problem) if experiment.facts else {},
        "deviations": list(experiment.deviations),
    }
    if experiment.setting in SETTINGS:
        about["description"] = SETTINGS[experiment.setting].describe_problem(problem)
    return Planned(experiment, plan, about)


def run_experiment(
    experiment: Experiment,
    *,
    replications: int | None = None,
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: bool = False,
    data: Any = None,
) -> Results:
    """Play an experiment and return its results.

    ``results.about`` also has the experiment, the instance played, the instance it stands in for (or ""), the facts of
    the problem and the deviations. With a ``store``, finished chunks are kept in a separate folder inside it. ``data``
    is the folder of the medical data sets (default: the environment variable). Raises ``DataMissing`` if data are
    missing and nothing stands in for them.
    """
    from weakfeedback.engine.simulate import play

    planned = plan_experiment(experiment, replications=replications, store=store, data=data)
    planned.plan.find()
    planned.plan.prepare()
    play(planned.plan, executor, progress)
    return planned.results()


def run_experiments(experiments: Iterable[Experiment], **options: Any) -> dict[str, Results]:
    """Play several experiments, options as in ``run_experiment``; those whose data are missing are left out."""
    from weakfeedback.datasets import DataMissing

    results = {}
    for experiment in experiments:
        try:
            results[experiment.id] = run_experiment(experiment, **options)
        except DataMissing:
            continue
    return results
