"""Chapter 3, unsupervised selection with context: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.chapter3_claims import SIMULATED
from weakfeedback.experiments.chapter3_experiments import EXPERIMENTS
from weakfeedback.experiments.chapter3_tables import TABLES
from weakfeedback.experiments.chapter3_theory import COMPUTED
from weakfeedback.experiments.fairness import told
from weakfeedback.experiments.model import Claim

TITLE = "Unsupervised sequential selection with context"
CLAIMS: tuple[Claim, ...] = told((*SIMULATED, *COMPUTED))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
