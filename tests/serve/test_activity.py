"""Minutes and what else is folded from the log: equal to slow sums, to the library's report, and after a restart."""

import json
import random
import time

import pytest
from tests.rig.pace import pace

from weakfeedback import Allocator, Cascade, Router
from weakfeedback.journal import Event, SqliteStore
from weakfeedback.serve.activity import Activity
from weakfeedback.serve.series import KEPT, MINUTE, Series


def events_of(path):
    """What a live object has written, with times of our own: one event every seven seconds."""
    store = SqliteStore.open(path, read_only=True)
    try:
        learner = store.learners()[0].id
        return [
            Event(event.seq, event.seq * 7_000_000, event.kind, event.decision, event.key, event.body)
            for event in store.events(learner)
        ]
    finally:
        store.close()


def folded(watch, events):
    for event in events:
        watch.see(event)
    return watch


def total(watch, column):
    last = watch.series.last()
    return sum(watch.series.read(max(0, last - 6 * 86400), last + 60, 600, [column])["columns"][column])


@pytest.fixture
def cascade(tmp_path):
    dice = random.Random(4)
    path = tmp_path / "c.db"
    with Cascade.open(path, 3, [1, 5, 20], error_cost=100, seed=1) as live:
        for n in range(300):
            decision = live.decide()
            if n % 50 == 7:
                live.cancel(decision.id, cost=0.5)
            elif n % 50 != 9:
                outputs = [dice.random() < 0.5 for _ in range(decision.arm + 1)]
                costs = [2.0, 3.0, 4.0][: decision.arm + 1] if n % 3 == 0 else None
                live.feedback_pairs(
                    decision.id,
                    [[i, j] for j in range(decision.arm + 1) for i in range(j) if outputs[i] != outputs[j]],
                    costs=costs,
                    digest=str(n),
                )
        report = live.report()
    return events_of(path), report


def test_minutes_add_up_to_the_report(cascade):
    events, report = cascade
    watch = folded(Activity("cascade", ["a", "b", "c"], [1, 5, 20]), events)
    assert total(watch, "decisions") == 300
    assert total(watch, "accepted") == report.rounds == watch.ends["accepted"]
    assert total(watch, "cancelled") == 6
    assert total(watch, "spent") == pytest.approx(report.spent)
    assert total(watch, "saved") == pytest.approx(report.saved_alone)
    assert total(watch, "wasted") == pytest.approx(report.wasted)
    assert len(watch.open) == report.pending == 6
    for i, j in [(0, 1), (0, 2), (1, 2)]:
        assert total(watch, f"compared_{i}_{j}") == report.comparisons[i, j]
        differed = report.disagreement[i, j] * report.comparisons[i, j]
        assert total(watch, f"differed_{i}_{j}") == pytest.approx(differed)
    assert (watch.spent, watch.saved) == pytest.approx((report.spent, report.saved_alone))
    assert watch.differed[0, 1][0] == report.comparisons[0, 1]
    assert sum(watch.stops) == watch.decided == 300
    assert sum(detector.count for detector in watch.drift.detectors.values()) == report.comparisons.sum() // 2
    assert len(watch.recent) == 20
    assert list(watch.recent) == list(range(281, 301))


def test_a_restart_from_any_point_changes_nothing(cascade):
    events, _ = cascade
    whole = folded(Activity("cascade", ["a", "b", "c"], [1, 5, 20]), events)
    for cut in (0, 1, 250, len(events)):
        first = folded(Activity("cascade", ["a", "b", "c"], [1, 5, 20]), events[:cut])
        again = Activity.from_state(json.loads(json.dumps(first.state(), allow_nan=False)))
        assert folded(again, events[cut:]).state() == whole.state()
        restored = Activity("cascade", ["a", "b", "c"], [1, 5, 20])
        restored.restore(first.state())
        for event in events[cut:]:
            restored.see(event)
        assert restored.state() == whole.state()


def test_ages_and_prices():
    watch = Activity("cascade", ["a", "b"], [1, 5])
    watch.see(Event(0, 10_000_000, "decide", 0, None, {"stage": 1}))
    watch.see(Event(1, 12_000_000, "decide", 1, None, {"stage": 0}))
    assert watch.ages(13_000_000) == [3.0, 1.0]
    watch.see(Event(2, 13_000_000, "recost", None, None, {"stage_costs": [2, 7], "error_cost": 9}))
    watch.see(Event(3, 14_000_000, "feedback", 0, None, {"differ": [[0, 1]], "digest": ""}))
    assert total(watch, "spent") == 9
    assert total(watch, "saved") == -2
    assert [change["stage_costs"] for change in watch.prices] == [[2, 7]]
    watch.note(15_000_000, "late")
    assert watch.read(0, 60)["columns"]["late"] == [1.0]
    assert Activity.from_state(watch.state()).read(0, 60)["columns"]["late"] == [0.0]  # it is in no log


def test_a_router_pays_when_it_decides(tmp_path):
    with Router.open(tmp_path / "r.db", 3, [1, 5, 20], error_cost=100, seed=1) as live:
        for _ in range(120):
            decision = live.decide()
            if len(decision.call) > 1:
                live.feedback(decision.id, ["x"] * len(decision.call))
        report = live.report()
    watch = folded(Activity("router", ["a", "b", "c"], [1, 5, 20]), events_of(tmp_path / "r.db"))
    assert total(watch, "decisions") == 120
    assert total(watch, "spent") == pytest.approx(report.spent)
    assert total(watch, "saved") == pytest.approx(report.saved_alone)
    assert [total(watch, f"stop_{k}") for k in range(3)] == list(report.answers)
    assert total(watch, "compared_0_2") == report.compared[0, 2]
    assert len(watch.open) == report.pending


@pytest.mark.parametrize("more", [{"error_cost": 100}, {"agree": 0.9}])
def test_a_router_pays_what_the_request_costs(more, tmp_path):
    with Router.open(tmp_path / "r.db", 2, [1, 20], seed=1, **more) as live:
        for n in range(60):
            decision = live.decide(prices=[0.1, 2 + n % 3] if n % 2 else None)
            if len(decision.call) > 1:
                live.feedback(decision.id, ["x"] * len(decision.call))
        counts = live.core.counts
    watch = folded(Activity("router", ["a", "b"], [1, 20]), events_of(tmp_path / "r.db"))
    assert [watch.spent, total(watch, "spent")] == pytest.approx([counts.spent] * 2)
    assert [watch.saved, total(watch, "saved")] == pytest.approx([counts.alone - counts.spent] * 2)


@pytest.mark.parametrize("more", [{"error_cost": 100}, {"agree": 0.9}])
def test_what_is_saved_is_against_the_model_that_is_the_alternative_now(more, tmp_path):
    with Router.open(tmp_path / "r.db", 2, [1, 20], names=["s", "l"], seed=1, **more) as live:
        for n in range(60):
            if n == 20:
                live.add_model(price=100, name="huge")
            if n == 40:
                live.remove_model("s")
            decision = live.decide()
            if len(decision.call) > 1:
                live.feedback(decision.id, ["x"] * len(decision.call))
        counts = live.core.counts
    watch = folded(Activity("router", ["s", "l"], [1, 20]), events_of(tmp_path / "r.db"))
    assert (watch.spent, watch.saved) == pytest.approx((counts.spent, counts.alone - counts.spent))


def test_pairs_of_early_answers_are_counted_like_all_others(tmp_path):
    options = {"agree": 0.9, "background": True, "memory": 64, "seed": 1}
    with Router.open(tmp_path / "r.db", 3, [1, 3, 20], **options) as live:
        calls = []
        for n in range(200):
            decision = live.decide()
            calls.append(decision.call)
            if len(decision.call) > 1:
                live.feedback(decision.id, ["b" if n % 25 == 0 and k == 0 else "a" for k in decision.call])
        counts = live.core.counts
    watch = folded(Activity("router", ["a", "b", "c"], [1, 3, 20]), events_of(tmp_path / "r.db"))
    pairs = [(0, 1), (0, 2), (1, 2)]
    early = sum({0, 2} <= set(call) and call[-1] == 0 for call in calls)
    assert early > 2
    assert list(watch.differed) == list(watch.drift.detectors) == pairs
    for i, j in pairs:
        assert watch.differed[i, j] == [counts.compared[i, j], counts.differed[i, j]]
        assert total(watch, f"compared_{i}_{j}") == watch.drift.detectors[i, j].count == counts.compared[i, j]
    before = watch.state()  # of a version that counted these apart, without their differences
    before["differed"].append([2, 0, early, 0])
    before["drift"].append([2, 0, watch.drift.detectors[0, 2].state()])
    assert Activity.from_state(before).state() == watch.state()


def test_an_allocation(tmp_path):
    with Allocator.open(tmp_path / "a.db", ["n", "s"], 1.0, seed=1) as live:
        for _ in range(50):
            decision = live.decide()
            live.feedback(decision.id, [float(x > 0.4) for x in decision.allocation])
        report = live.report()
    watch = folded(Activity("allocation", ["n", "s"]), events_of(tmp_path / "a.db"))
    for k in range(2):
        assert total(watch, f"given_{k}") / 50 == pytest.approx(report.mean_allocation[k])
        assert total(watch, f"seen_{k}") == report.seen[k]
    assert Activity.from_state(watch.state()).state() == watch.state()


def test_an_adaptive_learner_stops_when_it_is_told_enough():
    watch = Activity("adaptive", ["a", "b", "c"], [1, 5, 20])
    watch.see(Event(0, 0, "begin", 0, None, {}))
    watch.see(Event(1, 1, "tell", 0, None, {"stage": 0, "class": 0, "next": 1}))
    assert total(watch, "decisions") == 1
    assert watch.recent[0]["state"] == "open"
    watch.see(Event(2, 2, "tell", 0, None, {"stage": 1, "class": 1, "next": None}))
    # a round ends with both
    watch.see(Event(3, 2, "feedback", 0, None, {"differ": [[0, 1]], "digest": "x"}))
    assert watch.ends["accepted"] == 1
    assert (total(watch, "stop_1"), total(watch, "spent"), total(watch, "saved")) == (1, 6, 14)
    assert (total(watch, "compared_0_1"), total(watch, "differed_0_1")) == (1, 1)
    assert watch.recent[0] == {"id": 0, "at": 0, "stage": 1, "state": "answered", "ended": 2}
    watch.see(Event(4, 3, "begin", 1, None, {}))
    watch.see(Event(5, 4, "expire", 1, None, {}))
    assert watch.ends["expired"] == 1
    assert not watch.open


def test_a_round_that_does_not_call_its_stages_in_order_goes_on_from_a_state():
    watch = Activity("adaptive", ["a", "b", "c"], [1, 5, 20])
    for id in (0, 1):
        watch.see(Event(2 * id, 0, "begin", id, None, {}))
        watch.see(Event(2 * id + 1, 1, "tell", id, None, {"stage": 2 * id, "class": 0, "next": 1 - id}))
    restored = Activity.from_state(watch.state())
    assert restored.state() == watch.state()
    assert [restored.open[id][2] for id in (0, 1)] == [[0], [0]]  # classes, as ever
    for id, costs in ((0, [1, 5]), (1, [19, 2])):
        tell = {"stage": 1 - id, "class": 1, "next": None}
        restored.see(Event(4 + 2 * id, 2, "tell", id, None, tell))
        restored.see(Event(5 + 2 * id, 2, "feedback", id, None, {"differ": [[0, 1 + id]], "costs": costs}))
    assert (total(restored, "spent"), total(restored, "saved")) == (27, 14 - 2)
    assert (total(restored, "compared_0_1"), total(restored, "compared_0_2")) == (1, 1)
    assert not restored.open
    assert not restored.strayed


def test_a_warm_start_and_a_proxied_request_count():
    watch = Activity("router", ["a", "b"], [1, 5])
    watch.see(Event(0, 0, "warm", None, None, {"differ": [[[0, 1]], []]}))
    assert (total(watch, "compared_0_1"), total(watch, "differed_0_1")) == (2, 1)
    watch.see(Event(1, 5, "serve", None, None, {"stage": 0, "cost": 1.5, "tokens": [10, 0, 3]}))
    assert not watch.recent
    assert Activity.from_state(watch.state()).state() == watch.state()
    assert (total(watch, "spent"), total(watch, "saved"), total(watch, "tokens_in")) == (1.5, 3.5, 10)


def test_minutes_equal_slow_sums_over_any_window():
    dice = random.Random(8)
    series, kept = Series(["a", "b"]), []
    at = 1_700_000_000_000_000
    for _ in range(3000):
        at += dice.choice([0, 1, 30_000_000, 400_000_000])
        amount = dice.choice([1.0, 0.125, -2.0])
        series.add(at, "b", amount)
        kept.append((at // 1_000_000, amount))
    now = at // 1_000_000
    for step in (60, 300, 3600):
        start = now - 86_400 - dice.randrange(1000)
        read = series.read(start, now, step)
        first = start // step * step
        for k, begin in enumerate(read["at"]):
            assert begin == first + k * step
            # a minute belongs to a step as a whole
            expected = sum(x for t, x in kept if begin <= t // 60 * 60 < begin + step and t // 60 * 60 < now)
            assert read["columns"]["b"][k] == pytest.approx(expected)
        assert set(read["columns"]["a"]) == {0.0}


def test_seven_full_days_are_read_at_once():
    """A page that showed them took 0.1 seconds of the loop, twice a second, for a router of eight models."""
    series = Series([str(k) for k in range(75)])
    for minute in range(1, KEPT):
        row = series.row(minute * MINUTE)
        row[1:] = [0.5 + minute] * 75
    began = time.thread_time()
    read = series.read(0, KEPT * 60, 7200)
    assert time.thread_time() - began < 0.04 * pace()
    assert read["columns"]["74"] == [
        sum(0.5 + m for m in range(max(k, 1), k + 120)) for k in range(0, KEPT, 120)
    ]


def test_the_last_quarter_of_an_hour_is_kept_in_steps_of_five_seconds():
    series, at = Series(["x"]), 1_700_000_000
    for second in range(4000):
        series.add((at + second) * 1_000_000, "x", second)
    end = at + 4000
    read = series.read(end - 600, end, 5)
    assert len(read["at"]) == 120
    assert read["columns"]["x"] == [sum(range(t - at, t - at + 5)) for t in read["at"]]
    assert Series.from_state(series.state()).read(end - 600, end, 5) == read
    assert len(series.state()["fine"]) == 180


def test_memory_is_bounded_and_old_minutes_are_gone():
    series = Series(["x"])
    for minute in range(3 * KEPT):
        series.add(minute * MINUTE, "x")
    assert KEPT <= len(series) <= KEPT + 62
    last = 3 * KEPT * 60
    assert sum(series.read(last - 7 * 86400, last, 3600)["columns"]["x"]) == KEPT
    assert sum(series.read(last - 7 * 86400 - 6000, last - 6 * 86400, 600)["columns"]["x"]) == 1440
    assert len(json.dumps(series.state())) < 20 * KEPT


def test_wrong_windows_and_states_are_refused():
    series = Series(["x"])
    for step in (0, 30, 90):
        with pytest.raises(ValueError, match="whole minutes"):
            series.read(0, 60, step)
    with pytest.raises(ValueError, match="at most"):
        series.read(0, 60 * (KEPT + 1))
    assert series.read(100, 50)["at"] == []
    for state in (None, {}, {**series.state(), "minutes": [[1, 2]]}, {**series.state(), "now": [1, 9, 1.0]}):
        with pytest.raises(ValueError, match="not the state"):
            Series.from_state(state)
    for state in (None, {}, {**Activity("cascade", ["a"], [1]).state(), "drift": [3]}):
        with pytest.raises(ValueError, match="not the state"):
            Activity.from_state(state)


def test_a_state_of_another_version_is_read_as_far_as_it_goes():
    old = Series(["gone", "decisions"])
    old.add(61_000_000, "gone", 5.0)
    old.add(61_000_000, "decisions", 3.0)
    new = Series.from_state(old.state(), ["decisions", "more"])
    assert new.read(0, 120)["columns"] == {"decisions": [0.0, 3.0], "more": [0.0, 0.0]}


def test_many_stages_keep_pairs_of_neighbours():
    watch = Activity("cascade", [str(k) for k in range(64)], [1.0] * 64)
    assert len(watch.pairs) == 63
    watch.see(Event(0, 0, "decide", 0, None, {"stage": 63}))
    watch.see(Event(1, 1, "feedback", 0, None, {"differ": [[0, 63]], "digest": ""}))
    assert total(watch, "compared_62_63") == 1
    assert len(watch.drift.detectors) == 64 * 63 // 2


def test_a_state_does_not_change_while_the_watch_goes_on():
    """Snapshots are written by another thread, after their state was taken."""
    watch, taken = Activity("adaptive", ["a", "b"], [1, 5]), []
    events = [
        Event(0, 0, "begin", 0, None, {}),
        Event(1, 1, "tell", 0, None, {"stage": 0, "class": 0, "next": 1}),
        Event(2, 2, "tell", 0, None, {"stage": 1, "class": 1, "next": None}),
        Event(3, 3, "feedback", 0, None, {"differ": [[0, 1]], "digest": "x"}),
        Event(4, 4, "recost", None, None, {"stage_costs": [2, 6], "error_cost": 1.0}),
        Event(5, 5, "begin", 1, None, {}),
        Event(6, 6, "cancel", 1, None, {"cost": 1.0}),
    ]
    for event in events:
        watch.see(event)
        taken.append((watch.state(), json.dumps(watch.state())))
    assert all(json.dumps(state) == text for state, text in taken)
