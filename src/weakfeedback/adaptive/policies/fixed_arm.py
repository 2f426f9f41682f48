"""Always stop at the same stage."""

from typing import ClassVar

from weakfeedback.adaptive.arguments import stage_costs
from weakfeedback.validate import integer


class FixedArm:
    """Always stops at the same stage.

    Draws: none.

    Parameters
    ----------
    costs : K numbers >= 0
        The price of each stage; only their number is used.
    arm : integer from 0 to K-1
        The stage to stop at.

    Examples
    --------
    >>> FixedArm([0.05, 0.40], arm=1).go_on(0, [1], [0.5], None)
    True
    """

    in_short = "always stops at the same stage"
    sample_options: ClassVar = {"arm": 1}
    delay_safe = True
    recostable = True

    def __init__(self, costs, arm):
        self.K = stage_costs(costs).size
        self.arm = integer("arm", arm, 0, self.K - 1)

    def go_on(self, k, outputs, scores, rng):
        """Whether stage k lies before the arm."""
        return k < self.arm

    def update(self, arm, outputs, scores, chances, rng):
        """Learn nothing."""
