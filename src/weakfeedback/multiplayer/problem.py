"""Problems of several players on shared arms: means of the arms and the number of players (thesis, ch. 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.kernels.matching import best_matching
from weakfeedback.multiplayer.world import MultiplayerWorld, OpenWorld
from weakfeedback.settings.problem import FrozenProblem, counts_table, fingerprint, weighted
from weakfeedback.validate import brief, flag, integer, number, one_of, vector

if TYPE_CHECKING:
    from weakfeedback.engine.loop import Loop

TIE = 1e-12  # absolute tolerance of ties
LAWS = ("bernoulli", "uniform", "beta")
NEVER = 2**62  # the slot after the last of a player that stays
MOST_PLAYERS = 10_000
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
    means : K >= 2 numbers in [0, 1], or a matrix of N rows
        With a matrix every player has its own means, and the best assignment of players to arms counts. A matrix with
        equal rows is the same as one row.
    players : integer from 1 to K
        N; with ``presence``, the number of all who ever come, which may be more than K.
    shuffle : bool
        Whether each replication assigns the means to the arms in random order. (Protocols that use the arms'
        numbers can gain or lose from a sorted order.)
    rewards : "bernoulli", "uniform" or "beta"
        0 or 1; uniform on the widest interval around the mean within [0, 1]; Beta(4 mean, 4 (1 - mean)).
    presence : N pairs (first slot, slot after the last or None), optional
        When each player is there; the first slot is 0, which is round 1. All are always there by default. A player
        knows nothing when it comes, and goes without a word. The first slot alone stands for a stay to the end, in
        files too: ``presence = [[0], [500, 2000]]``.
    lost : number in [0, 1)
        The probability that a player loses a slot: it plays nothing, hears nothing, and its clock stands still.
    sensing : bool
        Whether players hear of collisions. If not they hear a reward of 0, as for bad luck.

    Attributes
    ----------
    arms, players, means, optimal_value
        K, N, the means in the order given, and the best total mean of a round with all N players.
    presence, lost, sensing
        As given; ``presence`` is None if all are always there.
    is_open : bool
        Whether there is anything beyond the setting of the thesis: presence, lost slots, own means, no sensing.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, section 5.2.

    Examples
    --------
    >>> problem = MultiplayerProblem([0.9, 0.5, 0.7, 0.1], players=2)
    >>> problem
    MultiplayerProblem(arms=4, players=2, optimal_value=1.6, rewards='bernoulli')
    >>> MultiplayerProblem([0.9, 0.5, 0.7], players=2, presence=[(0, None), (500, 2000)], lost=0.01)
    MultiplayerProblem(arms=3, players=2, optimal_value=1.6, rewards='bernoulli', presence, lost=0.01)
    """

    setting = "multiplayer"

    arms: int
    players: int
    means: np.ndarray
    shuffle: bool
    rewards: str
    optimal_value: float
    presence: tuple[tuple[int, int | None], ...] | None
    lost: float
    sensing: bool
    is_open: bool
    _best: np.ndarray
    _first: np.ndarray
    _beyond: np.ndarray
    _changes: np.ndarray
    _values: np.ndarray

    def __init__(
        self,
        means: Any,
        players: Any,
        shuffle: Any = True,
        rewards: Any = "bernoulli",
        presence: Any = None,
        lost: Any = 0.0,
        sensing: Any = True,
    ):
        array = _means(means)
        arms = array.shape[-1]
        count = integer("players", players, 1, arms if presence is None else MOST_PLAYERS)
        if array.ndim == 2 and len(array) != count:
            raise ValueError(f"means must have a row for each of {count} players, got {len(array)} rows")
        if array.ndim == 2 and (array == array[0]).all():
            array = array[0]
        times = None if presence is None else _presence(presence, count)
        if times is not None and all(pair == (0, None) for pair in times) and count <= arms:
            times = None
        sleep = number("lost", lost, at_least=0.0)
        if sleep >= 1.0:
            raise ValueError(f"lost must be a number from 0 to below 1, got {brief(lost)}")
        hears = flag("sensing", sensing)
        first = np.array([0] * count if times is None else [start for start, _ in times])
        beyond = np.array([NEVER] * count if times is None else [NEVER if b is None else b for _, b in times])
        changes = np.unique(np.concatenate(([0], first, beyond[beyond < NEVER])))
        best = (
            np.sort(np.argsort(-array, kind="stable")[:count]) if array.ndim == 1 else np.empty(0, dtype=int)
        )
        self.__dict__.update(
            arms=arms,
            players=count,
            means=array,
            shuffle=flag("shuffle", shuffle),
            rewards=one_of("rewards", rewards, LAWS),
            presence=times,
            lost=sleep,
            sensing=hears,
            is_open=array.ndim == 2 or times is not None or sleep > 0.0 or not hears,
            optimal_value=_best_value(array, np.ones(count, dtype=bool)),
            _best=best,
            _first=first,
            _beyond=beyond,
            _changes=changes,  # the slots in which somebody comes or goes, and 0
            _values=np.array([_best_value(array, (first <= t) & (t < beyond)) for t in changes]),
        )
        self._freeze()

    def __repr__(self) -> str:
        extra = [
            *(["own means"] if self.means.ndim == 2 else []),
            *(["presence"] if self.presence is not None else []),
            *([f"lost={self.lost:g}"] if self.lost > 0.0 else []),
            *([] if self.sensing else ["sensing=False"]),
        ]
        return (
            f"MultiplayerProblem(arms={self.arms}, players={self.players}, "
            f"optimal_value={self.optimal_value:.6g}, rewards={', '.join([repr(self.rewards), *extra])})"
        )

    def world(self) -> MultiplayerWorld:
        """Return the hidden part of the simulation, which draws the rewards."""
        law = LAWS.index(self.rewards)
        if not self.is_open:
            return MultiplayerWorld(self.means, law, self.shuffle)
        rows = np.atleast_2d(self.means)
        return OpenWorld(rows, law, self.shuffle, self._first, self._beyond, self.lost, self.sensing)

    def loop(self) -> Loop:
        """Return the round loop of this setting: the shorter one if nothing is open."""
        from weakfeedback.multiplayer.open_play import OPEN_LOOP
        from weakfeedback.multiplayer.play import LOOP

        return OPEN_LOOP if self.is_open else LOOP

    def present(self, slot: int) -> np.ndarray:
        """Return for each player whether it is there in a slot; the first slot is 0."""
        return (self._first <= slot) & (slot < self._beyond)

    def measures(self, counts: Any) -> dict[str, np.ndarray]:
        """Turn the counts of the round loop, shape (..., counts), into measures of shape (...).

        regret
            Of all rounds so far, against the best for those present.
        share
            What was earned so far divided by the best possible for those present, in means; 1 if that is 0.
        collisions
            Once for every player involved.
        present
            The number of players that are there.
        fairness
            Jain's index of the mean reward per slot of all who have been there, from 1 / N to 1 (all alike). Only in
            open problems, where the players' rewards are counted one by one.
        settled_players
            The number of those present that report having their final arm.
        settled_at
            The round in which the last of those present settled; the number of rounds so far if some have not.
        optimal
            1 if all present have settled, on different arms with the largest possible total mean (to 1e-12), else 0.
        shortfall
            The best value for those present less the means of the arms on which exactly one player has settled; an
            end is epsilon-optimal if all have settled and this is at most epsilon.
        """
        return self._open_measures(counts) if self.is_open else self._static_measures(counts)

    def _static_measures(self, counts: Any) -> dict[str, np.ndarray]:
        table = counts_table("counts", counts, FIXED + 2 * self.arms)
        rounds = table[..., 0]
        due = np.isin(np.arange(self.arms), self._best)
        used, seats = table[..., FIXED : FIXED + self.arms], table[..., FIXED + self.arms :]
        regret = weighted(rounds[..., None] * due - used, self.means)
        shortfall = weighted(due.astype(int) - (seats == 1), self.means)
        best, there = rounds * self.optimal_value, np.full(rounds.shape, self.players)
        return _team_measures(table, regret, best, shortfall, there)

    def _open_measures(self, counts: Any) -> dict[str, np.ndarray]:
        N, K = self.players, self.arms
        table = counts_table("counts", counts, FIXED + N * K + N)
        rounds = table[..., 0]
        used = table[..., FIXED : FIXED + N * K].reshape(*rounds.shape, N, K)
        seats = table[..., FIXED + N * K :]  # 1 + the arm on which a player has settled, or 0
        rows = np.broadcast_to(np.atleast_2d(self.means), (N, K))
        best = np.zeros(rounds.shape)
        ends = [*self._changes[1:].tolist(), NEVER]
        for start, end, value in zip(self._changes.tolist(), ends, self._values.tolist()):
            best += np.clip(rounds - start, 0, end - start) * value
        gained = weighted(used, rows.T)
        earned, seated = np.zeros(rounds.shape), np.zeros(rounds.shape)
        for n in range(N):
            earned += gained[..., n]
            arm = np.maximum(seats[..., n] - 1, 0)
            alone = (seats[..., n] > 0) & ((seats == seats[..., n : n + 1]).sum(axis=-1) == 1)
            seated += np.where(alone, rows[n][arm], 0.0)
        # the last slot played decides who is there
        now = np.maximum(rounds - 1, 0)
        there = self.present(now[..., None]).sum(axis=-1)
        shortfall = self._values[np.searchsorted(self._changes, now, side="right") - 1] - seated
        slots = np.clip(np.minimum(rounds[..., None], self._beyond) - self._first, 0, None)
        found = _team_measures(table, best - earned, best, shortfall, there)
        return {**found, "fairness": _jain(gained, slots)}

    def digest(self) -> str:
        """Return a hexadecimal fingerprint of everything that determines a simulation of this problem."""
        head = f"{type(self).__name__} {self.arms} {self.players} {self.shuffle} {self.rewards}"
        if not self.is_open:
            return fingerprint(head, self.means)
        head += f" {self.lost!r} {self.sensing} {self.means.shape}"
        return fingerprint(head, self.means, self._first, self._beyond)


def _means(value: Any) -> np.ndarray:
    """Validate the means: a row of at least two numbers in [0, 1], or such a row for each player."""
    try:
        rows = None if np.ndim(value) != 2 else [vector("means", row, at_least=0.0) for row in value]
        array = vector("means", value, at_least=0.0) if rows is None else np.stack(rows)
    except ValueError:
        array = np.empty(0)
    if array.shape[-1] < 2 or (array > 1.0).any():
        raise ValueError(f"means must be at least two numbers in [0, 1], got {brief(value)}")
    return array


def _presence(value: Any, players: int) -> tuple[tuple[int, int | None], ...]:
    """Validate when players are there: a pair of slots for each."""
    pairs = list(value) if isinstance(value, (list, tuple, np.ndarray)) else []
    if len(pairs) != players:
        raise ValueError(
            f"presence must be {players} pairs (first slot, slot after the last or None), one for each player, "
            f"got {brief(value)}"
        )
    found: list[tuple[int, int | None]] = []
    for n, pair in enumerate(pairs):
        two = tuple(pair) if isinstance(pair, (list, tuple, np.ndarray)) else ()
        two = (*two, None) if len(two) == 1 else two  # files have no word for None
        if len(two) != 2:
            raise ValueError(f"presence[{n}] must be a pair of slots, got {brief(pair)}")
        start = integer(f"the first slot of presence[{n}]", two[0], 0, NEVER - 1)
        name = f"the slot after the last of presence[{n}]"
        found.append((start, None if two[1] is None else integer(name, two[1], start + 1, NEVER - 1)))
    return tuple(found)


def _best_value(means: np.ndarray, there: np.ndarray) -> float:
    """Return the best total mean of a round for the players that are there."""
    count = int(there.sum())
    if means.ndim == 1:
        chosen = np.sort(np.argsort(-means, kind="stable")[:count])
        return float(sum(means[chosen].tolist()))
    if count == 0:
        return 0.0
    arms = best_matching(means[there])
    return float(sum(row[arm] for row, arm in zip(means[there].tolist(), arms.tolist()) if arm >= 0))


def _team_measures(
    table: np.ndarray, regret: np.ndarray, best: np.ndarray, shortfall: np.ndarray, there: np.ndarray
) -> dict[str, np.ndarray]:
    rounds, collisions, settled, settled_at = (table[..., k] for k in range(FIXED))
    everybody = settled == there
    return {
        "regret": regret,
        "collisions": collisions.copy(),
        "settled_players": settled.copy(),
        "settled_at": np.where(everybody, settled_at, rounds),
        "optimal": (everybody & (shortfall <= TIE)).astype(np.int64),
        "shortfall": shortfall,
        "share": 1.0 - regret / np.where(best > 0.0, best, np.inf),  # the part of the best that was earned
        "present": there,
    }


def _jain(gained: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Return Jain's index of gains per slot, over the players that had slots; 1 if nobody gained anything."""
    rates = gained / np.maximum(slots, 1)
    squares = (slots > 0).sum(axis=-1) * (rates**2).sum(axis=-1)
    return np.where(squares > 0.0, rates.sum(axis=-1) ** 2, 1.0) / np.where(squares > 0.0, squares, 1.0)
