"""Problems of several players on shared arms: means of the arms and the number of players (thesis, ch. 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.multiplayer.options import flag, one_of
from weakfeedback.settings.problem import FrozenProblem, counts_table, fingerprint
from weakfeedback.validate import brief, integer, vector

if TYPE_CHECKING:
    from weakfeedback.engine.loop import Loop
    from weakfeedback.multiplayer.world import MultiplayerWorld

TIE = 1e-12  # absolute tolerance of ties
LAWS = ("bernoulli", "uniform", "beta")
FIXED = 4  # rounds, collisions, settled players, round of settlement


class MultiplayerProblem(FrozenProblem):
    """N players that share K arms, cannot communicate, and collide on the same arm.

    Setting
    -------
    In every round each player plays one arm or idles. An arm played by one player alone gives it its reward
    in [0, 1], drawn independently each round. Players on the same arm collide and earn nothing. Idling earns nothing
    and never collides.

    What is hidden
    --------------
    The means, the rewards of all other arms, what the other players play, and their number.

    What is seen
    ------------
    Each player sees the reward of its own arm, or that it collided there, but not with how many others.

    Regret
    ------
    The total mean of the N best arms in every round, less the means of the arms that were used without
    collision. Collisions count once for every player involved.

    Arguments
    ---------
    means : K >= 2 numbers in [0, 1]
    players : integer from 1 to K
    shuffle : bool
        Whether each replication assigns the means to the arms in random order. (Protocols that use the arms'
        numbers can gain or lose from a sorted order.)
    rewards : "bernoulli", "uniform" or "beta"
        0 or 1; uniform on the widest interval around the mean within [0, 1]; Beta(4 mean, 4 (1 - mean)).

    Attributes
    ----------
    arms, players, means, optimal_value
        K, N, the means in the order given, and the sum of the N largest.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, section 5.2.

    Examples
    --------
    >>> problem = MultiplayerProblem([0.9, 0.5, 0.7, 0.1], players=2)
    >>> problem
    MultiplayerProblem(arms=4, players=2, optimal_value=1.6, rewards='bernoulli')
    """

    setting = "multiplayer"

    arms: int
    players: int
    means: np.ndarray
    shuffle: bool
    rewards: str
    optimal_value: float
    _best: np.ndarray

    def __init__(self, means: Any, players: Any, shuffle: Any = True, rewards: Any = "bernoulli"):
        array = vector("means", means, at_least=0.0)
        if array.size < 2 or (array > 1.0).any():
            raise ValueError(f"means must be at least two numbers in [0, 1], got {brief(means)}")
        best = np.sort(np.argsort(-array, kind="stable")[: integer("players", players, 1, array.size)])
        self.__dict__.update(
            arms=array.size,
            players=best.size,
            means=array,
            shuffle=flag("shuffle", shuffle),
            rewards=one_of("rewards", rewards, LAWS),
            optimal_value=float(sum(array[best].tolist())),
            _best=best,
        )
        self._freeze()

    def __repr__(self) -> str:
        return (
            f"MultiplayerProblem(arms={self.arms}, players={self.players}, "
            f"optimal_value={self.optimal_value:.6g}, rewards={self.rewards!r})"
        )

    def world(self) -> MultiplayerWorld:
        """Return the hidden part of the simulation, which draws the rewards."""
        from weakfeedback.multiplayer.world import MultiplayerWorld

        return MultiplayerWorld(self.means, LAWS.index(self.rewards), self.shuffle)

    def loop(self) -> Loop:
        """Return the round loop of this setting."""
        from weakfeedback.multiplayer.play import LOOP

        return LOOP

    def measures(self, counts: Any) -> dict[str, np.ndarray]:
        """Turn the counts of the round loop, shape (..., 4 + 2 K), into measures of shape (...).

        regret
            Of all rounds so far.
        collisions
            Once for every player involved.
        settled_players
            The number of players that report having their final arm.
        settled_at
            The round in which the last player settled; the number of rounds so far if some have not.
        optimal
            1 if all have settled, on different arms with the largest possible total mean (to 1e-12), else 0.
        shortfall
            ``optimal_value`` less the means of the arms on which exactly one player has settled; an end is
            epsilon-optimal if all have settled and this is at most epsilon.
        """
        table = counts_table("counts", counts, FIXED + 2 * self.arms)
        rounds, collisions, settled, settled_at = (table[..., k] for k in range(FIXED))
        regret = np.zeros(table.shape[:-1])
        shortfall = np.zeros(table.shape[:-1])
        # in index order, so that the result does not depend on how the counts are batched
        due = np.isin(np.arange(self.arms), self._best).astype(int).tolist()
        by_arm = np.moveaxis(table[..., FIXED:], -1, 0)
        for k, mean in enumerate(self.means.tolist()):
            used, seats = by_arm[k], by_arm[self.arms + k]
            regret += (rounds - used if due[k] else -used) * mean
            shortfall += (due[k] - (seats == 1)) * mean
        everybody = settled == self.players
        return {
            "regret": regret,
            "collisions": collisions.copy(),
            "settled_players": settled.copy(),
            "settled_at": np.where(everybody, settled_at, rounds),
            "optimal": (everybody & (shortfall <= TIE)).astype(np.int64),
            "shortfall": shortfall,
        }

    def digest(self) -> str:
        """Return a hexadecimal fingerprint of everything that determines a simulation of this problem."""
        head = f"{type(self).__name__} {self.arms} {self.players} {self.shuffle} {self.rewards}"
        return fingerprint(head, self.means)
