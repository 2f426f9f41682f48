"""The policies of routing against their slow twins, call by call, and mutants that must be caught."""

from itertools import combinations

import numpy as np
import pytest
from tests.reference import cascade as worlds
from tests.reference import routing as slow
from tests.rig.mutants import caught_in_a_loop, made_again, mutate, survives
from tests.routing.laws import random_law

from weakfeedback import simulate
from weakfeedback.routing import (
    DoubleThompson,
    FixedModel,
    PayToCompare,
    RoutingProblem,
    alike,
    play,
    tails,
    world,
)
from weakfeedback.routing.policies import double_thompson, pay_to_compare

ROUNDS = 120
PAIRS = {
    "pay": (PayToCompare, slow.SlowPayToCompare, {}),
    "pay, horizon": (PayToCompare, slow.SlowPayToCompare, {"horizon": 150, "rho": 0.2, "kappa": 0.3}),
    "pay, memory": (PayToCompare, slow.SlowPayToCompare, {"memory": 450}),
    "pay, capped": (PayToCompare, slow.SlowPayToCompare, {"overspend": 0.01, "allowance": 2, "least": 5000}),
    "pay, hasty": (PayToCompare, slow.SlowPayToCompare, {"least": 50, "kappa": 3.0}),
    "double": (DoubleThompson, slow.SlowDoubleThompson, {}),
    "fixed": (FixedModel, slow.SlowFixedModel, {"model": 1}),
}


def routes_of(results, label, problem, replication):
    """The calls of each round, from the counts."""
    frame = results.frame
    rows = frame[(frame["policy"] == label) & (frame["replication"] == replication)]
    calls = rows[[f"calls_{k}" for k in range(problem.arms)]].to_numpy()
    return np.diff(calls, axis=0, prepend=0).astype(bool).tolist()


@pytest.mark.parametrize("cycled", [False, True], ids=["law", "data set"])
@pytest.mark.parametrize("seed", range(5))
def test_fast_and_slow_make_the_same_calls(seed, cycled):
    outcomes, probabilities, prices = random_law(seed)
    if cycled:
        problem = RoutingProblem.from_predictions(outcomes[:, 0], outcomes[:, 1:], prices)
    else:
        problem = RoutingProblem(outcomes, probabilities, prices)
    policies = {label: fast(prices, **options) for label, (fast, _, options) in PAIRS.items()}
    results = simulate(
        problem, policies, horizon=ROUNDS, replications=1, seed=seed, marks=np.arange(1, ROUNDS + 1)
    )
    assert all(results.compiled.values())
    last = results.frame[results.frame["round"] == ROUNDS].set_index("policy")
    for label, (_, twin, options) in PAIRS.items():
        rngs = worlds.stream(seed, 0, 0), worlds.stream(seed, 0, 1)
        hidden_side = worlds.slow_world(outcomes, probabilities, cycled)
        expected = slow.slow_routes(twin(prices.tolist(), **options), hidden_side, rngs, ROUNDS)
        assert routes_of(results, label, problem, 0) == expected, label
        answers = [sum(max(np.flatnonzero(call)) == k for call in expected) for k in range(problem.arms)]
        assert [last.loc[label, f"answers_{k}"] for k in range(problem.arms)] == answers
        paid = slow.slow_regret(expected, problem.errors, prices, problem.optimal_arm)
        assert last.loc[label, "regret"] == pytest.approx(paid, abs=1e-9)
        spent = sum(prices[k] for call in expected for k in np.flatnonzero(call))
        assert last.loc[label, "cost"] == pytest.approx(spent, abs=1e-9)


def test_compiled_and_interpreted_rounds_are_the_same_to_the_bit():
    outcomes, probabilities, prices = random_law(7)
    problem = RoutingProblem(outcomes, probabilities, prices)
    policies = {label: fast(prices, **options) for label, (fast, _, options) in PAIRS.items()}
    runs = [
        simulate(problem, policies, horizon=400, replications=2, seed=3, compiled=compiled)
        for compiled in (True, False)
    ]
    assert runs[0].frame.equals(runs[1].frame)


@pytest.mark.parametrize("seed", range(12))
def test_the_problem_agrees_with_enumeration(seed):
    outcomes, probabilities, prices = random_law(seed)
    problem = RoutingProblem(outcomes, probabilities, prices)
    expected = slow.slow_margins(outcomes.tolist(), probabilities.tolist(), prices.tolist())
    assert problem.errors == pytest.approx(expected["errors"], abs=1e-12)
    assert problem.total_costs == pytest.approx(expected["total"], abs=1e-12)
    assert problem.optimal_arm == expected["best"]
    assert problem.xi == pytest.approx(expected["xi"], abs=1e-12)
    assert problem.margin == pytest.approx(expected["margin"], abs=1e-12)
    assert problem.weak_dominance == (expected["xi"] > 1e-12)


def late_and_cancelled(fast, twin, seed, options, rounds=90, answered=0.55):
    """Both decide while answers come late, in another order or never."""
    rng = np.random.default_rng(seed)
    _, _, prices = random_law(seed)
    one, other = fast(prices, **options), twin(prices.tolist(), **options)
    mine, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
    waiting = []
    for t in range(rounds):
        call, expected = one.select(mine), other.select(theirs)
        assert call.tolist() == expected, t
        one.start(call, mine)
        other.start(expected, theirs)
        waiting.append(call)
        while waiting and rng.random() < answered:
            chosen = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() < 0.2:
                one.cancel(chosen)
                other.cancel(chosen)
            else:
                outputs = (rng.random(int(chosen.sum())) < 0.15).astype(np.int64)
                one.update(chosen, outputs, mine)
                other.update(chosen, outputs.tolist(), theirs)
    assert mine.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize("label", PAIRS)
@pytest.mark.parametrize("seed", [11, 12, 14])
def test_late_and_cancelled_rounds_are_learned_as_the_twin_does(label, seed):
    fast, twin, options = PAIRS[label]
    late_and_cancelled(fast, twin, seed, options)


def battery(fast, twin, options):
    """Random runs, late answers, and the exact ties that random runs never meet."""
    for seed in range(5):
        outcomes, probabilities, prices = random_law(seed)
        runs = []
        for policy in (fast(prices, **options), twin(prices.tolist(), **options)):
            rngs = worlds.stream(seed, 0, 0), worlds.stream(seed, 0, 1)
            law = worlds.slow_world(outcomes, probabilities, False)
            runs.append(slow.slow_routes(policy, law, rngs, 70))
        assert runs[0] == runs[1]
    for seed in (11, 14):
        late_and_cancelled(fast, twin, seed, options, rounds=60)
        late_and_cancelled(fast, twin, seed, options, rounds=60, answered=0.1)
    always_different(fast, twin, options)
    ties(fast, twin, options)


def always_different(fast, twin, options):
    """A free model that is always wrong: comparing it costs nothing, and must end all the same."""
    runs = []
    for policy in (fast([0.0, 0.3], **options), twin([0.0, 0.3], **options)):
        rngs = np.random.default_rng(0), np.random.default_rng(0)
        runs.append(slow.slow_routes(policy, worlds.SlowLawWorld([[1, 0, 1]], [1.0]), rngs, 60))
    assert runs[0] == runs[1]


def ties(fast, twin, options):
    """Equal prices, prices above an error, draws that hit the difference; at 30 both losses are exactly 0."""
    for prices in ([0.0, 0.5], [0.0, 0.5, 1.0], [0.25, 0.25], [0.0, 2.0], [30.0, 30.0], [1.0, 30.0, 30.0]):
        one, other = fast(prices, **options), twin(prices, **options)
        for outputs in (None, (1, 1), (1, 0)):
            calls = [policy.select(Half()) for policy in (one, other)]
            assert list(calls[0]) == calls[1], prices
            for policy, call in zip((one, other), calls):
                policy.start(np.array(call), Half())
                policy.update(np.array(call), np.array((outputs or (0, 1))[:1] * sum(call)), Half())


class Half:
    """Draws that are ties."""

    def beta(self, a, b):
        return 0.5


@pytest.mark.parametrize(
    "label", ["pay", "pay, horizon", "pay, memory", "pay, capped", "pay, hasty", "double"]
)
def test_the_battery_finds_nothing_wrong_with_the_real_ones(label):
    battery(*PAIRS[label])


PAY, DOUBLE = pay_to_compare, double_thompson
MUTANTS = [
    (PAY, "pay", "for j in range(a + 1, self.K):  #", "for j in range(a + 1, self.K - 1):  #"),
    (PAY, "pay", "self.cheap[a, j], self.c[j]):", "self.cheap[a, j], self.c[j] - self.c[a]):"),
    (PAY, "pay", "(self.c[m] if m != a else 0.0)", "self.c[m]"),
    (PAY, "pay", "self.low[i, m] * (self.c[a] - self.c[i])", "self.low[i, m] * (self.c[m] - self.c[i])"),
    (PAY, "pay", "self.low[i, j] < self.low[i, found]", "self.low[i, j] > self.low[i, found]"),
    (PAY, "pay", "return self.cheap[i, j] >", "return self.cheap[i, j] >="),
    (PAY, "pay, hasty", "self.N[i, j] + self.asked[i, j] + 1.0", "self.N[i, j] + 1.0"),
    (PAY, "pay", "self.N[i, j] + self.asked[i, j] + 1.0", "self.N[i, j] + self.asked[i, j]"),
    (PAY, "pay", "max(price, LEAST_PRICE * self.c[self.K - 1])", "price"),
    (PAY, "pay", "min(1.0, d + self.rho * self.c[j])", "min(1.0, d + self.rho * self.c[i])"),
    (PAY, "pay", "f = 1.0 + self.N[i, j] - self.D[i, j]", "f = 1.0 + self.N[i, j]"),
    (PAY, "pay", "max(self.least, self.t - self.begun + 1)", "self.t - self.begun + 1"),
    (PAY, "pay", "self.count(i, j, outputs[a] != outputs[b])", "self.count(i, j, outputs[0] != outputs[b])"),
    (PAY, "pay", "        self.asked[i, j] -= 1.0\n        self.add", "        self.add"),
    (
        PAY,
        "pay",
        "                if call[i] and call[j]:\n                    self.asked[i, j] -= 1.0",
        "                pass",
    ),
    (PAY, "pay, horizon", "self.kappa * max", "max"),
    (PAY, "pay, horizon", "self.horizon - self.t", "self.horizon - self.t + 9"),
    (PAY, "pay, memory", "-max(1, self.memory // 200) / self.memory", "-1.0 / self.memory"),
    (
        PAY,
        "pay, memory",
        "self.t % max(1, self.memory // 200) == 0",
        "self.t % max(1, self.memory // 100) == 0",
    ),
    (PAY, "pay, memory", "return min(rounds, self.memory) if self.memory > 0 else rounds", "return rounds"),
    (PAY, "pay, memory", "                self.N[i, j] *= kept\n", ""),
    (PAY, "pay, capped", "rounds = self.t - self.since + 1", "rounds = self.t - self.since"),
    (PAY, "pay, capped", "call[k] = k == a", "call[k] = k == self.K - 1"),
    (PAY, "pay, capped", "(1.0 + self.overspend) * rounds", "rounds"),
    (DOUBLE, "double", "<= p:", "< p:"),
    (DOUBLE, "double", "best = False  #", "return False  #"),
    (
        DOUBLE,
        "double",
        "        call[self.draw(rng)] = True\n        call[self.draw",
        "        call[self.draw",
    ),
    (DOUBLE, "double", "self.S[i, j], self.F[i, j])\n", "self.F[i, j], self.S[i, j])\n"),
    (PAY, "pay", "                        b += 1\n", "                        b = a + 1\n"),
]


@pytest.mark.parametrize(
    ("module", "label", "old", "new"), MUTANTS, ids=[f"{m[1]}: {m[2]} -> {m[3]}"[:90] for m in MUTANTS]
)
def test_mutants_are_caught(module, label, old, new):
    fast, twin, options = PAIRS[label]
    mutant = getattr(mutate(module, old, new), fast.__name__)
    assert not survives(lambda: battery(mutant, twin, options))


REMOVALS = ["pay", "pay, horizon", "pay, memory", "pay, capped", "pay, hasty"]


def removals(fast, label):
    """Rounds, a removal, rounds, a removal, and so on: the same calls and counts as the twin."""
    _, twin, options = PAIRS[label]
    for seed in (2, 3, 7, 9):
        rng = np.random.default_rng(seed)
        rates = rng.uniform(0.02, 0.4, 5) * (seed != 7)
        prices = np.sort(rng.uniform(0.0, 0.4, 5))
        one, other = fast(prices, **options), twin(prices.tolist(), **options)
        for models in (5, 4, 3, 2):
            for t in range(25):
                call, expected = one.select(None), other.select(None)
                assert call.tolist() == expected, t
                outputs = (rng.random(int(call.sum())) < rates[:models][call]).astype(np.int64)
                for policy in (one, other):
                    policy.start(call, None)
                    policy.update(call, outputs.tolist(), None)
            gone = int(rng.integers(models)) if seed == 9 else one.settled()
            kept = [k for k in range(models) if k != gone]
            one, other = one.with_models(one.c[kept], kept), other.without(gone + 1)
            for i, j in combinations(range(1, models), 2):
                counts = one.D[i - 1, j - 1], one.N[i - 1, j - 1]
                assert counts == pytest.approx(other.compared(i, j), rel=1e-7, abs=1e-9)
            assert one.begun == other.earlier
            others = [k if k != one.settled() else -1 for k in range(models - 1)]
            left = np.ix_(*[[k for k in others if k >= 0]] * 2)
            assert np.array_equal(
                one.with_models(one.c, others).N[left], one.N[left]
            )  # a replaced one: not pooled


@pytest.mark.parametrize("label", REMOVALS)
def test_after_removals_calls_are_those_of_the_twin(label):
    removals(PayToCompare, label)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (alike, " - log_beta(s, n - s)", ""),
        (alike, "n - s + N[i][j] - D[i][j])", "n - s + N[i][j])"),
        (alike, "prior = mu * (1.0 - mu)", "prior = mu"),
        (alike, "SIZES = (2.0, 8.0, 32.0, 128.0)", "SIZES = (2.0, 8.0, 32.0, 64.0)"),
        (alike, "np.linspace(-5.0, 4.0, POINTS)", "np.linspace(-4.0, 5.0, POINTS)"),
        (alike, "(s + D[i][j] + 1.0)", "(s + D[i][j])"),
        (alike, "(square - mean * mean) - 1.0", "(square - mean * mean)"),
        (alike, "max(mean * size - 1.0, 0.0)", "mean * size - 1.0"),
        (alike, "max((1.0 - mean) * size - 1.0, 0.0)", "(1.0 - mean) * size"),
        (pay_to_compare, "if alike and min(kept) >= 0 and ", "if alike and "),
        (pay_to_compare, " and self.settled() not in kept:", ":"),
        (pay_to_compare, "self.settled() not in kept:", "self.settled() in kept:"),
        (pay_to_compare, "            D, N = pooled(D, N)\n", "            D, N = pooled(D, N)[0], N\n"),
        (
            pay_to_compare,
            "        if min(kept) >= 0:\n            found.begun",
            "        if False:\n            found.begun",
        ),
    ],
)
def test_mutants_of_removals_are_caught(module, old, new):
    mutant = made_again((alike, pay_to_compare), "PayToCompare", module, old, new)
    assert not survives(lambda: [removals(mutant, label) for label in ("pay, hasty", "pay")])


def runs_as_the_twin(play_mutant, world_mutant):
    """The loop and the world, interpreted, against the twin's calls on a law and on a data set."""
    for seed in range(2):
        outcomes, probabilities, prices = random_law(seed)
        problem = RoutingProblem(outcomes, probabilities, prices)
        for cycled in (False, True):
            rows, law = problem._rows, problem._probabilities
            hidden_side = world_mutant.TableWorld(rows) if cycled else world_mutant.LawWorld(rows, law)
            rngs = worlds.stream(seed, 0, 0), worlds.stream(seed, 0, 1)
            counts = np.zeros(2 * problem.arms, dtype=np.int64)
            table = np.zeros((60, counts.size), dtype=np.int64)
            policy = DoubleThompson(prices)
            assert play_mutant.play(policy, hidden_side, *rngs, np.arange(1, 61), counts, table) == 0
            steps = np.diff(table, axis=0, prepend=0)
            twin_world = worlds.slow_world(outcomes, probabilities, cycled)
            twin = slow.SlowDoubleThompson(prices.tolist())
            rngs = worlds.stream(seed, 0, 0), worlds.stream(seed, 0, 1)
            expected = np.array(slow.slow_routes(twin, twin_world, rngs, 60))
            assert (steps[:, : problem.arms] == expected).all()
            answers = [problem.arms - 1 - call[::-1].argmax() for call in expected]
            assert steps[:, problem.arms :].argmax(axis=1).tolist() == answers
            seen = {pair: sum(found) for pair, found in twin.seen.items()}
            assert all(policy.S[i - 1, j - 1] - 1 == count for (i, j), count in seen.items())


def test_the_loop_and_the_world_run_as_the_twin():
    runs_as_the_twin(play, world)


test_mutants_of_the_loop_and_the_world_are_caught = caught_in_a_loop(
    runs_as_the_twin,
    play,
    world,
    (
        world,
        "seen[n] = self.rows[row, k + 1]\n                n += 1\n        return n\n\n\nclass",
        "seen[n] = self.rows[row, k]\n                n += 1\n        return n\n\n\nclass",
    ),
    (play, "counts[K + answer] += 1", "counts[K] += 1"),
    (play, "            counts[k] += 1\n", "            counts[K - 1 - k] += 1\n"),
    (play, "seen[:shown]", "seen[: shown - 1]"),
    (play, "range(played + 1, marks[-1] + 1)", "range(played + 1, marks[-1])"),
)


def test_the_tails_are_those_of_scipy():
    from scipy.special import betainc, betaincc

    rng = np.random.default_rng(1)
    for _ in range(2000):
        n, mean = 10 ** rng.uniform(0, 5), rng.random()
        a, b = 1 + n * mean, 1 + n * (1 - mean)
        x = float(np.clip(mean + 4 * rng.normal() * np.sqrt(mean * (1 - mean) / n + 1e-4), 1e-9, 1 - 1e-9))
        for ours, theirs in ((tails.below, betainc), (tails.above, betaincc)):
            if theirs(a, b, x) > 1e-280:
                assert ours(a, b, x) == pytest.approx(theirs(a, b, x), rel=1e-9)
