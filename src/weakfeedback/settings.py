"""What the command line must know of each setting: its instances, a small problem, how policies are made."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Words = list[tuple[str, str]]


@dataclass(frozen=True)
class Setting:
    """A setting: those of the thesis, and routing.

    Attributes
    ----------
    name, summary : str
        What to call it, and one line on what it is.
    instances : str
        The module with ``names()``, ``describe(name)`` and ``load(name)``.
    default_problem : callable
        Makes a small problem, on which policies are checked and compiled.
    arguments : callable
        Takes a problem; returns what every policy of the setting takes before its own options.
    sample_options : mapping
        By policy: options that have no default, for use on its sample problem.
    other_problems : mapping
        By policy: another small problem, where the default one is not for this policy.
    told : callable
        Takes a problem; returns options that it decides, for policies that have them and unless they are given.
    listed : names
        Attributes of a problem that a list of instances shows.
    facts : names
        Attributes of a problem that a program should know of it: numbers, bools and words.
    describe_problem : callable
        Takes a problem; returns what a reader should know of it, as pairs of words.
    """

    name: str
    summary: str
    instances: str
    default_problem: Callable[[], Any]
    arguments: Callable[[Any], tuple[Any, ...]]
    describe_problem: Callable[[Any], Words]
    sample_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    other_problems: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    told: Callable[[Any], dict[str, Any]] = lambda problem: {}  # noqa: ARG005
    listed: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def facts_of(self, problem: Any) -> dict[str, Any]:
        """What a program should know of a problem, as plain data."""
        found: dict[str, Any] = {name: getattr(problem, name, None) for name in self.facts}
        return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in found.items()}

    def sample(self, policy: str) -> tuple[Any, Any]:
        """Return a small problem that is fit for a policy, and the policy made for it."""
        problem = self.other_problems.get(policy, self.default_problem)()
        return problem, self.make(policy, problem, self.sample_options.get(policy, {}))

    def instance_names(self) -> tuple[str, ...]:
        """Return the names of its instances."""
        return importlib.import_module(self.instances).names()

    def describe(self, name: str) -> Any:
        """Return what is known of an instance without its data."""
        return importlib.import_module(self.instances).describe(name)

    def load(self, name: str) -> Any:
        """Return the problem of that name."""
        return importlib.import_module(self.instances).load(name)

    def make(self, policy: str, problem: Any, options: Mapping[str, Any]) -> Any:
        """Return a fresh policy for a problem."""
        from weakfeedback.catalog import make_policy

        return make_policy(
            self.name, policy, *self.arguments(problem), **self._options(policy, problem, options)
        )

    def parameters(self, policy: str, problem: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options of a policy by name, the defaults of those not given included."""
        from weakfeedback.catalog import option_names, policy_class

        given = self._options(policy, problem, options)
        parameters = inspect.signature(policy_class(self.name, policy)).parameters
        return {name: given.get(name, parameters[name].default) for name in option_names(self.name, policy)}

    def _options(self, policy: str, problem: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        from weakfeedback.catalog import option_names

        known = option_names(self.name, policy)
        return {name: value for name, value in self.told(problem).items() if name in known} | dict(options)


def _cascade_problem() -> Any:
    from weakfeedback.cascade import CascadeProblem

    return CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])


def _cascade_words(problem: Any) -> Words:
    holds = "holds" if problem.weak_dominance else "fails: the optimal arm cannot be learned"
    return [
        ("Arms", f"{problem.arms}, counted from 0"),
        ("Costs", _row(problem.costs)),
        ("Error rates", _row(problem.errors)),
        ("Loss per round above the best", _row(problem.gaps)),
        ("Optimal arm", str(problem.optimal_arm)),
        ("Weak dominance", holds),
        ("ξ", "∞" if math.isinf(problem.xi) else f"{problem.xi:.4g}"),
        ("Strong dominance", "holds" if problem.strong_dominance else "fails"),
    ]


def _contextual_problem() -> Any:
    import numpy as np

    from weakfeedback.contextual import ContextualProblem

    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1.0, 1.0, size=(300, 2))
    truth = contexts[:, 0] + 0.5 * contexts[:, 1] > 0
    parameters = [[0.5, 0.0], [2.0, 0.5], [6.0, 3.0]]
    return ContextualProblem(contexts, truth, parameters, costs=[0.05, 0.15, 0.35])


def _contextual_words(problem: Any) -> Words:
    return [
        ("Arms", f"{problem.arms}, counted from 0"),
        ("Costs", _row(problem.costs)),
        ("Contexts", f"{len(problem.features)}, {problem.dimension} features after the map"),
        ("Contexts with weak dominance", f"{problem.weak_dominance_fraction:.4g}"),
    ]


def _routing_problem() -> Any:
    from weakfeedback.routing.instances import load

    return load("prices-1-4-12")


def _routing_words(problem: Any) -> Words:
    holds = "holds" if problem.weak_dominance else "fails: the optimal model cannot be learned"
    return [
        ("Models", f"{problem.arms}, counted from 0"),
        ("Prices, each alone", _row(problem.prices)),
        ("Error rates", _row(problem.errors)),
        ("Loss per round above the best", _row(problem.gaps)),
        ("Optimal model", str(problem.optimal_arm)),
        ("Weak dominance", holds),
        ("ξ", "∞" if math.isinf(problem.xi) else f"{problem.xi:.4g}"),
        ("Margin", "∞" if math.isinf(problem.margin) else f"{problem.margin:.4g}"),
    ]


def _adaptive_problem() -> Any:
    import numpy as np

    from weakfeedback.adaptive import AdaptiveProblem

    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, size=400)
    hard = rng.random(400)
    share = hard[:, None] * np.array([0.6, 0.3, 0.1])  # with which a stage errs
    wrong = rng.random((400, 3)) < share
    outputs = np.where(wrong, (truth[:, None] + rng.integers(1, 3, size=(400, 3))) % 3, truth[:, None])
    return AdaptiveProblem(truth, outputs, 1.0 - share, costs=[0.01, 0.04, 0.1])


def _adaptive_words(problem: Any) -> Words:
    return [
        ("Stages", f"{problem.arms}, counted from 0"),
        ("Prices of the stages", _row(problem.costs)),
        ("Error rates", _row(problem.errors)),
        ("Cost of a round by stopping always at a stage", _row(problem.fixed_costs)),
        ("Best fixed arm", str(problem.best_fixed)),
        ("Regret", "cost against the best fixed arm; it may be negative"),
    ]


def _allocation_problem() -> Any:
    from weakfeedback.allocation import AllocationProblem

    return AllocationProblem([0.9, 0.7, 0.5, 0.3], [0.5, 0.5, 0.5, 0.5], budget=1.2)


def _different_thresholds() -> Any:
    from weakfeedback.allocation import AllocationProblem

    return AllocationProblem([0.9, 0.7, 0.5, 0.3], [0.5, 0.3, 0.5, 0.2], budget=0.9)


def _reward_problem() -> Any:
    from weakfeedback.allocation import AllocationProblem

    return AllocationProblem([0.9, 0.7, 0.5, 0.3], [0.5, 0.5, 0.5, 0.5], budget=1.2, setting="reward")


def _allocation_words(problem: Any) -> Words:
    return [
        ("Arms", str(problem.arms)),
        ("Budget", f"{problem.budget:.4g}"),
        ("Setting", problem.outcome),
        ("Thresholds", _row(problem.thresholds)),
        ("Means", _row(problem.means)),
        ("Optimal value", f"{problem.optimal_value:.4g}"),
        ("γ", f"{problem.gamma:.4g}"),
    ]


def _multiplayer_problem() -> Any:
    from weakfeedback.multiplayer import MultiplayerProblem

    return MultiplayerProblem([0.9, 0.75, 0.6, 0.45, 0.3], players=3)


def _multiplayer_words(problem: Any) -> Words:
    return [
        ("Channels", str(problem.arms)),
        ("Players", str(problem.players)),
        ("Means", _row(problem.means)),
        ("Optimal value", f"{problem.optimal_value:.4g}"),
    ]


def _row(values: Any) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


_SEARCH = {"epsilon": 0.1, "delta": 0.1}

SETTINGS: dict[str, Setting] = {
    "cascade": Setting(
        name="cascade",
        summary="tests of rising cost whose errors are never revealed (thesis, chapter 2)",
        instances="weakfeedback.cascade.instances",
        default_problem=_cascade_problem,
        arguments=lambda problem: (problem.costs,),
        describe_problem=_cascade_words,
        listed=("weak_dominance", "xi", "optimal_arm"),
        facts=(
            *("arms", "costs", "errors", "gaps", "optimal_arm"),
            *("weak_dominance", "xi", "strong_dominance"),
        ),
        sample_options={"Fixed": {"arm": 0}, "Q-USS": {"price": 1.0}},
    ),
    "contextual": Setting(
        name="contextual",
        summary="cascades whose best stop depends on the context (thesis, chapter 3)",
        instances="weakfeedback.contextual.instances",
        default_problem=_contextual_problem,
        arguments=lambda problem: (problem.costs, problem.dimension),
        describe_problem=_contextual_words,
        facts=("arms", "costs", "dimension", "weak_dominance_fraction"),
        sample_options={"Fixed": {"arm": 0}, "USS-PD": {"forced": 30}, "Supervised": {"forced": 30}},
    ),
    "adaptive": Setting(
        name="adaptive",
        summary="cascades that stop when this answer is good enough (beyond the thesis)",
        instances="weakfeedback.adaptive.instances",
        default_problem=_adaptive_problem,
        arguments=lambda problem: (problem.costs,),
        describe_problem=_adaptive_words,
        sample_options={"Fixed": {"arm": 1}, "Thresholds": {"thresholds": [0.9, 0.9]}},
        told=lambda problem: {"labels": problem.labels},
    ),
    "routing": Setting(
        name="routing",
        summary="models that can be called alone, whose errors are never revealed (beyond the thesis)",
        instances="weakfeedback.routing.instances",
        default_problem=_routing_problem,
        arguments=lambda problem: (problem.prices,),
        describe_problem=_routing_words,
        listed=("weak_dominance", "xi", "optimal_arm"),
        sample_options={"Fixed-model": {"model": 0}},
    ),
    "allocation": Setting(
        name="allocation",
        summary="a budget split over arms, feedback censored by unknown thresholds (thesis, chapter 4)",
        instances="weakfeedback.allocation.instances",
        default_problem=_allocation_problem,
        arguments=lambda problem: (problem.arms, problem.budget),
        describe_problem=_allocation_words,
        facts=("arms", "budget", "outcome", "thresholds", "means", "optimal_value", "gamma"),
        sample_options={
            "CSB-SK": _SEARCH,
            "CSB-ST": _SEARCH,
            "NUM-SK": _SEARCH,
            "CSB-MK": {**_SEARCH, "gamma": 0.02},
            "CSB-DK": {**_SEARCH, "gamma": 0.02},
            "CSB-DT": {**_SEARCH, "gamma": 0.02},
            "NUM-MK": {**_SEARCH, "gamma": 0.02},
            "CSB-DU": {"gamma": 0.02},
            "Known": {"thresholds": [0.5, 0.5, 0.5, 0.5]},
        },
        other_problems={
            "NUM-SK": _reward_problem,
            "NUM-MK": _reward_problem,
            **dict.fromkeys(("CSB-MK", "CSB-DK", "CSB-DT", "CSB-DU", "CSB-TS"), _different_thresholds),
        },
        told=lambda problem: {"setting": problem.outcome},
    ),
    "multiplayer": Setting(
        name="multiplayer",
        summary="players who share channels and hear only their own collisions (thesis, chapter 5)",
        instances="weakfeedback.multiplayer.instances",
        default_problem=_multiplayer_problem,
        arguments=lambda problem: (problem.arms,),
        describe_problem=_multiplayer_words,
        facts=("arms", "players", "means", "optimal_value"),
        sample_options={
            "DLC": _SEARCH,
            "DLC-LIX": _SEARCH,
            "Musical-Chairs": {"learning_rounds": 100},
            "SIC-MMAB": {"horizon": 10_000},
        },
    ),
}
