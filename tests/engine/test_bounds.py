"""Indices out of range: unchecked in compiled code of this package, so one job checks it, with an empty cache."""

import os
import subprocess
import sys
import textwrap

import pytest

from weakfeedback.catalog import POLICIES

PROGRAM = textwrap.dedent(
    """
    import numpy as np
    from weakfeedback import simulate
    from weakfeedback.cascade import CascadeProblem
    from weakfeedback.catalog import POLICIES
    from weakfeedback.catalog import SETTINGS


    class Careless:
        delay_safe = True

        def __init__(self, arms):
            self.K = arms
            self.seen = np.zeros(arms)

        def select(self, rng):
            return 0

        def update(self, arm, outputs, rng):
            self.seen[self.K] += 1.0  # one past the end


    for name, setting in SETTINGS.items():
        for policy in CHOSEN.get(name, POLICIES[name]):
            problem, prototype = setting.sample(policy)
            results = simulate(problem, {policy: prototype}, horizon=400, replications=2)
            assert results.compiled[policy] is True, results.compiled
            print(name, policy)
    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    try:
        simulate(problem, {"careless": Careless(2)}, horizon=10, replications=1)
    except IndexError as error:
        print("caught", error)
    """
)


# one of each setting, with the most to index
SOME = {
    "cascade": ["USS-TS-joint"],
    "contextual": ["USS-PD-TS"],
    "adaptive": ["USS-next"],
    "routing": ["Pay-to-compare"],
    "allocation": ["CSB-TS"],
    "multiplayer": ["DLC-LIX"],
}


def run(folder, check, chosen):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    environment.pop("NUMBA_BOUNDSCHECK", None)
    if check:
        environment["NUMBA_BOUNDSCHECK"] = "1"
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"CHOSEN = {chosen!r}\n{PROGRAM}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return out.stdout, out.stderr


@pytest.mark.parametrize(
    "chosen", [pytest.param(SOME, id="some"), pytest.param({}, id="all", marks=pytest.mark.slow)]
)
def test_no_policy_reads_out_of_range_and_the_control_is_caught(chosen, tmp_path):
    out, err = run(tmp_path / "cache", True, chosen)
    for name, policies in POLICIES.items():
        for policy in chosen.get(name, policies):
            assert f"{name} {policy}\n" in out, err
    assert "caught" in out  # the negative control: without the check nobody would notice


LATE = textwrap.dedent(
    """
    class Late(Careless):
        def __init__(self, arms):
            self.K = arms
            self.t = 0
            self.seen = np.zeros(arms)

        def update(self, arm, outputs, rng):
            self.t += 1
            if self.t > 4500:  # after the rounds that every policy plays in the interpreter first
                self.seen[self.K] += 1.0


    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    try:
        simulate(problem, {"late": Late(2)}, horizon=4600, replications=1)
    except IndexError as error:
        print("caught", error)
    """
)


def test_the_setting_works_on_a_warm_cache_too(tmp_path):
    """A bounds-checked build is another build, so an unchecked one in the cache is not taken for it."""
    head = PROGRAM[: PROGRAM.index("for name, setting")]
    for check, caught in ((False, False), (True, True)):
        environment = {
            **os.environ,
            "NUMBA_CACHE_DIR": str(tmp_path),
            "NUMBA_BOUNDSCHECK": "1" if check else "0",
        }
        out = subprocess.run(
            [sys.executable, "-c", head + LATE],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ("caught" in out.stdout) is caught
