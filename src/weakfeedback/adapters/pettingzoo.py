"""Multi-player problems as PettingZoo environments; needs the extra ``[gym]``."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from weakfeedback.engine.seeds import WORLD, generator
from weakfeedback.multiplayer.play import COLLISIONS, FIXED, ROUNDS
from weakfeedback.multiplayer.problem import MultiplayerProblem
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
        ``player_0``, ..., ``player_{N-1}``.
    Actions
        ``Discrete(K + 1)``: an arm from 0 to K - 1, or K to idle (where policies say -1, which is not in a
        ``Discrete`` space).
    Observations
        ``[reward, collided]`` of the player's own last arm, and zeros before the first step; nothing else.
    Rewards
        The player's own; 0 for idling and for a collision.
    Infos
        For evaluation, not for players: ``regret`` and ``collisions`` of all players so far, as ``simulate``
        has them.
    End
        Never terminated; truncated after ``horizon`` steps.

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
        if problem.is_open:
            raise ValueError(
                f"problem must be one of a fixed team with equal means that senses collisions, got {problem!r}"
            )
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
        self._rng = generator(self._seed, self._replication, WORLD)
        self._world = self._problem.world()
        self._world.begin(self._rng)
        self._counts = np.zeros(FIXED + 2 * self._problem.arms, dtype=np.int64)
        self.agents = list(self.possible_agents)
        return {name: np.zeros(2) for name in self.agents}, self._infos()

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Play one round: observations, rewards, terminations, truncations and infos, by player."""
        arms = self._check_actions(actions)
        rewards = np.empty(self._problem.arms)
        self._world.draw(rewards, self._rng)
        crowd = np.bincount(arms, minlength=self._problem.arms + 1)[:-1]
        seen: dict[str, np.ndarray] = {}
        for name, arm in zip(self.agents, arms):
            playing = arm < self._problem.arms
            collided = playing and crowd[arm] > 1
            seen[name] = np.array([rewards[arm] if playing and not collided else 0.0, float(collided)])
        self._counts[ROUNDS] += 1
        self._counts[COLLISIONS] += crowd[crowd > 1].sum()
        self._counts[FIXED + self._world.order[crowd == 1]] += 1
        over = bool(self._counts[ROUNDS] >= self.horizon)
        found = (
            seen,
            {name: float(pair[0]) for name, pair in seen.items()},
            dict.fromkeys(self.agents, False),
            dict.fromkeys(self.agents, over),
            self._infos(),
        )
        if over:
            self.agents = []
        return found

    def render(self) -> None:
        """Do nothing: there is no picture."""

    def _check_actions(self, actions: dict[str, Any]) -> list[int]:
        if not self.agents:
            raise ValueError("the environment must be reset before it can be stepped")
        if set(actions) != set(self.agents):
            raise ValueError(
                f"actions must be those of {', '.join(self.agents)}, got {', '.join(map(str, actions))}"
            )
        return [
            integer(f"the action of {name}", actions[name], 0, self._problem.arms) for name in self.agents
        ]

    def _infos(self) -> dict[str, dict[str, Any]]:
        measures = self._problem.measures(self._counts)
        told = {"regret": float(measures["regret"]), "collisions": int(measures["collisions"])}
        return {name: dict(told) for name in self.agents}
