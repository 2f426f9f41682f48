"""A promise for other models than before: what is known of those that stay is kept."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from weakfeedback.adaptive.arguments import stage_costs
from weakfeedback.adaptive.policies.promise import CENTRE, Promise
from weakfeedback.contract.models import rows_of

# tables of Promise with a row per model
BY_MODEL = (
    *("calls", "call_score", "call_scored", "call_label", "call_group", "comparisons"),
    *("score", "scored", "label", "place", "D", "ranks", "ranked"),
)


def with_models(policy: Promise, costs: Any, kept: Sequence[int], reference: int) -> Promise:
    """Return the policy for other models: ``kept[k]`` is what model k was before, -1 for a new one.

    Tokens and the bound go on. Comparisons with another reference than before are dropped.
    """
    found: Any = copy.deepcopy(policy)
    found.c = stage_costs(costs)
    found.K, found.R = found.c.size, reference
    for name in BY_MODEL:
        table = getattr(found, name)
        setattr(found, name, rows_of(table, kept, np.zeros((found.K, *table.shape[1:]), table.dtype)))
    fresh = np.zeros((found.K, *found.theta[:, 0].shape))
    fresh[:, :, 0] = CENTRE
    found.theta = np.ascontiguousarray(rows_of(found.theta.swapaxes(0, 1), kept, fresh).swapaxes(0, 1))
    if kept[reference] != policy.R:
        found.comparisons[:] = 0
    found.forget_choices()
    made: Promise = found
    return made
