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
    """A setting of the thesis.

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
        By policy: options that have no default, for use on the default problem.
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

        return make_policy(self.name, policy, *self.arguments(problem), **options)

    def parameters(self, policy: str, problem: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options of a policy by name, the defaults of those not given included."""
        from weakfeedback.catalog import policy_class

        arguments = self.arguments(problem)
        bound = inspect.signature(policy_class(self.name, policy)).bind(*arguments, **options)
        bound.apply_defaults()
        return dict(list(bound.arguments.items())[len(arguments) :])


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


def _row(values: Any) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


SETTINGS: dict[str, Setting] = {
    "cascade": Setting(
        name="cascade",
        summary="tests of rising cost whose errors are never revealed (thesis, chapter 2)",
        instances="weakfeedback.cascade.instances",
        default_problem=_cascade_problem,
        arguments=lambda problem: (problem.costs,),
        describe_problem=_cascade_words,
        sample_options={"Fixed": {"arm": 0}},
    ),
}
