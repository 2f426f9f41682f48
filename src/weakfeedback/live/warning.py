"""Warnings that point at a line of the user's code, however deep in the package they are raised."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.words import Words, are_prices_told, saving_warning

PACKAGE = str(Path(__file__).parents[1]) + os.sep  # like ``co_filename``: links are not followed


def warn_caller(words: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package from which the package was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(words, category, stacklevel=level)


def warn_of_prices(second: np.ndarray, error_cost: float, words: Words) -> None:
    """Warn if going on can never pay, not even if the first is always wrong and the second never.

    ``second`` is what the second costs more than stopping; empty if there is none.
    """
    if second.size and second[0] >= error_cost and not are_prices_told():
        after, next_one = ("the first", "the second") if words.names is None else words.names[:2]
        warn_caller(
            f"at these prices no {words.noun} after {after} can ever pay: {next_one} costs {second[0]:g}"
            f"{' more' if words.noun == 'model' else ''}, and an error no more than error_cost={error_cost:g}"
        )


def warn_of_saving(terms: Any, words: Words) -> None:
    """Warn if a promise can save nothing with some stages, or with none."""
    told = saving_warning(terms.prices, terms.promise.reference, terms.promise.least, words)
    if told is not None and not are_prices_told():
        warn_caller(told)
