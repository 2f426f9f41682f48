"""The slow twin of USS-PD-TS on cases computed by hand."""

import math

import numpy as np
import pytest
from tests.reference.contextual_ts import Ahead, SlowPosterior, SlowUssPdTs

ONE = np.array([1.0])


def mu(z):
    return 1 / (1 + math.exp(-z))


class Normals:
    """A generator whose normal draws are given; it has no others."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def standard_normal(self):
        return self.draws.pop(0)


def test_a_posterior_by_hand():
    model = SlowPosterior(2, 0.25)
    phi = np.array([3.0, 4.0])
    assert (model.centre(phi), model.width(phi)) == (0.0, pytest.approx(10.0))  # H = I / 4 before the first
    for label in (0, 1):
        model.observe(np.array([1.0, 0.0]), label)
    # one of two: theta = 0 there, mu' = 1/4, so H = diag(1/4 + 2/4, 1/4)
    assert model.centre(phi) == pytest.approx(0.0, abs=1e-12)
    assert model.width(phi) == pytest.approx(math.sqrt(9 / 0.75 + 16 / 0.25))
    model.observe(np.array([0.0, 2.0]), 1)
    theta = model.estimate()[1]
    assert 2 * (1 - mu(2 * theta)) == pytest.approx(0.25 * theta, abs=1e-10)
    curvature = 0.25 + 4 * mu(2 * theta) * (1 - mu(2 * theta))
    assert model.width(np.array([0.0, 1.0])) == pytest.approx(1 / math.sqrt(curvature))


def test_draws_stop_at_the_first_later_arm_that_is_not_beaten():
    # before any feedback z = scale g / sqrt(ridge) = 2 g; costs differ by .6 from arm to arm
    policy = SlowUssPdTs([0.0, 0.6, 1.2], 1, ridge=0.25, scale=1.0)
    low, high = -1.0, 1.0  # mu(-2) = .12 and mu(2) = .88
    for draws, arm in (
        ((low, low), 0),
        ((low, high), 0),  # C_3 - C_1 = 1.2
        ((high, low), 1),  # one draw for arm 1, one for arm 2
        ((high, high), 2),
    ):
        rng = Normals(*draws)
        assert policy.select(ONE, rng) == arm
        assert not rng.draws
        ahead = Ahead(Normals(*draws))
        assert policy.outcomes(ONE, ahead, 0.0) == {(arm, 2)}


def test_doubt_lets_both_happen():
    policy = SlowUssPdTs([0.0, mu(1.0), 3.0], 1, ridge=0.25, scale=1.0)
    draws = (0.5, 0.0, 0.0)  # z_12 = 1: a tie, and a tie is not accepted
    assert policy.outcomes(ONE, Ahead(Normals(*draws)), 0.0) == {(1, 2)}
    assert policy.outcomes(ONE, Ahead(Normals(*draws)), 1e-6) == {(0, 2), (1, 2)}
    # with widths wrong by a tenth, z_12 lies between .9 and 1.1
    for edge in (0.9, 1.1):
        for inside, number in ((1.0, 2), (-1.0, 1)):
            cost = mu(edge + inside * math.copysign(1e-6, 1.0 - edge))
            unsure = SlowUssPdTs([0.0, cost, 3.0], 1, ridge=0.25, scale=1.0)
            assert len(unsure.outcomes(ONE, Ahead(Normals(*draws)), 0.0, stretch=0.1)) == number


def test_one_arm_needs_no_draw():
    assert SlowUssPdTs([0.3], 2).select(np.ones(2), Normals()) == 0


def test_draws_looked_at_are_not_used_up():
    ahead = Ahead(Normals(1.0, 2.0, 3.0, 4.0))
    assert (ahead[2], ahead[0]) == (3.0, 1.0)
    ahead.use(2)
    assert ahead[0] == 3.0
    ahead.use(1)
    ahead.use(1)
    with pytest.raises(IndexError):
        _ = ahead[0]
