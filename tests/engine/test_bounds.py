"""Indices out of range: unchecked in compiled code of this package, so one job checks it."""

import textwrap

import pytest
from tests.rig.processes import printed

from weakfeedback.settings.catalog import POLICIES

HEAD = textwrap.dedent(
    """
    import numpy as np
    from weakfeedback import simulate
    from weakfeedback.cascade import CascadeProblem
    from weakfeedback.settings.catalog import POLICIES
    from weakfeedback.settings.catalog import SETTINGS


    class Late:
        delay_safe = True

        def __init__(self, arms):
            self.K = arms
            self.t = 0
            self.seen = np.zeros(arms)

        def select(self, rng):
            return 0

        def update(self, arm, outputs, rng):
            self.t += 1
            if self.t > 4500:  # after the rounds that every policy plays in the interpreter first
                self.seen[self.K] += 1.0  # one past the end


    def control(compiled):
        problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
        try:
            simulate(problem, {"late": Late(2)}, horizon=4600, replications=1, compiled=compiled)
        except IndexError as error:
            print("caught", compiled, error)


    """
)
ALL = textwrap.dedent(
    """
    for name, setting in SETTINGS.items():
        for policy in POLICIES[name]:
            problem, prototype = setting.sample(policy)
            compiled = policy in CHOSEN.get(name, [])
            results = simulate(problem, {policy: prototype}, horizon=400, replications=1 + compiled, compiled=compiled)
            assert results.compiled[policy] is compiled, results.compiled
            print(name, policy, compiled)
    control(compiled=False)
    """
)

# The interpreter, which checks every index, plays the same code and the same rounds. Only what draws and what holds a
# team are written for the compiler alone: one policy whose draws look into tables, and one team.
SOME = {"cascade": ["USS-TS"], "multiplayer": ["Musical-Chairs"]}
EVERY = {name: list(policies) for name, policies in POLICIES.items()}


def run(folder, check, program):
    environment = {"NUMBA_CACHE_DIR": str(folder), "NUMBA_BOUNDSCHECK": check}
    return printed("-W", "error", "-c", program, environment=environment)


@pytest.mark.parametrize(
    "chosen", [pytest.param(SOME, id="some"), pytest.param(EVERY, id="all", marks=pytest.mark.slow)]
)
def test_no_policy_reads_out_of_range_and_the_control_is_caught(chosen, tmp_path):
    """A bounds-checked build is another build, so the unchecked one of the control in the cache is not taken for it."""
    control = f"{HEAD}control(compiled=True)\n"
    assert run(tmp_path, "0", control) == ""
    out = run(tmp_path, "1", f"{control}CHOSEN = {chosen!r}\n{ALL}")
    for name, policies in POLICIES.items():
        for policy in policies:
            assert f"{name} {policy} {policy in chosen.get(name, [])}\n" in out
    assert "caught True index is out of bounds" in out
    assert "caught False index 2 is out of bounds" in out
