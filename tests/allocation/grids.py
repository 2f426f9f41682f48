"""CSB-TS and CSB-TS-same by enumeration: every candidate and every set of arms, integrals in fractions.

Everything that was seen is kept as it came. Nothing is taken from the policies but their constants K, C, Q, reward.
"""

import functools
import itertools
import math
from fractions import Fraction

import numpy as np


@functools.cache
def integral(ones, zeros):
    """The integral of x^ones (1 - x)^zeros over [0, 1], the second factor multiplied out."""
    terms = (Fraction(math.comb(zeros, j) * (-1) ** j, ones + j + 1) for j in range(zeros + 1))
    return sum(terms, Fraction(0))


class Recorder:
    """A generator that remembers what it was asked and what it said."""

    def __init__(self, seed):
        self.rng, self.said = np.random.default_rng(seed), []

    def random(self):
        self.said.append(("random", self.rng.random()))
        return self.said[-1][1]

    def beta(self, a, b):
        self.said.append(("beta", a, b, self.rng.beta(a, b)))
        return self.said[-1][-1]

    def take(self):
        """What was said since the last time."""
        said, self.said = self.said, []
        return iter(said)


class Enumeration:
    """What is common: outcomes by arm, of each the place, x and its bit. Candidates are numbered by ``order``."""

    def __init__(self, policy):
        self.K, self.reward = policy.K, policy.reward
        self.seen = [[] for _ in range(policy.K)]

    def enter(self, allocation, observed, said):
        """Take the outcomes of a round; ``said`` are the coins that the policy threw."""
        for i in range(self.K):
            place, x = self.place(allocation, i), float(observed[i])  # NumPy's integers overflow in fractions
            if self.reward and place == 0:
                continue
            bit = next(said)[1] < x if 0 < x < 1 else x >= 1
            self.seen[i].append((place, x, int(bit)))
        assert next(said, None) is None  # no other draws

    def ones(self, i):
        """P and S."""
        return sum(x > 0 for _, x, _ in self.seen[i]), sum(bit for _, _, bit in self.seen[i])

    def zeros(self, i, candidate):
        """F of an arm under a candidate: zeros where it was not served (losses), where it was (rewards)."""
        return sum(x <= 0 and self.serves(place, candidate) == self.reward for place, x, _ in self.seen[i])

    def possible(self, i, candidate):
        """Whether every positive outcome could be seen under a candidate."""
        return all(x <= 0 or self.serves(place, candidate) == self.reward for place, x, _ in self.seen[i])

    def inverted(self, law, u):
        """The first candidate, in the order of growing F, at which the sum of the law exceeds u."""
        total = 0
        for candidate in self.order():
            total += law[candidate]
            if total > Fraction(u):
                return candidate
        raise AssertionError("a law that does not sum to 1")

    def drawn_mean(self, i, candidate, said):
        """The mean of arm i; its law must be the right one."""
        kind, a, b, mu = next(said)
        P, S = self.ones(i)
        assert (kind, a, b) == ("beta", 1 + S, 1 + self.zeros(i, candidate) + P - S)
        return mu

    def mean(self, i, law):
        """The posterior mean of mu_i, summed over all candidates."""
        P, S = self.ones(i)
        total = Fraction(0)
        for candidate, probability in law.items():
            misses = self.zeros(i, candidate) + P - S
            total += probability * integral(S + 1, misses) / integral(S, misses)
        return total

    def check_belief(self, policy, laws):
        """The belief of a policy against the laws, to 1e-12."""
        for i, law in enumerate(laws):
            amounts, probability, a, b = policy.belief(i)
            assert (np.diff(amounts[:, 0]) > 0).all()
            whole = 0
            for (low, high), share in zip(amounts, probability):
                inside = [k for k in law if low * (1 - 1e-9) <= self.amount(policy, k) <= high * (1 + 1e-9)]
                ends = sorted(self.amount(policy, k) for k in inside)
                np.testing.assert_allclose([ends[0], ends[-1]], [low, high], rtol=1e-12)
                for k in inside:  # all as likely as each other
                    np.testing.assert_allclose(share / len(inside), float(law[k]), atol=1e-12, rtol=1e-12)
                whole += sum(law[k] for k in inside)
            assert abs(float(whole) - 1) <= 1e-12
            mean = float(self.mean(i, law))
            assert abs(probability @ (a / (a + b)) - mean) <= 1e-12
            assert (policy.P[i], policy.S[i]) == self.ones(i)


class Grid(Enumeration):
    """CSB-TS: a threshold of each arm, candidates 1, ..., C + 1."""

    def __init__(self, policy):
        super().__init__(policy)
        self.C, self.step = policy.C, policy.step

    def place(self, allocation, i):
        return round(allocation[i] / self.step)

    def serves(self, place, candidate):
        return place >= candidate

    def amount(self, policy, candidate):
        return candidate * policy.step if candidate <= self.C else math.inf

    def order(self):
        return range(self.C + 1, 0, -1) if self.reward else range(1, self.C + 2)

    def law(self, i):
        """Pr(theta_i = k) for every k."""
        P, _ = self.ones(i)
        more, fewer = self.common()
        weights = {
            k: integral(P + more, self.zeros(i, k) + fewer) if self.possible(i, k) else Fraction(0)
            for k in range(1, self.C + 2)
        }
        total = sum(weights.values())
        return {k: weight / total for k, weight in weights.items()}

    def common(self):
        """Outcomes that the arms lend each other: none, unless most positive ones are not 1."""
        positive = sum(self.ones(i)[0] for i in range(self.K))
        between = sum(0 < x < 1 for seen in self.seen for _, x, _ in seen)
        if between <= positive / 2:
            return 0, 0
        order = list(self.order())
        sure = [next(k for k in order if self.possible(i, k)) for i in range(self.K)]
        genuine = sum(self.zeros(i, k) for i, k in enumerate(sure))
        most = min(30, positive + genuine)
        zeros = math.floor(Fraction(most * genuine, positive + genuine))
        return most - zeros, zeros

    def covered(self, laws, said):
        """Levels for all arms as long as the budget may serve all; None afterwards."""
        edge = [max((place for place, x, _ in seen if x > 0), default=0) for seen in self.seen]
        left = self.C - sum(edge)
        if self.reward or left < self.K or Fraction(left) < Fraction(self.C, 2 * self.K):
            return None
        assert next(said, None) is None
        half = Fraction(1, 2) * (1 + Fraction(1, 10**9))
        least = math.floor(Fraction(left - self.K, 4 * self.K))
        needs = [max(self.inverted(law, half) - e, least) for law, e in zip(laws, edge)]
        beyond = [1 << (need - 1).bit_length() for need in needs]
        return [e + 1 + math.floor(Fraction((left - self.K) * w, sum(beyond))) for e, w in zip(edge, beyond)]

    def allocation(self, said):
        """The levels that must be given after these draws."""
        everyone = self.covered([self.law(i) for i in range(self.K)], said)
        if everyone is not None:
            return everyone
        laws, k, mu = [self.law(i) for i in range(self.K)], [], []
        for i in range(self.K):
            k.append(self.inverted(laws[i], next(said)[1]))
            mu.append(self.drawn_mean(i, k[i], said))
            if self.reward:
                k[i] = min(k[i], self.inverted(laws[i], next(said)[1]))
        assert next(said, None) is None  # no other draws
        chosen = self.best_set(mu, k)
        level = [k[i] if i in chosen else 0 for i in range(self.K)]
        left = self.C - sum(level)
        if left > 0:
            left = self.padded(level, left, chosen, mu, laws)
        outside = [(mu[i] * self.up_to(laws[i], left), -i) for i in range(self.K) if i not in chosen]
        if left > 0 and outside and max(outside)[0] > 1e-12:
            level[-max(outside)[1]] = left
        return level

    def best_set(self, mu, k):
        sets = itertools.chain.from_iterable(
            itertools.combinations(range(self.K), n) for n in range(self.K + 1)
        )
        return max(
            (some for some in sets if sum(k[i] for i in some) <= self.C),
            key=lambda some: sum(mu[i] for i in some),
        )

    def up_to(self, law, level):
        return float(sum(law[k] for k in law if k <= level))

    def target(self, law):
        """Rewards: the smallest k with Pr(theta <= k) >= .999. Losses: the largest with <= .9."""
        total = Fraction(0)
        for k in sorted(law):
            total += law[k]
            if self.reward and total >= Fraction(999, 1000):
                return k
            if not self.reward and total > Fraction(9, 10):
                return k - 1
        raise AssertionError("a law that does not sum to 1")

    def padded(self, level, left, chosen, mu, laws):
        """Raise the levels of the set, and return what is left."""
        waiting = {i: self.target(laws[i]) for i in chosen}
        while left > 0:
            worth = [
                (mu[i] * (1.0 - self.up_to(laws[i], level[i])) / (u - level[i]), -i)
                for i, u in waiting.items()
                if u > level[i]
            ]
            if not worth:
                break
            best = -max(worth)[1]
            more = min(left, waiting.pop(best) - level[best])
            level[best] += more
            left -= more
        return left

    def check_select(self, policy, rng):
        """One decision against the enumeration; it is returned."""
        allocation = policy.select(rng)
        assert allocation.tolist() == [level * policy.step for level in self.allocation(rng.take())]
        return allocation

    def laws(self):
        return [self.law(i) for i in range(self.K)]


class Same(Enumeration):
    """CSB-TS-same: one threshold Q/M, candidates M = 1, ..., K."""

    def place(self, allocation, i):
        return int((allocation > 0).sum()) if allocation[i] > 0 else 0

    def serves(self, place, candidate):
        return 0 < place <= candidate

    def amount(self, policy, candidate):
        return policy.Q / candidate

    def order(self):
        return range(1, self.K + 1) if self.reward else range(self.K, 0, -1)

    def law(self):
        """Pr(M) for every M."""
        weights = {}
        for M in range(1, self.K + 1):
            # a loss at Q leaves M = 1
            fine = all(self.possible(i, M) for i in range(self.K)) or (M == 1 and not self.reward)
            weights[M] = Fraction(0)
            if fine:
                weights[M] = math.prod(
                    (integral(self.ones(i)[0], self.zeros(i, M)) for i in range(self.K)), start=Fraction(1)
                )
        total = sum(weights.values())
        return {M: weight / total for M, weight in weights.items()}

    def laws(self):
        return [self.law()] * self.K

    def check_select(self, policy, rng):
        """One decision against the enumeration; it is returned."""
        allocation, said = policy.select(rng), rng.take()
        M = self.inverted(self.law(), next(said)[1])
        mu = [self.drawn_mean(i, M, said) for i in range(self.K)]
        assert next(said, None) is None
        top = sorted(range(self.K), key=lambda i: (-mu[i], i))[:M]
        assert allocation.tolist() == [policy.Q / M if i in top else 0.0 for i in range(self.K)]
        return allocation
