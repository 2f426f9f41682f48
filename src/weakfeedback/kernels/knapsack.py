"""The exact 0-1 knapsack on real weights: branch and bound with the bound of the continuous relaxation.

Two shortcuts come before the search: all weights are equal, or a guess is the answer. Their answers are those of the
search, to the last bit, so they answer only if no other set comes so close that rounding errors decide.

Plain loops that policies may call: they give the same bits interpreted and compiled.
"""

import math

import numpy as np

from weakfeedback.kernels.loops import rank_down

__all__ = ["CAPACITY_SLACK", "NODES", "pack", "pack_again", "pack_levels", "pack_lightest", "runner_up"]

CAPACITY_SLACK = 1e-9  # relative tolerance on the capacity: six times 0.7 must fit into 4.2
NODES = 1_000_000  # limit on the nodes of the search tree
FEW_ITEMS = 40  # items: with more, a guess can rarely be proved optimal
# levels: with more than EXACT the table that replaces a long search has about COARSE
EXACT, COARSE = (10_000, 1000)
CELLS = 100_000_000  # maximum number of cells in the table of the dynamic programme
BETTER = 1.0 + 1e-12  # a set must be better by more than rounding errors
TIE = 1e-10  # relative: sets whose values differ by less are equally good
ERROR = 1e-12  # relative tolerance on the capacity of a guess, for rounding errors
OPEN = 8  # maximum number of items for which all sets are compared with a guess


def pack(values, weights, capacity):
    """Return which items to take: the largest total value whose weight fits into the capacity.

    Items with a value <= 0 are never taken. The search tries items by decreasing value per weight (ties to the smaller
    index) and leaves a branch when its continuous relaxation, Dantzig's bound, is no better than the best set found.
    The same bound decides most items before the search. A second rule speeds up the search among (nearly) equal items:
    an item is not taken if an earlier one that weighs no more and is worth no less was left out.

    S. Martello, P. Toth, Knapsack Problems, Wiley 1990, chapter 2.

    >>> pack(np.array([0.9, 0.6, 0.4]), np.array([0.6, 0.55, 0.45]), 1.0)
    array([False,  True,  True])
    """
    # np.int64: for the compiler a literal has its own type, and the search would be compiled for each
    chosen, done = branch_and_bound(values, weights, capacity * (1.0 + CAPACITY_SLACK), np.int64(NODES), 0.0)
    if not done:
        raise ValueError("the knapsack was given up after 1000000 nodes: too many sets are nearly optimal")
    return chosen


def pack_again(values, weights, capacity, guess):
    """Return which items to take, like ``pack``; faster if ``guess`` is the answer, as the previous one often is.

    >>> pack_again(np.array([0.9, 0.6, 0.4]), np.array([0.6, 0.55, 0.45]), 1.0, np.array([False, True, True]))
    array([False,  True,  True])
    """
    if values.size <= FEW_ITEMS and clearly_best(values, weights, capacity * (1.0 + CAPACITY_SLACK), guess):
        return guess
    return pack(values, weights, capacity)


def pack_lightest(values, weights, capacity):
    """Return which items to take, like ``pack``; of several sets of the largest value, one of the smallest weight.

    As long as there is an equally good set that weighs less, it replaces the current one.

    >>> pack_lightest(np.array([0.4, 0.3, 0.1]), np.array([0.8, 0.5, 0.2]), 0.9)
    array([False,  True,  True])
    """
    best = np.zeros(values.size, dtype=np.bool_)
    room = capacity * (1.0 + CAPACITY_SLACK)
    floor = 0.0
    while True:
        chosen, done = branch_and_bound(values, weights, room, np.int64(NODES), floor)
        if not done:
            raise ValueError("the lightest of the best sets was given up: too many sets are nearly optimal")
        value = 0.0
        weight = 0.0
        for i in range(values.size):
            if chosen[i]:
                value += values[i]
                weight += weights[i]
        if value <= floor:
            return best
        best = chosen
        if floor == 0.0:
            floor = value * (1.0 - TIE)
        room = weight - CAPACITY_SLACK * capacity


def pack_levels(values, weights, capacity, nodes=NODES):
    """Return which items to take, like ``pack``; with small integer weights it never gives up.

    When the search exceeds ``nodes`` nodes, dynamic programming over the levels 0, ..., capacity takes over.

    >>> pack_levels(np.array([3.0, 4.0, 5.0]), np.array([2.0, 3.0, 4.0]), 5.5, nodes=0)
    array([ True,  True, False])
    """
    room = capacity * (1.0 + CAPACITY_SLACK)
    chosen, done = branch_and_bound(values, weights, room, np.int64(nodes), 0.0)
    if done:
        return chosen
    levels = math.floor(room) + 1
    whole = values.size * levels <= CELLS
    for i in range(values.size):
        if values[i] > 0.0 and weights[i] <= room and weights[i] != math.floor(weights[i]):
            whole = False
    if not whole:
        raise ValueError(
            "the knapsack was given up: too many sets are nearly optimal, and the weights are not small integers"
        )
    return fill_levels(values, weights, levels)


def pack_rounded(values, weights, levels, nodes):
    """Return which items to take, for integer weights and a capacity of ``levels``; it never takes long.

    When the search exceeds ``nodes`` nodes, dynamic programming takes over, exact for up to 10,000 levels. For more
    levels it would take too long: then weights are rounded up to multiples of a coarser level, and the answer is the
    better of the set found so and of the best set that the search had found.

    >>> pack_rounded(np.array([3.0, 4.0, 5.0]), np.array([2.0, 3.0, 4.0]), 5, 0)
    array([ True,  True, False])
    """
    chosen, done = branch_and_bound(values, weights, levels + 0.5, np.int64(nodes), 0.0)
    if done:
        return chosen
    unit = 1 if levels <= EXACT else levels // COARSE
    coarse = np.empty(weights.size)
    for i in range(weights.size):
        coarse[i] = math.ceil(weights[i] / unit)
    other = fill_levels(values, coarse, levels // unit + 1)
    if unit > 1 and total_of(values, chosen) > total_of(values, other):
        return chosen
    return other


def total_of(values, chosen):
    """Return the total value of the chosen items."""
    total = 0.0
    for i in range(values.size):
        if chosen[i]:
            total += values[i]
    return total


def branch_and_bound(values, weights, room, nodes, floor):
    """Return the best set of items, and whether the search finished within ``nodes`` nodes.

    It looks only for sets worth more than ``floor``; if there is none, the set returned is not worth more.
    """
    chosen = np.zeros(values.size, dtype=np.bool_)
    if alike(weights) and take_worthiest(values, weights[0], room, chosen):
        return chosen, True
    order, ratio, v, w = candidates(values, weights, room)
    n = v.size - 1
    value = 0.0
    left = room
    bound = -1.0
    price = 0.0
    for k in range(n):  # greedily
        if w[k] <= left:
            chosen[order[k]] = True
            value += v[k]
            left -= w[k]
        elif bound < 0.0:  # the first item that does not fit: the price of the remaining capacity
            price = ratio[k]
            bound = value + left * price
    best_value = value if value > floor else floor
    enough = best_value * BETTER
    if bound <= enough:
        return chosen, True
    # Buying and selling capacity at this price, a set that is better than the bound minus v - price w of an item
    # contains it if that is positive, and does not if that is negative. Few items remain to be decided.
    n = np.int64(0)  # a literal 0 would have its own type, and its callee would be compiled once more
    value = 0.0
    left = room
    for k in range(v.size - 1):
        gain = v[k] - price * w[k]
        if bound - abs(gain) > enough:
            order[n] = order[k]
            ratio[n] = ratio[k]
            v[n] = v[k]
            w[n] = w[k]
            n += 1
        elif gain > 0.0:
            value += v[k]
            left -= w[k]
    ratio[n] = 0.0
    v[n] = 0.0
    w[n] = math.inf
    best, improved, done = decide(ratio, v, w, n, value, left, best_value, nodes)
    if improved:
        for i in range(values.size):
            gain = values[i] - price * weights[i]
            chosen[i] = weights[i] <= room and gain > 0.0 and bound - gain <= enough
        for k in range(n):
            chosen[order[k]] = best[k]
    return chosen, done


def decide(ratio, v, w, n, value, left, best_value, nodes):
    """Return the best set of the first n items; whether it is worth more than ``best_value``; whether it is certain.

    The items are sorted by ``ratio`` and followed by a sentinel. ``value`` is the value collected already.
    """
    better = dominators(v, w, n)
    taken = np.zeros(n, dtype=np.bool_)
    best = np.zeros(n, dtype=np.bool_)
    improved = False
    count = 0
    j = np.int64(0)
    while True:
        count += 1
        if count > nodes:
            return best, improved, False
        if relaxed(ratio, v, w, j, value, left) > best_value * BETTER:
            while w[j] <= left and (better[j] < 0 or taken[better[j]]):
                taken[j] = True
                value += v[j]
                left -= w[j]
                j += 1
            if value > best_value:
                best_value = value
                improved = True
                for k in range(n):
                    best[k] = taken[k] and k < j
            if j < n:  # the first item that cannot be taken is left out, and the bound computed again
                taken[j] = False
                j += 1
                continue
        j -= 1
        while j >= 0 and not taken[j]:
            j -= 1
        if j < 0:
            return best, improved, True
        taken[j] = False  # the other branch of the last item taken: leave it out
        value -= v[j]
        left += w[j]
        j += 1


def runner_up(values, weights, capacity, ceiling):
    """Return the largest total value below ``ceiling`` of a set that fits, -1.0 if there is none.

    >>> round(float(runner_up(np.array([0.9, 0.6, 0.4]), np.array([0.6, 0.55, 0.45]), 1.0, 0.999)), 12)
    0.9
    """
    room = capacity * (1.0 + CAPACITY_SLACK)
    _, ratio, v, w = candidates(values, weights, room)
    n = v.size - 1
    taken = np.zeros(n, dtype=np.bool_)
    best = -1.0
    value = 0.0
    left = room
    count = 0
    j = 0
    while True:
        count += 1
        if count > NODES:
            raise ValueError(
                "the search for the second best set was given up: too many sets are nearly optimal"
            )
        if relaxed(ratio, v, w, j, value, left) > best:
            while w[j] <= left:
                taken[j] = True
                value += v[j]
                left -= w[j]
                j += 1
            if j < n:
                taken[j] = False
                j += 1
                continue
            if best < value < ceiling:
                best = value
        j -= 1
        while j >= 0 and not taken[j]:
            j -= 1
        if j < 0:
            return best
        taken[j] = False
        value -= v[j]
        left += w[j]
        j += 1


def candidates(values, weights, room):
    """Return the items by decreasing value per weight; then that ratio, value and weight of those that count.

    An item counts if its value is positive and it fits. The last entry is a sentinel: it weighs more than any item.
    """
    ratio = np.empty(values.size)
    n = 0
    for i in range(values.size):
        ratio[i] = -1.0
        if values[i] > 0.0 and weights[i] <= room:
            ratio[i] = float(values[i]) / float(weights[i]) if weights[i] > 0.0 else math.inf  # may overflow
            n += 1
    order = rank_down(ratio)
    r = np.empty(n + 1)
    v = np.empty(n + 1)
    w = np.empty(n + 1)
    for k in range(n):
        r[k] = ratio[order[k]]
        v[k] = values[order[k]]
        w[k] = weights[order[k]]
    r[n] = 0.0
    v[n] = 0.0
    w[n] = math.inf
    return order, r, v, w


def dominators(v, w, n):
    """Return for each item a nearby earlier one that weighs no more and is worth no less, -1 if there is none."""
    better = np.empty(n + 1, dtype=np.int64)
    better[n] = -1
    for j in range(n):
        better[j] = -1
        # far enough back to find the last item of the same weight if there are few weights
        for i in range(j - 1, j - 41, -1):
            if i < 0:
                break
            if w[i] <= w[j] and v[i] >= v[j]:
                better[j] = i
                break
    return better


def relaxed(ratio, v, w, j, value, left):
    """Return Dantzig's bound: ``value`` plus the best of the items j, j + 1, ... if they could be divided."""
    while w[j] <= left:
        value += v[j]
        left -= w[j]
        j += 1
    return value + left * ratio[j]


def fill_levels(values, weights, levels):
    """Return the best set of items with integer weights below ``levels``, by dynamic programming."""
    n = values.size
    best = np.empty(levels)
    take = np.empty((n, levels), dtype=np.bool_)
    for level in range(levels):
        best[level] = 0.0
    for i in range(n):
        for level in range(levels):
            take[i, level] = False
        if values[i] > 0.0 and weights[i] < levels:
            weight = int(weights[i])
            for level in range(levels - 1, weight - 1, -1):
                if best[level - weight] + values[i] > best[level]:
                    best[level] = best[level - weight] + values[i]
                    take[i, level] = True
    chosen = np.zeros(n, dtype=np.bool_)
    level = levels - 1
    for i in range(n - 1, -1, -1):
        if take[i, level]:
            chosen[i] = True
            level -= int(weights[i])
    return chosen


# -- shortcuts: knapsacks that need no search


def clearly_best(values, weights, room, guess):
    """Return whether a set fits and is worth more than any other that fits, by more than rounding errors.

    Also False if the proof would take long.
    """
    value = 0.0
    weight = 0.0
    price = math.inf  # the smallest value per weight inside
    other = 0.0  # the largest outside
    for i in range(values.size):
        if guess[i]:
            value += values[i]
            weight += weights[i]
        if weights[i] > ERROR * room:
            if guess[i]:
                price = min(price, values[i] / weights[i])
            else:
                other = max(other, values[i] / weights[i])
    if value <= 0.0 or weight > room * (1.0 - ERROR) or not 0.0 < price < math.inf:
        return False
    bound = bound_at(price, values, weights, room)
    second = bound_at(other, values, weights, room)
    if second < bound:
        price = other
        bound = second
    if bound > 1000.0 * value:  # rounding errors of the bound would count
        return False
    return count_near(values, weights, room * (1.0 + ERROR), price, bound, value * (1.0 - TIE)) == 1


def bound_at(price, values, weights, room):
    """Return an upper bound on the value of a set, found by buying and selling capacity at this price."""
    bound = price * room
    for i in range(values.size):
        bound += max(0.0, values[i] - price * weights[i])
    return bound


def count_near(values, weights, room, price, bound, enough):
    """Return how many sets that fit are worth ``enough``, -1 if too many items are undecided.

    The other items are decided: a set is worth at most ``bound``, less v - price w for each item that it should have
    or should not have.
    """
    n = 0
    for i in range(values.size):
        n += bound - abs(values[i] - price * weights[i]) >= enough
    if n > OPEN:
        return -1
    total = np.empty(1 << n)  # sums over all sets of undecided items
    load = np.empty(1 << n)
    total[0] = 0.0
    load[0] = 0.0
    value = 0.0
    weight = 0.0
    sets = 1
    for i in range(values.size):
        gain = values[i] - price * weights[i]
        if bound - abs(gain) >= enough:
            for s in range(sets):
                total[sets + s] = total[s] + values[i]
                load[sets + s] = load[s] + weights[i]
            sets *= 2
        elif gain > 0.0:
            value += values[i]
            weight += weights[i]
    count = 0
    for s in range(sets):
        count += (value + total[s] >= enough) & (weight + load[s] <= room)
    return count


def alike(weights):
    """Return whether all items weigh the same."""
    for i in range(weights.size):
        if weights[i] != weights[0]:
            return False
    return weights.size > 0


def take_worthiest(values, weight, room, chosen):
    """Choose as many items of equal weight as fit, the most valuable ones; return False if other sets are about as
    good.

    The items chosen are worth more than a price, which bisection finds. No other value may be so close that rounding
    errors of a sum could outweigh the difference.
    """
    fit = 0
    left = room
    while fit < values.size and weight <= left:
        left -= weight
        fit += 1
    worthy = 0
    high = 0.0
    for i in range(values.size):
        worthy += values[i] > 0.0
        high = max(high, values[i])
    price = 0.0 if worthy <= fit else high
    if 0 < fit < worthy:
        gap = TIE * fit * high
        low = 0.0
        count = worthy
        for _ in range(30):
            price = (low + high) / 2.0
            count = 0
            for i in range(values.size):
                count += values[i] > price
            if count == fit:
                break
            if count > fit:
                low = price
            else:
                high = price
        near = 0
        for i in range(values.size):
            near += abs(values[i] - price) <= gap
        if count != fit or near > 0:
            return False
    for i in range(values.size):
        chosen[i] = values[i] > price
    return True
