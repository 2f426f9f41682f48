"""The trained arms: the same minimiser as scikit-learn's, exact up to rounding, and the same on other processors."""

import json
import os
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import MEDICAL_FILES
from tests.rig.processes import printed

from weakfeedback.contextual import families
from weakfeedback.contextual import instances as contextual
from weakfeedback.datasets import load_breast_cancer, logistic
from weakfeedback.datasets.cascades import BREAST_CANCER, HEART, PIMA, Recipe, fit, predict
from weakfeedback.datasets.logistic import fit_logistic
from weakfeedback.datasets.medical import load_heart, load_pima

_FIRST = ("age", "sex", "cp", "trestbps", "chol", "fbs")
_SECOND = (*_FIRST, "thalach", "exang", "oldpeak")
WITHOUT_REST_ECG = Recipe((_FIRST, _SECOND, (*_SECOND, "slope", "ca", "thal")))
STANDARD = {"scaling": "standard", "intercept": "free"}
RAW = Recipe((("mean texture", "mean area"), ("mean area", "mean texture", "worst area", "worst smoothness")))

# Every recipe whose numbers are pinned somewhere, its data, and a lower bound on |decision value| over arms and rows.
BUILT_IN = {
    "breast-cancer": (BREAST_CANCER, load_breast_cancer, 3e-3),
    "breast-cancer-raw": (RAW, load_breast_cancer, 1e-3),
}
MEDICAL = {
    "pima": (PIMA, load_pima, 1e-3),
    "pima-standard": (Recipe(PIMA.subsets, **STANDARD), load_pima, 8e-4),
    "pima-min-max": (Recipe(PIMA.subsets, scaling="min-max"), load_pima, 1e-3),
    # the exception: one row is within 2e-4 of the border of arm 1
    "pima-by-the-split-of-heart": (Recipe(PIMA.subsets, fit_on=HEART.fit_on), load_pima, 1e-4),
    "heart": (HEART, load_heart, 3e-3),
    "heart-on-all-rows": (Recipe(HEART.subsets), load_heart, 3e-3),
    "heart-standard": (Recipe(HEART.subsets, **STANDARD), load_heart, 7e-3),
    "heart-without-rest-ecg": (WITHOUT_REST_ECG, load_heart, 2e-3),
}


def table(rows=60, seed=0):
    """A data set in units that differ by six orders of magnitude, as raw medical data do."""
    random = np.random.default_rng(seed)
    x = random.normal([0.0, 50.0, 2000.0], [0.01, 10.0, 900.0], size=(rows, 3))
    label = x[:, 1] / 10 + x[:, 2] / 900 + random.normal(size=rows) > 7.2
    return x, label.astype(np.int64)


@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("intercept", ["penalised", "free", "none"])
def test_the_minimiser_is_scikit_learn_s(intercept, strength):
    from sklearn.linear_model import LogisticRegression

    x, label = table()
    model = LogisticRegression(
        C=strength, solver="newton-cholesky", tol=1e-10, fit_intercept=intercept == "free"
    )
    padded = np.column_stack([x, np.ones(len(x))]) if intercept == "penalised" else x
    expected = model.fit(padded, label).decision_function(padded)
    np.testing.assert_allclose(fit_logistic(x, label, strength, intercept).decide(x), expected, atol=1e-7)


def test_liblinear_penalises_the_intercept_in_this_way():
    from sklearn.linear_model import LogisticRegression

    x, label = table()
    near = LogisticRegression(solver="liblinear", C=0.5, tol=1e-10, max_iter=10_000).fit(x, label)
    ours = {kind: fit_logistic(x, label, 0.5, kind).decide(x) for kind in ("penalised", "free")}
    apart = {kind: np.abs(found - near.decision_function(x)).max() for kind, found in ours.items()}
    assert apart["penalised"] < 1e-3 < 0.1 < apart["free"]


def test_not_converged(monkeypatch):
    monkeypatch.setattr(logistic, "STEPS", 2)
    with pytest.raises(ArithmeticError, match="not converged in 2 steps"):
        fit_logistic(*table())


def error_left(x, label, strength, intercept, model):
    """How far decision values of these rows are from those of the minimiser: one more Newton step, more digits."""
    wide = np.column_stack([x, np.ones(len(x))]).astype(np.longdouble)
    w = np.append(model.weights, model.intercept)
    chance = 1 / (1 + np.exp(-(wide @ w.astype(np.longdouble))))
    penalty = np.append(np.ones(x.shape[1]), float(intercept == "penalised"))
    slope = penalty * w + strength * (wide.T @ (chance - label))
    curvature = np.diag(penalty) + strength * (wide.T * (chance * (1 - chance))) @ wide
    step = np.linalg.solve(curvature.astype(float), slope.astype(float))
    return np.abs(wide.astype(float) @ step).max()


def check_margins(recipe, data, bound):
    if recipe.fit_on is None:  # the rows of a split are not known here
        for arm in fit(recipe, data):
            x = (data.select(arm.columns) - arm.shift) / arm.scale
            assert error_left(x, data.target, recipe.strength, recipe.intercept, arm.model) < 1e-12
    margins = [np.abs(arm.decide(data)).min() for arm in fit(recipe, data)]
    assert bound < min(margins) < 10 * bound


@pytest.mark.parametrize("name", BUILT_IN)
def test_no_row_is_within_rounding_of_a_border(name):
    recipe, load, bound = BUILT_IN[name]
    check_margins(recipe, load(), bound)


@pytest.mark.parametrize("name", MEDICAL)
def test_no_medical_row_is_within_rounding_of_a_border(name, medical_data):
    recipe, load, bound = MEDICAL[name]
    check_margins(recipe, load(medical_data), bound)


def check_contextual_margins(name, data=None):
    """Nor is a context within rounding of another best arm, or of the border of weak dominance."""
    problem = contextual.load(name, data)
    total = np.sort(problem.errors + problem.costs, axis=1)
    assert (total[:, 1] - total[:, 0]).min() > 5e-6
    assert np.abs(problem.xis).min() > 2e-5
    assert np.abs(problem._chance - 0.5).min() > 1e-5


@pytest.mark.parametrize("name", [f"synthetic-{k}" for k in range(1, 5)] + ["bc-contextual-1"])
def test_no_context_is_within_rounding_of_a_border(name):
    check_contextual_margins(name)


@pytest.mark.parametrize("name", ["pima-contextual-3", "heart-contextual-2"])
def test_no_medical_context_is_within_rounding_of_a_border(name, medical_data):
    check_contextual_margins(name, medical_data)


# Another processor: the oldest instructions of OpenBLAS, and NumPy without the newer ones

OTHER = {
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F AVX512CD AVX512_SKX",
}


def all_that_is_trained(folder):
    """Predictions of every recipe, to the bit, and real numbers to 10 decimals."""
    found = {}
    for name, (recipe, load, _) in (BUILT_IN | (MEDICAL if folder else {})).items():
        data = load(folder) if folder and name in MEDICAL else load()
        found[name] = np.packbits(predict(recipe, data).predictions == 1).tobytes().hex()
        found[name + " decisions"] = [arm.decide(data).round(10).tolist() for arm in fit(recipe, data)]
    found["synthetic"] = [theta.round(10).tolist() for theta in families.synthetic_arms().parameters]
    for family in ["bc"] + ["pima", "heart"] * bool(folder):
        found[family] = contextual.load(f"{family}-contextual-thresholded-1", folder or None).digest()
    return found


@pytest.fixture(scope="module")
def there():
    """All that is trained on another processor; with the medical arms where their data are."""
    folder = os.environ.get("WEAKFEEDBACK_DATA", "")
    folder = folder if all((Path(folder) / name).is_file() for name in MEDICAL_FILES) else ""
    code = f"""
        import json
        from tests.datasets.test_logistic import all_that_is_trained
        print(json.dumps(all_that_is_trained({folder!r})))
    """
    environment = OTHER | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return json.loads(printed("-c", textwrap.dedent(code), environment=environment))


def check_on_another_processor(folder, there):
    here = all_that_is_trained(folder)
    assert here.keys() <= there.keys()
    for name, value in here.items():
        if isinstance(value, str):
            assert value == there[name], name
        else:
            for one, other in zip(value, there[name], strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=3e-10, err_msg=name)


def test_the_same_on_another_processor(there):
    check_on_another_processor("", there)


def test_medical_arms_are_the_same_on_another_processor(medical_data, there):
    check_on_another_processor(medical_data, there)
