"""Cascades with context: contextual unsupervised sequential selection (thesis, chapter 3)."""

from typing import TYPE_CHECKING

from weakfeedback.contextual.features import PairFeatures, QuadraticFeatures
from weakfeedback.contextual.problem import ContextualProblem, RealizableProblem
from weakfeedback.contextual.setting import SETTING

if TYPE_CHECKING:
    from weakfeedback.contextual.policies.baselines import FixedArm as FixedArm
    from weakfeedback.contextual.policies.baselines import RandomArm as RandomArm
    from weakfeedback.contextual.policies.supervised import Supervised as Supervised
    from weakfeedback.contextual.policies.uss_mean import UssMean as UssMean
    from weakfeedback.contextual.policies.uss_pd import UssPd as UssPd
    from weakfeedback.contextual.policies.uss_pd_ridge import UssPdRidge as UssPdRidge
    from weakfeedback.contextual.policies.uss_pd_ts import UssPdTs as UssPdTs

# and the policies, which are imported when first used
__all__ = [
    "ContextualProblem",
    "PairFeatures",
    "QuadraticFeatures",
    "RealizableProblem",
    *SETTING.policies.classes,
]
__getattr__, __dir__ = SETTING.policies.exported(__name__, __all__)
