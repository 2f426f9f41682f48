"""Mutants of CSB-TS, CSB-TS-same and their posterior: each edit must be found out by the enumeration."""

import pytest
from tests.allocation.test_csb_ts import CASES, battery, covering, quantile_and_level, surprised
from tests.rig.mutants import mutate, survives

from weakfeedback.allocation import posterior
from weakfeedback.allocation.policies import csb_ts, csb_ts_same

EDITS = [
    (csb_ts, "self.C = math.floor(self.Q / self.step + SLACK)", "self.C = math.floor(self.Q / self.step + SLACK) + 1"),
    (csb_ts, "1.0 + zeros + self.P[i] - self.S[i])\n        if", "1.0 + zeros)\n        if"),
    (csb_ts, "rng.beta(1.0 + self.S[i]", "rng.beta(1.0 + self.P[i]"),
    (csb_ts, "        for j in range(s):\n", "        for j in range(s + 1):\n"),
    (csb_ts, "self.C + 2 - max(t, other)", "self.C + 2 - min(t, other)"),
    (csb_ts, "self.C + 2 - max(t, other)", "self.C + 2 - t"),
    (csb_ts, "        if self.reward:\n            _, other", "        if True:\n            _, other"),
    (csb_ts, "self.C, np.int64(NODES)", "self.C - 1, np.int64(NODES)"),
    (csb_ts, "self.C, np.int64(NODES)", "self.C + 1, np.int64(NODES)"),
    (csb_ts, "if left > 0 and (self.reward or self.edition > 1):", "if left > 0 and self.reward:"),
    (csb_ts, "REST if self.reward else MOSTLY", "REST if self.reward else MIDDLE"),
    (csb_ts, "if self.reward else t - 1  # u_i", "if self.reward else t  # u_i"),
    (csb_ts, "self.C + 1 - level[i] if self.reward else level[i]", "self.C + 1 - level[i] if self.reward else 0"),
    (csb_ts, "(missed if self.reward else 1.0 - missed)", "missed"),
    (csb_ts, "least = left // (4 * edge.size) if edition > 1 else 1", "least = 1"),
    (csb_ts, "left // (4 * edge.size)", "left // edge.size"),
    (csb_ts, "if not self.reward and may_cover(self.edge, self.C):", "if may_cover(self.edge, self.C):"),
    (csb_ts, "MIDDLE = 0.5", "MIDDLE = 0.7"),
    (csb_ts, "left >= edge.size and 2 *", "left >= 0 and 2 *"),
    (csb_ts, "2 * edge.size * left >= C", "2 * edge.size * left > C"),
    (csb_ts, "2 * edge.size * left >= C", "edge.size * left >= C"),
    (csb_ts, "left = C - edge.size", "left = C"),
    (csb_ts, "edge[i] + 1 + left", "edge[i] + left"),
    (csb_ts, "left * weight[i] // total", "left // edge.size"),
    (csb_ts, "while weight[i] < max(middle[i]", "while weight[i] <= max(middle[i]"),
    (csb_ts, "if 2 * fractions <= positive:", "if True:"),
    (csb_ts, "if 2 * fractions <= positive:", "if fractions == 0:"),
    (csb_ts, "n = min(POOL, positive + zero)", "n = positive + zero"),
    (csb_ts, "zeros = n * zero // (positive + zero)", "zeros = 0"),
    (csb_ts, "                if observed[i] < 1.0:\n", "                if True:\n"),
    (csb_ts, "REST = 0.001", "REST = 0.05"),
    (csb_ts, "self.C + 2 - t if self.reward", "self.C + 1 - t if self.reward"),
    (csb_ts, "self.C + 1 - level[i] if self.reward", "self.C + 2 - level[i] if self.reward"),
    (csb_ts, " / (target[i] - level[i])", ""),
    (csb_ts, "gain[i] = mu[i] * (missed", "gain[i] = (missed"),
    (csb_ts, "raised = min(left, target[best] - level[best])", "raised = left"),
    (csb_ts, "        gain[best] = 0.0  # once each\n", "        break\n"),
    (csb_ts, "WORTH = 1e-12", "WORTH = 0.2"),
    (csb_ts, "value > worth:", "value > WORTH:"),
    (csb_ts, "            if not chosen[i]:\n                served", "            if True:\n                served"),
    (csb_ts, "self.C + 1 - left if self.reward", "self.C + 2 - left if self.reward"),
    (csb_ts, "(1.0 - served if self.reward else served)", "served"),
    (csb_ts, "level[best] = left", "level[best] = left - 1"),
    (csb_ts, "/ self.step + 0.5), self.C)", "/ self.step + 0.5), self.C - 1)"),
    (csb_ts, "int(allocation[i] / self.step + 0.5)", "int(allocation[i] / self.step)"),
    (csb_ts, "if self.reward and level == 0:", "if level == 0:"),
    (csb_ts, "if self.reward and level == 0:", "if False:"),
    (csb_ts, "place = self.C + 1 - level if self.reward else level", "place = level"),
    (csb_ts, "if observed[i] > 0.0:", "if observed[i] >= 1.0:"),
    (csb_ts, "                self.P[i] += 1\n", "                self.P[i] += int(observed[i])\n"),
    (csb_ts, "int(coin(observed[i], rng))", "1"),
    (csb_ts, "if place > self.edge[i]:", "if True:"),
    (csb_ts, "if quiet > QUIET and", "if"),
    (csb_ts, "float(quiet)) < UNLIKELY", "float(quiet)) < 1.0"),
    (csb_ts, "            self.surprises += 1\n", "            pass\n"),
    (csb_ts, "elif place <= self.edge[i]:", "elif place <= self.edge[i] + 1:"),
    (csb_ts, "self.levels[i, gone] <= place", "self.levels[i, gone] <= place + 1"),
    (csb_ts, "            self.F[i] += self.zeros[i, gone]\n", ""),
    (csb_ts, "self.zeros[i, j] = self.zeros[i, j + gone]", "pass"),
    (csb_ts, "if self.levels[i, middle] < place:", "if self.levels[i, middle] <= place:"),
    (csb_ts, "            self.zeros[i, low] += 1\n            return", "            return"),
    (csb_ts, "for j in range(self.used[i], low, -1)", "for j in range(self.used[i] - 1, low, -1)"),
    (csb_ts_same, "1.0 + zeros + self.P[i] - self.S[i])\n        M", "1.0 + zeros)\n        M"),
    (csb_ts_same, "rng.beta(1.0 + self.S[i]", "rng.beta(1.0 + self.P[i]"),
    (csb_ts_same, "for y in range(self.edge + 1, t):", "for y in range(self.edge + 1, t + 1):"),
    (csb_ts_same, "t if self.reward else self.K + 1 - t", "self.K + 1 - t if self.reward else t"),
    (csb_ts_same, "give_top(mu, M, self.Q / M)", "give_top(mu, M, self.Q / self.K)"),
    (csb_ts_same, "total[t] <= target", "total[t] < 0.5 * target"),
    (csb_ts_same, "NEGLIGIBLE * mass:", "0.1 * mass:"),
    (csb_ts_same, "weight *= fall", "weight = fall"),
    (csb_ts_same, "                        seen[i] += self.zeros[t, i]\n", ""),
    (csb_ts_same, "            elif self.reward:\n", "            elif False:\n"),
    (csb_ts_same, "served - 1 if self.reward else self.K + 1 - served", "served if self.reward else self.K - served"),
    (csb_ts_same, "served - 1 if self.reward", "served if self.reward"),
    (csb_ts_same, "self.K + 1 - served", "self.K - served"),
    (csb_ts_same, "if observed[i] > 0.0:", "if observed[i] >= 1.0:"),
    (csb_ts_same, "int(coin(observed[i], rng))", "1"),
    (csb_ts_same, "min(place, self.K - 1)", "place - 1"),
    (csb_ts_same, "elif place <= self.edge:", "elif place < self.edge:"),
    (csb_ts_same, "self.F[i] += self.zeros[self.edge, i]", "pass"),
    (csb_ts_same, "                self.zeros[self.edge, i] = 0\n", "                self.zeros[self.edge, i] += 1\n"),
]  # fmt: skip


# seed, setting, law and delay: those that tell most come first
RUNS = [
    (7, "reward", "uniform", 0),
    (2, "reward", "uniform", 0),
    (6, "loss", "bernoulli", 0),
    (6, "reward", "uniform", 3),
    (0, "reward", "uniform", 0),
    (5, "loss", "bernoulli", 0),
    (6, "loss", "uniform", 3),
    (7, "reward", "bernoulli", 3),
]
MORE = [(seed, *case, delay) for seed in range(8) for case in CASES for delay in (0, 3)]


def found_out(kind, runs=RUNS):
    """Whether the enumeration finds something wrong in a few runs, or a case by hand."""
    if kind.__name__ == "CsbTs" and not all(
        survives(lambda case=case: case(kind)) for case in (quantile_and_level, covering, surprised)
    ):
        return True
    return any(not survives(lambda run=run: battery(kind, *run)) for run in runs)


def short(value):
    """The part of a test's name."""
    return value.strip()[:50] if isinstance(value, str) else value.__name__.rsplit(".", 1)[-1]


@pytest.mark.parametrize(("module", "old", "new"), EDITS, ids=short)
def test_mutants_are_found_out(module, old, new):
    mutant = mutate(module, old, new)
    assert found_out(mutant.CsbTs if module is csb_ts else mutant.CsbTsSame)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("fall", "down *= F + zeros + j", "down *= F + zeros + j + 1"),
        ("fall", "for j in range(1, int(P) + 2)", "for j in range(1, int(P) + 1)"),
        ("fall", "down *= P + F + 1.0 + j", "down *= P + F + j"),
        ("lay_out", "NEGLIGIBLE = 2.0**-60", "NEGLIGIBLE = 1e-3"),
        ("lay_out", "            seen += more\n", ""),
        ("lay_out", "mass += (end - last) * weight", "mass += weight"),
        ("lay_out", "        last = end\n", ""),
        ("first_above", "if total[i, middle] > mass:", "if total[i, middle] >= 1.3 * mass:"),
        ("first_above", "        mass -= total[i, low - 1]\n", ""),
        ("first_above", "int(mass / share[i, low])", "int(mass / share[i, low] + 0.5)"),
        ("share_up_to", "if t <= edge[i]:", "if t <= edge[i] + 1:"),
        ("share_up_to", "if ends[i, middle] >= t:", "if ends[i, middle] <= t:"),
        ("share_up_to", "(ends[i, low] - t) * share[i, low]", "share[i, low]"),
        ("share_up_to", "/ total[i, n - 1]", "/ total[i, low]"),
    ],
    ids=short,
)  # fmt: skip
def test_mutants_of_the_posterior_are_found_out(name, old, new, monkeypatch):
    mutant = mutate(posterior, old, new)
    for module in (csb_ts, csb_ts_same, posterior):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, getattr(mutant, name))
    assert found_out(csb_ts.CsbTs) or found_out(csb_ts_same.CsbTsSame)


@pytest.mark.parametrize("runs", [RUNS, pytest.param(MORE, marks=pytest.mark.slow)], ids=["few", "more"])
def test_the_enumeration_finds_nothing_wrong_with_the_originals(runs, monkeypatch):
    assert not found_out(csb_ts_same.CsbTsSame, runs)
    assert not found_out(csb_ts.CsbTs, runs)
    monkeypatch.setattr(csb_ts, "NODES", 0)
    assert not found_out(csb_ts.CsbTs, runs)
