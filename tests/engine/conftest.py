"""What tests of the engine share."""

import pytest
from tests.engine._numba.memory import counted


@pytest.fixture
def balance():
    """A function that returns how many pieces of memory compiled code holds."""
    with counted() as held:
        yield held
