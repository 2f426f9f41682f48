"""USS-next: go on while the next stage is likely to give another answer. Not in the thesis."""

import numpy as np

from weakfeedback.adaptive.memory import FEATURES, RoundMemory, absorb, draw, fit


class UssNext(RoundMemory):
    """Goes on when the next stage is likely enough to change the answer: a simpler version of ``UssA``.

    For every stage k but the last it has a logistic regression of the event "stage k + 1 gives another answer" on the
    state after stage k (``RoundMemory``), and uses Thompson sampling:

        go on iff  mu(phi.theta_k + scale g |phi|) > c_{k+1},    |phi|^2 = phi' H_k^-1 phi,  g standard normal.

    It counts every change of the answer as a correction, as USS does, and looks one stage ahead. Where a later stage is
    not better than the one before it, it pays for changes that correct nothing; ``UssA`` does not.

    Draws: in ``go_on`` one ``rng.standard_normal()``. ``update`` draws nothing.

    Parameters
    ----------
    costs : K numbers >= 0
        The price of each stage in units of an error, not cumulative.
    ridge : number >= 1e-12
        The precision of the prior of each parameter.
    scale : number >= 0
        Width of the draws; 0 is greedy.
    memory : integer >= 16
        Rounds that are kept for the fits.

    Examples
    --------
    A cheap stage whose score shows when the next one will differ:

    >>> rng = np.random.default_rng(7)
    >>> policy = UssNext(costs=[0.01, 0.1])
    >>> went = np.zeros((2, 2), dtype=int)
    >>> for _ in range(1000):
    ...     hard = rng.random() < 0.3
    ...     answers, scores = np.array([int(hard), 0]), np.array([1.0 - hard, 1.0])
    ...     arm = int(policy.go_on(0, answers[:1], scores[:1], rng))
    ...     policy.update(arm, answers[: arm + 1], scores[: arm + 1], np.zeros(0), rng)
    ...     went[int(hard), arm] += 1
    >>> went.tolist()
    [[689, 27], [0, 284]]
    """

    in_short = "goes on while the next stage is likely to disagree"
    delay_safe = True
    recostable = True
    keeps_history = True  # up to ``memory`` rounds

    def __init__(self, costs, ridge=0.1, scale=0.5, memory=5000):
        super().__init__(costs, ridge, scale, memory)

    def go_on(self, k, outputs, scores, rng):
        """Whether to run the next stage, after stage k."""
        return bool(self.gain(k, outputs, scores, rng) > self.c[k + 1])

    def gain(self, k, outputs, scores, rng):
        """Draw the probability that the next stage gives another answer."""
        x = np.empty(FEATURES)
        v = np.empty(FEATURES)
        self.describe_now(k, outputs, scores, x)
        return draw(self.rise[k], self.Qrise[k], x, self.scale, v, rng)

    def update(self, arm, outputs, scores, chances, rng):
        """Learn from the answers and scores of stages 0, ..., arm."""
        self.check(arm, outputs, scores)
        r = self.keep(arm, outputs, scores)
        if self.is_due():
            self.refit()
        else:
            x = np.empty(FEATURES)
            v = np.empty(FEATURES)
            for k in range(arm):
                self.describe_kept(r, k, x)
                absorb(self.rise[k], self.Qrise[k], x, self.changed(r, k), v)

    def changed(self, r, k):
        """Return 1 if stage k + 1 of a kept round gave another answer than stage k."""
        return 1.0 if self.answers[r, k + 1] != self.answers[r, k] else 0.0

    def refit(self):
        """Fit all regressions to the kept rounds."""
        self.rank_again()
        x = np.empty((self.held, FEATURES))
        y = np.empty(self.held)
        none = np.zeros(FEATURES)
        for k in range(self.K - 1):
            m = 0
            for r in range(self.held):
                if self.arms[r, 0] > k:
                    self.describe_kept(r, k, x[m])
                    y[m] = self.changed(r, k)
                    m += 1
            fit(self.rise[k], self.Qrise[k], x, y, m, none, self.ridge)
