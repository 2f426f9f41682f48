"""Values that nobody should pass, and some that look right, for fuzzing."""

import datetime
import decimal
import fractions
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.rig.processes import PATIENCE

BIG = [2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(10**30)]
NUMBERS = st.one_of(
    st.integers(-5, 40),
    st.sampled_from(BIG),
    st.floats(),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1e-9, 0.5, 1.0 - 2**-53, 1.0, 1.0 + 2**-52, 1e300]),
)
SCALARS = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.complex_numbers(),
    st.sampled_from(
        [
            decimal.Decimal("0.5"),
            decimal.Decimal("NaN"),
            fractions.Fraction(1, 3),
            datetime.date(2020, 1, 1),
            object,
            object(),
            len,
            ...,
            NotImplemented,
            np.float32(0.5),
            np.int8(3),
            np.bool_(True),
            np.datetime64("NaT", "s"),
            np.nan,
            np.str_("loss"),
        ]
    ),
)


def _array(items, kind):
    try:
        with np.errstate(all="ignore"):
            return np.array(items, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        return np.array(0)


ARRAYS = st.builds(
    _array,
    st.one_of(st.lists(NUMBERS, max_size=4), st.lists(st.lists(st.integers(-2, 9), min_size=2, max_size=2))),
    st.sampled_from([float, int, bool, np.float32, np.uint8, object, str, complex]),
)
ODD = st.recursive(
    st.one_of(SCALARS, ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers(-1, 5)), inner, max_size=3),
        st.sets(st.integers(0, 5), max_size=3),
    ),
    max_leaves=6,
)
PROBABILITIES = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.3, 1.0]))
COSTS = st.lists(st.floats(0.0, 2.0), min_size=1, max_size=5).map(lambda c: np.cumsum(c).tolist())


def mostly(likely, share=8):
    """Values of ``likely``, and one in ``share`` that is odd."""
    return st.integers(1, share).flatmap(lambda n: ODD if n == share else likely)


def fuzz(examples, **arguments):
    """Run the decorated function on so many examples: always the same in the normal run, new ones in the long."""

    def decorate(check):
        profile = settings(
            max_examples=examples,
            deadline=timedelta(seconds=PATIENCE),  # a hang, even on a busy machine
            derandomize=examples < 1000,
            database=None,
            phases=[Phase.generate],  # shrinking may take minutes; add Phase.shrink to look into a failure
            suppress_health_check=list(HealthCheck),
        )
        profile(given(**arguments)(check))()

    return decorate


def sizes(normal, long):
    """Parametrise a test by its number of examples; the long run is marked slow."""
    return pytest.mark.parametrize("examples", [normal, pytest.param(long, marks=pytest.mark.slow)])
