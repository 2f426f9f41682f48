"""Chapter 2, unsupervised sequential selection: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.model import Claim
from weakfeedback.thesis.chapter2 import claims, properties, theorems
from weakfeedback.thesis.chapter2.experiments import EXPERIMENTS
from weakfeedback.thesis.chapter2.tables import TABLES
from weakfeedback.thesis.fairness import told

TITLE = "Unsupervised sequential selection"
CLAIMS: tuple[Claim, ...] = told((*claims.CLAIMS, *properties.CLAIMS, *theorems.CLAIMS))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
