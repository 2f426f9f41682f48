"""What an allocator keeps of its rounds: history, decisions told again, reports that are missing, totals."""

import numpy as np
import pytest
from tests.live.allocations import DIFFERENT, OneAtATime, make, snapshot

from weakfeedback.live import Allocator, FeedbackConflict, StateError, UnknownDecision


def play(allocator, rounds, missing=lambda k: ()):
    """Rounds of which arm 1 loses whenever it gets less than half."""
    for k in range(rounds):
        decision = allocator.decide()
        gaps = missing(k)
        seen = [0.0 if arm in gaps else float(arm == 1 and decision.allocation[1] < 0.5) for arm in range(4)]
        assert allocator.feedback(decision.id, seen, missing=gaps) == "accepted"


def test_the_history_is_a_table_of_the_last_rounds():
    allocator = Allocator(["a", "b", "c", "d"], 1.3, "CSB-SU", seed=0)
    assert allocator.history().empty
    first, second = allocator.decide(), allocator.decide()
    allocator.feedback(second.id, {"b": 1.0})
    allocator.feedback(first.id, {}, missing=["c"])
    table = allocator.history()
    assert list(table.columns) == ["round", "id", "arm", "given", "seen"]
    assert table["round"].tolist() == [1] * 4 + [2] * 4
    assert table["id"].tolist() == [second.id] * 4 + [first.id] * 4
    assert table["arm"].tolist() == ["a", "b", "c", "d"] * 2
    assert table["given"].tolist() == [*second.allocation, *first.allocation]
    assert table["seen"].iloc[:6].tolist() == [0, 1, 0, 0, 0, 0]
    assert np.isnan(table["seen"].iloc[6])


def test_the_history_is_bounded_and_says_so():
    allocator = make()
    play(allocator, 505)
    table = allocator.history()
    assert table["round"].unique().tolist() == list(range(6, 506))
    assert len(allocator.state()["history"]) == 500
    wide = Allocator(100, 4.0, "CSB-SU", seed=0)
    for _ in range(103):
        wide.feedback(wide.decide().id, {})
    assert wide.history()["round"].nunique() == 100


def test_a_decision_is_told_again():
    allocator = make()
    first, second = allocator.decide(), allocator.decide()
    for decision in (first, second):
        assert allocator.decision(decision.id).allocation.tolist() == decision.allocation.tolist()
    allocator.feedback(first.id, [0, 1, 0, 0])
    again = allocator.decision(first.id)
    assert (again.id, again.allocation.tolist()) == (first.id, first.allocation.tolist())
    again.allocation[:] = 9.0  # belongs to the caller
    assert allocator.decision(first.id).allocation.tolist() == first.allocation.tolist()
    allocator.cancel(second.id)
    for id in (second.id, 99):
        with pytest.raises(UnknownDecision, match="the history has the last 500 rounds"):
            allocator.decision(id)


def test_the_history_and_its_gaps_survive_files_and_journals(tmp_path):
    allocator = make("CSB-TS")
    play(allocator, 12, lambda k: (2, 3) if k % 3 == 0 else ())
    allocator.save(tmp_path / "saved.json")
    loaded = Allocator.load(tmp_path / "saved.json")
    assert loaded.history().equals(allocator.history())
    assert loaded.report().gaps.tolist() == [0, 0, 4, 4]
    with Allocator.open(tmp_path / "journal", 4, 1.3, "CSB-TS", seed=0) as journalled:
        play(journalled, 12, lambda k: (2, 3) if k % 3 == 0 else ())
        table = journalled.history()
    with Allocator.open(tmp_path / "journal", 4, 1.3) as recovered:
        assert recovered.history().equals(table)
        assert recovered.report().gaps.tolist() == [0, 0, 4, 4]
        assert recovered.decide().allocation.tolist() == allocator.decide().allocation.tolist()


@pytest.mark.parametrize("setting", ["loss", "reward"])
@pytest.mark.parametrize("name", ["CSB-TS", "CSB-TS-same", "Known"])
def test_nothing_is_learned_of_an_arm_without_a_report(name, setting):
    options = {"thresholds": DIFFERENT} if name == "Known" else {}
    allocator = make(name, setting, **options)
    before = {
        key: np.array(value) for key, value in vars(allocator.policy).items() if isinstance(value, np.ndarray)
    }
    for _ in range(5):
        allocator.feedback(allocator.decide().id, [0.0] * 4, missing=range(4))
    for key, value in before.items():
        if key != "A":  # the set that was served last, which is no evidence
            assert (getattr(allocator.policy, key) == value).all(), key
    allocator.feedback(allocator.decide().id, [0.0] * 4, missing=[1])
    changed = [
        getattr(allocator.policy, key) != value
        for key, value in before.items()
        if value.shape[:1] == (4,) and key in ("F", "S", "P", "used")
    ]
    assert not any(change[1] for change in changed)
    assert allocator.report().unlearned == 0


def test_a_policy_that_needs_all_reports_learns_nothing_from_a_round_with_a_gap():
    allocator, other = make(), make()
    state = snapshot(other)
    allocator.feedback(allocator.decide().id, [0, 1, 0, 0], missing=[3])
    other.decide()
    assert (
        allocator.policy.select(np.random.default_rng(0)).tolist()
        == other.policy.select(np.random.default_rng(0)).tolist()
    )
    assert snapshot(other) != state
    report = allocator.report()
    assert (report.rounds, report.unlearned, report.gaps.tolist()) == (1, 1, [0, 0, 0, 1])
    assert "1 report missing; 1 round could not be learned for that" in str(report)


@pytest.mark.parametrize("missing", ["north", 3, [4], [-1], ["west"], [1.5], [0], [None]])
def test_gaps_that_are_none_change_nothing(missing):
    allocator = make()
    id = allocator.decide().id
    before = snapshot(allocator)
    with pytest.raises(ValueError, match="missing"):
        allocator.feedback(id, [1, 0, 0, 0], missing=missing)
    assert snapshot(allocator) == before


def test_a_gap_is_not_the_same_answer_as_nothing_seen():
    allocator = make()
    id = allocator.decide().id
    allocator.feedback(id, {})
    with pytest.raises(FeedbackConflict):
        allocator.feedback(id, {}, missing=[0])


def test_totals_stand_beside_an_even_split_and_the_best_known_one():
    rng = np.random.default_rng(3)
    needed, risk = np.array([0.3, 0.5, 0.2, 0.6]), np.array([0.9, 0.7, 0.6, 0.4])
    allocator = make("CSB-TS", budget=1.1)
    total = even = best = 0.0
    for _ in range(2000):
        decision = allocator.decide()
        happens = rng.random(4) < risk
        seen = happens & (decision.allocation < needed)
        allocator.feedback(decision.id, seen)
        total += seen.sum()
        even += (happens & (np.full(4, 1.1 / 4) < needed)).sum()
        best += happens[3]
    report = allocator.report()
    assert report.total == total
    assert report.even_total == pytest.approx(even, rel=0.1)
    assert report.best_total == pytest.approx(best, rel=0.1)
    assert f"seen in all: {total:.4g}; by these estimates an even split about" in str(report)


def test_totals_say_nothing_where_the_estimates_do_not():
    allocator = make(OneAtATime())
    allocator.feedback(allocator.decide().id, [1, 0, 0, 0])
    report = allocator.report()
    assert np.isnan([report.even_total, report.best_total]).all()
    assert "seen in all: 1\n" in str(report)


@pytest.mark.parametrize("arms", [["a$b$", "north"], 40])
def test_the_plot_shows_what_each_arm_got(arms):
    allocator = Allocator(arms, 2.0, "CSB-SU", seed=0)
    for _ in range(3):
        allocator.feedback(allocator.decide().id, {})
    ax = allocator.plot()
    ax.figure.canvas.draw()
    assert len(ax.collections) == (2 if arms != 40 else 40)
    assert (ax.get_legend() is None) == (arms == 40)
    assert Allocator(arms, 2.0, "CSB-SU").plot(ax) is ax  # nothing yet to draw


def broken(change):
    allocator = make()
    play(allocator, 3)
    state = allocator.state()
    change(state["history"])
    return state


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.pop(),
        lambda rows: rows[0].pop(),
        lambda rows: rows[0].__setitem__(0, 2),
        lambda rows: rows[0].__setitem__(1, 77),
        lambda rows: rows[1].__setitem__(1, rows[0][1]),
        lambda rows: rows[0][2].pop(),
        lambda rows: rows[0][3].__setitem__(0, 1.5),
        lambda rows: rows[0][2].__setitem__(0, -1.0),
    ],
)
def test_a_history_that_contradicts_the_rest_is_refused(change):
    with pytest.raises(StateError):
        Allocator.from_state(broken(change))
