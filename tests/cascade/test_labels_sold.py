"""The loop that sells labels: who is told the truth, what is counted, what it costs."""

import numpy as np
import pytest
from tests.rig.mutants import caught

from weakfeedback import Results, simulate
from weakfeedback.cascade import CascadeProblem, QUss, UssTs
from weakfeedback.cascade import play as loops
from weakfeedback.cascade.play import LABEL_LOOP, LOOP, NOTHING, play, play_selling
from weakfeedback.cascade.problem import measures_with_labels
from weakfeedback.checks import PolicyCheckError, check_policy
from weakfeedback.engine.loop import loop_for

# the truth is 70 or 71, outputs are 0 and 1: what was told can be told apart from what was shown
OUTCOMES = [[70, 0, 0, 0], [71, 0, 1, 1], [70, 0, 1, 0], [71, 1, 1, 0]]
PROBLEM = CascadeProblem(OUTCOMES, [0.4, 0.3, 0.2, 0.1], costs=[0.1, 0.2, 0.3])


class Buyer:
    """Plays the arms in turn and buys the label in every third round; sums up what it is told."""

    delay_safe = True

    def __init__(self, costs, price=0.5):
        self.K = len(costs)
        self.price = float(price)
        self.t = 0
        self.told = 0
        self.labels = 0

    def select(self, rng):
        return self.t % self.K

    def wants_label(self, arm, outputs, rng):
        return self.t % 3 == 1

    def learn_label(self, arm, outputs, truth):
        self.told += truth
        self.labels += 1

    def update(self, arm, outputs, rng):
        self.t += 1


class Peeker(UssTs):
    """Buys nothing, and would remember a truth if it met one: it has the method to be told, but not to ask."""

    def __init__(self, costs):
        super().__init__(costs)
        self.told = 0

    def learn_label(self, arm, outputs, truth):
        self.told += truth


class Digger(Buyer):
    """Wants no label, and looks behind the outputs it is shown (in the interpreter only)."""

    def __init__(self, costs):
        super().__init__(costs)
        self.most = NOTHING

    def wants_label(self, arm, outputs, rng):
        self.most = max(self.most, int(outputs.max()), int(outputs.base.max()))
        return False

    def update(self, arm, outputs, rng):
        self.most = max(self.most, int(outputs.max()), int(outputs.base.max()))
        self.t += 1


def run(policy, rounds=60, seed=3, loop=None, world=None):
    loop = loop_for(PROBLEM, policy) if loop is None else loop
    width = len(loop.counters(PROBLEM))
    counts, table = np.zeros(width, dtype=np.int64), np.zeros((rounds, width), dtype=np.int64)
    rngs = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    world = PROBLEM.world() if world is None else world
    assert loop.play(policy, world, *rngs, np.arange(1, rounds + 1), counts, table) == 0
    return table


class Watching:
    """A world that notes its rows and the truths it sells."""

    def __init__(self):
        self.world, self.rows, self.sold = PROBLEM.world(), [], []

    def __getattr__(self, name):
        return getattr(self.world, name)

    def draw(self, rng):
        self.rows.append(self.world.draw(rng))
        return self.rows[-1]

    def sell(self, row):
        self.sold.append((len(self.rows), row))
        return self.world.sell(row)


def sells_what_is_asked_for(loop_play):
    policy, world = Buyer(PROBLEM.costs), Watching()
    counts, table = np.zeros(4, dtype=np.int64), np.zeros((60, 4), dtype=np.int64)
    rngs = np.random.default_rng(0), np.random.default_rng(1)
    assert loop_play(policy, world, *rngs, np.arange(1, 61), counts, table) == 0
    assert [t for t, _ in world.sold] == list(range(2, 61, 3))
    assert all(world.rows[t - 1] == row for t, row in world.sold)
    assert policy.told == sum(OUTCOMES[row][0] for _, row in world.sold)
    assert table[:, 3].tolist() == [(t + 1) // 3 for t in range(1, 61)]
    assert counts.tolist() == [20, 20, 20, 20]
    assert table[-1].tolist() == counts.tolist()
    # it goes on where it stopped
    again = np.zeros((1, 4), dtype=np.int64)
    assert loop_play(policy, world, *rngs, np.array([63]), counts, again) == 0
    assert (again[0].tolist(), policy.t) == ([21, 21, 21, 21], 63)


def test_the_loop_sells_what_is_asked_for():
    sells_what_is_asked_for(play_selling)


test_mutants_of_the_loop_are_caught = caught(
    lambda mutant: sells_what_is_asked_for(mutant.play_selling),
    loops,
    ("K = counts.size - 1", "K = counts.size"),
    ("world.sell(row)", "world.sell(0)"),
    ("            counts[K] += 1\n", "        counts[K] += 1\n"),
    ("if policy.wants_label(arm, seen[: arm + 1], rng):", "if True:"),
    ("for k in range(K + 1):", "for k in range(K):"),
    ("for k in range(K):\n        played += counts", "for k in range(K + 1):\n        played += counts"),
)


def test_only_buyers_are_told_the_truth():
    assert loop_for(PROBLEM, UssTs(PROBLEM.costs)) is LOOP
    assert loop_for(PROBLEM, Peeker(PROBLEM.costs)) is LOOP
    assert loop_for(PROBLEM, QUss(PROBLEM.costs, 1.0)) is LABEL_LOOP
    assert LOOP.play is play
    assert "sell" not in LOOP.world_entry
    peeker = Peeker(PROBLEM.costs)
    run(peeker)
    assert peeker.told == 0


@pytest.mark.parametrize("compiled", [False, True])
def test_a_policy_that_does_not_ask_is_told_nothing_and_plays_as_ever(compiled):
    results = simulate(
        PROBLEM,
        {"plain": UssTs(PROBLEM.costs), "peeker": Peeker(PROBLEM.costs)},
        horizon=300,
        replications=2,
        compiled=compiled,
    )
    assert (results.values("plain") == results.values("peeker")).all()
    assert "labels" not in results.frame


def test_what_is_shown_holds_nothing_that_is_hidden():
    digger = Digger(PROBLEM.costs)
    run(digger)
    assert digger.most == 1


def test_the_truth_of_rounds_without_a_label_changes_nothing():
    """The same outputs, other truths wherever none was bought: the same run of Q-USS."""
    policy, world = QUss(PROBLEM.costs, 0.01, cap=2.0), Watching()
    table = run(policy, 300, world=world)
    assert 0 < len(world.sold) < 200
    sold = {t - 1 for t, _ in world.sold}
    script = LABEL_LOOP.protocol.script(PROBLEM, PROBLEM._rows[world.rows].copy())
    for t in range(300):
        if t not in sold:
            script.rows[t, 0] = 999
    other = QUss(PROBLEM.costs, 0.01, cap=2.0)
    assert (run(other, 300, world=script) == table).all()
    for name, value in vars(policy).items():
        assert np.array_equal(value, getattr(other, name)), name
    # the negative control: what was bought does count
    for t in sold:
        script.rows[t, 0] = 1
    script.served = 0
    changed = QUss(PROBLEM.costs, 0.01, cap=2.0)
    run(changed, 300, world=script)
    assert policy.A.sum() + policy.B.sum() == 0  # no arm is ever right here
    assert changed.A.sum() + changed.B.sum() > 0


def test_counts_regret_and_cost():
    results = simulate(
        PROBLEM,
        {"buyer": Buyer(PROBLEM.costs, price=0.5), "USS-TS": UssTs(PROBLEM.costs)},
        horizon=60,
        replications=2,
    )
    last = results.frame[results.frame["round"] == 60]
    buyer = last[last["policy"] == "buyer"]
    assert buyer["labels"].tolist() == [20, 20]
    assert np.allclose(buyer["regret"], 20 * PROBLEM.gaps.sum() + 0.5 * 20)
    assert np.allclose(buyer["cost"], 20 * PROBLEM.costs.sum() + 0.5 * 20)
    assert last[last["policy"] == "USS-TS"]["labels"].tolist() == [0, 0]
    assert last["labels"].dtype.kind == "i"
    assert results.final("labels")["mean"].tolist() == [20, 0]


def test_compiled_and_interpreted_agree_to_the_bit(tmp_path):
    policies = {"Q-USS": QUss(PROBLEM.costs, 0.02, cap=1.0), "buyer": Buyer(PROBLEM.costs)}
    options = {"horizon": 400, "replications": 3, "seed": 5, "marks": np.arange(1, 401)}
    one = simulate(PROBLEM, policies, **options, store=tmp_path / "store")
    other = simulate(PROBLEM, policies, **options, compiled=False)
    assert one.compiled == {"Q-USS": True, "buyer": True}
    for measure in ("regret", "cost", "labels", "pulls_0", "pulls_2"):
        for label in policies:
            assert (one.values(label, measure) == other.values(label, measure)).all()
    assert one.values("Q-USS", "labels")[:, -1].min() > 0
    # the store gives the labels back, and the file of results
    again = simulate(PROBLEM, policies, **options, store=tmp_path / "store")
    assert again.frame.equals(one.frame)
    one.save(tmp_path / "results.parquet")
    assert Results.load(tmp_path / "results.parquet").values("buyer", "labels")[0, -1] == 133


class PairBuyer(Buyer):
    """Counts how often the first arm was right, by outputs or by pairs."""

    def learn_label(self, arm, outputs, truth):
        self.told += int(outputs[0] == truth)
        self.labels += 1

    def wants_label_pairs(self, arm, differ, rng):
        return self.t % 3 == 1

    def learn_label_pairs(self, arm, differ, right):
        self.told += int(right[0])
        self.labels += 1

    def update_pairs(self, arm, differ, rng):
        self.t += 1


def test_a_buyer_of_ones_own_passes_the_checks():
    check_policy(lambda p: PairBuyer(p.costs), PROBLEM, rounds=60, compiled=False)
    with pytest.raises(PolicyCheckError, match=r"pairs teach as outputs: Buyer has no update_pairs\(\)"):
        check_policy(lambda p: Buyer(p.costs), PROBLEM, rounds=60, compiled=False)


class Scribbles(PairBuyer):
    """Notes in a field what it has decided, without saying that this is only a note."""

    def __init__(self, costs):
        super().__init__(costs)
        self.last = -1

    def select(self, rng):
        self.last = self.t % self.K
        return self.last


class Notes(Scribbles):
    delay_safe = False  # a note is of the last decision
    scratch = ("last",)


def test_what_a_decision_may_write_is_named():
    with pytest.raises(PolicyCheckError, match=r"select learns nothing.*'last'"):
        check_policy(lambda p: Scribbles(p.costs), PROBLEM, rounds=20, compiled=False)
    report = check_policy(lambda p: Notes(p.costs), PROBLEM, rounds=20, compiled=False)
    assert "select learns nothing" in report.passed


def test_a_buyer_needs_a_price():
    policy = Buyer(PROBLEM.costs)
    del policy.price
    with pytest.raises(
        ValueError, match="price of Buyer, which buys labels, must be a finite number >= 0, got None"
    ):
        simulate(PROBLEM, {"buyer": policy}, horizon=5, replications=1)
    with pytest.raises(ValueError, match=r"labels.*shape \(\.\.\., 4\)|shape \(\.\.\., 4\)"):
        measures_with_labels(PROBLEM, [1, 2, 3], 1.0)


def test_other_settings_sell_no_labels():
    from weakfeedback.settings.catalog import SETTINGS

    problem = SETTINGS["contextual"].default_problem()
    with pytest.raises(ValueError, match="Buyer buys labels"):
        simulate(problem, {"buyer": Buyer(problem.costs)}, horizon=5, replications=1)
