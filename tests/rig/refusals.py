"""Tests of what must be refused."""

from collections.abc import Callable
from typing import Any

import pytest


def refusals(act: Callable[..., Any], *cases: tuple[Any, ...]) -> Callable[..., None]:
    """A test for each case, whose last entry is a pattern: ``act`` refuses the others with a ValueError of one line."""

    @pytest.mark.parametrize("case", cases, ids=lambda case: case[-1])
    def test(case: tuple[Any, ...]) -> None:
        *given, words = case
        with pytest.raises(ValueError, match=words) as caught:
            act(*given)
        assert "\n" not in str(caught.value)

    return test
