"""Second-looks: Pay-to-compare, and a layer that may replace its model by a cheaper one, by groups of requests."""

import math

import numpy as np

from weakfeedback.contract.models import pairs_table, square_of
from weakfeedback.routing.alike import grid
from weakfeedback.routing.policies.pay_to_compare import LEAST_PRICE, PayToCompare
from weakfeedback.routing.prices import LEAST_YIELD, model_prices, yield_table
from weakfeedback.routing.tails import below, mean_excess
from weakfeedback.validate import brief, integer, number

MOST_FEATURES = 16
MOST_GROUPS = 1000
TRUSTED = ("nobody", "last", "conversations")
LEAST_SIZE = 0.05  # of the Beta distribution that stands for the mixture


class SecondLooks(PayToCompare):
    """Pay-to-compare, with second looks at cheaper models than the one it settled on, by groups of requests.

    Layer 0 is Pay-to-compare as it stands, with its own counts of its own comparisons. Say it settles on model a0.
    Layer 1 counts all comparisons, for each of the groups g of every feature q of the request as well, and goes down
    only: the first i < a0 answers in place of a0 for which, with d = c_a0 - c_i and the disagreement p here,

        E[(p - d - rho c_a0)^+] <= Pr(p < d) d .

    The law of p averages, by their evidence, the pooled Beta and for each feature a hierarchical one, whose groups
    have Beta(m mu, m (1 - mu)) with (mu, m) on a grid; it is matched to a Beta by mean and variance. A look at i, which
    costs c_i only where a0 answers anyway, or at a0 where i answers, is taken while

        rounds ahead x share of the group x expected loss > kappa x price x (comparisons of the pair in the group + 1)

    (if there is no money for a look at a0, a0 answers) and looks never cost more than the share ``omega`` of what
    Pay-to-compare spends, and a fifth of the allowance. So the money stays within c_K ((1 + overspend) t + allowance)
    and within (1 + omega) times that of Pay-to-compare, whatever the models answer. It never goes up: outputs alone
    cannot tell whether that would gain or lose.

    With ``trust="last"`` layer 0 is the last model alone, and compares nothing. A disagreement with it *is* an error,
    by your word, so layer 1 may settle every group by itself: of the models that are good enough, the one with the
    smallest price plus disagreement answers. The bounds then hold against the last model alone.

    Draws: none.

    Parameters
    ----------
    prices : K non-decreasing numbers >= 0, the last > 0
        ``prices[k]`` is what a call of model ``k`` alone costs, in units of an error. `price` gives those of a request.
    features : integer from 0 to 16
        How many groups a request belongs to, one by each feature (its task, its tenant, ...); 0 for no context.
    groups : integer from 1 to 1000
        How many groups of each feature are kept apart; all others are one.
    omega : number >= 0
        What looks may cost, as a share of what Pay-to-compare spends; at most ``overspend``.
    yields : K x K numbers up to 1, or None
        ``yields[i][j]`` is at least the share of disagreements of i < j in which j is better; None: 1, the worst case.
    trust : None or "nobody", "last" or "conversations"
        "last": the last model is right by your word, and cheaper ones answer only where they agree with it.
        "conversations": the same once `believe_last` is called, as a live router does at its first conversation. With
        both, ``least`` counts decisions, each with the later turns of its conversation (`follow`).
    rho, kappa, horizon, least, memory, overspend, allowance
        As for Pay-to-compare.

    Examples
    --------
    Two kinds of requests; the models differ in one of them only.

    >>> policy = SecondLooks(prices=[0.02, 0.2], features=1)
    >>> answers = np.zeros((2, 2), dtype=int)
    >>> for t in range(2000):
    ...     kind = t % 2
    ...     policy.turn_to([kind], [False, False])
    ...     call = policy.select(None)
    ...     policy.start(call, None)
    ...     policy.update(call, np.array([kind * (t % 4 == 1), 0])[call], None)
    ...     answers[kind, np.flatnonzero(call)[-1]] += 1
    >>> policy.settled(), answers.tolist()
    (1, [[930, 70], [0, 1000]])
    """

    in_short = "Pay-to-compare that goes down where cheaper models agree"
    scratch = ("own", "group")
    before = {  # noqa: RUF012
        **PayToCompare.before,
        "trusts_last": False,
        "trusts_talks": False,
        "followed": -1.0,
    }
    sample_problem = "groups"

    def __init__(
        self,
        prices,
        features=0,
        groups=64,
        omega=0.02,
        yields=None,
        rho=0.05,
        kappa=1.0,
        horizon=None,
        least=1000,
        memory=None,
        overspend=0.05,
        allowance=50,
        trust=None,
    ):
        K = model_prices(prices).size
        if trust is not None and not (isinstance(trust, str) and trust in TRUSTED):
            raise ValueError(f"trust must be one of {', '.join(TRUSTED)}, got {brief(trust)}")
        self.trusts_last = trust == "last"
        self.trusts_talks = trust == "conversations"
        # later turns of conversations, which decide nothing; -1: not counted
        self.followed = 0.0 if self.trusts_last or self.trusts_talks else -1.0
        self.yields = yield_table(yields, K)
        super().__init__(prices, rho, kappa, horizon, least, memory, overspend, allowance)
        self.stated = self.c.copy()
        self.Q = integer("features", features, 0, MOST_FEATURES)
        self.G = integer("groups", groups, 1, MOST_GROUPS)
        self.omega = min(number("omega", omega, at_least=0.0), self.overspend)
        self.looks = max(self.allowance / 5.0 - 0.01, 0.0)  # allowance of layer 1
        pairs = K * (K - 1) // 2
        # disagreements, comparisons and open ones of a pair in every group; feature 0 has one group, of all requests
        self.D1 = np.zeros((pairs, self.Q + 1, self.G + 1))
        self.N1 = np.zeros((pairs, self.Q + 1, self.G + 1))
        self.open = np.zeros((pairs, self.Q + 1, self.G + 1))
        self.grid, self.prior = grid()
        self.w = np.zeros((pairs, self.Q, self.prior.size)) + self.prior
        self.L = np.zeros((pairs, self.Q + 1))  # log-evidence
        self.seen = np.zeros((self.Q + 1, self.G + 1))  # requests of every group
        self.alone = 0.0  # what the last model alone would have cost at the current prices
        self.extra = 0.0  # spent on looks
        self.paid = 0.0  # spent in all; ``spent`` is what layer 0 would have spent by itself
        self.group = np.zeros(self.Q + 1, dtype=np.int64)  # of the request at hand
        self.own = np.zeros(K, dtype=np.bool_)  # what layer 0 calls for it

    def turn_to(self, groups, own):
        """Name the request of the next call: its groups, and what ``own`` was after its selection."""
        for q in range(self.Q):
            self.group[q + 1] = min(groups[q], self.G)
        for k in range(self.K):
            self.own[k] = own[k]

    def price(self, prices):
        """Take the prices of the request at hand, in the order of the stated ones, until it is started."""
        for k in range(self.K):
            self.c[k] = prices[k]
        self.weigh_all()

    def return_to(self, prices):
        """Nothing is left to do: ``start`` returns to the stated prices."""

    def select(self, rng):
        """Return which models to call: the last of them answers."""
        own = self.first_layer()
        want = np.zeros(self.K + 1, dtype=np.bool_)
        a = self.lower(want)
        several = 0
        for k in range(self.K):
            self.own[k] = own[k]
            several += own[k]
        call = np.zeros(self.K, dtype=np.bool_)
        more = np.zeros(self.K, dtype=np.bool_)
        wants = False
        for k in range(self.K):
            call[k] = own[k] if several > 1 else k == a
            more[k] = call[k] or want[k]
            wants = wants or (want[k] and not call[k])
        if wants and self.affords(own, more):
            return more
        return own if want[self.K] else call  # what should be checked, and cannot be, is not relied on

    def first_layer(self):
        """Return which models layer 0 calls."""
        if not self.trusts_last:
            return self.compared()
        own = np.zeros(self.K, dtype=np.bool_)
        own[self.K - 1] = True
        return own

    def settled(self):
        """Return the model that layer 0 trusts."""
        return self.K - 1 if self.trusts_last else self.first_accepted()

    def believe_last(self):
        """Believe the last model from now on: a disagreement with it is an error of the cheaper one."""
        self.trusts_last = True

    def follow(self):
        """Count the next round as a later turn of a conversation: it goes to the model of that one."""
        if self.followed >= 0.0:
            self.followed += 1.0

    def turns(self):
        """Return how many rounds a decision stands for: one, and the later turns of its conversation."""
        return self.t / max(self.t - self.followed, 1.0) if self.followed > 0.0 else 1.0

    def evidence(self):
        """Return copies of the disagreements and comparisons by which it settles; those of looks, if it trusts."""
        differed, compared = self.D.copy(), self.N.copy()
        if self.trusts_last:
            for i in range(self.K):
                for j in range(i + 1, self.K):
                    at = self.pair(i, j)
                    differed[i, j], compared[i, j] = self.D1[at, 0, 0], self.N1[at, 0, 0]
        return differed, compared

    def lower(self, want):
        """Return the model that answers here, not above the settled one.

        Write the models to look at into ``want``, and at its end whether the answering one should be checked.
        """
        a = self.settled()
        found, least, feature, loss = a, math.inf, 0, 0.0
        for i in range(a):
            s, f, q = self.estimate(i, a)
            d = self.c[a] - self.c[i]
            cheap = self.loss_of_cheap(i, a, s, f)
            dear = self.chance_of_cheap(i, a, s, f) * d
            if cheap <= dear:
                total = self.c[i] + self.yields[i, a] * s / (s + f)
                if total < least:
                    found, least, feature, loss = i, total, q, cheap
                if not self.trusts_last or self.followed < 0.0:  # the first will do
                    break
            elif found == a and self.pays_here(i, a, q, dear, self.c[i]):  # a answers anyway
                want[i] = True
                want[a] = True
        if found < a and self.pays_here(found, a, feature, loss, self.c[a]):  # is it really good enough here?
            want[a] = True
            want[self.K] = True
        return found

    def estimate(self, i, j):
        """Return the Beta distribution that stands for the disagreement here, and the feature with most evidence."""
        at = self.pair(i, j)
        best = min(self.Q, 1)
        top = self.L[at, 0]
        for q in range(1, self.Q + 1):
            top = max(top, self.L[at, q])
            if self.L[at, q] > self.L[at, best]:
                best = q
        s = 1.0 + self.D1[at, 0, 0]
        n = 2.0 + self.N1[at, 0, 0]
        total = math.exp(self.L[at, 0] - top)
        mean = total * s / n
        square = total * s / n * (s + 1.0) / (n + 1.0)
        for q in range(1, self.Q + 1):
            weight = math.exp(self.L[at, q] - top) / self.Q  # all features have the prior of the pooled one
            D, N = self.D1[at, q, self.group[q]], self.N1[at, q, self.group[q]]
            total += weight
            for r in range(self.prior.size):
                s = self.grid[r, 0] + D
                n = self.grid[r, 1] + N
                share = weight * self.w[at, q - 1, r] * s / n
                mean += share
                square += share * (s + 1.0) / (n + 1.0)
        mean /= total
        variance = square / total - mean * mean
        n = max(mean * (1.0 - mean) / variance - 1.0, LEAST_SIZE)
        return mean * n, (1.0 - mean) * n, best

    def pays_here(self, i, j, q, loss, price):
        """Whether the verdict on a pair in this group may still cost more than its comparisons there have cost."""
        at, g = self.pair(i, j), self.group[q]
        share = (self.seen[q, g] + 1.0) / (self.t + 1.0)
        compared = self.N1[at, q, g] + self.open[at, q, g] + 1.0
        least = LEAST_PRICE * self.c[self.K - 1]
        ahead = self.ahead()
        if self.followed > 0.0 and self.horizon == 0:  # ``least`` decisions, each with its later turns
            ahead = max(ahead, self.least * self.turns())
        return ahead * share * loss > self.kappa * max(price, least) * compared

    def affords(self, own, call):
        """Whether these calls stay within both bounds on the money."""
        price, alone = self.price_of(call), self.price_of(own)
        last = self.stated[self.K - 1]
        more = self.extra + max(price - alone, 0.0)
        bound = (1.0 + self.overspend) * (self.alone + self.c[self.K - 1]) + self.allowance * last
        return more <= self.omega * (self.spent + alone) + self.looks * last and self.paid + price <= bound

    def is_too_dear(self, call):
        """Whether a comparison of layer 0 would break its bound, which leaves room for looks."""
        several = 0
        for k in range(self.K):
            several += call[k]
        overspend = (1.0 + self.overspend) / (1.0 + self.omega)
        allowance = (self.allowance - self.looks) / (1.0 + self.omega) * self.stated[self.K - 1]
        bound = overspend * (self.alone + self.c[self.K - 1]) + allowance
        return several > 1 and self.spent + self.price_of(call) > bound

    def start(self, call, rng):
        """Count a round that is actually played, and return to the stated prices."""
        price, alone = self.price_of(call), self.price_of(self.own)
        self.paid += price
        self.extra += max(price - alone, 0.0)
        self.alone += self.c[self.K - 1]
        self.keep_open(call, 1.0)
        for q in range(self.Q + 1):
            self.seen[q, self.group[q]] += 1.0
        self.begin(self.own)
        other = False
        for k in range(self.K):
            other = other or self.c[k] != self.stated[k]
            self.c[k] = self.stated[k]
        if other:
            self.weigh_all()

    def keep_open(self, call, change):
        """Count open comparisons of the pairs called."""
        for i in range(self.K):
            for j in range(i + 1, self.K):
                if call[i] and call[j]:
                    for q in range(self.Q + 1):
                        self.open[self.pair(i, j), q, self.group[q]] += change

    def count(self, i, j, differed):
        """Add the outcome of one comparison, which is no longer open; layer 0 learns only from its own."""
        for q in range(self.Q + 1):
            self.open[self.pair(i, j), q, self.group[q]] -= 1.0
        if self.own[i] and self.own[j]:
            self.asked[i, j] -= 1.0
            self.add(i, j, differed)
        self.learn(i, j, differed)

    def learn(self, i, j, differed):
        """Add one comparison to layer 1."""
        at = self.pair(i, j)
        s, n = 1.0 + self.D1[at, 0, 0], 2.0 + self.N1[at, 0, 0]
        self.L[at, 0] += math.log((s if differed else n - s) / n)
        for q in range(1, self.Q + 1):
            D, N = self.D1[at, q, self.group[q]], self.N1[at, q, self.group[q]]
            total = 0.0
            for r in range(self.prior.size):
                s = self.grid[r, 0] + D
                n = self.grid[r, 1] + N
                self.w[at, q - 1, r] *= (s if differed else n - s) / n
                total += self.w[at, q - 1, r]
            self.L[at, q] += math.log(total)
            for r in range(self.prior.size):
                self.w[at, q - 1, r] /= total
        for q in range(self.Q + 1):
            self.N1[at, q, self.group[q]] += 1.0
            if differed:
                self.D1[at, q, self.group[q]] += 1.0

    def warm_pairs(self, differ):
        """Learn from a sample that all models answered, outside of any round: ``differ[i, j]`` for i < j."""
        for i in range(self.K):
            for j in range(i + 1, self.K):
                self.add(i, j, differ[i, j])
                self.learn(i, j, differ[i, j])

    def cancel(self, call):
        """Close the comparisons of a round that was not answered; the round and its spending stay counted."""
        self.keep_open(call, -1.0)
        for i in range(self.K):
            for j in range(i + 1, self.K):
                if self.own[i] and self.own[j]:
                    self.asked[i, j] -= 1.0

    def weigh(self, i, j):
        """Recompute the losses of both verdicts of layer 0 on a pair."""
        s, f = 1.0 + self.D[i, j], 1.0 + self.N[i, j] - self.D[i, j]
        self.cheap[i, j] = self.loss_of_cheap(i, j, s, f)
        self.low[i, j] = self.chance_of_cheap(i, j, s, f)

    def loss_of_cheap(self, i, j, s, f):
        """Return E[(y p - d - rho c_j)^+], the expected loss of trusting i where j is better."""
        share = self.yields[i, j]
        d = self.c[j] - self.c[i]
        return share * mean_excess(s, f, min(1.0, (d + self.rho * self.c[j]) / share))

    def chance_of_cheap(self, i, j, s, f):
        """Return Pr(y p < d), the probability that i is good enough."""
        return below(s, f, min(1.0, (self.c[j] - self.c[i]) / self.yields[i, j]))

    def fade(self, kept):
        """Multiply all counts, and let what was learned of the groups fade."""
        self.D *= kept
        self.N *= kept
        self.D1 *= kept
        self.N1 *= kept
        self.L *= kept
        for at in range(self.w.shape[0]):
            for q in range(self.Q):
                total = 0.0
                for r in range(self.prior.size):
                    self.w[at, q, r] = self.w[at, q, r] ** kept * self.prior[r] ** (1.0 - kept)
                    total += self.w[at, q, r]
                for r in range(self.prior.size):
                    self.w[at, q, r] /= total

    def take_yields(self, yields):
        """Decide with these yields from now on."""
        for i in range(self.K):
            for j in range(self.K):
                self.yields[i, j] = max(yields[i, j], LEAST_YIELD)
        self.weigh_all()

    def reprice(self, prices):
        """Continue with new prices: the counts stay, the bounds on spending restart."""
        for k in range(self.K):
            self.c[k] = prices[k]
            self.stated[k] = prices[k]
        self.since = self.t
        self.spent = 0.0
        self.alone = 0.0
        self.extra = 0.0
        self.paid = 0.0
        self.weigh_all()

    def take_tables(self, before, kept):
        """Take over what is known of the groups of pairs that stay, and their yields."""
        K = self.K
        fresh = np.zeros((K * (K - 1) // 2, self.Q + 1, self.G + 1))
        self.D1 = pairs_table(before.D1, kept, before.K, fresh)
        self.N1 = pairs_table(before.N1, kept, before.K, fresh)
        self.open = fresh
        self.w = pairs_table(
            before.w, kept, before.K, np.zeros((len(fresh), self.Q, self.prior.size)) + self.prior
        )
        self.L = pairs_table(before.L, kept, before.K, np.zeros((len(fresh), self.Q + 1)))
        self.yields = square_of(before.yields, kept, np.ones((K, K)))
        self.stated = self.c.copy()
        self.seen, self.group = before.seen.copy(), before.group.copy()
        self.own = np.zeros(K, dtype=np.bool_)

    def pair(self, i, j):
        """Return the number of a pair i < j."""
        return i * (2 * self.K - i - 1) // 2 + j - i - 1
