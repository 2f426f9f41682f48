"""Cascades, contextual cascades and allocations as Gymnasium environments."""

import importlib

import numpy as np
import pytest
from tests.rig.processes import printed

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.utils.env_checker import check_env

import weakfeedback.adapters.gym as adapter
from weakfeedback import simulate
from weakfeedback.allocation import AllocationProblem, CsbSk, NumSk
from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.contextual import ContextualProblem, RealizableProblem, UssPd
from weakfeedback.engine.seeds import POLICY, generator

CASCADE, CONTEXTUAL, ALLOCATION = (
    f"weakfeedback/{name}-v0" for name in ("Cascade", "ContextualCascade", "Allocation")
)
LAW = CascadeProblem.bsc([0.35, 0.2, 0.1], costs=[0.05, 0.2, 0.45])
DATA = CascadeProblem.from_predictions(
    [0, 1, 2, 1, 0], [[0, 0], [1, 2], [0, 2], [1, 1], [2, 0]], costs=[0.1, 0.45]
)
NEGATIVE = CascadeProblem([[-7, -7, -7], [3, -7, 3]], [0.5, 0.5], costs=[0.1, 0.65])
RNG = np.random.default_rng(3)
ROWS = RNG.uniform(-0.7, 0.7, size=(40, 2))
LABELLED = ContextualProblem(
    ROWS, (ROWS.sum(axis=1) > 0).astype(int), [[2.0], [3.0, 3.0]], costs=[0.05, 0.25]
)
PAIRS = RealizableProblem(
    ROWS,
    RNG.normal(size=(3, 3)),
    costs=[0.1, 0.5, 1.2],
    features=lambda x: np.column_stack([np.ones(len(x)), x]),
)
LOSSES = AllocationProblem([0.8, 0.6, 0.5, 0.3], [0.4] * 4, budget=1.0)
REWARDS = AllocationProblem([0.8, 0.6, 0.5, 0.3], [0.4] * 4, 1.0, setting="reward", rewards="uniform")
ALL = [
    (CASCADE, LAW),
    (CASCADE, DATA),
    (CASCADE, NEGATIVE),
    (CONTEXTUAL, LABELLED),
    (CONTEXTUAL, PAIRS),
    (ALLOCATION, LOSSES),
    (ALLOCATION, REWARDS),
]


@pytest.mark.parametrize(("name", "problem"), ALL)
def test_the_library_accepts_the_environment(name, problem):
    check_env(gymnasium.make(name, problem=problem).unwrapped)
    # the passive checks of `make` look at every step
    env = gymnasium.make(name, problem=problem, horizon=30)
    env.action_space.seed(1)
    for _ in range(2):
        env.reset()
        while not env.step(env.action_space.sample())[3]:
            pass


def test_the_ids_are_registered_once_and_serve_vectors_of_environments():
    importlib.reload(adapter)  # a second import does not warn that an id is overridden
    envs = gymnasium.make_vec(CASCADE, num_envs=3, vectorization_mode="sync", problem=LAW)
    seen, _ = envs.reset(seed=4)
    assert seen.tolist() == [[-1, -1, -1]] * 3
    seen, rewards, *_ = envs.step(np.array([0, 1, 2]))
    assert (seen == -1).tolist() == [[False, True, True], [False, False, True], [False] * 3]
    assert rewards.tolist() == (-LAW.costs).tolist()


def followed(env, policy, rng, rounds, decide, learn, **how):
    """Let a policy play an episode; the regret told after every round."""
    seen, info = env.reset(**how)
    assert info["regret"] == 0.0
    regret = [0.0]
    for t in range(1, rounds + 1):
        action, decided = decide(policy, seen, rng)
        before, (seen, reward, ended, cut, info) = seen, env.step(action)
        learn(policy, before, decided, seen, reward, rng)
        assert not ended
        assert cut == (t == rounds)
        regret.append(info["regret"])
    return regret


def simulated(problem, policy, rounds):
    frame = simulate(
        problem,
        {"x": policy},
        horizon=rounds,
        replications=2,
        seed=5,
        compiled=False,
        marks=np.arange(1, rounds + 1),
    ).frame
    return [[0.0, *part.sort_values("round").regret] for _, part in frame.groupby("replication")]


def as_simulated(name, problem, make, rounds, decide, learn, **options):
    env = gymnasium.make(name, problem=problem, horizon=rounds, **options)
    expected = simulated(problem, make(), rounds)
    for replication, how in enumerate(({"seed": 5}, {})):
        rng = generator(5, replication, POLICY)
        found = followed(env, make(), rng, rounds, decide, learn, **how)
        assert found == expected[replication]
        assert found[-1] > 0.0


@pytest.mark.parametrize("problem", [LAW, DATA, NEGATIVE])
def test_a_cascade_plays_as_simulated(problem):
    def decide(policy, seen, rng):
        arm = policy.select(rng)
        return arm, arm

    def learn(policy, before, arm, seen, reward, rng):
        assert reward == -problem.costs[arm]
        hidden = min(-1, int(problem.world().rows.min()) - 1)
        assert (seen == hidden).tolist() == [k > arm for k in range(problem.arms)]
        policy.update(arm, seen[: arm + 1], rng)

    as_simulated(CASCADE, problem, lambda: UssTs(problem.costs), 300, decide, learn)


@pytest.mark.parametrize("problem", [LABELLED, PAIRS])
def test_a_contextual_cascade_plays_as_simulated(problem):
    key = "outputs" if problem is LABELLED else "differ"

    def decide(policy, seen, rng):
        arm = policy.select(seen["context"], rng)
        return arm, arm

    def learn(policy, before, arm, seen, reward, rng):
        assert reward == -problem.costs[arm]
        if key == "outputs":
            assert (seen[key] == -1).tolist() == [k > arm for k in range(problem.arms)]
            policy.update(before["context"], arm, seen[key][: arm + 1], rng)
        else:
            shown = seen[key] != -1
            assert shown.sum() == arm * (arm + 1) // 2
            assert not np.tril(shown).any()
            assert not shown[:, arm + 1 :].any()
            policy.update_pairs(before["context"], arm, seen[key] == 1, rng)

    as_simulated(
        CONTEXTUAL, problem, lambda: UssPd(problem.costs, problem.dimension, forced=20), 120, decide, learn
    )


@pytest.mark.parametrize(("problem", "kind"), [(LOSSES, CsbSk), (REWARDS, NumSk)])
def test_an_allocation_plays_as_simulated(problem, kind):
    def decide(policy, seen, rng):
        allocation = policy.select(rng)
        return allocation / problem.budget, allocation

    def learn(policy, before, allocation, seen, reward, rng):
        total = seen.sum()
        assert reward == (total if problem is REWARDS else -total)
        policy.update(allocation, seen, rng)

    as_simulated(
        ALLOCATION, problem, lambda: kind(4, 1.0, epsilon=0.3, delta=0.1), 300, decide, learn, spend_all=False
    )


def test_weights_are_scaled_to_the_budget():
    problem = AllocationProblem([0.5, 0.5], [1.0, 1.5], budget=2.0)
    env = gymnasium.make(ALLOCATION, problem=problem)
    env.reset(seed=0)
    tiny, huge = np.nextafter(0.0, 1.0), 1e308
    for weights, given in (
        ([1.0, 1.0], [1.0, 1.0]),
        ([0.1, 0.3], [0.5, 1.5]),
        ([0.0, 0.2], [0.0, 2.0]),
        ([0.0, 0.0], [0.0, 0.0]),
        ([tiny, tiny], [1.0, 1.0]),
        ([huge, huge], [1.0, 1.0]),
    ):
        assert env.step(np.array(weights))[4]["allocation"] == pytest.approx(given, rel=1e-12)
    shares = gymnasium.make(ALLOCATION, problem=problem, spend_all=False)
    shares.reset(seed=0)
    for weights, given in (([0.1, 0.3], [0.2, 0.6]), ([1.0, 1.0], [1.0, 1.0]), ([0.0, 0.0], [0.0, 0.0])):
        assert shares.step(np.array(weights))[4]["allocation"] == pytest.approx(given, rel=1e-12)


def test_losses_are_seen_where_too_little_is_given_and_rewards_where_enough_is():
    sure = {"means": [1.0, 1.0], "thresholds": [0.5, 0.9], "budget": 1.0}
    for setting, seen, reward in (("loss", [0.0, 1.0], -1.0), ("reward", [1.0, 0.0], 1.0)):
        env = gymnasium.make(ALLOCATION, problem=AllocationProblem(**sure, setting=setting))
        env.reset(seed=0)
        step = env.step(np.array([1.0, 1.0]))
        assert (step[0].tolist(), step[1], step[4]["regret"]) == (seen, reward, 0.0)


def numbers(value):
    """All numbers of an observation."""
    parts = value.values() if isinstance(value, dict) else [value]
    return [number for part in parts for number in np.ravel(part).tolist()]


def test_an_observation_does_not_depend_on_what_is_hidden():
    # Problems that differ in the truth, and the contextual ones in the labels of the last arm.
    one = CascadeProblem([[0, 0, 1], [1, 1, 0]], [0.5, 0.5], costs=[0.1, 0.2])
    other = CascadeProblem([[1, 0, 1], [0, 1, 0]], [0.5, 0.5], costs=[0.1, 0.2])
    labelled = [
        ContextualProblem(ROWS, truth, [[2.0], last], costs=[0.05, 0.25])
        for truth, last in (((ROWS[:, 0] > 0).astype(int), [1.0, 9.0]), (np.zeros(40, dtype=int), [-5.0]))
    ]
    for name, problems in ((CASCADE, (one, other)), (CONTEXTUAL, labelled)):
        told, regrets = [], []
        for problem in problems:
            env = gymnasium.make(name, problem=problem)
            seen, _ = env.reset(seed=8)
            steps = [env.step(0) for _ in range(50)]
            told.append([numbers(seen), *((numbers(step[0]), step[1]) for step in steps)])
            regrets.append(steps[-1][4]["regret"])
        assert told[0] == told[1]
        assert regrets[0] != regrets[1]


@pytest.mark.parametrize(("name", "problem"), ALL)
def test_a_seed_fixes_all_and_other_episodes_differ(name, problem):
    env, other = (gymnasium.make(name, problem=problem) for _ in range(2))
    action = np.array([1.0, 1.0, 0.0, 0.0]) if name == ALLOCATION else problem.arms - 1

    def episode(env, **how):
        env.reset(**how)
        return [numbers(env.step(action)[0]) for _ in range(60)]

    first, second = episode(env, seed=3), episode(env)
    assert first != second
    assert [episode(other, seed=3), episode(other)] == [first, second]
    # five rows have 120 orders, so one unseeded episode is another one's with probability 1/60: five never all are
    fresh = [gymnasium.make(name, problem=problem) for _ in range(5)]
    unseeded = [episode(one) for one in fresh]
    assert any(one not in (first, second) for one in unseeded)
    assert episode(other, seed=fresh[0].unwrapped.np_random_seed) == unseeded[0]


def test_wrong_use_is_told_and_plays_nothing():
    with pytest.raises(ValueError, match="problem must be a CascadeProblem, got 3"):
        gymnasium.make(CASCADE, problem=3)
    with pytest.raises(ValueError, match="problem must be a ContextualProblem or RealizableProblem"):
        gymnasium.make(CONTEXTUAL, problem=LAW)
    with pytest.raises(ValueError, match="horizon must be an integer >= 1, got 0"):
        gymnasium.make(ALLOCATION, problem=LOSSES, horizon=0)
    with pytest.raises(ValueError, match="spend_all must be True or False, got 1"):
        gymnasium.make(ALLOCATION, problem=LOSSES, spend_all=1)
    env = gymnasium.make(CASCADE, problem=LAW, horizon=1).unwrapped
    with pytest.raises(ValueError, match="must be reset"):
        env.step(0)
    env.reset(seed=0)
    for wrong in (3, -1, 0.5, None):
        with pytest.raises(ValueError, match="action must be an integer from 0 to 2, got"):
            env.step(wrong)
    with pytest.raises(ValueError, match="seed must be an integer >= 0, got -1"):
        env.reset(seed=-1)
    assert env.step(np.int64(2))[3] is True
    with pytest.raises(ValueError, match="must be reset"):
        env.step(0)
    split = gymnasium.make(ALLOCATION, problem=LOSSES, horizon=1).unwrapped
    split.reset(seed=0)
    for weights in ([1, 1, 1], [1, 1, 1, -1e-9], [1, 1, 1, np.nan], [1, 1, 1, np.inf], None, "abcd"):
        with pytest.raises(ValueError, match="action must be 4 finite weights >= 0, got"):
            split.step(weights)
    assert split.step([1, 1, 1, 1])[3] is True


def test_without_the_extra_one_line_says_what_to_install():
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "try:\n    import weakfeedback.adapters.gym\nexcept ImportError as error:\n    print(error)"
    )
    said = printed("-c", code)
    assert said.count("\n") == 1
    assert "pip install 'weakfeedback[gym]'" in said
