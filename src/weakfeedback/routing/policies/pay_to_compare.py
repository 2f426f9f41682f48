"""Pay-to-compare: trust the model that is cheapest by the posterior, and compare only while it is worth the price."""

import copy
import math

import numpy as np

from weakfeedback.contract.models import square_of
from weakfeedback.routing.alike import pooled
from weakfeedback.routing.events import added
from weakfeedback.routing.prices import model_prices
from weakfeedback.routing.tails import below, mean_excess
from weakfeedback.validate import integer, number

LEAST_PRICE = 1e-6  # minimum price of a comparison, relative to the last model: free ones must end, too


class PayToCompare:
    """Settles on the model that is cheapest by the posterior, and compares a pair only while it is worth the price.

    For models i < j with prices c_i <= c_j, d = c_j - c_i and disagreement p ~ Beta(1 + D_ij, 1 + N_ij - D_ij):

        cheap_ij = E[(p - d - rho c_j)^+]     expected loss per round of trusting i where j is better
        low_ij   = P(p < d)                   probability that i would have been good enough
        dear_ij  = low_ij d                   expected loss per round of trusting j where i would do

    It settles on the first model i with cheap_ij <= dear_ij for all j > i, else on the last. A verdict is checked
    again, by calling both models, while

        rounds ahead x expected loss of the verdict > kappa x price of one comparison x (comparisons of the pair + 1),

    so a pair never costs more in comparisons than a wrong verdict on it is still expected to cost. Rounds ahead are
    ``horizon - t`` if the horizon is known, else as many as were played (since models were removed), at least
    ``least``. A comparison is made only if the total spent then stays at or below c_K ((1 + overspend) t + allowance):
    never more than the last model alone, plus 5 %, plus 50 calls, whatever the models answer. The policy learns from
    all pairs called. Whether to compare does not depend on the sample.

    A request may have prices of its own (``price``, then ``return_to`` the stated ones once it is started). The bound
    is then (1 + overspend) x what the last model alone would have cost for all requests, plus allowance of its calls.

    Draws: none.

    Parameters
    ----------
    prices : K non-decreasing numbers >= 0, the last > 0
        ``prices[k]`` is what a call of model ``k`` alone costs, in units of an error.
    rho : number >= 0
        Tolerance: a model may cost at most the share ``rho`` of a later model's price more than that one.
    kappa : number > 0
        Patience of the rule: a smaller value compares longer.
    horizon : integer >= 0 or None
        How many rounds there will be; None or 0 if not known.
    least : integer >= 1
        Minimum number of rounds assumed to lie ahead if the horizon is not known.
    memory : integer >= 0 or None
        For how many rounds behaviour is trusted to stay the same: older comparisons fade, and pairs are compared again.
        None or 0: nothing fades.
    overspend, allowance : numbers >= 0
        The bound on the money, relative to the last model alone and in calls of it.

    Examples
    --------
    Two models that never disagree: the second is not worth its price.

    >>> policy = PayToCompare(prices=[0.05, 0.40])
    >>> calls = np.zeros(2, dtype=int)
    >>> for _ in range(1000):
    ...     call = policy.select(None)
    ...     policy.start(call, None)
    ...     policy.update(call, np.ones(call.sum()), None)
    ...     calls += call
    >>> calls.tolist(), policy.settled()
    ([1000, 7], 0)
    """

    in_short = "the cheapest by the posterior; compares while worth it"
    delay_safe = True
    recostable = True  # nothing that is learned depends on the prices
    before = {"last": 0.0, "more": 0.0, "begun": 0}  # noqa: RUF012

    def __init__(
        self,
        prices,
        rho=0.05,
        kappa=1.0,
        horizon=None,
        least=1000,
        memory=None,
        overspend=0.05,
        allowance=50,
    ):
        self.c = model_prices(prices)
        self.K = self.c.size
        self.rho = number("rho", rho, at_least=0.0)
        self.kappa = number("kappa", kappa, above=0.0)
        self.horizon = 0 if horizon is None else integer("horizon", horizon, 0)
        self.least = integer("least", least, 1)
        self.memory = 0 if memory is None else integer("memory", memory, 0)
        self.overspend = number("overspend", overspend, at_least=0.0)
        self.allowance = number("allowance", allowance, at_least=0.0)
        self.D = np.zeros((self.K, self.K))  # disagreements of models i < j
        self.N = np.zeros((self.K, self.K))  # their comparisons
        self.asked = np.zeros((self.K, self.K))  # open comparisons
        self.cheap = np.zeros((self.K, self.K))  # functions of D and N, cached until these change
        self.low = np.zeros((self.K, self.K))
        self.t = 0  # rounds played
        self.since = 0  # the rounds before the current prices
        self.begun = 0  # the rounds before models were removed
        self.spent = 0.0  # at the current prices
        self.last = 0.0  # the stated price of the last model while a request has its own prices, else 0
        self.more = 0.0  # what the last model alone would have cost above its stated price
        self.weigh_all()

    def select(self, rng):
        """Return which models to call: the last of them answers, and it is never cheaper than the settled one."""
        return self.compared()

    def compared(self):
        """Return the settled model and those that it pays to compare."""
        a = self.settled()
        call = np.zeros(self.K, dtype=np.bool_)
        call[a] = True
        for j in range(a + 1, self.K):  # check that a is good enough
            if self.pays(a, j, self.cheap[a, j], self.c[j]):
                call[j] = True
        for i in range(a):  # check that i is not good enough
            m = self.firmest_refusal(i)
            if self.pays(i, m, self.loss_of_refusal(i, m, a), self.price_of_refusal(i, m, a)):
                call[i] = True
                call[m] = True
        if self.is_too_dear(call):
            for k in range(self.K):
                call[k] = k == a
        return call

    def settled(self):
        """Return the first model whose verdicts against all later ones are in its favour, else the last."""
        return self.first_accepted()

    def first_accepted(self):
        """Return the first model that no later one refuses, else the last."""
        for i in range(self.K - 1):
            accepted = True
            for j in range(i + 1, self.K):
                if self.refuses(i, j):
                    accepted = False
            if accepted:
                return i
        return self.K - 1

    def refuses(self, i, j):
        """Whether trusting i is expected to lose more against j than trusting j against i."""
        return self.cheap[i, j] > self.low[i, j] * (self.c[j] - self.c[i])

    def loss_of_refusal(self, i, m, a):
        """Return what refusing i because of m is expected to lose per round while a answers."""
        return self.low[i, m] * (self.c[a] - self.c[i])

    def price_of_refusal(self, i, m, a):
        """Return what comparing i with m costs in addition to the answer of a."""
        return self.c[i] + (self.c[m] if m != a else 0.0)

    def firmest_refusal(self, i):
        """Return the model that refuses i with the smallest probability of being wrong."""
        found = -1
        for j in range(i + 1, self.K):
            if self.refuses(i, j) and (found < 0 or self.low[i, j] < self.low[i, found]):
                found = j
        return found

    def evidence(self):
        """Return copies of the disagreements and comparisons by which it settles."""
        return self.D.copy(), self.N.copy()

    def ahead(self):
        """Return the number of rounds for which a verdict is expected to matter."""
        rounds = self.horizon - self.t if self.horizon > 0 else max(self.least, self.t - self.begun + 1)
        return min(rounds, self.memory) if self.memory > 0 else rounds

    def pays(self, i, j, loss, price):
        """Whether the verdict on a pair may still cost more than its comparisons have cost."""
        compared = self.N[i, j] + self.asked[i, j] + 1.0
        return self.ahead() * loss > self.kappa * max(price, LEAST_PRICE * self.c[self.K - 1]) * compared

    def quiet(self, most):
        """Return for how many rounds, at most ``most``, the settled model will be called alone in any case."""
        a = self.settled()
        found = most
        if self.memory > 0:  # until counts fade
            every = max(1, self.memory // 200)
            found = min(found, every - 1 - self.t % every)
        for j in range(a + 1, self.K):
            found = self.quiet_on(a, j, self.cheap[a, j], self.c[j], found)
        for i in range(a):
            m = self.firmest_refusal(i)
            found = self.quiet_on(i, m, self.loss_of_refusal(i, m, a), self.price_of_refusal(i, m, a), found)
        return found

    def quiet_on(self, i, j, loss, price, most):
        """Return for how many rounds, at most ``most``, comparing a pair does not pay; then it pays until compared."""
        begin = self.t
        least, beyond = 0, most + 1
        while beyond - least > 1:
            middle = (least + beyond) // 2
            self.t = begin + (middle - 1 if self.horizon == 0 else 0)  # a known horizon only comes nearer
            if self.pays(i, j, loss, price):
                beyond = middle
            else:
                least = middle
        self.t = begin
        return least

    def rest(self, rounds):
        """Count ``rounds`` rounds in which the settled model was called alone."""
        self.spent = added(self.spent, self.c[self.settled()], rounds)
        self.t += rounds

    def price_of(self, call):
        """Return what these calls cost together."""
        total = 0.0
        for k in range(self.K):
            if call[k]:
                total += self.c[k]
        return total

    def is_too_dear(self, call):
        """Whether a comparison would break the bound on the money."""
        several = 0
        for k in range(self.K):
            several += call[k]
        rounds = self.t - self.since + 1
        c = self.c[self.K - 1]
        stated = self.last if self.last > 0.0 else c
        bound = stated * ((1.0 + self.overspend) * rounds + self.allowance)
        bound += (1.0 + self.overspend) * (self.more + (c - stated))
        return several > 1 and self.spent + self.price_of(call) > bound

    def price(self, prices):
        """Take the prices of the request at hand, in the order of the stated ones, until ``return_to`` these."""
        self.last = self.c[self.K - 1]
        for k in range(self.K):
            self.c[k] = prices[k]
        self.weigh_all()

    def return_to(self, prices):
        """Return to the stated prices after a request at its own was started."""
        self.more += self.c[self.K - 1] - prices[self.K - 1]
        self.last = 0.0
        for k in range(self.K):
            self.c[k] = prices[k]
        self.weigh_all()

    def start(self, call, rng):
        """Count a round that is actually played: its spending and its open comparisons."""
        self.begin(call)

    def begin(self, call):
        """Count a round of these calls."""
        self.t += 1
        self.spent += self.price_of(call)
        for i in range(self.K):
            for j in range(i + 1, self.K):
                if call[i] and call[j]:
                    self.asked[i, j] += 1.0
        if self.memory > 0 and self.t % max(1, self.memory // 200) == 0:
            self.forget()

    def forget(self):
        """Let old comparisons fade."""
        kept = math.exp(-max(1, self.memory // 200) / self.memory)
        self.fade(kept)
        self.weigh_all()

    def fade(self, kept):
        """Multiply all counts."""
        for i in range(self.K):
            for j in range(i + 1, self.K):
                self.D[i, j] *= kept
                self.N[i, j] *= kept

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
        """Add the outcome of one comparison, which is no longer open."""
        self.asked[i, j] -= 1.0
        self.add(i, j, differed)

    def add(self, i, j, differed):
        """Add one comparison of a pair."""
        self.N[i, j] += 1.0
        if differed:
            self.D[i, j] += 1.0
        self.weigh(i, j)

    def warm_pairs(self, differ):
        """Learn from a sample that all models answered, outside of any round: ``differ[i, j]`` for i < j."""
        for i in range(self.K):
            for j in range(i + 1, self.K):
                self.add(i, j, differ[i, j])

    def cancel(self, call):
        """Close the comparisons of a round that was not answered; the round and its spending stay counted."""
        for i in range(self.K):
            for j in range(i + 1, self.K):
                if call[i] and call[j]:
                    self.asked[i, j] -= 1.0

    def weigh(self, i, j):
        """Recompute the losses of both verdicts on a pair."""
        d = self.c[j] - self.c[i]
        s = 1.0 + self.D[i, j]
        f = 1.0 + self.N[i, j] - self.D[i, j]
        self.cheap[i, j] = mean_excess(s, f, min(1.0, d + self.rho * self.c[j]))
        self.low[i, j] = below(s, f, min(1.0, d))

    def weigh_all(self):
        """Recompute the losses of all verdicts."""
        for i in range(self.K):
            for j in range(i + 1, self.K):
                self.weigh(i, j)

    def reprice(self, prices):
        """Continue with new prices: the counts stay, the bound on spending restarts."""
        for k in range(self.K):
            self.c[k] = prices[k]
        self.since = self.t
        self.spent = 0.0
        self.more = 0.0
        self.weigh_all()

    def with_models(self, prices, kept, alike=True):
        """Return the policy for other models: ``kept[k]`` is what model k was before, -1 for a new one.

        What is known of pairs that stay is kept, no comparison is open, and the bound on spending restarts. If models
        are only removed, so do the rounds ahead: how long the former ones were used tells nothing of these. If the
        settled one is among them, all comparisons tell what pairs are like (`pooled`), unless ``alike`` is False.
        """
        found = copy.copy(self)
        found.c = model_prices(prices)
        found.K = found.c.size
        fresh = np.zeros((found.K, found.K))
        D, N = self.D, self.N
        if alike and min(kept) >= 0 and self.settled() not in kept:
            D, N = pooled(D, N)
        found.D, found.N = square_of(D, kept, fresh), square_of(N, kept, fresh)
        found.asked, found.cheap, found.low = fresh.copy(), fresh.copy(), fresh.copy()
        found.take_tables(self, kept)
        found.reprice(prices)
        if min(kept) >= 0:
            found.begun = found.t
        return found

    def take_tables(self, before, kept):
        """Take over other tables of the policy ``before`` the models changed."""
