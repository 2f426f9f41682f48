"""The hidden side of an allocation problem: draws every arm's outcome in every round, whatever the policy does."""

from weakfeedback.contract.decisions import REACH  # relative tolerance on thresholds and the budget
from weakfeedback.kernels.knapsack import pack_lightest

SPREAD = 0.1  # half the width of a uniform outcome


class AllocationWorld:
    """Outcomes X_i of all arms, and the thresholds that decide what is seen of them.

    Draws: every round, one ``u = rng.random()`` for each arm in index order. Bernoulli outcomes are 1 if u < mu_i;
    uniform ones are mu_i - 0.1 + 0.2 u, clipped to [0, 1].
    """

    def __init__(self, mu, theta, Q, reward, uniform, value):
        self.mu = mu
        self.theta = theta
        self.Q = Q
        # a reward is seen where the threshold is reached, a loss where it is not
        self.reward = bool(reward)
        self.uniform = bool(uniform)
        self.value = value  # value of the optimal allocation

    def begin(self, rng):
        """Nothing to prepare."""

    def draw(self, outcomes, rng):
        """Write the outcomes of all arms in this round."""
        for i in range(outcomes.size):
            u = rng.random()
            if self.uniform:
                outcomes[i] = min(1.0, max(0.0, self.mu[i] - SPREAD + 2.0 * SPREAD * u))
            else:
                outcomes[i] = 1.0 if u < self.mu[i] else 0.0

    def allows(self, allocation):
        """Whether these are K numbers >= 0 within the budget."""
        return affordable(allocation, self.mu.size, self.Q)

    def serves(self, i, amount):
        """Whether the amount reaches the threshold of arm i."""
        return reaches(amount, self.theta[i])

    def serve(self, allocation, served):
        """Write which arms get their threshold or more."""
        theta = self.theta
        for i in range(theta.size):
            served[i] = reaches(allocation[i], theta[i])

    def follow(self, estimate, known):
        """Whether the policy has changed its estimate; copy it into ``known``."""
        changed = False
        for i in range(estimate.size):
            if estimate[i] != known[i]:
                known[i] = estimate[i]
                changed = True
        return changed

    def settled(self, estimate):
        """Whether the optimal allocation of these estimated thresholds is optimal."""
        chosen = pack_lightest(self.mu, estimate, self.Q)
        value = 0.0
        for i in range(self.mu.size):
            amount = estimate[i] if chosen[i] else 0.0
            if reaches(amount, self.theta[i]):
                value += self.mu[i]
        return value >= self.value - REACH * max(1.0, self.value)


class GradualWorld:
    """Response curves of all arms: the mean loss or reward of each at the levels 0, ..., C.

    Draws: every round, one ``rng.random()`` for each arm in index order. An arm that gets level l has an outcome of 1
    if it is below the arm's curve at l. Amounts between two levels count as the lower one.
    """

    def __init__(self, curves, Q):
        self.curves = curves
        self.Q = Q

    def begin(self, rng):
        """Nothing to prepare."""

    def draw(self, hidden, rng):
        """Write what decides the outcomes of this round."""
        for i in range(hidden.size):
            hidden[i] = rng.random()

    def allows(self, allocation):
        """Whether these are K numbers >= 0 within the budget."""
        return affordable(allocation, self.curves.shape[0], self.Q)

    def level(self, amount):
        """Return the level that an amount reaches."""
        C = self.curves.shape[1] - 1
        return min(C, int(amount / self.Q * C * (1.0 + REACH) + REACH))

    def show(self, allocation, hidden, seen):
        """Write the outcomes, which are all seen."""
        for i in range(hidden.size):
            seen[i] = 1.0 if hidden[i] < self.curves[i, self.level(allocation[i])] else 0.0


def affordable(allocation, arms, Q):
    """Return whether these are so many numbers >= 0 within the budget."""
    if allocation.size != arms:
        return False
    total = 0.0
    for i in range(allocation.size):
        if not allocation[i] >= 0.0:  # NaN fails this, too
            return False
        total += allocation[i]
    return total <= Q * (1.0 + REACH)


def reaches(amount, theta):
    """Return whether ``amount >= theta``, to within a relative 1e-9."""
    return amount >= theta * (1.0 - REACH)
