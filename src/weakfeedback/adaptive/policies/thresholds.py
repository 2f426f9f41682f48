"""Stop when a stage is confident enough."""

import math
from typing import ClassVar

from weakfeedback.adaptive.arguments import stage_costs, threshold_vector


class Thresholds:
    """Stops at the first stage whose score reaches its threshold, as many tools do.

    A score that is missing counts as below every threshold but minus infinity. Draws: none.

    Parameters
    ----------
    costs : K numbers >= 0
        The price of each stage; only their number is used.
    thresholds : K - 1 numbers
        One per stage but the last; minus infinity always stops, plus infinity never.

    Examples
    --------
    >>> policy = Thresholds([0.1, 0.5], [0.9])
    >>> policy.go_on(0, [1], [0.9], None), policy.go_on(0, [1], [0.8], None)
    (False, True)
    """

    in_short = "stops when a stage is confident enough"
    sample_options: ClassVar = {"thresholds": (0.9, 0.9)}
    delay_safe = True
    recostable = True

    def __init__(self, costs, thresholds):
        self.K = stage_costs(costs).size
        self.thresholds = threshold_vector(thresholds, self.K - 1)

    def go_on(self, k, outputs, scores, rng):
        """Whether the score of stage k is below its threshold."""
        if math.isnan(scores[k]):
            return bool(self.thresholds[k] > -math.inf)
        return bool(scores[k] < self.thresholds[k])

    def update(self, arm, outputs, scores, chances, rng):
        """Learn nothing."""
