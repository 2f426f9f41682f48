"""The script that removes the settled model of a router: what it compares with, and what it prints."""

import numpy as np
from benchmarks import removal


def test_what_is_known_of_the_others_is_worth_something(monkeypatch, capsys):
    outputs, errors = np.zeros((50, 3), dtype=int), np.zeros(3)
    stays, new = removal.ratios(outputs, errors, np.array([0.05, 0.1, 0.4]), 1, 0)
    assert 1.0 <= stays < 1.05 < new  # some comparisons of the others were made beside the settled one
    prices = np.array([0.1, 0.5, 1.0])
    monkeypatch.setattr(removal, "LAST", (0.1,))
    monkeypatch.setattr(removal, "chains", lambda seed, count: [(outputs[:, 0], outputs, prices)])
    removal.main(["--runs", "1"])
    first, second, *why = capsys.readouterr().out.splitlines()
    stays, new = removal.ratios(outputs, errors, 0.1 * prices, 1, 0)
    assert first.startswith(f"what was known stays: median {stays:.3f}, mean {stays:.3f}, 0% of 1 cells")
    assert second.endswith(f"worst {new:.3f}")
    assert why[0].startswith("verdict there: 100% of the runs")
    assert why[1].startswith("verdict missing: 0% of the runs, +0.0 points")


def test_a_verdict_is_missing_where_models_were_not_compared():
    one, other = removal.PayToCompare([0.1, 0.3]), removal.PayToCompare([0.1, 0.3])
    for policy, differed, compared in ((one, 0, 5), (other, 90, 90)):
        policy.N[0, 1], policy.D[0, 1] = compared, differed
        policy.weigh_all()
    assert (one.settled(), other.settled()) == (0, 1)
    assert removal.verdict_of(one, other) == "missing"
    assert removal.verdict_of(other, one) == "another"
    assert removal.verdict_of(one, one) == "there"
