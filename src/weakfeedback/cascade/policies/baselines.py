"""Policies that learn nothing: a fixed arm and a random one."""

from typing import ClassVar

from weakfeedback.validate import cumulative_costs, integer


class FixedArm:
    """Always stops at the same arm.

    Draws: none.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    arm : integer from 0 to K-1
        The arm to stop at.

    Examples
    --------
    >>> FixedArm([0.05, 0.40], arm=1).select(None)
    1
    """

    in_short = "always stops at the same arm"
    explained = "Fixed always stops at the same stage, whatever was seen."
    sample_options: ClassVar = {"arm": 0}
    delay_safe = True
    recostable = True  # nothing is learned
    numeric_outputs = True  # outputs may be anything

    def __init__(self, costs, arm):
        self.K = cumulative_costs(costs).size
        self.arm = integer("arm", arm, 0, self.K - 1)

    def select(self, rng):
        """Return the arm at which to stop the cascade."""
        return self.arm

    def update(self, arm, outputs, rng):
        """Learn nothing."""

    def update_pairs(self, arm, differ, rng):
        """Learn nothing."""


class RandomArm:
    """Stops at an arm drawn uniformly at random.

    Draws: in ``select`` one ``u = rng.random()``, the arm is ``int(K * u)``. ``update`` draws nothing.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> policy = RandomArm([0.05, 0.20, 0.40])
    >>> [policy.select(rng) for _ in range(5)]
    [1, 2, 0, 2, 0]
    """

    in_short = "stops at an arm drawn at random"
    explained = "Random stops at a stage drawn at random, whatever was seen."
    delay_safe = True
    recostable = True  # nothing is learned
    numeric_outputs = True  # outputs may be anything

    def __init__(self, costs):
        self.K = cumulative_costs(costs).size

    def select(self, rng):
        """Return the arm at which to stop the cascade in this round."""
        return int(self.K * rng.random())

    def update(self, arm, outputs, rng):
        """Learn nothing."""

    def update_pairs(self, arm, differ, rng):
        """Learn nothing."""
