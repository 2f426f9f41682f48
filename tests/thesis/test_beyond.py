"""Beyond the thesis: what counts as won, tied and lost, and that every new policy is compared everywhere."""

import math

import numpy as np
import pytest
from tests.experiments.test_model import MARKS, made_up

from weakfeedback.allocation import instances as allocations
from weakfeedback.cascade import instances as cascades
from weakfeedback.contextual import instances as contexts
from weakfeedback.multiplayer import instances as players
from weakfeedback.reproduce.registry import chapters, choose
from weakfeedback.routing import instances as routes
from weakfeedback.settings.catalog import POLICIES
from weakfeedback.thesis import beyond
from weakfeedback.thesis.beyond import tables as beyond_tables
from weakfeedback.thesis.beyond.experiments import EARLY, EARLY_N, INSTANCES, KNOWN, NEW, Q_USS
from weakfeedback.thesis.beyond.families import DISTRIBUTIONS, FAMILIES, SEED
from weakfeedback.thesis.random_cascades import random_problems

ONE = "beyond-cascade-bsc-1"


def results(**final):
    """Results with these final regrets, noisy, 20 replications; "_" in a label is a hyphen."""
    rng = np.random.default_rng(5)
    return made_up(
        {
            label.replace("_", "-"): (mean + spread * rng.standard_normal((20, 1)))
            * np.linspace(0.1, 1, MARKS)
            for label, (mean, spread) in final.items()
        }
    )


def outcome(**final):
    """The row of the table on one instance."""
    table = next(table for table in beyond.TABLES if table.id == "beyond-table-cascade")
    (row,) = table.rows({ONE: results(**final)})
    assert len(row) == len(table.columns)
    return dict(zip(table.columns, row))


@pytest.mark.parametrize(
    ("regret", "spread", "word"), [(50.0, 5.0, "wins"), (150.0, 5.0, "loses"), (99.0, 30.0, "ties")]
)
def test_a_difference_that_a_paired_test_can_tell_wins_or_loses(regret, spread, word):
    row = outcome(USS_TS=(100.0, spread), USS_WD=(regret, spread))
    assert row["The new one"] == word
    assert row["Ratio"] == pytest.approx(regret / 100.0, rel=0.2)
    assert (row["p"] == "< 0.0001") == (word != "ties")


def test_the_rival_is_the_best_of_the_thesis_and_never_a_floor():
    row = outcome(USS_TS=(100.0, 1.0), USS_UCB=(80.0, 1.0), USS_WD=(90.0, 1.0))
    assert row["Thesis's best"] == "USS-UCB"
    assert row["The new one"] == "loses"
    known = made_up(
        {
            label: np.full((5, MARKS), value)
            for label, value in ((KNOWN, 1.0), ("CSB-DU", 9.0), ("CSB-TS", 3.0))
        }
    )
    (one,) = beyond_tables.comparisons({"x": known}, ["x"])
    assert (one.best, one.floor) == ("CSB-DU", 1.0)
    assert one.ratio == pytest.approx(1 / 3)


def test_no_regret_at_all_is_a_ratio_of_one():
    nothing = made_up({"USS-TS": np.zeros((5, MARKS)), "USS-WD": np.zeros((5, MARKS))})
    (one,) = beyond_tables.comparisons({"x": nothing}, ["x"])
    assert one.ratio == 1.0
    something = made_up({"USS-TS": np.zeros((5, MARKS)), "USS-WD": np.ones((5, MARKS))})
    (one,) = beyond_tables.comparisons({"x": something}, ["x"])
    assert one.ratio == math.inf


def test_the_tally_counts_by_policy_and_takes_the_geometric_mean():
    table = next(table for table in beyond.TABLES if table.id == "beyond-table-tally")
    names = ["beyond-cascade-bsc-1", "beyond-cascade-bsc-2"]
    run = {
        names[0]: results(USS_TS=(100.0, 0.1), USS_WD=(50.0, 0.1)),
        names[1]: results(USS_TS=(100.0, 0.1), USS_WD=(200.0, 0.1)),
    }
    (row,) = table.rows(run)
    assert row[:6] == ["USS-WD, cascade", 2, 1, 0, 1, 0.5]
    assert row[6] == pytest.approx(1.0, rel=1e-2)
    assert row[7:] == pytest.approx([2.0, 100.0], rel=1e-2)
    assert len(row) == len(table.columns)


def test_a_ratio_to_almost_nothing_is_left_out_and_its_excess_is_not():
    table = next(table for table in beyond.TABLES if table.id == "beyond-table-tally")
    run = {
        "beyond-cascade-bsc-1": results(USS_TS=(100.0, 0.1), USS_WD=(50.0, 0.1)),
        "beyond-cascade-bsc-4": results(USS_TS=(0.0, 0.0), USS_WD=(7.0, 0.1)),
    }
    (row,) = table.rows(run)
    assert row[6:] == pytest.approx([0.5, 0.5, 7.0], rel=2e-2)


def test_many_comparisons_are_corrected():
    rng = np.random.default_rng(8)
    same = {
        f"x{k}": made_up({p: rng.normal(100, 10, (20, 1)) * np.ones(MARKS) for p in ("USS-TS", "USS-WD")})
        for k in range(60)
    }
    alone = [beyond_tables.comparisons({name: run}, [name])[0].outcome for name, run in same.items()]
    assert set(alone) > {"ties"}  # about three of sixty by chance
    assert {one.outcome for one in beyond_tables.comparisons(same, list(same))} == {"ties"}


def test_every_new_policy_meets_every_instance_of_its_setting():
    for name in set(cascades.names()) - set(cascades.labelled()):
        assert "USS-mean" in INSTANCES[f"beyond-numbers-{name}"].policies
    for name in cascades.labelled():
        if name != "heart-5-as-printed":
            assert {"USS-WD", "USS-TS-drift", *Q_USS} <= set(INSTANCES[f"beyond-cascade-{name}"].policies)
    for name in allocations.names():
        experiment = INSTANCES[f"beyond-allocation-{name.lower()}"]
        assert "CSB-TS" in experiment.policies
        assert ("CSB-TS-same" in experiment.policies) == allocations.load(name).same_threshold
        assert KNOWN in experiment.policies
    for name in contexts.names():
        assert "USS-PD-TS" in INSTANCES[f"beyond-contextual-{name}"].policies
    for name in routes.names():
        experiment = INSTANCES[f"beyond-routing-{name}"]
        assert {"Pay-to-compare", "Double-Thompson"} <= set(experiment.policies)
        assert experiment.problem()[0].digest() == routes.load(name).digest()
    for name in players.names():
        assert {"DPE1", "Claims", EARLY, EARLY_N} <= set(INSTANCES[f"beyond-players-{name}"].policies)
    seen = {label for experiment in beyond.EXPERIMENTS.values() for label in experiment.policies}
    assert set(NEW) <= seen
    catalogued = {name for names in POLICIES.values() for name in names}
    assert {
        "USS-WD",
        "USS-TS-drift",
        "Q-USS",
        "USS-PD-TS",
        "CSB-TS",
        "CSB-TS-same",
        "DPE1",
        "Claims",
    } <= catalogued


def test_families_are_stated_and_the_same_each_time():
    for family in DISTRIBUTIONS:
        members = [e for name, e in FAMILIES.items() if name.rpartition("-")[0] == f"beyond-family-{family}"]
        assert len(members) >= 8
        assert all(DISTRIBUTIONS[family] in experiment.deviations[0] for experiment in members)
        assert len({experiment.problem()[0].digest() for experiment in members}) == len(members)
    again = random_problems(1, SEED, lambda p: p.weak_dominance)[0]
    assert FAMILIES["beyond-family-cascade-wd-01"].problem()[0].digest() == again.digest()
    assert not FAMILIES["beyond-family-cascade-any-01"].problem()[0].weak_dominance


def test_it_is_a_part_of_its_own_without_claims():
    part = chapters()[-1]
    assert (part.heading, part.claims) == ("Beyond the thesis", ())
    assert choose(["beyond"]).ids == set(beyond.EXPERIMENTS)
    assert sum(len(chapter.claims) for chapter in chapters()) == 115
