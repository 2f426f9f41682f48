"""Named problems of chapter 5: the comparisons and sweeps of its experiments (thesis, section 5.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weakfeedback.multiplayer.problem import MultiplayerProblem
from weakfeedback.settings.instances import Described, names_and_describe


@dataclass(frozen=True)
class Instance(Described):
    """A named problem: K arms with means ``first``, ``first - gap``, ..., and the experiment's setup.

    Attributes
    ----------
    name, summary : str
        Its name, and a one-line description.
    arms, players : int
    first, gap : float
        The largest mean and the step to the next one.
    horizon : int
        Number of rounds in the experiment of the thesis.
    epsilon, delta : float
        Parameters of DLC and DLC-LIX in that experiment.
    """

    name: str
    summary: str
    arms: int
    players: int
    first: float
    gap: float
    horizon: int
    epsilon: float
    delta: float = 0.05
    data: str = ""
    setting: str = "multiplayer"

    @property
    def means(self) -> tuple[float, ...]:
        """The means, largest first, rounded to exact decimals."""
        return tuple(round(self.first - k * self.gap, 10) for k in range(self.arms))


def load(name: str, data: Any = None) -> MultiplayerProblem:  # noqa: ARG001
    """Return the problem with this name; ``data`` is unused (other settings need it).

    >>> load("e1")
    MultiplayerProblem(arms=10, players=6, optimal_value=4.95, rewards='bernoulli')
    """
    instance = describe(name)
    return MultiplayerProblem(instance.means, instance.players)


_COMPARISONS = (
    Instance("e1", "comparison with Musical Chairs, T_0 = 3000", 10, 6, 0.95, 0.05, 10_000, 0.3),
    Instance("e2", "comparison with SIC-MMAB", 9, 6, 0.95, 0.05, 300_000, 0.05),
)
_SWEEPS = (
    *(
        Instance(f"arms-{k}", f"regret against the number of arms: {k}", k, 5, 0.95, 0.05, 300_000, 0.05)
        for k in (6, 7, 8, 9, 10, 12, 14)
    ),
    *(
        Instance(
            f"players-{n}", f"regret against the number of players: {n}", 10, n, 0.95, 0.05, 300_000, 0.05
        )
        for n in range(1, 11)
    ),
    *(
        Instance(
            f"gap-{gap:g}", f"collisions and rounds against the gap: {gap:g}", 9, 6, 0.95, gap, 300_000, 0.05
        )
        for gap in (0.02, 0.03, 0.04, 0.05, 0.07, 0.1)
    ),
)
_INSTANCES = {instance.name: instance for instance in (*_COMPARISONS, *_SWEEPS)}
names, describe = names_and_describe(__name__, _INSTANCES)
