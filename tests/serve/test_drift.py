"""The drift alarm: against its text, computed slowly in another way, and against what it promises."""

import math
from fractions import Fraction

import numpy as np
import pytest

from weakfeedback.serve.drift import ALARM, Detector, Drift


def binomial_tail(k, n, p):
    """P(X >= k)."""
    return sum(math.comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(k, n + 1))


def slow_interval(k, n, level):
    """Clopper and Pearson: the shares that neither one-sided exact test of half the level refuses, by halving."""

    def root(refused):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if refused(middle) else (low, middle)
        return (low + high) / 2

    lower = 0.0 if k == 0 else root(lambda p: binomial_tail(k, n, p) < level / 2)
    upper = 1.0 if k == n else root(lambda p: 1 - binomial_tail(k + 1, n, p) > level / 2)
    return lower, upper


class SlowDetector:
    """The text of the specification: a sum over all beginnings of the product of ratios since then."""

    def __init__(self):
        self.seen, self.alternatives = [], None

    def add(self, x):
        self.seen.append(x)
        if len(self.seen) == 300:
            l, u = slow_interval(sum(self.seen), 300, 0.001)  # noqa: E741
            above = [(u + (1 - u) * step, u) for step in (0.03, 0.08, 0.2, 0.4)] if u < 1 else []
            below = [(part * l, l) for part in (0.8, 0.5, 0.2)] if l > 0 else []
            self.alternatives = above + below
        if len(self.seen) <= 300:
            return False
        if self.mean() >= 100_000:
            self.seen, self.alternatives = [], None
            return True
        return False

    def mean(self):
        totals = []
        for q, p in self.alternatives:
            total = product = 0.0
            for k, x in enumerate(reversed(self.seen[300:])):  # from each beginning to now
                ratio = q / p if x else (1 - q) / (1 - p)
                product = ratio if k == 0 else product * ratio
                total += product
            totals.append(total)
        return sum(totals) / len(totals)


@pytest.mark.parametrize(("before", "after"), [(0.1, 0.5), (0.6, 0.2), (0.0, 0.3), (1.0, 0.6)])
def test_it_is_the_detector_of_the_text(before, after):
    rng = np.random.default_rng(3)
    stream = [*(rng.random(360) < before).tolist(), *(rng.random(500) < after).tolist()]
    fast, slow, alarms = Detector(), SlowDetector(), 0
    for at, x in enumerate(stream):
        raised = slow.add(x)
        assert fast.add(x, at) == raised
        alarms += raised
        if slow.alternatives and len(slow.seen) > 300:
            assert fast.level == pytest.approx(slow.mean() / ALARM, rel=1e-9)
        if raised:
            assert fast.last == at
            assert not fast.watching
    assert alarms >= 1


def test_the_interval_of_the_baseline_is_exact():
    from weakfeedback.serve.drift import interval

    for k in (0, 1, 15, 150, 299, 300):
        assert interval(k, 300) == pytest.approx(slow_interval(k, 300, 0.001), abs=1e-9)
    # at its ends the exact test has exactly its level
    low, high = (Fraction(end) for end in interval(15, 300))
    assert float(binomial_tail(15, 300, low)) == pytest.approx(0.0005, rel=1e-6)
    assert float(1 - binomial_tail(16, 300, high)) == pytest.approx(0.0005, rel=1e-6)


def delays(before, after, runs, seed, limit=5000):
    """Comparisons from the change to the alarm; the change comes after 1000."""
    found = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        detector = Detector()
        for x in (rng.random(1000) < before).tolist():
            detector.add(x, 0)
        stream = (rng.random(limit) < after).tolist()
        found.append(next((n for n, x in enumerate(stream, 1) if detector.add(x, 0)), math.inf))
    return found


# Medians of 800 runs with other seeds: 693, 552, 103, 182 comparisons. The limits are the quantiles 0.0001 and 0.9999
# of the median of 40 runs, drawn 20,000 times from these: false alarm rate 0.0002 each, for a seed that is not fixed.
@pytest.mark.parametrize(
    ("before", "after", "low", "high"),
    [(0.05, 0.15, 379, 1345), (0.15, 0.30, 296, 994), (0.30, 0.60, 73, 144), (0.30, 0.10, 128, 267)],
)
def test_large_changes_are_found(before, after, low, high):
    assert low <= np.median(delays(before, after, 40, seed=11)) <= high


def test_small_changes_are_mostly_missed():
    # 85 of 100 pilot runs found nothing within 5000: fewer than 10 of 20 have a probability below 0.0001
    found = delays(0.05, 0.10, 20, seed=12)
    assert sum(math.isinf(n) for n in found) >= 10  # the page says so


def false_alarms(runs, length, seed):
    alarms = 0
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        share = (0.05, 0.15, 0.30)[run % 3]
        detector = Detector()
        alarms += any(detector.add(x, 0) for x in (rng.random(length) < share).tolist())
    return alarms


def test_nothing_is_found_where_nothing_changes():
    # By Doob's inequality a run of 10,000 alarms with probability at most 0.1 + 0.001: more than 14 of 36 have a
    # probability below 1e-6. What was measured is far below that bound: none.
    assert false_alarms(36, 10_000, seed=13) == 0


@pytest.mark.slow
def test_nothing_is_found_in_180_runs():
    assert false_alarms(180, 10_000, seed=14) <= 1  # measured: none


def test_a_broken_detector_is_caught():
    class Hasty(Detector):
        def add(self, differed, at):
            self.sums = [10 * m for m in self.sums]
            return super().add(differed, at)

    detector, rng = Hasty(), np.random.default_rng(1)
    assert any(detector.add(x, 0) for x in (rng.random(10_000) < 0.15).tolist())


def test_it_goes_on_from_its_state():
    rng = np.random.default_rng(5)
    stream = [*(rng.random(900) < 0.1).tolist(), *(rng.random(900) < 0.6).tolist()]
    whole, parts = Drift(), Drift()
    for at, x in enumerate(stream):
        differ = [(0, 2)] if x else []
        raised = whole.add([0, 2], differ, at)
        assert parts.add([0, 2], differ, at) == raised
        if at % 97 == 0:
            parts = Drift.from_state(parts.state())
    assert whole.state() == parts.state()
    assert whole.rows() == parts.rows()
    assert whole.rows()[0]["alarms"] == 1
    assert [(alarm.pair, alarm.more) for alarm in whole.marks()] == [((0, 2), True)]


@pytest.mark.parametrize(("before", "after"), [(0.1, 0.5), (0.6, 0.2), (0.0, 0.3), (1.0, 0.6)])
def test_an_alarm_says_which_way(before, after):
    rng, detector = np.random.default_rng(4), Detector()
    stream = [*(rng.random(400) < before).tolist(), *(rng.random(300) < after).tolist()]
    for at, x in enumerate(stream):
        detector.add(x, at)
    assert detector.more == [after > before]
    # the state of a version that did not note it
    again = Detector.from_state(detector.state()[:5])
    assert (again.alarms, again.more) == (detector.alarms, [None])


def test_alarms_are_remembered_in_bounded_memory():
    detector = Detector()
    for at in range(200_000):
        detector.add(at % 500 >= 320, at)  # quiet for a baseline, then nothing but differences
    assert detector.total > 150
    assert len(detector.alarms) == 100
    assert Detector.from_state(detector.state()).total == detector.total


@pytest.mark.parametrize(
    "state",
    [None, 3, [1], [1, 2, [0.5], [], 0], [1, 2, [], [5], 0, []], ["a", 0, [], [], 0], [300, 4, [1.0], [], 0]],
)
def test_a_wrong_state_is_refused(state):
    with pytest.raises(ValueError, match="not the state"):
        Detector.from_state(state)
