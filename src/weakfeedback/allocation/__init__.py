"""Dividing a budget under censored feedback: censored semi-bandits, network utility (thesis, chapter 4)."""

from typing import TYPE_CHECKING

from weakfeedback.settings.setting import exporting

if TYPE_CHECKING:
    from weakfeedback.allocation.compiled import knapsack as knapsack
    from weakfeedback.allocation.policies.csb_dt import CsbDt as CsbDt
    from weakfeedback.allocation.policies.csb_du import CsbDu as CsbDu
    from weakfeedback.allocation.policies.csb_iso import CsbIso as CsbIso
    from weakfeedback.allocation.policies.csb_mk import CsbMk as CsbMk
    from weakfeedback.allocation.policies.csb_sk import CsbSk as CsbSk
    from weakfeedback.allocation.policies.csb_st import CsbSt as CsbSt
    from weakfeedback.allocation.policies.csb_su import CsbSu as CsbSu
    from weakfeedback.allocation.policies.csb_ts import CsbTs as CsbTs
    from weakfeedback.allocation.policies.csb_ts_drift import CsbTsDrift as CsbTsDrift
    from weakfeedback.allocation.policies.csb_ts_same import CsbTsSame as CsbTsSame
    from weakfeedback.allocation.policies.known_thresholds import KnownThresholds as KnownThresholds
    from weakfeedback.allocation.policies.num_mk import NumMk as NumMk
    from weakfeedback.allocation.policies.num_sk import NumSk as NumSk
    from weakfeedback.allocation.problem import AllocationProblem as AllocationProblem

__getattr__, __dir__ = exporting(__name__, {"compiled": "knapsack", "problem": "AllocationProblem"})
