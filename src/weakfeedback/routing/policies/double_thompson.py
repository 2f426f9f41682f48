"""Double Thompson: two draws from the posterior, compared where they differ."""

import numpy as np

from weakfeedback.routing.prices import model_prices


class DoubleThompson:
    """Draws the model to trust twice, and calls both where the draws differ.

    Each draw is the choice of USS-TS with prices instead of cumulative costs: the first model whose disagreement with
    every later model, drawn from its posterior, is below the difference of their prices:

        min { i : c_j - c_i > p_ij for all j > i } or K,   p_ij ~ Beta(S_ij, F_ij)

    where S_ij - 1 disagreements and F_ij - 1 agreements of models i < j were seen. A model called alone shows nothing;
    two are compared. As the posterior narrows, comparisons become rare. There is no bound on the money spent.

    Draws: in ``select``, twice over: for i = 0, 1, ... until a model is accepted (at most to K-2), one
    ``rng.beta(S[i, j], F[i, j])`` for every j = i+1, ..., K-1 in this order, all of them even after one has failed.
    ``start``, ``update`` and ``cancel`` draw nothing.

    Parameters
    ----------
    prices : K non-decreasing numbers >= 0, the last > 0
        ``prices[k]`` is what a call of model ``k`` alone costs, in units of an error.

    Examples
    --------
    Two models that never disagree: the second is not worth its price.

    >>> rng = np.random.default_rng(7)
    >>> policy = DoubleThompson(prices=[0.05, 0.40])
    >>> calls = np.zeros(2, dtype=int)
    >>> for _ in range(1000):
    ...     call = policy.select(rng)
    ...     policy.start(call, rng)
    ...     policy.update(call, np.ones(call.sum()), rng)
    ...     calls += call
    >>> calls.tolist()
    [1000, 16]
    """

    in_short = "two draws, compared where they differ"
    delay_safe = True
    recostable = True  # nothing that is learned depends on the prices

    def __init__(self, prices):
        self.c = model_prices(prices)
        self.K = self.c.size
        self.S = np.ones((self.K, self.K))  # S[i, j] - 1 disagreements of models i < j
        self.F = np.ones((self.K, self.K))  # F[i, j] - 1 agreements

    def select(self, rng):
        """Return which models to call: the last of them answers."""
        call = np.zeros(self.K, dtype=np.bool_)
        call[self.draw(rng)] = True
        call[self.draw(rng)] = True
        return call

    def draw(self, rng):
        """Return the model that is best by one draw from the posterior."""
        for i in range(self.K - 1):
            if self.is_best(i, rng):
                return i
        return self.K - 1

    def is_best(self, i, rng):
        """Whether c_j - c_i > p_ij for every later model j, with p_ij drawn from its posterior."""
        best = True
        for j in range(i + 1, self.K):
            p = rng.beta(self.S[i, j], self.F[i, j])
            if self.c[j] - self.c[i] <= p:
                best = False  # every pair is drawn: no early exit
        return best

    def settled(self):
        """Return the model that is best by the means of the posterior."""
        for i in range(self.K - 1):
            best = True
            for j in range(i + 1, self.K):
                mean = self.S[i, j] / (self.S[i, j] + self.F[i, j])
                if self.c[j] - self.c[i] <= mean:
                    best = False
            if best:
                return i
        return self.K - 1

    def start(self, call, rng):
        """Do nothing: open comparisons do not matter here."""

    def update(self, call, outputs, rng):
        """Learn from the outputs of the models called, in their order."""
        a = 0
        for i in range(self.K):
            if call[i]:
                b = a
                for j in range(i + 1, self.K):
                    if call[j]:
                        b += 1
                        self.count(i, j, outputs[a] != outputs[b])
                a += 1

    def update_pairs(self, call, differ, rng):
        """Learn which pairs i < j of the models called disagreed."""
        for i in range(self.K):
            for j in range(i + 1, self.K):
                if call[i] and call[j]:
                    self.count(i, j, differ[i, j])

    def count(self, i, j, differed):
        """Add what was seen of one pair."""
        if differed:
            self.S[i, j] += 1.0
        else:
            self.F[i, j] += 1.0

    def warm_pairs(self, differ):
        """Learn from a sample that all models answered, outside of any round: ``differ[i, j]`` for i < j."""
        for i in range(self.K):
            for j in range(i + 1, self.K):
                self.count(i, j, differ[i, j])

    def cancel(self, call):
        """Do nothing: open comparisons are not tracked."""

    def reprice(self, prices):
        """Continue with new prices; the counts stay."""
        for k in range(self.K):
            self.c[k] = prices[k]
