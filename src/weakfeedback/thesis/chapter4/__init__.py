"""Chapter 4, censored allocation and network utility: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.model import Claim
from weakfeedback.thesis.chapter4 import claims, num, properties, theorems
from weakfeedback.thesis.chapter4.experiments import EXPERIMENTS
from weakfeedback.thesis.chapter4.tables import TABLES
from weakfeedback.thesis.fairness import told

TITLE = "Censored allocation and network utility"
CLAIMS: tuple[Claim, ...] = told((*claims.CLAIMS, *num.CLAIMS, *properties.CLAIMS, *theorems.CLAIMS))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
