"""Experiments and claims as data, and the functions that run and judge them."""

from weakfeedback.experiments.judge import judge
from weakfeedback.experiments.model import OUTCOMES, Claim, Experiment, Finding, Part, Verdict
from weakfeedback.experiments.run import run_experiment, run_experiments

__all__ = [
    "OUTCOMES",
    "Claim",
    "Experiment",
    "Finding",
    "Part",
    "Verdict",
    "judge",
    "run_experiment",
    "run_experiments",
]
