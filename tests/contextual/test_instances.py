"""The named instances: what the thesis states of them, what the literature of their data says, and their names."""

import math

import numpy as np
import pytest

from weakfeedback import datasets
from weakfeedback.contextual import families, instances


def test_synthetic_shares_of_weak_dominance():
    """Thesis, table sysDatasetCases: .997, 1, 1, 1, which are those of the best fixed arm."""
    shares = []
    for k in range(1, 5):
        problem = instances.load(f"synthetic-{k}")
        assert problem.features.shape == (5000, 10)
        assert problem.best_fixed_arm == 3
        assert problem.weak_dominance_fraction == pytest.approx(0.73, abs=0.01)
        shares.append(problem.weak_dominance_fraction_fixed)
    assert shares == [0.9972, 1.0, 1.0, 1.0]


def test_synthetic_labels_follow_the_polynomial():
    arms = families.synthetic_arms()
    x1, x2, x3 = arms.contexts.T
    assert np.array_equal(arms.truth == 1, x1 + x1 * x2 + x3**2 >= 0)
    assert np.abs(arms.contexts).max() < 1.0
    # weaker regularisation, longer parameters
    assert (np.diff([np.linalg.norm(theta) for theta in arms.parameters]) > 0).all()


def test_some_of_the_synthetic_arms():
    problem = families.synthetic([0.01, 0.05], arms=[0, 3])
    whole = families.synthetic([0.01, 0.02, 0.032, 0.05, 0.6])
    assert np.array_equal(problem.errors, whole.errors[:, [0, 3]])
    with pytest.raises(ValueError, match="arms must be rising indices"):
        families.synthetic([0.01, 0.05], arms=[3, 0])


@pytest.mark.parametrize(("arms", "increment", "base"), [(4, 0.09, 0.05), (5, 0.06, 0.035)])
def test_realizable_families(arms, increment, base):
    xis = []
    for case in range(1, 5):
        problem = instances.load(f"realizable-{arms}-{case}")
        steps = 0.1 + np.arange(arms) * (increment + (case - 1) * 0.01)
        assert problem.costs == pytest.approx(steps)
        assert problem.weak_dominance_fraction == 1.0
        assert (problem.optimal_arms == 0).all()
        xis.append(problem.xi)
        # every logit is within .35 of logit(base (j - i))
        chance = base * np.arange(1, arms)
        logits = np.log(problem.disagreement[:, 0, 1:] / (1 - problem.disagreement[:, 0, 1:]))
        shift = np.abs(logits - np.log(chance / (1 - chance)))
        assert shift.max(axis=0) == pytest.approx(np.full(arms - 1, 0.35))
    # the increment of the costs grows by .01 with the case, and so does xi
    assert np.diff(xis) == pytest.approx([0.01, 0.01, 0.01])


def test_the_best_arm_varies():
    problem = instances.load("realizable-varying")
    x1, x2 = problem.contexts[:, 0], problem.contexts[:, 1]
    assert np.array_equal(problem.optimal_arms, np.where(x1 < 0, 0, np.where(x2 < 0, 1, 2)))
    assert problem.weak_dominance_fraction == 1.0
    assert problem.xi > 0.05


def round_robin(problem, rounds=5000):
    """The share of contexts with weak dominance among so many, served in the order of the file."""
    return problem.weak_dominance[np.arange(rounds) % len(problem.contexts)].mean()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("pima-contextual", (0.0674, 0.1372, 0.2264)), ("heart-contextual", (0.1248, 0.1948, 0.3028))],
)
def test_real_shares_of_weak_dominance(name, expected, medical_data):
    """Min-max scaling, liblinear, C = 1, all rows: near the thesis's shares, within .018 (PIMA) and .061 (heart)."""
    for k, share in enumerate(expected, start=1):
        problem = instances.load(f"{name}-{k}", medical_data)
        assert round_robin(problem) == pytest.approx(share, abs=1e-4)
        stated = instances.describe(f"{name}-{k}").stated_weak_dominance_fraction
        assert share == pytest.approx(stated, abs=0.061)


def test_dimensions_of_the_real_data(medical_data):
    assert instances.load("pima-contextual-1", medical_data).dimension == 45
    # 105 less the squares of sex, fbs and exang
    assert instances.load("heart-contextual-1", medical_data).dimension == 102


def test_arms_read_nested_features(medical_data):
    data = datasets.load_pima(medical_data)
    arms = families.trained(data, instances.PIMA_COLUMNS, (6, 7, 8))
    assert [theta.size for theta in arms.parameters] == [6, 7, 8]
    assert arms.contexts.min() == 0.0
    assert arms.contexts.max() == 1.0


def test_thresholded_labels_are_the_predictions(medical_data):
    random = instances.load("heart-contextual-1", medical_data)
    problem = instances.load("heart-contextual-thresholded-1", medical_data)
    assert np.array_equal(problem.errors, (random.errors > 0.5).astype(float))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_built_in_data_need_no_file(k):
    problem = instances.load(f"bc-contextual-{k}")
    assert problem.arms == 3
    assert problem.contexts.shape == (569, 6)
    assert problem.dimension == 28
    assert len(set(problem.optimal_arms.tolist())) == 3
    # the later arms are better
    assert (np.diff(problem.errors.mean(axis=0)) < 0).all()


def test_every_name_is_described():
    for name in instances.names():
        found = instances.describe(name.upper())
        assert found.name == name
        assert found.setting == "contextual"
        assert found.summary
        stated = found.stated_weak_dominance_fraction
        assert math.isnan(stated) or 0.0 <= stated <= 1.0
    assert len(instances.names()) == 4 + 4 + 4 + 1 + 3 * 6


def test_missing_data_are_told(monkeypatch):
    monkeypatch.delenv("WEAKFEEDBACK_DATA", raising=False)
    found = instances.describe("pima-contextual-1")
    assert not found.available()
    assert "PIMA" in found.unavailable()
    with pytest.raises(datasets.DataMissing):
        instances.load("pima-contextual-1")
    assert instances.describe("synthetic-1").available()


def test_unknown_names():
    with pytest.raises(ValueError, match="did you mean synthetic-1"):
        instances.load("synthetik-1")
