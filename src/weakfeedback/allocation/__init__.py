"""Dividing a budget under censored feedback: censored semi-bandits, network utility (thesis, chapter 4)."""

from weakfeedback.allocation.compiled import knapsack
from weakfeedback.allocation.policies.csb_dt import CsbDt
from weakfeedback.allocation.policies.csb_du import CsbDu
from weakfeedback.allocation.policies.csb_mk import CsbMk
from weakfeedback.allocation.policies.csb_sk import CsbSk
from weakfeedback.allocation.policies.csb_st import CsbSt
from weakfeedback.allocation.policies.csb_su import CsbSu
from weakfeedback.allocation.policies.csb_ts import CsbTs
from weakfeedback.allocation.policies.csb_ts_same import CsbTsSame
from weakfeedback.allocation.policies.known_thresholds import KnownThresholds
from weakfeedback.allocation.policies.num_mk import NumMk
from weakfeedback.allocation.policies.num_sk import NumSk
from weakfeedback.allocation.problem import AllocationProblem

__all__ = [
    "AllocationProblem",
    "CsbDt",
    "CsbDu",
    "CsbMk",
    "CsbSk",
    "CsbSt",
    "CsbSu",
    "CsbTs",
    "CsbTsSame",
    "KnownThresholds",
    "NumMk",
    "NumSk",
    "knapsack",
]
