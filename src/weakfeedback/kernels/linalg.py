"""Small dense linear algebra in loops: the same bits interpreted and compiled.

No BLAS or LAPACK, whose order of summation differs in compiled code. Inner loops run over the output index, so they
vectorise without reordering a sum. Policies import these names and call them on their own arrays.
"""

import math

import numpy as np

__all__ = [
    *(
        "add_half_rows",
        "add_outer",
        "add_rows",
        "beginning_at",
        "copy_block",
        "dot_rows",
        "exceeds",
        "inner",
        "invert",
        "logistic",
    ),
    *("longer", "mirror", "part", "settle", "shrink", "times"),
]
ROUNDING = 2.0**-53


def logistic(z):
    """Return 1 / (1 + exp(-z)), with z cut at +-500 so that nothing overflows.

    >>> logistic(0.0), logistic(-1e9) > 0.0, logistic(1e9)
    (0.5, True, 1.0)
    """
    return 1.0 / (1.0 + math.exp(-min(max(z, -500.0), 500.0)))


def settle(z, c, y):
    """Solve u = z + c (y - mu(u)) for the logit u: the value to which a new observation y moves an estimate z.

    The solution lies between z and z + c (2 y - 1). Newton's method, with bisection where it leaves that range or
    does not halve its step.

    >>> u = settle(-8.0, 30.0, 1.0)
    >>> round(u, 6), round(-8.0 + 30.0 * (1.0 - logistic(u)), 6)
    (0.868292, 0.868292)
    """
    low = min(z, z + c * (2.0 * y - 1.0))
    high = max(z, z + c * (2.0 * y - 1.0))
    u = z
    change = high - low
    for _ in range(200):
        p = logistic(u)
        excess = u - z - c * (y - p)
        slope = 1.0 + c * p * (1.0 - p)
        if excess > 0.0:
            high = u
        else:
            low = u
        newton = u - excess / slope
        if newton < low or newton > high or abs(2.0 * excess) > abs(change * slope):
            newton = 0.5 * (low + high)
        change = newton - u
        u = newton
        if abs(change) <= 1e-9:
            break
    return u


def inner(x, y):
    """Return the sum of x[i] y[i], added from the first to the last."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


def times(matrix, x, out):
    """Write ``matrix @ x`` for a symmetric matrix into ``out``."""
    d = x.size
    for i in range(d):
        out[i] = 0.0
    for j in range(d):
        w = x[j]
        for i in range(d):
            out[i] += w * matrix[j, i]


def add_outer(matrix, w, x):
    """Add w x x'; a symmetric matrix stays symmetric to the bit."""
    d = x.size
    for i in range(d):
        for j in range(d):
            matrix[i, j] += w * (x[i] * x[j])


def part(table, row, begin, end):
    """Return some columns of a row, without a copy."""
    return table[row, begin:end]


def dot_rows(table, rows, n, begin, x, out):
    """Write the sum of table[rows[r], begin + k] x[k] over k into ``out[r]`` for r < n, added from first to last.

    Four sums at a time: each waits for its own additions only.
    """
    end = begin + x.size
    for r in range(0, n - 3, 4):
        a, b = part(table, rows[r], begin, end), part(table, rows[r + 1], begin, end)
        c, d = part(table, rows[r + 2], begin, end), part(table, rows[r + 3], begin, end)
        first = second = third = fourth = 0.0
        for k in range(x.size):
            first += a[k] * x[k]
            second += b[k] * x[k]
            third += c[k] * x[k]
            fourth += d[k] * x[k]
        out[r], out[r + 1], out[r + 2], out[r + 3] = first, second, third, fourth
    for r in range(n - n % 4, n):
        out[r] = inner(part(table, rows[r], begin, end), x)


def add_rows(x, w, table, rows, n, begin):
    """Add w[r] table[rows[r], begin + k] to x[k] for r = 0, ..., n - 1 in this order, four at a time."""
    end = begin + x.size
    for r in range(0, n - 3, 4):
        a, b = part(table, rows[r], begin, end), part(table, rows[r + 1], begin, end)
        c, d = part(table, rows[r + 2], begin, end), part(table, rows[r + 3], begin, end)
        u, v, y, z = w[r], w[r + 1], w[r + 2], w[r + 3]
        for k in range(x.size):
            x[k] = (((x[k] + u * a[k]) + v * b[k]) + y * c[k]) + z * d[k]
    for r in range(n - n % 4, n):
        a = part(table, rows[r], begin, end)
        for k in range(x.size):
            x[k] += w[r] * a[k]


def add_half_rows(matrix, w, table, rows, n, begin):
    """Add w[r] x x' with x = table[rows[r], begin:] to the lower triangle for r = 0, ..., n - 1 in this order.

    ``mirror`` completes the matrix. Eight at a time, because the matrix is larger than the fastest memory.
    """
    end = begin + matrix.shape[0]
    for r in range(0, n - 7, 8):
        a, b = part(table, rows[r], begin, end), part(table, rows[r + 1], begin, end)
        c, d = part(table, rows[r + 2], begin, end), part(table, rows[r + 3], begin, end)
        e, f = part(table, rows[r + 4], begin, end), part(table, rows[r + 5], begin, end)
        g, h = part(table, rows[r + 6], begin, end), part(table, rows[r + 7], begin, end)
        for i in range(matrix.shape[0]):
            o, p, q, s = w[r] * a[i], w[r + 1] * b[i], w[r + 2] * c[i], w[r + 3] * d[i]
            u, v, y, z = w[r + 4] * e[i], w[r + 5] * f[i], w[r + 6] * g[i], w[r + 7] * h[i]
            line = matrix[i]
            for j in range(i + 1):
                half = (((line[j] + o * a[j]) + p * b[j]) + q * c[j]) + s * d[j]
                line[j] = (((half + u * e[j]) + v * f[j]) + y * g[j]) + z * h[j]
    for r in range(n - n % 8, n):
        a = part(table, rows[r], begin, end)
        for i in range(matrix.shape[0]):
            u = w[r] * a[i]
            line = matrix[i]
            for j in range(i + 1):
                line[j] += u * a[j]


def shrink(inverse, w, x, v):
    """Turn the inverse of A into that of A + w x x' (Sherman and Morrison); v receives the old ``inverse @ x``."""
    times(inverse, x, v)
    add_outer(inverse, -w / (1.0 + w * inner(x, v)), v)


def copy_block(row, begin, out):
    """Copy the features of one regression, which begin at ``begin``."""
    for k in range(out.size):
        out[k] = row[begin + k]


def longer(table):
    """Return a copy of a table with twice as many rows."""
    bigger = np.zeros((2 * table.shape[0], table.shape[1]), dtype=table.dtype)
    for r in range(table.shape[0]):
        for k in range(table.shape[1]):
            bigger[r, k] = table[r, k]
    return bigger


def beginning_at(table, first, n):
    """Return a table of the same size that begins with n rows of this one, from row ``first`` on; the rest is 0."""
    moved = np.zeros_like(table)
    for r in range(n):
        for k in range(table.shape[1]):
            moved[r, k] = table[first + r, k]
    return moved


def mirror(matrix):
    """Copy the lower triangle to the upper one."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[j, i] = matrix[i, j]


def invert(matrix, out):
    """Write the inverse of a symmetric positive definite matrix, of which the lower triangle is read, into ``out``.

    The sweep operator on the lower triangle, which turns -A into minus its inverse pivot by pivot; such a matrix needs
    no pivoting. Where rounding cancels a pivot, it is replaced by the size of the rounding error.
    """
    d = matrix.shape[0]
    b = np.empty(d)
    for i in range(d):
        for j in range(i + 1):
            out[i, j] = -matrix[i, j]
    for k in range(d):
        pivot = min(out[k, k], -ROUNDING * matrix[k, k])
        for j in range(k):
            b[j] = out[k, j]
        for i in range(k + 1, d):
            b[i] = out[i, k]
        b[k] = 0.0
        for i in range(d):
            f = b[i] / pivot
            line = out[i]
            for j in range(i + 1):
                line[j] -= f * b[j]
            if i > k:
                line[k] = f
        for j in range(k):
            out[k, j] = b[j] / pivot
        out[k, k] = -1.0 / pivot
    mirror(out)


def exceeds(matrix, level, spare):
    """Return whether all eigenvalues of a symmetric matrix are above ``level``.

    True if and only if ``matrix - level I`` has a Cholesky factor, which is written into ``spare``.

    >>> import numpy as np
    >>> matrix = np.array([[2.0, 1.0], [1.0, 2.0]])  # eigenvalues 1 and 3
    >>> exceeds(matrix, 0.9, np.empty((2, 2))), exceeds(matrix, 1.1, np.empty((2, 2)))
    (True, False)
    """
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            value = matrix[i, j]
            if i == j:
                value -= level
            for k in range(j):
                value -= spare[i, k] * spare[j, k]
            if i > j:
                spare[i, j] = value / spare[j, j]
            else:
                if not value > 0.0:
                    return False
                spare[i, i] = math.sqrt(value)
    return True
