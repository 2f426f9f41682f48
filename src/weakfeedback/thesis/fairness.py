"""What in the test of a claim is our own choice, and what remains true of a claim that fails.

These sentences are kept in one place so that they can be read and checked together. ``told`` adds them to the claims.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from weakfeedback.experiments.model import Claim

GENERATOR = (
    "The generator of the synthetic cascades: the one in the text does not give its table of error rates."
)
HEURISTIC = "The heuristic of Hanawal et al., which the thesis does not print: upper bounds with alpha = 1.5."
COSTS = "The costs of the sweep, which the thesis does not print."
CASCADES = "The random cascades and the counterexamples."
DEFINITION = (
    "The definition of a learnable set (the thesis prints that of a learnable instance), and the cascades."
)
STRENGTHS = "The five regularisation strengths of the synthetic classifiers, which the thesis does not print."
CLASSIFIERS = (
    "The classifiers: the thesis prints neither how their data are scaled nor how they are regularised."
)
THETA = "The parameters theta_ij of the realizable cases, which the thesis does not print."
VALUES = "The values of Q and theta: the thesis's figures do not survive in its source."
LOSSES = "The values of Q and theta, and T = 10 000: the thesis's figures do not survive in its source."
RIVALS = "CSB-ST and CSB-DT, from Verma et al. (2019), which the thesis does not print; and T = 10 000."
WIDTH = "The constant 2 of SIC-MMAB's confidence width, which is that of its authors' program."

OURS = {
    1: f"{HEURISTIC} {GENERATOR}",
    2: GENERATOR,
    3: "What a large margin is.",
    7: GENERATOR,
    8: f"{GENERATOR} The last cost of heart instance 5.",
    **dict.fromkeys((9, 10, 12, 13), f"{COSTS} {GENERATOR}"),
    4: GENERATOR,
    16: "The policy, and the values of epsilon.",
    17: DEFINITION,
    **dict.fromkeys((20, 21, 22, 23, 24), CASCADES),
    **dict.fromkeys((29, 30, 31, 32, 36, 45), STRENGTHS),
    **dict.fromkeys((33, 34, 37), CLASSIFIERS),
    35: f"{STRENGTHS} The last two costs of the sweep.",
    38: THETA,
    40: f"{THETA} Universal constants are taken as 1.",
    **dict.fromkeys((41, 44), f"{STRENGTHS} {CLASSIFIERS}"),
    43: "The probabilities of the example, which the text leaves open.",
    46: DEFINITION,
    48: "The instance.",
    49: f"{THETA} Universal constants are taken as 1.",
    **dict.fromkeys((50, 58, 59, 60, 62, 64), RIVALS),
    **dict.fromkeys((52, 53, 54, 55, 56, 57), LOSSES),
    61: "The two smaller values of epsilon.",
    69: "The instance with means near epsilon, and that of the runs.",
    74: "The policies, which are not from the thesis.",
    **dict.fromkeys((77, 78, 79, 80, 81, 82), VALUES),
    83: "The rival: confidence bounds with known thresholds.",
    102: "The instance on which all rounding goes one way.",
    **dict.fromkeys((105, 106, 110, 111, 112, 114), WIDTH),
}

REMAINS = {
    1: "Where weak dominance holds by a margin that 10 000 rounds can show, and the last arm is not optimal, the "
    "regret of both is lower than that of the heuristic, for USS-TS by far.",
    2: "Where the last arm is not optimal USS-TS is lower, in most cases by far.",
    3: "On the thesis's data, where weak dominance holds and the last arm is not optimal, USS-TS has less regret than "
    "USS-UCB.",
    5: "All error rates and all optimal arms, and weak dominance in the nine other rows.",
    16: "Near rho = 1 it takes long to find out which arm is optimal, as the proof says. But then the wrong arm "
    "costs little, and forced comparison (not USS-UCB or USS-TS) attains the rate T^(2/3) of claim 22 for the whole "
    "set, up to a factor sqrt(log T).",
    17: "Weak dominance suffices to learn. For two arms the set is maximal up to the boundary rho = 1. For any "
    "number of arms, and apart from ties, no cascade can be added in which some arm passes both tests.",
    21: "The bounds on all arms but the last; for two arms the whole theorem, with one more pull; and the corollary, "
    "regret of order log T with the smallest xi, for any number of arms.",
    22: "Forced comparison attains the rate T^(2/3) under weak dominance, up to a factor sqrt(log T). Under strong "
    "dominance the order sqrt(T log T) holds for USS-UCB with up to three arms. On each instance its regret is "
    "logarithmic in T.",
    23: "The theorem itself, which is about transitive samples.",
    24: "Under strong dominance no run contradicts it; another policy attains the rate T^(2/3) (claim 22).",
    33: "With thresholded labels, with which classifiers usually answer, it holds against all three baselines.",
    34: "With thresholded labels, with which classifiers usually answer, it holds against all three baselines.",
    46: "Weak dominance in every context suffices to learn. Where the distribution does not depend on the context, "
    "what remains of claim 17 remains here.",
    50: "Collecting losses during the search helps: if all policies use the conventions of the program of 2019, "
    "CSB-MK and CSB-DK have less regret than CSB-DT.",
    53: "From the smallest to the largest Q regret doubles, and it grows in two of three steps.",
    54: "From the largest to the smallest threshold regret grows.",
    55: "Regret varies with Q and theta wherever floor(Q / theta), the number of arms that can be served, varies.",
    56: "From the smallest to the largest Q regret grows on both instances.",
    57: "On instance II the regret of CSB-SU grows from Q = 5 to 15.",
    58: "On instance I both are as good as CSB-ST: their regret is within 5 % of its regret.",
    60: "CSB-SU needs the fewest rounds of search (claim 59).",
    62: "If all policies use the conventions of the program of 2019, both have less regret than CSB-DT.",
    64: "With the conventions of the program of 2019, which include a step of .001, CSB-DU has the largest regret "
    "of all.",
    65: "A larger search space does harm CSB-DU: its regret grows as gamma falls, and with the conventions of the "
    "program of 2019 it comes last (claim 64).",
    67: "For CSB-MK, keeping a set for 20 rounds changes the regret by less than 1 %.",
    69: "The part on CSB-SU is not contradicted. With delta = 1/T the regret of CSB-SK is logarithmic in T, though "
    "not with the best constant.",
    72: "The conclusion: inside the optimum nothing may be over- or under-estimated, apart from ties, so the "
    "instance is hopeless. Where the optimum serves all arms, the sentence is right as printed.",
    74: "The difficulty is real: with rewards, zeros alone never prove that an amount is too small, and a single "
    "search that ends for good must know how long to wait.",
    75: "W of instance 1, up to rounding.",
    77: "From the smallest to the largest Q regret falls by about half.",
    79: "With uniform rewards a smaller threshold goes with less regret over the whole sweep.",
    80: "With Bernoulli rewards it holds on both instances.",
    81: "With Bernoulli rewards the search ends sooner with more resources up to Q = 2 on NUM2 and Q = 3 on NUM3.",
    96: "DLC needs no lower bound on the gap, which Musical Chairs needs; and the two orders, as the thesis prints "
    "them, do differ by the factor.",
    97: "On e1, at the tolerance eps, DLC has less regret than Musical Chairs (claim 104), and DLC-LIX less than a "
    "tenth.",
    102: "For DLC, and for DLC-LIX with exact sums, no run contradicts it.",
    105: "DLC-LIX has far less regret than SIC-MMAB.",
    106: "DLC has more regret in the first rounds, and DLC-LIX less in the end.",
    108: "DLC sometimes misses the top N on e1; DLC-LIX with exact sums missed once in the 100 runs of the full size "
    "there, and never on the sweep.",
    109: "A wrong end does cost a constant regret in every later round.",
    111: "DLC-LIX has less regret than SIC-MMAB for every number of players.",
    112: "Collisions grow with the number of players and with the number of arms.",
    113: "The regret of DLC-LIX rises up to about K/2 and falls after it; that of DLC rises up to K/2.",
}


def told(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Return the claims in the order of their numbers, each with its sentences."""
    ordered = sorted(claims, key=lambda claim: claim.number)
    return tuple(
        dataclasses.replace(claim, ours=OURS.get(claim.number, ""), remains=REMAINS.get(claim.number, ""))
        for claim in ordered
    )
