"""Chapter 3, unsupervised selection with context: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.model import Claim
from weakfeedback.thesis.chapter3 import claims, theory
from weakfeedback.thesis.chapter3.experiments import EXPERIMENTS
from weakfeedback.thesis.chapter3.tables import TABLES
from weakfeedback.thesis.fairness import told

TITLE = "Unsupervised sequential selection with context"
CLAIMS: tuple[Claim, ...] = told((*claims.CLAIMS, *theory.CLAIMS))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
