"""Warnings that point at a line of the user's code, however deep in the package they are raised."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1]) + os.sep  # like ``co_filename``: links are not followed


def warn_caller(words: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package from which the package was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(words, category, stacklevel=level)
