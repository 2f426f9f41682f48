"""Drivers: what was done since a backup is undone, also in the compiled twin."""

import numpy as np
import pytest

from weakfeedback.live.driver import Compiled, Interpreted


class Counting:
    """Counts in a number, in an array, and in one that it replaces."""

    def __init__(self):
        self.t = 0
        self.sums = np.zeros(2)
        self.last = np.zeros(2)

    def learn(self, arm):
        self.t += 1
        self.sums[arm] += 1.0
        self.last = self.sums + self.t


def interpreted(policy):
    return Interpreted(policy)


def compiled(policy):
    return Compiled(policy, np.random.default_rng(0), {"learn": (0,)}, ("learn",))


@pytest.mark.parametrize("make", [interpreted, compiled])
def test_a_restored_driver_goes_on_from_its_backup(make):
    driver = make(Counting())
    learn = driver.method("learn")
    learn(0)
    kept = driver.backup()
    learn(1)
    learn(1)
    driver.restore(kept)
    learn(0)
    found = {name: np.asarray(value).tolist() for name, value in vars(driver.write_back()).items()}
    assert found == {"t": 2, "sums": [2.0, 0.0], "last": [4.0, 2.0]}


class Tallying(Counting):
    """Replaces no array."""

    def learn(self, arm):
        self.t += 1
        self.sums[arm] += 1.0


@pytest.mark.parametrize("policy", [Counting, Tallying])
@pytest.mark.parametrize("make", [interpreted, compiled])
def test_a_backup_of_fields_that_are_known_beforehand_is_the_same(make, policy):
    driver = make(policy())
    driver.plan()
    learn = driver.method("learn")
    learn(0)
    kept = driver.backup()
    learn(1)
    assert driver.fields()["t"] == 2
    for _ in range(2):  # it may be repeated
        driver.restore(kept)
        assert {name: np.asarray(value).tolist() for name, value in driver.fields().items()} == {
            "t": 1,
            "sums": [1.0, 0.0],
            "last": [2.0, 1.0] if policy is Counting else [0.0, 0.0],
        }
    learn(0)
    assert vars(driver.write_back())["t"] == 2
