"""Cascades without labels: unsupervised sequential selection (thesis, chapter 2)."""

from weakfeedback.cascade.baselines import FixedArm, RandomArm
from weakfeedback.cascade.hanawal import HanawalHeuristic
from weakfeedback.cascade.problem import CascadeProblem
from weakfeedback.cascade.uss_ts import UssTs
from weakfeedback.cascade.uss_ucb import UssUcb

__all__ = ["CascadeProblem", "FixedArm", "HanawalHeuristic", "RandomArm", "UssTs", "UssUcb"]
