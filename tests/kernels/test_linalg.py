"""The small linear algebra against NumPy."""

import math

import numpy as np
import pytest

from weakfeedback.kernels import linalg


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def positive(rng, d):
    root = rng.standard_normal((d, 2 * d))
    return root @ root.T / d + 0.1 * np.eye(d)


@pytest.mark.parametrize("d", [1, 2, 10, 45])
def test_invert_times_and_inner(rng, d):
    matrix = positive(rng, d)
    x = rng.standard_normal(d)
    inverse, out = np.empty((d, d)), np.empty(d)
    half = np.tril(matrix) + np.triu(np.full((d, d), 7.0), 1)  # above the diagonal nothing counts
    kept = half.copy()
    linalg.invert(half, inverse)
    assert np.array_equal(half, kept)
    assert inverse @ matrix == pytest.approx(np.eye(d), abs=1e-9)
    assert np.array_equal(inverse, inverse.T)
    linalg.times(matrix, x, out)
    assert out == pytest.approx(matrix @ x)
    assert linalg.inner(x, out) == pytest.approx(x @ matrix @ x)


def test_invert_of_a_matrix_that_rounding_made_singular():
    """1e18 x x' + I with x of ones: the 1 is lost, and elimination leaves exact zeros."""
    matrix = np.full((3, 3), 1e18) + np.eye(3)
    inverse = np.empty((3, 3))
    linalg.invert(matrix, inverse)
    assert np.isfinite(inverse).all()
    assert np.array_equal(inverse, inverse.T)
    assert np.linalg.eigvalsh(inverse).min() > -1e-16
    assert np.diag(inverse).max() <= 1.0


def test_rank_one_updates(rng):
    matrix = positive(rng, 6)
    x = rng.standard_normal(6)
    changed = matrix.copy()
    linalg.add_outer(changed, 0.7, x)
    assert changed == pytest.approx(matrix + 0.7 * np.outer(x, x))
    symmetric = np.linalg.inv(matrix)
    symmetric = symmetric + symmetric.T
    linalg.add_outer(symmetric, 0.3, x)
    assert np.array_equal(symmetric, symmetric.T)  # to the bit


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 11, 16, 23])
def test_sums_over_rows_are_those_of_one_row_after_the_other(rng, n):
    table, rows = rng.standard_normal((30, 9)), rng.permutation(30)[:24]
    x, w, begin = rng.standard_normal(6), rng.random(24), 2
    out = np.full(24, 7.0)
    linalg.dot_rows(table, rows, n, begin, x, out)
    chosen = [table[row, begin : begin + 6] for row in rows[:n]]
    assert out.tolist() == [linalg.inner(row, x) for row in chosen] + [7.0] * (24 - n)  # to the bit
    total, half = x.copy(), np.zeros((6, 6))
    linalg.add_rows(total, w, table, rows, n, begin)
    linalg.add_half_rows(half, w, table, rows, n, begin)
    expected, square = x.copy(), np.zeros((6, 6))
    for k, row in enumerate(chosen):
        expected += w[k] * row
        square += np.outer(w[k] * row, row)
    assert np.array_equal(total, expected)
    assert np.array_equal(half, np.tril(square))
    linalg.mirror(half)
    assert half == pytest.approx(square)


@pytest.mark.parametrize("dtype", [np.float64, np.int8])
def test_a_table_that_begins_later_is_another_one(dtype):
    table = np.arange(1, 13).reshape(6, 2).astype(dtype)
    kept = table.copy()
    moved = linalg.beginning_at(table, 2, 3)
    assert moved.tolist() == [[5, 6], [7, 8], [9, 10], [0, 0], [0, 0], [0, 0]]
    assert moved.dtype == dtype
    assert not np.shares_memory(moved, table)
    assert np.array_equal(table, kept)
    assert linalg.beginning_at(table, 6, 0).tolist() == [[0, 0]] * 6


def test_shrink_follows_the_inverse(rng):
    matrix = positive(rng, 8)
    inverse = np.linalg.inv(matrix)
    v = np.empty(8)
    for _ in range(100):
        x = rng.standard_normal(8)
        w = rng.random()
        matrix = matrix + w * np.outer(x, x)
        linalg.shrink(inverse, w, x, v)
    assert inverse == pytest.approx(np.linalg.inv(matrix), abs=1e-12)


def test_exceeds_agrees_with_eigenvalues(rng):
    for _ in range(50):
        matrix = positive(rng, 5)
        least = np.linalg.eigvalsh(matrix)[0]
        spare = np.empty((5, 5))
        assert linalg.exceeds(matrix, least * 0.999, spare)
        assert not linalg.exceeds(matrix, least * 1.001, spare)
    assert not linalg.exceeds(np.zeros((2, 2)), 0.0, np.empty((2, 2)))


def test_logistic_does_not_overflow():
    assert linalg.logistic(0.3) == pytest.approx(1 / (1 + math.exp(-0.3)))
    assert 0.0 < linalg.logistic(-1e300) < 1e-200
    assert linalg.logistic(1e300) == 1.0
