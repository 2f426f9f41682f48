"""Named problems of chapter 4: instances I to IV of the censored semi-bandits, 1 to 3 of network utility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.allocation.problem import AllocationProblem
from weakfeedback.settings.instances import Described, names_and_describe


@dataclass(frozen=True)
class Instance(Described):
    """A named problem, described without building it.

    Attributes
    ----------
    name, summary : str
        Its name, and a one-line description.
    means, thresholds : tuples of K numbers
    budget : float
    outcome : str
        "loss" or "reward".
    stated_gamma : float or None
        The gamma that the thesis gives to the policies; None where all thresholds are equal. It exceeds
        ``problem.gamma`` on III (.005), NUM2 and NUM3 (0: their optimal sets fill the budget exactly).
    epsilon : float
        The lower bound of the means that the thesis gives to the policies. Nine means of I are smaller.
    delta : float or None
        The stated confidence parameter; None for 1/T.
    """

    name: str
    summary: str
    means: tuple[float, ...]
    thresholds: tuple[float, ...]
    budget: float
    outcome: str
    stated_gamma: float | None = None
    epsilon: float = 0.1
    delta: float | None = None
    data: str = ""
    setting: str = "allocation"


def load(
    name: str,
    data: Any = None,  # noqa: ARG001
    budget: float | None = None,
    threshold: float | None = None,
    rewards: str = "bernoulli",
) -> AllocationProblem:
    """Return the problem with this name, or a variant of it.

    ``data`` is unused; other settings need it. ``budget`` replaces Q, ``threshold`` the common threshold of all arms
    (instances I, II and NUM1 only), ``rewards`` the law of the outcomes.

    >>> round(load("III").gamma, 6), load("II", threshold=0.4).optimal_set.sum().item()
    (0.005, 37)
    """
    known = describe(name)
    thresholds: Any = known.thresholds
    if threshold is not None:
        if len(set(known.thresholds)) > 1:
            raise ValueError(
                f"threshold must be left out for {known.name}, whose thresholds differ, got {threshold!r}"
            )
        thresholds = [threshold] * len(known.means)
    return AllocationProblem(
        known.means, thresholds, known.budget if budget is None else budget, known.outcome, rewards
    )


def _steps(first: float, step: float) -> tuple[float, ...]:
    return tuple(np.round(first + step * np.arange(50), 2).tolist())


_MEANS = (0.9, 0.8, 0.42, 0.6, 0.5, 0.2, 0.1, 0.3, 0.7, 0.98)
_NUM3_MEANS = (0.9, 0.8, 0.42, 0.6, 0.5, 0.2, 0.11, 0.7, 0.3, 0.98)

_INSTANCES = {
    instance.name: instance
    for instance in (
        Instance(
            "I",
            "50 arms with one threshold, mean losses .50, .49, ..., .01",
            _steps(0.5, -0.01),
            (0.5,) * 50,
            15.0,
            "loss",
        ),
        Instance(
            "II",
            "50 arms with one threshold, mean losses .70, .69, ..., .21",
            _steps(0.7, -0.01),
            (0.5,) * 50,
            15.0,
            "loss",
        ),
        Instance(
            "III",
            "10 arms with nine different thresholds",
            _MEANS,
            (0.65, 0.55, 0.3, 0.46, 0.37, 0.2, 0.07, 0.25, 0.3, 0.8),
            3.0,
            "loss",
            stated_gamma=0.01,
        ),
        Instance(
            "IV",
            "10 arms with two different thresholds",
            _MEANS,
            (0.55, 0.55, 0.3, 0.55, 0.55, 0.55, 0.3, 0.3, 0.3, 0.55),
            3.0,
            "loss",
            stated_gamma=0.01,
        ),
        Instance(
            "NUM1",
            "network utility, 50 arms with one threshold, mean rewards .25, .26, ..., .74",
            _steps(0.25, 0.01),
            (0.7,) * 50,
            20.0,
            "reward",
            delta=0.1,
        ),
        Instance(
            "NUM2",
            "network utility, 5 arms with three different thresholds that can fill the budget exactly",
            (0.9, 0.89, 0.87, 0.6, 0.3),
            (0.7, 0.7, 0.7, 0.6, 0.35),
            2.0,
            "reward",
            stated_gamma=0.001,
            delta=0.1,
        ),
        Instance(
            "NUM3",
            "network utility, 10 arms with nine different thresholds that can fill the budget exactly",
            _NUM3_MEANS,
            (0.6, 0.55, 0.3, 0.46, 0.34, 0.2, 0.07, 0.3, 0.25, 0.8),
            3.0,
            "reward",
            stated_gamma=0.001,
            delta=0.1,
        ),
    )
}
names, describe = names_and_describe(__name__, _INSTANCES)
