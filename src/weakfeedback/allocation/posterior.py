"""The exact posterior of a threshold on a grid: a step function, kept as the few segments on which it is constant.

A threshold t lies in e + 1, ..., top. Zeros were seen at places y; those at y < t are genuine, so that

    Pr(t) ~ B(1 + P, 1 + F(t)),   F(t) = zeros at y < t,   P = positive outcomes,   B = Euler's beta function.

F never falls with t and changes only behind places where zeros were seen. Weights are relative to that of t = e + 1,
which is the largest: they can vanish but not overflow.
"""

import math

NEGLIGIBLE = 2.0**-60  # a share that does not change a sum of doubles
FACTORS = 16  # products of up to this many factors are computed directly
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


def log_factorial(n):
    """Return log(n!) to within 1e-14, absolutely or relatively: Stirling's series, the product below 16.

    ``math.lgamma`` gives other bits compiled and interpreted.

    >>> round(log_factorial(5.0), 12) == round(math.log(120.0), 12)
    True
    """
    if n < 16.0:
        product = 1.0
        while n > 1.0:
            product *= n
            n -= 1.0
        return math.log(product)
    x = 1.0 / n
    square = x * x
    series = x * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)))
    return (n + 0.5) * math.log(n) - n + HALF_LOG_TAU + series


def fall(P, F, zeros):
    """Return B(1 + P, 1 + F + zeros) / B(1 + P, 1 + F): the factor by which ``zeros`` more zeros reduce a weight.

    >>> fall(0.0, 1.0, 2.0), fall(2.0, 0.0, 1.0)
    (0.5, 0.25)
    """
    if zeros > P and P < FACTORS:
        up = 1.0
        down = 1.0
        for j in range(1, int(P) + 2):
            up *= F + j
            down *= F + zeros + j
        return up / down
    if zeros <= FACTORS:
        up = 1.0
        down = 1.0
        for j in range(1, int(zeros) + 1):
            up *= F + j
            down *= P + F + 1.0 + j
        return up / down
    gained = log_factorial(F + zeros) - log_factorial(F)
    return math.exp(gained - (log_factorial(P + F + zeros + 1.0) - log_factorial(P + F + 1.0)))


def lay_out(i, P, F, edge, top, levels, zeros, used, ends, share, total):
    """Write the segments of arm i's posterior into its row, and return how many there are.

    A segment has its last t, the weight of one t, and the weight of all t up to its end. Segments that together do not
    change the total are left out.
    """
    positive = float(P[i])
    seen = float(F[i])
    last = int(edge[i])
    known = int(used[i])
    weight = 1.0
    mass = 0.0
    for s in range(known + 1):
        if (top - last) * weight <= NEGLIGIBLE * mass:
            return s
        end = int(levels[i, s]) if s < known else top
        mass += (end - last) * weight
        ends[i, s] = end
        share[i, s] = weight
        total[i, s] = mass
        last = end
        if s < known:
            more = float(zeros[i, s])
            weight *= fall(positive, seen, more)
            seen += more
    return known + 1


def cheapest_join(i, P, F, levels, zeros, used):
    """Return the place s in arm i's list whose zeros can be moved to the next level with the least change of weight."""
    positive = float(P[i])
    seen = float(F[i])
    weight = 1.0
    best = 0
    least = math.inf
    for s in range(used[i] - 1):
        more = float(zeros[i, s])
        after = weight * fall(positive, seen, more)
        change = (levels[i, s + 1] - levels[i, s]) * (weight - after)
        if change <= least:  # of equal ones the farthest, where nothing is left to change
            best = s
            least = change
        weight = after
        seen += more
    return best


def first_above(i, n, edge, portion, ends, share, total):
    """Return the segment and the t of arm i at which Pr(threshold <= t) first exceeds ``portion``."""
    low = 0
    high = n - 1
    mass = portion * total[i, high]
    while low < high:
        middle = (low + high) // 2
        if total[i, middle] > mass:
            high = middle
        else:
            low = middle + 1
    t = edge[i] + 1
    if low > 0:
        t = ends[i, low - 1] + 1
        mass -= total[i, low - 1]
    return low, min(t + int(mass / share[i, low]), ends[i, low])


def share_up_to(i, n, edge, t, ends, share, total):
    """Return Pr(threshold <= t) of arm i."""
    if t <= edge[i]:
        return 0.0
    low = 0
    high = n - 1
    if t >= ends[i, high]:
        return 1.0
    while low < high:
        middle = (low + high) // 2
        if ends[i, middle] >= t:
            high = middle
        else:
            low = middle + 1
    return (total[i, low] - (ends[i, low] - t) * share[i, low]) / total[i, n - 1]
