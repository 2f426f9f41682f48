"""Promise: the answer of the reference in at least 95 % of the requests, as cheaply as possible. Not in the thesis."""

import math

import numpy as np

from weakfeedback.adaptive.arguments import agreement, reference_stage, stage_costs, warn_of_prices
from weakfeedback.adaptive.memory import count_below, doubled
from weakfeedback.kernels.coins import toss_coin
from weakfeedback.kernels.linalg import inner, invert, logistic, times
from weakfeedback.validate import brief, flag, integer, number

STOP = -1
NOT_CALLED = -1  # in place of an answer; other negative numbers are answers that equal none
OPEN = 0.0  # the chance of a coin that is not tossed yet
PASSING = 2**32  # answers from here on are numbered within their round, and are no features
Z = 2.0  # reserve, in standard errors
SHADOW_MOST = 0.5
SHADOW_LEAST = 0.03
SURE_LEAST = 0.25
YOUNG = 30  # rounds, at least, in the chance of a comparison
FIRST = 50  # comparisons of every model at the beginning,
FIRST_ROUNDS = 150  # within so many rounds
FEW = 100  # expected requests below which nothing is learned
FEWEST = 20  # comparisons of a model before it can be chosen
AHEAD = 1000  # rounds, at least, over which tokens are spent
OVERSPEND = 0.05
ALLOWANCE = 50  # calls of the reference
EXPLORE = 0.1  # a comparison of another model is rarer where it costs more than this share of the reference
REFERENCE = 512  # scores among which others are ranked
LABELS = 12
GROUPS = 16  # groups that are features
BUCKETS = 64  # groups with a promise of their own; the last is for all others
PLAIN = 4  # features before those of labels and groups: 1, u, u^2 - .33, no score
FEATURES = PLAIN + LABELS + GROUPS
RIDGE = 0.3  # of the first three features
RIDGE_MORE = 1.2
CENTRE = -2.0  # prior mean of the intercept
NEWTON_STEPS = 5
DELTA = 0.05
RATES = (0.95, 0.8, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07, 0.04)
AFTER, BEFORE, TINY = 0, 1, 1e-9


class Promise:
    """Lets a cheap answer go out only where random comparisons with the reference keep the share that differs in check.

    Every request earns eps = 1 - agree tokens. A cheap answer may go out only with a known chance pi that the reference
    is called after all, and then answers. If that comparison differs, it stands for w = (1 - pi) / pi others that went
    out unseen, and takes w tokens; pi is so large that there are always enough. So, whatever the models do, on average
    over the coins at most eps of the answers differ from the reference's, after any number of requests.

        request n:  tokens = min(tokens + eps, bucket);  q = clip(n^(-1/3), q_min, 1/2)
            cheap first iff a model m is chosen, the first comparisons are made, tokens > 0, coin(f),
                            and spent + c_m + c_R <= 1.05 n c_R + 50 c_R
            cheap first:    call m; r = index_m(rank of its score, its label, group)
                inside iff r < limit (at a tie: coin(share)):
                            pi = clip(q sqrt(r / mean r inside), max(q / 2, q_min), min(2 q, 1/2)),
                                 at least 1 / (1 + tokens)
                            sure: pi = 1 if the bound U after a caught difference would exceed eps n
            otherwise       pi = 1
            coin(pi):       call R, which answers; before it other models k, each with chance 1 (the first 50
                            comparisons) or q min(1, .1 c_R / c_k), if the money allows it;
                            learn D = [answers differ] of all that were called;
                            pi < 1: tokens -= w D;  V += w D^2 / pi;  A_j -= D log(1 - w (exp(lambda_j) - 1))
            else            the answer of m goes out
        refit, at round 50 and whenever the rounds have grown by 5 % and 10:
            target = clip(eps + (tokens - 2 sqrt(V + (1 - q) / q^2)) / max(n, 1000), 0, 2 eps)
            index_k: ridge-logistic regression of D on the last ``memory`` comparisons of k
            of the sorted indices r_1 <= r_2 <= ... of the last requests with k, the prefix j with the largest
                gain = min(1, target / d_j) (sigma_j c_R - c_k),
                sigma_j = (1 - q) j / n_k,  d_j = (1 - q) (r_1 + ... + r_j) / n_k
            no answer with an index above max(.25, 5 eps) goes out

    Models without scores are also considered before the call, by their group only, and then called only inside the
    limit. There a request may have its own prices (``price``, ``return_to``): risks are divided by what it costs over
    the mean, as a power of 2, so that of equal risks the dear request goes to the cheap model.
    U = max{L : mean_j exp(lambda_j L - A_j) <= 20} bounds the answers that differ, at all times at once, with 95 %.

    Draws: for each coin with a chance strictly between 0 and 1 one ``rng.random()``: in ``next_stage`` before the first
    call coin(f), then, if the decision is made before the call, coin(share) at a tie; after the first call coin(share)
    at a tie, then coin(pi); where the reference will be called, one coin for each other model, in order. ``update``
    draws nothing.

    Parameters
    ----------
    costs : K numbers >= 0
        The price of each stage alone, in any unit.
    agree : number above 1/2 and below 1, or None
        The share of answers that must be those of the reference; .95 if neither this nor ``budget`` nor ``error_cost``
        is given.
    budget : number > 0, or None
        Money a request, on average: as few answers as possible differ.
    error_cost : number > 0, or None
        What an answer that differs costs; together with ``agree`` both limits hold.
    reference : stage, or None
        The stage whose answers are promised; None: the last.
    sure : bool
        The share is above 1 - agree at any time with a probability of at most 5 %. It begins after about
        17 / (1 - agree) requests and costs more.
    groups : None or "each"
        "each": the promise holds for each of the first 63 groups, and for all others together.
    before : bool
        Decide before the call, by the group only: for models whose answers show nothing.
    background : bool
        The cheap answer goes out also when it is compared (streams); not in simulations.
    shadow : bool
        The reference always answers; ``would_differ``, ``would_answer`` and ``would_spend`` say what would have been.
    expected : integer >= 1, or None
        How many requests are expected. The first comparisons cost at most 5 % of their price; below 100 there are none.
    memory : integer >= 64
        Comparisons and requests of each model that are kept.
    bucket : number > 0, or None
        Tokens kept at most; None: max(50, 1000 eps). In any window of n requests whose start does not depend on the
        future at most eps n plus this many answers differ, on average.

    Examples
    --------
    A cheap stage whose score shows where it differs from the expensive one:

    >>> rng = np.random.default_rng(7)
    >>> policy = Promise(costs=[1, 20])
    >>> differ = 0
    >>> for _ in range(2000):
    ...     hard = int(rng.random() < 0.3)
    ...     answers, scores = np.array([hard, 0]), np.array([1.0 - hard, 1.0])
    ...     seen, sure = np.full(2, -1), np.full(2, np.nan)
    ...     k = policy.next_stage(-1, seen[:0], sure[:0], rng)
    ...     while k >= 0:
    ...         seen[k], sure[k], arm = answers[k], scores[k], k
    ...         k = policy.next_stage(arm, seen, sure, rng)
    ...     policy.update(arm, seen, sure, np.zeros(0), rng)
    ...     differ += answers[arm] != answers[1]
    >>> int(differ), round(float(policy.spent) / (2000 * 20), 2)
    (0, 0.44)
    """

    in_short = "the reference's answer in 95 %, as cheaply as possible"
    explained = (
        "a cheap answer goes out where its risk of differing is low, with a known chance of a comparison"
    )
    delay_safe = True
    recostable = True
    choosing_learns = True  # rounds, tokens and what is under way are counted when it decides
    scratch = (
        *("group", "first", "chance", "t", "n", "tokens", "earned", "allowed", "spent", "learned"),
        *("held", "held_a", "open", "blind", "asked", "asked_scale", "group_ids", "group_count"),
        *("would_answer", "would_spend"),
    )
    before: object = {"scale": 1.0, "asked_scale": 1.0}  # of states; an object has a field of this name

    def __init__(
        self,
        costs,
        agree=None,
        budget=None,
        error_cost=None,
        reference=None,
        sure=False,
        groups=None,
        before=False,
        background=False,
        shadow=False,
        expected=None,
        memory=1000,
        bucket=None,
    ):
        self.c = stage_costs(costs)
        self.K = self.c.size
        self.R = reference_stage(reference, self.c)
        self.eps = self.budget = self.error_cost = 0.0  # 0: not given
        self.set_limits(agree, budget, error_cost)
        self.sure = flag("sure", sure)
        if self.sure and self.eps == 0.0:
            raise ValueError("sure needs agree, the share that is to be sure")
        if groups is not None and groups != "each":
            raise ValueError(f"groups must be None or 'each', got {brief(groups)}")
        self.each = groups == "each"
        self.before = flag("before", before)
        self.background = flag("background", background)
        self.shadow = flag("shadow", shadow)
        self.expected = 0 if expected is None else integer("expected", expected, 1)
        self.memory = integer("memory", memory, 64, 10**6)
        self.bucket = 0.0 if bucket is None else number("bucket", bucket, above=0.0)  # 0: by eps
        self.q_min = SURE_LEAST if self.sure else SHADOW_LEAST  # may be raised, never lowered
        self.rates = np.array(RATES) * -math.log(1.0 - self.q_min)
        warn_of_prices(self.c, self.R, self.q_min)

        buckets = BUCKETS if self.each else 1
        self.t = 0  # requests
        self.n = np.zeros(buckets, dtype=np.int64)
        self.tokens = np.zeros(buckets)
        self.earned = np.zeros(buckets)  # all tokens, those that were forfeited too
        self.estimate = np.zeros(buckets)  # Lhat
        self.V = np.zeros(buckets)
        self.A = np.zeros((buckets, len(RATES)))
        self.blind = np.zeros(buckets, dtype=np.int64)  # went out without a coin: counted as differing
        self.held = np.zeros(buckets)  # tokens of the comparisons under way,
        self.held_a = np.zeros((buckets, len(RATES)))
        self.open = np.zeros(buckets, dtype=np.int64)  # and their number
        self.spent = 0.0
        self.allowed = float(ALLOWANCE * self.c[self.R])
        self.learned = 0.0  # spent on the first comparisons
        self.would_answer = 0.0
        self.would_differ = 0.0
        self.would_spend = 0.0

        self.group = 0  # of the round that is being decided or learned
        self.first = NOT_CALLED  # the stage whose answer may go out
        self.chance = 1.0  # of a comparison of that answer
        self.scale = 1.0  # what the request costs on the reference, over its stated price, as a power of 2
        self.group_ids = np.zeros(BUCKETS - 1, dtype=np.int64)
        self.group_count = 0
        self.label_ids = np.zeros(LABELS, dtype=np.int64)
        self.label_count = 0

        shape = self.K, self.memory
        self.calls = np.zeros(self.K, dtype=np.int64)  # requests with a model, of which the last are kept
        self.call_score = np.zeros(shape)
        self.call_scored = np.zeros(shape, dtype=np.bool_)
        self.call_label = np.zeros(shape, dtype=np.int64)
        self.call_group = np.zeros(shape, dtype=np.int64)
        self.comparisons = np.zeros(self.K, dtype=np.int64)
        self.score = np.zeros(shape)
        self.scored = np.zeros(shape, dtype=np.bool_)
        self.label = np.zeros(shape, dtype=np.int64)
        self.place = np.zeros(shape, dtype=np.int64)  # the group
        self.D = np.zeros(shape)
        self.asked = np.zeros(self.memory, dtype=np.int64)  # the groups of the last requests,
        self.asked_scale = np.ones(self.memory)  # and their ``scale``
        self.ranks = np.zeros((self.K, REFERENCE))  # the last scores, sorted
        self.ranked = np.zeros(self.K, dtype=np.int64)
        self.theta = np.zeros((2, self.K, FEATURES))  # after and before the call
        self.theta[:, :, 0] = CENTRE
        self.next_fit = FIRST

        self.model = np.full(buckets, NOT_CALLED, dtype=np.int64)
        self.form = np.zeros(buckets, dtype=np.int64)
        self.limit = np.zeros(buckets)
        self.share = np.ones(buckets)
        self.f = np.ones(buckets)
        self.mean_risk = np.ones(buckets)

    def set_limits(self, agree=None, budget=None, error_cost=None):
        """Set agree, budget or error_cost, or agree and error_cost; what was earned and spent before stays."""
        if budget is not None and (agree is not None or error_cost is not None):
            raise ValueError("budget must stand alone; agree and error_cost may be given together")
        if agree is None and budget is None and error_cost is None:
            agree = 0.95
        share = None if agree is None else agreement(agree)
        money = None if budget is None else number("budget", budget, above=0.0)
        price = None if error_cost is None else number("error_cost", error_cost, above=0.0)
        self.eps = 0.0 if share is None else 1.0 - share
        self.budget = 0.0 if money is None else money
        self.error_cost = 0.0 if price is None else price

    def take_limits(self, agree=None, budget=None, error_cost=None):
        """Continue with another limit, from the next request on."""
        self.set_limits(agree, budget, error_cost)
        self.forget_choices()

    def take_costs(self, costs):
        """Continue with other prices; the money allowed so far stays as it is."""
        found = stage_costs(costs)
        if found.size != self.K:
            raise ValueError(f"costs must be {self.K} numbers, got {brief(costs)}")
        reference_stage(self.R, found)
        self.c[:] = found
        self.forget_choices()

    def take_reference(self, reference):
        """Continue with another reference: tokens and the bound go on, comparisons with the old one are dropped."""
        self.R = integer("reference", reference, 0, self.K - 1)  # journals may tell of a free one
        self.comparisons[:] = 0
        self.forget_choices()

    def forget_choices(self):
        """Choose again at the next feedback; until then the reference answers."""
        self.model[:] = NOT_CALLED
        self.next_fit = min(self.next_fit, self.t + 1)

    # -- deciding

    def turn_to(self, group, first, chance):
        """Name the round of the next call: its group, and what ``first`` and ``chance`` were after the last one."""
        self.group = group
        self.first = first
        self.chance = chance

    def price(self, prices):
        """Take the prices of the request at hand, before its first stage is asked for, until ``return_to`` others."""
        self.scale_by(prices[self.R] / self.c[self.R])
        self.c[:] = prices

    def return_to(self, prices):
        """Return to the stated prices after the stages of a request at its own were decided."""
        self.scale = 1.0
        self.c[:] = prices

    def scale_by(self, scale):
        """Name what the request costs on the reference, over its stated price."""
        self.scale = doubled(scale)

    def next_stage(self, k, outputs, scores, rng):
        """Return the stage to call after stage k (-1: before the first), or -1; the last one called answers."""
        if k == self.R:
            return STOP
        b = self.bucket_of(self.group)
        if k < 0:
            return self.begin(b, rng)
        if k == self.first and self.chance == OPEN:
            if not self.toss(b, k, outputs[k], scores[k], rng):
                return STOP
            return self.onward(b, -1, outputs, rng)
        return self.onward(b, k, outputs, rng)

    def begin(self, b, rng):
        """Count a request, and return the first stage to call."""
        self.t += 1
        self.n[b] += 1
        self.tokens[b] = min(self.tokens[b] + self.eps, self.size_of_bucket())
        self.earned[b] += self.eps
        slot = self.meet_group(self.group)
        self.asked[(self.t - 1) % self.memory] = slot
        self.asked_scale[(self.t - 1) % self.memory] = self.scale
        self.allowed += self.budget if self.budget > 0.0 else (1.0 + OVERSPEND) * self.c[self.R]
        self.first = NOT_CALLED
        self.chance = 1.0
        m = self.model[b]
        poor = self.budget > 0.0 and self.spent + self.c[self.R] > self.allowed
        if poor and m < 0:
            m = self.cheapest()
        if m >= 0 and (poor or self.may_begin(b, m)) and (poor or toss_coin(self.f[b], rng)):
            if poor or self.form[b] == AFTER or self.is_worth(b, m, slot, rng):
                self.first = m
                self.chance = OPEN
                self.spent += self.c[m]
                return m
        return self.onward(b, -1, np.zeros(0, dtype=np.int64), rng)

    def may_begin(self, b, m):
        """Whether a cheap model may be asked first: the first comparisons are made, there are tokens and money."""
        if self.is_learning() or (self.eps > 0.0 and self.left(b) <= (1.0 if self.background else 0.0)):
            return False
        if not self.is_usable(m):  # at the prices of the request
            return False
        return self.budget > 0.0 or self.spent + self.c[m] + self.c[self.R] <= self.allowed

    def toss(self, b, k, label, score, rng):
        """Fix the chance of a comparison of this answer, and return whether it is compared."""
        poor = self.budget > 0.0 and self.spent + self.c[self.R] > self.allowed
        if poor and label != NOT_CALLED:  # for a model that failed the reference answers, whatever it costs
            self.blind[b] += 1
            return False
        self.chance = 1.0
        if self.model[b] == k and label != NOT_CALLED:  # a fit may have chosen another one meanwhile
            slot = self.slot_of_group(self.group)
            scored = not math.isnan(score)
            form = self.form[b]
            known = score if scored and form == AFTER else math.log(self.scale)
            r = self.risk(form, k, known, scored, self.slot_of_label(label), slot)
            if form == BEFORE or self.is_inside(b, r, rng):
                self.chance = self.chance_of(b, r)
        if self.shadow:
            self.would_answer += 1.0 - self.chance
            self.would_spend += self.c[k] + self.chance * self.c[self.R]
            return True
        compared = toss_coin(self.chance, rng)
        if compared and self.chance < 1.0:
            self.hold(b, self.chance, 1.0)
        return compared

    def chance_of(self, b, r):
        """Return pi of an answer inside the limit whose risk is r."""
        q = self.shadow_chance(self.n[b])
        low, high = max(0.5 * q, self.q_min), min(2.0 * q, SHADOW_MOST)
        pi = min(max(q * math.sqrt(r / self.mean_risk[b]), low), high)
        if self.eps > 0.0:
            left = self.left(b)
            if left <= 0.0 or (self.background and left < 1.0):
                return 1.0
            pi = max(pi, 1.0 / left if self.background else 1.0 / (1.0 + left))
        if self.sure and pi < 1.0 and not self.stays_sure(b, pi):
            return 1.0
        return min(pi, 1.0)

    def onward(self, b, k, outputs, rng):
        """Return the next stage where the reference will be called: other models in order, then the reference."""
        q = self.shadow_chance(self.n[b])
        learning = self.is_learning()
        for j in range(k + 1, self.K):
            if j == self.R or j == self.first or not self.is_usable(j):
                continue
            if j < outputs.size and outputs[j] != NOT_CALLED:
                continue
            if self.spent + self.c[j] + self.c[self.R] > self.allowed or not self.is_worth_learning(
                j, learning
            ):
                continue
            price = max(self.c[j], EXPLORE * self.c[self.R])
            if toss_coin(1.0 if learning else q * (EXPLORE * self.c[self.R] / price), rng):
                self.spent += self.c[j]
                if learning:
                    self.learned += self.c[j]
                return j
        self.spent += self.c[self.R]
        if self.shadow and self.first < 0:
            self.would_spend += self.c[self.R]
        return self.R

    def is_learning(self):
        """Whether the first comparisons of all models are still to be made."""
        if self.t > FIRST_ROUNDS:
            return False
        for k in range(self.K):
            if k != self.R and self.is_usable(k) and self.comparisons[k] < FIRST:
                return True
        return False

    def is_worth_learning(self, k, learning):
        """Whether so many requests are expected that a comparison of model k pays."""
        if self.expected == 0:
            return True
        if self.expected < FEW:
            return False
        return not learning or self.learned + self.c[k] <= OVERSPEND * self.c[self.R] * self.expected

    def is_usable(self, k):
        """Whether a model is so much cheaper than the reference that something can be saved."""
        return self.c[k] < (1.0 - self.q_min) * self.c[self.R]

    def cheapest(self):
        """Return the cheapest stage, or -1 if that is the reference."""
        best = self.R
        for k in range(self.K):
            if self.c[k] < self.c[best]:
                best = k
        return NOT_CALLED if best == self.R else best

    def shadow_chance(self, n):
        """Return q, the chance of a comparison after n requests."""
        return min(max(math.exp(-math.log(max(n, YOUNG)) / 3.0), self.q_min), SHADOW_MOST)

    def is_worth(self, b, m, slot, rng):
        """Whether model m may be called for a request of this group, by its risk and what it costs."""
        r = self.risk(BEFORE, m, math.log(self.scale), False, LABELS, slot)
        return self.is_inside(b, r / self.scale, rng) and r <= self.highest_risk(BEFORE, m)

    def is_inside(self, b, r, rng):
        """Whether an answer with risk r may go out."""
        if r == self.limit[b]:
            return toss_coin(self.share[b], rng)
        return r < self.limit[b]

    def risk(self, form, k, score, scored, label, group):
        """Return the index of an answer: the probability that it differs, as learned.

        Before the call ``score`` is the logarithm of what the request costs, as ``scale``.
        """
        theta = self.theta[form, k]
        z = theta[0]
        if form == BEFORE:
            z += theta[1] * score
        if form == AFTER:
            if scored:
                u = self.rank(k, score)
                z += theta[1] * u
                z += theta[2] * (u * u - 0.33)
            else:
                z += theta[3]
            if label < LABELS:
                z += theta[PLAIN + label]
        if group < GROUPS:
            z += theta[PLAIN + LABELS + group]
        return logistic(z)

    def rank(self, k, score):
        """Return u = 2 * (mid-rank among the last scores) - 1, or 0 if there are none."""
        n = self.ranked[k]
        if n == 0:
            return 0.0
        return (
            count_below(self.ranks[k], n, score, False) + count_below(self.ranks[k], n, score, True)
        ) / n - 1.0

    # -- tokens and the bound

    def size_of_bucket(self):
        """Return how many tokens are kept at most."""
        return self.bucket if self.bucket > 0.0 else max(50.0, 1000.0 * self.eps)

    def left(self, b):
        """Return the tokens that no comparison under way may take."""
        return self.tokens[b] - self.held[b]

    def weight(self, pi):
        """Return for how many answers a comparison with chance pi stands."""
        return 1.0 / pi if self.background else (1.0 - pi) / pi

    def toll(self, j, pi):
        """Return a(lambda_j, pi), by which a caught difference raises the bound."""
        if self.background:
            return -math.log((math.exp(-self.rates[j]) - (1.0 - pi)) / pi)
        return -math.log(1.0 - (1.0 - pi) / pi * (math.exp(self.rates[j]) - 1.0))

    def hold(self, b, pi, sign):
        """Reserve what a comparison under way may take, or (sign -1) free it."""
        self.open[b] += 1 if sign > 0.0 else -1
        self.held[b] += sign * self.weight(pi)
        for j in range(self.rates.size):
            self.held_a[b, j] += sign * self.toll(j, pi)
        if self.open[b] == 0:  # no residue of rounding
            self.held[b] = 0.0
            self.held_a[b, :] = 0.0

    def charge(self, b, D, pi):
        """Take what a compared answer that differs by D stands for."""
        w = self.weight(pi)
        self.estimate[b] += w * D
        self.tokens[b] -= w * D
        if abs(self.tokens[b]) < TINY:
            self.tokens[b] = 0.0
        self.V[b] += w * D * D / pi
        for j in range(self.rates.size):
            self.A[b, j] += self.toll(j, pi) * D

    def stays_sure(self, b, pi):
        """Whether U stays at or below what was earned if this comparison and all under way differ."""
        total = 0.0
        level = self.earned[b] - self.blind[b]
        for j in range(self.rates.size):
            power = self.rates[j] * level - self.A[b, j] - self.held_a[b, j] - self.toll(j, pi)
            total += math.exp(min(power, 700.0))
        return level > 0.0 and total / self.rates.size >= 1.0 / DELTA

    def at_most(self, b):
        """Return U: at most so many answers of a bucket differ, at all times at once, with 95 %."""
        high = math.inf
        for j in range(self.rates.size):
            found = math.log(self.rates.size / DELTA) + self.A[b, j] + self.held_a[b, j]
            high = min(high, found / self.rates[j])
        low = 0.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            total = 0.0
            for j in range(self.rates.size):
                total += math.exp(min(self.rates[j] * middle - self.A[b, j] - self.held_a[b, j], 700.0))
            if total / self.rates.size <= 1.0 / DELTA:
                low = middle
            else:
                high = middle
        return high + self.blind[b]

    def lost(self):
        """Count the comparison under way of the round named by ``turn_to`` as differing: it never comes back."""
        if self.chance < 1.0 and self.chance != OPEN:
            self.settle(self.bucket_of(self.group), 1.0)

    def spared(self):
        """Free what the comparison under way has reserved: its model failed, so that no answer could have gone out."""
        if self.chance < 1.0 and self.chance != OPEN:
            self.settle(self.bucket_of(self.group), 0.0)

    def can_go_blind(self):
        """Whether there is a token for an answer that goes out without a comparison, as when the reference fails."""
        return self.eps == 0.0 or self.left(self.bucket_of(self.group)) >= 1.0

    def go_blind(self):
        """Count an answer of this group that goes out without a comparison as differing."""
        b = self.bucket_of(self.group)
        self.blind[b] += 1
        self.tokens[b] -= 1.0 if self.eps > 0.0 else 0.0

    # -- learning

    def update(self, arm, outputs, scores, chances, rng):
        """Learn from the answers of the stages called; ``outputs`` is -1 where a stage was not called."""
        if arm < 0 or arm >= self.K:
            raise ValueError("arm must be one of the policy's stages")
        if (
            outputs.size > self.K
            or scores.size != outputs.size
            or arm >= outputs.size
            or outputs[arm] == NOT_CALLED
        ):
            raise ValueError("outputs and scores must be those of the stages called, arm among them")
        b = self.bucket_of(self.group)
        group = self.slot_of_group(self.group)
        judged = outputs.size > self.R and outputs[self.R] != NOT_CALLED
        for k in range(outputs.size):
            if k != self.R and outputs[k] != NOT_CALLED:
                scored = not math.isnan(scores[k])
                score = scores[k] if scored else math.log(self.scale)
                label = self.meet_label(outputs[k])
                self.keep_call(k, score, scored, label, group)
                if judged:
                    D = 0.0 if outputs[k] >= 0 and outputs[k] == outputs[self.R] else 1.0
                    self.keep_comparison(k, score, scored, label, group, D)
                    if k == self.first and self.chance < 1.0 and self.chance != OPEN:
                        self.settle(b, D)
        if self.t >= self.next_fit:
            self.refit()

    def settle(self, b, D):
        """Take the result of the comparison of an answer that might have gone out."""
        if self.shadow:  # on average
            self.would_differ += (1.0 - self.chance) * D
            self.tokens[b] = max(self.tokens[b] - (1.0 - self.chance) * D, 0.0)
        else:
            self.hold(b, self.chance, -1.0)
            self.charge(b, D, self.chance)

    def keep_call(self, k, score, scored, label, group):
        """Keep a request on which model k was called."""
        r = self.calls[k] % self.memory
        self.calls[k] += 1
        self.call_score[k, r] = score
        self.call_scored[k, r] = scored
        self.call_label[k, r] = label
        self.call_group[k, r] = group

    def keep_comparison(self, k, score, scored, label, group, D):
        """Keep a comparison of model k with the reference."""
        r = self.comparisons[k] % self.memory
        self.comparisons[k] += 1
        self.score[k, r] = score
        self.scored[k, r] = scored
        self.label[k, r] = label
        self.place[k, r] = group
        self.D[k, r] = D

    def bucket_of(self, group):
        """Return the bucket that pays for a group."""
        return min(self.slot_of_group(group), BUCKETS - 1) if self.each else 0

    def slot_of_group(self, group):
        """Return the number of a group in the order of appearance; a new one gets the next number."""
        for i in range(self.group_count):
            if self.group_ids[i] == group:
                return i
        return self.group_count

    def meet_group(self, group):
        """Number a group for good, while there is room."""
        slot = self.slot_of_group(group)
        if slot == self.group_count and slot < self.group_ids.size:
            self.group_ids[slot] = group
            self.group_count += 1
        return slot

    def slot_of_label(self, label):
        """Return the number of a label in the order of appearance, or ``LABELS`` if it has none."""
        for i in range(self.label_count):
            if self.label_ids[i] == label:
                return i
        return LABELS

    def meet_label(self, label):
        """Number a label for good, while there is room."""
        slot = self.slot_of_label(label)
        if slot == LABELS and self.label_count < LABELS and label >= 0 and label < PASSING:
            slot = self.label_count
            self.label_ids[slot] = label
            self.label_count += 1
        return slot

    # -- choosing the model and its limit

    def refit(self):
        """Fit all indices, and choose a model and its limit for every bucket."""
        self.next_fit = self.t + 10 + math.ceil(0.05 * self.t)
        for k in range(self.K):
            if k == self.R or not self.is_usable(k) or self.comparisons[k] < FEWEST:
                continue
            self.rank_again(k)
            if not self.before:
                self.fit(AFTER, k)
            if self.before or self.ranked[k] == 0:
                self.fit(BEFORE, k)
        for b in range(self.model.size):
            if self.n[b] > 0:
                self.choose(b)

    def rank_again(self, k):
        """Take the last scores of a model as those among which others are ranked."""
        n = 0
        for age in range(min(self.calls[k], self.memory)):
            r = (self.calls[k] - 1 - age) % self.memory
            if self.call_scored[k, r] and n < REFERENCE:
                self.ranks[k, n] = self.call_score[k, r]
                n += 1
        self.ranks[k, :n] = np.sort(self.ranks[k, :n])
        self.ranked[k] = n

    def fit(self, form, k):
        """Take up to five Newton steps of the ridge-logistic regression of D, from where the last fit ended."""
        n = min(self.comparisons[k], self.memory)
        theta = self.theta[form, k]
        where = np.zeros((n, 5), dtype=np.int64)  # a row has at most five features that are not 0
        value = np.zeros((n, 5))
        size = np.zeros(n, dtype=np.int64)
        for r in range(n):
            size[r] = self.describe(form, k, r, where[r], value[r])
        H = np.zeros((FEATURES, FEATURES))
        Q = np.zeros((FEATURES, FEATURES))
        gradient = np.zeros(FEATURES)
        step = np.zeros(FEATURES)
        for _ in range(NEWTON_STEPS):
            for i in range(FEATURES):
                ridge = RIDGE if i < 3 else RIDGE_MORE
                for j in range(FEATURES):
                    H[i, j] = 0.0
                H[i, i] = ridge
                gradient[i] = -ridge * (theta[i] - (CENTRE if i == 0 else 0.0))
            for r in range(n):
                z = 0.0
                for i in range(size[r]):
                    z += theta[where[r, i]] * value[r, i]
                p = logistic(z)
                w = p * (1.0 - p)
                for i in range(size[r]):
                    gradient[where[r, i]] += (self.D[k, r] - p) * value[r, i]
                    for j in range(i + 1):  # features are in order: the lower triangle
                        H[where[r, i], where[r, j]] += w * value[r, i] * value[r, j]
            invert(H, Q)
            times(Q, gradient, step)
            change = 0.0
            for i in range(FEATURES):
                change += abs(step[i])
            for i in range(FEATURES):
                theta[i] += step[i] / max(change, 1.0)
            if inner(gradient, step) <= 1e-10:
                break

    def describe(self, form, k, r, where, value):
        """Write the features of a kept comparison that are not 0; return how many there are."""
        where[0] = 0
        value[0] = 1.0
        n = 1
        if form == AFTER:
            if self.scored[k, r]:
                u = self.rank(k, self.score[k, r])
                where[1] = 1
                value[1] = u
                where[2] = 2
                value[2] = u * u - 0.33
                n = 3
            else:
                where[1] = 3
                value[1] = 1.0
                n = 2
            if self.label[k, r] < LABELS:
                where[n] = PLAIN + self.label[k, r]
                value[n] = 1.0
                n += 1
        elif not self.scored[k, r] and self.score[k, r] != 0.0:
            where[1] = 1
            value[1] = self.score[k, r]
            n = 2
        if self.place[k, r] < GROUPS:
            where[n] = PLAIN + LABELS + self.place[k, r]
            value[n] = 1.0
            n += 1
        return n

    def choose(self, b):
        """Choose the model, the limit, the share at ties and f of a bucket."""
        self.model[b] = NOT_CALLED
        target = self.target(b)
        # with a budget the value is minus the share that differs, else the money saved
        best = -math.inf if self.budget > 0.0 and self.room() < self.c[self.R] else 0.0
        for k in range(self.K):
            if k == self.R or not self.is_usable(k) or self.comparisons[k] < FEWEST:
                continue
            for form in range(2):
                if form == AFTER and self.before:
                    continue
                if form == BEFORE and not self.before and self.ranked[k] > 0:
                    continue
                r, weight, scale = self.risks(form, k, b)
                if weight.sum() > 0.0:
                    best = self.weigh(b, k, form, r, weight, scale, target, best)

    def risks(self, form, k, b):
        """Return the indices of the last requests on which k was called, or of the last ones, in the order of limits.

        And their weights (a call by the group stands for the requests of its group), and what they cost, as ``scale``.
        """
        n = min(self.t if form == BEFORE else self.calls[k], self.memory)
        found = np.zeros(n)
        weight = np.ones(n)
        scale = np.ones(n)
        by_group = form == AFTER and self.ranked[k] == 0 and self.group_count > 1
        stands_for = self.stands_for(k) if by_group else np.ones(BUCKETS)
        m = 0
        for r in range(n):
            group = self.asked[r] if form == BEFORE else self.call_group[k, r]
            if self.each and min(group, BUCKETS - 1) != b:
                continue
            if form == BEFORE:
                scale[m] = self.asked_scale[r]
                found[m] = self.risk(form, k, math.log(scale[m]), False, LABELS, group)
            else:
                found[m] = self.risk(
                    form, k, self.call_score[k, r], self.call_scored[k, r], self.call_label[k, r], group
                )
            weight[m] = stands_for[min(group, BUCKETS - 1)]
            m += 1
        order = np.argsort(found[:m] / scale[:m], kind="mergesort")
        return found[order], weight[order], scale[order]

    def stands_for(self, k):
        """Return by group how many of the last requests there are for each on which k was called."""
        requests = np.zeros(BUCKETS)
        called = np.zeros(BUCKETS)
        for r in range(min(self.t, self.memory)):
            requests[min(self.asked[r], BUCKETS - 1)] += 1.0
        for r in range(min(self.calls[k], self.memory)):
            called[min(self.call_group[k, r], BUCKETS - 1)] += 1.0
        return requests / np.maximum(called, 1.0)

    def target(self, b):
        """Return the share of a bucket's answers that may differ from now on."""
        if self.eps == 0.0:
            return math.inf
        n = self.n[b]
        q = self.shadow_chance(n)
        spare = self.left(b) - Z * math.sqrt(self.V[b] + (1.0 - q) / (q * q))
        if self.sure:
            spare = self.earned[b] - self.at_most(b)
        return min(max(self.eps + spare / max(n, AHEAD), 0.0), 2.0 * self.eps)

    def room(self):
        """Return what a request may cost from now on, with a budget."""
        return self.budget + (self.allowed - ALLOWANCE * self.c[self.R] - self.spent) / max(self.t, AHEAD)

    def weigh(self, b, k, form, r, weight, scale, target, best):
        """Take the best prefix of the sorted risks, if it is better than the best so far; return the better value."""
        n = r.size
        index = r / scale
        N = 0.0
        for j in range(n):
            N += weight[j]
        q = self.shadow_chance(self.n[b])
        most = self.highest_risk(form, k)
        d = 0.0
        total = 0.0
        W = 0.0
        money = 0.0  # of the reference in the prefix, over its stated price
        found = 0
        for j in range(1, n + 1):
            if r[j - 1] > most:
                continue
            total += weight[j - 1] * r[j - 1]
            W += weight[j - 1]
            money += weight[j - 1] * scale[j - 1]
            sigma = (1.0 - q) * money / N
            d = (1.0 - q) * total / N
            asked = self.c[k] * (money / N if form == BEFORE else 1.0)
            f = 1.0
            if self.budget > 0.0:
                cost = asked + (1.0 - sigma) * self.c[self.R]
                if cost <= self.room():
                    value = -d
                elif j == n:  # no share is large enough: the nearest to the budget
                    value = -10.0 - cost / self.c[self.R]
                else:
                    continue
            elif self.eps == 0.0:
                value = sigma * self.c[self.R] - asked - d * self.error_cost
            elif form == AFTER:
                f = 1.0 if d <= target else target / d
                value = f * (sigma * self.c[self.R] - asked)
            elif d <= target:
                value = sigma * self.c[self.R] - asked
            else:
                break
            if value > best:
                best = value
                found = j
                self.model[b] = k
                self.form[b] = form
                self.f[b] = f
                self.mean_risk[b] = max(total / W, TINY)
                self.limit[b] = index[j - 1]
            if self.budget > 0.0:
                break  # a longer prefix only differs more
        if found > 0:
            below = count_below(index, n, self.limit[b], False)
            self.share[b] = (found - below) / (count_below(index, n, self.limit[b], True) - below)
        return best

    def highest_risk(self, form, k):
        """Return the own risk above which no answer goes out."""
        most = max(0.25, 5.0 * self.eps) if self.eps > 0.0 else 1.0
        if self.error_cost > 0.0:
            most = min(most, (self.c[self.R] - (self.c[k] if form == BEFORE else 0.0)) / self.error_cost)
        return most
