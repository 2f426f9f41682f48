"""The live allocator: decisions, feedback, misuse, threads, reports."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.live.allocations import (
    CASES,
    IDS,
    MEANS,
    SAME,
    SEARCH,
    OneAtATime,
    filled,
    make,
    outcomes,
    shown,
    snapshot,
)
from tests.rig.threads import in_threads

from weakfeedback.allocation import CsbSu, CsbTs, KnownThresholds
from weakfeedback.live import Allocator, FeedbackConflict, PendingDecision, UnknownDecision, storage
from weakfeedback.settings.catalog import make_policy, option_names


@pytest.mark.parametrize(("name", "setting", "thresholds", "options"), CASES, ids=IDS)
@pytest.mark.parametrize("fractions", [False, True])
def test_decides_and_learns_as_the_bare_policy(name, setting, thresholds, options, fractions):
    allocator = make(name, setting, seed=7, **options)
    told = {"setting": setting} if "setting" in option_names("allocation", name) else {}
    policy = make_policy("allocation", name, 4, 1.3, **options, **told)
    rng = np.random.Generator(np.random.PCG64(7))
    for outcome in outcomes(250, fractions=fractions):
        decision, allocation = allocator.decide(), policy.select(rng)
        assert np.array_equal(decision.allocation, allocation)
        assert decision.allocation.sum() <= 1.3 * (1 + 1e-9)
        observed = shown(allocation, outcome, thresholds, setting)
        assert allocator.feedback(decision.id, observed) == "accepted"
        policy.update(allocation, filled(observed), rng)
    assert (allocator.rounds, allocator.pending) == (250, [])
    assert storage.encode_fields(allocator.policy) == storage.encode_fields(policy)


@pytest.mark.parametrize("delay", [1, 5, 20])
@pytest.mark.parametrize(("name", "setting", "thresholds", "options"), CASES, ids=IDS)
def test_late_feedback_in_any_order_is_learned_for_its_own_decision(
    name, setting, thresholds, options, delay
):
    allocator = make(name, setting, seed=3, **options)
    told = {"setting": setting} if "setting" in option_names("allocation", name) else {}
    policy = make_policy("allocation", name, 4, 1.3, **options, **told)
    rng = np.random.Generator(np.random.PCG64(3))
    order = np.random.default_rng(delay)
    waiting = []
    for outcome in outcomes(200, seed=1):
        decision, allocation = allocator.decide(), policy.select(rng)
        assert np.array_equal(decision.allocation, allocation)
        waiting.append((decision.id, allocation, shown(allocation, outcome, thresholds, setting)))
        if len(waiting) > delay:
            id, played, observed = waiting.pop(order.integers(0, len(waiting)))
            assert allocator.feedback(id, observed) == "accepted"
            policy.update(played, filled(observed), rng)
    assert allocator.pending == [id for id, _, _ in waiting]
    assert len(waiting) == delay


@pytest.mark.parametrize("delay", [0, 20])
def test_delay_does_not_drive_the_estimate_past_the_threshold(delay):
    """Thresholds of .4 and a budget of 1.3: three arms can be served. "A loss lowers L by one" would end at 1."""
    allocator = make("CSB-SU")
    waiting = []
    for outcome in outcomes(300):
        decision = allocator.decide()
        waiting.append((decision.id, shown(decision.allocation, outcome, SAME, "loss")))
        if len(waiting) > delay:
            allocator.feedback(*waiting.pop(0))
    assert np.count_nonzero(allocator.decide().allocation) == 3
    assert allocator.report().thresholds == pytest.approx([1.3 / 3] * 4)


def test_nothing_seen_can_be_said_in_several_ways():
    ways = (
        [0.5, None, None, 0],
        [0.5, float("nan"), 0.0, np.nan],
        {0: 0.5},
        {0: 0.5, 3: None},
        (0.5, 0, 0, 0),
    )
    states = set()
    for observed in (*ways, np.array([0.5, np.nan, 0, 0])):
        allocator = make("CSB-DU", gamma=0.05)
        assert allocator.feedback(allocator.decide().id, observed) == "accepted"
        assert allocator.feedback(1, ways[0]) == "duplicate"
        states.add(snapshot(allocator))
    assert len(states) == 1
    allocator = make()
    allocator.feedback(allocator.decide().id, [True, False, False, True])
    assert allocator.report().observed.tolist() == [1, 0, 0, 1]


def test_the_allocation_belongs_to_the_caller():
    allocator = make("CSB-DU", gamma=0.05)
    decision = allocator.decide()
    decision.allocation[:] = 99.0
    allocator.feedback(decision.id, [1.0, 0, 0, 0])
    # Learned at the quarter of the budget that was given, not at 99.
    assert allocator.policy.L[0] == 1.3 / 4
    assert allocator.report().mean_allocation.tolist() == [1.3 / 4] * 4


def test_duplicates_conflicts_unknown_and_cancelled_decisions():
    allocator = make()
    first, second, third = (allocator.decide().id for _ in range(3))
    assert allocator.feedback(second, [1, 0, 0, 0]) == "accepted"
    allocator.cancel(third)
    before = snapshot(allocator)
    assert allocator.feedback(second, [1.0, None, 0, 0]) == "duplicate"
    with pytest.raises(FeedbackConflict):
        allocator.feedback(second, [0, 0, 0, 0])
    for id in (third, 17, 0):
        with pytest.raises(UnknownDecision):
            allocator.feedback(id, [0, 0, 0, 0])
    assert snapshot(allocator) == before
    assert (allocator.rounds, allocator.pending) == (1, [first])


@pytest.mark.parametrize(
    "observed",
    [
        [0, 0, 0],
        [0] * 5,
        [],
        None,
        1.0,
        "0000",
        {0, 1},
        {4: 1.0},
        {"a": 1.0},
        {-1: 1.0},
        [0, 0, 0, 1.5],
        [0, 0, 0, -0.1],
        [0, 0, 0, float("inf")],
        [0, 0, 0, "1"],
        [0, 0, 0, 1j],
        [0, 0, 0, 10**400],
        [0, 0, 0, [1]],
        np.zeros((4, 2)),
        np.zeros((1, 4)),
    ],
)
def test_feedback_that_is_no_feedback_changes_nothing(observed):
    allocator = make()
    id = allocator.decide().id
    before = snapshot(allocator)
    with pytest.raises(ValueError, match="observed"):
        allocator.feedback(id, observed)
    assert snapshot(allocator) == before
    assert allocator.feedback(id, [0, 0, 0, 0]) == "accepted"


VALUES = st.one_of(st.none(), st.floats(), st.integers(-2, 3), st.booleans(), st.text(max_size=2))


@settings(max_examples=100, deadline=None)
@given(
    id=st.one_of(st.integers(-3, 8), st.none(), st.floats(), st.booleans()),
    observed=st.one_of(
        st.none(), st.lists(VALUES, min_size=3, max_size=5), st.dictionaries(st.integers(-1, 4), VALUES)
    ),
)
def test_feedback_is_accepted_or_refused_and_refused_changes_nothing(id, observed):
    allocator = make("CSB-MK", gamma=0.05, **SEARCH)
    for _ in range(3):
        allocator.decide()
    allocator.feedback(1, [0, 0, 0, 0])
    before = snapshot(allocator)
    try:
        outcome = allocator.feedback(id, observed)
    except (ValueError, UnknownDecision):
        outcome = "refused"
    assert (outcome == "accepted") == (snapshot(allocator) != before)


def test_a_policy_that_is_not_delay_safe_waits_for_its_feedback():
    allocator = make(OneAtATime())
    decision = allocator.decide()
    with pytest.raises(PendingDecision, match=f"decision {decision.id} is open"):
        allocator.decide()
    allocator.feedback(decision.id, [0] * 4)
    assert allocator.decide().allocation.tolist() == [0, 1.3, 0, 0]


@pytest.mark.parametrize("share", [1.001, -0.1, float("nan")])
def test_a_policy_that_gives_what_there_is_not_is_caught(share):
    allocator = make(OneAtATime(share))
    with pytest.raises(
        ValueError,
        match=r"4 numbers >= 0 with a sum of at most 1.3, got .* from OneAtATime",
    ):
        allocator.decide()
    assert allocator.pending == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": 0}, "arms must be"),
        ({"arms": 2.5}, "arms must be"),
        ({"budget": 0}, "budget must be"),
        ({"budget": float("nan")}, "budget must be"),
        ({"setting": "losses"}, "setting must be 'loss' or 'reward', got 'losses'"),
        ({"setting": None}, "setting must be"),
        ({"setting": "reward"}, "CSB-SU learns from loss feedback: setting must be 'loss'"),
        ({"policy": "NUM-SK", **SEARCH}, "NUM-SK learns from reward feedback: setting must be 'reward'"),
        ({"policy": "CSB-S"}, "did you mean CSB-"),
        ({"policy": "CSB-SK"}, "CSB-SK needs the option epsilon"),
        ({"policy": "CSB-SU", "gamma": 1}, "gamma is not an option of CSB-SU"),
        ({"policy": 3}, "policy must be a name or a policy object"),
        ({"policy": CsbSu}, "policy must be a name or a policy object"),
        ({"policy": CsbSu(5, 1.3)}, "made for 4 arms and a budget of 1.3, got one for 5 arms"),
        ({"policy": CsbSu(4, 1.2)}, "made for 4 arms and a budget of 1.3"),
        ({"policy": CsbSu(4, 1.3), "setting": "reward"}, "setting must be 'loss'"),
        ({"policy": KnownThresholds(4, 1.3, SAME, "reward")}, "policy must be made for setting='loss'"),
        ({"policy": CsbSu(4, 1.3), "wait": 1}, "options go with the name"),
        ({"seed": -1}, "seed must be"),
        ({"seed": np.random.Generator(np.random.MT19937(1))}, "seed must be a Generator over PCG64"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    arguments = {"arms": 4, "budget": 1.3, "policy": "CSB-SU", **change}
    with pytest.raises(ValueError, match=message):
        Allocator(**arguments)


def test_seeds_of_every_kind():
    def drawn(seed):
        allocator = make("CSB-SK", seed=seed, **SEARCH)
        return [allocator.decide().allocation.tolist() for _ in range(20)]

    sequence = np.random.SeedSequence(5, spawn_key=(0, 1))
    assert drawn(5) == drawn(np.random.SeedSequence(5)) == drawn(np.random.Generator(np.random.PCG64(5)))
    assert drawn(sequence) == drawn(np.random.Generator(np.random.PCG64(sequence)))
    # Twenty times one of six pairs of arms: equal by chance with probability 6 ** -20.
    assert drawn(5) != drawn(sequence)


def test_eight_threads_lose_nothing():
    allocator = make("CSB-DU", gamma=0.05)
    seen = np.zeros((8, 4))

    def work(thread):
        rng = np.random.default_rng(thread)
        for step in range(60):
            decision = allocator.decide()
            if step % 5 == 4:
                allocator.cancel(decision.id)
                continue
            observed = (rng.random(4) < 0.5).astype(float)
            assert allocator.feedback(decision.id, observed) == "accepted"
            assert allocator.feedback(decision.id, observed) == "duplicate"
            seen[thread] += observed
            allocator.report()

    in_threads(8, work)
    assert (allocator.rounds, allocator.pending) == (8 * 48, [])
    assert allocator.report().observed.tolist() == seen.sum(axis=0).tolist()


# -- reports


def test_the_report_counts_what_was_given_and_seen():
    allocator = make(OneAtATime())
    for observed in ([0.5, 0, 0, 1], [None, 0, 0, 1]):
        allocator.feedback(allocator.decide().id, observed)
    report = allocator.report()
    assert (report.rounds, report.pending, report.found) == (2, 0, None)
    assert report.mean_allocation.tolist() == [0.65, 0.65, 0, 0]
    assert report.served_share.tolist() == [0.5, 0.5, 0, 0]
    assert report.seen.tolist() == [1, 0, 0, 2]
    assert report.observed.tolist() == [0.5, 0, 0, 2]
    assert np.isnan(report.thresholds).all()
    assert np.isnan(report.means).all()
    assert "OneAtATime: 2 rounds learned" in str(report)


def test_the_table_of_a_report_fits_a_terminal():
    allocator = make("CSB-SU")
    for outcome in outcomes(300):
        decision = allocator.decide()
        allocator.feedback(decision.id, shown(decision.allocation, outcome, SAME, "loss"))
    table = str(allocator.report()).split("\n\n")[1].splitlines()
    assert len({len(line) for line in table}) == 1  # in columns
    assert len(table[0]) <= 80


@pytest.mark.parametrize("name", ["CSB-SK", "CSB-MK"])
def test_the_report_tells_what_was_learned(name):
    options = {**SEARCH, **({"gamma": 0.02} if name == "CSB-MK" else {})}
    allocator = make(name, **options)
    assert allocator.report().found is False
    assert "still being searched for" in str(allocator.report())
    for outcome in outcomes(600):
        decision = allocator.decide()
        allocator.feedback(decision.id, shown(decision.allocation, outcome, SAME, "loss"))
    report = allocator.report()
    assert report.found is True
    # The threshold of .4 lies between the bounds that the search ended with.
    assert (report.bounds[:, 0] < 0.4).all()
    assert (report.bounds[:, 1] >= 0.4).all()
    learned = ~np.isnan(report.means)
    assert learned.sum() >= 2
    assert (report.intervals[learned, 0] < report.means[learned]).all()
    # Four intervals of 95 %, of which arms that are mostly served are known but roughly: 0.001 each to fail.
    wide = report.intervals[learned] + np.array([-0.1, 0.1])
    assert ((wide[:, 0] < MEANS[learned]) & (MEANS[learned] < wide[:, 1])).all()
    assert "thresholds found" in str(report)


@pytest.mark.parametrize("setting", ["loss", "reward"])
def test_the_default_policy_is_csb_ts_and_reports_its_belief(setting):
    allocator = Allocator(2, budget=1.0, setting=setting, step=0.25)
    assert (type(allocator.policy), allocator.policy.reward) == (CsbTs, setting == "reward")
    # Five candidates at first, .25 to 1 and "cannot be served", equally likely.
    report = allocator.report()
    assert report.thresholds.tolist() == [0.75, 0.75]
    assert report.bounds.tolist() == [[0.25, np.inf]] * 2
    assert np.isnan(report.means).all()
    decision = allocator.decide()
    arm = int(decision.allocation.argmax())
    allocator.feedback(decision.id, {arm: 1})
    # What is left are the candidates above a loss, or up to a reward; the mean is Beta(2, 1).
    candidates = np.array([0.25, 0.5, 0.75, 1.0, np.inf])
    left = candidates[(candidates <= decision.allocation[arm]) == (setting == "reward")]
    report = allocator.report()
    assert report.bounds[arm].tolist() == [left[0], left[-1]]
    assert report.thresholds[arm] == left[(left.size - 1) // 2]
    assert report.means[arm] == pytest.approx(2 / 3)
    assert report.intervals[arm] == pytest.approx([0.025**0.5, 0.975**0.5], abs=2e-6)
    assert "CSB-TS: 1 round learned" in str(report)


def test_arms_have_names_in_decisions_feedback_reports_and_files(tmp_path):
    names = ["north", "south", "east"]
    named, numbered = Allocator(names, 1.0, "CSB-SU", seed=3), Allocator(3, 1.0, "CSB-SU", seed=3)
    for _ in range(10):
        one, other = named.decide(), numbered.decide()
        assert list(one.amounts) == names
        assert list(other.amounts) == [0, 1, 2]
        assert list(one.amounts.values()) == one.allocation.tolist() == other.allocation.tolist()
        assert named.feedback(one.id, {"south": 1.0}) == numbered.feedback(other.id, {1: 1.0}) == "accepted"
    assert named.report().names == tuple(names)
    assert [line.split()[0] for line in str(named.report()).splitlines()[5:]] == names
    named.save(tmp_path / "state.json")
    assert list(Allocator.load(tmp_path / "state.json").decide().amounts) == names
    allowed = "must be one of 'north', 'south', 'east', got 'west'"
    with pytest.raises(ValueError, match=f"an arm in observed {allowed}"):
        named.feedback(named.decide().id, {"west": 1.0})
    with pytest.raises(ValueError, match=f"an arm in missing {allowed}"):
        named.feedback(named.decide().id, {}, missing=["west"])
    with pytest.raises(ValueError, match="an arm in observed must be an integer from 0 to 2, got 3"):
        named.feedback(named.decide().id, {3: 1.0})
    for wrong in ([], ["a", "a"], ["a", 1], [""], ("a", " ")):
        with pytest.raises(ValueError, match="arms must be a number, or different names"):
            Allocator(wrong, 1.0)


def test_names_may_come_as_an_array():
    allocator = Allocator(np.array(["north", "south"]), 1.0, seed=3)
    decision = allocator.decide()
    assert decision.names == ("north", "south")
    assert type(decision.names[0]) is str
    assert allocator.feedback(decision.id, {np.str_("south"): 1.0}) == "accepted"
    for wrong in (np.array(["a", "a"]), np.array([0.5, 0.5]), np.array([])):
        with pytest.raises(ValueError, match="arms must be a number, or different names"):
            Allocator(wrong, 1.0)


def test_a_message_names_some_of_many_arms():
    allocator = Allocator([f"place {k}" for k in range(500)], 1.0, "CSB-SU", seed=3)
    with pytest.raises(ValueError, match=r"one of 'place 0', .*, 'place 19', \.\.\., got 'place'$"):
        allocator.feedback(allocator.decide().id, {"place": 1.0})


def test_named_arms_are_recovered_from_a_journal(tmp_path):
    with Allocator.open(tmp_path / "a.db", ["north", "south"], 1.0, "CSB-SU", seed=1) as allocator:
        allocator.feedback(allocator.decide().id, {"north": 1.0})
    with Allocator.open(tmp_path / "a.db", ["north", "south"], 1.0) as again:
        assert (again.rounds, list(again.decide().amounts)) == (1, ["north", "south"])
    with pytest.raises(ValueError, match="arms must be"):
        Allocator.open(tmp_path / "a.db", ["east", "south"], 1.0)
