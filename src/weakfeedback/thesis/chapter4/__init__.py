"""Chapter 4, censored allocation and network utility: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.model import Claim
from weakfeedback.thesis.chapter4.claims import COMPARED, SWEPT
from weakfeedback.thesis.chapter4.experiments import EXPERIMENTS
from weakfeedback.thesis.chapter4.num import UTILITY
from weakfeedback.thesis.chapter4.properties import COMPUTED
from weakfeedback.thesis.chapter4.tables import TABLES
from weakfeedback.thesis.chapter4.theorems import PROVED
from weakfeedback.thesis.fairness import told

TITLE = "Censored allocation and network utility"
CLAIMS: tuple[Claim, ...] = told((*COMPARED, *SWEPT, *UTILITY, *COMPUTED, *PROVED))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
