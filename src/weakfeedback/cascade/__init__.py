"""Cascades without labels: unsupervised sequential selection (thesis, chapter 2)."""

from weakfeedback.cascade.baselines import FixedArm, RandomArm
from weakfeedback.cascade.hanawal import HanawalHeuristic
from weakfeedback.cascade.problem import CascadeProblem
from weakfeedback.cascade.q_uss import QUss
from weakfeedback.cascade.uss_ts import UssTs
from weakfeedback.cascade.uss_ts_drift import UssTsDrift
from weakfeedback.cascade.uss_ts_joint import UssTsJoint
from weakfeedback.cascade.uss_ucb import UssUcb

__all__ = [
    "CascadeProblem",
    "FixedArm",
    "HanawalHeuristic",
    "QUss",
    "RandomArm",
    "UssTs",
    "UssTsDrift",
    "UssTsJoint",
    "UssUcb",
]
