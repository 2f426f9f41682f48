"""Cascades with context: contextual unsupervised sequential selection (thesis, chapter 3)."""

from typing import TYPE_CHECKING

from weakfeedback.settings.setting import exporting

if TYPE_CHECKING:
    from weakfeedback.contextual.features import PairFeatures as PairFeatures
    from weakfeedback.contextual.features import QuadraticFeatures as QuadraticFeatures
    from weakfeedback.contextual.policies.baselines import FixedArm as FixedArm
    from weakfeedback.contextual.policies.baselines import RandomArm as RandomArm
    from weakfeedback.contextual.policies.supervised import Supervised as Supervised
    from weakfeedback.contextual.policies.uss_mean import UssMean as UssMean
    from weakfeedback.contextual.policies.uss_pd import UssPd as UssPd
    from weakfeedback.contextual.policies.uss_pd_ridge import UssPdRidge as UssPdRidge
    from weakfeedback.contextual.policies.uss_pd_ts import UssPdTs as UssPdTs
    from weakfeedback.contextual.problem import ContextualProblem as ContextualProblem
    from weakfeedback.contextual.problem import RealizableProblem as RealizableProblem

_HOMES = {"features": "PairFeatures QuadraticFeatures", "problem": "ContextualProblem RealizableProblem"}
__getattr__, __dir__ = exporting(__name__, _HOMES)
