"""Knapsacks that need no search: all weights are equal, or a guess is the answer.

The answers are those of the search, to the last bit. So there is an answer only if no other set comes so close that
rounding errors decide. Plain loops, as in ``knapsack``.
"""

import math

import numpy as np

TIE = 1e-10  # relative: sets whose values differ by less are equally good
ERROR = 1e-12  # relative tolerance on the capacity, for rounding errors
OPEN = 8  # maximum number of items for which all sets are compared with a guess


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
