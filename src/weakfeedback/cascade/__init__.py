"""Cascades without labels: unsupervised sequential selection (thesis, chapter 2)."""

from weakfeedback.cascade.policies.baselines import FixedArm, RandomArm
from weakfeedback.cascade.policies.hanawal import HanawalHeuristic
from weakfeedback.cascade.policies.q_uss import QUss
from weakfeedback.cascade.policies.uss_ts import UssTs
from weakfeedback.cascade.policies.uss_ts_drift import UssTsDrift
from weakfeedback.cascade.policies.uss_ucb import UssUcb
from weakfeedback.cascade.policies.uss_wd import UssWd
from weakfeedback.cascade.problem import CascadeProblem

__all__ = [
    "CascadeProblem",
    "FixedArm",
    "HanawalHeuristic",
    "QUss",
    "RandomArm",
    "UssTs",
    "UssTsDrift",
    "UssUcb",
    "UssWd",
]
