"""`check` finds a policy in a file or a module and says what is wrong with it."""

import pytest

GOOD = """
from weakfeedback.cascade import UssTs

class Mine(UssTs):
    pass

def make(problem):
    return Mine(problem.costs)
"""
BROKEN = """
import numpy as np

class Peeking:
    delay_safe = True

    def __init__(self, costs):
        self.K = len(costs)
        self.rounds = 0

    def select(self, rng):
        self.rounds += 1  # deciding must teach nothing
        return self.K - 1

    def update(self, arm, outputs, rng):
        pass

    def update_pairs(self, arm, differ, rng):
        pass

def make(problem):
    return Peeking(problem.costs)
"""


def test_a_good_policy_passes_by_file_and_by_module(folder, call):
    (folder / "good_policy.py").write_text(GOOD)
    for words in ("good_policy.py:make", "good_policy:make"):
        result = call("check", words, "--setting", "cascade")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.count("passed  ") >= 10
        assert f"{words}: all" in result.stdout


def test_a_broken_policy_fails_by_name(folder, call):
    (folder / "broken_policy.py").write_text(BROKEN)
    result = call("check", "broken_policy.py:make", "--setting", "cascade")
    assert result.exit_code == 1
    assert "FAILED  select learns nothing" in result.stderr
    assert "'rounds'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        ("mine", "", "must be a module, a colon and a name"),
        ("absent.py:make", "", "absent.py cannot be imported"),
        ("no_such_module_here:make", "", "no_such_module_here cannot be imported"),
        ("mine_1.py:make", "def make(:\n", "SyntaxError"),
        ("mine_2.py:make", "raise SystemExit(0)\n", "SystemExit"),
        ("mine_3.py:mkae", GOOD, "did you mean make?"),
        ("mine_4.py:Mine", GOOD, "must take a problem and return a policy"),
        ("mine_5.py:make", GOOD.replace("problem.costs", "[0.1, 0.2]"), "2 arms, the problem has 3"),
    ],
)
def test_what_cannot_be_checked_is_one_line(words, text, expected, folder, call):
    if text:
        (folder / words.partition(":")[0]).write_text(text)
    result = call("check", words, "--setting", "cascade")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert expected in result.stderr
