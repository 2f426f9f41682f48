"""Cascades of classifiers: errors and disagreements in whole rows, as measured when the recipes were chosen.

The expected counts come from a separate script, not from this package.
"""

import itertools

import numpy as np
import pytest
from tests.datasets.made_up import PIMA_HEADER, pima_lines, write

from weakfeedback.datasets import (
    Dataset,
    breast_cancer_cascade,
    heart_cascade,
    load_breast_cancer,
    pima_cascade,
)
from weakfeedback.datasets.cascades import HEART, PIMA, Recipe, Split, fit, predict
from weakfeedback.datasets.medical import load_heart, load_pima


def errors(cascade):
    return (cascade.predictions != cascade.truth[:, None]).sum(axis=0).tolist()


def disagreements(cascade):
    """Return counts in the order 12, 13, ..., 23, ..."""
    columns = cascade.predictions.T
    return [int((one != other).sum()) for one, other in itertools.combinations(columns, 2)]


def test_breast_cancer_with_3_arms():
    cascade = breast_cancer_cascade()
    assert cascade.predictions.shape == (569, 3)
    assert errors(cascade) == [114, 31, 7]
    assert disagreements(cascade) == [99, 111, 26]


def test_breast_cancer_with_4_arms():
    cascade = breast_cancer_cascade(arms=4)
    assert errors(cascade) == [132, 114, 31, 7]
    assert disagreements(cascade) == [88, 125, 127, 99, 111, 26]
    right = cascade.predictions == cascade.truth[:, None]
    # rows where an arm is right and the next one wrong: strong dominance does not hold
    assert (right[:, :-1] & ~right[:, 1:]).sum(axis=0).tolist() == [35, 8, 1]


@pytest.mark.parametrize("arms", [2, 5, 3.0, "3", None, True])
def test_number_of_arms(arms):
    with pytest.raises(ValueError, match="arms must be an integer from 3 to 4, got "):
        breast_cancer_cascade(arms)


def test_pima(medical_data):
    cascade = pima_cascade(medical_data)
    assert cascade.predictions.shape == (768, 3)
    assert errors(cascade) == [237, 179, 174]
    assert disagreements(cascade) == [150, 151, 9]


def test_heart(medical_data):
    cascade = heart_cascade(medical_data)
    assert cascade.predictions.shape == (297, 3)
    # exactly the thesis's error rates, as counts
    assert errors(cascade) == [87, 60, 44]
    assert disagreements(cascade) == [73, 71, 34]


# Other ways to train that were tried on the medical data: each is a recipe, none needs code of its own.


def test_pima_standardised_on_all_rows(medical_data):
    recipe = Recipe(PIMA.subsets, scaling="standard", intercept="free")
    cascade = predict(recipe, load_pima(medical_data))
    assert errors(cascade) == [233, 172, 166]
    assert disagreements(cascade) == [151, 149, 12]


def test_pima_scaled_to_the_unit_interval(medical_data):
    recipe = Recipe(PIMA.subsets, scaling="min-max")
    assert errors(predict(recipe, load_pima(medical_data))) == [241, 175, 175]


def test_heart_on_all_rows(medical_data):
    heart = load_heart(medical_data)
    assert errors(predict(Recipe(HEART.subsets), heart)) == [82, 59, 45]
    standardised = Recipe(HEART.subsets, scaling="standard", intercept="free")
    assert errors(predict(standardised, heart)) == [66, 59, 46]


def test_heart_split_of_pima(medical_data):
    recipe = Recipe(PIMA.subsets, fit_on=HEART.fit_on)
    assert errors(predict(recipe, load_pima(medical_data))) == [232, 176, 174]


# The same branches on the built-in data


SUBSETS = (("mean texture",), ("mean texture", "mean area"), ("mean area", "mean texture", "worst area"))


@pytest.mark.parametrize("split", [None, Split(0.3, 42), Split(0.2, 33)], ids=["all", "0.3", "0.2"])
@pytest.mark.parametrize("scaling", ["none", "standard", "min-max"])
@pytest.mark.parametrize("intercept", ["penalised", "free"])
def test_every_branch_equals_training_by_hand(split, scaling, intercept):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer()
    cascade = predict(Recipe(SUBSETS, scaling, intercept, strength=0.5, fit_on=split), data)
    for arm, subset in enumerate(SUBSETS):
        x = np.column_stack([data.features[:, data.columns.index(name)] for name in subset])
        train_x, train_y = x, data.target
        if split:
            train_x, _, train_y, _ = train_test_split(
                x, data.target, test_size=split.test_share, random_state=split.seed
            )
        shift, scale = 0.0, 1.0
        if scaling == "standard":
            shift, scale = train_x.mean(axis=0), train_x.std(axis=0)
        elif scaling == "min-max":
            shift, scale = train_x.min(axis=0), np.ptp(train_x, axis=0)
        train_x, x = (train_x - shift) / scale, (x - shift) / scale
        if intercept == "penalised":
            train_x, x = (np.column_stack([part, np.ones(len(part))]) for part in (train_x, x))
        model = LogisticRegression(
            C=0.5, solver="newton-cholesky", tol=1e-10, fit_intercept=intercept == "free"
        )
        model.fit(train_x, train_y)
        np.testing.assert_array_equal(cascade.predictions[:, arm], model.predict(x))


def test_branches_differ():
    data = load_breast_cancer()
    variants = [
        Recipe(SUBSETS),
        Recipe(SUBSETS, fit_on=Split(0.3, 42)),
        Recipe(SUBSETS, fit_on=Split(0.3, 43)),
        Recipe(SUBSETS, scaling="min-max"),
        Recipe(SUBSETS, scaling="standard"),
    ]
    seen = {predict(recipe, data).predictions.tobytes() for recipe in variants}
    assert len(seen) == len(variants)


def test_fit_gives_parameters():
    data = load_breast_cancer()
    arms = fit(Recipe(SUBSETS, scaling="min-max"), data)
    assert [arm.columns for arm in arms] == list(SUBSETS)
    assert [arm.model.weights.shape for arm in arms] == [(1,), (2,), (3,)]
    # each arm has a scaling of its own
    assert [arm.scale.shape for arm in arms] == [(1,), (2,), (3,)]


@pytest.mark.parametrize("scaling", ["standard", "min-max"])
def test_a_constant_feature(scaling):
    """It cannot be scaled; it is shifted to 0 and gets no weight."""
    data = load_breast_cancer()
    constant = Dataset(
        "c", ("area", "one"), np.column_stack([data.features[:, 3], np.full(569, 7.0)]), data.target, ""
    )
    with_it, without = (fit(Recipe((names,), scaling), constant)[0] for names in (("area", "one"), ("area",)))
    assert with_it.model.weights[1] == 0.0
    np.testing.assert_allclose(with_it.decide(constant), without.decide(constant), atol=1e-12)


def test_trained_once_and_read_only(monkeypatch):
    first = breast_cancer_cascade(4)
    monkeypatch.setattr("weakfeedback.datasets.cascades.fit", None)
    again = breast_cancer_cascade(4)
    assert again.predictions is first.predictions
    for array in again:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_changed_file_is_trained_again(tmp_path):
    path = write(tmp_path / "pima-indians-diabetes.csv", PIMA_HEADER, *pima_lines())
    before = pima_cascade(path)
    write(path, PIMA_HEADER, *reversed(pima_lines()))
    after = pima_cascade(tmp_path)
    assert before.truth.tolist() == after.truth[::-1].tolist()
    assert before.truth[0] != after.truth[0]


@pytest.mark.parametrize(("option", "value"), [("scaling", "robust"), ("intercept", "none")])
def test_unknown_options(option, value):
    with pytest.raises(ValueError, match=f"{option} must be one of .*, got '{value}'"):
        Recipe(SUBSETS, **{option: value})


def test_unknown_column():
    with pytest.raises(ValueError, match="got 'glucose'"):
        predict(Recipe((("glucose",),)), load_breast_cancer())
