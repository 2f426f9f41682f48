"""The benchmarks of live objects, with very few rounds: what they measure, count and judge."""

import sys

import pytest
from benchmarks import live, policies
from benchmarks.live import BOTH, COMPILED, INTERPRETED, Work

from weakfeedback.cli.warm_up import jobs, live_object


@pytest.fixture(scope="module")
def found():
    works = {
        "Cascade K=3": Work(lambda compiled: live.by_hand(3, compiled), 5, BOTH, 15.0, 2),
        "Cascade K=3, cascade(x)": Work(lambda compiled: live.called(3, compiled), 5, BOTH, None, 2),
        "Player K=10": Work(lambda compiled: live.player(10, compiled), 5, (INTERPRETED,), None, 2),
    }
    return live.measure(1, peers=False, works=works)


def test_both_ways_are_measured_and_the_better_one_judged(found):
    assert list(found["objects"]) == ["Cascade K=3", "Cascade K=3, cascade(x)", "Player K=10"]
    entry = found["objects"]["Cascade K=3"]
    assert set(entry["ways"]) == {INTERPRETED, COMPILED}
    assert entry["ways"][entry["better"]]["p50_us"] == min(row["p50_us"] for row in entry["ways"].values())
    words = live.text(found)
    assert words.count("Cascade K=3  ") == 2
    assert words.count("median at most 15") == 1
    assert "River" not in words


def test_a_call_is_compared_with_its_parts(found):
    call = found["calls"]["Cascade K=3"]
    assert 5 < call["switches"] < 20
    assert call["to_by_hand"] > 0.2
    assert f"{call['switches']} switches" in live.text(found)


@pytest.mark.parametrize(("us", "verdict"), [(14.9, "met"), (15.1, "MISSED")])
def test_goals_are_judged(found, us, verdict):
    row = {"per_second": 1, "p50_us": us, "p99_us": 5.1 * us}
    entry = {"ways": {COMPILED: row}, "better": COMPILED, "goal_us": 15.0}
    told = live.text({**found, "objects": {"Cascade K=3": entry}, "calls": {}})
    assert f"median at most 15: {verdict}" in told
    assert "(goal 5 medians: MISSED)" in told


def test_switches_are_calls_from_module_to_module():
    def step(_):
        # warm_up calls setting, which asks catalog, and then catalog, which calls setting twice
        live_object.__globals__["jobs"]("USS-TS", "cascade")

    step(0)  # modules are loaded now
    assert live.switches(step, 1) == 5
    assert sys.getprofile() is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: live.allocator(5, "CSB-SU", False),
        lambda: live.adaptive(3, False),
        lambda: live.allocator(5, "CSB-TS", False),
        lambda: live.contextual(4, False),
        lambda: live.by_hand(20, False),
        lambda: live.stages_alone(3),
    ],
)
def test_every_work_can_be_done(make):
    step = make()
    for t in range(3):
        step(t)


def test_a_call_switches_modules_eleven_times_with_any_number_of_stages():
    few, many = (live.switches(live.called(arms, False)) for arms in (3, 20))
    assert (few, many) == (11, 11)
    assert live.switches(live.called(3, False, "USS-WD-TS")) == 11  # the default


LIVE = [job for job in jobs() if live_object(*job, compiled=False) is not None]


@pytest.mark.parametrize(("setting", "policy"), LIVE)
def test_every_policy_can_be_timed(setting, policy, monkeypatch):
    monkeypatch.setattr(policies, "ROUNDS", 5)
    monkeypatch.setattr(policies, "REPETITIONS", 1)
    assert policies.round_us(setting, live_object(setting, policy, compiled=False)) > 0.0


def test_a_row_of_the_table():
    taken = {"cold": 4.26, "cached": 0.612, "interpreted": 123.4, "compiled": 18.2}
    assert policies.line("USS-TS", "cascade", taken) == "| USS-TS | cascade | 4.3 | 0.61 | 120 | 18 |"
