"""Chapter 5, players without communication: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.model import Claim
from weakfeedback.thesis.chapter5 import claims, protocol, sweeps, theorems
from weakfeedback.thesis.chapter5.experiments import EXPERIMENTS
from weakfeedback.thesis.chapter5.tables import TABLES
from weakfeedback.thesis.fairness import told

TITLE = "Players without communication"
CLAIMS: tuple[Claim, ...] = told((*claims.CLAIMS, *protocol.CLAIMS, *sweeps.CLAIMS, *theorems.CLAIMS))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
