"""Stop when two stages agree."""

from weakfeedback.adaptive.arguments import stage_costs


class Agreement:
    """Stops at the first stage whose answer an earlier stage also gave; prices and scores do not matter.

    Agreement-based cascading with one model per level. Draws: none.

    Parameters
    ----------
    costs : K numbers >= 0
        The price of each stage; only their number is used.

    Examples
    --------
    >>> policy = Agreement([0.1, 0.1, 0.5])
    >>> policy.go_on(0, [1], [0.9], None), policy.go_on(1, [1, 1], [0.9, 0.2], None)
    (True, False)
    """

    in_short = "stops when two stages agree"
    delay_safe = True
    recostable = True

    def __init__(self, costs):
        self.K = stage_costs(costs).size

    def go_on(self, k, outputs, scores, rng):
        """Whether no earlier stage gave the answer of stage k."""
        for j in range(k):
            if outputs[j] == outputs[k]:
                return False
        return True

    def update(self, arm, outputs, scores, chances, rng):
        """Learn nothing."""
