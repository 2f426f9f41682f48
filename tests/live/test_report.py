"""Reports and explanations against numbers worked out by hand."""

import math

import numpy as np
import pytest

from weakfeedback.live import Cascade, Costed, UnknownDecision
from weakfeedback.live.report import wilson


def rounds(outputs, stage_costs=(1, 4, 25), error_cost=100):
    """A cascade that was given these outputs by hand; their number tells where it stopped."""

    class Scripted:
        delay_safe = True

        def __init__(self):
            self.step = 0

        def select(self, rng):
            self.step += 1
            return len(outputs[self.step - 1]) - 1 if self.step <= len(outputs) else 1

        def update_pairs(self, arm, differ, rng):
            pass

    cascade = Cascade([str] * 3, list(stage_costs), error_cost=error_cost, policy=Scripted())
    for given in outputs:
        cascade.feedback(cascade.decide().id, given)
    return cascade


FIVE = [("a", "a", "b"), ("a", "b", "b"), ("a",), ("a", "b"), ("a",)]


def test_wilson_against_the_roots_of_its_equation():
    # The bounds are the p with (p - share)^2 = z^2 p (1 - p) / n.
    z = 1.959963984540054
    for count, tries in ((1, 10), (30, 40), (5, 5000), (0, 7), (7, 7)):
        a, b, c = 1 + z * z / tries, -(2 * count / tries + z * z / tries), (count / tries) ** 2
        root = math.sqrt(b * b - 4 * a * c)
        expected = (-b - root) / (2 * a), (-b + root) / (2 * a)
        assert wilson(count, tries) == pytest.approx(expected, abs=1e-12)
    assert wilson(0, 0) == (0.0, 1.0)


def test_the_numbers_of_a_report():
    report = rounds(FIVE).report()
    # Stages 0 and 1 were compared in rounds 1, 2 and 4 and differed in 2 and 4; 0 and 2 differed in both of 1
    # and 2; 1 and 2 in 1.
    assert report.comparisons.tolist() == [[0, 3, 2], [3, 0, 2], [2, 2, 0]]
    assert report.disagreement.tolist() == [[0, 2 / 3, 1], [2 / 3, 0, 0.5], [1, 0.5, 0]]
    assert report.intervals[0, 1] == pytest.approx(wilson(2, 3))
    assert report.intervals[2, 1] == pytest.approx(wilson(1, 2))
    assert report.arm_shares.tolist() == [0.4, 0.2, 0.4]
    # Two rounds at 1, one at 5, two at 30; all stages always would have cost 5 * 30, the last one alone 5 * 25.
    assert (report.spent, report.saved, report.saved_alone) == (67, 83, 58)
    assert (report.rounds, report.pending, report.wasted) == (5, 0, 0)


@pytest.mark.parametrize("paid", [False, True])
def test_a_combined_last_answer_costs_all_stages(paid):
    stages = [lambda x: x, lambda x: Costed(x, 9.0) if paid else x]
    cascade = Cascade(stages, [1, 4], 100, "Fixed", arm=1, combine=lambda outputs: outputs[-1])
    cascade(1)
    assert cascade.report().saved_alone == 0.0
    cascade.feedback_pairs(cascade.decide().id, [], costs=[2.0, 3.0])
    assert cascade.report().saved_alone == 0.0


def test_a_combined_answer_that_stops_early_saves_the_stages_after_it():
    cascade = Cascade([lambda x: x] * 3, [1, 4, 25], 100, "Fixed", arm=1, combine=lambda outputs: outputs[-1])
    cascade(1)
    assert (cascade.report().saved_alone, cascade.report().saved) == (25.0, 25.0)


def test_a_report_before_anything_was_seen():
    cascade = rounds([])
    cascade.decide()
    report = cascade.report()
    assert np.isnan(report.arm_shares).all()
    assert np.isnan(report.disagreement[0, 1])
    assert report.intervals[0, 1].tolist() == [0, 1]
    assert (report.rounds, report.pending, report.spent, report.saved) == (0, 1, 0, 0)
    assert "never compared" in str(report)
    assert str(report).splitlines()[3].split() == ["0", "1", "-"]


def test_the_table_can_be_read():
    text = str(rounds(FIVE).report())
    lines = text.splitlines()
    assert lines[0] == "Cascade of 3 stages, Scripted: 5 rounds learned, 0 pending"
    assert lines[3].split() == ["0", "1", "40.0", "%"]
    assert lines[5].split() == ["2", "25", "40.0", "%"]
    # Wilson for 2 of 3: 20.8 % to 93.9 %.
    assert "66.7 % (20.8 % to 93.9 %)" in text
    assert "spent 67; the last stage alone would have cost 125: saved 58 (46.4 %) against it" in text
    assert "all stages in every round would have cost 150" in text
    assert text.endswith("holds, which in general only labels can tell (audit).")
    assert all(len(line) <= 120 for line in lines)


def test_a_report_does_not_change_afterwards():
    cascade = rounds(FIVE)
    report = cascade.report()
    before = str(report)
    cascade.feedback(cascade.decide().id, ["a", "a"])
    assert str(report) == before


def test_an_explanation_weighs_the_extra_cost_against_the_disagreement():
    # 40 rounds to the last stage: stages 0 and 1 differ in 20, stages 1 and 2 never.
    outputs = [("a", "b", "b"), ("a", "a", "a")] * 20
    cascade = rounds(outputs)
    decision = cascade.decide()
    text = cascade.explain(decision.id)
    lines = text.splitlines()
    assert lines[0] == "Decision 41: stop at stage 1 of 0 to 2 (Scripted)."
    assert lines[1].startswith(
        "Not stage 0: going on to stage 1 costs 4 more, worth it if it corrects more than 4.0 %"
    )
    # Wilson for 20 of 40: 35.2 % to 64.8 %.
    assert lines[1].endswith(
        "differed 20 of 40 times, 50.0 % (35.2 % to 64.8 %): often enough that it may pay."
    )
    assert lines[2].startswith("Stage 2 not called: going on to stage 2 costs 25 more")
    # Wilson for 0 of 40: z^2 / (40 + z^2) = 8.8 %.
    assert lines[2].endswith("differed 0 of 40 times, 0.0 % (0.0 % to 8.8 %): too seldom to pay.")
    cascade.feedback(decision.id, ["a", "b"])
    assert cascade.explain(decision.id) == text  # what was known then, not what is known now
    assert "20 of 40" in text
    assert "differed in no comparison yet" in cascade.explain(1)


def test_what_is_not_clear_yet_is_called_so():
    cascade = rounds([("a", "b", "b"), ("a", "a", "a"), ("a", "a", "a")], error_cost=10)
    # 1 of 3 differed, somewhere from 6.1 % to 79.2 %, against 4 / 10.
    assert "not yet clear whether that pays" in cascade.explain(cascade.decide().id).splitlines()[1]


@pytest.mark.parametrize("name", ["USS-TS", "USS-UCB", "Hanawal", "Random", "Fixed"])
def test_every_policy_tells_its_rule(name):
    options = {"arm": 1} if name == "Fixed" else {}
    cascade = Cascade([str] * 2, [1, 1], error_cost=9, policy=name.lower(), seed=0, **options)
    assert cascade.explain(cascade.decide().id).splitlines()[-1].startswith(name)


def test_what_cannot_be_explained():
    cascade = rounds([])
    with pytest.raises(UnknownDecision):
        cascade.explain(1)
    with pytest.raises(ValueError, match="id must be"):
        cascade.explain("1")
