"""Shared base of the two kinds of contextual problem: contexts, features, costs, and regret per row and arm."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.contextual.features import context_table, feature_table, map_of
from weakfeedback.settings.problem import FrozenProblem, counts_table, weighted
from weakfeedback.validate import cumulative_costs, integer

if TYPE_CHECKING:
    from weakfeedback.contextual.assumptions import Assumptions

# Absolute tolerance of ties: decimal ties such as .1 + .2 and .3 must be ties, and must not count as dominance.
TIE = 1e-12
# The largest regret or error of a row is below 2**38 units: rounding one costs under 4e-12 of the largest,
# and 2**25 rounds can be added up.
UNIT_BITS = 38


class ContextRows(FrozenProblem):
    """A data set of contexts with everything known of each row; immutable."""

    setting = "contextual"

    arms: int
    costs: np.ndarray
    contexts: np.ndarray
    features: np.ndarray
    dimension: int
    feature_map: Any
    per_pair: bool
    disagreement: np.ndarray
    optimal_arms: np.ndarray
    gaps: np.ndarray
    xis: np.ndarray
    xi: float
    weak_dominance: np.ndarray
    weak_dominance_fraction: float
    weak_dominance_fraction_fixed: float
    strong_dominance_fraction: float
    best_fixed_arm: int
    _unit: float
    _regrets: np.ndarray

    def _open(self, contexts: Any, costs: Any, features: Any) -> None:
        """Store the arguments that both kinds share."""
        table = context_table("contexts", contexts)
        weights = cumulative_costs(costs)
        mapping = map_of(features, table)
        phi = np.ascontiguousarray(feature_table(mapping, table))
        per_pair = bool(getattr(mapping, "per_pair", False))
        if per_pair and getattr(mapping, "arms", weights.size) != weights.size:
            raise ValueError(f"features must be made for {weights.size} arms, got {mapping.arms}")
        self.__dict__.update(
            arms=weights.size,
            costs=weights,
            contexts=table,
            features=phi,
            dimension=phi.shape[1],
            feature_map=mapping,
            per_pair=per_pair,
        )

    def _close(self, gaps: np.ndarray, best: np.ndarray, disagreement: np.ndarray, coherent: Any) -> None:
        """Compute what follows from the regret, the optimal arm and the disagreements of every row."""
        fixed = gaps.mean(axis=0)
        fixed_arm = int(np.flatnonzero(fixed <= fixed.min() + TIE)[-1])
        xis = self._margins(best, disagreement)
        dominance = (xis > TIE) & coherent
        fixed_xis = self._margins(np.full(len(best), fixed_arm), disagreement)
        unit = _unit(gaps)
        self.__dict__.update(
            disagreement=disagreement,
            optimal_arms=best,
            gaps=gaps,
            xis=xis,
            xi=float(xis.min()),
            weak_dominance=dominance,
            weak_dominance_fraction=float(dominance.mean()),
            weak_dominance_fraction_fixed=float((fixed_xis > TIE).mean()),
            best_fixed_arm=fixed_arm,
            _unit=unit,
            _regrets=np.rint(gaps / unit).astype(np.int64),
        )

    def _margins(self, arms: np.ndarray, disagreement: np.ndarray) -> np.ndarray:
        """Return, for each row with its arm i, the smallest C_j - C_i - p_ij over j > i, infinite for the last arm."""
        later = self.costs[None, :] - self.costs[arms][:, None] - disagreement[np.arange(len(arms)), arms]
        later[np.arange(self.arms)[None, :] <= arms[:, None]] = math.inf
        found: np.ndarray = later.min(axis=1)
        return found

    @property
    def pair_dimension(self) -> int:
        """The number of features of each pair of arms."""
        return self.dimension // max(self.arms * (self.arms - 1) // 2, 1) if self.per_pair else self.dimension

    def pair_features(self, pair: int) -> np.ndarray:
        """Return Phi_ij of every row, for a pair by its number in the order (0, 1), (0, 2), ..., (1, 2), ..."""
        width = self.pair_dimension
        return self.features[:, pair * width : (pair + 1) * width] if self.per_pair else self.features

    def _row(self, row: Any) -> int:
        return integer("row", row, 0, len(self.contexts) - 1)

    def disagreement_at(self, row: Any) -> np.ndarray:
        """Return p_ij(x) for the context of a row, a K x K array."""
        return np.array(self.disagreement[self._row(row)])

    def optimal_arm_at(self, row: Any) -> int:
        """Return i*(x) for the context of a row."""
        return int(self.optimal_arms[self._row(row)])

    def xi_at(self, row: Any) -> float:
        """Return xi(x): the smallest C_j - C_i* - p_i*j(x) over j > i*, infinite if i* is the last arm."""
        return float(self.xis[self._row(row)])

    def check_assumptions(self) -> Assumptions:
        """Print and return what the theory assumes: norm of the features, kappa, lambda_Sigma, and the misfit.

        The misfit says how far the best logistic model in these features is from the true p_ij(x).
        """
        from weakfeedback.contextual.assumptions import assess

        found = assess(self)
        print(found)
        return found

    def _sums(self, counts: Any, extra: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Check counts of shape (..., K + extra) and make the measures that both kinds have."""
        table = counts_table("counts", counts, self.arms + extra)
        return table, {"regret": table[..., self.arms] * self._unit, "cost": weighted(table, self.costs)}

    def _fingerprint(self, *parts: np.ndarray) -> str:
        digest = hashlib.sha256(f"{type(self).__name__} {self.features.shape}".encode())
        for array in (self.features, self.costs, self._regrets, *parts):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(arms={self.arms}, contexts={len(self.contexts)}, dimension={self.dimension}, "
            f"weak_dominance_fraction={self.weak_dominance_fraction:.4g})"
        )


def _unit(values: np.ndarray) -> float:
    """Return a power of two, so that the largest value is less than 2**UNIT_BITS times it."""
    largest = float(np.abs(values).max())
    return 2.0 ** (math.frexp(max(largest, 1.0))[1] - UNIT_BITS)
