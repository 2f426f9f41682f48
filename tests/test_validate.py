"""Arguments that are not allowed: one line that names the argument, its value and what is allowed."""

import math

import numpy as np
import pytest

from weakfeedback.validate import cumulative_costs, integer, number, vector


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, "1", None, True, 1j, 10**400, [1.0], np.bool_(True), -0.1]
)
def test_numbers(value):
    with pytest.raises(ValueError, match="alpha must be a finite number >= 0, got ") as caught:
        number("alpha", value, at_least=0.0)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_bounds_of_numbers():
    assert number("a", np.float32(0.5), above=0.0) == 0.5
    assert number("a", 0, at_least=0.0) == 0.0
    with pytest.raises(ValueError, match="a must be a finite number > 0, got 0"):
        number("a", 0, above=0.0)


@pytest.mark.parametrize("value", [1.0, "1", None, True, -1, 5, 10**400])
def test_integers(value):
    with pytest.raises(ValueError, match="arm must be an integer from 0 to 4, got "):
        integer("arm", value, 0, 4)
    assert integer("arm", np.int32(4), 0, 4) == 4


@pytest.mark.parametrize(
    "value", [[], [[1.0]], [1.0, math.nan], ["a"], None, 3.0, [10**400], [-1.0], [1, [2]]]
)
def test_vectors(value):
    with pytest.raises(ValueError, match="costs must be a sequence of finite numbers >= 0, got ") as caught:
        cumulative_costs(value)
    assert "\n" not in str(caught.value)


def test_sizes_and_order():
    with pytest.raises(ValueError, match="means must be 3 finite numbers, got"):
        vector("means", [1.0, 2.0], size=3)
    with pytest.raises(ValueError, match=r"costs must be cumulative .* got"):
        cumulative_costs([0.3, 0.2])
    given = np.array([0.1, 0.2])
    assert cumulative_costs(given) is not given
