"""Named problems of routing: six worlds of prices, one for each place where the best model can be; recorded answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weakfeedback.datasets.answers import CHAINS, load_answers
from weakfeedback.routing.problem import RoutingProblem
from weakfeedback.settings.instances import Described, names_and_describe


@dataclass(frozen=True)
class Instance(Described):
    """A named problem, described without building it.

    Attributes
    ----------
    name, summary : str
        Its name, and a one-line description.
    data : str
        "" for a law, "built-in" for recorded answers.
    prices : tuple of float
        What each model costs alone, in units of an error; of recorded answers the last one, the reference, costs 0.1.
    """

    name: str
    summary: str
    prices: tuple[float, ...]
    data: str = ""
    setting: str = "routing"
    # which models err together, one letter per model, by probability; two that err give the same wrong answer
    _wrong: Mapping[str, float] = field(default_factory=dict, kw_only=True, repr=False, compare=False)

    def _make(self) -> RoutingProblem:
        if self.data:
            found = load_answers(self.name)
            return RoutingProblem.from_predictions(found.truth, found.outputs, self.prices)
        rows, law = [[1] * (len(self.prices) + 1)], [1.0 - sum(self._wrong.values())]
        for pattern, probability in self._wrong.items():
            rows.append([1] + [0 if letter == "x" else 1 for letter in pattern])
            law.append(probability)
        return RoutingProblem(rows, law, self.prices)


def load(name: str, data: Any = None) -> RoutingProblem:  # noqa: ARG001
    """Return the problem with this name; ``data``, a folder, is unused.

    >>> load("prices-1-10")
    RoutingProblem(arms=2, optimal_arm=0, weak_dominance=True, xi=0.1)
    """
    return describe(name)._make()


REFERENCE = 0.1  # the price of the reference of recorded answers, in units of an error
# Which models err together, in the order of the probabilities below.
_TWO = ("xx", "x.", ".x")
_THREE = ("xxx", "xx.", "x.x", ".xx", "x..", ".x.", "..x")


def _models(name: str, summary: str, prices: tuple[float, ...], wrong: tuple[float, ...]) -> Instance:
    patterns = _TWO if len(prices) == 2 else _THREE
    return Instance(name, summary, prices, _wrong=dict(zip(patterns, wrong, strict=True)))


_INSTANCES = {
    instance.name: instance
    for instance in (
        _models(
            "prices-1-20-150",
            "three models, the second is best, the last costs 3.3 times as much in all",
            (0.001, 0.02, 0.15),
            (0.010, 0.012, 0.003, 0.002, 0.2775, 0.006, 0.002),
        ),
        _models(
            "prices-1-3",
            "two models, the last is best; a cascade that always calls both costs 1.28 times as much",
            (0.05, 0.15),
            (0.02, 0.178, 0.01),
        ),
        _models(
            "prices-1-4-12",
            "three models, the last is best; a cascade that always calls all costs 1.36 times as much",
            (0.01, 0.04, 0.12),
            (0.012, 0.158, 0.002, 0.004, 0.092, 0.026, 0.002),
        ),
        _models("prices-1-10", "two models, the first is best", (0.02, 0.20), (0.01, 0.07, 0.01)),
        _models(
            "prices-1-8-40",
            "three models, the first is best, by a margin of .002 only",
            (0.01, 0.08, 0.40),
            (0.001, 0.002, 0.004, 0.003, 0.032, 0.029, 0.002),
        ),
        _models(
            "prices-1-2",
            "two models, the first is best, but weak dominance fails",
            (0.05, 0.10),
            (0.08, 0.07, 0.0516),
        ),
        *(
            Instance(name, chain.words, chain.relative(REFERENCE), "built-in")
            for name, chain in CHAINS.items()
        ),
    )
}
names, describe = names_and_describe(__name__, _INSTANCES)
