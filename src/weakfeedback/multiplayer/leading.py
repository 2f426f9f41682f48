"""What DLC and DLC-LIX have in common: the opening, and a leader that explores to within a tolerance."""

from weakfeedback.multiplayer.kl_lucb import AdaptiveExplore, confidence
from weakfeedback.multiplayer.opening import Opening
from weakfeedback.multiplayer.options import seating
from weakfeedback.validate import MOST_ARMS, flag, limited, number, one_of


class Leading(Opening, AdaptiveExplore):
    """A player that may lead."""

    def start_leading(self, arms, epsilon, delta, tolerance, seating_rounds, alarm):
        """Check the arguments that both have, make their fields, and return K."""
        K = limited("arms", arms, 2, MOST_ARMS)
        delta = confidence(delta)
        self.start_opening(K, seating(seating_rounds, K, delta), flag("alarm", alarm))
        self.start_exploring(K, delta)
        self.epsilon = number("epsilon", epsilon, at_least=0.0)
        self.shared = one_of("tolerance", tolerance, ("eps/N", "eps")) == "eps/N"
        return K
