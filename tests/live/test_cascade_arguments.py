"""Wrong arguments of the live cascade: one line that names the argument."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from tests.rig.processes import PATIENCE

import weakfeedback
from weakfeedback.cascade import FixedArm, UssTs
from weakfeedback.live import Cascade, ContextualCascade, Router


def parity(x):
    return "odd" if x % 2 else "even"


class Unmade:
    def predict(self, X):
        return [0] * len(X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages": []}, "stages must be"),
        ({"stages": None}, "stages must be"),
        ({"stages": [parity, 3]}, r"stages\[1\] must be a callable"),
        ({"stages": [parity, Unmade]}, r"stages\[1\] must be a callable or a fitted classifier"),
        ({"stages": [parity]}, "stage_costs must be 1 finite"),
        ({"stage_costs": [1, 2, 3]}, "stage_costs must be 2 finite"),
        ({"stage_costs": [1, -2]}, "stage_costs"),
        ({"stage_costs": [1, float("nan")]}, "stage_costs"),
        ({"stage_costs": "12"}, "stage_costs"),
        ({"error_cost": 0}, "error_cost"),
        ({"error_cost": -1}, "error_cost"),
        ({"error_cost": float("inf")}, "error_cost"),
        ({"error_cost": None}, "error_cost"),
        ({"error_cost": 1e-320}, "must be finite"),
        ({"policy": "USS-T"}, "did you mean USS-TS"),
        ({"policy": 3}, "policy must be a name or a policy object"),
        ({"policy": UssTs}, "policy must be a name or a policy object"),
        ({"policy": UssTs([1, 2, 3])}, "policy must be made for"),
        ({"policy": UssTs([1, 3.5])}, "policy must be made for"),
        ({"policy": FixedArm([1, 2, 3], 0)}, "policy must be made for"),
        ({"policy": UssTs([1, 3]), "alpha": 1}, "options go with the name"),
        ({"policy": "USS-UCB", "beta": 1}, "beta is not an option of USS-UCB, which takes: alpha"),
        ({"policy": "USS-UCB", "alpha": 0}, "alpha"),
        ({"policy": "Fixed"}, "Fixed needs the option arm"),
        ({"policy": "Fixed", "arm": 2}, "arm must be an integer from 0 to 1"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"combine": 3}, "combine"),
        ({"compare": "=="}, "compare"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "1 s"}, "timeout"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    good = {"stages": [parity, parity], "stage_costs": [1, 2], "error_cost": 1, "policy": "USS-TS"}
    with pytest.raises(ValueError, match=message) as caught:
        Cascade(**{**good, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("stage_costs", "error_cost", "told"),
    [
        ([1, 4, 25], 1, True),  # the price of an error was forgotten
        ([0, 4, 4], 4, True),  # an error saved for sure is worth no more than the call
        ([9, 3.9, 50], 4, False),  # the second may pay, whatever the first costs
        ([1], 1, False),
        ([1, 0, 100], 1, False),
    ],
)
def test_prices_at_which_no_later_stage_can_pay_are_told(stage_costs, error_cost, told):
    stages = [parity] * len(stage_costs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Cascade(stages, stage_costs, error_cost, seed=0)
        Cascade(stages, stage_costs, error_cost, policy="Fixed", arm=0)  # learns nothing, so nothing is lost
    assert [str(one.message).split(":")[0] for one in caught] == [
        "at these prices no stage after the first can ever pay"
    ] * told
    assert all(one.filename == __file__ for one in caught)


def test_the_warning_of_prices_points_at_the_line_of_the_user_also_where_the_package_is_a_link(tmp_path):
    (tmp_path / "linked").symlink_to(Path(weakfeedback.__file__).parents[1], target_is_directory=True)
    script = tmp_path / "mine.py"
    script.write_text("import weakfeedback\n\nweakfeedback.Cascade(2, [1, 5], 2)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "linked")}
    run = subprocess.run(
        [sys.executable, script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert f"{script}:3: UserWarning: at these prices" in run.stderr


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda n: Cascade(2, [1, 20], 20, names=n),
            "no stage after small can ever pay: large costs 20, and",
        ),
        (
            lambda n: ContextualCascade(2, [1, 20], 20, names=n),
            "no stage after small can ever pay: large costs 20, and",
        ),
        (
            lambda n: Router(2, [1, 20], 19, names=n),
            "no model after small can ever pay: large costs 19 more, and",
        ),
    ],
)
def test_the_warning_of_prices_names_the_stages(make, words):
    with pytest.warns(
        UserWarning,
        match=f"{words} an error no more than error_cost=".replace(".*", "after small can ever pay: large"),
    ):
        make(["small", "large"])


@pytest.mark.parametrize("policy", ["USS-TS", "USS-A"])
def test_the_warning_of_prices_points_at_the_line_of_the_user(policy, tmp_path):
    dear = {"stage_costs": [1, 30], "error_cost": 20, "policy": policy, "seed": 0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = Cascade(2, **dear)
        made.save(tmp_path / "state.json")
        Cascade.open(tmp_path / "a.db", 2, **dear).close()
        Cascade.open(tmp_path / "a.db", 2).close()
        Cascade.load(tmp_path / "state.json", 2)
        Cascade.from_state(made.state(), 2)
    here = test_the_warning_of_prices_points_at_the_line_of_the_user.__code__.co_firstlineno
    assert [(one.filename, one.lineno - here) for one in caught] == [(__file__, n) for n in (5, 7, 8, 9, 10)]
