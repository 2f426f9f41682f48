"""Second-looks: its twin, mutants, and what is promised of the money (P1) and against Pay-to-compare (P6)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.second_looks import SlowSecondLooks
from tests.rig.mutants import made_again, survives
from tests.rig.refusals import refusals
from tests.routing.laws import random_law

from weakfeedback import simulate
from weakfeedback.routing import FixedModel, PayToCompare, RoutingProblem, SecondLooks, alike
from weakfeedback.routing.policies import pay_to_compare, second_looks
from weakfeedback.routing.prices import yield_table
from weakfeedback.routing.setting import grouped_problem

ROUNDING = 1e-12
YIELDS = np.full((5, 5), 0.4)
OPTIONS = {
    "no context": {},
    "one feature": {"features": 1, "rho": 0.1},
    "two features": {"features": 2, "groups": 3, "kappa": 0.3},
    "memory": {"features": 1, "memory": 450},
    "capped": {"features": 1, "overspend": 0.03, "allowance": 4, "omega": 0.01, "least": 5000},
    "tight": {"features": 1, "overspend": 0.03, "allowance": 0.2, "kappa": 0.01},
    "horizon": {"features": 2, "horizon": 90, "kappa": 0.5},
    "yields": {"features": 1, "yields": YIELDS},
    "trust": {"features": 1, "trust": "last"},
    "conversations": {"features": 1, "trust": "conversations", "least": 30},
}
FIRST_TALK = 12  # round


def options_for(label, models):
    found = dict(OPTIONS[label])
    if "yields" in found:
        found["yields"] = found["yields"][:models, :models]
    return found


def request(rng, prices):
    """A request: its groups, how often models differ in it, and what it costs on each model."""
    groups = rng.integers(0, 5, size=2)
    return groups, 0.02 + 0.3 * (groups[0] % 3 == 1), prices * rng.choice([0.3, 1.0, 1.0, 2.0])


def play_later_turns(policies, groups, t):
    """Play later turns of a conversation, on a model alone; with the first one the last model is believed."""
    for policy in policies:
        if t == FIRST_TALK:
            policy.believe_last()
        for n in range(t % 3):
            model = np.arange(policy.K) == (t + n) % policy.K
            policy.turn_to(groups, model)
            policy.follow()
            policy.start(model, None)


def play_beside(fast, label, seed, rounds=70, answered=0.8, prices=None):
    """Both decide on requests of changing groups and prices, while answers come late, in another order or never."""
    rng = np.random.default_rng(seed)
    prices = random_law(seed)[2] if prices is None else np.array(prices)
    options = options_for(label, prices.size)
    one, other = fast(prices, **options), SlowSecondLooks(prices.tolist(), **options)
    nobody, waiting = np.zeros(prices.size, dtype=np.bool_), []
    for t in range(rounds):
        groups, rate, own_prices = request(rng, prices)
        if label == "conversations" and t >= FIRST_TALK:
            play_later_turns((one, other), groups, t)
        for policy in (one, other):
            policy.turn_to(groups, nobody)
            if t % 3:
                policy.price(own_prices)
        call, expected = one.select(None), other.select(None)
        assert call.tolist() == expected, t
        assert (np.flatnonzero(one.own) + 1).tolist() == other.own
        waiting.append((groups, one.own.copy(), call, rate))
        for policy in (one, other):
            policy.start(call, None)
        assert one.paid == pytest.approx(other.money)
        assert one.extra == pytest.approx(other.X, abs=1e-12)
        while waiting and rng.random() < answered:
            groups, own, chosen, rate = waiting.pop(int(rng.integers(len(waiting))))
            outputs = (rng.random(int(chosen.sum())) < rate).astype(np.int64)
            lost = rng.random() < 0.1
            for policy in (one, other):
                policy.turn_to(groups, own)
                if lost:
                    policy.cancel(chosen)
                else:
                    policy.update(chosen, outputs, None)
    for i in range(prices.size):
        for j in range(i + 1, prices.size):
            found, expected = one.estimate(i, j), other.estimate(i + 1, j + 1)
            assert found[:2] == pytest.approx(expected[:2], rel=1e-6)
            assert found[2] == expected[2]


def battery(fast, label):
    play_beside(fast, label, 1)
    play_beside(fast, label, 3, answered=0.3)
    play_beside(fast, label, 4, rounds=50)
    play_beside(fast, label, 9, 90, 1.0, [0.03, 0.05, 0.2])  # where it goes down in some groups


@pytest.mark.parametrize("label", OPTIONS)
def test_fast_and_slow_make_the_same_calls(label):
    battery(SecondLooks, label)


def test_compiled_and_interpreted_rounds_are_those_of_the_twin():
    """By the loop, on a law with groups: the calls of every round, and errors as they were made."""
    problem = grouped_problem()
    rounds = 60
    policies = {"looks": SecondLooks(problem.prices, features=1), "pay": PayToCompare(problem.prices)}
    fast, plain = (
        simulate(
            problem,
            policies,
            rounds,
            replications=1,
            seed=5,
            marks=np.arange(1, rounds + 1),
            compiled=compiled,
        )
        for compiled in (True, False)
    )
    assert fast.frame.equals(plain.frame)
    assert fast.compiled["looks"]
    rows = fast.frame[fast.frame["policy"] == "looks"]
    calls = np.diff(rows[["calls_0", "calls_1"]].to_numpy(), axis=0, prepend=0).astype(bool)
    from tests.reference.cascade import stream

    twin, world, rng = SlowSecondLooks(problem.prices.tolist(), features=1), problem.world(), stream(5, 0, 0)
    errors, spent = 0, 0.0
    for t in range(rounds):
        row = world.draw(rng)
        twin.turn_to(problem._groups[row], [False, False])
        call = twin.select(None)
        assert call == calls[t].tolist(), t
        twin.start(call, None)
        _, *labels = problem._rows[row]
        twin.update(call, [label for label, whether in zip(labels, call) if whether], None)
        errors += labels[max(k for k in range(2) if call[k])] != problem._rows[row, 0]
        spent += sum(price for price, whether in zip(problem.prices, call) if whether)
    last = rows.iloc[-1]
    assert last["errors"] == errors
    assert last["cost"] == pytest.approx(spent)
    assert last["regret"] == pytest.approx(spent + errors - rounds * problem.total_costs.min())


ALIKE, LOOKS, PAY = alike, second_looks, pay_to_compare
MUTANTS = [
    ("tight", LOOKS, "return own if want[self.K] else call", "return call"),
    ("one feature", LOOKS, "return found\n", "return a\n"),
    ("one feature", LOOKS, "if cheap <= dear:", "if cheap < 0.5 * dear:"),
    ("one feature", LOOKS, "for i in range(a):", "for i in range(a - 1, -1, -1):"),
    ("horizon", LOOKS, "loss, self.c[a])", "loss, self.c[a] - self.c[found])"),
    ("one feature", LOOKS, "dear, self.c[i])", "dear, self.c[a])"),
    ("one feature", LOOKS, "call[k] = own[k] if several > 1 else k == a", "call[k] = k == a"),
    ("two features", LOOKS, "if self.L[at, q] > self.L[at, best]:", "if self.L[at, q] < self.L[at, best]:"),
    (
        "two features",
        LOOKS,
        "weight = math.exp(self.L[at, q] - top) / self.Q",
        "weight = math.exp(self.L[at, q] - top)",
    ),
    ("two features", LOOKS, "min(groups[q], self.G)", "min(groups[q], self.G - 1)"),
    ("one feature", LOOKS, "square / total - mean * mean", "square / total"),
    ("one feature", LOOKS, "(self.seen[q, g] + 1.0) / (self.t + 1.0)", "1.0"),
    ("one feature", LOOKS, "+ self.open[at, q, g] + 1.0", "+ 1.0"),
    ("capped", LOOKS, "+ self.open[at, q, g] + 1.0", "+ self.open[at, q, g]"),
    ("tight", LOOKS, "self.omega * (self.spent + alone)", "self.omega * self.spent"),
    ("capped", LOOKS, "+ self.looks * last", "+ 2 * self.looks * last"),
    ("capped", LOOKS, "(1.0 + self.overspend) / (1.0 + self.omega)", "(1.0 + self.overspend)"),
    ("capped", LOOKS, "(self.allowance - self.looks) / (1.0 + self.omega)", "self.allowance"),
    ("capped", LOOKS, "self.alone += self.c[self.K - 1]", "self.alone += self.stated[self.K - 1]"),
    ("horizon", LOOKS, "self.extra += max(price - alone, 0.0)", "self.extra += price - alone"),
    ("one feature", LOOKS, "self.begin(self.own)", "self.begin(call)"),
    ("one feature", LOOKS, "            self.c[k] = self.stated[k]\n", ""),
    ("one feature", LOOKS, "        if other:\n            self.weigh_all()\n", ""),
    (
        "one feature",
        LOOKS,
        "        if self.own[i] and self.own[j]:\n            self.asked",
        "        if True:\n            self.asked",
    ),
    (
        "one feature",
        LOOKS,
        "self.L[at, 0] += math.log((s if differed else n - s) / n)",
        "self.L[at, 0] += math.log((n - s if differed else s) / n)",
    ),
    (
        "one feature",
        LOOKS,
        "self.w[at, q - 1, r] *= (s if differed else n - s) / n",
        "self.w[at, q - 1, r] *= (n - s if differed else s) / n",
    ),
    ("one feature", LOOKS, "self.L[at, q] += math.log(total)", "self.L[at, q] += total"),
    ("one feature", LOOKS, "        self.keep_open(call, -1.0)\n", ""),
    (
        "one feature",
        LOOKS,
        "                if self.own[i] and self.own[j]:\n                    self.asked[i, j] -= 1.0",
        "                pass",
    ),
    ("yields", LOOKS, "(d + self.rho * self.c[j]) / share", "d + self.rho * self.c[j]"),
    ("yields", LOOKS, "return share * mean_excess", "return mean_excess"),
    ("yields", LOOKS, "(self.c[j] - self.c[i]) / self.yields[i, j]", "self.c[j] - self.c[i]"),
    ("memory", LOOKS, "        self.L *= kept\n", ""),
    ("memory", LOOKS, "        self.N1 *= kept\n", ""),
    ("memory", LOOKS, " * self.prior[r] ** (1.0 - kept)", ""),
    ("one feature", ALIKE, "prior = mu * (1.0 - mu)", "prior = mu"),
    ("one feature", ALIKE, "np.linspace(-5.0, 4.0, POINTS)", "np.linspace(-4.0, 5.0, POINTS)"),
    ("conversations", LOOKS, "self.trusts_last = True", "pass"),
    ("conversations", LOOKS, "if total < least:", "if found == a:"),
    ("conversations", LOOKS, "self.followed += 1.0", "self.followed += 0.5"),
    ("conversations", LOOKS, "self.t / max(self.t - self.followed, 1.0)", "1.0"),
    ("one feature", PAY, "call[a] = True\n", "call[a] = call[0] = True\n"),
]


@pytest.mark.parametrize(
    ("label", "module", "old", "new"), MUTANTS, ids=[f"{m[0]}: {m[2].strip()}"[:80] for m in MUTANTS]
)
def test_mutants_are_caught(label, module, old, new):
    mutant = made_again((ALIKE, PAY, LOOKS), "SecondLooks", module, old, new)
    assert not survives(lambda: battery(mutant, label))


# -- P1 and P6, whatever happens


def answers_of(kind, policy, call, rng, t):
    """Outputs of a hostile world: never, always, at random, or so that verdicts are as hard as can be."""
    models = np.flatnonzero(call)
    if kind == "agree":
        return np.zeros(models.size, dtype=np.int64)
    if kind == "differ":
        return models
    if kind == "turn round":
        return models * (t // 40 % 2)
    if kind == "tease":  # the disagreement with the last stays at the difference of the prices
        d = policy.stated[-1] - policy.stated
        return np.where(rng.random(models.size) < d[models], 1 + models, 0)
    return rng.integers(0, 3, size=models.size)


KINDS = ("agree", "differ", "turn round", "tease", "random")


def play_badly(prices, options, kind, seed, rounds, answered, spread):
    """Play with answers that come late or never, checking both bounds after every round and layer 0 in each.

    Layer 0 is Pay-to-compare on the same stream, if requests cost the stated prices.
    """
    rng, prices = np.random.default_rng(seed), np.sort(np.array(prices))
    policy = SecondLooks(prices, **options)
    omega, b1 = policy.omega, policy.looks
    plain = PayToCompare(
        prices,
        overspend=(1 + policy.overspend) / (1 + omega) - 1,
        allowance=(policy.allowance - b1) / (1 + omega),
        **{name: value for name, value in options.items() if name in ("memory", "least", "rho", "kappa")},
    )
    last, money, alone, waiting = prices[-1], 0.0, 0.0, []
    fell = 0
    for t in range(rounds):
        groups = rng.integers(0, 70, size=4)
        here = prices * (np.exp(rng.uniform(-spread, spread)) if spread else 1.0)
        policy.turn_to(groups, np.zeros(prices.size, dtype=np.bool_))
        if spread:
            policy.price(here)
        a0 = policy.settled()
        call = policy.select(None)
        own = policy.own.copy()
        top, asked = np.flatnonzero(call)[-1], np.flatnonzero(own)[-1]
        assert top <= asked or own.sum() == 1
        assert top <= max(a0, asked)  # down only
        fell += bool(top < a0)
        policy.start(call, None)
        money += here[call].sum()
        alone += here[-1]
        slack = ROUNDING * (1 + money)
        assert money <= (1 + policy.overspend) * alone + policy.allowance * last + slack  # P1
        assert money <= (1 + omega) * policy.spent + b1 * last + slack  # P6
        if not spread:
            assert plain.select(None).tolist() == own.tolist()
            plain.start(own, None)
            assert plain.spent == policy.spent
        waiting.append((groups, own, call, answers_of(kind, policy, call, rng, t)))
        while waiting and rng.random() < answered:
            groups, own, call, outputs = waiting.pop(int(rng.integers(len(waiting))))
            policy.turn_to(groups, own)
            if rng.random() < 0.1:
                policy.cancel(call)
                plain.cancel(own)
            else:
                policy.update(call, outputs, None)
                if own.sum() > 1:
                    plain.update(own, outputs[own[call]], None)
        if not spread:
            assert (plain.N == policy.N).all()
            assert (plain.D == policy.D).all()
    return policy, fell


@settings(max_examples=25, deadline=None)
@given(
    prices=st.lists(st.sampled_from([0.0, 0.001, 0.02, 0.1, 0.3, 0.3, 2.0]), min_size=1, max_size=4).map(
        lambda found: [*found, max(found) + 0.01]
    ),
    kind=st.sampled_from(KINDS),
    answered=st.sampled_from([0.0, 0.4, 0.9]),
    spread=st.sampled_from([0.0, 0.0, 0.5, 1.6]),
    options=st.fixed_dictionaries(
        {"features": st.integers(0, 4)},
        optional={
            "overspend": st.sampled_from([0.0, 0.01, 0.5]),
            "allowance": st.sampled_from([0, 3, 50]),
            "omega": st.sampled_from([0.0, 0.1]),
            "memory": st.sampled_from([30, 500]),
            "least": st.sampled_from([1, 10**6]),
            "kappa": st.sampled_from([0.001, 3.0]),
            "rho": st.sampled_from([0.0, 1.0]),
        },
    ),
    seed=st.integers(0, 1000),
)
def test_p1_and_p6_whatever_happens(prices, kind, answered, spread, options, seed):
    play_badly(prices, options, kind, seed, 60, answered, spread)


@pytest.mark.parametrize("spread", [0.0, 1.0], ids=["stated prices", "prices of the request"])
def test_p1_and_p6_bind_where_looks_are_wanted_for_ever(spread):
    options = {"features": 1, "kappa": 1e-4, "omega": 0.004, "allowance": 1}
    policy, fell = play_badly([0.05, 0.1, 0.2], options, "tease", 3, 400, 0.9, spread)
    assert policy.extra > 0.9 * (policy.omega * policy.spent + policy.looks * 0.2)  # it binds
    assert policy.extra <= policy.omega * policy.spent + policy.looks * 0.2
    assert fell == 0  # a check is always due and never paid for: no cheaper model answers alone


def test_it_goes_down_where_models_agree_and_nowhere_else():
    rng, policy, answers = np.random.default_rng(2), SecondLooks([0.02, 0.2], features=1), np.zeros((2, 2))
    for _ in range(1500):
        kind = int(rng.random() < 0.5)
        policy.turn_to([kind], [False, False])
        call = policy.select(None)
        policy.start(call, None)
        differ = rng.random() < (0.6 if kind else 0.02)
        policy.update(call, np.array([int(differ), 0])[call], None)
        answers[kind, np.flatnonzero(call)[-1]] += 1
    assert policy.settled() == 1
    assert answers[0, 0] > 0.9 * answers[0].sum()
    assert answers[1, 0] == 0


def test_a_blocked_cheap_model_is_found():
    """A worse middle model refuses the cheap one for ever; a look at the settled model itself does not care.

    Without groups: money and errors fall below .75 of Pay-to-compare's in each of 20 runs (seed fixed).
    """
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 4, size=20_000)
    outputs = np.tile(truth[:, None], 3)
    for k, rate in enumerate((0.1, 0.55, 0.05)):
        wrong = rng.random(truth.size) < rate
        outputs[wrong, k] = (truth[wrong] + 1 + rng.integers(0, 3, size=wrong.sum())) % 4
    problem = RoutingProblem.from_predictions(truth, outputs, [0.02, 0.035, 0.4])
    policies = {"looks": SecondLooks(problem.prices), "pay": PayToCompare(problem.prices)}
    results = simulate(problem, policies, 5000, replications=20, seed=1, marks=1)
    best = 5000 * problem.total_costs.min()
    paid = {name: results.values(name, "regret")[:, -1] + best for name in policies}
    assert paid["looks"].max() < 0.75 * paid["pay"].min()


def test_prices_of_the_request_decide_and_hold_for_one_round():
    """Models that differ in .1: the dear one is worth .05 more on short requests, and not .5 on long ones."""
    rng, policy = np.random.default_rng(0), SecondLooks([0.0, 0.1])
    answers = {0.4: [0, 0], 4.0: [0, 0]}
    for _ in range(1500):
        size = float(rng.choice([0.4, 4.0]))
        policy.turn_to([], [False, False])
        policy.price(np.array([0.0, 0.1]) * size)
        call = policy.select(None)
        policy.start(call, None)
        assert policy.c.tolist() == [0.0, 0.1]
        policy.update(call, np.array([int(rng.random() < 0.15), 0])[call], None)
        answers[size][np.flatnonzero(call)[-1]] += 1
    assert answers[4.0][0] > 10 * answers[4.0][1]
    assert answers[0.4][1] > 10 * answers[0.4][0]


def test_useless_groups_cost_little():
    """G2 in small: 16 random groups on six laws, 5000 rounds, 20 runs, against Pay-to-compare on the same rows."""
    ratios = []
    for seed in (0, 1, 2, 3, 5, 6):
        outcomes, law, prices = random_law(seed)
        rng = np.random.default_rng(seed)
        rows = rng.choice(len(outcomes), size=5000, p=law)
        problem = RoutingProblem.from_predictions(
            outcomes[rows, 0], outcomes[rows, 1:], prices, rng.integers(0, 16, size=5000)
        )
        policies = {"looks": SecondLooks(prices, features=1), "pay": PayToCompare(prices)}
        results = simulate(problem, policies, 5000, replications=6, seed=1, marks=1)
        best = 5000 * problem.total_costs.min()
        paid = {name: results.values(name, "regret")[:, -1].mean() + best for name in policies}
        ratios.append(paid["looks"] / paid["pay"])
    assert np.mean(ratios) <= 1.002
    assert max(ratios) <= 1.01


# -- what is refused


test_wrong_options_are_refused = refusals(
    lambda option, value: SecondLooks([0.1, 0.2], **{option: value}),
    ("features", 17, "features must be"),
    ("features", -1, "features must be"),
    ("groups", 0, "groups must be"),
    ("omega", -0.1, "omega must be"),
    ("yields", [[1, 1]], "yields must be a table of 2 x 2 numbers up to 1"),
    ("yields", [[1, 2], [1, 1]], "yields must be a table of 2 x 2 numbers up to 1"),
    ("yields", "x", "yields must be a table of 2 x 2 numbers up to 1"),
    ("yields", [[1, float("nan")], [1, 1]], "yields must be a table of 2 x 2 numbers up to 1"),
)


def test_a_yield_of_nothing_trusts_the_cheap_model():
    assert yield_table([[1, -0.3], [1, 1]], 2)[0, 1] == 1e-9
    assert SecondLooks([0.1, 0.2], yields=[[1, -1], [1, 1]]).settled() == 0


@pytest.mark.parametrize("groups", [[0, 1], np.zeros((5, 0)), [1.5] * 5, [[0], [1, 2], [0], [0], [0]]])
def test_wrong_groups_are_refused(groups):
    rows = [[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 0, 1], [1, 0, 0]]
    with pytest.raises(ValueError, match="groups must be 5 labels"):
        RoutingProblem(rows, [0.2] * 5, [0.1, 0.2], groups)


def test_features_that_the_problem_does_not_have_are_refused():
    with pytest.raises(ValueError, match="was made for 2 features, the problem has 1"):
        simulate(grouped_problem(), {"looks": SecondLooks([0.02, 0.1], features=2)}, 5, replications=1)
    with pytest.raises(ValueError, match="must be 'rounds'"):
        simulate(grouped_problem(), {"pay": PayToCompare([0.02, 0.1])}, 5, method="events")


def test_groups_change_the_digest_and_nothing_else_does():
    rows, law = [[1, 1, 1], [1, 0, 1]], [0.5, 0.5]
    plain = RoutingProblem(rows, law, [0.1, 0.2])
    by_text = RoutingProblem(rows, law, [0.1, 0.2], ["b", "a"])
    assert by_text.digest() == RoutingProblem(rows, law, [0.1, 0.2], [7, 2]).digest() != plain.digest()
    results = simulate(by_text, {"first": FixedModel([0.1, 0.2], 0)}, 400, 1, seed=1, compiled=False)
    errors = results.values("first", "errors")[0, -1]
    assert results.values("first", "regret")[0, -1] == pytest.approx(40 + errors - 400 * 0.2)
