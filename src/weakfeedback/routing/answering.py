"""Pay-to-compare where requests come one by one, as recorded answers are played: its models are called in turn."""

import numpy as np

from weakfeedback.routing.policies.pay_to_compare import PayToCompare

STOP = -1


class RoutedAnswers(PayToCompare):
    """Pay-to-compare where requests are answered one by one: the models it selects are called in turn."""

    def __init__(self, prices):
        super().__init__(prices)
        self.call = np.zeros(self.K, dtype=np.bool_)

    def next_stage(self, k, outputs, scores, rng):
        """Return the next model of the call."""
        if k < 0:
            self.call = self.select(rng)
            self.start(self.call, rng)
        for j in range(k + 1, self.K):
            if self.call[j]:
                return j
        return STOP

    def update(self, arm, outputs, scores, chances, rng):  # type: ignore[override]  # what this setting shows
        """Learn which of the models called disagreed."""
        for i in range(self.K):
            for j in range(i + 1, self.K):
                if self.call[i] and self.call[j]:
                    self.count(i, j, outputs[i] != outputs[j])
