"""Chapter 5, players without communication: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.chapter5_claims import COMPARED
from weakfeedback.experiments.chapter5_experiments import EXPERIMENTS
from weakfeedback.experiments.chapter5_protocol import PROTOCOL
from weakfeedback.experiments.chapter5_sweeps import SWEPT
from weakfeedback.experiments.chapter5_tables import TABLES
from weakfeedback.experiments.chapter5_theorems import PROVED
from weakfeedback.experiments.fairness import told
from weakfeedback.experiments.model import Claim

TITLE = "Players without communication"
CLAIMS: tuple[Claim, ...] = told((*COMPARED, *SWEPT, *PROTOCOL, *PROVED))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
