"""The small linear algebra against NumPy."""

import math

import numpy as np
import pytest

from weakfeedback import linalg


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
    linalg.invert(matrix.copy(), inverse)
    assert inverse @ matrix == pytest.approx(np.eye(d), abs=1e-9)
    assert np.array_equal(inverse, inverse.T)
    linalg.times(matrix, x, out)
    assert out == pytest.approx(matrix @ x)
    assert linalg.inner(x, out) == pytest.approx(x @ matrix @ x)


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
    half = np.zeros((6, 6))
    linalg.add_half(half, 0.7, x)
    assert np.array_equal(half, np.tril(half))
    linalg.mirror(half)
    assert half == pytest.approx(0.7 * np.outer(x, x))


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
