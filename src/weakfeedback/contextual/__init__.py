"""Cascades with context: contextual unsupervised sequential selection (thesis, chapter 3)."""

from weakfeedback.contextual.features import PairFeatures, QuadraticFeatures
from weakfeedback.contextual.policies.baselines import FixedArm, RandomArm
from weakfeedback.contextual.policies.supervised import Supervised
from weakfeedback.contextual.policies.uss_pd import UssPd
from weakfeedback.contextual.policies.uss_pd_ridge import UssPdRidge
from weakfeedback.contextual.policies.uss_pd_ts import UssPdTs
from weakfeedback.contextual.problem import ContextualProblem, RealizableProblem

__all__ = [
    "ContextualProblem",
    "FixedArm",
    "PairFeatures",
    "QuadraticFeatures",
    "RandomArm",
    "RealizableProblem",
    "Supervised",
    "UssPd",
    "UssPdRidge",
    "UssPdTs",
]
