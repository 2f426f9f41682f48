"""Stores for the tests of the journal."""

import pytest
from tests.journal.stores import PLACES, place_of


@pytest.fixture(params=PLACES)
def place(request):
    """Where a store can be, in every dialect."""
    return place_of(request, request.param)
