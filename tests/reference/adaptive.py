"""Slow twins of the adaptive policies, from the description of the method. Stages count from 1.

Rounds are dictionaries, matrices are inverted by NumPy each time, and regressions are solved from the beginning, by
Newton's method with halved steps. Nothing of `weakfeedback` is imported here.
"""

import math
from statistics import NormalDist

import numpy as np


def mu(z):
    """The logistic function."""
    return 1.0 / (1.0 + math.exp(-z)) if z >= 0 else math.exp(z) / (1.0 + math.exp(z))


class Regression:
    """A ridge-logistic regression with targets in [0, 1] and a normal prior around ``centre``."""

    def __init__(self, centre, ridge):
        self.centre, self.ridge = np.array(centre, dtype=float), ridge
        self.theta = self.centre.copy()
        self.H = ridge * np.eye(len(centre))

    def at(self, x):
        """The probability at x."""
        return mu(float(np.dot(x, self.theta)))

    def width(self, x):
        """The standard deviation of the logit at x."""
        return math.sqrt(float(np.dot(x, np.linalg.solve(self.H, x))))

    def step(self, x, y):
        """One Newton step with one more row."""
        x, p = np.asarray(x, dtype=float), self.at(x)
        self.H = self.H + p * (1 - p) * np.outer(x, x)
        self.theta = self.theta + np.linalg.solve(self.H, (y - p) * x)

    def solve(self, rows):
        """The maximum over all rows (x, y), by Newton's method with halved steps."""
        X = np.array([x for x, _ in rows]).reshape(len(rows), len(self.centre))
        y = np.array([y for _, y in rows])

        def objective(theta):
            z = X @ theta
            return float(
                np.sum(y * z - np.logaddexp(0.0, z)) - self.ridge / 2 * np.sum((theta - self.centre) ** 2)
            )

        theta = self.centre.copy()
        for _ in range(300):
            p = np.array([mu(z) for z in X @ theta])
            gradient = X.T @ (y - p) - self.ridge * (theta - self.centre)
            self.H = (X.T * (p * (1 - p))) @ X + self.ridge * np.eye(len(theta))
            step = np.linalg.solve(self.H, gradient)
            size, before = 1.0, objective(theta)
            while objective(theta + size * step) < before - 1e-12 and size > 1e-9:
                size /= 2
            theta = theta + size * step
            if np.abs(step).max() < 1e-12:
                break
        self.theta = theta


class SlowStages:
    """What both twins share: rounds, references, the state phi_k."""

    def __init__(self, costs, ridge, memory):
        self.c = [math.nan, *costs]  # c[k] is the price of stage k
        self.K = len(costs)
        self.ridge, self.memory = ridge, memory
        self.rounds, self.count, self.fitted = [], 0, 0
        self.first = {k: [] for k in range(1, self.K + 1)}
        self.went_on = dict.fromkeys(range(1, self.K), 0)
        self.rise = {k: Regression([0.0] * 7, ridge) for k in range(1, self.K)}

    def u(self, k, score):
        """2 * mid-rank - 1."""
        seen = self.first[k]
        if score is None or len(seen) < 8:
            return 0.0
        rank = sum(1.0 if other < score else 0.5 if other == score else 0.0 for other in seen) / len(seen)
        return 2 * rank - 1

    def phi(self, k, Y, u):
        """The state after stage k; Y and u are lists from stage 1 on."""
        if k == 1:
            return [1, u[0], u[0] ** 2 - 0.33, 0, 0, 0, 0]
        agree = [Y[i] == Y[k - 1] for i in range(k - 1)]
        a, e = 2 * sum(agree) / len(agree) - 1, 1 if Y[k - 2] == Y[k - 1] else -1
        return [1, u[k - 1], u[k - 1] ** 2 - 0.33, a, a * u[k - 1], u[k - 2], e * u[k - 2]]

    def state_now(self, k, outputs, scores):
        """phi after 1-based stage k of a round under way."""
        S = [None if math.isnan(s) else float(s) for s in scores]
        return self.phi(k, list(outputs), [self.u(i + 1, s) for i, s in enumerate(S)])

    def enter(self, arm, outputs, scores, chances=None):
        """Note a round; the oldest is forgotten."""
        S = [None if math.isnan(s) else float(s) for s in scores]
        self.count += 1
        for k, s in enumerate(S, start=1):
            if s is not None and len(self.first[k]) < 512:
                self.first[k].append(s)
            if k <= arm:
                self.went_on[k] += 1
        one = {"I": arm + 1, "Y": [int(y) for y in outputs], "S": S, "chances": chances}
        one["u"] = [self.u(k, s) for k, s in enumerate(S, start=1)]
        self.rounds = [*self.rounds, one][-self.memory :]
        return one

    def due(self):
        """At round 16, then when the count has grown by a quarter and by 16."""
        if self.fitted == 0:
            now = self.count >= 16
        else:
            now = self.count >= 1.25 * self.fitted and self.count >= self.fitted + 16
        if now:
            self.fitted = self.count
            for one in self.rounds:
                one["u"] = [self.u(k, s) for k, s in enumerate(one["S"], start=1)]
        return now


class SlowNext(SlowStages):
    """Go on iff a draw of P(the next answer differs) exceeds its price."""

    def __init__(self, costs, ridge=0.1, scale=0.5, memory=5000):
        super().__init__(costs, ridge, memory)
        self.scale = scale

    def go_on(self, k, outputs, scores, rng):
        """After 0-based stage k."""
        x, model = self.state_now(k + 1, outputs, scores), self.rise[k + 1]
        z = float(np.dot(x, model.theta)) + self.scale * model.width(x) * rng.standard_normal()
        return mu(z) > self.c[k + 2]

    def update(self, arm, outputs, scores, chances, rng):
        """Learn."""
        new = self.enter(arm, outputs, scores)
        if self.due():
            for k in range(1, self.K):
                self.rise[k].solve([self.row(one, k) for one in self.rounds if one["I"] > k])
        else:
            for k in range(1, new["I"]):
                self.rise[k].step(*self.row(new, k))

    def row(self, one, k):
        """What a round says of stage k."""
        return self.phi(k, one["Y"], one["u"]), float(one["Y"][k] != one["Y"][k - 1])


class SlowUssA(SlowStages):
    """USS-A, section 3 of the description, word by word."""

    def __init__(self, costs, judge="last", labels=None, ridge=0.1, scale=0.5, settle=200, memory=5000):
        super().__init__(costs, ridge, memory)
        self.judge, self.labels, self.scale, self.settle = judge, labels, scale, settle
        self.met = set()
        self.fall = {k: Regression([-2.0] + [0.0] * 6, ridge) for k in range(1, self.K - 1)}
        self.beta = {k: Regression([0.0, 1.0, 0.0, 0.0, 0.0], ridge) for k in range(2, self.K)}
        self.p_of = self.eta = None

    def L(self):
        """The number of labels."""
        return self.labels or max(2, len(self.met))

    def go_on(self, k, outputs, scores, rng):
        """After 0-based stage k."""
        k += 1
        x = self.state_now(k, outputs, scores)
        scale = 2 * self.scale * (1 + self.settle / (self.settle + self.went_on[k])) / 2

        def drawn(model):
            return mu(float(np.dot(x, model.theta)) + scale * model.width(x) * rng.standard_normal())

        r = drawn(self.rise[k])
        f = drawn(self.fall[k]) if k < self.K - 1 else 0.0
        return r - f > self.c[k + 1]

    def J(self, one, y):
        """The judge."""
        Y, last, S = one["Y"], one["Y"][-1], one["S"][-1]
        if self.judge == "last":
            return float(y == last)
        if self.judge == "score":
            if y == last:
                return S
            return (1 - S) / (self.L() - 1) if one["chances"] is None else one["chances"][Y.index(y)]
        p = self.p_of(Y, S)
        if y == last:
            return p
        if self.L() == 2:
            return 1 - p
        return (1 - p) * self.eta / sum(other != last for other in Y[:-1])

    def psi(self, one, k, y):
        """What speaks for y after stage k."""
        s, u = (1 if y == one["Y"][k - 1] else -1), one["u"][k - 1]
        share = sum(other == y for other in one["Y"][: k - 1]) / (k - 1)
        return [1, s, u * (s == 1), u * (s == -1), 2 * share - 1]

    def W(self, one, y):
        """What is believed of y at the end of a round."""
        return self.J(one, y) if one["I"] == self.K else self.beta[one["I"]].at(self.psi(one, one["I"], y))

    def update(self, arm, outputs, scores, chances, rng):
        """Learn."""
        known = None if chances is None or len(chances) == 0 else [float(c) for c in chances]
        new = self.enter(arm, outputs, scores, known)
        self.met |= set(new["Y"])
        if self.due():
            self.refit()
            return
        V = self.W(new, new["Y"][-1]) if new["I"] > 1 else 0.0
        for k in range(min(new["I"], self.K - 1), 0, -1):
            if new["I"] > k:
                x, z = self.phi(k, new["Y"], new["u"]), V - self.W(new, new["Y"][k - 1])
                self.rise[k].step(x, min(max(z, 0), 1))
                if k < self.K - 1:
                    self.fall[k].step(x, min(max(-z, 0), 1))
            if k > 1:
                V = self.value(new, k, V)

    def value(self, one, k, V):
        """The last line of step 3."""
        x, here = self.phi(k, one["Y"], one["u"]), self.W(one, one["Y"][k - 1])
        p = self.rise[k].at(x)
        g, variance = p - self.c[k + 1], (p * (1 - p) * self.rise[k].width(x)) ** 2
        if k < self.K - 1:
            q = self.fall[k].at(x)
            g, variance = g - q, variance + (q * (1 - q) * self.fall[k].width(x)) ** 2
        if one["I"] == k:
            normal = NormalDist(g, 0.5 * math.sqrt(variance))
            z = g / normal.stdev
            return here + g * NormalDist().cdf(z) + normal.stdev * NormalDist().pdf(z)
        return here if g <= 0 else V - self.c[k + 1]

    def refit(self):
        """Steps 1 to 3 over the kept rounds."""
        for k in range(self.K - 1, 1, -1):
            rows = []
            for one in self.rounds:
                if one["I"] > k:
                    rows += [(self.psi(one, k, y), self.W(one, y)) for y in set(one["Y"][:k])]
            self.beta[k].solve(rows)
        values = [self.W(one, one["Y"][-1]) if one["I"] > 1 else 0.0 for one in self.rounds]
        for k in range(self.K - 1, 0, -1):
            rows = []
            for one, V in zip(self.rounds, values):
                if one["I"] > k:
                    rows.append((self.phi(k, one["Y"], one["u"]), V - self.W(one, one["Y"][k - 1])))
            self.rise[k].solve([(x, min(max(z, 0), 1)) for x, z in rows])
            if k < self.K - 1:
                self.fall[k].solve([(x, min(max(-z, 0), 1)) for x, z in rows])
            if k > 1:
                values = [
                    self.value(one, k, V) if one["I"] >= k else V for one, V in zip(self.rounds, values)
                ]

    def calibrate(self, outputs, scores, truth):
        """The regression of "the last stage is right", ridge .3."""
        from scipy.optimize import minimize

        rows = []
        for Y, S in zip(outputs, scores):
            rows.append([1.0, self._half(S[-1]), float(np.mean(np.asarray(Y[:-1]) == Y[-1]))])
        X, right = np.array(rows), np.array([Y[-1] == t for Y, t in zip(outputs, truth)], dtype=float)

        def loss(w):
            z = X @ w
            return float(np.sum(np.logaddexp(0, z) - right * z) + 0.15 * w @ w)

        w = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-10}).x
        self.p_of = lambda Y, S: mu(
            float(np.dot(w, [1.0, self._half(S), sum(y == Y[-1] for y in Y[:-1]) / (len(Y) - 1)]))
        )
        lost = [(Y, t) for Y, t in zip(outputs, truth) if Y[-1] != t and any(y != Y[-1] for y in Y[:-1])]
        self.eta = (1 + sum(any(y == t for y in Y[:-1]) for Y, t in lost)) / (2 + len(lost))
        self.judge = "calibrated"
        self.met |= {int(y) for Y in outputs for y in Y} | {int(t) for t in truth}
        self.weights = w

    @staticmethod
    def _half(score):
        """logit / 2 of a score, cut a millionth from the ends."""
        if score is None or math.isnan(score):
            return 0.0
        cut = min(max(float(score), 1e-6), 1 - 1e-6)
        return math.log(cut / (1 - cut)) / 2
