"""Multi-player problems as PettingZoo environments; needs the extra ``[gym]``."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from weakfeedback.engine.seeds import WORLD, generator
from weakfeedback.multiplayer.play import COLLISIONS, FIXED, ROUNDS
from weakfeedback.multiplayer.problem import MultiplayerProblem
from weakfeedback.multiplayer.world import ABSENT, ASLEEP, AWAKE
from weakfeedback.validate import brief, integer

try:
    from gymnasium import spaces
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError(
        f"weakfeedback.adapters.pettingzoo needs gymnasium and pettingzoo ({error}): "
        "pip install 'weakfeedback[gym]'"
    ) from None

HORIZON = 10_000


def parallel_env(problem: MultiplayerProblem, horizon: int = HORIZON) -> MultiplayerEnv:
    """Return an environment of players that share arms and all act in every step.

    Examples
    --------
    >>> env = parallel_env(MultiplayerProblem([1.0, 1.0, 0.0], players=2, shuffle=False))
    >>> seen, infos = env.reset(seed=0)
    >>> seen, rewards, ended, cut, infos = env.step({"player_0": 0, "player_1": 0})
    >>> rewards, seen["player_0"].tolist(), infos["player_0"]["regret"]
    ({'player_0': 0.0, 'player_1': 0.0}, [0.0, 1.0], 2.0)
    >>> seen, rewards, ended, cut, infos = env.step({"player_0": 0, "player_1": 3})
    >>> rewards, infos["player_0"]["regret"]
    ({'player_0': 1.0, 'player_1': 0.0}, 3.0)
    """
    return MultiplayerEnv(problem, horizon)


class MultiplayerEnv(ParallelEnv):
    """N players that share K arms (``MultiplayerProblem``), as a PettingZoo ``ParallelEnv``.

    Agents
        ``player_0``, ..., ``player_{N-1}``; with ``presence`` those that are there in the coming slot. Who leaves is
        terminated with its last slot, who joins is observed, as zeros, with the slot before its first. Slots in which
        nobody is there pass by themselves.
    Actions
        ``Discrete(K + 1)``: an arm from 0 to K - 1, or K to idle (where policies say -1, which is not in a
        ``Discrete`` space).
    Observations
        ``[reward, collided]`` of the player's own last arm, and zeros before the first step; nothing else. Without
        ``sensing`` nobody is told of collisions.
    Rewards
        The player's own; 0 for idling and for a collision.
    Infos
        For evaluation, not for players: ``regret`` and ``collisions`` of all players so far, as ``simulate``
        has them. If slots can be lost, ``loses`` says whether the player loses the coming one: its action is then
        ignored, and it should learn nothing from zeros.
    End
        All who are there are truncated after ``horizon`` slots.

    ``reset(seed=s)`` starts replication 0 of ``simulate(problem, ..., seed=s)``: the same order of the arms and the
    same rewards. Each ``reset()`` after it starts the next replication.

    Parameters
    ----------
    problem : MultiplayerProblem
    horizon : integer >= 1
    """

    metadata = {"name": "weakfeedback_multiplayer_v0", "render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, problem: MultiplayerProblem, horizon: int = HORIZON) -> None:
        if not isinstance(problem, MultiplayerProblem):
            raise ValueError(f"problem must be a MultiplayerProblem, got {brief(problem)}")
        self.horizon = integer("horizon", horizon, 1)
        self.possible_agents = [f"player_{n}" for n in range(problem.players)]
        self.agents: list[str] = []
        self.action_spaces = {name: spaces.Discrete(problem.arms + 1) for name in self.possible_agents}
        self.observation_spaces = {
            name: spaces.Box(0.0, 1.0, shape=(2,), dtype=np.float64) for name in self.possible_agents
        }
        # Private: users of the environment must not see what is hidden.
        self._problem = problem
        self._seed: int | None = None
        self._replication = 0

    def observation_space(self, agent: str) -> Any:
        """Return the space of a player's observations."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Return the space of a player's actions."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Start a replication; ``options`` are not used."""
        if seed is not None:
            self._seed, self._replication = integer("seed", seed, 0), 0
        elif self._seed is None:
            self._seed, self._replication = secrets.randbits(64), 0
        else:
            self._replication += 1
        problem = self._problem
        self._rng = generator(self._seed, self._replication, WORLD)
        self._world: Any = problem.world()
        self._world.begin(self._rng)
        size = problem.players * (problem.arms + 1) if problem.is_open else 2 * problem.arms
        self._counts = np.zeros(FIXED + size, dtype=np.int64)
        self._rewards = np.empty((len(np.atleast_2d(problem.means)), problem.arms))
        self._awake = np.full(problem.players, AWAKE)
        self._next_slot()
        return {name: np.zeros(2) for name in self.agents}, self._infos(self.agents)

    def _next_slot(self) -> None:
        """Draw the coming slot, and see who is there; slots without anybody pass."""
        while True:
            if self._problem.is_open:
                self._world.draw(self._rewards, self._awake, self._counts[ROUNDS], self._rng)
            else:
                self._world.draw(self._rewards[0], self._rng)
            self.agents = [self.possible_agents[n] for n in np.flatnonzero(self._awake != ABSENT)]
            if self.agents or self._counts[ROUNDS] + 1 >= self.horizon:
                return
            self._counts[ROUNDS] += 1

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Play one round: observations, rewards, terminations, truncations and infos, by player."""
        played, K = self._check_actions(actions), self._problem.arms
        acted, open_to_all = self.agents, self._problem.is_open
        crowd = np.bincount(list(played.values()), minlength=K + 1)[:-1]
        seen: dict[str, np.ndarray] = {}
        for n, arm in played.items():
            alone = arm < K and crowd[arm] == 1
            collided = arm < K and not alone
            reward = self._rewards[n if len(self._rewards) > 1 else 0, arm] if alone else 0.0
            seen[self.possible_agents[n]] = np.array([reward, float(collided and self._problem.sensing)])
            if alone:
                self._counts[FIXED + (n * K if open_to_all else 0) + self._world.order[arm]] += 1
        self._counts[ROUNDS] += 1
        self._counts[COLLISIONS] += crowd[crowd > 1].sum()
        over = bool(self._counts[ROUNDS] >= self.horizon)
        if over:
            self.agents = []
        else:
            self._next_slot()
        everybody = [*acted, *(name for name in self.agents if name not in acted)]
        observed = {name: seen.get(name, np.zeros(2)) for name in everybody}
        return (
            observed,
            {name: float(pair[0]) for name, pair in observed.items()},
            {name: not over and name not in self.agents for name in everybody},
            dict.fromkeys(everybody, over),
            self._infos(everybody),
        )

    def render(self) -> None:
        """Do nothing: there is no picture."""

    def _check_actions(self, actions: dict[str, Any]) -> dict[int, int]:
        """Return the arm of every player that plays in this slot, K for idling."""
        if not self.agents:
            raise ValueError("the environment must be reset before it can be stepped")
        if set(actions) != set(self.agents):
            raise ValueError(
                f"actions must be those of {', '.join(self.agents)}, got {', '.join(map(str, actions))}"
            )
        arms = {}
        for n in np.flatnonzero(self._awake != ABSENT).tolist():
            name = self.possible_agents[n]
            arm = integer(f"the action of {name}", actions[name], 0, self._problem.arms)
            if self._awake[n] == AWAKE:
                arms[n] = arm
        return arms

    def _infos(self, names: list[str]) -> dict[str, dict[str, Any]]:
        measures = self._problem.measures(self._counts)
        told = {"regret": float(measures["regret"]), "collisions": int(measures["collisions"])}
        if self._problem.lost == 0.0:
            return {name: dict(told) for name in names}
        loses = dict(zip(self.possible_agents, (self._awake == ASLEEP).tolist()))
        return {name: {**told, "loses": loses[name]} for name in names}
