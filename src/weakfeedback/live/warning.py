"""Warnings that point at the user's own line, however deep in the package they arise."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1]) + os.sep  # as code names its files: links are not followed


def warn_caller(words: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package from which it was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(words, category, stacklevel=level)
