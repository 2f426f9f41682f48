"""What a reader should know first about the reproduction, each sentence tied to the verdicts that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HOLDS = ("reproduced", "with-reading")
FAILS = ("not-reproduced",)


@dataclass(frozen=True)
class Headline:
    """A sentence that is shown only for a run in which each of its claims has one of these outcomes."""

    words: str
    claims: tuple[int, ...]
    outcomes: tuple[str, ...]

    def true_of(self, outcomes: Mapping[int, str]) -> bool:
        """Whether a run with these outcomes, by claim number, supports the sentence."""
        return all(outcomes.get(number) in self.outcomes for number in self.claims)


# what holds, what does not, and what was unexpected; in order of presentation
HELD = (
    Headline("Without weak dominance USS-TS stays at a wrong arm, and its regret is linear.", (8, 9), HOLDS),
    Headline("Under weak dominance the first arm that passes the tests is the optimal one.", (26,), HOLDS),
    Headline("A policy that is shown the labels has less regret than USS-PD.", (31,), HOLDS),
    Headline("A problem with known thresholds is a combinatorial semi-bandit, round by round.", (68,), HOLDS),
    Headline("The regret of the allocation policies is sub-linear in all figures.", (52,), HOLDS),
    Headline(
        "DLC and DLC-LIX have fewer collisions than SIC-MMAB, and ten times fewer than Musical Chairs.",
        (86, 115),
        HOLDS,
    ),
)
FAILED = (
    Headline(
        "USS-TS is not always best: where the last arm is optimal, USS-UCB never leaves it.", (2,), FAILS
    ),
    Headline(
        "The uniform bounds of USS-UCB do not hold: there are instances with more regret.", (22,), FAILS
    ),
    Headline(
        "With the random labels that chapter 3 assumes, USS-PD does not beat its baselines; with thresholded "
        "labels it does.",
        (33, 34),
        FAILS,
    ),
    Headline("As printed, CSB-MK and CSB-DK do not have less regret than CSB-DT.", (62,), FAILS),
    Headline("DLC is not ten times better than Musical Chairs.", (97,), FAILS),
    Headline("If DLC-LIX sends rounded means, as printed, it ends too often on wrong arms.", (102,), FAILS),
)
SURPRISED = (
    Headline(
        "The instances with rho >= 1, which the thesis calls not learnable, can be learned: one policy that forces "
        "comparisons has sub-linear regret on all of them.",
        (16,),
        FAILS,
    ),
    Headline("Weak dominance is not the largest set that can be learned, from three arms on.", (17,), FAILS),
    Headline(
        "The linear search CSB-DU, which the thesis calls the slowest, is by far the fastest at the step of the "
        "text.",
        (64,),
        FAILS,
    ),
    Headline(
        "CSB-SK with the delta of its theorem is not asymptotically optimal: searches that end wrongly are never "
        "repaired, and the theorem ignores them.",
        (69,),
        FAILS,
    ),
    Headline("A row of a table contradicts another one: probably a misprinted cost.", (5,), FAILS),
)
