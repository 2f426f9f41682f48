"""The disk cache across processes: hits when nothing changed, never an old build when something did."""

import os
import subprocess
import sys
import textwrap

import pytest

HELPER = "RATE = {rate}\n\n\ndef rate(x):\n    return RATE * x\n"
POLICY = textwrap.dedent(
    """
    import numpy as np
    from helper import rate

    BONUS = np.array([{bonus}, 0.0])


    class Mine:
        delay_safe = True

        def __init__(self, costs):
            self.K = len(costs)
            self.score = 0.0

        def select(self, rng):
            return 0

        def update(self, arm, outputs, rng):
            self.score += rate(1.0) + BONUS[0] + {step}


    class Other(Mine):
        def update(self, arm, outputs, rng):
            self.score -= rate(1.0)
    """
)
RUN = textwrap.dedent(
    """
    import sys
    import numpy as np
    import policy
    from weakfeedback.cascade import CascadeProblem
    from weakfeedback.engine.replication import Compiled
    from weakfeedback.engine.seeds import generator

    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    mine = getattr(policy, sys.argv[1])(problem.costs)
    player = Compiled(problem, mine)
    table = np.zeros((1, 2), dtype=np.int64)
    rest = (np.array([10]), np.zeros(2, dtype=np.int64), table)
    _, state = player.play(mine, problem.world(), generator(0, 0, 0), generator(0, 0, 1), *rest)
    hits = sum(player.loop.stats.cache_hits.values())
    print(round(state["score"], 6), hits)
    """
)


@pytest.fixture
def workshop(tmp_path):
    """Write the files, run one policy in a fresh process and return its score and its cache hits."""
    (tmp_path / "run.py").write_text(RUN)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(name="Mine", rate=2.0, bonus=0.5, step=1.0):
        (tmp_path / "helper.py").write_text(HELPER.format(rate=rate))
        (tmp_path / "policy.py").write_text(POLICY.format(bonus=bonus, step=step))
        command = [sys.executable, "run.py", name]
        out = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        score, hits = out.stdout.split()
        return float(score), int(hits)

    return run


def test_edits_are_noticed_and_the_rest_is_reused(workshop):
    assert workshop() == (35.0, 0)  # ten times 2 + .5 + 1, compiled
    assert workshop() == (35.0, 1)  # from disk
    assert workshop(step=2.0) == (45.0, 0)  # the policy was edited
    assert workshop(rate=3.0) == (45.0, 0)  # a constant of the helper's module
    assert workshop(bonus=1.5) == (45.0, 0)  # a global array of the policy's module
    assert workshop() == (35.0, 1)  # and back: the first build is still good


def test_two_policies_in_turn_both_hit(workshop):
    assert workshop("Mine")[1] == 0
    assert workshop("Other") == (-20.0, 0)
    for _ in range(2):
        assert workshop("Mine") == (35.0, 1)
        assert workshop("Other") == (-20.0, 1)


SCRIPT = textwrap.dedent(
    """
    from weakfeedback import simulate
    from weakfeedback.cascade import CascadeProblem


    class Mine:
        delay_safe = True

        def __init__(self, costs):
            self.K = len(costs)

        def select(self, rng):
            return int(self.K * rng.random())

        def update(self, arm, outputs, rng):
            pass


    if __name__ == "__main__":
        problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
        results = simulate(problem, {"mine": Mine(problem.costs)}, horizon=100, replications=2)
        print(results.compiled["mine"])
    """
)


SCOPE = "scope = {'__name__': 'nowhere'}; "
NOTEBOOK = "exec(compile(open('script.py').read(), '<ipython-input-1>', 'exec'){scope})"
COMMANDS = {
    "a script": ["script.py"],
    "a notebook cell": ["-c", NOTEBOOK.format(scope="")],
    "a module that is nowhere": ["-c", SCOPE + NOTEBOOK.format(scope=", scope")],
}


@pytest.mark.parametrize("how", COMMANDS)
def test_a_class_of_the_users_own_compiles(tmp_path, how):
    """Twice: the second time the compiled code comes from the cache."""
    (tmp_path / "script.py").write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):
        command = [sys.executable, *COMMANDS[how]]
        out = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert out.stdout.strip() == "True", out.stderr
        assert out.stderr == ""


def test_importing_is_light():
    program = (
        "import sys, weakfeedback; from weakfeedback.cascade import UssTs, CascadeProblem;"
        "print([m for m in ('numba', 'pandas', 'sklearn', 'matplotlib', 'scipy', 'pyarrow') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
