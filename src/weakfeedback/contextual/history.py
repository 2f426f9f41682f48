"""The observations that regressions learn from: all of them, or the latest ones and a summary of the older ones.

With a limit, the last observations are kept individually. The log-likelihood of the older ones of regression m is
replaced by its second-order expansion at the anchor of the time when they were dropped, where its gradient and Hessian
are exact. From the sum of these expansions only

    gradient(theta) = old_b - old_H theta,   Hessian old_H

is needed. Counts, V and the width of the bounds always cover all observations.
"""

import numpy as np

from weakfeedback.kernels.linalg import (
    add_half_rows,
    add_rows,
    beginning_at,
    dot_rows,
    inner,
    logistic,
    longer,
    mirror,
    times,
)

BLOCK = 64  # observations summed at a time


class History:
    """The tables of observations, and quadratic summaries of those that were dropped.

    Not a policy: the base class of ``Regressions``. Until the first observation is dropped, nothing depends on
    ``keep``.
    """

    # fields of the regressions
    M: int
    d: int
    stop: np.ndarray
    slot: np.ndarray
    begins: np.ndarray
    anchor: np.ndarray

    # Callers that undo an update may rely on this: an update writes exactly one row of these tables in place, the row
    # with the old index ``t``, and writes it completely. Tables that grow or lose rows are new arrays. So the old
    # arrays and the old ``t`` are the old history, whatever the rows from ``t`` on hold.
    history = ("past", "label", "arms")

    def __init__(self, dimension, M, d, keep):
        self.keep = keep  # maximum number of observations kept once there are estimates; 0: all
        self.t = 0  # observations kept
        self.gone = 0  # observations dropped
        self.past = np.zeros((64, dimension))  # phi of every observation kept
        self.label = np.zeros((64, M), dtype=np.int8)
        self.arms = np.zeros(64, dtype=np.int64)  # the arm of every observation kept
        quadratics = M if keep > 0 else 0
        self.old_H = np.zeros((quadratics, d, d))
        self.old_b = np.zeros((quadratics, d))
        self.old_weight = np.zeros(quadratics)  # as ``weight``, of the dropped observations

    def remember(self, phi, arm):
        """Append an observation and return its index; the caller writes the labels there, over zeros."""
        s = self.t
        if s == self.arms.size:
            self.past = longer(self.past)
            self.label = longer(self.label)
            arms = np.zeros(2 * s, dtype=np.int64)
            for r in range(s):
                arms[r] = self.arms[r]
            self.arms = arms
        row = self.past[s]
        for k in range(row.size):
            row[k] = phi[k]
        for m in range(self.label.shape[1]):
            self.label[s, m] = 0
        self.arms[s] = arm
        self.t += 1
        return s

    def observed_rows(self, m, s, end, rows):
        """Write the next observations, from s on and before ``end``, that regression m has seen.

        Return where to continue, and their number.
        """
        arms = self.arms
        stop = self.stop[m]
        n = 0
        while s < end and n < rows.size:
            if arms[s] >= stop:
                rows[n] = s
                n += 1
            s += 1
        return s, n

    # -- the bound

    def trim(self):
        """Drop the oldest quarter when the limit on observations is reached."""
        if self.keep > 0 and self.t >= self.keep:
            self.let_go(self.t - self.keep + self.keep // 4)

    def let_go(self, count):
        """Add the oldest observations to the quadratics and drop them."""
        for m in range(self.M):
            self.expand(m, count)
        rest = self.t - count
        self.past = beginning_at(self.past, count, rest)
        self.label = beginning_at(self.label, count, rest)
        arms = np.zeros(self.arms.size, dtype=np.int64)
        for r in range(rest):
            arms[r] = self.arms[count + r]
        self.arms = arms
        self.t = rest
        self.gone += count

    def expand(self, m, count):
        """Add the expansion of the first ``count`` observations at the anchor to the quadratic of regression m.

        With logit z, p = mu(z) and w = mu'(z) at the anchor, the gradient of one at theta is
        (y - p - w (x.theta - z)) x.
        """
        anchor, H, b = self.anchor[m], self.old_H[m], self.old_b[m]
        begin = self.begins[self.slot[m]]
        rows = np.empty(BLOCK, dtype=np.int64)
        z = np.empty(BLOCK)
        w = np.empty(BLOCK)
        weight = 0.0
        s = 0
        while s < count:
            s, n = self.observed_rows(m, s, count, rows)
            dot_rows(self.past, rows, n, begin, anchor, z)
            for r in range(n):
                p = logistic(z[r])
                w[r] = p * (1.0 - p)
                weight += 4.0 * w[r]
                z[r] = self.label[rows[r], m] - p + w[r] * z[r]
            add_rows(b, z, self.past, rows, n, begin)
            add_half_rows(H, w, self.past, rows, n, begin)
        mirror(H)
        self.old_weight[m] += weight

    def add_quadratic(self, m, theta, gradient, H, curved):
        """Add gradient and, if ``curved``, Hessian of the quadratic of regression m at theta; return its weight."""
        v = np.empty(self.d)
        times(self.old_H[m], theta, v)
        for i in range(self.d):
            gradient[i] += self.old_b[m, i] - v[i]
            if curved:
                for j in range(self.d):
                    H[i, j] += self.old_H[m, i, j]
        return self.old_weight[m]

    def slopes(self, m, anchor, step):
        """Return the slope of the quadratic of regression m at the start of a step, and how much it falls along it."""
        v = np.empty(self.d)
        times(self.old_H[m], step, v)
        return inner(self.old_b[m], step) - inner(anchor, v), inner(step, v)
