"""The quadratic map: the kernel it stands for, its norm, the columns it drops; maps per pair; wrong input."""

import math

import numpy as np
import pytest
from tests.rig.refusals import refusals

from weakfeedback.contextual import ContextualProblem, PairFeatures, QuadraticFeatures


@pytest.mark.parametrize("d", [1, 3, 8])
def test_inner_products_are_the_kernel(d):
    x = np.random.default_rng(d).uniform(-1, 1, (40, d))
    bound = math.sqrt(d)
    phi = QuadraticFeatures(bound)(x)
    assert phi.shape == (40, (d + 1) * (d + 2) // 2)
    kernel = ((1 + x @ x.T) / (1 + bound**2)) ** 2
    assert phi @ phi.T == pytest.approx(kernel)
    assert np.linalg.norm(phi, axis=1).max() <= 1.0


def test_the_norm_is_one_at_the_bound():
    assert np.linalg.norm(QuadraticFeatures(5.0)([[3.0, 4.0]])) == pytest.approx(1.0)
    assert QuadraticFeatures(5.0)([[0.0, 0.0]])[0].tolist() == [1 / 26, 0, 0, 0, 0, 0]


def test_coordinates_by_hand():
    # (1, sqrt2 * 1, sqrt2 * 2, 1, 4, sqrt2 * 2) / (1 + 9)
    root = math.sqrt(2)
    expected = np.array([1, root, 2 * root, 1, 4, 2 * root]) / 10
    assert QuadraticFeatures(3.0)([[1.0, 2.0]])[0] == pytest.approx(expected)


def test_squares_of_binary_features_are_dropped():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 2, 50), rng.uniform(0, 1, 50), rng.integers(0, 2, 50)]).astype(float)
    features = QuadraticFeatures(2.0).fit(x)
    # order: 1, x1, x2, x3, x1^2, x2^2, x3^2, x1x2, x1x3, x2x3
    assert features.columns.tolist() == [0, 1, 2, 3, 5, 7, 8, 9]
    phi = features(x)
    assert np.linalg.matrix_rank(phi) == phi.shape[1] == features.dimension(3)


def test_constant_and_duplicated_and_zero_columns_are_dropped():
    rng = np.random.default_rng(1)
    one = rng.uniform(-1, 1, 30)
    x = np.column_stack([one, np.full(30, 0.5), one, np.zeros(30)])
    assert QuadraticFeatures(2.0).fit(x).columns.tolist() == [0, 1, 5]  # 1, x1, x1^2


def test_a_problem_fits_a_copy_of_an_unfitted_map():
    x = np.array([[0.0], [1.0], [0.0]])
    features = QuadraticFeatures(1.0)
    problem = ContextualProblem(x, [0, 1, 0], [[1.0], [2.0]], [0.1, 0.2], features=features)
    assert problem.dimension == 2
    assert not features.fitted
    assert problem.feature_map.fitted


def test_the_default_bound_is_the_largest_norm():
    problem = ContextualProblem([[3.0, 4.0], [0.0, 1.0]], [0, 1], [[1.0], [2.0]], [0.1, 0.2])
    assert problem.feature_map.bound == 5.0
    zeros = ContextualProblem([[0.0], [0.0]], [0, 1], [[1.0], [2.0]], [0.1, 0.2])
    assert zeros.features.tolist() == [[0.5], [0.5]]


def test_maps_per_pair_stand_side_by_side():
    maps = PairFeatures(
        {(0, 1): QuadraticFeatures(1.0), (0, 2): QuadraticFeatures(2.0), (1, 2): lambda x: x[:, [0] * 3]}
    )
    phi = maps(np.array([[0.5]]))
    assert phi[0, :3] == pytest.approx(QuadraticFeatures(1.0)([[0.5]])[0])
    assert phi[0, 3:6] == pytest.approx(QuadraticFeatures(2.0)([[0.5]])[0])
    assert phi[0, 6:].tolist() == [0.5, 0.5, 0.5]


test_wrong_input = refusals(
    lambda call: call(),
    (lambda: QuadraticFeatures(0.0), "bound must be a finite number > 0"),
    (lambda: QuadraticFeatures(1.0)([[1.0, 1.0]]), "norm at most the bound 1"),
    (lambda: QuadraticFeatures(1.0)([[math.nan]]), "contexts must be finite"),
    (lambda: QuadraticFeatures(1.0)([1.0]), r"shape \(n, d\)"),
    (lambda: QuadraticFeatures(1.0).fit([[0.5], [0.1]])([[0.1, 0.1]]), "must have 1 columns"),
    (lambda: PairFeatures({(0, 2): QuadraticFeatures(1.0)}), "one map for each pair"),
    (lambda: PairFeatures({}), "mapping of pairs"),
)
