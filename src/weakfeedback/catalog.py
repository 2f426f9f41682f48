"""Names of policies, and how to make a policy from its name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any

from weakfeedback.adaptive.policies.agreement import Agreement
from weakfeedback.adaptive.policies.fixed_arm import FixedArm as FixedStage
from weakfeedback.adaptive.policies.thresholds import Thresholds
from weakfeedback.adaptive.policies.uss_a import UssA
from weakfeedback.adaptive.policies.uss_next import UssNext
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
from weakfeedback.cascade.policies.baselines import FixedArm, RandomArm
from weakfeedback.cascade.policies.hanawal import HanawalHeuristic
from weakfeedback.cascade.policies.q_uss import QUss
from weakfeedback.cascade.policies.uss_ts import UssTs
from weakfeedback.cascade.policies.uss_ts_drift import UssTsDrift
from weakfeedback.cascade.policies.uss_ts_joint import UssTsJoint
from weakfeedback.cascade.policies.uss_ucb import UssUcb
from weakfeedback.contextual.policies import baselines as contextual_baselines
from weakfeedback.contextual.policies.supervised import Supervised
from weakfeedback.contextual.policies.uss_pd import UssPd
from weakfeedback.contextual.policies.uss_pd_ridge import UssPdRidge
from weakfeedback.contextual.policies.uss_pd_ts import UssPdTs
from weakfeedback.multiplayer.policies.dlc import Dlc
from weakfeedback.multiplayer.policies.dlc_lix import DlcLix
from weakfeedback.multiplayer.policies.dpe1 import Dpe1
from weakfeedback.multiplayer.policies.musical_chairs import MusicalChairs
from weakfeedback.multiplayer.policies.sic_mmab import SicMmab
from weakfeedback.routing.policies.double_thompson import DoubleThompson
from weakfeedback.routing.policies.fixed_model import FixedModel
from weakfeedback.routing.policies.pay_to_compare import PayToCompare
from weakfeedback.validate import brief

POLICIES: dict[str, dict[str, type]] = {
    "cascade": {
        "USS-TS": UssTs,
        "USS-UCB": UssUcb,
        "Hanawal": HanawalHeuristic,
        "USS-TS-joint": UssTsJoint,
        "USS-TS-drift": UssTsDrift,
        "Q-USS": QUss,
        "Fixed": FixedArm,
        "Random": RandomArm,
    },
    "contextual": {
        "USS-PD": UssPd,
        "USS-PD-lambdaI": UssPdRidge,
        "USS-PD-TS": UssPdTs,
        "Supervised": Supervised,
        "Fixed": contextual_baselines.FixedArm,
        "Random": contextual_baselines.RandomArm,
    },
    "adaptive": {
        "USS-A": UssA,
        "USS-next": UssNext,
        "Agreement": Agreement,
        "Thresholds": Thresholds,
        "Fixed": FixedStage,
    },
    "routing": {
        "Pay-to-compare": PayToCompare,
        "Double-Thompson": DoubleThompson,
        "Fixed-model": FixedModel,
    },
    "multiplayer": {
        "DLC": Dlc,
        "DLC-LIX": DlcLix,
        "Musical-Chairs": MusicalChairs,
        "SIC-MMAB": SicMmab,
        "DPE1": Dpe1,
    },
    "allocation": {
        "CSB-SK": CsbSk,
        "CSB-MK": CsbMk,
        "CSB-DK": CsbMk,  # with as many thresholds as arms, which is what CsbMk takes unless told
        "CSB-SU": CsbSu,
        "CSB-DU": CsbDu,
        "NUM-SK": NumSk,
        "NUM-MK": NumMk,
        "CSB-ST": CsbSt,
        "CSB-DT": CsbDt,
        "CSB-TS": CsbTs,
        "CSB-TS-same": CsbTsSame,
        "Known": KnownThresholds,
    },
}

# What each of them is, in words that fit a line of a terminal beside the name.
IN_SHORT: dict[str, dict[str, str]] = {
    "cascade": {
        "USS-TS": "Thompson sampling of disagreements",
        "USS-UCB": "upper confidence bounds on disagreements",
        "Hanawal": "one-sided test with upper confidence bounds",
        "USS-TS-joint": "USS-TS that learns the joint law of two labels",
        "USS-TS-drift": "USS-TS for a cascade that changes with time",
        "Q-USS": "USS-TS that may buy the truth, at a price",
        "Fixed": "always stops at the same arm",
        "Random": "stops at an arm drawn at random",
    },
    "contextual": {
        "USS-PD": "upper confidence bounds, logistic regression on the context",
        "USS-PD-lambdaI": "USS-PD with one forced round only",
        "USS-PD-TS": "USS-PD with random draws in place of upper bounds",
        "Supervised": "USS-PD that is told which labels were right",
        "Fixed": "always stops at the same arm",
        "Random": "stops at an arm drawn at random",
    },
    "allocation": {
        "CSB-SK": "common threshold by binary search, Thompson sampling",
        "CSB-MK": "each arm's threshold by binary search, then a knapsack",
        "CSB-DK": "CSB-MK with as many thresholds as arms",
        "CSB-SU": "common threshold by linear search; anytime",
        "CSB-DU": "each arm's threshold by linear search; anytime",
        "NUM-SK": "CSB-SK where rewards are seen, not losses",
        "NUM-MK": "CSB-MK where rewards are seen, not losses",
        "CSB-ST": "common threshold first, means afterwards",
        "CSB-DT": "all thresholds at once with parts of the budget, then means",
        "CSB-TS": "draws thresholds and means alike; anytime",
        "CSB-TS-same": "CSB-TS for a common threshold; anytime, no parameter",
        "Known": "the thresholds are given: the floor of all others",
    },
    "adaptive": {
        "USS-A": "goes on while that is worth its price, by regressions",
        "USS-next": "goes on while the next answer is likely another one",
        "Agreement": "stops when two stages agree",
        "Thresholds": "stops when a stage is sure enough",
        "Fixed": "always stops at the same stage",
    },
    "routing": {
        "Pay-to-compare": "the cheapest by the posterior; compares while it pays",
        "Double-Thompson": "two draws, compared where they differ",
        "Fixed-model": "always the same model, alone",
    },
    "multiplayer": {
        "DLC": "the leader finds the best channels alone",
        "DLC-LIX": "DLC in which all earn while the leader explores",
        "Musical-Chairs": "random play for a fixed time, then sits down",
        "SIC-MMAB": "explores in turn, tells sums by collisions",
        "DPE1": "rotates over the best channels, only the leader explores",
    },
}

# What comes before the options, by setting; a policy may do without some of it.
FIRST: dict[str, tuple[str, ...]] = {
    "cascade": ("costs",),
    "contextual": ("costs", "dimension"),
    "routing": ("prices",),
    "adaptive": ("costs",),
    "multiplayer": ("arms",),
    "allocation": ("arms", "budget"),
}


def canonical_name(setting: str, name: str) -> str:
    """Return the name as the catalogue spells it; the case does not matter.

    >>> canonical_name("cascade", "uss-ts")
    'USS-TS'
    """
    return find_name("policy", name, POLICIES[find_name("setting", setting, POLICIES)])


def policy_class(setting: str, name: str) -> type:
    """Return the class of the policy called ``name``.

    >>> policy_class("multiplayer", "DLC-LX")
    Traceback (most recent call last):
        ...
    ValueError: policy must be one of DLC, DLC-LIX, Musical-Chairs, SIC-MMAB, DPE1, got 'DLC-LX': did you mean DLC-LIX?
    """
    known = canonical_name(setting, name)
    return POLICIES[setting.lower()][known]


def policy_name(setting: str, policy: Any) -> str | None:
    """Return the name under which the class of the object ``policy`` is known, None if it is not."""
    for name, known in POLICIES[setting].items():
        if type(policy) is known:
            return name
    return None


def option_names(setting: str, name: str) -> tuple[str, ...]:
    """Return the options of a policy: the arguments of its class but those that come first in its setting.

    >>> option_names("allocation", "csb-du")
    ('gamma', 'every')
    """
    chosen = policy_class(setting, name)
    return tuple(p for p in inspect.signature(chosen).parameters if p not in FIRST[setting.lower()])


def make_policy(setting: str, name: str, /, *first: Any, **options: Any) -> Any:
    """Return a fresh policy; ``first`` are the arguments that all policies of the setting have in common.

    They are listed in ``FIRST``, and a policy that has no use for one of them does not get it. What is left of
    them, and all options, are given by name.

    >>> make_policy("multiplayer", "dlc-lix", 5, epsilon=0.1, delta=0.05).K
    5
    >>> make_policy("contextual", "fixed", [0.1, 0.4], 10, arm=1).arm
    1
    """
    known = canonical_name(setting, name)
    chosen = POLICIES[setting.lower()][known]
    leading = FIRST[setting.lower()]
    if len(first) > len(leading):
        raise ValueError(f"{known} takes {', '.join(leading)} before its options, got {len(first)} arguments")
    parameters = inspect.signature(chosen).parameters
    given = {argument: value for argument, value in zip(leading, first) if argument in parameters}
    allowed = [parameter for parameter in parameters if parameter not in given]
    for option in options:
        if option not in allowed:
            takes = ", ".join(allowed) or "none"
            raise ValueError(f"{option} is not an option of {known}, which takes: {takes}")
    for option in allowed:
        if option not in options and parameters[option].default is inspect.Parameter.empty:
            raise ValueError(f"{known} needs the option {option}")
    return chosen(**given, **options)


def find_name(what: str, name: Any, names: Iterable[str]) -> str:
    """Return the one of the names that is meant, whatever its case; ValueError, with the nearest, if there is none."""
    known = {one.lower(): one for one in names}
    if isinstance(name, str) and name.lower() in known:
        return known[name.lower()]
    message = f"{what} must be one of {', '.join(known.values())}, got {brief(name)}"
    near = difflib.get_close_matches(name.lower(), known, n=1) if isinstance(name, str) else []
    raise ValueError(f"{message}: did you mean {known[near[0]]}?" if near else message)
