"""USS-WD, drifting USS-TS and Q-USS against their slow twins: questions to the generator, arms, counts.

Only USS-WD sums in another order than its twin, and with fsum: a difference needs a cost within 1e-15 of a
drawn probability. The seeds are fixed; there is none.
"""

import hashlib

import numpy as np
import pytest
from tests.reference import cascade as slow
from tests.reference.cascade_beyond import SlowQUss, SlowUssTsDrift, SlowUssWd, slow_sale

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, QUss, UssTsDrift, UssWd
from weakfeedback.settings.catalog import make_policy


class Heard:
    """A policy whose generator notes what it is asked; it is told of arrays that it must not change."""

    def __init__(self, policy, by_pairs=False):
        self.policy, self.by_pairs, self.asked = policy, by_pairs, []

    def beta(self, a, b):
        self.asked.append((float(a), float(b)))
        return self.rng.beta(a, b)

    def random(self):
        self.asked.append("u")
        return self.rng.random()

    def select(self, rng):
        self.rng = rng
        return self.policy.select(self)

    def shown(self, outputs):
        array = np.array(outputs)
        if self.by_pairs:
            array = array[:, None] != array
        array.setflags(write=False)
        return array

    def update(self, arm, outputs, rng):
        self.rng = rng
        tell = self.policy.update_pairs if self.by_pairs else self.policy.update
        tell(arm, self.shown(outputs), self)

    def wants_label(self, arm, outputs, rng):
        self.rng = rng
        ask = self.policy.wants_label_pairs if self.by_pairs else self.policy.wants_label
        return ask(arm, self.shown(outputs), self)

    def learn_label(self, arm, outputs, truth):
        if self.by_pairs:
            self.policy.learn_label_pairs(arm, self.shown(outputs), np.array(outputs) == truth)
        else:
            self.policy.learn_label(arm, self.shown(outputs), truth)


def random_law(seed, K, labels):
    """Rows (y, y1, ..., yK), probabilities and costs; two laws of three have arms that mostly agree."""
    rng = np.random.default_rng([seed, K, labels])
    rows = int(rng.integers(4, 14))
    outcomes = rng.integers(0, labels, size=(rows, K + 1))
    if seed % 3:
        outcomes = np.where(rng.random(outcomes.shape) < 0.25, outcomes, outcomes[:, :1])
    costs = np.cumsum(rng.uniform(0, 1.0 / K, size=K))
    return outcomes.tolist(), rng.dirichlet(np.ones(rows)).tolist(), costs.tolist()


def by_pair(twin, one, *names):
    """Counts of pairs, which a twin keys by 1-based arms."""
    for name in names:
        for (i, j), count in getattr(twin, name).items():
            assert getattr(one, name)[i - 1, j - 1] == count, (name, i, j)


def tree_agrees(one, twin):
    for node, tries in twin.n.items():
        # root 1, children of a node: twice it, and one more
        place = int("1" + "".join(map(str, node[1:])), 2)
        assert (one.n[place], one.d[place]) == (tries, twin.d[node]), node
    assert one.n[0] == one.d[0] == 0.0
    assert one.n.size == one.d.size == 2 ** (twin.K - 1)


@pytest.mark.parametrize("K", range(1, 9))
def test_uss_wd_agrees_with_its_twin(K):
    for seed, redraws in enumerate((20, 1, 3)):
        outcomes, probabilities, costs = random_law(seed, K, 2)
        one, twin = UssWd(costs, redraws), SlowUssWd(costs, redraws)
        ears = Heard(one, by_pairs=seed == 1), Heard(twin)
        horizon = 300 if K < 7 else 100
        fast, expected = (
            slow.slow_run(ear, slow.SlowLawWorld(outcomes, probabilities), seed, 0, horizon) for ear in ears
        )
        assert fast == expected
        assert ears[0].asked == ears[1].asked
        tree_agrees(one, twin)


def test_uss_wd_refuses_three_labels_as_its_twin_does():
    one, twin = UssWd([0.1, 0.2, 0.3, 0.4]), SlowUssWd([0.1, 0.2, 0.3, 0.4])
    for outputs in ((0, 1, 2), (0, 0, 1, 1), (2, 1, 2, 0), (3, 3), (5,), (1, 2, 2, 3), (0, 1, 1, 0)):
        refused = []
        for policy, shown in ((one, np.array(outputs)), (twin, outputs)):
            try:
                policy.update(len(outputs) - 1, shown, None)
                refused.append(False)
            except ValueError:
                refused.append(True)
        assert refused == [len(set(outputs)) > 2] * 2, outputs
        tree_agrees(one, twin)


# Before there were redraws the policy was a file of its own. What it played: a digest of 400 arms, and their counts.
BEFORE = {
    1: ("7a12e561363385e9", [400]),
    2: ("e9b0ca9f0addcbee", [380, 20]),
    3: ("4db73f2b4c23ede4", [247, 0, 153]),
    4: ("061e14e344a8a8f1", [5, 6, 61, 328]),
    5: ("c3f79dcabc932ec4", [3, 1, 0, 3, 393]),
    6: ("c58d6b74306aef25", [0, 0, 0, 0, 0, 400]),
    7: ("106e0f50d0eef5f3", [21, 16, 3, 1, 0, 0, 359]),
    8: ("21b2f5f3343cf8ab", [0, 0, 83, 0, 0, 2, 0, 315]),
}


def played(policy, K, outcomes, probabilities):
    rng, world = np.random.default_rng([5, K]), np.random.default_rng([6, K])
    rows, arms = np.array(outcomes), []
    for _ in range(400):
        row = rows[world.choice(len(rows), p=probabilities)]
        arm = policy.select(rng)
        policy.update(arm, row[1 : arm + 2], rng)
        arms.append(arm)
    return arms


@pytest.mark.parametrize("K", BEFORE)
def test_one_law_per_round_plays_what_was_played_before(K):
    outcomes, probabilities, costs = random_law(K, K, 2)
    for policy in (
        UssWd(costs, redraws=1),
        SlowUssWd(costs, redraws=1),
        make_policy("cascade", "uss-ts-joint", costs),
    ):
        arms = played(policy, K, outcomes, probabilities)
        assert np.bincount(arms, minlength=K).tolist() == BEFORE[K][1]
        assert hashlib.sha256(bytes(arms)).hexdigest()[:16] == BEFORE[K][0]


def test_twenty_laws_play_something_else():
    found = {K: played(UssWd(law[2]), K, *law[:2]) for K in BEFORE for law in [random_law(K, K, 2)]}
    same = [K for K, arms in found.items() if hashlib.sha256(bytes(arms)).hexdigest()[:16] == BEFORE[K][0]]
    assert same[:2] == [1, 2]  # with two arms every law is possible
    assert len(same) < 6


@pytest.mark.parametrize("K", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(
    "options", [{}, {"probe": 0.3, "memory": 7}, {"probe": 0, "memory": 2.5}, {"memory": 1}]
)
def test_drifting_uss_ts_agrees_with_its_twin(K, options):
    for seed in range(3):
        outcomes, probabilities, costs = random_law(seed, K, 2 + seed % 2)
        one, twin = UssTsDrift(costs, **options), SlowUssTsDrift(costs, **options)
        ears = Heard(one, by_pairs=seed == 1), Heard(twin)
        fast, expected = (
            slow.slow_run(ear, slow.SlowLawWorld(outcomes, probabilities), seed, 0, 300) for ear in ears
        )
        assert fast == expected
        assert ears[0].asked == ears[1].asked
        by_pair(twin, one, "D", "N")


PRICES = [(0.02, 0.2), (1.0, 0.2), (0.0, 0.2), (0.1, 0.2), (5.0, 3.0), (0.5, 0.0)]


@pytest.mark.parametrize("K", [1, 2, 3, 5, 8])
def test_q_uss_agrees_with_its_twin(K):
    route, kinds = set(), {"A": 0, "B": 0, "E": 0}
    for seed, (price, cap) in enumerate(PRICES * 2):
        outcomes, probabilities, costs = random_law(seed, K, 2 + seed % 3)
        one, twin = QUss(costs, price, cap), SlowQUss(costs, price, cap)
        ears = Heard(one, by_pairs=seed % 4 == 1), Heard(twin)
        fast, expected = (
            slow_sale(ear, slow.SlowLawWorld(outcomes, probabilities), seed, 0, 250) for ear in ears
        )
        assert fast == expected
        assert ears[0].asked == ears[1].asked
        by_pair(twin, one, "D", "N", "A", "B", "E")
        assert (one.t, one.labels, bool(one.buying)) == (twin.t, twin.labels, twin.buying)
        assert twin.labels == sum(bought for _, bought in expected)
        route |= twin.route
        kinds = {kind: kinds[kind] + sum(getattr(twin, kind).values()) for kind in kinds}
    if K > 1:
        assert route == {"same", "buying", "means"}
        assert min(kinds.values()) > (0 if K > 2 else -1), kinds


@pytest.mark.parametrize(
    ("price", "cap", "labels", "t"),
    [
        (1.0, 1.0, 3, 8),  # 4^3 = 8^2
        (1.0, 1.0, 8, 27),  # 9^3 = 27^2
        (0.25, 0.5, 0, 1),  # .25^2 = .0625 <= .125
        (0.5, 0.5, 1, 4),  # .25 * 2^3 = .125 * 4^2
        (0.1, 0.2, 19, 100),  # .01 * 20^3 = .008 * 100^2, but not in doubles
        (5.0, 0.2, 1, 158),  # 25 * 2^3 = .008 * 25000, 158^2 = 24964
        (0.0, 0.0, 50, 1),
    ],
)
def test_q_uss_may_spend_as_much_as_its_twin(price, cap, labels, t):
    bought = set()
    for more in (0, 1):
        for later in (-1, 0, 1):
            one, twin = QUss([0.2, 0.4, 0.5], price, cap), SlowQUss([0.2, 0.4, 0.5], price, cap)
            for policy in (one, twin):
                policy.labels, policy.t = labels + more, max(1, t + later)
            rngs = np.random.default_rng(1), np.random.default_rng(1)
            for _ in range(6):
                assert one.select(rngs[0]) == twin.select(rngs[1])
                assert bool(one.buying) == twin.buying
                bought.add(twin.buying)
    assert bought == {False, True}  # two equal samples buy nothing, at any price


def test_q_uss_has_its_default_cap():
    assert (QUss([0.1, 0.2], 1.0).cap, SlowQUss([0.1, 0.2], 1.0).cap) == (0.2, 0.2)


@pytest.mark.parametrize("cycled", [False, True], ids=["law", "data set"])
def test_simulations_agree_with_the_twins(cycled):
    """Pulls, labels and regret of the loops, round by round, interpreted."""
    outcomes, probabilities, costs = random_law(4, 4, 2)
    if cycled:
        rows = np.array(outcomes)
        problem = CascadeProblem.from_predictions(rows[:, 0], rows[:, 1:], costs)
    else:
        problem = CascadeProblem(outcomes, probabilities, costs)
    make = {
        "wd": (UssWd, SlowUssWd, (4,)),
        "drift": (UssTsDrift, SlowUssTsDrift, (0.1, 20)),
        "bought": (QUss, SlowQUss, (0.3, 1.0)),
    }
    policies = {label: fast(costs, *options) for label, (fast, _, options) in make.items()}
    marks = np.arange(1, 201)
    frame = simulate(problem, policies, 200, replications=2, seed=6, marks=marks, compiled=False).frame
    for label, (_, twin, options) in make.items():
        for replication in range(2):
            world = slow.SlowTableWorld(outcomes) if cycled else slow.SlowLawWorld(outcomes, probabilities)
            play = slow_sale if label == "bought" else lambda *run: [(arm, 0) for arm in slow.slow_run(*run)]
            arms, bought = np.array(play(twin(costs, *options), world, 6, replication, 200), dtype=int).T
            table = frame[(frame["policy"] == label) & (frame["replication"] == replication)]
            pulls = np.cumsum(arms[:, None] == np.arange(4), axis=0)
            assert (table[[f"pulls_{k}" for k in range(4)]].to_numpy() == pulls).all(), label
            price = options[0] if label == "bought" else 0.0
            regret = pulls @ np.array(problem.gaps) + price * np.cumsum(bought)
            np.testing.assert_allclose(table["regret"], regret, rtol=0, atol=1e-9)
            if label == "bought":
                assert table["labels"].tolist() == np.cumsum(bought).tolist()
                assert bought.any()
