"""A first look: a cascade that learns without labels, and a comparison of policies with a page to open."""

from __future__ import annotations

import runpy
from pathlib import Path

CASCADE, COMPARISON = "first_cascade.py", "breast_cancer.toml"


def examples_folder() -> Path:
    """Return the folder of the examples: inside the package if it is installed, next to its sources if not."""
    package = Path(__file__).resolve().parents[1]
    places = [package / "examples", package.parents[1] / "examples"]
    for place in places:
        if (place / COMPARISON).is_file():
            return place
    raise FileNotFoundError(2, "the examples are missing: install the package again", str(places[0]))


def show_cascade() -> None:
    """Run the first example; it prints what a cascade has learned."""
    runpy.run_path(str(examples_folder() / CASCADE), run_name="__main__")
