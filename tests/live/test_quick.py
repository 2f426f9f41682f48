"""The linear algebra of live policies: the same bits as the loops that simulations compile."""

import time

import numpy as np
import pytest

from weakfeedback import linalg
from weakfeedback.contextual import UssPd, UssPdRidge, UssPdTs
from weakfeedback.live import quick
from weakfeedback.live.history import prepared


def same(one, other):
    """Equal to the last bit, the sign of zero included."""
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


def positive(rng, d):
    """A symmetric positive definite matrix, symmetric to the bit, with zeros of both signs in it."""
    half = rng.normal(size=(d, d)) * 10.0 ** rng.integers(-3, 4)
    matrix = half @ half.T + 0.01 * np.eye(d)
    matrix = np.tril(matrix) + np.tril(matrix, -1).T
    if d > 2:
        matrix[0, 2] = matrix[2, 0] = 0.0
        matrix[1, 2] = matrix[2, 1] = -0.0
    return matrix + (abs(np.linalg.eigvalsh(matrix)[0]) + 0.01) * np.eye(d)


CASES = [(seed, d) for seed, d in enumerate([1, 2, 3, 5, 17, 33] * 3)]


@pytest.mark.parametrize(("seed", "d"), CASES)
def test_every_function_gives_the_bits_of_its_loop(seed, d):
    rng = np.random.default_rng(seed)
    matrix, x, y = positive(rng, d), rng.normal(size=d), rng.normal(size=d)
    x[0] = 0.0 if seed % 2 else -0.0
    w = float(rng.normal())
    assert same(quick.inner(x, y), linalg.inner(x, y))
    for name in ("add_outer", "shrink", "times", "invert"):
        found = []
        for module in (linalg, quick):
            A, out, v = matrix.copy(), np.full((d, d), 7.0), np.full(d, 7.0)
            function = getattr(module, name)
            if name == "times":
                function(A, x, v)
            elif name == "shrink":
                function(A, abs(w), x, v)
            elif name == "invert":
                function(A, out)
            else:
                function(A, w, x)
            found.append([A, out, v])
        assert all(same(one, other) for one, other in zip(*found, strict=True)), name


@pytest.mark.parametrize(("seed", "d"), CASES)
def test_sums_over_rows_give_the_bits_of_their_loops(seed, d):
    rng = np.random.default_rng(seed)
    table, rows, begin = rng.normal(size=(20, d + 3)), rng.permutation(20)[:15], seed % 4
    table[rows[0], begin] = -0.0
    x, w = rng.normal(size=d), rng.random(15)
    for n in (0, 1, 4, 7, 15):
        found = []
        for module in (linalg, quick):
            out, total, matrix = np.full(15, 7.0), x.copy(), np.zeros((d, d))
            module.dot_rows(table, rows, n, begin, x, out)
            module.add_rows(total, w, table, rows, n, begin)
            module.add_half_rows(matrix, w, table, rows, n, begin)
            found.append([out, total, np.tril(matrix)])  # only the lower triangle counts
        assert all(same(one, other) for one, other in zip(*found, strict=True)), n


@pytest.mark.parametrize(("seed", "d"), CASES)
def test_the_same_eigenvalues_exceed_the_same_level(seed, d):
    rng = np.random.default_rng(seed)
    matrix = positive(rng, d)
    least = float(np.linalg.eigvalsh(matrix)[0])
    answers = []
    for level in (0.0, 0.5 * least, 1.5 * least, least * (1 - 1e-6), least * (1 + 1e-6), 1e9):
        spare = np.full((2, d, d), 3.0)
        answers.append(quick.exceeds(matrix, level, spare[0]))
        assert answers[-1] == linalg.exceeds(matrix, level, spare[1])
        if answers[-1]:
            assert same(np.tril(spare[0]), np.tril(spare[1]))
    assert answers[0]
    assert not answers[-1]


def test_copies_are_copies():
    row, table = np.arange(7.0), np.arange(6.0).reshape(3, 2)
    for module in (linalg, quick):
        out = np.zeros(3)
        module.copy_block(row, 2, out)
        assert out.tolist() == [2.0, 3.0, 4.0]
        assert module.longer(table).tolist() == [*table.tolist(), *np.zeros((3, 2)).tolist()]
        assert module.longer(np.ones((2, 1), dtype=np.int8)).dtype == np.int8


def test_a_matrix_that_rounding_made_singular_has_the_same_inverse():
    matrix = np.multiply.outer([1e9, 3e9, -2e9], [1e9, 3e9, -2e9]) + np.eye(3)
    one, other = np.empty((3, 3)), np.empty((3, 3))
    linalg.invert(matrix, one)
    quick.invert(matrix, other)
    assert np.isfinite(one).all()
    assert same(one, other)


MAKERS = {
    "USS-PD": lambda: UssPd([0.0, 0.2, 0.5], 6, forced_limit=25),
    "USS-PD-lambdaI": lambda: UssPdRidge([0.0, 0.2, 0.5], 6, bonus="beta"),
    "USS-PD-TS": lambda: UssPdTs([0.0, 0.2, 0.5], 6),
    "USS-PD-TS per pair": lambda: UssPdTs([0.0, 0.2, 0.5], 6, per_pair=True),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_live_policy_learns_what_the_plain_one_learns(name):
    """150 rounds: more than the tables of the history begin with, and fits of every kind."""
    plain, live = MAKERS[name](), prepared(MAKERS[name](), None)
    assert type(live).__name__ == type(plain).__name__
    assert type(live).fit is not type(plain).fit
    rng, mine, theirs = np.random.default_rng(3), np.random.default_rng(4), np.random.default_rng(4)
    for _ in range(150):
        phi = np.append(1.0, rng.uniform(-1, 1, 5)) / 2
        arm = plain.select(phi, mine)
        assert live.select(phi, theirs) == arm
        outputs = (rng.random(3) < 0.3 + 0.4 * (phi[1] > 0)).astype(int)[: arm + 1]
        plain.update(phi, arm, outputs, mine)
        live.update(phi, arm, outputs, theirs)
    assert vars(plain).keys() == vars(live).keys()
    for field, value in vars(plain).items():
        assert same(value, getattr(live, field)), field


def test_what_is_left_in_fresh_memory_does_not_matter():
    live, rng = prepared(UssPd([0.0, 0.5], 3, forced=5), None), np.random.default_rng(0)
    for t in range(10):
        live.update(rng.uniform(-1, 1, 3), 1, np.array([0, t % 2]), rng)
    clean, dirty = np.zeros((3, 3)), np.zeros((3, 3))
    dirty.view(np.uint64)[:] = 0x7FF4000000000001  # a NaN that no operation may meet
    for H in (clean, dirty):
        with np.errstate(all="raise"):
            live.evaluate(0, live.theta[0], np.zeros(3), H, True)
    assert same(np.tril(clean), np.tril(dirty))


@pytest.mark.parametrize("name", MAKERS)
def test_a_hundred_features_do_not_hold_up_a_decision(name):
    """The plain loops need seconds for one fit of so many features, and here most rounds have one."""
    live = prepared(type(MAKERS[name]())([0.0, 0.5], 100), 1000)
    rng = np.random.default_rng(0)
    spent = []
    for t in range(60):
        phi = rng.uniform(-0.1, 0.1, 100)
        start = time.process_time()
        live.update(phi, 1, np.array([0, t % 2]), rng)
        live.select(phi, rng)
        spent.append(time.process_time() - start)
    assert np.median(spent) < 0.5
