"""Slow twins of routing, from the text of the rule: sets of models, a diary of rounds, and nothing kept beside it.

Models are numbered 1..K. What the policy knows is worked out from its diary in every decision. Tails of the Beta law
are SciPy's. Nothing of `weakfeedback` is imported here: that is what makes a comparison worth something.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from scipy.special import betainc, betaincc, betaln


class SlowPayToCompare:
    """The rule "compare only when it pays"."""

    def __init__(
        self,
        prices: Sequence[float],
        rho: float = 0.05,
        kappa: float = 1.0,
        horizon: int | None = None,
        least: int = 1000,
        memory: int | None = None,
        overspend: float = 0.05,
        allowance: float = 50,
    ):
        self.c = {i: float(price) for i, price in enumerate(prices, start=1)}
        self.K = len(prices)
        self.rho, self.kappa, self.horizon, self.least = rho, kappa, horizon, least
        self.memory, self.overspend, self.allowance = memory, overspend, allowance
        self.settled = self.K
        self.diary: list[tuple[str, Any]] = []  # ("round", S), ("answers", {model: output}), ("cancel", S)
        self.earlier = 0  # rounds before models were removed
        self.told: dict[tuple[int, int], tuple[float, float]] = {}  # D and N then

    # what the diary says

    def played(self) -> int:
        return sum(1 for what, _ in self.diary if what == "round")

    def spent(self) -> float:
        return sum(self.c[i] for what, S in self.diary if what == "round" for i in sorted(S))

    def under_way(self, i: int, j: int) -> int:
        asked = sum(1 for what, S in self.diary if what == "round" and {i, j} <= set(S))
        ended = sum(1 for what, S in self.diary if what in ("answers", "cancel") and {i, j} <= set(S))
        return asked - ended

    def compared(self, i: int, j: int) -> tuple[float, float]:
        """D and N: every comparison counts one, less by exp(-step / H) for every step of rounds begun since."""
        D, N = self.told.get((i, j), (0.0, 0.0))
        rounds = self.earlier
        step = max(1, self.memory // 200) if self.memory else 0
        for what, content in self.diary:
            if what == "answers" and {i, j} <= set(content):
                N += 1
                D += content[i] != content[j]
            if what == "round":
                rounds += 1
                if self.memory and rounds % step == 0:
                    D *= math.exp(-step / self.memory)
                    N *= math.exp(-step / self.memory)
        return D, N

    # the rule

    def losses(self, i: int, j: int) -> tuple[float, float, float]:
        """cheap, low, dear."""
        D, N = self.compared(i, j)
        return self.verdict(i, j, 1 + D, 1 + N - D)

    def verdict(self, i: int, j: int, s: float, f: float) -> tuple[float, float, float]:
        """cheap, low, dear by Beta(s, f)."""
        d = self.c[j] - self.c[i]
        x = min(1.0, d + self.rho * self.c[j])
        cheap = max(0.0, s / (s + f) * betaincc(s + 1, f, x) - x * betaincc(s, f, x))
        low = float(betainc(s, f, min(1.0, d)))
        return cheap, low, low * d

    def decision(self) -> set[int]:
        c, K = self.c, self.K
        table = {pair: self.losses(*pair) for pair in combinations(range(1, K + 1), 2)}

        def accepts(i: int) -> bool:
            return all(table[i, j][0] <= table[i, j][2] for j in range(i + 1, K + 1))

        self.settled = a = next((i for i in range(1, K) if accepts(i)), K)
        t = self.played()
        ahead = self.horizon - self.earlier - t if self.horizon else max(self.least, t + 1)
        if self.memory:
            ahead = min(ahead, self.memory)

        def pays(i: int, j: int, loss: float, price: float) -> bool:
            seen = self.compared(i, j)[1] + self.under_way(i, j) + 1
            return ahead * loss > self.kappa * max(price, 1e-6 * c[K]) * seen

        S = {a}
        for j in range(a + 1, K + 1):
            if pays(a, j, table[a, j][0], c[j]):
                S |= {j}
        for i in range(1, a):
            refusing = [j for j in range(i + 1, K + 1) if table[i, j][0] > table[i, j][2]]
            m = min(refusing, key=lambda j: (table[i, j][1], j))
            if pays(i, m, table[i, m][1] * (c[a] - c[i]), c[i] + (c[m] if m != a else 0.0)):
                S |= {i, m}
        if len(S) > 1 and self.spent() + sum(c[i] for i in sorted(S)) > self.bound(t):
            return {a}
        return S

    def bound(self, t: int) -> float:
        return self.c[self.K] * ((1 + self.overspend) * (t + 1) + self.allowance)

    def without(self, k: int) -> "SlowPayToCompare":
        """The rule once k is removed: a new diary, and what was known; all pairs tell if k was settled."""
        names = [i for i in range(1, self.K + 1) if i != k]
        found = SlowPayToCompare(
            *([self.c[i] for i in names], self.rho, self.kappa, self.horizon, self.least),
            *(self.memory, self.overspend, self.allowance),
        )
        found.earlier = self.earlier + self.played()
        counts = {pair: self.compared(*pair) for pair in combinations(range(1, self.K + 1), 2)}
        self.decision()  # which model is settled on now
        for pair in combinations(range(1, found.K + 1), 2):
            D, N = counts[names[pair[0] - 1], names[pair[1] - 1]]
            found.told[pair] = alike(D, N, list(counts.values())) if k == self.settled else (D, N)
        return found

    # the protocol

    def select(self, rng: Any) -> list[bool]:
        S = self.decision()
        return [i in S for i in range(1, self.K + 1)]

    def start(self, call: Iterable[bool], rng: Any) -> None:
        self.diary.append(("round", called(call)))

    def update(self, call: Iterable[bool], outputs: Sequence[Any], rng: Any) -> None:
        self.diary.append(("answers", dict(zip(called(call), outputs, strict=True))))

    def cancel(self, call: Iterable[bool]) -> None:
        self.diary.append(("cancel", called(call)))


def alike(D: float, N: float, all_counts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Counts that give the mean and the variance of the rate of one pair, if the rates of all come from one law."""
    law = []  # log-weight, parameters, of every Beta(m mu, m (1 - mu))
    for step in range(24):
        mu = 1 / (1 + math.exp(5 - 9 * step / 23))
        for m in (2, 8, 32, 128):
            a, b = m * mu, m * (1 - mu)
            seen = sum(betaln(a + d, b + n - d) - betaln(a, b) for d, n in all_counts)
            law.append((math.log(mu * (1 - mu)) + seen, a + D, b + N - D))
    top = max(weight for weight, _, _ in law)
    total = math.fsum(math.exp(weight - top) for weight, _, _ in law)
    parts = [(math.exp(weight - top) / total, a, b) for weight, a, b in law]
    mean = math.fsum(w * a / (a + b) for w, a, b in parts)
    within = math.fsum(w * a * b / ((a + b) ** 2 * (a + b + 1)) for w, a, b in parts)
    between = math.fsum(w * (a / (a + b) - mean) ** 2 for w, a, b in parts)
    size = mean * (1 - mean) / (within + between) - 1
    differed, agreed = max(0.0, mean * size - 1), max(0.0, (1 - mean) * size - 1)
    return differed, differed + agreed


class SlowDoubleThompson:
    """Two draws of Thompson sampling with prices, both called."""

    def __init__(self, prices: Sequence[float]):
        self.c = {i: float(price) for i, price in enumerate(prices, start=1)}
        self.K = len(prices)
        self.seen: dict[tuple[int, int], list[bool]] = {pair: [] for pair in combinations(self.c, 2)}

    def one(self, rng: Any) -> int:
        for i in range(1, self.K):
            draws = {
                j: rng.beta(1 + sum(self.seen[i, j]), 1 + len(self.seen[i, j]) - sum(self.seen[i, j]))
                for j in range(i + 1, self.K + 1)
            }
            if all(p < self.c[j] - self.c[i] for j, p in draws.items()):
                return i
        return self.K

    def select(self, rng: Any) -> list[bool]:
        S = [self.one(rng), self.one(rng)]
        return [i in S for i in self.c]

    def start(self, call: Iterable[bool], rng: Any) -> None:
        pass

    def update(self, call: Iterable[bool], outputs: Sequence[Any], rng: Any) -> None:
        answers = dict(zip(called(call), outputs, strict=True))
        for i, j in combinations(answers, 2):
            self.seen[i, j].append(answers[i] != answers[j])

    def cancel(self, call: Iterable[bool]) -> None:
        pass


class SlowFixedModel:
    """Always the same model (0-based)."""

    def __init__(self, prices: Sequence[float], model: int):
        self.call = [k == model for k in range(len(prices))]

    def select(self, rng: Any) -> list[bool]:
        return list(self.call)

    def start(self, call: Iterable[bool], rng: Any) -> None:
        pass

    def update(self, call: Iterable[bool], outputs: Sequence[Any], rng: Any) -> None:
        pass

    def cancel(self, call: Iterable[bool]) -> None:
        pass


def called(call: Iterable[bool]) -> list[int]:
    """The numbers, from 1, of the models called."""
    return [i for i, whether in enumerate(call, start=1) if whether]


def slow_routes(policy: Any, world: Any, rngs: tuple[Any, Any], horizon: int) -> list[list[bool]]:
    """The calls of each round; the policy sees a plain tuple of the outputs of the models called, and nothing else."""
    world_rng, policy_rng = rngs
    world.start(world_rng)
    routes = []
    for t in range(1, horizon + 1):
        _, *labels = world.row(t, world_rng)
        call = policy.select(policy_rng)
        assert any(call)
        policy.start(call, policy_rng)
        policy.update(call, tuple(label for label, whether in zip(labels, call) if whether), policy_rng)
        routes.append([bool(whether) for whether in call])
    return routes


def slow_margins(
    rows: Sequence[Sequence[int]], probabilities: Sequence[float], prices: Sequence[float]
) -> dict[str, Any]:
    """Errors, totals, the best model (0-based), xi and regret per route, by enumeration."""
    K = len(prices)
    law = list(zip(rows, [p / math.fsum(probabilities) for p in probabilities]))
    gamma = [math.fsum(p for row, p in law if row[k + 1] != row[0]) for k in range(K)]
    total = [g + c for g, c in zip(gamma, prices)]
    best = max(k for k in range(K) if total[k] <= min(total) + 1e-12)
    differ = {
        (i, j): math.fsum(p for row, p in law if row[i + 1] != row[j + 1])
        for i, j in combinations(range(K), 2)
    }
    xi = min((prices[j] - prices[best] - differ[best, j] for j in range(best + 1, K)), default=math.inf)
    earlier = [max(differ[i, j] - (prices[j] - prices[i]) for j in range(i + 1, K)) for i in range(best)]
    return {"errors": gamma, "total": total, "best": best, "xi": xi, "margin": min([xi, *earlier])}


def slow_regret(
    routes: Sequence[Sequence[bool]], gamma: Sequence[float], prices: Sequence[float], best: int
) -> float:
    """What the rounds cost above the best single model called alone."""
    paid = 0.0
    for call in routes:
        models = [k for k, whether in enumerate(call) if whether]
        paid += sum(prices[k] for k in models) + gamma[models[-1]]
    return paid - len(routes) * (gamma[best] + prices[best])
