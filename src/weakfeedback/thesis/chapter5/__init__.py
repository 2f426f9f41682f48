"""Chapter 5, players without communication: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.model import Claim
from weakfeedback.thesis.chapter5.claims import COMPARED
from weakfeedback.thesis.chapter5.experiments import EXPERIMENTS
from weakfeedback.thesis.chapter5.protocol import PROTOCOL
from weakfeedback.thesis.chapter5.sweeps import SWEPT
from weakfeedback.thesis.chapter5.tables import TABLES
from weakfeedback.thesis.chapter5.theorems import PROVED
from weakfeedback.thesis.fairness import told

TITLE = "Players without communication"
CLAIMS: tuple[Claim, ...] = told((*COMPARED, *SWEPT, *PROTOCOL, *PROVED))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
