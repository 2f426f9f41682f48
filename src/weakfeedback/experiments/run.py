"""Running experiments: the problem, its stand-in when data are missing, and what claims must know later."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakfeedback.experiments.model import Experiment

if TYPE_CHECKING:
    from weakfeedback.engine.results import Results


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

    ``results.about`` also tells the experiment, the instance played, the instance it stands in for (or ""), the
    facts of the problem and the deviations. With a ``store``, finished chunks are kept in a folder of their own
    inside it. ``data`` is the folder of the medical data sets (default: the environment variable).
    Raises ``DataMissing`` if data are missing and nothing stands in for them.
    """
    from weakfeedback.engine.simulate import simulate

    problem, instance = experiment.problem(data)
    replaced = experiment.instance if instance != experiment.instance else ""
    folder = None
    if store is not None:
        folder = Path(store) / (f"{experiment.id}-on-{instance}" if replaced else experiment.id)
    results = simulate(
        problem,
        {label: make(problem) for label, make in experiment.policies.items()},
        horizon=experiment.horizon,
        replications=experiment.replications if replications is None else replications,
        seed=experiment.seed,
        marks=experiment.marks,
        executor=executor,
        store=folder,
        progress=progress,
    )
    results.about.update(
        experiment=experiment.id,
        instance=instance,
        stands_in_for=replaced,
        facts=experiment.facts(problem) if experiment.facts else {},
        deviations=list(experiment.deviations),
    )
    return results


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
