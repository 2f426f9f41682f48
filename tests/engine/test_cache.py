"""The disk cache across processes: hits when nothing changed, never an old build when something did."""

import os
import textwrap

from tests.engine.forks import run_each
from tests.rig.processes import printed

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
PLAY = textwrap.dedent(
    """
    import numpy as np
    from weakfeedback.cascade import CascadeProblem
    from weakfeedback.engine.replication import Compiled
    from weakfeedback.engine.seeds import generator


    def play(kind):
        problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
        mine = kind(problem.costs)
        player = Compiled(problem, mine)
        table = np.zeros((1, 2), dtype=np.int64)
        rest = (np.array([10]), np.zeros(2, dtype=np.int64), table)
        _, state = player.play(mine, problem.world(), generator(0, 0, 0), generator(0, 0, 1), *rest)
        return round(state["score"], 6), sum(player.loop.stats.cache_hits.values())


    class Another:
        delay_safe = True

        def __init__(self, costs):
            self.K = len(costs)
            self.score = 7

        def select(self, rng):
            return 1

        def update(self, arm, outputs, rng):
            pass


    assert play(Another) == (7, 0)  # compiled, so that the compiler knows the world
    """
)


def step(name="Mine", rate=2.0, bonus=0.5, step=1.0):
    """A program that writes the files and prints the score and the cache hits of one policy."""
    files = {"helper.py": HELPER.format(rate=rate), "policy.py": POLICY.format(bonus=bonus, step=step)}
    return textwrap.dedent(
        f"""
        for file, text in {files!r}.items():
            with open(file, "w") as opened:
                opened.write(text)
        import policy
        print(*play(policy.{name}))
        """
    )


STEPS = [
    (step(), "35.0 0"),  # ten times 2 + .5 + 1, compiled
    (step(), "35.0 1"),  # from disk
    (step(step=2.0), "45.0 0"),  # the policy was edited
    (step(rate=3.0), "45.0 0"),  # a constant of the helper's module
    (step(bonus=1.5), "45.0 0"),  # a global array of the policy's module
    (step(), "35.0 1"),  # and back: the first build is still good
    (step("Other"), "-20.0 0"),
    (step("Mine"), "35.0 1"),  # two policies in turn both hit
    (step("Other"), "-20.0 1"),
    (step("Mine"), "35.0 1"),
    (step("Other"), "-20.0 1"),
]


def test_edits_are_noticed_and_the_rest_is_reused(tmp_path):
    environment = {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
    }
    programs, expected = zip(*STEPS, strict=True)
    assert tuple(run_each(programs, tmp_path, PLAY, **environment)) == expected


SCRIPT = textwrap.dedent(
    """
    from weakfeedback import simulate
    from weakfeedback.cascade import CascadeProblem
    from weakfeedback.engine.replication import Compiled


    class Mine:
        delay_safe = True

        def __init__(self, costs):
            self.K = len(costs)

        def select(self, rng):
            return int(self.K * rng.random())

        def update(self, arm, outputs, rng):
            pass


    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    results = simulate(problem, {"mine": Mine(problem.costs)}, horizon=100, replications=2)
    loop = Compiled(problem, Mine(problem.costs)).loop  # the same one
    print(results.compiled["mine"], sum(loop.stats.cache_hits.values()))
    """
)


NOTEBOOK = f"exec(compile({SCRIPT!r}, '<ipython-input-1>', 'exec'), scope)"


def test_a_class_of_a_notebook_compiles(tmp_path):
    """In a cell, and in a module that is nowhere; twice each."""
    cell = f"scope = globals(); {NOTEBOOK}"
    nowhere = f"scope = {{'__name__': 'nowhere'}}; {NOTEBOOK}"
    found = run_each([cell, cell, nowhere, nowhere], tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert found == ["True 0", "True 1", "True 0", "True 1"]


def test_importing_is_light():
    program = (
        "import sys, weakfeedback; from weakfeedback.cascade import UssTs, CascadeProblem;"
        "print([m for m in ('numba', 'pandas', 'sklearn', 'matplotlib', 'scipy', 'pyarrow') if m in sys.modules])"
    )
    assert printed("-c", program).strip() == "[]"
