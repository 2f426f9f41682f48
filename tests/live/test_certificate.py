"""What a live cascade can prove without labels, and what its report says of money and errors."""

import numpy as np
import pytest
from tests.live import inside

from weakfeedback import Cascade, ContextualCascade
from weakfeedback.cascade.certificate import certify


def cascade(**changes):
    return Cascade(3, **{"stage_costs": [1, 20, 20], "error_cost": 100, "seed": 0, **changes})


def rows(disagreements, size=400):
    """Outputs of three stages, of which the first differs from the others in so many of the rows."""
    return [[int(row < disagreements), 0, 0] for row in range(size)]


def test_a_first_stage_that_seldom_differs_is_optimal_whatever_the_truth_is():
    live = cascade()
    assert live.certificate().verdict == "undecided"
    assert live.warm_start(rows(20)) == 400
    found = live.certificate()
    assert (found.verdict, found.possible, found.needed) == ("first-optimal", (0,), None)
    assert "The first stage is optimal for certain (at confidence 95 %)" in str(live.report())
    assert "weak dominance" not in str(live.report())
    assert live.report().certificate == found


def test_weak_dominance_that_certainly_fails_is_told():
    # stages 0 and 1 differ more often than going on costs, 0 and 2 seldom, 1 and 2 often: nobody passes both tests
    live = cascade(stage_costs=[0, 15, 15])
    live.warm_start([[k % 2, (k // 2) % 2, k % 2] for k in range(2000)])
    assert live.certificate().verdict == "no-weak-dominance"
    assert "Weak dominance fails" in str(live.report())


def test_it_is_computed_from_all_counts_anew_when_prices_change():
    live = cascade()
    live.warm_start(rows(100))
    before = live.certificate()
    live.recost([1, 60, 60], 100)
    after = live.certificate()
    counts = inside.counts(live)
    assert after == certify(np.cumsum([1, 60, 60]) / 100, counts.compared, counts.differed, 0.05)
    assert (before.verdict, after.verdict) == ("undecided", "first-optimal")


def test_it_is_not_offered_where_comparisons_fade_or_contexts_choose_them():
    drift = cascade(policy="USS-TS-drift")
    with pytest.raises(
        ValueError, match="certificate is not offered for USS-TS-drift, which forgets: use audit"
    ):
        drift.certificate()
    assert drift.report().certificate is None
    assert "only labels can tell" in str(drift.report())
    contextual = ContextualCascade(3, [1, 20, 20], error_cost=100)
    with pytest.raises(ValueError, match="certificate is not offered with contexts"):
        contextual.certificate()
    for alpha in (0, 1, -1, "x"):
        with pytest.raises(ValueError, match="alpha must be"):
            cascade().certificate(alpha)


def test_the_report_bounds_the_extra_errors_and_the_net_saving():
    live = Cascade(2, [1, 30], error_cost=100, policy="Fixed", arm=0, seed=0)
    live.warm_start([[int(row < 50), 0] for row in range(1000)])
    for _ in range(10):
        live.feedback(live.decide().id, [0])
    report = live.report()
    limit = live.certificate().intervals[0, 1][1]
    assert 0.05 < limit < 0.1
    assert report.saved_alone == 10 * 29
    assert report.extra_errors == pytest.approx(10 * limit)
    assert report.net_saved == pytest.approx((290 - 1000 * limit, 290 + 1000 * limit))
    assert "is open: audit() tells" not in str(report)
    dear = Cascade(2, [1, 2], error_cost=100, policy="Fixed", arm=0, seed=0)
    dear.feedback(dear.decide().id, [0])
    assert "Whether anything was saved, errors included, is open: audit() tells" in str(dear.report())


def test_a_loss_against_the_last_stage_alone_has_its_sign():
    live = Cascade(2, [3, 5], error_cost=1, policy="Fixed", arm=1, seed=0)
    live.feedback(live.decide().id, [0, 0])
    assert live.report().saved_alone == -3.0
    assert "the last stage alone would have cost 5: lost 3 (60.0 %) against it" in str(live.report())
