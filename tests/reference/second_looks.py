"""The slow twin of Second-looks, from the text of the rule: the twin of Pay-to-compare, and a layer over its diary.

Models are numbered 1..K, features 1..Q. Evidence is worked out anew in every decision, without memory in closed form
(Beta-binomial likelihoods of the groups under every point of the grid); only fading has to go step by step. Nothing of
`weakfeedback` is imported here.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betaln
from tests.reference.routing import SlowPayToCompare, called

MU = 1.0 / (1.0 + np.exp(-np.linspace(-5.0, 4.0, 24)))
GRID = [(float(mu), m) for mu in MU for m in (2.0, 8.0, 32.0, 128.0)]
MEAN, M = np.array(GRID).T
W0 = np.array([mu * (1 - mu) for mu, _ in GRID])
W0 /= W0.sum()


class Layer0(SlowPayToCompare):
    """Pay-to-compare with the prices of the request, and yields."""

    B = 0.0  # what the last model alone would have cost in the rounds before
    money = 0.0
    yields: Any = None
    stated: Any = None

    def spent(self) -> float:
        return self.money

    def bound(self, t: int) -> float:
        return (1 + self.overspend) * (self.B + self.c[self.K]) + self.allowance * self.stated[self.K]

    def verdict(self, i: int, j: int, s: float, f: float) -> tuple[float, float, float]:
        a = max(self.yields[i, j], 1e-9)
        d = self.c[j] - self.c[i]
        x = min(1.0, (d + self.rho * self.c[j]) / a)
        cheap = a * max(0.0, s / (s + f) * betaincc(s + 1, f, x) - x * betaincc(s, f, x))
        low = float(betainc(s, f, min(1.0, d / a)))
        return cheap, low, low * d


class SlowSecondLooks:
    """Layer 0 is Pay-to-compare with its own counts; layer 1 sees all comparisons, and may only go down."""

    def __init__(
        self,
        prices: Sequence[float],
        features: int = 0,
        groups: int = 64,
        omega: float = 0.02,
        yields: Any = None,
        trust: str | None = None,
        overspend: float = 0.05,
        allowance: float = 50,
        **options: Any,
    ):
        self.K, self.Q, self.most = len(prices), features, groups
        self.trusts, self.talks = trust == "last", trust in ("last", "conversations")
        self.o, self.b = overspend, allowance
        self.omega = min(omega, overspend)
        self.b1 = max(allowance / 5 - 0.01, 0.0)
        o0 = (1 + self.o) / (1 + self.omega) - 1
        b0 = (self.b - self.b1) / (1 + self.omega)
        self.layer0 = Layer0(prices, overspend=o0, allowance=b0, **options)
        self.layer0.stated = dict(self.layer0.c)
        pairs = [(i, j) for i in range(1, self.K + 1) for j in range(1, self.K + 1)]
        self.layer0.yields = {
            (i, j): 1.0 if yields is None else float(yields[i - 1][j - 1]) for i, j in pairs
        }
        self.diary: list[tuple[str, Any, Any]] = []  # what, groups, the models or their answers
        self.own: list[int] = []
        self.groups: tuple[int, ...] = ()
        self.X = self.money = 0.0
        self.known: dict[Any, Any] = {}  # posteriors of this diary

    # what the diary says

    def ticks(self) -> tuple[int, float]:
        H = self.layer0.memory
        return (max(1, H // 200), math.exp(-max(1, H // 200) / H)) if H else (0, 1.0)

    def posterior(
        self, i: int, j: int
    ) -> tuple[list[float], list[Any], float, float, list[tuple[float, float]]]:
        """L_0, ..., L_Q; the weights of the grid of each feature; D, N; D_g, N_g of the groups of this request."""
        now = i, j, len(self.diary), self.groups
        if now not in self.known:
            self.known[now] = self.worked_out(i, j)
        return self.known[now]

    def worked_out(self, i: int, j: int) -> Any:
        tables: list[dict[Any, list[float]]] = [{} for _ in range(self.Q + 1)]
        L = [0.0] * (self.Q + 1)
        w = [W0.copy() for _ in range(self.Q)]
        rounds, (step, kept) = 0, self.ticks()
        for what, groups, content in self.diary:
            if what == "answers" and {i, j} <= set(content):
                y = content[i] != content[j]
                for q, g in enumerate((0, *groups)):
                    D, N = tables[q].setdefault(g, [0.0, 0.0])
                    if step:
                        if q == 0:
                            one = np.array([(1 + D) / (2 + N)])
                            before = np.ones(1)
                        else:
                            one = np.array([(m * mu + D) / (m + N) for mu, m in GRID])
                            before = w[q - 1]
                        after = before * (one if y else 1 - one)
                        L[q] += math.log(after.sum())
                        if q:
                            w[q - 1] = after / after.sum()
                    tables[q][g] = [D + y, N + 1]
            if what == "round":
                rounds += 1
                if step and rounds % step == 0:
                    for table in tables:
                        for pair in table.values():
                            pair[0] *= kept
                            pair[1] *= kept
                    L = [kept * one for one in L]
                    w = [one**kept * W0 ** (1 - kept) for one in w]
                    w = [one / one.sum() for one in w]
        if not step:
            D, N = tables[0].get(0, (0.0, 0.0))
            L[0] = float(betaln(1 + D, 1 + N - D))
            for q in range(1, self.Q + 1):
                logs = np.log(W0)
                for D, N in tables[q].values():
                    logs += betaln(M * MEAN + D, M * (1 - MEAN) + N - D) - betaln(M * MEAN, M * (1 - MEAN))
                L[q] = float(np.logaddexp.reduce(logs))
                w[q - 1] = np.exp(logs - L[q])
        D, N = tables[0].get(0, (0.0, 0.0))
        here = [tuple(tables[q].get(g, (0.0, 0.0))) for q, g in enumerate(self.groups, start=1)]
        return L, w, D, N, here

    def estimate(self, i: int, j: int) -> tuple[float, float, int]:
        L, w, D, N, here = self.posterior(i, j)
        means, variances = [(1 + D) / (2 + N)], [(1 + D) * (1 + N - D) / ((2 + N) ** 2 * (3 + N))]
        logs = [L[0] + (math.log(0.5) if self.Q else 0.0)]
        for q in range(1, self.Q + 1):
            Dg, Ng = here[q - 1]
            A = np.array([m * mu + Dg for mu, m in GRID])
            n = np.array([m + Ng for _, m in GRID])
            mean = float((w[q - 1] * A / n).sum())
            inner = (w[q - 1] * (A / n) * (1 - A / n) / (n + 1)).sum()
            variances.append(float(inner + (w[q - 1] * (A / n - mean) ** 2).sum()))
            means.append(mean)
            logs.append(L[q] - math.log(2 * self.Q))
        weights = np.exp(np.array(logs) - max(logs))
        weights /= weights.sum()
        mean = float((weights * means).sum())
        var = float((weights * (np.array(variances) + (np.array(means) - mean) ** 2)).sum())
        n = max(mean * (1 - mean) / var - 1, 0.05)
        best = max(range(1, self.Q + 1), key=lambda q: (round(L[q], 9), -q)) if self.Q else 0
        return mean * n, (1 - mean) * n, best

    def counted(self, i: int, j: int, q: int) -> float:
        """N_g of the group of this request, with the comparisons under way; of all groups for q = 0."""
        alike = lambda groups: q == 0 or groups[q - 1] == self.groups[q - 1]  # noqa: E731
        under_way = sum(
            {"round": 1, "answers": -1, "cancel": -1, "later": 0}[what]
            for what, groups, S in self.diary
            if alike(groups) and {i, j} <= set(S)
        )
        _, _, _, N, here = self.posterior(i, j)
        return (here[q - 1][1] if q else N) + under_way

    # the rule

    def decision(self) -> set[int]:
        zero, c, K = self.layer0, self.layer0.c, self.K
        S0 = {K} if self.trusts else zero.decision()
        a0 = K if self.trusts else zero.settled
        a, want, check = a0, set[int](), False
        good = dict[
            int, tuple[float, bool]
        ]()  # models that are good enough here: price and disagreement, check it?
        t = zero.played()
        decided = t - sum(what == "later" for what, _, _ in self.diary)
        turns = t / decided if self.talks and decided else 1.0  # of a decision
        ahead = zero.horizon - t if zero.horizon else max(zero.least * turns, t + 1)
        if zero.memory:
            ahead = min(ahead, zero.memory)
        for i in range(1, a0):
            s, f, q = self.estimate(i, a0)
            cheap, _, dear = zero.verdict(i, a0, s, f)
            alike = (
                sum(1 for what, g, _ in self.diary if what == "round" and g[q - 1] == self.groups[q - 1])
                if q
                else t
            )
            share = (alike + 1) / (t + 1)
            n = self.counted(i, a0, q)

            def pays(loss: float, price: float) -> bool:
                return ahead * share * loss > zero.kappa * max(price, 1e-6 * c[K]) * (n + 1)  # noqa: B023

            if cheap <= dear:
                good[i] = c[i] + zero.yields[i, a0] * s / (s + f), pays(cheap, c[a0])
            elif not good and pays(dear, c[i]):
                want |= {i, a0}
            if good and not (self.trusts and self.talks):
                break
        if good:
            a = min(good, key=lambda i: good[i][0])
            check = good[a][1]
            want |= {a0} if check else set()
        S = set(S0) if len(S0) > 1 else {a}
        price = lambda models: sum(c[k] for k in sorted(models))  # noqa: E731
        own, more = price(S0), price(S | want)
        if (
            not want <= S
            and self.X + max(0.0, more - own) <= self.omega * (zero.money + own) + self.b1 * zero.stated[K]
            and self.money + more <= (1 + self.o) * (zero.B + c[K]) + self.b * zero.stated[K]
        ):
            S |= want
        elif check and not want <= S:
            S = set(S0)  # no money to check that a cheaper model is good enough: it does not answer
        self.own = sorted(S0)
        return S

    # the protocol

    def turn_to(self, groups: Sequence[int], own: Iterable[bool]) -> None:
        self.groups = tuple(min(int(g), self.most) for g in groups)[: self.Q]
        self.own = called(own)

    def price(self, prices: Sequence[float]) -> None:
        self.layer0.c = {i: float(one) for i, one in enumerate(prices, start=1)}

    def believe_last(self) -> None:
        self.trusts = True

    def follow(self) -> None:
        self.diary.append(("later", self.groups, ()))

    def select(self, rng: Any) -> list[bool]:
        S = self.decision()
        return [i in S for i in range(1, self.K + 1)]

    def start(self, call: Iterable[bool], rng: Any) -> None:
        zero, S = self.layer0, called(call)
        paid, own = (sum(zero.c[k] for k in one) for one in (S, self.own))
        self.diary.append(("round", self.groups, S))
        self.money += paid
        self.X += max(0.0, paid - own)
        zero.diary.append(("round", self.own))
        zero.money += own
        zero.B += zero.c[self.K]
        zero.c = dict(zero.stated)

    def update(self, call: Iterable[bool], outputs: Sequence[Any], rng: Any) -> None:
        answers = dict(zip(called(call), outputs, strict=True))
        self.diary.append(("answers", self.groups, answers))
        self.layer0.diary.append(("answers", {k: answers[k] for k in self.own if k in answers}))

    def cancel(self, call: Iterable[bool]) -> None:
        self.diary.append(("cancel", self.groups, called(call)))
        self.layer0.diary.append(("cancel", self.own))
