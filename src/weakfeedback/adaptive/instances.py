"""Named problems: three bundled data sets and two supplied by the user, each at six prices, and recorded answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weakfeedback.adaptive.problem import AdaptiveProblem
from weakfeedback.datasets import stages
from weakfeedback.datasets.answers import CHAINS, load_answers
from weakfeedback.settings.instances import Described, names_and_describe

REFERENCE = 0.1  # the price of the reference of recorded answers, in units of an error
PRICES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # of running all stages, in units of an error
Loader = Callable[[Any], "stages.Recorded"]


@dataclass(frozen=True)
class Instance(Described):
    """A named problem, described without building it.

    Attributes
    ----------
    name, summary : str
        Its name, and a one-line description.
    data : str
        "built-in", or the data set the user must supply: "pima" or "heart".
    costs : tuple of float
        The price of each stage, in units of an error; of recorded answers the last one, the reference, costs 0.1.
    """

    name: str
    summary: str
    data: str
    costs: tuple[float, ...]
    setting: str = "adaptive"
    # None: recorded answers
    _record: Loader | None = field(default=None, kw_only=True, repr=False, compare=False)


def load(name: str, data: Any = None) -> AdaptiveProblem:
    """Return the problem with this name. Raise ``DataMissing`` if its data set is missing.

    ``data`` is a folder with the medical data sets; without it the environment variable ``WEAKFEEDBACK_DATA``
    is used. Nothing is downloaded.

    >>> load("wine-adaptive-2")
    AdaptiveProblem(arms=3, rows=178, best_fixed=2)
    """
    instance = describe(name)
    if instance._record is None:
        found = load_answers(instance.name)
        return AdaptiveProblem(found.truth, found.outputs, found.scores, instance.costs, groups=found.groups)
    recorded = instance._record(data)
    return AdaptiveProblem(
        recorded.truth, recorded.outputs, recorded.scores, instance.costs, chances=recorded.chances
    )


def _family(prefix: str, about: str, data: str, shares: tuple[float, ...], record: Loader) -> list[Instance]:
    return [
        Instance(
            f"{prefix}-adaptive-{k}",
            f"{about}, {len(shares)} stages, all of them cost {total:g} errors",
            data,
            tuple(round(total * share / sum(shares), 10) for share in shares),
            _record=record,
        )
        for k, total in enumerate(PRICES, start=1)
    ]


_SHARES = (1.0, 5.0, 25.0)  # of the price, stage by stage
_INSTANCES = {
    instance.name: instance
    for instance in (
        *_family("bc", "breast cancer", "built-in", (1.0, 4.0, 25.0), stages.breast_cancer_stages),
        *_family("wine", "wines", "built-in", _SHARES, stages.wine_stages),
        *_family("digits", "handwritten digits", "built-in", _SHARES, stages.digits_stages),
        *_family("pima", "PIMA Indians Diabetes", "pima", _SHARES, stages.pima_stages),
        *_family("heart", "heart disease (Cleveland)", "heart", _SHARES, stages.heart_stages),
        *(
            Instance(name, chain.words, "built-in", chain.relative(REFERENCE))
            for name, chain in CHAINS.items()
        ),
    )
}
names, describe = names_and_describe(__name__, _INSTANCES)
