"""The policies against slow twins written from the description, decision by decision."""

import pytest
from tests.adaptive.following import follow, random_problem, random_table
from tests.reference.adaptive import SlowNext, SlowUssA

from weakfeedback.adaptive import UssA, UssNext


@pytest.mark.parametrize(
    ("stages", "labels", "options"),
    [
        (2, 2, {}),
        (3, 3, {}),
        (3, 2, {"judge": "score"}),
        (4, 4, {"judge": "score", "ridge": 0.4, "scale": 1.0, "settle": 20}),
        (3, 5, {"judge": "score", "labels": 9, "memory": 40}),
        (5, 3, {"judge": "last", "memory": 64}),
    ],
)
def test_uss_a_decides_as_the_twin(stages, labels, options):
    problem = random_problem(stages, stages, labels)
    follow(UssA(problem.costs, **options), SlowUssA(problem.costs, **options), problem, 5, 160)


def test_uss_a_uses_what_the_last_stage_believes():
    problem = random_problem(3, 3, 4, with_chances=True)
    fast, twin = (cls(problem.costs, judge="score") for cls in (UssA, SlowUssA))
    follow(fast, twin, problem, 2, 150)
    assert fast.chances.max() > 0.0


@pytest.mark.parametrize("labels", [2, 4])
def test_a_calibrated_judge_decides_as_the_twin(labels):
    problem = random_problem(8, 3, labels)
    truth, outputs, scores, _ = random_table(9, 3, labels, rows=40)
    fast, twin = UssA(problem.costs, judge="calibrated"), SlowUssA(problem.costs, judge="calibrated")
    fast.calibrate(outputs, scores, truth)
    twin.calibrate(outputs, scores, truth)
    assert fast.weights == pytest.approx(twin.weights, abs=1e-4)
    assert fast.eta == twin.eta
    fast.weights = twin.weights  # to follow decision by decision
    follow(fast, twin, problem, 4, 150)


@pytest.mark.parametrize(
    ("stages", "options"), [(2, {}), (3, {"scale": 1.0, "memory": 48}), (5, {"ridge": 0.5})]
)
def test_uss_next_decides_as_the_twin(stages, options):
    problem = random_problem(stages + 20, stages)
    follow(UssNext(problem.costs, **options), SlowNext(problem.costs, **options), problem, 6, 160)
