"""The slow twin of Promise, from the description of the method. Nothing of `weakfeedback` is imported here.

Requests are dictionaries in lists, regressions are dense and solved by NumPy, ranks are counted one by one, and the
bound is found by a search over the logarithm of the mean.
"""

import math
from collections import Counter

import numpy as np

SHARES = [0.95, 0.8, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07, 0.04]


def coin(p, rng):
    """A coin that draws nothing when it is certain."""
    return True if p >= 1 else False if p <= 0 else bool(rng.random() < p)


class Bucket:
    """A promise: tokens, what was caught, what is under way."""

    def __init__(self, J):
        self.n, self.tokens, self.earned, self.Lhat, self.V, self.blind = 0, 0.0, 0.0, 0.0, 0.0, 0
        self.A, self.under_way = [0.0] * J, []
        self.choice = None


class SlowPromise:
    """One policy for all forms."""

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
        if agree is None and budget is None and error_cost is None:
            agree = 0.95
        self.c, self.K = [float(c) for c in costs], len(costs)
        self.R = self.K - 1 if reference is None else reference
        self.eps = None if agree is None else 1 - agree
        self.b, self.E, self.sure, self.each, self.before = budget, error_cost, sure, groups == "each", before
        self.background, self.shadow, self.expected, self.memory = background, shadow, expected, memory
        self.size = bucket if bucket is not None else max(50, 1000 * (self.eps or 0))
        self.q_min = 0.25 if sure else 0.03
        self.lam = [x * -math.log(1 - self.q_min) for x in SHARES]
        self.t, self.spent, self.allowed, self.learning_money = 0, 0.0, 50 * self.c[self.R], 0.0
        self.buckets, self.order, self.labels, self.asked = {}, [], [], []
        self.called = {k: [] for k in range(self.K)}
        self.compared = {k: [] for k in range(self.K)}
        self.scores_kept = {k: [] for k in range(self.K)}
        self.index = {}
        self.due = 50
        self.group, self.first, self.chance = 0, -1, 1.0
        self.would = {"answer": 0.0, "differ": 0.0, "spend": 0.0}
        self.scale, self.scales = 1.0, []

    @property
    def cheap(self):
        return [k for k in range(self.K) if k != self.R and self.c[k] < (1 - self.q_min) * self.c[self.R]]

    def price(self, prices):
        self.scale_by(prices[self.R] / self.c[self.R])
        self.c = [float(c) for c in prices]

    def scale_by(self, scale):
        self.scale = min((2.0**n for n in range(-6, 7)), key=lambda one: abs(math.log(scale / one)))

    def dear(self, scale):
        return math.log(scale)

    def return_to(self, prices):
        self.scale, self.c = 1.0, [float(c) for c in prices]

    # -- the request

    def turn_to(self, group, first, chance):
        self.group, self.first, self.chance = group, first, chance

    def my_bucket(self):
        if not self.each:
            key = "all"
        else:
            key = self.group if self.group in self.order or len(self.order) < 63 else "other"
        return self.buckets.setdefault(key, Bucket(len(self.lam)))

    def q(self, n):
        return min(max(max(n, 30) ** (-1 / 3), self.q_min), 0.5)

    def free(self, bucket):
        return bucket.tokens - sum(self.w(pi) for pi in bucket.under_way)

    def learning(self):
        return self.t <= 150 and any(self.compared_count(k) < 50 for k in self.cheap)

    def compared_count(self, k):
        return len(self.compared[k])

    def next_stage(self, k, outputs, scores, rng):
        if k == self.R:
            return -1
        bucket = self.my_bucket()
        if k < 0:
            return self.open_request(bucket, rng)
        if k == self.first and self.chance == 0.0:
            if not self.compare(bucket, k, int(outputs[k]), float(scores[k]), rng):
                return -1
            return self.others_then_reference(bucket, 0, outputs, rng)
        return self.others_then_reference(bucket, k + 1, outputs, rng)

    def open_request(self, bucket, rng):
        self.t += 1
        bucket.n += 1
        if self.eps is not None:
            bucket.tokens = min(bucket.tokens + self.eps, self.size)
            bucket.earned += self.eps
        if self.group not in self.order and len(self.order) < 63:
            self.order.append(self.group)
        self.asked.append(self.group)
        self.scales.append(self.scale)
        self.allowed += 1.05 * self.c[self.R] if self.b is None else self.b
        self.first, self.chance = -1, 1.0
        poor = self.b is not None and self.spent + self.c[self.R] > self.allowed
        choice = bucket.choice
        if poor and choice is None:
            cheapest = min(range(self.K), key=lambda k: (self.c[k], k != self.R, k))
            if cheapest != self.R:
                choice = {"model": cheapest, "form": "after"}
        if choice is not None:
            m = choice["model"]
            go = poor
            if not poor and not self.learning():
                enough = self.eps is None or self.free(bucket) > (1 if self.background else 0)
                money = self.b is not None or self.spent + self.c[m] + self.c[self.R] <= self.allowed
                go = m in self.cheap and enough and money and coin(choice["f"], rng)
            if go and not poor and choice["form"] == "before":
                r = self.risk("before", m, self.dear(self.scale), None, self.group)
                go = self.inside(choice, r / self.scale, rng) and r <= self.most("before", m)
            if go:
                self.first, self.chance = m, 0.0
                self.spent += self.c[m]
                return m
        return self.others_then_reference(bucket, 0, [], rng)

    def most(self, form, k):
        """The own risk above which no answer goes out."""
        limits = [1.0]
        if self.eps is not None:
            limits.append(max(0.25, 5 * self.eps))
        if self.E is not None:
            limits.append((self.c[self.R] - (self.c[k] if form == "before" else 0)) / self.E)
        return min(limits)

    def inside(self, choice, r, rng):
        return coin(choice["share"], rng) if r == choice["limit"] else r < choice["limit"]

    def compare(self, bucket, k, label, score, rng):
        if self.b is not None and self.spent + self.c[self.R] > self.allowed:
            bucket.blind += 1
            return False
        choice, pi = bucket.choice, 1.0
        if choice is not None and choice["model"] == k:
            known = None if math.isnan(score) else score
            known = self.dear(self.scale) if choice["form"] == "before" else known
            r = self.risk(choice["form"], k, known, label, self.group)
            if choice["form"] == "before" or self.inside(choice, r, rng):
                pi = self.pi(bucket, choice, r)
        self.chance = pi
        if self.shadow:
            self.would["answer"] += 1 - pi
            self.would["spend"] += self.c[k] + pi * self.c[self.R]
            return True
        seen = coin(pi, rng)
        if seen and pi < 1:
            bucket.under_way.append(pi)
        return seen

    def pi(self, bucket, choice, r):
        q = self.q(bucket.n)
        pi = q * math.sqrt(r / choice["mean"])
        pi = min(max(pi, max(q / 2, self.q_min)), min(2 * q, 0.5))
        if self.eps is not None:
            left = self.free(bucket)
            if left <= 0 or (self.background and left < 1):
                return 1.0
            pi = max(pi, 1 / left if self.background else 1 / (1 + left))
        if self.sure and pi < 1 and self.U(bucket, [*bucket.under_way, pi]) > bucket.earned:
            return 1.0
        return min(pi, 1.0)

    def others_then_reference(self, bucket, start, outputs, rng):
        q, learning = self.q(bucket.n), self.learning()
        for j in range(start, self.K):
            if j not in self.cheap or j == self.first or (j < len(outputs) and outputs[j] != -1):
                continue
            if self.spent + self.c[j] + self.c[self.R] > self.allowed:
                continue
            if self.expected is not None and (
                self.expected < 100
                or (learning and self.learning_money + self.c[j] > 0.05 * self.c[self.R] * self.expected)
            ):
                continue
            share = 1.0 if self.c[j] == 0 else min(1.0, 0.1 * self.c[self.R] / self.c[j])
            if coin(1.0 if learning else q * share, rng):
                self.spent += self.c[j]
                self.learning_money += self.c[j] if learning else 0.0
                return j
        self.spent += self.c[self.R]
        if self.shadow and self.first < 0:
            self.would["spend"] += self.c[self.R]
        return self.R

    # -- tokens and the bound

    def w(self, pi):
        return 1 / pi if self.background else (1 - pi) / pi

    def a(self, lam, pi):
        if self.background:
            return -math.log((math.exp(-lam) - (1 - pi)) / pi)
        return -math.log((1 - (1 - pi) * math.exp(lam)) / pi)

    def U(self, bucket, under_way=None):
        """The largest L with mean exp(lambda L - A) <= 20; what is under way counts as differing."""
        under_way = bucket.under_way if under_way is None else under_way
        A = [sum(self.a(x, pi) for pi in under_way) + have for x, have in zip(self.lam, bucket.A)]

        def log_mean(L):
            powers = [x * L - have for x, have in zip(self.lam, A)]
            top = max(powers)
            return top + math.log(sum(math.exp(p - top) for p in powers) / len(powers))

        low, high = 0.0, 1.0
        while log_mean(high) <= math.log(20):
            high *= 2
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if log_mean(middle) <= math.log(20) else (low, middle)
        return low + bucket.blind

    def charge(self, bucket, D, pi):
        w = self.w(pi)
        bucket.Lhat += w * D
        bucket.tokens -= w * D
        bucket.V += w * D**2 / pi
        bucket.A = [have + self.a(x, pi) * D for x, have in zip(self.lam, bucket.A)]

    def lost(self):
        bucket = self.my_bucket()
        bucket.under_way.remove(min(bucket.under_way, key=lambda pi: abs(pi - self.chance)))
        self.charge(bucket, 1.0, self.chance)

    # -- learning

    def update(self, arm, outputs, scores, chances, rng):
        bucket = self.my_bucket()
        seen = [k for k in range(len(outputs)) if outputs[k] != -1]
        for k in seen:
            if k == self.R:
                continue
            label, score = int(outputs[k]), float(scores[k])
            if label not in self.labels and len(self.labels) < 12 and 0 <= label < 2**32:
                self.labels.append(label)
            row = {"s": None if math.isnan(score) else score, "y": label, "g": self.group}
            row["x"] = self.dear(self.scale) if row["s"] is None else 0.0
            self.called[k].append(row)
            if self.R in seen:
                D = 0.0 if label == outputs[self.R] and label >= 0 else 1.0
                self.compared[k].append({**row, "D": D})
                if k == self.first and 0.0 < self.chance < 1.0:
                    if self.shadow:
                        self.would["differ"] += (1 - self.chance) * D
                        bucket.tokens = max(bucket.tokens - (1 - self.chance) * D, 0.0)
                    else:
                        bucket.under_way.remove(min(bucket.under_way, key=lambda pi: abs(pi - self.chance)))
                        self.charge(bucket, D, self.chance)
        if self.t >= self.due:
            self.refit()

    def u(self, k, s):
        kept = self.scores_kept[k]
        if not kept:
            return 0.0
        rank = sum(1.0 if other < s else 0.5 if other == s else 0.0 for other in kept) / len(kept)
        return 2 * rank - 1

    def x(self, form, k, s, y, g):
        """All features: 1, u, u^2 - .33, no score, 12 labels, 16 groups."""
        found = np.zeros(32)
        found[0] = 1.0
        if form == "after":
            if s is None:
                found[3] = 1.0
            else:
                u = self.u(k, s)
                found[1:3] = u, u * u - 0.33
            if y in self.labels:
                found[4 + self.labels.index(y)] = 1.0
        else:
            found[1] = s
        if g in self.order[:16]:
            found[16 + self.order.index(g)] = 1.0
        return found

    def risk(self, form, k, s, y, g):
        z = float(sum(a * b for a, b in zip(self.index[form, k], self.x(form, k, s, y, g)) if b != 0.0))
        return round(1 / (1 + math.exp(-z)), 12)  # equal features, equal risks

    def refit(self):
        self.due = self.t + 10 + math.ceil(0.05 * self.t)
        ready = [k for k in self.cheap if len(self.compared[k]) >= 20]
        for k in ready:
            last = [row["s"] for row in self.called[k][-self.memory :] if row["s"] is not None]
            self.scores_kept[k] = last[-512:]
            for form in self.forms(k):
                self.fit(form, k)
        for bucket_key, bucket in self.buckets.items():
            bucket.choice = self.best_choice(bucket_key, bucket, ready)

    def forms(self, k):
        if self.before:
            return ["before"]
        return ["after"] if self.scores_kept[k] else ["after", "before"]

    def fit(self, form, k):
        rows = self.compared[k][-self.memory :]
        key = "x" if form == "before" else "s"
        X = np.array([self.x(form, k, row[key], row["y"], row["g"]) for row in rows])
        D = np.array([row["D"] for row in rows])
        ridge = np.array([0.3] * 3 + [1.2] * 29)
        centre = np.zeros(32)
        centre[0] = -2.0
        theta = self.index.get((form, k), centre).copy()
        for _ in range(5):
            p = 1 / (1 + np.exp(-(X @ theta)))
            gradient = X.T @ (D - p) - ridge * (theta - centre)
            step = np.linalg.solve((X.T * (p * (1 - p))) @ X + np.diag(ridge), gradient)
            theta = theta + step / max(1.0, np.abs(step).sum())
            if gradient @ step <= 1e-10:
                break
        self.index[form, k] = theta

    def named(self, g):
        return g if g in self.order else "other"

    def best_choice(self, key, bucket, ready):
        q, best, found = self.q(bucket.n), 0.0, None
        if self.b is not None:
            room = self.b + (self.allowed - 50 * self.c[self.R] - self.spent) / max(self.t, 1000)
            best = 0.0 if room >= self.c[self.R] else -math.inf
        if self.eps is not None:
            spare = self.free(bucket) - 2 * math.sqrt(bucket.V + (1 - q) / q**2)
            if self.sure:
                spare = bucket.earned - self.U(bucket)
            target = min(max(self.eps + spare / max(bucket.n, 1000), 0.0), 2 * self.eps)
        for k in ready:
            for form in self.forms(k):
                asked, last = self.asked[-self.memory :], self.called[k][-self.memory :]
                if form == "before":
                    scales = self.scales[-self.memory :]
                    r = [(self.risk(form, k, self.dear(s), None, g), g, s) for g, s in zip(asked, scales)]
                else:
                    r = [(self.risk(form, k, row["s"], row["y"], row["g"]), row["g"], 1.0) for row in last]
                if self.each:
                    r = [(risk, g, s) for risk, g, s in r if self.named(g) == key]
                r = sorted(r, key=lambda row: row[0] / row[2])
                weights = [1.0] * len(r)
                if form == "after" and not self.scores_kept[k]:  # a call may have been chosen by its group
                    requests = Counter(self.named(g) for g in asked)
                    calls = Counter(self.named(row["g"]) for row in last)
                    weights = [requests[self.named(g)] / calls[self.named(g)] for _, g, _ in r]
                scales = [s for _, _, s in r]
                r = [risk for risk, _, _ in r] if sum(weights) > 0 else []
                rank, everything = [risk / s for risk, s in zip(r, scales)], sum(weights)
                weights = [w if risk <= self.most(form, k) else 0.0 for w, risk in zip(weights, r)]
                for j in range(1, len(r) + 1):
                    if weights[j - 1] == 0.0:
                        continue
                    part, mass = np.dot(weights[:j], scales[:j]) / everything, np.dot(weights[:j], r[:j])
                    sigma, d, f = (1 - q) * part, (1 - q) * mass / everything, 1.0
                    ask = self.c[k] * (part if form == "before" else 1)
                    if self.b is not None:
                        cost = ask + (1 - sigma) * self.c[self.R]
                        if cost > room and j < len(r):
                            continue
                        value = -d if cost <= room else -10 - cost / self.c[self.R]
                    elif self.eps is None:
                        value = sigma * self.c[self.R] - ask - d * self.E
                    elif form == "before":
                        if d > target:
                            break
                        value = sigma * self.c[self.R] - ask
                    else:
                        f = min(1.0, target / d) if d > 0 else 1.0
                        value = f * (sigma * self.c[self.R] - ask)
                    if value > best + 1e-12:
                        ties = [one for one in rank if one == rank[j - 1]]
                        share = sum(one == rank[j - 1] for one in rank[:j]) / len(ties)
                        best = value
                        found = {"model": k, "form": form, "limit": rank[j - 1], "share": share, "f": f}
                        found["mean"] = max(mass / sum(weights[:j]), 1e-9)
                    if self.b is not None:
                        break
        return found
