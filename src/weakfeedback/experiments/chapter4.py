"""Chapter 4, censored allocation and network utility: every experiment, table and worded claim, as data."""

from __future__ import annotations

from weakfeedback.experiments.chapter4_claims import COMPARED, SWEPT
from weakfeedback.experiments.chapter4_experiments import EXPERIMENTS
from weakfeedback.experiments.chapter4_num import UTILITY
from weakfeedback.experiments.chapter4_properties import COMPUTED
from weakfeedback.experiments.chapter4_tables import TABLES
from weakfeedback.experiments.chapter4_theorems import PROVED
from weakfeedback.experiments.fairness import told
from weakfeedback.experiments.model import Claim

TITLE = "Censored allocation and network utility"
CLAIMS: tuple[Claim, ...] = told((*COMPARED, *SWEPT, *UTILITY, *COMPUTED, *PROVED))

__all__ = ["CLAIMS", "EXPERIMENTS", "TABLES", "TITLE"]
