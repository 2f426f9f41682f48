"""Tails of the Beta distribution, in scalar code that gives the same bits interpreted and compiled.

With front = x^a (1 - x)^b / B(a, b) the lower tail is front / a times a continued fraction that converges fast below
the mean; above it the upper tail is computed in the same way with both sides exchanged (Didonato and Morris 1992).
So each tail is precise even where it is tiny. ``math.lgamma`` gives other bits compiled and interpreted.
"""

import math

HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
STIRLING_FROM = 16.0
SMALLEST = 1e-300  # replaces a zero in a denominator
PRECISION = 1e-15
MOST_STEPS = 1_000_000


def correction(x):
    """Return log Gamma(x) - ((x - 1/2) log x - x + log sqrt(2 pi)) for x > 0.

    >>> round(correction(1.0), 12) == round(1.0 - HALF_LOG_TAU, 12)
    True
    """
    product = 1.0
    y = x
    while y < STIRLING_FROM:
        product *= y
        y += 1.0
    z = 1.0 / y
    square = z * z
    series = z * (
        1.0 / 12.0
        - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0)))
    )
    if y == x:
        return series
    return series + (y - 0.5) * math.log(y) - y - math.log(product) - (x - 0.5) * math.log(x) + x


def log_beta(a, b):
    """Return log B(a, b).

    >>> round(log_beta(2.0, 3.0) + math.log(12.0), 12)
    0.0
    """
    n = a + b
    main = (a - 0.5) * math.log(a / n) + (b - 0.5) * math.log(b / n) - 0.5 * math.log(n)
    return main + HALF_LOG_TAU + correction(a) + correction(b) - correction(n)


def front(a, b, x):
    """Return x^a (1 - x)^b / B(a, b), for 0 < x < 1.

    >>> round(front(2.0, 1.0, 0.5), 12)
    0.25
    """
    n = a + b
    main = a * math.log(x * n / a) + b * math.log((1.0 - x) * n / b)
    root = 0.5 * math.log(a * b / n) - HALF_LOG_TAU
    return math.exp(main + root - (correction(a) + correction(b) - correction(n)))


def fraction(a, b, x):
    """Return the continued fraction of the lower tail, by the method of Lentz."""
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    if abs(d) < SMALLEST:
        d = SMALLEST
    d = 1.0 / d
    value = d
    for m in range(1, MOST_STEPS):
        even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        d = 1.0 + even * d
        if abs(d) < SMALLEST:
            d = SMALLEST
        c = 1.0 + even / c
        if abs(c) < SMALLEST:
            c = SMALLEST
        d = 1.0 / d
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d = 1.0 + odd * d
        if abs(d) < SMALLEST:
            d = SMALLEST
        c = 1.0 + odd / c
        if abs(c) < SMALLEST:
            c = SMALLEST
        d = 1.0 / d
        step = d * c
        value *= step
        if abs(step - 1.0) < PRECISION:
            return value
    return value


def below(a, b, x):
    """Return P(p < x) for p ~ Beta(a, b).

    >>> round(below(1.0, 1.0, 0.25), 12), below(2.0, 3.0, 0.0), below(2.0, 3.0, 1.0)
    (0.25, 0.0, 1.0)
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x < (a + 1.0) / (a + b + 2.0):
        return front(a, b, x) * fraction(a, b, x) / a
    return max(1.0 - front(b, a, 1.0 - x) * fraction(b, a, 1.0 - x) / b, 0.0)


def above(a, b, x):
    """Return P(p > x) for p ~ Beta(a, b).

    >>> round(above(1.0, 1.0, 0.25), 12), above(2.0, 3.0, 0.0), above(2.0, 3.0, 1.0)
    (0.75, 1.0, 0.0)
    """
    if x <= 0.0:
        return 1.0
    if x >= 1.0:
        return 0.0
    if x < (a + 1.0) / (a + b + 2.0):
        return max(1.0 - front(a, b, x) * fraction(a, b, x) / a, 0.0)
    return front(b, a, 1.0 - x) * fraction(b, a, 1.0 - x) / b


def mean_excess(a, b, x):
    """Return E[(p - x)^+] for p ~ Beta(a, b): a / (a + b) P(p' > x) - x P(p > x) with p' ~ Beta(a + 1, b).

    >>> mean_excess(1.0, 1.0, 0.0), round(mean_excess(1.0, 1.0, 0.5), 12), mean_excess(1.0, 1.0, 1.0)
    (0.5, 0.125, 0.0)
    """
    return max(a / (a + b) * above(a + 1.0, b, x) - x * above(a, b, x), 0.0)
