"""Chapter 2, unsupervised sequential selection: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.chapter2_claims import COMPARED, SHAPED
from weakfeedback.experiments.chapter2_experiments import EXPERIMENTS
from weakfeedback.experiments.chapter2_properties import COMPUTED
from weakfeedback.experiments.chapter2_tables import TABLES
from weakfeedback.experiments.chapter2_theorems import PROVED
from weakfeedback.experiments.fairness import told
from weakfeedback.experiments.model import Claim

TITLE = "Unsupervised sequential selection"
CLAIMS: tuple[Claim, ...] = told((*COMPARED, *SHAPED, *COMPUTED, *PROVED))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
