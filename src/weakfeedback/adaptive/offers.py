"""What another promise would cost, by the comparisons that a promise remembers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from weakfeedback.adaptive.policies.promise import AFTER, BEFORE, FEWEST, TINY

OFFERS = (0.85, 0.9, 0.92, 0.95, 0.97, 0.98, 0.99)


def would_be(policy: Any, offers: Iterable[float]) -> list[tuple[float, float, float]]:
    """Return for each promise ``agree`` the share of the answers that are the same, and of the reference's money.

    It is what a fit to the comparisons in memory would choose if nothing had happened before. Empty while no model was
    compared often enough.
    """
    c, R, q = policy.c, policy.R, policy.shadow_chance(int(policy.n.sum()))
    buckets = [b for b in range(policy.n.size if policy.each else 1) if policy.n[b] > 0]
    ways = []
    for k in range(policy.K):
        if k == R or not policy.is_usable(k) or policy.comparisons[k] < FEWEST:
            continue
        before, after = policy.before or policy.ranked[k] == 0, not policy.before
        forms = [form for form, used in ((AFTER, after), (BEFORE, before)) if used]
        found = [(k, form, b, *policy.risks(form, k, b)) for form in forms for b in buckets]
        ways += [way for way in found if way[4].sum() > 0.0]
    requests = {b: float(policy.n[b]) for _, _, b, *_ in ways}
    mean = float(policy.asked_scale[: max(min(policy.t, policy.memory), 1)].mean())
    offered = []
    for agree in offers if ways else ():
        best = dict.fromkeys(requests, (0.0, 0.0))  # money saved and answers that differ, of each request
        for k, form, b, risks, weight, scale in ways:
            gain, differ = _best_prefix(
                risks, weight, scale, 1.0 - agree, q, c[k], c[R], form, policy.error_cost
            )
            best[b] = max(best[b], (gain, differ))
        total = sum(requests.values())
        saved = sum(requests[b] * gain for b, (gain, _) in best.items()) / total
        differs = sum(requests[b] * differ for b, (_, differ) in best.items()) / total
        offered.append((agree, 1.0 - differs, 1.0 - saved / (mean * c[R])))
    return offered


def _best_prefix(
    risks: np.ndarray,
    weight: np.ndarray,
    scale: np.ndarray,
    eps: float,
    q: float,
    price: float,
    dear: float,
    form: int,
    error_cost: float,
) -> tuple[float, float]:
    """Return what a request saves at the best limit, and the chance that its answer differs."""
    most = max(0.25, 5.0 * eps)
    if error_cost > 0.0:
        most = min(most, (dear - (price if form == BEFORE else 0.0)) / error_cost)
    weight = np.where(risks > most, 0.0, weight) / weight.sum()
    inside = (weight * scale).cumsum()
    d = (1.0 - q) * (weight * risks).cumsum()
    asked = price * (inside if form == BEFORE else np.ones(risks.size))
    f = np.minimum(1.0, eps / np.maximum(d, TINY)) if form == AFTER else np.ones(risks.size)
    gain = f * ((1.0 - q) * inside * dear - asked)
    gain[(risks > most) | ((form == BEFORE) & (d > eps))] = -math.inf
    at = int(gain.argmax())
    return (float(gain[at]), float(f[at] * d[at])) if gain[at] > 0.0 else (0.0, 0.0)
