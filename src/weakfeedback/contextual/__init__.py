"""Cascades with context: contextual unsupervised sequential selection (thesis, chapter 3)."""

from weakfeedback.contextual.baselines import FixedArm, RandomArm
from weakfeedback.contextual.features import PairFeatures, QuadraticFeatures
from weakfeedback.contextual.problem import ContextualProblem, RealizableProblem
from weakfeedback.contextual.supervised import Supervised
from weakfeedback.contextual.uss_pd import UssPd
from weakfeedback.contextual.uss_pd_ridge import UssPdRidge
from weakfeedback.contextual.uss_pd_ts import UssPdTs

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
