"""USS-A: stop when an answer is good enough, without labels. Not in the thesis."""

import math
import warnings

import numpy as np

from weakfeedback.adaptive.judges import calibration, doubt_of
from weakfeedback.adaptive.memory import FEATURES, FIRST_FIT, RoundMemory, absorb, draw, fit
from weakfeedback.kernels.linalg import inner, logistic, longer, times
from weakfeedback.validate import brief, integer, number

LAST, SCORE, CALIBRATED = 0, 1, 2
JUDGES = ("last", "score", "calibrated")
ANSWER = 5  # number of features of an answer
SURE = -2.0  # prior mean of the intercept in the regression of the fall
MOST_LABELS = 1024  # maximum number of distinct answers that are counted
LEAST_FADE = 64  # rounds
EDGE = 1e-6  # scores are cut to [EDGE, 1 - EDGE] before their logit is taken


class UssA(RoundMemory):
    """Stops within the round when a draw of what the next stages would add is not worth their price.

    After stage k two logistic regressions on what was seen so far (``RoundMemory``) model the gain of going on: the
    rise and the fall of the belief in the answer. With a draw of each,

        go on iff  mu(phi.rise + s g |phi|) - mu(phi.fall + s g' |phi|) > c_{k+1},
        s = scale (1 + settle / (settle + n_k)),

    |phi|^2 = phi' H^-1 phi, g and g' standard normal, and n_k the number of rounds that went on from stage k. At the
    last but one stage only the rise is drawn.

    The *judge* determines the belief in an answer once the last stage has run. "last" believes the answer of the last
    stage and no other. "score" believes that answer by its score, which is a probability, and the others by the
    probabilities that the last stage gives them, or the rest in equal parts. "calibrated" uses what ``calibrate`` has
    learned from labelled rows. Where a round stopped earlier, a regression on the support of the answer replaces the
    judge. The regressions are fitted backwards from the last stage, to the values along each round (Longstaff and
    Schwartz), again whenever the number of rounds has grown by a quarter; between fits they take one Newton step per
    round.

    The rule it aims at costs at most 2 kappa more per round than any other rule, where kappa is the mean calibration
    error of the judge at the last stage; for "last" it is at most the error rate of the last stage. That the policy
    comes close to this rule is measured, not proved: no regret bound is known.

    Draws: in ``go_on``, if ``probe`` is not 0, one ``rng.random()``; unless that is below ``probe``, one
    ``rng.standard_normal()`` for the rise, then, if stage k is not the last but one, one for the fall. ``update`` draws
    nothing.

    Parameters
    ----------
    costs : K numbers >= 0
        The price of each stage in units of an error, not cumulative.
    judge : "last", "score" or "calibrated"
        "score" needs scores of the last stage in [0, 1]; "calibrated" needs ``calibrate`` first.
    labels : integer >= 2, or None
        The number of classes; None counts the distinct answers seen so far, at least 2.
    ridge : number >= 1e-12
        The precision of the priors.
    scale, settle : numbers >= 0, and > 0
        Width of the draws, and the rounds over which it falls from twice ``scale`` towards ``scale``.
    memory : integer >= 16
        Rounds that are kept for the fits.
    probe : number from 0 to 1
        The share of the decisions that go on whatever is known, so that a change of a later stage is noticed. This does
        not bias what is learned: the regressions are on what was seen before the decision.
    fade : integer >= 64, or None
        For stages that change: only the last ``fade`` rounds count, scores are ranked among the scores of these rounds,
        and everything is refitted whenever a quarter of them is new. None: the last ``memory`` rounds count, and fits
        become rare.

    References
    ----------
    F. Longstaff, E. Schwartz, Valuing American options by simulation, Review of Financial Studies 2001, for the
    regressions.

    Examples
    --------
    A cheap stage whose score shows when it errs, and an expensive one that does not err:

    >>> rng = np.random.default_rng(7)
    >>> policy = UssA(costs=[0.01, 0.1])
    >>> went = np.zeros((2, 2), dtype=int)
    >>> for _ in range(1000):
    ...     hard = rng.random() < 0.3
    ...     answers, scores = np.array([int(hard), 0]), np.array([1.0 - hard, 1.0])
    ...     arm = int(policy.go_on(0, answers[:1], scores[:1], rng))
    ...     policy.update(arm, answers[: arm + 1], scores[: arm + 1], np.zeros(0), rng)
    ...     went[int(hard), arm] += 1
    >>> went.tolist()
    [[676, 40], [0, 284]]
    """

    in_short = "goes on while it is worth the price, by regressions"
    delay_safe = True
    recostable = True
    keeps_history = True  # up to ``memory`` rounds

    def __init__(
        self,
        costs,
        judge="last",
        labels=None,
        ridge=0.1,
        scale=0.5,
        settle=200,
        memory=5000,
        probe=0.0,
        fade=None,
    ):
        super().__init__(costs, ridge, scale, memory)
        self.fade = 0 if fade is None else integer("fade", fade, LEAST_FADE, 10**7)  # 0: none
        if self.fade > 0:
            self.memory = min(self.memory, self.fade)
        self.refresh = self.fade // 4
        self.probe = number("probe", probe, at_least=0.0)
        if self.probe > 1.0:
            raise ValueError(f"probe must be a number from 0 to 1, got {brief(probe)}")
        if not isinstance(judge, str) or judge not in JUDGES:
            raise ValueError(f"judge must be one of {', '.join(JUDGES)}, got {brief(judge)}")
        self.judging = JUDGES.index(judge)
        self.settle = number("settle", settle, above=0.0)
        self.labels = 0 if labels is None else integer("labels", labels, 2)  # 0: count them
        self.seen = np.zeros(MOST_LABELS, dtype=np.int64)  # the distinct answers, sorted
        self.distinct = 0
        self.chances = np.zeros((self.arms.shape[0], self.K))  # of the last stage, -1: not known
        self.fall = np.zeros((self.K, FEATURES))
        self.fall[:, 0] = SURE
        self.Qfall = self.Qrise.copy()
        self.belief = np.zeros((self.K, ANSWER))
        self.belief[:, 1] = 1.0
        self.calibrated = False
        self.weights = np.zeros(3)  # of the calibration
        self.eta = 0.5
        # changes of the answer after each stage, in rounds that the judge has seen
        self.judged_changes = np.zeros(self.K, dtype=np.int64)
        self.agreed = np.zeros(self.K, dtype=np.int64)  # how many of them the judge approved

    def go_on(self, k, outputs, scores, rng):
        """Whether to run the next stage, after stage k."""
        return bool(self.gain(k, outputs, scores, rng) > self.c[k + 1])

    def gain(self, k, outputs, scores, rng):
        """Draw the gain of going on after stage k, in errors saved; the price is not subtracted."""
        if self.judging == CALIBRATED and not self.calibrated:
            raise ValueError("judge 'calibrated' needs calibrate() first")
        if self.probe > 0.0 and rng.random() < self.probe:
            return math.inf
        x = np.empty(FEATURES)
        v = np.empty(FEATURES)
        self.describe_now(k, outputs, scores, x)
        scale = self.scale * (1.0 + self.settle / (self.settle + self.n[k]))
        gain = draw(self.rise[k], self.Qrise[k], x, scale, v, rng)
        if k < self.K - 2:
            gain -= draw(self.fall[k], self.Qfall[k], x, scale, v, rng)
        return gain

    def update(self, arm, outputs, scores, chances, rng):
        """Learn from the answers and scores of stages 0, ..., arm.

        ``chances`` has the last stage's probability of each of these answers, or is empty.
        """
        self.check(arm, outputs, scores)
        believed = chances is not None and arm == self.K - 1 and chances.size > 0
        self.check_last(arm, scores, believed, chances)
        r = self.keep(arm, outputs, scores)
        if self.chances.shape[0] < self.arms.shape[0]:
            self.chances = longer(self.chances)
        for k in range(self.K):
            self.chances[r, k] = chances[k] if believed else -1.0
        for k in range(arm + 1):
            self.meet(outputs[k])
        if arm == self.K - 1:
            self.count_changes(r)
        if self.is_due():
            self.refit()
        else:
            self.learn(r)

    def check_last(self, arm, scores, believed, chances):
        """Reject scores that the judge cannot use."""
        if self.judging == CALIBRATED and not self.calibrated:
            raise ValueError("judge 'calibrated' needs calibrate() first")
        if arm == self.K - 1:
            score = scores[arm]
            if self.judging == SCORE and math.isnan(score):
                raise ValueError("judge 'score' needs the score of the last stage")
            if self.judging != LAST and not math.isnan(score) and not (score >= 0.0 and score <= 1.0):
                raise ValueError("the score of the last stage must be a probability, from 0 to 1")
        if believed:
            if chances.size != arm + 1:
                raise ValueError("chances must be as many as outputs, or none")
            for k in range(arm + 1):
                if not (chances[k] >= 0.0 and chances[k] <= 1.0):
                    raise ValueError("chances must be probabilities, from 0 to 1")

    def count_changes(self, r):
        """Count the changes of the answer in a round that reached the last stage, and those the judge approves."""
        for k in range(self.K - 1):
            if self.answers[r, k] != self.answers[r, k + 1]:
                self.judged_changes[k] += 1
                self.agreed[k] += self.judged(r, k + 1) > self.judged(r, k)

    def meet(self, answer):
        """Count an answer if it is new."""
        i = 0
        while i < self.distinct and self.seen[i] < answer:
            i += 1
        if self.distinct < MOST_LABELS and (i == self.distinct or self.seen[i] != answer):
            for j in range(self.distinct, i, -1):
                self.seen[j] = self.seen[j - 1]
            self.seen[i] = answer
            self.distinct += 1

    def classes(self):
        """Return the number of labels."""
        return self.labels if self.labels > 0 else max(self.distinct, 2)

    def refit(self):
        """Fit all regressions to the kept rounds, the last stage first."""
        if self.fade > 0:
            self.renew()
        self.rank_again()
        n, K = self.held, self.K
        self.fit_beliefs()
        W = np.zeros((n, K))
        V = np.zeros(n)
        for r in range(n):
            self.worth(r, W[r])
            V[r] = W[r, self.arms[r, 0]]
        x = np.empty((n, FEATURES))
        up = np.empty(n)
        down = np.empty(n)
        v = np.empty(FEATURES)
        state = np.empty(FEATURES)
        none = np.zeros(FEATURES)
        sure = np.zeros(FEATURES)
        sure[0] = SURE
        for k in range(K - 2, -1, -1):
            m = 0
            for r in range(n):
                if self.arms[r, 0] > k:
                    self.describe_kept(r, k, x[m])
                    z = V[r] - W[r, k]
                    up[m] = min(max(z, 0.0), 1.0)
                    down[m] = min(max(-z, 0.0), 1.0)
                    m += 1
            fit(self.rise[k], self.Qrise[k], x, up, m, none, self.ridge)
            if k < K - 2:
                fit(self.fall[k], self.Qfall[k], x, down, m, sure, self.ridge)
            if k > 0:
                for r in range(n):
                    if self.arms[r, 0] >= k:
                        self.describe_kept(r, k, state)
                        V[r] = self.value(k, self.arms[r, 0], W[r, k], V[r], state, v)

    def fit_beliefs(self):
        """Fit, for the stages in between, the belief in an answer to its support."""
        n = self.held
        mean = np.zeros(ANSWER)
        mean[1] = 1.0
        Q = np.zeros((ANSWER, ANSWER))
        x = np.empty((n * max(self.K - 1, 1), ANSWER))
        y = np.empty(n * max(self.K - 1, 1))
        for k in range(self.K - 2, 0, -1):
            m = 0
            for r in range(n):
                if self.arms[r, 0] > k:
                    for j in range(k + 1):
                        if self.is_first(r, j):
                            self.support(r, k, j, x[m])
                            y[m] = self.credit(r, j)
                            m += 1
            fit(self.belief[k], Q, x, y, m, mean, self.ridge)

    def is_first(self, r, j):
        """Whether no earlier stage gave the answer of stage j in a kept round."""
        for i in range(j):
            if self.answers[r, i] == self.answers[r, j]:
                return False
        return True

    def support(self, r, k, j, x):
        """Write into x the evidence after stage k for the answer of stage j."""
        same = self.answers[r, j] == self.answers[r, k]
        u = self.u[r, k]
        share = 0
        for i in range(k):
            share += self.answers[r, i] == self.answers[r, j]
        x[0] = 1.0
        x[1] = 1.0 if same else -1.0
        x[2] = u if same else 0.0
        x[3] = 0.0 if same else u
        x[4] = 2.0 * share / k - 1.0

    def credit(self, r, j):
        """Return the belief in the answer of stage j at the end of a kept round that ran more than one stage."""
        arm = self.arms[r, 0]
        if arm == self.K - 1:
            return self.judged(r, j)
        x = np.empty(ANSWER)
        self.support(r, arm, j, x)
        return logistic(inner(x, self.belief[arm]))

    def worth(self, r, W):
        """Write the beliefs in the answers of all stages run into W."""
        arm = self.arms[r, 0]
        if arm > 0:
            for j in range(arm + 1):
                W[j] = self.credit(r, j)

    def judged(self, r, j):
        """Return the judge's belief in the answer of stage j in a kept round that reached the last stage."""
        last = self.K - 1
        same = self.answers[r, j] == self.answers[r, last]
        if self.judging == LAST:
            return 1.0 if same else 0.0
        if self.judging == SCORE:
            if same:
                return self.score[r, last]
            if self.chances[r, j] >= 0.0:
                return self.chances[r, j]
            return (1.0 - self.score[r, last]) / (self.classes() - 1)
        agree = 0
        for i in range(last):
            agree += self.answers[r, i] == self.answers[r, last]
        half = 0.0
        if self.scored[r, last]:
            score = min(max(self.score[r, last], EDGE), 1.0 - EDGE)
            half = 0.5 * math.log(score / (1.0 - score))
        p = logistic(self.weights[0] + self.weights[1] * half + self.weights[2] * (agree / last))
        if same:
            return p
        if self.classes() == 2:
            return 1.0 - p
        return (1.0 - p) * self.eta / (last - agree)

    def learn(self, r):
        """Update with a new round by one step; beliefs are updated at the next fit."""
        W = np.zeros(self.K)
        x = np.empty(FEATURES)
        v = np.empty(FEATURES)
        arm = self.arms[r, 0]
        self.worth(r, W)
        V = W[arm]
        for k in range(min(arm, self.K - 2), -1, -1):
            self.describe_kept(r, k, x)
            if arm > k:
                z = V - W[k]
                absorb(self.rise[k], self.Qrise[k], x, min(max(z, 0.0), 1.0), v)
                if k < self.K - 2:
                    absorb(self.fall[k], self.Qfall[k], x, min(max(-z, 0.0), 1.0), v)
            V = self.value(k, arm, W[k], V, x, v)

    def value(self, k, arm, worth, onward, x, v):
        """Return the value of a round after stage k: of stopping, or of the observed or expected continuation."""
        p = logistic(inner(x, self.rise[k]))
        g = p - self.c[k + 1]
        times(self.Qrise[k], x, v)
        spread = p * (1.0 - p) * p * (1.0 - p) * inner(x, v)
        if k < self.K - 2:
            p = logistic(inner(x, self.fall[k]))
            g -= p
            times(self.Qfall[k], x, v)
            spread += p * (1.0 - p) * p * (1.0 - p) * inner(x, v)
        if arm == k:
            return worth + hope(g, 0.5 * math.sqrt(max(spread, 0.0)))
        return onward - self.c[k + 1] if g > 0.0 else worth

    def calibrate(self, outputs, scores, truth):
        """Learn from labelled rows how far the last stage can be believed; the judge is "calibrated" from now on.

        ``outputs`` and ``scores`` have shape (n, K), scores may be None; ``truth`` has n labels, numbered as outputs
        are.
        """
        answers, weights, eta = calibration(outputs, scores, truth, self.K, EDGE)
        for answer in answers:
            self.meet(answer)
        self.weights = weights
        self.eta = eta
        self.calibrated = True
        self.judging = CALIBRATED
        if self.t >= FIRST_FIT:  # the beliefs in the kept rounds have changed
            self.next_fit = min(self.next_fit, self.t + 1)

    def check_judge(self, scores, labels):
        """Reject, before anything is played, last-stage scores that the judge cannot use; warn of doubtful ones."""
        if self.judging == CALIBRATED and not self.calibrated:
            raise ValueError("judge 'calibrated' needs calibrate(outputs, scores, truth) first")
        if self.judging == SCORE and np.isnan(scores).any():
            raise ValueError("judge 'score' needs a score of the last stage in every row; use judge='last'")
        known = scores[~np.isnan(scores)]
        if self.judging != LAST and not ((known >= 0.0) & (known <= 1.0)).all():
            raise ValueError(
                f"judge {JUDGES[self.judging]!r} needs scores of the last stage in [0, 1], got {known.min():g} to "
                f"{known.max():g}; use judge='last'"
            )
        doubt = doubt_of(known, self.labels if self.labels > 0 else labels) if self.judging == SCORE else ""
        if doubt:
            warnings.warn(doubt, stacklevel=2)


def hope(g, w):
    """Return the mean of max(N, 0) for a normal N with mean g and standard deviation w."""
    if w <= 0.0:
        return max(g, 0.0)
    z = g / w
    below = 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))
    return g * below + w * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
