"""The best assignment of rows to columns: the Hungarian method with shortest augmenting paths."""

import numpy as np

NOBODY = -1


def match(weights, matched):
    """Write into ``matched[i]`` the column of row i in an assignment with the largest total weight.

    ``weights`` has at least as many columns as rows. O(rows^2 columns). Among equal totals the result depends
    only on the weights.
    """
    rows, columns = weights.shape
    owner = np.full(columns + 1, NOBODY)  # of each column; the last column stands for the row to be placed
    before = np.full(columns + 1, columns)  # the column before this one on the path
    row_price = np.zeros(rows)
    column_price = np.zeros(columns + 1)
    for row in range(rows):
        slack = np.full(columns, np.inf)
        reached = np.zeros(columns + 1, dtype=np.bool_)
        here = columns
        owner[here] = row
        while owner[here] != NOBODY:  # until the path ends in a column that nobody has
            reached[here] = True
            i = owner[here]
            step = np.inf
            nearest = NOBODY
            for j in range(columns):
                if not reached[j]:
                    cost = -weights[i, j] - row_price[i] - column_price[j]
                    if cost < slack[j]:
                        slack[j] = cost
                        before[j] = here
                    if slack[j] < step:
                        step = slack[j]
                        nearest = j
            for j in range(columns + 1):
                if reached[j]:
                    row_price[owner[j]] += step
                    column_price[j] -= step
                elif j < columns:
                    slack[j] -= step
            here = nearest
        while here != columns:  # everybody on the path moves on by one column
            owner[here] = owner[before[here]]
            here = before[here]
    for j in range(columns):
        if owner[j] != NOBODY:
            matched[owner[j]] = j


def best_matching(weights):
    """Return the column of each row in the best assignment, -1 for rows that get none if there are too many.

    >>> best_matching(np.array([[0.9, 0.8], [0.9, 0.1]])).tolist()
    [1, 0]
    """
    rows, columns = weights.shape
    if rows <= columns:
        matched = np.empty(rows, dtype=np.int64)
        match(weights, matched)
        return matched
    lucky = np.empty(columns, dtype=np.int64)
    match(weights.T.copy(), lucky)
    matched = np.full(rows, NOBODY)
    matched[lucky] = np.arange(columns)
    return matched
