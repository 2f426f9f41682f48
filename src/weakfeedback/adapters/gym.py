"""Cascades, contextual cascades and allocations as Gymnasium environments; needs the extra ``[gym]``.

Importing this module registers "weakfeedback/Cascade-v0", "weakfeedback/ContextualCascade-v0" and
"weakfeedback/Allocation-v0". All take ``problem`` and ``horizon`` (10,000 rounds by default). An observation
holds what a policy may see and nothing else. The regret, for evaluation only, is in ``info``.

``reset(seed=s)`` starts replication 0 of ``simulate(problem, ..., seed=s)``: the same world, round by round. Each
``reset()`` after it starts the next replication. Without a seed, ``env.unwrapped.np_random_seed`` is the one drawn.
Episodes never terminate; they are truncated after ``horizon`` steps.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from weakfeedback.allocation.play import ROUNDS, SERVED
from weakfeedback.allocation.problem import AllocationProblem
from weakfeedback.cascade.problem import CascadeProblem
from weakfeedback.contextual.problem import ContextualProblem, RealizableProblem
from weakfeedback.engine.seeds import WORLD, generator
from weakfeedback.validate import brief, flag, integer

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise ImportError(
        f"weakfeedback.adapters.gym needs gymnasium ({error}): pip install 'weakfeedback[gym]'"
    ) from None

HORIZON = 10_000
UNSEEN = -1  # in observations: nothing was seen, unless it is a label


class WeakFeedbackEnv(gymnasium.Env):
    """Base class of the environments: replications, rounds and regret. A subclass plays one round."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, problem: Any, kinds: tuple[type, ...], horizon: int) -> None:
        if not isinstance(problem, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise ValueError(f"problem must be a {names}, got {brief(problem)}")
        self.horizon = integer("horizon", horizon, 1)
        # Private: users of the environment must not see what is hidden.
        self._problem: Any = problem
        self._seed: int | None = None
        self._replication = 0
        self._left = 0  # rounds until the end of the episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a replication; ``options`` are not used."""
        super().reset(seed=None if seed is None else integer("seed", seed, 0))
        if seed is None and self._seed is not None:
            self._replication += 1
        else:
            drawn = self.np_random_seed
            self._seed, self._replication = secrets.randbits(64) if drawn < 0 else int(drawn), 0
        self._rng = generator(self._seed, self._replication, WORLD)
        self._world = self._problem.world()
        self._world.begin(self._rng)
        self._counts = np.zeros(len(self._problem.loop().counters(self._problem)), dtype=np.int64)
        self._left = self.horizon
        return self._begin(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one round: observation, reward, terminated, truncated and info. A refused action plays no round."""
        if self._left == 0:
            raise ValueError("the environment must be reset before it can be stepped")
        decision = self._check_action(action)
        observation, reward = self._play(decision)
        self._left -= 1
        return observation, reward, False, self._left == 0, self._info()

    def _info(self) -> dict[str, Any]:
        return {"regret": float(self._problem.measures(self._counts)["regret"])}

    def _check_action(self, action: Any) -> Any:
        return integer("action", action, 0, self._problem.arms - 1)

    def _begin(self) -> Any:
        raise NotImplementedError

    def _play(self, decision: Any) -> tuple[Any, float]:
        raise NotImplementedError


class CascadeEnv(WeakFeedbackEnv):
    """A cascade whose errors are never revealed (``CascadeProblem``), "weakfeedback/Cascade-v0".

    Actions
        ``Discrete(K)``: the arm at which to stop.
    Observations
        K integers: the outputs of the arms up to the chosen one in the last round, ``env.unwrapped.unseen`` after it
        and before the first round. That is -1, or one less than the smallest label if labels are negative.
    Reward
        Minus the known cost of the arm, ``-problem.costs[arm]``. It does not show errors: an agent that maximises it
        stops at the first arm. The goal is to minimise the regret, which is hidden.
    Info
        ``regret`` so far, as ``simulate`` has it.

    Examples
    --------
    >>> problem = CascadeProblem([[1, 1, 1], [1, 0, 1]], [0.0, 1.0], costs=[0.1, 0.4])
    >>> env = gymnasium.make("weakfeedback/Cascade-v0", problem=problem)
    >>> seen, info = env.reset(seed=0)
    >>> seen, reward, terminated, truncated, info = env.step(0)
    >>> seen.tolist(), reward, round(info["regret"], 3)
    ([0, -1], -0.1, 0.7)
    """

    def __init__(self, problem: CascadeProblem, horizon: int = HORIZON) -> None:
        super().__init__(problem, (CascadeProblem,), horizon)
        labels = problem.world().rows[:, 1:]
        low, high = int(labels.min()), int(labels.max())
        if low == np.iinfo(np.int64).min:
            raise ValueError(f"problem must have labels above {low}, which leaves none to say unseen")
        self.unseen = min(UNSEEN, low - 1)
        high = max(high, self.unseen + 1)
        self.observation_space = spaces.Box(self.unseen, high, shape=(problem.arms,), dtype=np.int64)
        self.action_space = spaces.Discrete(problem.arms)

    def _begin(self) -> np.ndarray:
        return np.full(self._problem.arms, self.unseen, dtype=np.int64)

    def _play(self, decision: int) -> tuple[np.ndarray, float]:
        row = self._world.draw(self._rng)
        seen = self._begin()
        self._world.show(row, decision, seen)
        self._counts[decision] += 1
        return seen, -float(self._problem.costs[decision])


class ContextualCascadeEnv(WeakFeedbackEnv):
    """A cascade whose errors depend on a context, "weakfeedback/ContextualCascade-v0".

    Actions
        ``Discrete(K)``: the arm at which to stop.
    Observations
        A dictionary. ``context`` has the features Phi(x) of the round to come, what policies call ``phi``. Of the last
        round, a ``ContextualProblem`` shows ``outputs``: the labels of the arms up to the chosen one, then -1. A
        ``RealizableProblem`` has no labels and shows ``differ``: at [i, j], i < j <= arm, whether the arms i and j
        disagreed, elsewhere -1.
    Reward
        Minus the known cost of the arm, ``-problem.costs[arm]``. It does not show errors.
    Info
        ``regret`` so far, as ``simulate`` has it.

    Examples
    --------
    >>> contexts = [[-1.0], [1.0]]
    >>> problem = ContextualProblem(contexts, [0, 1], [[1.0], [-1.0]], [0.1, 0.3], "thresholded")
    >>> env = gymnasium.make("weakfeedback/ContextualCascade-v0", problem=problem)
    >>> seen, info = env.reset(seed=0)
    >>> seen["outputs"].tolist(), seen["context"].shape == (problem.dimension,)
    ([-1, -1], True)
    >>> env.step(1)[0]["outputs"].tolist()
    [0, 1]
    """

    def __init__(self, problem: ContextualProblem | RealizableProblem, horizon: int = HORIZON) -> None:
        super().__init__(problem, (ContextualProblem, RealizableProblem), horizon)
        K = problem.arms
        self._key = "outputs" if isinstance(problem, ContextualProblem) else "differ"
        self._shape: tuple[int, ...] = (K,) if self._key == "outputs" else (K, K)
        bound = max(1.0, float(np.abs(problem.features).max()))
        self.observation_space = spaces.Dict(
            {
                "context": spaces.Box(-bound, bound, shape=(problem.dimension,), dtype=np.float64),
                self._key: spaces.Box(UNSEEN, 1, shape=self._shape, dtype=np.int64),
            }
        )
        self.action_space = spaces.Discrete(K)

    def _begin(self) -> dict[str, np.ndarray]:
        return self._next(np.full(self._shape, UNSEEN, dtype=np.int64))

    def _next(self, seen: np.ndarray) -> dict[str, np.ndarray]:
        """Draw the next round, and return its context with what was seen in the last round."""
        phi = np.empty(self._problem.dimension)
        self._hidden = np.zeros(self._shape, dtype=np.int64)
        self._row = self._world.draw(phi, self._hidden, self._rng)
        return {"context": phi, self._key: seen}

    def _play(self, decision: int) -> tuple[dict[str, np.ndarray], float]:
        K, arm = self._problem.arms, decision
        seen = np.full(self._shape, UNSEEN, dtype=np.int64)
        if self._key == "outputs":
            seen[: arm + 1] = self._hidden[: arm + 1]
            self._counts[K + 1] += self._world.loss(self._row, arm)
        else:
            shown = np.triu_indices(arm + 1, 1)
            seen[shown] = self._hidden[shown]
        self._counts[arm] += 1
        self._counts[K] += self._world.regret(self._row, arm)
        return self._next(seen), -float(self._problem.costs[arm])


class AllocationEnv(WeakFeedbackEnv):
    """A budget split over arms with unknown thresholds (``AllocationProblem``), "weakfeedback/Allocation-v0".

    Actions
        K weights from 0 to 1, at least one of them above 0 unless nothing is to be allocated. Arm i gets
        ``budget * w[i] / sum(w)``. With ``spend_all=False`` they are shares of the budget: arm i gets
        ``budget * w[i]``, scaled down only if the sum exceeds 1.
    Observations
        K numbers: the loss or reward that was seen at each arm in the last round, 0 where nothing was.
    Reward
        The sum of what was seen, for losses with a minus.
    Info
        ``regret`` so far, as ``simulate`` has it, and the ``allocation`` of the last round.

    Examples
    --------
    >>> problem = AllocationProblem([1.0, 1.0, 1.0], [0.5, 0.5, 0.5], budget=1.0)
    >>> env = gymnasium.make("weakfeedback/Allocation-v0", problem=problem)
    >>> seen, info = env.reset(seed=0)
    >>> seen, reward, terminated, truncated, info = env.step(np.array([1.0, 1.0, 0.0]))
    >>> seen.tolist(), reward, info["regret"], info["allocation"].tolist()
    ([0.0, 0.0, 1.0], -1.0, 0.0, [0.5, 0.5, 0.0])
    """

    def __init__(self, problem: AllocationProblem, horizon: int = HORIZON, spend_all: bool = True) -> None:
        super().__init__(problem, (AllocationProblem,), horizon)
        self.spend_all = flag("spend_all", spend_all)
        self.observation_space = spaces.Box(0.0, 1.0, shape=(problem.arms,), dtype=np.float64)
        self.action_space = spaces.Box(0.0, 1.0, shape=(problem.arms,), dtype=np.float64)
        self._allocation = np.zeros(problem.arms)

    def _begin(self) -> np.ndarray:
        self._allocation = np.zeros(self._problem.arms)
        return np.zeros(self._problem.arms)

    def _play(self, decision: np.ndarray) -> tuple[np.ndarray, float]:
        outcomes = np.empty(self._problem.arms)
        self._world.draw(outcomes, self._rng)
        served = np.array([self._world.serves(i, amount) for i, amount in enumerate(decision)])
        seen = np.where(served == self._world.reward, outcomes, 0.0)
        self._counts[ROUNDS] += 1
        self._counts[SERVED:] += served
        self._allocation = decision
        total = float(seen.sum())
        return seen, total if self._world.reward else -total

    def _check_action(self, action: Any) -> np.ndarray:
        """Return the allocation of these weights."""
        arms = self._problem.arms
        try:
            weights = np.array(action, dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.empty(0)
        fits = weights.shape == (arms,) and bool((weights >= 0.0).all()) and bool(np.isfinite(weights).all())
        if not fits:
            raise ValueError(f"action must be {arms} finite weights >= 0, got {brief(action)}")
        largest = weights.max()
        scale = 1.0
        if largest > 0.0 and (self.spend_all or weights.sum() > 1.0):
            weights = weights / largest  # or sums and quotients of extreme weights are not finite
            scale = float(weights.sum())
        return np.asarray(self._problem.budget * (weights / scale))

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "allocation": self._allocation.copy()}


for _name, _kind in (
    ("Cascade", CascadeEnv),
    ("ContextualCascade", ContextualCascadeEnv),
    ("Allocation", AllocationEnv),
):
    if f"weakfeedback/{_name}-v0" not in gymnasium.registry:  # this module may be loaded again
        gymnasium.register(f"weakfeedback/{_name}-v0", entry_point=f"{__name__}:{_kind.__name__}")
