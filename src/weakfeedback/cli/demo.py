"""A first look: a cascade that learns without labels, policies compared on a page, a promise on real answers."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

CASCADE, COMPARISON = "first_cascade.py", "breast_cancer.toml"
SERVICES, AGREE, REQUESTS, RUNS = "shop", 0.95, 6_000, 20


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


def promised() -> str:
    """Say in money what a promise saves on answers that services really gave."""
    from weakfeedback import simulate
    from weakfeedback.adaptive import Promise, instances
    from weakfeedback.datasets.answers import load_answers

    found, problem = load_answers(SERVICES), instances.load(SERVICES)
    policy: Any = Promise(problem.costs, agree=AGREE)
    results = simulate(problem, {"Promise": policy}, horizon=REQUESTS, replications=RUNS, seed=0)
    spent, differ = (results.values("Promise", name)[:, -1].mean() for name in ("spent", "differs"))
    alone = found.prices[-1] * REQUESTS / 10_000  # prices are those of 10,000 calls
    cost = alone * spent / (problem.costs[-1] * REQUESTS)
    return (
        f"Real answers: {len(found.models)} services judged reviews. With {found.models[-1]}'s answer promised in "
        f"{AGREE:.0%} of {REQUESTS:,} requests, they cost {cost:.2f} dollars instead of {alone:.2f}: "
        f"{1 - cost / alone:.0%} less, without a label, and {differ / REQUESTS:.1%} differ."
    )
