"""Multi-player problems as PettingZoo environments."""

import copy

import numpy as np
import pytest
from tests.rig.processes import printed

pytest.importorskip("gymnasium")
pytest.importorskip("pettingzoo")

from pettingzoo.test import parallel_api_test, parallel_seed_test

from weakfeedback import simulate
from weakfeedback.adapters.pettingzoo import parallel_env
from weakfeedback.engine.seeds import POLICY, generator
from weakfeedback.multiplayer import Claims, DlcLix, MultiplayerProblem, Selfish

MEANS = [0.9, 0.7, 0.5, 0.3]


@pytest.mark.parametrize("players", [1, 3, 4])
def test_the_library_accepts_the_environment(players, capsys):
    problem = MultiplayerProblem(MEANS, players)
    parallel_api_test(parallel_env(problem, horizon=150), num_cycles=200)
    parallel_api_test(parallel_env(problem), num_cycles=100)
    parallel_seed_test(lambda: parallel_env(problem, horizon=150), num_cycles=200)
    assert "Passed" in capsys.readouterr().out


@pytest.mark.parametrize("rewards", ["bernoulli", "beta"])
def test_an_episode_is_a_replication_of_a_simulation(rewards):
    problem = MultiplayerProblem(MEANS, 3, rewards=rewards)
    prototype = DlcLix(4, epsilon=0.3, delta=0.1)
    rounds = 1500
    frame = simulate(
        problem, {"x": prototype}, horizon=rounds, replications=2, seed=5, compiled=False, marks=[400, rounds]
    ).frame
    env = parallel_env(problem, horizon=rounds)
    for replication in (0, 1):
        seen, _ = env.reset(seed=5) if replication == 0 else env.reset()
        players = {name: DlcLix(4, epsilon=0.3, delta=0.1) for name in env.agents}
        rngs = {name: generator(5, replication, POLICY, n) for n, name in enumerate(env.agents)}
        told = {}
        for t in range(1, rounds + 1):
            arms = {name: player.choose(rngs[name]) for name, player in players.items()}
            actions = {name: 4 if arm == -1 else arm for name, arm in arms.items()}
            seen, gained, ended, cut, infos = env.step(actions)
            for name, player in players.items():
                reward, collided = seen[name].tolist()
                assert gained[name] == reward
                player.observe(arms[name], reward, collided == 1.0, rngs[name])
            told[t] = infos["player_2"]
            assert not any(ended.values())
            assert set(cut.values()) == {t == rounds}
        assert env.agents == []
        for row in frame[frame.replication == replication].itertuples():
            assert (told[row.round]["regret"], told[row.round]["collisions"]) == (row.regret, row.collisions)


def test_a_player_sees_her_own_reward_and_collision_only():
    env = parallel_env(MultiplayerProblem([1.0, 1.0, 1.0, 0.0], 3, shuffle=False))
    first, infos = env.reset(seed=1)
    assert all(pair.tolist() == [0.0, 0.0] for pair in first.values())
    for actions, rewards, collided, regret in (
        ((0, 1, 2), (1.0, 1.0, 1.0), (0, 0, 0), 0.0),
        ((0, 0, 2), (0.0, 0.0, 1.0), (1, 1, 0), 2.0),
        ((4, 4, 2), (0.0, 0.0, 1.0), (0, 0, 0), 4.0),  # who idles meets nobody
        ((2, 2, 2), (0.0, 0.0, 0.0), (1, 1, 1), 7.0),
        ((3, 1, 2), (0.0, 1.0, 1.0), (0, 0, 0), 8.0),
    ):
        seen, gained, _, _, infos = env.step(dict(zip(env.agents, actions)))
        assert tuple(gained.values()) == rewards
        assert [pair.tolist() for pair in seen.values()] == [[r, c] for r, c in zip(rewards, collided)]
        assert all(pair.shape == (2,) and pair.base is None for pair in seen.values())
        assert infos["player_0"]["regret"] == regret
    assert infos["player_1"]["collisions"] == 5


def test_a_seed_fixes_all_and_other_episodes_differ():
    env, other = (parallel_env(MultiplayerProblem([0.5, 0.4], 1, rewards="uniform")) for _ in range(2))

    def episode(env, **how):
        env.reset(**how)
        return [env.step({"player_0": 0})[1]["player_0"] for _ in range(20)]

    first, second = episode(env, seed=3), episode(env)
    assert first != second
    assert [episode(other, seed=3), episode(other)] == [first, second]
    fresh = [episode(parallel_env(MultiplayerProblem([0.5, 0.4], 1, rewards="uniform"))) for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_wrong_use_is_told():
    problem = MultiplayerProblem(MEANS, 2)
    with pytest.raises(ValueError, match="problem must be a MultiplayerProblem, got 3"):
        parallel_env(3)
    with pytest.raises(ValueError, match="horizon must be an integer >= 1, got 0"):
        parallel_env(problem, horizon=0)
    env = parallel_env(problem, horizon=1)
    with pytest.raises(ValueError, match="must be reset"):
        env.step({"player_0": 0, "player_1": 1})
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action of player_1 must be an integer from 0 to 4, got 5"):
        env.step({"player_0": 0, "player_1": 5})
    with pytest.raises(ValueError, match="action of player_0 must be an integer from 0 to 4, got -1"):
        env.step({"player_0": -1, "player_1": np.int64(4)})
    with pytest.raises(ValueError, match="actions must be those of player_0, player_1, got player_0"):
        env.step({"player_0": 0})
    env.step({"player_0": 0, "player_1": 4})
    with pytest.raises(ValueError, match="must be reset"):
        env.step({"player_0": 0, "player_1": 1})


def test_without_the_extra_one_line_says_what_to_install():
    code = (
        "import sys; sys.modules['pettingzoo'] = None\n"
        "try:\n    import weakfeedback.adapters.pettingzoo\nexcept ImportError as error:\n    print(error)"
    )
    said = printed("-c", code)
    assert said.count("\n") == 1
    assert "pip install 'weakfeedback[gym]'" in said


OPEN = {
    "come and go": {"players": 3, "presence": [(0, 40), (10, None), (70, 90)]},
    "an empty world": {"players": 2, "presence": [(5, 20), (60, 80)]},
    "lost slots": {"players": 3, "lost": 0.2},
    "own means": {"means": [MEANS, MEANS[::-1]], "players": 2, "presence": [(0, None), (30, 50)]},
    "no sensing": {"players": 3, "sensing": False},
}


@pytest.mark.parametrize("name", OPEN)
def test_players_come_and_go_as_in_a_simulation(name, capsys):
    problem = MultiplayerProblem(**{"means": MEANS, **OPEN[name]})
    prototype = Claims(4) if problem.sensing else Selfish(4)
    rounds = 120
    results = simulate(
        problem, {"x": prototype}, horizon=rounds, replications=1, seed=5, compiled=False, marks=1
    )
    env = parallel_env(problem, horizon=rounds)
    _, infos = env.reset(seed=5)
    players = {name: copy.deepcopy(prototype) for name in env.possible_agents}
    rngs = {name: generator(5, 0, POLICY, n) for n, name in enumerate(env.possible_agents)}
    came, left = set(env.agents), set()
    while env.agents:
        awake = [name for name in env.agents if not infos[name].get("loses", False)]
        arms = {name: players[name].choose(rngs[name]) for name in awake}
        seen, gained, ended, cut, infos = env.step({name: arms.get(name, 4) % 5 for name in env.agents})
        for name, arm in arms.items():
            players[name].observe(arm, float(seen[name][0]), bool(seen[name][1]), rngs[name])
        assert set(seen) == set(gained) == set(ended) == set(cut) == set(infos)
        assert came.issuperset(name for name in seen if name not in env.agents)
        came |= set(env.agents)
        left |= {name for name, end in ended.items() if end}
    last = next(iter(infos.values()))
    assert last["regret"] == pytest.approx(results.values("x")[0, -1])
    assert last["collisions"] == results.values("x", "collisions")[0, -1]
    times = problem.presence or [(0, None)] * problem.players
    assert len(came) == problem.players
    assert len(left) == sum(end is not None for _, end in times)
    parallel_api_test(parallel_env(problem, horizon=rounds), num_cycles=rounds)
    parallel_seed_test(lambda: parallel_env(problem, horizon=rounds), num_cycles=rounds)
    assert "Passed" in capsys.readouterr().out
