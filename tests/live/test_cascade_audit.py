"""The audit of a live cascade: which labels are asked for, what it costs, what it leaves alone."""

import re

import numpy as np
import pytest
from tests.live import inside

from weakfeedback import Cascade
from weakfeedback.cascade import CascadeProblem
from weakfeedback.cascade.audit import audit_arm
from weakfeedback.live import Costed, majority

PROBLEM = CascadeProblem.bsc([0.4, 0.25, 0.1], costs=[0.02, 0.1, 0.5])
RNG = np.random.default_rng(6)
ROWS = PROBLEM._rows[RNG.choice(len(PROBLEM._rows), p=PROBLEM._probabilities, size=2000)]
NAMES = ("no", "yes")


def stage(k, called=None):
    def look(row):
        if called is not None:
            called.append((k, row))
        return NAMES[ROWS[row, k + 1]]

    return look


def truth(row):
    return NAMES[ROWS[row, 0]]


def cascade(stages=None, **changes):
    stages = stages or [stage(0), stage(1), stage(2)]
    options = {
        "stage_costs": [2, 8, 40],
        "error_cost": 100,
        "policy": "Fixed",
        "arm": 1,
        "seed": 0,
        **changes,
    }
    return Cascade(stages, **options)


def state(live):
    return live.state(), inside.kept(live)


def test_labels_are_asked_where_the_stages_differ_and_nothing_is_learned():
    called, asked = [], []
    live = cascade([stage(k, called) for k in range(3)])
    live.warm_start([[NAMES[y] for y in row[1:]] for row in ROWS[:1000]])
    live(0)
    before = state(live)
    called.clear()

    def label(row, outputs):
        asked.append(row)
        assert outputs == (NAMES[ROWS[row, 1]], NAMES[ROWS[row, 2]])
        return truth(row)

    items = range(1000, 2000)
    found = live.audit(items, label)
    differing = [row for row in items if ROWS[row, 1] != ROWS[row, 2]]
    assert asked == differing
    assert sorted(called) == sorted((k, row) for k in (0, 1) for row in items)  # the last stage is not called
    assert state(live) == before
    # the same by the pure function, in units of errors, and the true regret inside
    fresh = ROWS[1000:]
    wrong = (fresh[:, 1:3] != fresh[:, :1])[fresh[:, 1] != fresh[:, 2]]
    differed, compared = inside.counts(live).differed, inside.counts(live).compared
    pure = audit_arm(PROBLEM.costs, 1, wrong, 1000, differed, compared)
    assert found.interval == pytest.approx((100 * pure.low, 100 * pure.high))
    assert np.allclose(found.against, 100 * np.array(pure.against))
    assert (found.verdict, found.labels, found.items, found.arm) == (pure.verdict, len(differing), 1000, 1)
    assert found.spent == 1000 * 10
    assert found.low <= 100 * PROBLEM.gaps[1] <= found.high
    # labels in a sequence give the same
    assert live.audit(items, [truth(row) for row in items]) == found


def test_an_optimal_stage_is_found():
    live = cascade()
    live.warm_start([[NAMES[y] for y in row[1:]] for row in ROWS])
    live(0)
    assert (PROBLEM.optimal_arm, PROBLEM.weak_dominance) == (1, True)
    found = live.audit(range(2000), truth)
    assert (found.verdict, found.interval) == ("optimal", (0.0, 0.0))
    text = str(found)
    assert re.search(r"Audit of stage 1 on 2000 fresh items, \d+ of them labelled: optimal", text)
    assert "it costs 0 to 0 per round more than the cheapest stage (95 % confidence)" in text
    assert re.search(r"against stage 0: -\S+ to -\S+, by labels", text)
    assert re.search(r"against stage 2: at most -\S+, by disagreements", text)


def test_a_settled_stage_that_is_not_the_cheapest_shows_that_weak_dominance_fails():
    """The second stage differs in every second answer, and is wrong as often as the first."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 2, size=(2, 3000))
    live = Cascade([lambda x: first[x], lambda x: second[x]], stage_costs=[1, 20], error_cost=100, seed=0)
    live.predict(range(2000), batch_size=10)
    found = live.audit(range(2000, 3000), lambda x: 0)
    assert found.arm == 1
    assert found.verdict == "not the cheapest: weak dominance fails"
    assert 5 < found.low < 20 < found.high < 35  # the truth is 20


def test_the_first_stage_needs_no_items():
    live = cascade(arm=0)
    live.warm_start([[NAMES[y] for y in row[1:]] for row in ROWS])
    live(0)
    found = live.audit([], [])
    assert (found.arm, found.labels, found.spent) == (0, 0, 0.0)

    def nobody(row):
        raise AssertionError

    assert live.audit(range(10), nobody).interval == found.interval
    single = Cascade([stage(0)], [1], 1)
    single(0)
    assert single.audit([], []).verdict == "optimal"


def test_costs_combinations_and_comparisons():
    live = cascade([lambda row: Costed(NAMES[ROWS[row, 1]].upper(), 3.0), stage(1), stage(2)], arm=2)
    answers = {"compare": lambda a, b: a.lower() == b.lower(), "combine": majority}
    other = cascade(arm=2, **answers)
    combined = other.audit(range(200), truth, arm=2)
    rows = ROWS[:200]
    votes = np.column_stack([rows[:, 1], rows[:, 2], (rows[:, 1:].sum(axis=1) >= 2)])
    assert combined.labels == (votes != votes[:, :1]).any(axis=1).sum()
    dear = live.audit(range(200), lambda row: Costed(truth(row), 0.5), arm=1)
    assert dear.labels == 200  # "NO" and "no" differ
    assert dear.spent == 200 * (3 + 8) + 0.5 * 200
    sold = Cascade(
        [stage(0), stage(1)], [1, 1], policy="Q-USS", label=truth, label_price=0.25, seed=0, error_cost=10
    ).audit(range(200), truth, arm=1)
    assert sold.spent == 200 * 2 + 0.25 * sold.labels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [0]), "truth must be 2 labels, one per item, got 1"),
        (([1, 2], "no"), "truth must be a callable or a sequence of labels"),
        (([1, 2], 3), "truth must be a callable or a sequence of labels"),
        ((5, truth), "items must be a sequence of samples"),
        (([], []), "items must be at least one sample, got none"),
        (([1], truth, 0.0), "alpha must be"),
        (([1], truth, 1.5), "alpha must be"),
        (([1], truth, 0.05, 3), "arm must be an integer from 0 to 2, got 3"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    live = cascade()
    live(0)
    with pytest.raises(ValueError, match=message):
        live.audit(*arguments)


def test_before_the_first_round_and_when_something_fails():
    live = cascade()
    with pytest.raises(ValueError, match="arm must be given, because no round was learned yet"):
        live.audit([1], truth)
    before = state(live)
    with pytest.raises(ZeroDivisionError):
        live.audit(range(50), lambda row: 1 / 0, arm=1)
    with pytest.raises(ValueError, match="which equals nothing"):
        live.audit(range(50), lambda row: float("nan"), arm=1)

    async def slow(row):
        return truth(row)

    with pytest.raises(ValueError, match="truth is asynchronous"):
        live.audit(range(50), slow, arm=1)
    assert state(live) == before
