"""Helpers shared by the policies of chapter 4: draws of means, coins, and allocations made from sets of arms."""

import numpy as np

from weakfeedback.kernels.loops import top_set

TINY = 1e-12  # two amounts closer than this count as equal
SLACK = 1e-9  # relative tolerance on the budget, and on "the amount reaches the threshold"


def draw_means(S, F, rng):
    """Return one draw from Beta(S_i, F_i) for each arm, in index order."""
    mu = np.empty(S.size)
    for i in range(S.size):
        mu[i] = rng.beta(S[i], F[i])
    return mu


def coin(x, rng):
    """Return 1 with probability x: the binarisation trick of Agrawal and Goyal. 0 and 1 need no draw."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    return 1.0 if rng.random() < x else 0.0


def give_top(mu, M, amount):
    """Return the allocation of ``amount`` to each of the M arms with the largest mu, ties to the smaller index."""
    chosen = top_set(mu, M)
    allocation = np.zeros(mu.size)
    for i in range(mu.size):
        if chosen[i]:
            allocation[i] = amount
    return allocation


def give_chosen(chosen, theta):
    """Return the allocation of theta_i to each chosen arm."""
    allocation = np.zeros(theta.size)
    for i in range(theta.size):
        if chosen[i]:
            allocation[i] = theta[i]
    return allocation


def weight_of(chosen, theta):
    """Return the sum of theta_i over the chosen arms, in index order."""
    total = 0.0
    for i in range(theta.size):
        if chosen[i]:
            total += theta[i]
    return total


def all_or_nothing(allocation, theta):
    """Return whether every arm got either nothing or its theta_i."""
    for i in range(theta.size):
        if allocation[i] != 0.0 and abs(allocation[i] - theta[i]) > TINY:
            return False
    return True


def count_served(allocation):
    """Return how many arms got something."""
    count = 0
    for i in range(allocation.size):
        if allocation[i] > 0.0:
            count += 1
    return count


def some_positive(allocation, observed):
    """Return whether a loss or reward was seen on an arm that got something."""
    for i in range(allocation.size):
        if allocation[i] > 0.0 and observed[i] > 0.0:
            return True
    return False
