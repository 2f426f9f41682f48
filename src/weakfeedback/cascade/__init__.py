"""Cascades without labels: unsupervised sequential selection (thesis, chapter 2)."""

from typing import TYPE_CHECKING

from weakfeedback.settings.setting import exporting

if TYPE_CHECKING:
    from weakfeedback.cascade.numbers import NumericProblem as NumericProblem
    from weakfeedback.cascade.policies.baselines import FixedArm as FixedArm
    from weakfeedback.cascade.policies.baselines import RandomArm as RandomArm
    from weakfeedback.cascade.policies.hanawal import HanawalHeuristic as HanawalHeuristic
    from weakfeedback.cascade.policies.q_uss import QUss as QUss
    from weakfeedback.cascade.policies.uss_mean import UssMean as UssMean
    from weakfeedback.cascade.policies.uss_ts import UssTs as UssTs
    from weakfeedback.cascade.policies.uss_ts_drift import UssTsDrift as UssTsDrift
    from weakfeedback.cascade.policies.uss_ucb import UssUcb as UssUcb
    from weakfeedback.cascade.policies.uss_wd import UssWd as UssWd
    from weakfeedback.cascade.problem import CascadeProblem as CascadeProblem

__getattr__, __dir__ = exporting(__name__, {"numbers": "NumericProblem", "problem": "CascadeProblem"})
