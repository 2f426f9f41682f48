"""Chapter 2, unsupervised sequential selection: every experiment and every worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.chapter2_claims import COMPARED, SHAPED
from weakfeedback.experiments.chapter2_experiments import EXPERIMENTS
from weakfeedback.experiments.chapter2_properties import COMPUTED
from weakfeedback.experiments.chapter2_theorems import PROVED
from weakfeedback.experiments.model import Claim

CLAIMS: tuple[Claim, ...] = tuple(
    sorted((*COMPARED, *SHAPED, *COMPUTED, *PROVED), key=lambda claim: claim.number)
)

__all__ = ["CLAIMS", "EXPERIMENTS"]
